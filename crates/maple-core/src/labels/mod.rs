//! Labels: the edge decides, the core forwards (docs/labels.md).
//!
//! # What
//!
//! Only the ingress switch of a route matches on headers. Its rule rewrites what all copies share, pushes a *label*,
//! and forwards. A label is a VLAN id that names, at one switch, what the rest of the network does with the packet from
//! there on: a [`Suffix`] of the route. A core switch matches the label, sets the one by which the next switch knows
//! the packet, and forwards. An egress switch removes the label, applies the treatment of its ports, and lets the
//! packet out. Equal suffixes share one label. So a switch after the ingress has one rule for each label, however many
//! flows there are.
//!
//! * [`Suffix`], [`Carriage`]: the meaning of labels, and how they carry a route.
//! * [`LabelIds`]: the ids of a switch that are free. It outlives the switch's session.
//! * [`OnwardLabels`]: the labels of the next switches, as a holder keeps them.
//! * [`LabelTable`]: the labels of one switch, kept by the switch's shard.
//!
//! The *holder* of a label sends packets under it: a route at its ingress, or the label of the switch before. A holder
//! asks for a suffix ([`Acquire`]). It receives the id immediately, learns later that packets may come ([`News`]), and
//! gives the label back in the end.
//!
//! # Why it is correct
//!
//! *A label means one thing at a time.* While some rule may send packets under a label, the label has a holder. A label
//! with a holder keeps its id and its rule. A holder gives a label back only when the switch has confirmed that the
//! holder's own rule is gone. If that can't be confirmed, because the switch is gone, the label is kept for
//! [`Quarantine::unconfirmed`]. A label without holders keeps its rule for [`Quarantine::confirmed`], so that packets
//! in flight arrive, and then loses its rule. Only when that is confirmed does it give back what it holds itself. Its
//! id is not reused for another such time. Open vSwitch confirms some milliseconds before its datapath follows: the
//! times are longer than that, and nothing depends on the confirmation alone.
//!
//! *A rule that leads to a label is installed only when the label is ready*: its own rule is confirmed, and so are all
//! rules after it. So a packet always finds rules. If a switch's datapath lags, the packet comes to the controller,
//! which knows the label, and does what its rule would have done.
//!
//! *No frame from an edge port is taken for a labelled one.* The classifier sends only link ports to the table of
//! labels; if a switch has only one table, a label's rule matches its link port too. Hosts keep all their VLAN ids: a
//! label is a tag around theirs. OpenFlow 1.0 cannot push a second tag: at a 1.0 ingress the label replaces the
//! packet's tag, and the id that it replaced is part of what the label means.
//!
//! # Cost
//!
//! A flow whose labels exist costs no message to any switch but its ingress. A new label costs one rule and one message
//! each way. A labelled packet is 4 bytes longer on links.

mod label_ids;
mod label_table;
mod label_view;
mod onward;
mod suffix;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use maple_wire::{Dpid, PortNo};

pub use label_ids::{LabelRange, LabelRangeError};
pub use label_view::{LabelStage, LabelView};

pub(crate) use label_ids::{AllLabelIds, LabelIds, RehearsedLabel};
pub(crate) use label_table::{LabelKey, LabelRuleChanges, LabelTable, outline};
pub(crate) use onward::OnwardLabels;
pub(crate) use suffix::{Carriage, Suffix};

use crate::ids::{ShardId, Time};
use crate::network::Location;

/// The times for which labels and ids are kept for packets in flight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quarantine {
    /// The time after the switch has confirmed that no rule leads to the label.
    pub confirmed: Duration,
    /// The time if that could not be confirmed, because a switch is gone.
    pub unconfirmed: Duration,
}

/// The sender of packets under a label. The serial number belongs to one request, and is never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Holder {
    /// A route, with the shard of its ingress.
    Route { shard: ShardId, serial: u64, port: PortNo },
    /// A label of another switch.
    Label { switch: Dpid, serial: u64, port: PortNo },
}

/// A request for a label.
#[derive(Clone, Debug)]
pub(crate) struct Acquire {
    /// The place where packets arrive: a link port of the switch that is to have the label.
    pub at: Location,
    pub suffix: Arc<Suffix>,
    pub holder: Holder,
}

/// News for a holder about its label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// The id of the label.
    Allocated(u16),
    /// Packets may come.
    Ready,
    /// Packets may not come, even if they could before. The holder must give the label back.
    Refused(Refusal),
}

/// The reason why a label is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    /// All ids are taken.
    #[error("switch {0} has no label left")]
    NoLabel(Dpid),
    /// The switch has no capacity for the rule.
    #[error("switch {0} has no room for a label's rule")]
    Full(Dpid),
    /// The switch refused the rule.
    #[error("switch {0} refused a label's rule")]
    RuleRefused(Dpid),
    /// The switch can't match the packets that the rule would rewrite.
    #[error("switch {0} can't match the packets that it is to rewrite under a label")]
    Unmatchable(Dpid),
    /// The path to the switch crosses a segment with hosts or other switches on it.
    #[error(
        "the route crosses a plain bridge, to switch {0}, that has hosts or other switches on it (docs/networks.md)"
    )]
    Segment(Dpid),
    /// Rules of an earlier run of the controller may send packets under the label, and it meant something else then.
    #[error("switch {0} has a rule of an earlier run of the controller for the label, with another meaning")]
    Stale(Dpid),
    /// The switch has no connection to the controller, and so gets no new rule.
    #[error("switch {0} is unreachable for the controller and can't get a new label (docs/control-network.md)")]
    Unreachable(Dpid),
    /// The switch, or the link to it, is not there.
    #[error("switch {0} is not reached by the link that the route takes")]
    Gone(Dpid),
}

/// An effect that a label table, or a holder of labels, asks for.
#[derive(Clone, Debug)]
pub(crate) enum LabelEffect {
    /// Ask the switch's shard for a label.
    Ask(Acquire),
    /// Give a label of this switch back. `confirmed` says that the holder's switch has confirmed that no rule leads to
    /// it any more.
    Release { at: Dpid, holder: Holder, confirmed: bool },
    /// Send news to a holder.
    Tell(Holder, News),
    /// Call [`LabelTable::expire`] at that time.
    Wake(Time),
}
