//! What goes into the engine and what comes out: events, effects, and mail between shards.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use maple_wire::msg::stats::{Desc, StatsReply};
use maple_wire::msg::{ErrorMsg, Features, FlowRemoved, Message, PacketIn, PortStatus};
use maple_wire::{Constraint, Dpid, Instruction, Match, Port, PortNo, Version};

use super::tags::PathTag;
use crate::network::{Location, Mac};
use crate::report::Report;
use crate::route::Part;
use crate::state::{Cell, Commit, Write};
use crate::trace::{Item, Trace};
use crate::tree::LeafId;

/// A moment: nanoseconds since any fixed point, never going back.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Time(pub u64);

impl std::ops::Add<Duration> for Time {
    type Output = Time;

    fn add(self, span: Duration) -> Time {
        Time(self.0.saturating_add(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)))
    }
}

/// A shard, from 0; it is the upper 8 bits of the ids of the leaves it owns.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct ShardId(pub u8);

impl ShardId {
    /// The shard that owns a leaf.
    pub const fn of(leaf: LeafId) -> ShardId {
        ShardId((leaf.0 >> 32) as u8)
    }
}

/// Everything that can wake the engine.
#[derive(Clone, Debug)]
pub enum Event {
    /// A switch finished its handshake and is served by this shard from now on. The engine answers with
    /// [`Effect::ReadFlows`] and sends no rule before [`Event::FlowsRead`].
    SwitchUp {
        /// The switch.
        dpid: Dpid,
        /// The version spoken.
        version: Version,
        /// Its features-reply.
        features: Features,
        /// What it says of itself; empty where it does not.
        description: Desc,
        /// Its ports, from the features-reply (1.0) or the port description (1.3).
        ports: Vec<Port>,
    },
    /// The connection to the switch is gone.
    SwitchDown {
        /// The switch.
        dpid: Dpid,
    },
    /// A packet, other than the discovery's own (LLDP with our authentication code never comes here).
    PacketIn {
        /// The switch.
        dpid: Dpid,
        /// The message.
        packet_in: PacketIn,
    },
    /// A port came, went or changed.
    PortStatus {
        /// The switch.
        dpid: Dpid,
        /// The message.
        status: PortStatus,
    },
    /// A rule is gone.
    FlowRemoved {
        /// The switch.
        dpid: Dpid,
        /// The message.
        removed: FlowRemoved,
    },
    /// A switch could not do what we asked.
    SwitchError {
        /// The switch.
        dpid: Dpid,
        /// The request's transaction id.
        xid: u32,
        /// The message.
        error: ErrorMsg,
    },
    /// Everything sent before the barrier request with this id is done.
    BarrierReply {
        /// The switch.
        dpid: Dpid,
        /// The request's transaction id.
        xid: u32,
    },
    /// The answer to [`Effect::ReadFlows`]: every rule in the switch's tables, foreign ones too.
    FlowsRead {
        /// The switch.
        dpid: Dpid,
        /// Its rules.
        flows: Vec<InstalledFlow>,
    },
    /// An answer to a statistics request of the engine's, or a part of it.
    FlowStats {
        /// The switch.
        dpid: Dpid,
        /// The request's transaction id.
        xid: u32,
        /// The message.
        reply: StatsReply,
    },
    /// Discovery saw a link between these ports. One event does for both directions; repetitions are harmless. To any
    /// one shard.
    LinkUp {
        /// One end.
        a: Location,
        /// The other.
        b: Location,
    },
    /// Discovery sees the link no more (aged). The ports are new again until discovery says what they are. To any
    /// one shard. Links of ports that go down and of switches that go need no event.
    LinkDown {
        /// One end.
        a: Location,
        /// The other.
        b: Location,
    },
    /// Discovery had its chance and found no switch behind this port. To any one shard.
    PortIsEdge {
        /// The port.
        port: Location,
    },
    /// Discovery has signs of a switch behind an edge port, but no link yet: the port is new again. To any one shard.
    PortIsNew {
        /// The port.
        port: Location,
    },
    /// A message from another shard.
    Mail(Mail),
    /// Withdraw the leaves of every shard that this selects. To any one shard.
    Invalidate(Selection),
    /// Tracked state written from outside of f. To any one shard.
    Write(Vec<Write>),
    /// What a commit on the store made necessary, for whoever commits a transaction from outside of f. To any one
    /// shard.
    Committed(Commit),
    /// Say [`Effect::Settled`] with this token when all that is on its way out of the switches of this shard is gone.
    Settle(u64),
    /// Nothing but time passed.
    Tick,
}

