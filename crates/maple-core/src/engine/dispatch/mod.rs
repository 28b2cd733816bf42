//! The dispatcher of an engine: hands each event to the part that it concerns.
//!
//! This file is the only one with methods of [`Engine`]. From top to bottom it is the way of a packet: a batch
//! ([`Engine::handle`]), its events, a packet-in, messages between shards, timers, and the update of the switches
//! at the end. What is asked of an engine without changing it is in `engine_view`.
//!
//! The parts stand in layers. What a part wants of a later one it returns, or leaves in the context: a message to this
//! shard, a timer, a stale leaf, a switch that is to be updated.
//!
//! Next on a packet's way: [`crate::engine::topology::packet_in`].

pub(super) mod copy;
pub(super) mod engine_view;

use std::fmt;
use std::sync::Arc;

use maple_wire::Dpid;
use maple_wire::msg::stats::StatsReply;
use maple_wire::msg::{ErrorMsg, PacketIn};

use crate::capabilities::Capabilities;
use crate::engine::beforehand::explore::Explorer;
use crate::engine::beforehand::samples::Samples;
use crate::engine::context::Context;
use crate::engine::context::options::Options;
use crate::engine::context::timers::Timer;
use crate::engine::context::uses::{BadUses, Conductor};
use crate::engine::decisions::Decisions;
use crate::engine::decisions::hit::Hits;
use crate::engine::fabric::Fabric;
use crate::engine::live::LiveWatches;
use crate::engine::messages::event::{Effect, Event};
use crate::engine::messages::mail::{EngineMessage, Refreshed};
use crate::engine::messages::received_packet::ReceivedPacket;
use crate::engine::one_switch::action_sets::has_passed_look_ups;
use crate::engine::one_switch::cookies::is_of_watch;
use crate::engine::one_switch::counters::statistics::{Reply, StatisticsQuestion};
use crate::engine::one_switch::pacing::PACED_REROUTE_TIMEOUT;
use crate::engine::reruns::reload::Reload;
use crate::engine::reruns::restore::Restore;
use crate::engine::topology::Topology;
use crate::engine::topology::presume::presume;
use crate::ids::{ShardId, Time};
use crate::network::Facts;
use crate::policy::Policy;
use crate::state::{Store, Write};
use copy::EngineCopy;
use engine_view::EngineView;

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
    pub(super) fabric: Fabric,
    pub(super) topology: Topology,
    pub(super) decisions: Decisions,
    /// Packets that the policy decides beforehand.
    pub(super) samples: Samples,
    /// Packets that nobody has sent yet.
    pub(super) explorer: Explorer,
    pub(super) reload: Reload,
    pub(super) restore: Restore,
    pub(super) live: LiveWatches,
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("shard", &self.fabric.ctx.shard())
            .field("switches", &self.fabric.switches.keys())
            .finish_non_exhaustive()
    }
}

