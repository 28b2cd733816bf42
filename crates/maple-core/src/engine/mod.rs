//! The engine: the deterministic state machine of one shard.
//!
//! An [`Engine`] takes a batch of [`Event`]s with the time and gives [`Effect`]s. It does no I/O, reads no clock and
//! starts no thread; N engines over one [`Store`] make a controller, in N threads or in one test loop alike. They
//! share the store and nothing else: whatever one wants of another's switches goes by [`Mail`].
//!
//! ```text
//! packet-in ─ hit (a leaf has the answer: nothing else happens), or
//! packet-in ─ packet_in ─┬─ hosts (learn, move) ─ lookup ── hit ──────────────────┐
//!                        │                          └ miss ─ decide (f, commit)   │
//!                        ├─ link_port                          └ leaf ─ install ──┤
//!                        └─ new_port: wait until it is known which of the two      │
//! port, link, switch ─ topology ─ store ─ leaves that depended on it ─ reconsider │
//!                                       (f again: keep, move or withdraw)         │
//!                                                    mail ⇄ labels                │
//! end of batch ─ switch (compile, diff, flow-mods, barrier) ─ location            │
//!              └ packet-outs ◄────────────────────────────────────────────────────┘
//! ```

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use maple_wire::Dpid;
use maple_wire::msg::Message;

use crate::capabilities::Capabilities;
use crate::ids::LeafId;
use crate::network::Location;
use crate::policy::Policy;
use crate::report::Report;
use crate::state::{AddressKinds, Commit, Store};

mod event;
mod options;

mod decide;
mod flaps;
mod hit;
mod host_actions;
mod host_rules;
mod hosts;
mod invalidate;
mod link_port;
mod new_port;
mod packet_in;
mod reconsider;
mod segments;
mod topology;

mod recheck;

mod cache;
mod install;
mod labels;
mod leaf;
mod leaves;
mod meters;
mod reports;
mod reroute;
mod route_changes;
mod route_rules;
mod routes;

mod await_barriers;
mod capacity;
mod classifier;
mod eviction;
mod flush;
mod measure;
mod polls;
mod switch;
mod tables;
mod timers;
mod view;
mod waiting;

pub use crate::report::Counted;
pub use crate::state::Selection;
pub use await_barriers::BARRIER_ROUNDS;
pub use event::{Effect, Event, Heard, InstalledFlow, Mail};
pub use hit::{Answered, Hits, MOST_HITS};
pub use hosts::PROBE_MAC;
pub use leaf::OWN_COOKIES;
pub use measure::{PortCount, Traffic};
pub use options::{Options, Stats, TableRule};
pub use polls::RuleCount;

pub use crate::ids::{ShardId, Time};
pub use crate::labels::{LabelRange, LabelRangeError};

use event::{EngineMessage, Refreshed};
use leaves::Leaves;
use switch::Switch;
use timers::Timer;

/// One shard of the controller.
pub struct Engine {
    shard: ShardId,
    store: Arc<Store>,
    policy: Arc<dyn Policy>,
    options: Options,
    stats: Stats,
    now: Time,
    /// Boxed, as each is taken out while its tables are brought up to date.
    switches: BTreeMap<Dpid, Box<Switch>>,
    leaves: Leaves,
    routes: routes::Routes,
    timers: BTreeSet<(Time, Timer)>,
    hosts: hosts::Hosts,
    moves: flaps::Moves,
    /// The kinds of addresses that somebody depends on.
    address_kinds: AddressKinds,
    rechecks: recheck::Rechecks,
    reports: reports::Reports,
    demand: measure::Demand,

    waiting: waiting::Waiting,
    barrier_waits: await_barriers::BarrierWaits,

    // What a batch leaves for its end.
    /// Messages of this shard to itself.
    inbox: VecDeque<EngineMessage>,
    /// Switches with tables to bring up to date.
    dirty: BTreeSet<Dpid>,
    out: Vec<Effect>,
    /// What goes out behind the rules.
    after: Vec<Effect>,
}