/// A rule that a switch says it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstalledFlow {
    /// Its table; 0 in 1.0.
    pub table_id: u8,
    /// Its priority.
    pub priority: u16,
    /// Its cookie.
    pub cookie: u64,
    /// Its match.
    pub matching: Match,
    /// Its instructions.
    pub instructions: Vec<Instruction>,
}

/// What to withdraw (the paper's `invalidate`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// Everything.
    All,
    /// Leaves whose packets can have all of these field values.
    Fields(Vec<Constraint>),
    /// Leaves whose packets can come from or go to this host.
    Host(Mac),
    /// Leaves whose packets come in by this port or whose route leaves by it.
    Port(Location),
    /// Leaves that read this cell.
    Cell(Cell),
    /// These leaves.
    Leaves(BTreeSet<LeafId>),
}

/// What the engine wants done.
#[derive(Clone, Debug)]
pub enum Effect {
    /// Send a message to a switch of this shard. Transaction ids from [`super::Options::first_xid`] up are the
    /// engine's.
    Send {
        /// The switch.
        dpid: Dpid,
        /// The transaction id.
        xid: u32,
        /// The message.
        message: Message,
    },
    /// Ask the switch for all its rules and answer with [`Event::FlowsRead`]. The request must not overtake messages
    /// sent before.
    ReadFlows {
        /// The switch.
        dpid: Dpid,
    },
    /// Hand this to another shard.
    Mail {
        /// The shard.
        to: ShardId,
        /// The message.
        mail: Mail,
    },
    /// The answer to [`Event::Settle`].
    Settled(u64),
    /// Tell people.
    Report(Report),
}

/// A message from one shard to another. Opaque: to be carried, in the order sent between any two shards, as
/// [`Event::Mail`].
#[derive(Clone, Debug)]
pub struct Mail(pub(super) Letter);

/// What a mail says.
#[derive(Clone, Debug)]
pub(super) enum Letter {
    /// Withdraw what this selects of your leaves.
    Withdraw(Selection),
    /// What these leaves of yours rest on has changed: perhaps they go, perhaps they stay.
    Reconsider(BTreeSet<LeafId>),
    /// Ports or hosts of these switches of yours changed.
    Refresh(BTreeSet<Dpid>),
    /// Put a part of a leaf into a switch of yours, and answer.
    Install(Box<Install>),
    /// What came of it.
    Answer(Answer),
    /// Take the part for packets that arrive by this port out of a switch of yours, when packets under way have had time
    /// to pass.
    Remove { leaf: LeafId, dpid: Dpid, arrives: PortNo },
    /// Send a frame out of a switch of yours.
    Emit { dpid: Dpid, part: Part, frame: Arc<[u8]> },
    /// A packet got no further than this switch, and is one of this leaf of yours.
    Stray { leaf: LeafId, dpid: Dpid, frame: Arc<[u8]> },
    /// Find out whether a host still answers at a port of yours.
    Probe { mac: Mac, at: Location, asker: ShardId },
    /// It does.
    Alive { mac: Mac, at: Location },
}

/// A transit or egress switch's part of a leaf.
#[derive(Clone, Debug)]
pub(super) struct Install {
    pub leaf: LeafId,
    /// Which attempt of the owner this is; answers to earlier ones are stale.
    pub attempt: u32,
    pub dpid: Dpid,
    /// The switch where the leaf's packets enter, and their port there if the trace asked for it.
    pub ingress: (Dpid, Option<PortNo>),
    /// What the leaf's packets have in common, without the ingress port.
    pub trace: Trace,
    /// The same as far as the ingress switch can match it: perhaps narrower. Packets that come pass this.
    pub entering: Vec<Item>,
    /// A packet of the leaf, perhaps its beginning only, and its whole length.
    pub frame: Arc<[u8]>,
    pub total_len: usize,
    pub part: Part,
    /// Whether the whole route has one egress port.
    pub unicast: bool,
    /// The tag that its packets arrive with.
    pub tag: Option<PathTag>,
}

#[derive(Clone, Debug)]
pub(super) struct Answer {
    pub leaf: LeafId,
    pub attempt: u32,
    pub dpid: Dpid,
    pub outcome: Result<(), Refusal>,
}

/// Why a part can't be put into a switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// Packets of a withdrawn leaf that went another way may still be under way.
    Draining,
    /// Another route arrives with the same headers by the same port and goes on in another way.
    Ambiguous(String),
    /// The switch has no room for it.
    Full,
    /// The switch can't do it, or is not there.
    Impossible(String),
}
