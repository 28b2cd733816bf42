//! Events, which go into the engine, and effects, which come out.

use std::collections::BTreeSet;
use std::sync::Arc;

use maple_wire::msg::stats::{Desc, StatsReply};
use maple_wire::msg::{ErrorMsg, Features, FlowRemoved, Message, PacketIn, PortStatus};
use maple_wire::{Dpid, Instruction, Match, Port, Version};
use serde::{Deserialize, Serialize};

use super::mail::Mail;
use super::trial::{Candidate, Trial};
use super::watched::{LiveFilter, LiveNews};
use crate::ids::{LeafId, ShardId};
use crate::memory::{Surroundings, Witness};
use crate::network::{Facts, Location, OwnFrame};
use crate::report::{CounterKind, Report};
use crate::rule::Rule;
use crate::state::{Commit, LeafSelection, Write};

/// Everything that can wake the engine.
///
/// "To any one shard" means that the caller sends the event to exactly one shard, and it does not matter to which.
/// `dpid` is the switch that an event is about, `xid` the transaction id of the request that it answers, and the ends
/// `a` and `b` of a link are interchangeable.
///
/// Recordings contain events as serde writes them, except those that are skipped: whoever reads one again makes mails
/// and policies itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[allow(missing_docs, reason = "a field without a comment is what its name and its type say")]
pub enum Event {
    /// A switch has finished its handshake, and this shard serves it from now on. The engine answers with
    /// [`Effect::ReadRules`]. It sends no rule before [`Event::RulesRead`].
    SwitchUp {
        dpid: Dpid,
        version: Version,
        /// Its features reply.
        features: Features,
        /// Its description; empty if it gives none.
        description: Desc,
        /// Its ports, from the features reply (1.0) or the port description (1.3).
        ports: Vec<Port>,
        /// Whether it has bundles.
        has_bundles: bool,
    },
    /// The switch is gone, with everything at it.
    SwitchDown { dpid: Dpid },
    /// The connection to the switch has ended, but the switch is taken to go on in the network: its links, hosts,
    /// labels and rules stand. If the engine does not know its rules yet, the switch is gone instead, as after
    /// [`Event::SwitchDown`].
    SwitchUnreachable { dpid: Dpid },
    /// The switch has a connection to this shard again, and describes itself as before. Changes of its ports follow as
    /// [`Event::PortStatus`], and its rules as [`Event::RulesRead`]. The engine sends it no rule before.
    SwitchReachable { dpid: Dpid },
    /// A packet. Discovery's own packets (LLDP with our authentication code) are never given to the engine.
    PacketIn { dpid: Dpid, packet_in: PacketIn },
    /// A port was added, removed or changed.
    PortStatus { dpid: Dpid, status: PortStatus },
    /// The knowledge of an earlier run, which is presumed where nothing is known yet. To any one shard, when all these
    /// switches are up. [`Event::Restore`] for each of them follows the mail that this event causes. No rule is sent
    /// before the rules of all of them are known ([`Event::RulesRead`]).
    Presume {
        /// The knowledge of the earlier run.
        earlier: Arc<Surroundings>,
        /// The switches that will be restored.
        switches: BTreeSet<Dpid>,
    },
    /// Knowledge of a switch that has rules of an earlier run. After [`Event::Presume`] and before
    /// [`Event::RulesRead`]. Witnesses that become known later follow in another event of this kind.
    Restore {
        dpid: Dpid,
        /// The rules of the switch, if another controller knows them. The switch's own report confirms them.
        rules: Option<Vec<ReportedRule>>,
        /// The witnesses of its leaves, oldest first.
        witnesses: Vec<Witness>,
        /// The knowledge of the earlier run.
        earlier: Arc<Surroundings>,
    },
    /// A switch has removed a rule.
    FlowRemoved { dpid: Dpid, removed: FlowRemoved },
    /// A switch refused a request.
    SwitchError {
        dpid: Dpid,
        /// The transaction id of the refused request.
        xid: u32,
        error: ErrorMsg,
    },
    /// The switch has done everything that was sent before the barrier request with this id.
    BarrierReply { dpid: Dpid, xid: u32 },
    /// The answer to [`Effect::ReadRules`]: every rule in the switch's tables, including foreign ones.
    RulesRead { dpid: Dpid, rules: Vec<ReportedRule> },
    /// An answer, or a part of one, to a statistics request of the engine.
    FlowStats { dpid: Dpid, xid: u32, reply: StatsReply },
    /// A poll was not sent, because too much already waits for the switch.
    Unsent { dpid: Dpid, xid: u32 },
    /// A person wants to see the counters of a switch. The engine asks for them soon, and then once a second for some
    /// seconds.
    ShowCounters {
        dpid: Dpid,
        /// The counters to ask for.
        what: CounterKind,
    },
    /// Somebody asks for the counter of a rule. The engine answers with [`Effect::RuleCounted`].
    CountRule {
        dpid: Dpid,
        /// The number of the question, which the answer repeats.
        token: u64,
        /// The rule's table.
        table: u8,
        /// The rule, with the cookie that the switch reports.
        rule: Rule,
    },
    /// Somebody begins to watch packets as they enter. To the shard of the switch. The engine reports on the watch with
    /// [`Effect::Live`], always with this number.
    LiveBegin {
        /// The number of the watch.
        token: u64,
        /// The packets to watch.
        filter: LiveFilter,
    },
    /// Somebody still watches under this number. Without this event, a watch ends after three seconds.
    LiveGoOn(u64),
    /// Nobody watches under this number any more.
    LiveEnd(u64),
    /// Discovery saw a link between these ports. One event covers both directions, and repetitions are harmless. To any
    /// one shard.
    LinkUp { a: Location, b: Location },
    /// Discovery no longer sees the link, because it has aged. Its ports become new ports until discovery classifies
    /// them. No event is needed for links of ports that go down or of switches that disconnect. To any one shard.
    LinkDown { a: Location, b: Location },
    /// Discovery sees these ports on one segment: a plain bridge or hub joins them. Ports that are down are left out.
    /// Each port's own shard gets this event after the event that the port is up. Repetitions are harmless.
    Segment {
        /// All ports of the segment, at least three.
        ports: BTreeSet<Location>,
    },
    /// Discovery no longer sees the port on any segment. It becomes a new port until discovery classifies it. To any
    /// one shard.
    SegmentLeft { port: Location },
    /// Discovery has probed this port and found no switch behind it. To any one shard.
    PortIsEdge { port: Location },
    /// Discovery has signs of a switch behind an edge port, but no link yet. The port becomes a new port. To any one
    /// shard.
    PortIsNew { port: Location },
    /// The declarations of ports and hosts have changed. To every shard. What is known of ports and contradicts them is
    /// dropped, so discovery then reports again all that it has found.
    Declare {
        /// The number of the declaration ([`crate::Store::number_declaration`]). Shards receive declarations in any
        /// order, and the one with the highest number holds.
        number: u64,
        /// The declarations.
        facts: Arc<Facts>,
    },
    /// Sends a frame out of an edge port of a switch of this shard. The frame is lost if there is no such edge port.
    Send(OwnFrame),
    /// Withdraws the selected leaves at every shard. To any one shard.
    Invalidate(LeafSelection),
    /// Writes tracked state from outside f. To any one shard.
    Write(Vec<Write>),
    /// Carries out what a commit on the store requires, after a transaction that was committed outside f. To any one
    /// shard.
    Committed(Commit),
    /// The policy with this number, which was tried, will not be adopted.
    Abandon(u64),
    /// Asks for [`Effect::BarriersDone`] with this token, once all rules that are being removed from switches of this
    /// shard are gone.
    AwaitBarriers(u64),
    /// Only time has passed.
    Tick,
    /// A message from another shard.
    // Those that are skipped come last: serde counts them where it writes numbers of variants, not where it reads them.
    #[serde(skip)]
    Mail(Mail),
    /// Tries a policy on the witness packets of all leaves of this shard. The engine answers with [`Effect::Tried`]. It
    /// tries one policy at a time.
    #[serde(skip)]
    Try(Candidate),
    /// Replaces the policy that runs. The engine answers with [`Effect::Adopted`].
    #[serde(skip)]
    Adopt(Candidate),
}

