//! The engine: the deterministic state machine of one shard.
//!
//! An [`Engine`] takes a batch of [`Event`]s and the time, and gives [`Effect`]s. It does no I/O, reads no clock and
//! starts no thread. Several engines over one [`Store`] make a controller, each in a thread of its own or all in one
//! test loop. They share only the store. An engine that needs something done at another shard's switch sends a
//! [`Mail`].
//!
//! ```text
//!  packet-in ── hit: a leaf in use answers, and nothing else changes ──────────────► packet-out
//!      │
//!      └─ packet_in ─┬─ edge port ─ hosts (learn, check) ─ lookup ─┬─ leaf ── send ─► packet-out
//!                    │                                             └─ miss
//!                    │                                                 │
//!                    │                       decide (run f, commit) ─ add_leaf ─ install
//!                    │                                                 │
//!                    │                            routes ─ labels ⇄ mail to other shards
//!                    ├─ link port ── link_port (what the label says) ──────────────► packet-out
//!                    └─ new port ─── new_port (wait until discovery knows the kind)
//!
//!  switch, port, link ─ topology ─► store ─► leaves that depend on it ─ reconsider (run f again)
//!                                      └───► routes that follow a plan ─ route_changes
//!
//!  end of batch ─ flush ─ tables (compare, order) ─► flow-mods, barrier ─► held packets
//! ```
//!
//! # Where to find what
//!
//! Most files are one concern of [`Engine`], as methods. The others are parts that own their state and do not know the
//! engine. ARCHITECTURE.md has a table of the parts. In reading order:
//!
//! | concern | files |
//! | --- | --- |
//! | in and out | `context` (in which all of them work), `event`, `messages` between shards, `options`, `stats`, `histogram`, `timers`, `uses` of the store |
//! | packets | `packet_in`, `received_packet`, `hit` (the fast path), `new_port`, `link_port`, `send`, `live` (people watch) |
//! | decisions | `decide`, `waiting`, `leaf`, `leaves`, `add_leaf`, `reconsider`, `reload`, `restore`, `differences`, `comparison`, `rehearsal`, `invalidate`, `recheck` |
//! | routes and labels | `install`, `routes/`, `route_use`, `labels`, `reroute`, `route_changes`, `meters` |
//! | topology and hosts | `topology`, `unreachable`, `segments`, `declare`, `hosts/`, `host_actions`, `flaps`, `host_rules/` |
//! | tables | `switch`, `tables/`, `flush`, `classifier`, `refusals`, `backoff`, `capacity`, `eviction`, `await_barriers` |
//! | counters and views | `polls`, `rule_counts`, `measure`, `traffic`, `drops/`, `dropped`, `count_reports`, `rule_growth`, `access_hits`, `view`, `explain`, `reports` |

use std::collections::BTreeMap;
use std::sync::Arc;

use maple_wire::Dpid;
use maple_wire::msg::Message;

use crate::capabilities::Capabilities;
use crate::labels::Acquire;
use crate::network::Facts;
use crate::policy::Policy;
use crate::state::{AddressKinds, Snapshot, Store, Write};

// In and out: events, effects, options, counts, timers.
mod context;
mod event;
mod histogram;
mod messages;
mod options;
mod stats;
mod timers;
mod uses;

// Packets: from a packet-in to its answer.
mod cache;
mod hit;
mod link_port;
mod live;
mod new_port;
mod packet_in;
mod received_packet;
mod send;

// Decisions: f runs, and its answers become leaves.
mod add_leaf;
mod comparison;
mod decide;
mod differences;
mod disjoint;
mod invalidate;
mod leaf;
mod leaves;
mod proactive;
mod recheck;
mod reconsider;
mod rehearsal;
mod reload;
mod restore;
mod waiting;

// Routes and labels: how the packets of a leaf cross the network.
mod install;
mod labels;
mod meters;
mod reroute;
mod route_changes;
mod route_rules;
mod route_use;
mod routes;

// Topology and hosts: events become tracked state.
mod declare;
mod flaps;
mod host_actions;
mod host_rules;
mod hosts;
mod segments;
mod topology;
mod unreachable;

// Tables: what each switch has, and what it is to have.
mod audit;
mod await_barriers;
mod backoff;
mod capacity;
mod classifier;
mod cookies;
mod eviction;
mod flush;
mod pacing;
mod refusals;
mod switch;
mod tables;