impl Engine {
    /// The engine of `shard`. All shards of a controller share `store`, and have equal `options`.
    pub fn new(shard: ShardId, store: Arc<Store>, policy: Arc<dyn Policy>, options: Options) -> Engine {
        if !options.track_hosts {
            store.know_no_hosts();
        }
        let (hosts, epoch) = (hosts::Hosts::new(&options), options.epoch);
        Engine {
            shard,
            store,
            policy,
            options,
            stats: Stats::default(),
            now: Time::default(),
            switches: BTreeMap::new(),
            leaves: Leaves::default(),
            routes: routes::Routes::new(shard, epoch),
            timers: BTreeSet::new(),
            hosts,
            moves: flaps::Moves::default(),
            address_kinds: AddressKinds::default(),
            rechecks: recheck::Rechecks::default(),
            reports: reports::Reports::default(),
            demand: measure::Demand::default(),
            waiting: waiting::Waiting::default(),
            barrier_waits: await_barriers::BarrierWaits::default(),
            inbox: VecDeque::new(),
            dirty: BTreeSet::new(),
            out: Vec::new(),
            after: Vec::new(),
        }
    }

    /// Handles a batch of events (which it empties) and appends what is to be done to `out`, in order.
    ///
    /// Rules are compiled once for the whole batch, so packets of one batch share the cost.
    pub fn handle(&mut self, now: Time, events: &mut Vec<Event>, out: &mut Vec<Effect>) {
        self.now = self.now.max(now);
        self.waiting.begin_batch();
        self.run_timers();
        self.recheck();
        for event in events.drain(..) {
            self.on(event);
            self.read_inbox();
        }
        loop {
            self.reconsider_all();
            self.decide_misses();
            self.read_inbox();
            self.follow_address_dependents();
            if self.waiting.is_decided() && self.leaves.has_no_stale() && self.dirty.is_empty() {
                break;
            }
            if self.waiting.is_decided() && self.leaves.has_no_stale() {
                self.flush_all();
            }
        }
        self.follow_demand();
        out.append(&mut self.out);
        out.append(&mut self.after);
    }

    /// What was done so far.
    pub fn stats(&self) -> Stats {
        let rules = self.switches.values().map(|switch| switch.tables.count(None) as u64).sum();
        let labels = self.switches.values().map(|switch| switch.labels.len() as u64).sum();
        let routes = self.routes.len() as u64;
        Stats { leaves: self.leaves.len() as u64, rules, labels, routes, ..self.stats }
    }

    fn on(&mut self, event: Event) {
        match event {
            Event::SwitchUp { dpid, version, features, description, ports } => {
                let capabilities = Capabilities::of(version, &features).described(&description);
                self.switch_up(dpid, capabilities, &ports);
            }
            Event::SwitchDown { dpid } => self.switch_down(dpid),
            Event::PacketIn { dpid, packet_in } => self.packet_in(dpid, packet_in),
            Event::PortStatus { dpid, status } => self.port_status(dpid, &status),
            Event::FlowRemoved { dpid, removed } => self.flow_removed(dpid, &removed),
            Event::SwitchError { dpid, xid, error } => self.switch_error(dpid, xid, &error),
            Event::BarrierReply { dpid, xid } => self.barrier_reply(dpid, xid),
            Event::FlowsRead { dpid, flows } => self.flows_read(dpid, flows),
            Event::FlowStats { dpid, xid, reply } => self.flow_stats(dpid, xid, &reply),
            Event::LinkUp { a, b } => self.link_up(a, b),
            Event::LinkDown { a, b } => self.link_down(a, b),
            Event::Segment { ports } => self.segment(&ports),
            Event::SegmentLeft { port } => self.segment_left(port),
            Event::PortIsEdge { port } => self.port_is_edge(port),
            Event::PortIsNew { port } => self.port_is_new(port),
            Event::Mail(Mail(message)) => self.inbox.push_back(message),
            Event::Send(own) => self.send_from_outside(&own),
            Event::Invalidate(selection) => self.invalidate(&selection),
            Event::Write(writes) => {
                let commit = self.store.update(|_| writes);
                self.apply(commit);
            }
            Event::Committed(commit) => self.apply(commit),
            Event::Watch { dpid, what } => self.watch(dpid, what),
            Event::Unsent { dpid, xid } => self.poll_unsent(dpid, xid),
            Event::AwaitBarriers(token) => self.await_all_barriers(token),
            Event::Tick => {}
        }
    }

