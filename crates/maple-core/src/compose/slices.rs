//! Slices: policies of tenants, each for packets of its own, with its own part of the network and state of its own.
//!
//! A slice's packets are those that fit one of its conditions and come in by one of its ports. No packet may belong to
//! two slices. That is checked when the slices are built, by exact logic over conditions ([`example_of_both`]), so
//! their order does not matter. `run/slice.rs` defines what a slice sees of network and state. That its routes stay in
//! it is checked with the route ([`crate::route::RouteError::NotInSlice`]).

use std::collections::BTreeSet;

use maple_wire::{Constraint, Dpid, Field, PortNo};

use super::{ComposedAnswer, Composition, PolicyNode, Running};
use crate::ids::Name;
use crate::network::{LinkName, Location, Mac, Scope};
use crate::policy::PacketHandle;
use crate::run::Observe as _;
use crate::trace::{Cond, Example, Source, example_of_both};

/// A tenant of [`Composition::slices`]: a policy, the condition on its packets, and its part of the network.
#[derive(Clone, Debug)]
pub struct Slice<P> {
    tenant: Tenant,
    policy: Composition<P>,
}

/// A slice without its policy.
#[derive(Clone, Debug)]
pub(super) struct Tenant {
    scope: Scope,
    /// The conditions, one of which a packet of the slice fits.
    only: Vec<Cond>,
}

/// The reason why slices are refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SliceError {
    /// A name that can't be the beginning of the names of tables.
    #[error("{0:?} is not a slice name: it is empty or has a slash, which stands between the names of slices")]
    Name(Name),
    /// Two slices of one name.
    #[error("two slices have the name {0:?}")]
    Twice(Name),
    /// Two slices that a packet can belong to.
    #[error(
        "the slices {:?} and {:?} overlap: {example}{} fits condition {} of {:?} and condition {} of {:?}",
        .slices[0], .slices[1], comes_in(.at.as_ref()), .conditions[0], .slices[0], .conditions[1], .slices[1]
    )]
    Overlap {
        /// The slices.
        slices: [Name; 2],
        /// The numbers of the conditions that overlap, from 1.
        conditions: [usize; 2],
        /// A packet that fits both conditions.
        example: Example,
        /// The switch where the packet comes in, if the slices have ports.
        at: Option<Dpid>,
    },
}

fn comes_in(at: Option<&Dpid>) -> String {
    at.map(|switch| format!(" at switch {switch}")).unwrap_or_default()
}

impl<P> Slice<P> {
    /// Creates a slice of all packets, with the whole network. At most one slice of this kind can exist.
    pub fn new(name: impl Into<Name>, policy: Composition<P>) -> Slice<P> {
        Slice { tenant: Tenant { scope: Scope::new(name), only: vec![Cond::default()] }, policy }
    }

    /// Returns the name of the slice.
    pub fn name(&self) -> &Name {
        self.tenant.name()
    }

    /// Returns the part of the network that the slice has.
    pub fn scope(&self) -> &Scope {
        &self.tenant.scope
    }

    /// Restricts the slice to packets that fit one of these conditions.
    #[must_use]
    pub fn only(mut self, conditions: impl IntoIterator<Item = Cond>) -> Slice<P> {
        self.tenant.only = conditions.into_iter().collect();
        self
    }

    /// Restricts the slice to these edge ports: its packets come in there, its hosts are there, and it sends to no
    /// others.
    #[must_use]
    pub fn ports(mut self, ports: impl IntoIterator<Item = Location>) -> Slice<P> {
        self.tenant.scope = self.tenant.scope.with_ports(ports);
        self
    }

    /// Restricts the slice to these hosts: it sees no others.
    #[must_use]
    pub fn hosts(mut self, hosts: impl IntoIterator<Item = Mac>) -> Slice<P> {
        self.tenant.scope = self.tenant.scope.with_hosts(hosts);
        self
    }

    /// Restricts the slice's packets to these links, in both directions.
    #[must_use]
    pub fn links(mut self, links: impl IntoIterator<Item = LinkName>) -> Slice<P> {
        self.tenant.scope = self.tenant.scope.with_links(links);
        self
    }
}