// Counters, and views for people.
mod access_hits;
mod count_reports;
mod dropped;
mod drops;
mod explain;
mod measure;
mod polls;
mod reports;
mod rule_counts;
mod rule_growth;
mod traffic;
mod view;

pub use crate::report::Counted;
pub use crate::state::Selection;
pub use await_barriers::{BARRIER_ROUNDS, Unsettled};
pub use classifier::is_the_controllers;
pub use comparison::Comparison;
pub use cookies::OWN_COOKIES;
pub use differences::{DecidedPacket, Decision, Difference, DifferenceKind};
pub use drops::{DropCause, Dropped, KEPT_MINUTES, Origin};
pub use event::{Effect, Event, InstalledFlow, ListenerPacket};
pub use explain::Engines;
pub use histogram::Histogram;
pub use hit::{Answered, Hits, MAX_HITS};
pub use hosts::PROBE_MAC;
pub use live::{COPIES_A_SECOND, LiveAnswer, LiveFilter, LiveNews, LiveObstacle, MAX_WATCHES};
pub use messages::Mail;
pub use options::Options;
pub use polls::RuleCount;
pub use rehearsal::{EngineCopy, Rehearsal, Rehearsed, RuleDifference};
pub use reload::{Candidate, Trial};
pub use reports::ViolationKey;
pub use stats::Stats;
pub use traffic::{PortCount, Traffic};
pub use uses::{BadUses, Conductor, Due};
pub use view::{SwitchCounts, TableRule};

pub use crate::ids::{ShardId, Time};
pub use crate::labels::{LabelRange, LabelRangeError};

use context::Context;
use leaves::Leaves;
use switch::Switch;

/// One shard of the controller.
///
/// ```
/// use std::sync::Arc;
///
/// use maple_core::engine::{Engine, Event, Options, ShardId, Time};
/// use maple_core::{Net, PacketHandle, Route, Store};
///
/// let policy = |_: &PacketHandle, _: &Net| Route::flood();
/// let mut engine = Engine::new(ShardId(0), Store::new(), Arc::new(policy), Options::default());
/// let (mut events, mut effects) = (vec![Event::Tick], Vec::new());
/// engine.handle(Time(1), &mut events, &mut effects);
/// assert!(events.is_empty() && effects.is_empty());
/// ```
pub struct Engine {
    ctx: Context,
    policy: Arc<dyn Policy>,
    /// Packets that the policy decides beforehand.
    samples: proactive::Samples,
    /// The packets that the rules of the policy's access lists have decided.
    access_hits: access_hits::AccessHits,
    /// Boxed, because each switch is taken out of the map while its tables are updated.
    switches: BTreeMap<Dpid, Box<Switch>>,
    leaves: Leaves,
    routes: routes::Routes,
    hosts: hosts::Hosts,
    moves: flaps::Moves,
    /// The kinds of addresses that some leaf or query depends on.
    address_kinds: AddressKinds,
    rechecks: recheck::Rechecks,
    /// The policy that is being tried.
    trying: Option<Box<reload::Trying>>,
    /// The state in which a trial compares decisions; `None`: the newest.
    compared: Option<Arc<Snapshot>>,
    /// Witness packets that lost their leaves when the policy was adopted.
    former: Vec<received_packet::ReceivedPacket>,
    demand: measure::Demand,
    live: live::LiveWatches,

    /// Switches that turned out to have one table, each with the number of tables that it reports.
    one_table: BTreeMap<Dpid, u8>,
    waiting: waiting::Waiting,
    /// The latest time when the table of a switch with rules of an earlier run was built, or compared with these rules.
    last_built: Option<Time>,
    /// Requests for labels that came before all rules of an earlier run were known.
    early_requests: Vec<Acquire>,
    barrier_waits: await_barriers::BarrierWaits,
}