    fn read_inbox(&mut self) {
        while let Some(message) = self.inbox.pop_front() {
            match message {
                EngineMessage::Withdraw(selection) => self.withdraw_selected(&selection),
                EngineMessage::Reconsider(leaves) => self.leaves.mark_stale(leaves),
                EngineMessage::Refresh(refreshed) => self.refresh(&refreshed),
                EngineMessage::Acquire(asked) => self.acquire_label(asked),
                EngineMessage::LabelNews(from, holder, news) => self.label_news(from, holder, &news),
                EngineMessage::Release { at, holder, confirmed } => self.release_label(at, holder, confirmed),
                EngineMessage::Emit { dpid, hops, frame } => self.emit(dpid, &hops, &frame),
                EngineMessage::FindHost { mac, at, asker } => self.look_for_host(mac, at, asker),
                EngineMessage::HostSearched { mac, at, found } => self.host_found(mac, at, found),
                EngineMessage::Unplugged(at) => self.seek_unplugged(at),
                EngineMessage::UnexpectedHost { mac, at, seen } => self.unexpected_host_seen(mac, at, seen),
                // All that there is to it is done after each batch.
                EngineMessage::AddressesAreRead | EngineMessage::LoadsAreRead => {}
            }
        }
    }

    /// Does what a commit made necessary, here and at other shards.
    fn apply(&mut self, commit: Commit) {
        let mut by_shard: BTreeMap<ShardId, BTreeSet<LeafId>> = BTreeMap::new();
        for leaf in commit.withdraw {
            by_shard.entry(ShardId::of(leaf)).or_default().insert(leaf);
        }
        for (shard, leaves) in by_shard {
            if shard == self.shard {
                self.leaves.mark_stale(leaves);
            } else {
                self.send_to_shard(shard, EngineMessage::Reconsider(leaves));
            }
        }
        let mut refreshed: BTreeMap<ShardId, Refreshed> = BTreeMap::new();
        let state = self.store.snapshot();
        let shard_of = |at: &Location| state.shard_of(at.switch);
        for at in commit.ports {
            if let Some(to) = shard_of(&at) {
                refreshed.entry(to).or_default().ports.insert(at);
            }
        }
        for (at, mac) in commit.hosts {
            if let Some(to) = shard_of(&at) {
                refreshed.entry(to).or_default().hosts.insert((at, mac));
            }
        }
        for (shard, refreshed) in refreshed {
            self.send_to_shard(shard, EngineMessage::Refresh(refreshed));
        }
        commit.invalidate.iter().for_each(|selection| self.invalidate(selection));
    }

    /// Withdraws what a selection says, at every shard.
    fn invalidate(&mut self, selection: &Selection) {
        let state = self.store.snapshot();
        let shards: BTreeSet<ShardId> = state.switches().map(|(_, info)| info.shard).chain([self.shard]).collect();
        for shard in shards {
            self.send_to_shard(shard, EngineMessage::Withdraw(selection.clone()));
        }
    }

    /// Sends a message to a shard.
    fn send_to_shard(&mut self, to: ShardId, message: EngineMessage) {
        if to == self.shard {
            self.inbox.push_back(message);
        } else {
            self.out.push(Effect::Mail { to, mail: Mail(message) });
        }
    }

    /// Sends a message to the shard that serves a switch. A switch that is gone needs none: its links are gone too, and
    /// with them the leaves that it had a part in.
    fn send_to_shard_of(&mut self, dpid: Dpid, message: EngineMessage) {
        if let Some(shard) = self.store.snapshot().shard_of(dpid) {
            self.send_to_shard(shard, message);
        }
    }

    fn effect(&mut self, dpid: Dpid, message: Message) -> Option<Effect> {
        let xid = self.switches.get_mut(&dpid)?.tables.take_xid();
        Some(Effect::Send { dpid, xid, message })
    }

    /// Sends a message behind the rules of this batch.
    fn send(&mut self, dpid: Dpid, message: Message) {
        if let Some(effect) = self.effect(dpid, message) {
            self.after.push(effect);
        }
    }

    fn report(&mut self, report: Report) {
        self.out.push(Effect::Report(report));
    }

    /// Reports what was not reported under this key before.
    fn report_once(&mut self, report: Report, key: &str) {
        if self.reports.is_new(key) {
            self.report(report);
        }
    }
}