impl Engine {
    /// Creates the engine of `shard`. All shards of a controller share `store` and have equal `options`.
    pub fn new(shard: ShardId, store: Arc<Store>, policy: Arc<dyn Policy>, mut options: Options) -> Engine {
        if options.flow_mod_rate.is_some() {
            options.reroute_timeout = options.reroute_timeout.max(PACED_REROUTE_TIMEOUT);
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
        Engine {
            topology: Topology::new(&options),
            decisions: Decisions::new(Arc::clone(&policy), options.remember),
            samples: Samples::new(policy.samples()),
            explorer: Explorer::new(&*policy, &options),
            fabric: Fabric::new(Context::new(shard, store, options)),
            reload: Reload::default(),
            restore: Restore::default(),
            live: LiveWatches::default(),
        }
    }

    /// Handles a batch of events, which it empties, and appends the effects to `out`, in order.
    ///
    /// The rules of a switch are compiled once for the whole batch, so the packets of a batch share the cost.
    pub fn handle(&mut self, now: Time, events: &mut Vec<Event>, out: &mut Vec<Effect>) {
        self.fabric.ctx.store.begin();
        self.fabric.ctx.advance(now);
        self.decisions.undecided.begin_batch();
        // After a standstill, what came in time is handled before the timers run.
        let standstill = self.fabric.ctx.standstill();
        match standstill {
            Some(late) => self.topology.hosts.on_standstill(self.fabric.ctx.now(), late),
            None => {
                self.run_timers();
                self.decisions.recheck(&mut self.fabric);
            }
        }
        for event in events.drain(..) {
            self.on_event(event);
            self.read_inbox();
        }
        if standstill.is_some() {
            self.run_timers();
        }
        self.decide_and_update();
        self.fabric.switches.check_demand(&mut self.fabric.ctx);
        self.decisions.publish(&mut self.fabric.ctx);
        for dpid in self.fabric.switches.with_too_many_waits() {
            self.on_switch_down(dpid);
        }
        self.fabric.withhold_from_unreachable();
        self.fabric.ctx.take_effects(out);
        self.fabric.ctx.store.end();
    }

    /// Handles an event.
    fn on_event(&mut self, event: Event) {
        if event.needs_switch().is_some_and(|dpid| !self.fabric.switches.contains_key(&dpid)) {
            return self.fabric.ctx.count_late_message();
        }
        let Engine { fabric, topology, decisions, samples, explorer, reload, live, .. } = self;
        match event {
            Event::PacketIn { dpid, packet_in } => self.on_packet_in(dpid, packet_in),
            Event::SwitchUp { dpid, version, features, description, ports, has_bundles } => {
                let capabilities =
                    Capabilities::from_features(version, &features).described(&description).bundles(has_bundles);
                let capabilities = fabric.switches.effective_capabilities(dpid, capabilities);
                if fabric.switches.contains_key(&dpid) {
                    self.on_switch_down(dpid);
                }
                self.topology.on_switch_up(&mut self.fabric, dpid, capabilities, &ports);
            }
            Event::SwitchDown { dpid } => self.on_switch_down(dpid),
            Event::SwitchUnreachable { dpid } => self.on_switch_unreachable(dpid),
            Event::SwitchReachable { dpid } => {
                if fabric.resume_switch(dpid) {
                    topology.with_hosts(fabric, |hosts, now, actions| hosts.resume_switch(now, dpid, actions));
                    fabric.on_switch_resumed(dpid);
                }
            }
            Event::PortStatus { dpid, status } => Topology::on_port_status(fabric, dpid, &status),
            Event::LinkUp { a, b } => Topology::on_link_up(fabric, a, b),
            Event::LinkDown { a, b } => Topology::on_link_down(fabric, a, b),
            Event::Segment { ports } => Topology::on_segment(fabric, &ports),
            Event::SegmentLeft { port } => Topology::on_segment_left(fabric, port),
            Event::PortIsEdge { port } => {
                Topology::on_edge_port(fabric, port);
                if let Some(switch) = fabric.switches.get_mut(&port.switch) {
                    switch.ingress.exploration.seen = None;
                }
                samples.begin_pass(decisions, fabric, port.switch);
            }
            Event::PortIsNew { port } => Topology::on_new_port(fabric, port),
            Event::Declare { number, facts } => self.declare(number, &facts),

            Event::BarrierReply { dpid, xid } => decisions.on_barrier_reply(fabric, dpid, xid),
            Event::AwaitBarriers(token) => {
                decisions.record_for_unreachable(fabric);
                decisions.await_all_barriers(fabric, token);
            }
            Event::FlowRemoved { dpid, removed } => decisions.on_flow_removed(fabric, dpid, &removed),
            Event::SwitchError { dpid, xid, error } => self.on_switch_error(dpid, xid, &error),
            Event::FlowStats { dpid, xid, reply } => self.on_statistics(dpid, xid, reply),
            Event::Unsent { dpid, xid } => self.on_reply(dpid, xid, Reply::Unsent),
            Event::ShowCounters { dpid, what } => fabric.switches.show_counters(&mut fabric.ctx, dpid, what),
            Event::CountRule { dpid, token, table, rule } => {
                fabric.switches.count_rule(&mut fabric.ctx, dpid, token, table, &rule);
            }
            Event::RulesRead { dpid, rules } => {
                fabric.switches.take_reported_rules(&mut fabric.ctx, dpid, rules);
                if fabric.switches.awaits_earlier_rules(dpid) {
                    return Restore::on_earlier_rules_known(decisions, fabric, dpid, true);
                }
                fabric.mark_dirty(dpid);
            }
            Event::Presume { earlier, switches } => presume(&mut fabric.ctx, &earlier, switches),
            Event::Restore { dpid, rules, witnesses, earlier } => {
                Restore::begin(decisions, fabric, dpid, rules, witnesses, &earlier);
            }

            Event::Mail(mail) => fabric.ctx.receive(mail.message),
            Event::Send(own) => fabric.switches.send_listener_frame(&mut fabric.ctx, &own),
            Event::Invalidate(selection) => fabric.ctx.invalidate(&selection),
            Event::Write(writes) => fabric.ctx.write(|_| writes),
            Event::Committed(commit) => fabric.ctx.apply_commit(commit),

            Event::Try(candidate) => reload.begin(decisions, fabric, candidate),
            Event::Adopt(candidate) => {
                *explorer = Explorer::new(&*candidate.policy, &fabric.ctx.options);
                reload.adopt(samples, decisions, fabric, candidate);
            }
            Event::Abandon(number) => reload.abandon(decisions, fabric, number),
            Event::LiveBegin { token, filter } => live.begin(fabric, token, filter),
            Event::LiveGoOn(token) => live.prolong(fabric, token),
            Event::LiveEnd(token) => live.end(fabric, token),
            Event::Tick => {}
        }
    }

    /// Handles a packet-in: a copy for people who watch, a packet at a link or a new port, or one that enters.
    fn on_packet_in(&mut self, dpid: Dpid, packet_in: PacketIn) {
        self.fabric.ctx.stats.packet_ins += 1;
        if is_of_watch(packet_in.cookie) && !has_passed_look_ups(&packet_in) {
            return self.live.on_packet_in(&self.decisions, &mut self.fabric, dpid, packet_in);
        }
        if let Some(received) = self.topology.on_packet_in(&mut self.fabric, dpid, packet_in) {
            self.admit_new_port_packets(dpid);
            self.on_entering_packet(received);
        }
    }

    /// Lets the packets enter that waited until their port's kind is known.
    fn admit_new_port_packets(&mut self, dpid: Dpid) {
        for received in Topology::take_admitted(&mut self.fabric, dpid) {
            self.on_entering_packet(received);
        }
    }

    /// Handles a packet that enters the network: a leaf answers it, or the policy decides it.
    fn on_entering_packet(&mut self, received: ReceivedPacket) {
        if self.topology.learn_sender(&mut self.fabric, &received) {
            self.decisions.on_packet(&mut self.fabric, received);
        }
    }

    /// Handles the messages of shards, this one among them, to this shard.
    fn read_inbox(&mut self) {
        while let Some(message) = self.fabric.ctx.next_message() {
            let Engine { fabric, topology, decisions, .. } = self;
            match message {
                EngineMessage::Withdraw(selection) => decisions.withdraw_selected(fabric, &selection),
                EngineMessage::Reconsider(dependents) => fabric.ctx.hear(dependents),
                EngineMessage::Refresh(refreshed) => self.refresh(&refreshed),
                EngineMessage::Acquire(asked) => fabric.acquire_label(asked),
                EngineMessage::LabelNews(from, holder, news) => decisions.on_label_news(fabric, from, holder, &news),
                EngineMessage::Release { at, holder, confirmed } => fabric.release_label(at, holder, confirmed),
                EngineMessage::Emit { dpid, hops, frame } => {
                    fabric.switches.emit(&mut fabric.ctx, dpid, &hops, &frame);
                }
                EngineMessage::FindHost(question) => topology.find_host(fabric, question),
                EngineMessage::HostSearched { mac, at, found } => topology.on_host_searched(fabric, mac, at, found),
                EngineMessage::Unplugged(at) => topology.look_for_unplugged_hosts(fabric, at),
                EngineMessage::UnexpectedHost { mac, at, seen } => {
                    Topology::on_unexpected_host(fabric, mac, at, seen);
                }
                // The engine checks for these at the end of each batch.
                EngineMessage::AddressesAreRead | EngineMessage::LoadsAreRead => {}
            }
        }
    }

    /// Handles changes of ports or hosts at this shard's switches.
    fn refresh(&mut self, refreshed: &Refreshed) {
        let state = self.fabric.ctx.store.snapshot();
        for at in &refreshed.ports {
            self.topology.refresh_port(&mut self.fabric, &state, *at);
            self.admit_new_port_packets(at.switch);
        }
        for (at, mac) in &refreshed.hosts {
            self.topology.refresh_host(&mut self.fabric, &state, *mac, *at);
        }
    }

    /// Runs all timers that are due.
    fn run_timers(&mut self) {
        while let Some(timer) = self.fabric.ctx.take_due() {
            let Engine { fabric, topology, decisions, samples, explorer, reload, live, .. } = self;
            match timer {
                Timer::Leaf(leaf) => decisions.on_leaf_timer(fabric, leaf),
                Timer::Labels(dpid) => fabric.expire_labels(dpid),
                Timer::Routes => fabric.retry_routes(),
                Timer::NextPath(route) => decisions.abandon_next_path(fabric, route),
                Timer::Search(mac) => {
                    topology.with_hosts(fabric, |hosts, now, actions| hosts.on_search_timer(now, mac, actions));
                }
                Timer::Guard(at) => {
                    topology.with_hosts(fabric, |hosts, now, actions| hosts.on_guard_timer(now, at, actions));
                }
                Timer::Muted(at, mac) => {
                    topology.with_hosts(fabric, |hosts, _, actions| hosts.on_muted_timer(at, mac, actions));
                }
                Timer::Hosts(dpid) => {
                    topology.with_hosts(fabric, |hosts, now, actions| hosts.on_round_timer(now, dpid, actions));
                }
                Timer::NewPorts(dpid) => Topology::expire_new_port_packets(fabric, dpid),
                Timer::RetryRules(dpid) => Decisions::retry_refused_rules(fabric, dpid),
                Timer::Capacity(dpid) => fabric.ask_for_statistics(dpid),
                Timer::Meters(dpid) => fabric.sweep_meters(dpid),
                Timer::Poll(dpid) => fabric.switches.poll(&mut fabric.ctx, dpid),
                Timer::Pace(dpid) => {
                    if let Some(switch) = fabric.switches.get_mut(&dpid) {
                        switch.on_pace_timer(&mut fabric.ctx);
                    }
                }
                Timer::Audit(dpid) => fabric.switches.audit(&mut fabric.ctx, dpid),
                Timer::LookUps(dpid) => fabric.mark_dirty(dpid),
                Timer::Demand => fabric.switches.update_demand(&mut fabric.ctx),
                Timer::Samples(dpid) => samples.take_turns(decisions, fabric, dpid),
                Timer::SampleTurn => samples.decide_next(decisions, fabric),
                Timer::Explore(dpid) => explorer.begin_pass(fabric, dpid),
                Timer::ExploreTurn => explorer.explore_next(decisions, fabric),
                Timer::Trial => reload.decide_next(decisions, fabric),
                Timer::EarlyRequests => fabric.acquire_early_labels(),
                Timer::Restore(dpid) => Restore::decide_next(decisions, fabric, dpid),
                Timer::Live(number) => live.check(fabric, number),
                // Every batch checks whether a leaf is due; the timer only causes a batch.
                Timer::Recheck => {}
            }
        }
    }

    /// Lets the policy decide, and updates the switches, until nothing is left to do.
    fn decide_and_update(&mut self) {
        loop {
            self.decisions.reconsider_all(&mut self.fabric);
            self.decisions.decide_misses(&mut self.fabric);
            self.read_inbox();
            self.topology.update_copied_announcements(&mut self.fabric);
            self.decisions.end_path_changes(&mut self.fabric);
            if self.decisions.undecided.has_no_misses() && !self.fabric.ctx.has_stale() {
                if self.fabric.ctx.dirty().next().is_none() {
                    return;
                }
                for dpid in self.fabric.ctx.take_dirty() {
                    self.flush(dpid);
                }
            }
        }
    }

    /// Updates the tables of a switch.
    fn flush(&mut self, dpid: Dpid) {
        let Engine { fabric, decisions, samples, explorer, restore, live, .. } = self;
        if fabric.switches.get(&dpid).is_some_and(|switch| switch.restoring.is_some()) {
            return restore.flush(samples, decisions, fabric, dpid);
        }
        if !decisions.prepare_update(fabric, dpid) {
            return;
        }
        live.suspend(fabric, dpid);
        if let Some(switch) = fabric.switches.get_mut(&dpid) {
            switch.send_update(&mut fabric.ctx);
        }
        fabric.evict_for_hosts(dpid);
        explorer.follow(fabric, dpid);
    }

    /// Handles the end of a switch: each part forgets what it knows of it.
    fn on_switch_down(&mut self, dpid: Dpid) {
        let Engine { fabric, topology, decisions, live, .. } = self;
        let departed = Restore::remembered_of(decisions, fabric, dpid);
        let Some(switch) = fabric.switches.remove(&dpid) else { return };
        fabric.ctx.forget_switch(dpid);
        fabric.ctx.stats.new_port_drops += switch.ports.new_port_packets.len() as u64;
        live.forget_rules(dpid);
        Restore::give_up(fabric, dpid);
        decisions.on_switch_gone(fabric, switch, departed);
        topology.on_switch_gone(fabric, dpid);
    }

    /// Handles the end of the connection to a switch, whose datapath is presumed to go on.
    fn on_switch_unreachable(&mut self, dpid: Dpid) {
        let Engine { fabric, topology, decisions, live, .. } = self;
        let Some(switch) = fabric.switches.get(&dpid).filter(|switch| !switch.is_unreachable()) else { return };
        if switch.restoring.as_ref().is_some_and(|restoring| !restoring.are_rules_known()) {
            return self.on_switch_down(dpid);
        }
        fabric.suspend_switch(dpid);
        live.forget_rules(dpid);
        decisions.drop_undecided(fabric, dpid);
        topology.hosts.suspend_switch(dpid);
        if fabric.switches.awaits_earlier_rules(dpid) {
            // There is nothing to go by but the previous controller's report of the rules.
            Restore::on_earlier_rules_known(decisions, fabric, dpid, true);
        }
        fabric.on_switch_suspended(dpid);
    }

    /// Applies a declaration of ports and hosts.
    fn declare(&mut self, number: u64, facts: &Arc<Facts>) {
        Topology::declare(&mut self.fabric, number, facts);
        self.read_inbox();
        for selection in self.topology.follow_declaration(&mut self.fabric) {
            self.decisions.withdraw_selected(&mut self.fabric, &selection);
        }
    }

    /// Handles a switch's refusal of a request: of a rule for a watch, of other rules or meters, or of statistics.
    fn on_switch_error(&mut self, dpid: Dpid, xid: u32, error: &ErrorMsg) {
        let Engine { fabric, decisions, live, .. } = self;
        if !live.on_rule_refused(fabric, dpid, xid) && !decisions.on_switch_error(fabric, dpid, xid, error) {
            self.on_reply(dpid, xid, Reply::Refused);
        }
    }

    /// Handles statistics, or a part of them.
    fn on_statistics(&mut self, dpid: Dpid, xid: u32, mut reply: StatsReply) {
        self.decisions.read_reply(&mut self.fabric, dpid, &mut reply);
        self.on_reply(dpid, xid, Reply::Statistics(reply));
    }

    /// Hands what became of a question for statistics to the part that asked.
    fn on_reply(&mut self, dpid: Dpid, xid: u32, reply: Reply) {
        let Engine { fabric, topology, decisions, .. } = self;
        let question = fabric.question(dpid, xid);
        let Fabric { ctx, switches, .. } = fabric;
        match (question, reply) {
            (StatisticsQuestion::Audit, Reply::Statistics(mut reply)) => {
                switches.on_audit_answered(ctx, dpid, &mut reply)
            }
            (StatisticsQuestion::Audit, Reply::Refused) => switches.on_audit_failed(ctx, dpid, true),
            (StatisticsQuestion::Audit, Reply::Unsent) => switches.on_audit_failed(ctx, dpid, false),
            (StatisticsQuestion::Meters, Reply::Statistics(reply)) => fabric.on_meters_read(dpid, &reply),
            (StatisticsQuestion::Meters, Reply::Refused) => fabric.on_meters_unread(dpid, true),
            (StatisticsQuestion::Meters, Reply::Unsent) => fabric.on_meters_unread(dpid, false),
            (StatisticsQuestion::Rule, Reply::Statistics(reply)) => switches.on_rule_counted(ctx, dpid, xid, &reply),
            (StatisticsQuestion::Rule, Reply::Refused | Reply::Unsent) => switches.end_rule_count(ctx, dpid, xid),
            (StatisticsQuestion::Counters, Reply::Statistics(reply)) => switches.on_poll_answered(ctx, dpid, &reply),
            (StatisticsQuestion::Counters, Reply::Refused) => switches.on_poll_refused(ctx, dpid),
            (StatisticsQuestion::Counters, Reply::Unsent) => switches.on_poll_unsent(ctx, dpid),
            (StatisticsQuestion::Usage, Reply::Statistics(reply)) => decisions.on_usage_read(fabric, dpid, &reply),
            // The least recently used leaves are evicted then.
            (StatisticsQuestion::Usage, Reply::Refused) => decisions.end_round(fabric, dpid),
            (StatisticsQuestion::Hosts, Reply::Statistics(reply)) => {
                topology.with_hosts(fabric, |hosts, now, actions| hosts.on_stats(now, dpid, xid, &reply, actions));
            }
            (StatisticsQuestion::Hosts, Reply::Refused) => {
                topology.with_hosts(fabric, |hosts, now, actions| hosts.on_stats_refused(now, dpid, xid, actions));
            }
            // These are always sent.
            (StatisticsQuestion::Usage | StatisticsQuestion::Hosts, Reply::Unsent) => {}
        }
    }

    /// Returns the time at which [`Engine::handle`] is to be called again, if no event comes before.
    pub fn next_deadline(&self) -> Option<Time> {
        self.fabric.ctx.next_deadline()
    }

    /// Borrows the engine for packets of this switch. `None` if this shard does not serve the switch, if packets from
    /// its new ports wait, or if its rules are being read or restored.
    pub fn hits(&mut self, now: Time, dpid: Dpid) -> Option<Hits<'_>> {
        Hits::begin(&mut self.fabric, &self.topology.hosts, &mut self.decisions, now, dpid)
    }