impl Event {
    /// Returns the switch of this shard without which the event means nothing. The switch may go before the event
    /// comes.
    pub(in crate::engine) fn needs_switch(&self) -> Option<Dpid> {
        match self {
            Event::PortStatus { dpid, .. }
            | Event::FlowRemoved { dpid, .. }
            | Event::SwitchError { dpid, .. }
            | Event::BarrierReply { dpid, .. }
            | Event::RulesRead { dpid, .. }
            | Event::FlowStats { dpid, .. }
            | Event::Unsent { dpid, .. }
            | Event::ShowCounters { dpid, .. } => Some(*dpid),
            _ => None,
        }
    }
}

/// A rule that a switch reports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportedRule {
    /// Its table; 0 in OpenFlow 1.0.
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

/// Something that the engine wants done. `dpid` is the switch that it is about.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "a field without a comment is what its name and its type say")]
pub enum Effect {
    /// Send a message to a switch of this shard. The engine owns the transaction ids from
    /// [`crate::engine::Options::first_xid`] up.
    Send { dpid: Dpid, xid: u32, message: Message },
    /// Send a request that can wait. If much already waits for the switch, the caller drops the request and answers
    /// with [`Event::Unsent`].
    Poll { dpid: Dpid, xid: u32, message: Message },
    /// Ask the switch for all its rules, and answer with [`Event::RulesRead`]. The request must not overtake earlier
    /// messages.
    ReadRules { dpid: Dpid },
    /// End the connection to a switch, which connects again. It then gets another layout of its tables.
    Reconnect { dpid: Dpid },
    /// Ask a switch for its ports. Answer with [`Event::PortStatus`] for each port that differs from what was known.
    AskPorts { dpid: Dpid },
    /// Remember leaves for the next run of the controller: each leaf that came or changed, and each that has gone
    /// (`None`). Only if [`crate::engine::Options::remember`].
    Remember(Vec<(LeafId, Option<Witness>)>),
    /// Remember a switch that has disconnected, for its return to this run of the controller or the next. Only if
    /// [`crate::engine::Options::remember`].
    Departed {
        dpid: Dpid,
        /// The witnesses of its leaves, which are gone.
        leaves: Vec<(LeafId, Witness)>,
        /// The links, edge ports, hosts and labels around it, and the models of switches.
        surroundings: Surroundings,
    },
    /// Deliver this to another shard.
    Mail { to: ShardId, mail: Mail },
    /// Give this packet to listeners.
    ListenerPacket(ListenerPacket),
    /// Report on a watch.
    Live {
        /// The number of the watch.
        token: u64,
        news: LiveNews,
    },
    /// The answer to [`Event::AwaitBarriers`].
    BarriersDone(u64),
    /// The counter of a rule: the answer to [`Event::CountRule`].
    RuleCounted {
        /// The number of the question.
        token: u64,
        /// `None` if the switch did not say.
        count: Option<RuleCount>,
    },
    /// The result of a policy's trial: the answer to [`Event::Try`].
    Tried { candidate: u64, trial: Trial },
    /// The shard decides by the new policy: the answer to [`Event::Adopt`]. The messages to its switches that follow
    /// from the new policy came before this effect.
    Adopted { candidate: u64 },
    /// Report something to people.
    Report(Report),
}

/// A packet for listeners, which run alongside the policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenerPacket {
    /// The conditions of [`crate::engine::Options::listener_filters`] that it fits: bit i for the i-th condition.
    pub by: u64,
    /// The port where it came in.
    pub at: Location,
    /// The captured bytes.
    pub frame: Arc<[u8]>,
    /// Its length on the wire, in bytes.
    pub total_len: usize,
}

/// The counters of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct RuleCount {
    /// The rule's cookie.
    pub cookie: u64,
    /// The number of packets that the rule counted.
    pub packets: u64,
    /// The number of bytes of these packets.
    pub bytes: u64,
}