impl Engine {
    /// Creates the engine of `shard`. All shards of a controller share `store` and have equal `options`.
    pub fn new(shard: ShardId, store: Arc<Store>, policy: Arc<dyn Policy>, mut options: Options) -> Engine {
        if options.flow_mod_rate.is_some() {
            options.reroute_timeout = options.reroute_timeout.max(pacing::PACED_REROUTE_TIMEOUT);
        }
        if !options.track_hosts {
            store.know_no_hosts();
        }
        // The declarations of the first engine are those of all. Later ones come as events.
        if !store.snapshot().has_facts() && *options.facts != Facts::default() {
            let facts = Write::Facts { number: 0, facts: Arc::clone(&options.facts) };
            // Nothing depends on them yet.
            drop(store.update(|state| if state.has_facts() { Vec::new() } else { vec![facts] }));
        }
        let hosts = hosts::Hosts::new(&options);
        let leaves = Leaves::new(options.remember);
        let samples = proactive::Samples::new(policy.samples());
        let access_hits = access_hits::AccessHits::new(&*policy);
        Engine {
            ctx: Context::new(shard, store, options),
            policy,
            samples,
            access_hits,
            switches: BTreeMap::new(),
            leaves,
            routes: routes::Routes::new(shard),
            hosts,
            moves: flaps::Moves::default(),
            address_kinds: AddressKinds::default(),
            rechecks: recheck::Rechecks::default(),
            trying: None,
            compared: None,
            former: Vec::new(),
            demand: measure::Demand::default(),
            live: live::LiveWatches::default(),
            one_table: BTreeMap::new(),
            waiting: waiting::Waiting::default(),
            last_built: None,
            early_requests: Vec::new(),
            barrier_waits: await_barriers::BarrierWaits::default(),
        }
    }

    /// Handles a batch of events, which it empties, and appends the effects to `out`, in order.
    ///
    /// The rules of a switch are compiled once for the whole batch, so the packets of a batch share the cost.
    pub fn handle(&mut self, now: Time, events: &mut Vec<Event>, out: &mut Vec<Effect>) {
        self.ctx.store.begin();
        self.ctx.now = self.ctx.now.max(now);
        self.waiting.begin_batch();
        // After a standstill, what came in time is handled before the timers run.
        let stood_still = self.notice_standstill();
        if !stood_still {
            self.run_timers();
            self.recheck();
        }
        for event in events.drain(..) {
            self.on(event);
            self.read_inbox();
        }
        if stood_still {
            self.run_timers();
        }
        loop {
            self.reconsider_all();
            self.decide_misses();
            self.read_inbox();
            self.update_copied_announcements();
            self.end_moves();
            if self.waiting.has_no_misses() && self.ctx.stale.is_empty() {
                if self.ctx.dirty.is_empty() {
                    break;
                }
                self.flush_all();
            }
        }
        self.check_demand();
        if let Some(changed) = self.leaves.take_changed() {
            let witness = |id| (id, self.leaves.get(&id).map(|leaf| leaf.remembered()));
            self.ctx.out.push(Effect::Remember(changed.into_iter().map(witness).collect()));
        }
        self.withhold_from_unreachable();
        out.append(&mut self.ctx.out);
        out.append(&mut self.ctx.after);
        self.ctx.store.end();
    }

    /// Makes the next call of [`Engine::handle`] publish all leaves again ([`Effect::Remember`]), because what was
    /// published was lost.
    pub fn remember_all(&mut self) {
        self.leaves.mark_all_changed();
    }

    /// Starts recording each use of the store. `from`: the store's move count when the recording began
    /// ([`Store::attend`]).
    pub fn record(&mut self, from: u64) {
        self.ctx.store.record(from);
    }

    /// Appends to `out` the notes of the calls of [`Engine::handle`] since the last time, with their length before
    /// them. There are none before [`Engine::record`].
    pub fn take_notes(&self, out: &mut Vec<u8>) {
        self.ctx.store.take_notes(out);
    }

    /// Starts a replay of a recorded engine: each use of the store waits until it is due. `from`: the store's move
    /// count when the recording began.
    pub fn replay(&mut self, from: u64, conductor: Arc<dyn Conductor>) {
        self.ctx.store.replay(self.ctx.shard, from, conductor);
    }

    /// Ends a replay: the engine then uses the store freely, and notes nothing.
    pub fn end_replay(&mut self) {
        self.ctx.store.detach();
    }

    /// Stops recording.
    pub fn end_record(&mut self) {
        self.ctx.store.detach();
    }

    /// Gives the engine of a replay the notes of the next call. Returns when its first use is due, as a move count of
    /// the store.
    ///
    /// # Errors
    /// [`BadUses`] if the notes are damaged, or if this engine is not being replayed.
    pub fn expect(&self, notes: &[u8]) -> Result<u64, BadUses> {
        self.ctx.store.expect(notes)
    }

