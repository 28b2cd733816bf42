//! The guard: constraints that every route of a policy must satisfy before it reaches a switch.
//!
//! # What
//!
//! [`Composition::guarded`](crate::compose::Composition::guarded) puts [`RouteConstraint`]s around a policy. When the
//! policy has given its route, they judge it within the same run. If the route violates one, the packet is dropped, and
//! the run carries a [`Violation`], which the engine reports.
//!
//! # Why it is correct
//!
//! A constraint's questions about the packet are in the trace, and its questions about the network are dependencies,
//! like those of f. A constraint about the path of a packet reads the route's hops (`PacketHandle::hops_to_judge`).
//! They are a dependency then, and the leaf keeps exactly these hops (`Goal::Fixed`): it does not follow its plan. So
//! when the network changes, f runs again with its constraints, and no rule leads along hops that were not judged. The
//! leaf of a refused route drops its packets, and reaches the switch by an ordinary update.
//!
//! A route never sends a packet out of the port that it came in by, unless it says so by name. Constraints first judge
//! that port as if the packet left there, and ask for the packet's port only if that matters. So the trace has
//! everything that the judgement depends on.
//!
//! A waypoint, and a constraint that a user wrote, may depend on the switches between the first and the last one. While
//! the rules of these switches are missing, the controller could send packets past them. It drops them instead
//! (`Resolved::must_follow_hops`), and reports that.
//!
//! If a constraint fails, it is not known whether the route is allowed. The packet is dropped, and nothing is cached.
//! No fallback takes the place of such a packet's route.
//!
//! # Cost
//!
//! The sender of the packet is asked for first: by IP addresses and conditions even before the policy runs, so that
//! these tests are at the top of the tree and all leaves share them; by hardware address after the policy, when it
//! mostly is known. A constraint that is about other packets asks nothing of the route, so their leaves still follow
//! their plans, and share routes.

mod constraints;
mod group;
mod judge;

use std::collections::BTreeSet;
use std::sync::Arc;

use maple_wire::Dpid;

pub(crate) use constraints::RouteConstraints;
pub use group::{HostGroup, Member};
pub(crate) use judge::{NO_LOOPS, guarded};

use crate::ids::Name;
use crate::network::{LinkName, Location, Scope};
use crate::trace::Source;

pub use crate::run::Violation;

/// A condition on every route of a policy. `P` is the type of the users' own constraints, as in a composition.
#[derive(Clone, Debug)]
pub struct RouteConstraint<P> {
    text: Arc<str>,
    at: Option<Source>,
    requirement: Requirement<P>,
}

/// The demands that a constraint can make.
#[derive(Clone, Debug)]
pub enum Requirement<P> {
    /// A packet of `src` passes one of these switches before it is delivered to `dst`.
    Waypoint {
        /// The senders.
        src: HostGroup,
        /// The receivers.
        dst: HostGroup,
        /// The switches, of which each copy must pass one.
        via: BTreeSet<Dpid>,
    },
    /// No packet of a member of one group is sent or delivered to a member of the other, in either direction.
    Isolate(HostGroup, HostGroup),
    /// No packet of these senders leaves by this port.
    Never {
        /// The edge port, or one end of a link.
        port: Location,
        /// The senders.
        src: HostGroup,
    },
    /// A packet passes at most this many switches on its way to each place.
    MaxHops {
        /// The maximum number of switches.
        max: usize,
        /// The senders of the packets.
        src: HostGroup,
    },
    /// No packet takes this link, or these links, in either direction.
    Avoid {
        /// The link.
        link: LinkName,
        /// The senders of the packets.
        src: HostGroup,
    },
    /// A packet passes these switches only.
    OnlyWithin {
        /// The switches.
        switches: BTreeSet<Dpid>,
        /// The senders of the packets.
        src: HostGroup,
    },
    /// A packet takes the links of a part of the network only, and leaves by its edge ports.
    OnlyWithinScope {
        /// The part of the network, as a slice has it.
        scope: Scope,
        /// The senders of the packets.
        src: HostGroup,
    },
    /// No packet takes a link of which more is reserved than it can carry. A table holds the reservations: from the
    /// sending end of a link, as a location or a pair of numbers, to bits per second.
    NoOverload {
        /// The name of the table.
        reserved: Name,
        /// The link that is checked; `None` for each.
        link: Option<LinkName>,
        /// The capacity of each link, in bits per second; `None` for the one that its switch reports.
        capacity: Option<u64>,
        /// The senders of the packets.
        src: HostGroup,
    },
    /// A function of packet, route and network, which a user wrote. It judges the packet's
    /// [`judged_route`](crate::PacketHandle::judged_route). [`PolicyError::Violates`](crate::PolicyError::Violates)
    /// refuses the route; any answer allows it.
    Custom(P),
}

impl<P> RouteConstraint<P> {
    /// Creates a constraint. `text` names it in reports, as its user would write it; `at` is the line that states it.
    pub fn new(text: impl Into<Arc<str>>, at: Option<Source>, requirement: Requirement<P>) -> RouteConstraint<P> {
        RouteConstraint { text: text.into(), at, requirement }
    }

    /// Returns the constraint as reports name it: with its line, if that is known.
    pub fn name(&self) -> Arc<str> {
        match &self.at {
            Some(at) => format!("{} ({at})", self.text).into(),
            None => Arc::clone(&self.text),
        }
    }

    /// Returns the function of a constraint that a user wrote.
    pub fn function(&self) -> Option<&P> {
        match &self.requirement {
            Requirement::Custom(function) => Some(function),
            _ => None,
        }
    }
}