    /// Advances the transaction ids of a switch past those of `packet_outs` packet-outs, which answered recorded
    /// [`Hits`].
    pub fn skip_hits(&mut self, dpid: Dpid, packet_outs: u64) {
        if let Some(switch) = self.fabric.switches.get_mut(&dpid) {
            switch.tables.skip_xids(packet_outs);
        }
    }

    /// Removes and returns the packets that the policy has yet to decide, for another process: those that wait for
    /// labels, for what the policy read to change, or for their port to be classified. It may run on them again,
    /// because a run that waits has written nothing. To be called at the end.
    pub fn take_unanswered(&mut self) -> Vec<(Dpid, PacketIn)> {
        let packets = [
            self.decisions.leaves.take_held(),
            self.decisions.undecided.take_all(),
            Topology::take_new_port_packets(&mut self.fabric),
        ];
        packets.into_iter().flatten().map(|packet| (packet.at.switch, packet.into_packet_in())).collect()
    }

    /// Makes the next call of [`Engine::handle`] publish all leaves again ([`Effect::Remember`]), because what was
    /// published was lost.
    pub fn remember_all(&mut self) {
        self.decisions.leaves.mark_all_changed();
    }

    /// Copies this engine for a [`Rehearsal`](crate::engine::Rehearsal), without the packets that wait.
    pub fn copy(&self) -> EngineCopy {
        EngineCopy::from_engine(self)
    }

