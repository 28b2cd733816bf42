//! Routes: f's answer to a packet, and what it comes to at each switch.
//!
//! A [`Route`] is what f says; it may be wrong. [`Route::resolve`] checks it against the network and gives a
//! [`Resolved`]: for each switch which ports the packet leaves by. Everything that resolution looks at is a dependency
//! of the run, so a link or port that goes takes the leaf with it.

use std::collections::{BTreeMap, BTreeSet};

use maple_wire::{Dpid, Field, PortNo};

use crate::network::Hop;

/// f's answer: drop, or a tree of hops from the ingress to one or more egress ports, with header rewrites, queue and
/// meter. Build with [`Route::drop`], [`Route::flood`], [`Route::to`], [`Route::hops`], [`Route::union`] or the
/// queries of [`crate::policy::Net`].
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Route {
    branches: Vec<Branch>,
    unreachable: bool,
    meter: Option<u32>,
}

/// Places to send the packet to, all with the same treatment.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
struct Branch {
    flood: bool,
    ports: BTreeSet<PortNo>,
    hops: BTreeSet<Hop>,
    treatment: Treatment,
}

/// What is done to the packet where it leaves the network.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Treatment {
    /// Header fields to rewrite, one value a field.
    pub rewrites: BTreeMap<Field, u128>,
    /// The queue of the egress ports to use.
    pub queue: Option<u32>,
}

/// A route that can't be taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum RouteError {
    #[error("the route does not start at the ingress switch {ingress}: no hop leaves it")]
    NotAtIngress { ingress: Dpid },
    #[error("hop {0:?}: the switch is not reached from the ingress by the hops before it")]
    NotConnected(Hop),
    #[error("hop {0:?}: there is no such port")]
    NoSuchPort(Hop),
    #[error(
        "hop {hop:?} is a link to switch {next}, but the route has no hop there; \
         a route ends at edge ports (use net.shortest_path, or give the whole list of hops)"
    )]
    EndsAtLink { hop: Hop, next: Dpid },
    #[error("the route comes to switch {0} a second time")]
    Loop(Dpid),
    #[error("can't set {field}: the packet has no such field")]
    NoSuchField { field: Field },
    #[error("can't set {field} to {value:#x}: the field has {} bits", field.bits())]
    TooWide { field: Field, value: u128 },
    #[error("can't set {field}: no switch can rewrite it")]
    NotSettable { field: Field },
    #[error("routes with different rewrites or queues leave by the same switch {0}")]
    MixedTreatment(Dpid),
}

/// A checked route: what each switch does with the packet.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Resolved {
    /// The switches that send the packet on, by datapath id. A drop has none.
    pub parts: BTreeMap<Dpid, Part>,
    /// The meter that the packet passes at the ingress (OpenFlow 1.3).
    pub meter: Option<u32>,
}

/// What one switch does with a packet.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Part {
    /// The link port it arrives by; `None` at the ingress.
    pub arrives: Option<PortNo>,
    /// The links it goes on by, unchanged.
    pub links: BTreeSet<PortNo>,
    /// The edge ports it leaves by.
    pub edges: BTreeSet<PortNo>,
    /// What is done to it before it leaves by an edge port.
    pub treatment: Treatment,
}

impl Route {
    /// Sends the packet nowhere.
    pub fn drop() -> Route {
        Route::default()
    }

    /// Sends the packet nowhere because there is no way; what path queries answer then. Falsy in Python.
    pub fn unreachable() -> Route {
        Route { unreachable: true, ..Route::default() }
    }

    /// Sends the packet out of every edge port of the network but the one it came in by, along the spanning tree.
    pub fn flood() -> Route {
        Route::of(Branch { flood: true, ..Branch::default() })
    }

    /// Sends the packet out of these edge ports of the ingress switch.
    pub fn to(ports: impl IntoIterator<Item = PortNo>) -> Route {
        Route::of(Branch { ports: ports.into_iter().collect(), ..Branch::default() })
    }

    /// Sends the packet along these hops, in any order: each link port leads to a switch that has a hop too.
    pub fn hops(hops: impl IntoIterator<Item = Hop>) -> Route {
        Route::of(Branch { hops: hops.into_iter().collect(), ..Branch::default() })
    }

    /// Sends the packet along all of these routes, over each hop once: a multicast tree. It is unreachable only if
    /// all of them are. The first meter given counts.
    pub fn union(routes: impl IntoIterator<Item = Route>) -> Route {
        let mut all = Route::default();
        let (mut count, mut unreachable) = (0, 0);
        for route in routes {
            count += 1;
            unreachable += usize::from(route.unreachable);
            all.meter = all.meter.or(route.meter);
            all.branches.extend(route.branches);
        }
        all.unreachable = count > 0 && count == unreachable;
        all
    }

    /// The same route with a header field rewritten where the packet leaves the network.
    #[must_use]
    pub fn set(mut self, field: Field, value: u128) -> Route {
        self.branches.iter_mut().for_each(|b| {
            b.treatment.rewrites.insert(field, value);
        });
        self
    }

    /// The same route through this queue of the egress ports.
    #[must_use]
    pub fn queue(mut self, queue: u32) -> Route {
        self.branches.iter_mut().for_each(|b| b.treatment.queue = Some(queue));
        self
    }

    /// The same route through this meter of the ingress switch (OpenFlow 1.3).
    #[must_use]
    pub fn meter(mut self, meter: u32) -> Route {
        self.meter = Some(meter);
        self
    }

    /// Whether there was no way.
    pub fn is_unreachable(&self) -> bool {
        self.unreachable
    }

    /// Whether the packet is sent nowhere.
    pub fn is_drop(&self) -> bool {
        self.branches.iter().all(|b| !b.flood && b.ports.is_empty() && b.hops.is_empty())
    }

    /// The hops given one by one, in order; what a path query found.
    pub fn explicit_hops(&self) -> impl Iterator<Item = Hop> + '_ {
        self.branches.iter().flat_map(|b| b.hops.iter().copied())
    }

    fn of(branch: Branch) -> Route {
        Route { branches: vec![branch], ..Route::default() }
    }
}
