//! What goes into the engine and what comes out: events, effects, and mail between shards.

use std::collections::BTreeSet;
use std::sync::Arc;

use maple_wire::msg::stats::{Desc, StatsReply};
use maple_wire::msg::{ErrorMsg, Features, FlowRemoved, Message, PacketIn, PortStatus};
use maple_wire::{Dpid, Instruction, Match, Port, Version};

use super::messages::Mail;
use crate::ids::ShardId;
use crate::network::{Location, OwnFrame};
use crate::report::{Counted, Report};
use crate::state::{Commit, Selection, Write};

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
    /// A poll was not sent, as too much waits for the switch already.
    Unsent {
        /// The switch.
        dpid: Dpid,
        /// The request's transaction id.
        xid: u32,
    },
    /// Somebody wants to see what a switch has counted: it is asked soon, and for some seconds again each second.
    Watch {
        /// The switch.
        dpid: Dpid,
        /// What is to be seen.
        what: Counted,
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
    /// Discovery sees these ports on one segment: a plain bridge or hub joins them. Ports that are down are left out;
    /// each port's own shard says so, after it said that the port is up. Repetitions are harmless.
    Segment {
        /// All of them, three at least.
        ports: BTreeSet<Location>,
    },
    /// Discovery sees a port on no segment any more. It is new again until discovery says what it is. To any one shard.
    SegmentLeft {
        /// The port.
        port: Location,
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
    /// Send this frame out of an edge port of a switch of this shard; lost where the port is none, or not there.
    Send(OwnFrame),
    /// Withdraw the leaves of every shard that this selects. To any one shard.
    Invalidate(Selection),
    /// Tracked state written from outside of f. To any one shard.
    Write(Vec<Write>),
    /// What a commit on the store made necessary, for whoever commits a transaction from outside of f. To any one
    /// shard.
    Committed(Commit),
    /// Say [`Effect::BarriersDone`] with this token when all that is on its way out of the switches of this shard is gone.
    AwaitBarriers(u64),
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
    /// The same for a request that can wait: where much waits for the switch already it is not sent, and [`Event::Unsent`]
    /// is the answer.
    Poll {
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
    /// Handlers hear of this packet.
    Heard(Heard),
    /// The answer to [`Event::AwaitBarriers`].
    BarriersDone(u64),
    /// Tell people.
    Report(Report),
}

/// A packet that handlers hear of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heard {
    /// Which conditions of [`super::Options::heard`] it fits, a bit for each, the first one's the lowest.
    pub by: u64,
    /// Where it came in.
    pub at: Location,
    /// The bytes that were captured.
    pub frame: Arc<[u8]>,
    /// How many there were on the wire.
    pub total_len: usize,
}
