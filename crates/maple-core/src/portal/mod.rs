//! The portal: constraints that every route of a policy must satisfy before it reaches a switch.
//!
//! # What
//!
//! [`Composition::guarded`](crate::compose::Composition::guarded) puts [`Constraint`]s around a policy. When the policy
//! has given its route, they judge it within the same run. If one is violated, the packet is dropped in place of the
//! route, and the run carries a [`Violation`], which the engine reports.
//!
//! # Why it is sound
//!
//! What a constraint asks of the packet is in the trace, and what it asks of the network is a dependency, like all that
//! f asks. A constraint about the way of a packet looks at the route's hops (`PacketHandle::hops_to_judge`). They are a
//! dependency then, and the leaf keeps exactly these hops (`Goal::Fixed`): it does not follow its plan. So when the
//! network changes, f runs again with its constraints, and no rule leads along hops that were not judged. The switch
//! drops what a violated constraint is about with the ordinary update of a leaf.
//!
//! A route never sends a packet out of the port that it came in by, unless it says so by name. Constraints judge that
//! port first as if it did, and ask for the packet's port only if that matters. So the trace says whatever the judgement
//! rests on.
//!
//! A waypoint, and a constraint of the user's, may rest on the switches between the first and the last one. The
//! controller could send packets past those, while their rules are not there. It drops them instead
//! (`Resolved::keeps_way`), and says so.
//!
//! A constraint that fails leaves open whether the route is allowed. The packet is dropped, and nothing is cached. No
//! fallback takes the place of such a packet's route.
//!
//! # Cost
//!
//! Who sends the packet is asked first: by addresses and conditions even before the policy runs, so that these tests
//! stand at the top of the tree and all leaves share them; by hardware address after it, when that mostly is known. A constraint that is about other packets asks nothing of the route, so their
//! leaves still follow their plans, and share routes.

mod constraints;
mod group;
mod judge;

use std::collections::BTreeSet;
use std::sync::Arc;

use maple_wire::Dpid;

pub(crate) use constraints::Constraints;
pub use group::{Group, Member};
pub(crate) use judge::{NO_LOOPS, guarded};

use crate::ids::Name;
use crate::network::{LinkName, Location, Scope};
use crate::trace::Source;

pub use crate::run::Violation;

/// A condition on every route of a policy. `P` is what own constraints are, as in a composition.
#[derive(Clone, Debug)]
pub struct Constraint<P> {
    text: Arc<str>,
    at: Option<Source>,
    rule: Rule<P>,
}

/// What a constraint demands.
#[derive(Clone, Debug)]
pub enum Rule<P> {
    /// A packet of `src` passes one of these switches before it is delivered to `dst`.
    Waypoint {
        /// Who sends it.
        src: Group,
        /// Who gets it.
        dst: Group,
        /// Where it must pass, each time.
        via: BTreeSet<Dpid>,
    },
    /// No packet of a member of one group is sent or delivered to a member of the other, in either direction.
    Isolate(Group, Group),
    /// No packet of these senders leaves by this port.
    Never {
        /// An edge port, or one end of a link.
        port: Location,
        /// Who sends it.
        src: Group,
    },
    /// A packet passes at most so many switches on its way to each place.
    MaxHops {
        /// The maximum number of switches.
        most: usize,
        /// Whose packets.
        of: Group,
    },
    /// No packet takes this link, or these links, in either direction.
    Avoid {
        /// The link.
        link: LinkName,
        /// Whose packets.
        of: Group,
    },
    /// A packet passes these switches only.
    OnlyWithin {
        /// The switches.
        switches: BTreeSet<Dpid>,
        /// Whose packets.
        of: Group,
    },
    /// A packet takes the links of a part of the network only, and leaves by its edge ports.
    OnlyWithinScope {
        /// The part of the network, as a slice has it.
        scope: Scope,
        /// Whose packets.
        of: Group,
    },
    /// No packet takes a link of which more is reserved than it can carry. The reservations are a table: from the end
    /// of a link that sends, as a location or a pair of numbers, to bits a second.
    NoOverload {
        /// The name of the table.
        reserved: Name,
        /// The link that counts. `None`: each.
        link: Option<LinkName>,
        /// What each link can carry, in bits a second. `None`: what its switch says.
        capacity: Option<u64>,
        /// Whose packets.
        of: Group,
    },
    /// A function of packet, route and network: the packet's [`judged_route`](crate::PacketHandle::judged_route).
    /// [`PolicyError::Violates`](crate::PolicyError::Violates) refuses the route; any answer allows it.
    Own(P),
}

impl<P> Constraint<P> {
    /// A constraint. `text` names it in reports, as its user would write it; `at` is the line that does.
    pub fn new(text: impl Into<Arc<str>>, at: Option<Source>, rule: Rule<P>) -> Constraint<P> {
        Constraint { text: text.into(), at, rule }
    }

    /// The constraint as reports name it: with its line, if that is known.
    pub fn name(&self) -> Arc<str> {
        match &self.at {
            Some(at) => format!("{} ({at})", self.text).into(),
            None => Arc::clone(&self.text),
        }
    }

    /// The function of an own constraint.
    pub fn function(&self) -> Option<&P> {
        match &self.rule {
            Rule::Own(function) => Some(function),
            _ => None,
        }
    }
}