impl<P> Composition<P> {
    /// Composes slices: the slice that a packet belongs to decides, or else `otherwise`. `at` is the line that says so.
    ///
    /// # Errors
    /// [`SliceError`] if two slices have a packet or a name in common, or if a name is empty or has a slash.
    pub fn slices(
        slices: impl IntoIterator<Item = Slice<P>>,
        otherwise: Composition<P>,
        at: Option<Source>,
    ) -> Result<Composition<P>, SliceError> {
        let slices: Vec<Slice<P>> = slices.into_iter().collect();
        let mut names = BTreeSet::new();
        for name in slices.iter().map(|slice| slice.tenant.name()) {
            if name.is_empty() || name.contains('/') {
                return Err(SliceError::Name(name.clone()));
            }
            if !names.insert(name) {
                return Err(SliceError::Twice(name.clone()));
            }
        }
        for (number, slice) in slices.iter().enumerate() {
            slices[..number].iter().try_for_each(|before| before.tenant.check_disjoint(&slice.tenant))?;
        }
        let named = |slice: Slice<P>| {
            let name = slice.tenant.name().clone();
            (slice.tenant, slice.policy.named(name).0)
        };
        let tenants = slices.into_iter().map(named).collect();
        Ok(Composition(PolicyNode::Slices { tenants, at, otherwise: Box::new(otherwise.0) }))
    }
}

impl Tenant {
    fn name(&self) -> &Name {
        self.scope.name()
    }

    /// Reports whether a packet belongs to the slice.
    fn has(&self, pkt: &PacketHandle, at: Option<&Source>) -> bool {
        let is_at_one_of = |ports: &BTreeSet<Location>| {
            let here = ports_at(ports, pkt.switch());
            here.iter().any(|port| pkt.equals(Field::InPort, port.0.into(), Field::InPort.full_mask(), at.cloned()))
        };
        self.scope.ports().is_none_or(is_at_one_of) && self.only.iter().any(|cond| pkt.fits(cond, at.cloned()))
    }

    /// Checks that no packet belongs to both slices.
    ///
    /// # Errors
    /// [`SliceError::Overlap`], with an example, if one does.
    fn check_disjoint(&self, other: &Tenant) -> Result<(), SliceError> {
        let ports = match (self.scope.ports(), other.scope.ports()) {
            (Some(a), Some(b)) => Some(a.intersection(b).copied().collect::<BTreeSet<Location>>()),
            (Some(ports), None) | (None, Some(ports)) => Some(ports.clone()),
            (None, None) => None,
        };
        if ports.as_ref().is_some_and(BTreeSet::is_empty) {
            return Ok(());
        }
        for (i, a) in self.only.iter().enumerate() {
            for (j, b) in other.only.iter().enumerate() {
                let Some(example) = example_of_both(a, b) else { continue };
                let found = match &ports {
                    None => Some((example, None)),
                    Some(ports) => ports.iter().find_map(|at| Some((entering(a, b, *at)?, Some(at.switch)))),
                };
                if let Some((example, at)) = found {
                    let slices = [self.name().clone(), other.name().clone()];
                    return Err(SliceError::Overlap { slices, conditions: [i + 1, j + 1], example, at });
                }
            }
        }
        Ok(())
    }
}

/// Returns a packet that fits both conditions and comes in by a port, if there is one.
fn entering(a: &Cond, b: &Cond, at: Location) -> Option<Example> {
    let port = Cond::default().and(Constraint::exact(Field::InPort, at.port.0.into()));
    example_of_both(b, &port)?;
    // `b` allows the port, so only the constraints of `a` on it count.
    let rest = Cond {
        constraints: b.constraints.iter().filter(|c| c.field != Field::InPort).copied().collect(),
        ranges: b.ranges.iter().filter(|r| r.field != Field::InPort).copied().collect(),
    };
    let here = rest.and(Constraint::exact(Field::InPort, at.port.0.into()));
    example_of_both(a, &here)
}

fn ports_at(ports: &BTreeSet<Location>, switch: Dpid) -> Vec<PortNo> {
    let all = Location::new(switch, PortNo(0))..=Location::new(switch, PortNo(u32::MAX));
    ports.range(all).map(|at| at.port).collect()
}

impl<P> Running<'_, P> {
    /// Decides the packet by the slice that it belongs to, or by `otherwise`.
    pub(super) fn slices(
        &mut self,
        tenants: &[(Tenant, PolicyNode<P>)],
        otherwise: &PolicyNode<P>,
        at: Option<&Source>,
    ) -> ComposedAnswer {
        let Some((tenant, of)) = tenants.iter().find(|(tenant, _)| tenant.has(self.pkt, at)) else {
            return self.decide(otherwise);
        };
        let outer = self.net.enter_slice(&tenant.scope);
        let answer = self.decide(of);
        self.net.set_slice(outer);
        answer
    }
}
