//! The constraints of a guard, and the selection of those that concern a packet.
//!
//! Most constraints are about some senders. Constraints whose senders are all named by hardware address are found by
//! the packet's source, if the policy has asked for it, so the others cost nothing. One list asks for all other senders
//! except edge ports; its answer is mostly that none of them sends the packet.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::{HostGroup, Requirement, RouteConstraint};
use crate::policy::PacketHandle;
use crate::trace::CondList;

/// The constraints of a guard.
#[derive(Debug)]
pub(crate) struct RouteConstraints<P> {
    all: Vec<RouteConstraint<P>>,
    /// The places of the constraints that are only about senders with hardware addresses, by such an address.
    by_sender: FxHashMap<u128, Vec<usize>>,
    /// The places of all other constraints.
    others: Vec<usize>,
    /// The conditions on packets of senders that a constraint names by an IP address or a condition.
    named: Arc<CondList>,
}

impl<P> RouteConstraints<P> {
    /// Collects constraints. If several have the same name, a number is appended to the text of all but the first,
    /// because reports and verdicts are counted by name.
    pub fn new(constraints: impl IntoIterator<Item = RouteConstraint<P>>) -> RouteConstraints<P> {
        let mut seen: BTreeMap<Arc<str>, usize> = BTreeMap::new();
        let distinct = |constraint: RouteConstraint<P>| {
            let number = seen.entry(constraint.name()).or_default();
            *number += 1;
            match *number {
                1 => constraint,
                number => RouteConstraint { text: format!("{} #{number}", constraint.text).into(), ..constraint },
            }
        };
        let all: Vec<RouteConstraint<P>> = constraints.into_iter().map(distinct).collect();
        let (mut by_sender, mut others) = (FxHashMap::<u128, Vec<usize>>::default(), Vec::new());
        for (place, constraint) in all.iter().enumerate() {
            let senders = constraint.requirement.senders();
            let macs = senders.map(|groups| groups.into_iter().map(HostGroup::only_macs).collect::<Option<Vec<_>>>());
            let Some(macs) = macs.flatten() else {
                others.push(place);
                continue;
            };
            for mac in macs.concat() {
                let places = by_sender.entry(mac).or_default();
                if places.last() != Some(&place) {
                    places.push(place);
                }
            }
        }
        let groups = all.iter().filter_map(|constraint| constraint.requirement.senders()).flatten();
        let named = groups.flat_map(HostGroup::named_senders).flat_map(CondList::with_prerequisites).map(Arc::new);
        let named = Arc::new(CondList::new(named));
        RouteConstraints { all, by_sender, others, named }
    }

    /// Returns all constraints, in order.
    pub fn iter(&self) -> impl Iterator<Item = &RouteConstraint<P>> {
        self.all.iter()
    }

    /// Returns the constraints that may concern packets of a source, in order; all of them if the source is not known.
    pub fn for_source(&self, source: Option<u128>) -> impl Iterator<Item = &RouteConstraint<P>> {
        let everything = if source.is_none() { &self.all[..] } else { &[] };
        let own = source.and_then(|source| self.by_sender.get(&source)).map_or(&[][..], |places| &places[..]);
        let others = if source.is_none() { &[] } else { &self.others[..] };
        let (mut own, mut others) = (own.iter().peekable(), others.iter().peekable());
        let concerned = std::iter::from_fn(move || match (own.peek(), others.peek()) {
            (Some(a), Some(b)) if a > b => others.next(),
            (None, _) => others.next(),
            _ => own.next(),
        });
        everything.iter().chain(concerned.map(|place| &self.all[*place]))
    }

    /// Asks the packet, before the policy runs, whether a sender that is named by an IP address or a condition sends
    /// it. This is one question for all of them, at the top of the trace tree, where all leaves share it.
    pub fn ask_who_sends(&self, pkt: &PacketHandle) -> bool {
        !self.named.conds().is_empty() && pkt.first_of(&self.named, |_| None).is_some()
    }
}

impl<P> Requirement<P> {
    /// Returns the groups whose packets the requirement is about; `None` for all packets.
    fn senders(&self) -> Option<Vec<&HostGroup>> {
        match self {
            Requirement::Waypoint { src, .. }
            | Requirement::Never { src, .. }
            | Requirement::MaxHops { src, .. }
            | Requirement::Avoid { src, .. }
            | Requirement::OnlyWithin { src, .. }
            | Requirement::OnlyWithinScope { src, .. }
            | Requirement::NoOverload { src, .. } => Some(vec![src]),
            Requirement::Isolate(a, b) => Some(vec![a, b]),
            Requirement::Custom(_) => None,
        }
    }
}