    /// Starts recording each use of the store. `from`: the store's move count when the recording began
    /// ([`Store::record_to`]).
    pub fn record(&mut self, from: u64) {
        self.fabric.ctx.store.record(from);
    }

    /// Appends to `out` the notes of the calls of [`Engine::handle`] since the last time, with their length before
    /// them. There are none before [`Engine::record`].
    pub fn take_notes(&self, out: &mut Vec<u8>) {
        self.fabric.ctx.store.take_notes(out);
    }

    /// Starts a replay of a recorded engine: each use of the store waits until it is due. `from`: the store's move
    /// count when the recording began.
    pub fn replay(&mut self, from: u64, conductor: Arc<dyn Conductor>) {
        self.fabric.ctx.store.replay(self.fabric.ctx.shard(), from, conductor);
    }

    /// Ends a recording or a replay: the engine then uses the store freely, and notes nothing.
    pub fn detach(&mut self) {
        self.fabric.ctx.store.detach();
    }

    /// Gives the engine of a replay the notes of the next call. Returns when its first use is due, as a move count of
    /// the store.
    ///
    /// # Errors
    /// [`BadUses`] if the notes are damaged, or if this engine is not being replayed.
    pub fn expect(&self, notes: &[u8]) -> Result<u64, BadUses> {
        self.fabric.ctx.store.expect(notes)
    }

    /// Reports whether the last call used the store as its notes say.
    pub fn is_as_noted(&self) -> bool {
        self.fabric.ctx.store.is_as_noted()
    }

    /// Returns the policy that decides in this engine.
    pub fn policy(&self) -> &Arc<dyn Policy> {
        &self.decisions.policy
    }

    /// Returns the store that this engine shares with other engines.
    pub fn store(&self) -> &Arc<Store> {
        self.fabric.ctx.store.shared()
    }

    /// Looks at the engine: what it knows, has decided and counted.
    pub fn view(&self) -> EngineView<'_> {
        EngineView(self)
    }
}