    /// Reports whether the last call used the store as its notes say.
    pub fn is_as_noted(&self) -> bool {
        self.ctx.store.is_as_noted()
    }

    /// Advances the transaction ids of a switch past those of `packet_outs` packet-outs, which answered recorded
    /// [`Hits`].
    pub fn skip_hits(&mut self, dpid: Dpid, packet_outs: u64) {
        if let Some(switch) = self.switches.get_mut(&dpid) {
            switch.tables.skip_xids(packet_outs);
        }
    }

    /// The counters of this shard so far.
    pub fn stats(&self) -> Stats {
        let rules = self.switches.values().map(|switch| switch.tables.count(None) as u64).sum();
        let labels = self.switches.values().map(|switch| switch.labels.len() as u64).sum();
        let routes = self.routes.len() as u64;
        Stats { leaves: self.leaves.len() as u64, rules, labels, routes, ..self.ctx.stats }
    }

    fn on(&mut self, event: Event) {
        match event {
            Event::SwitchUp { dpid, version, features, description, ports, has_bundles } => {
                let mut capabilities =
                    Capabilities::of(version, &features).described(&description).bundles(has_bundles);
                if self.one_table.get(&dpid) == Some(&capabilities.tables) {
                    capabilities.tables = 1;
                }
                self.switch_up(dpid, capabilities, &ports);
            }
            Event::SwitchDown { dpid } => self.switch_down(dpid),
            Event::SwitchUnreachable { dpid } => self.switch_unreachable(dpid),
            Event::SwitchReachable { dpid } => self.switch_reachable(dpid),
            Event::PacketIn { dpid, packet_in } => self.packet_in(dpid, packet_in),
            Event::PortStatus { dpid, status } => self.port_status(dpid, &status),
            Event::FlowRemoved { dpid, removed } => self.flow_removed(dpid, &removed),
            Event::SwitchError { dpid, xid, error } => self.switch_error(dpid, xid, &error),
            Event::BarrierReply { dpid, xid } => self.barrier_reply(dpid, xid),
            Event::FlowsRead { dpid, flows } => self.flows_read(dpid, flows),
            Event::Presume { earlier, switches } => self.presume(&earlier, switches),
            Event::Restore { dpid, flows, witnesses, earlier } => self.restore(dpid, flows, witnesses, &earlier),
            Event::FlowStats { dpid, xid, reply } => self.flow_stats(dpid, xid, reply),
            Event::LinkUp { a, b } => self.link_up(a, b),
            Event::LinkDown { a, b } => self.link_down(a, b),
            Event::Segment { ports } => self.segment(&ports),
            Event::SegmentLeft { port } => self.segment_left(port),
            Event::PortIsEdge { port } => self.port_is_edge(port),
            Event::PortIsNew { port } => self.port_is_new(port),
            Event::Declare { number, facts } => self.declare(number, &facts),
            Event::Mail(mail) => self.ctx.inbox.push_back(mail.message),
            Event::Send(own) => self.send_listener_frame(&own),
            Event::Invalidate(selection) => self.invalidate(&selection),
            Event::Write(writes) => {
                let commit = self.ctx.store.update(|_| writes);
                self.apply_commit(commit);
            }
            Event::Committed(commit) => self.apply_commit(commit),
            Event::Watch { dpid, what } => self.watch(dpid, what),
            Event::CountRule { dpid, token, table, rule } => self.count_rule(dpid, token, table, &rule),
            Event::Unsent { dpid, xid } => self.poll_unsent(dpid, xid),
            Event::Try(candidate) => self.try_policy(candidate),
            Event::Adopt(candidate) => self.adopt(candidate),
            Event::Abandon(number) => self.abandon(number),
            Event::LiveBegin { token, filter } => self.begin_live(token, filter),
            Event::LiveGoOn(token) => self.go_on_live(token),
            Event::LiveEnd(token) => self.end_live(token),
            Event::AwaitBarriers(token) => self.await_all_barriers(token),
            Event::Tick => {}
        }
    }

    fn effect(&mut self, dpid: Dpid, message: Message) -> Option<Effect> {
        let xid = self.switches.get_mut(&dpid)?.tables.take_xid();
        Some(Effect::Send { dpid, xid, message })
    }

    /// Sends a message after the rules of this batch.
    fn send(&mut self, dpid: Dpid, message: Message) {
        if let Some(effect) = self.effect(dpid, message) {
            self.ctx.after.push(effect);
        }
    }
}
