//! Restore: keeps what switches do for an earlier run of the controller, if the policy still decides so.
//!
//! # What
//!
//! The rules of the earlier run are still on the switches, and carry packets. This run must not touch them before it
//! knows what f says. So:
//!
//! 1. The links, edge ports and hosts of the earlier run are presumed to be there still
//!    ([`Event::Presume`](crate::engine::Event::Presume)). Discovery confirms or ends them, as it does with what it
//!    finds itself. From then on f decides packets that come.
//! 2. f runs on the remembered witness packets of each switch, a few at a time
//!    ([`Event::Restore`](crate::engine::Event::Restore)). Meanwhile the switch's rules are read
//!    ([`Event::RulesRead`](crate::engine::Event::RulesRead)). No rule is sent. At a take-over the previous controller
//!    reports the rules, so that all up to step 4 is done before it ends. The rules that are read in the end confirm
//!    its report.
//! 3. When the rules of all switches are known, labels get the ids that they had. If the switch already has a label's
//!    rule, the label is ready without a message.
//! 4. The switch waits until the routes of its leaves are ready, but at most two seconds after the last leaf of all
//!    switches was decided. Then the table is built from all leaves at once, with the priorities of the rules that are
//!    there. Once all switches have their tables, the rules are compared. A rule that is there already, except for its
//!    cookie, stays, and its old cookie is *renamed* (`cookies.rs`). The ordered update sends the rest.
//!
//! # Why it is correct
//!
//! Until step 4 a switch treats each packet as the earlier run decided. After it, the switch has the rules of leaves
//! that f decided in this run.
//!
//! A label's id is reserved while packets of the earlier run may carry it: the switch has a rule for it, remembers it,
//! or another switch has a rule that pushes it. No label is given out before the rules of all switches are known. A
//! label with an equal meaning may have the id. If the switch has another rule for it, the label is revoked. So no
//! packet that was sent under a label of the earlier run meets another meaning.
//!
//! A route may have the number that a route of the earlier run has in the table of routes, with another path. Then
//! entries that lead there for the earlier run only send to the controller before that rule changes
//! (`tables/detours.rs`).
//!
//! The controller sends a packet that comes before step 4 and has no rule straight out of the egress ports, as it does
//! if a leaf can have no rule. The packet does not wait for labels, which may take as long as reading rules does. Nor
//! does it use labels that no switch has confirmed: another controller may have changed their meaning since it reported
//! them.
//!
//! # Cost
//!
//! The cost of a reload: a run for each leaf, and building each table once. Runs are spread over about a second
//! ([`Restoring::next_batch`]), because packets that come meanwhile are decided in between, and switches may share the
//! cores. Each table is built, and compared with the switch's rules, in a turn of its own. Such a turn takes 5 µs a
//! rule with 3,000 rules, and 19 µs with 30,000.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use maple_wire::{Action, Constraint, Dpid, Field, Instruction, PortNo};
use rustc_hash::FxHashSet;

use crate::engine::beforehand::samples::Samples;
use crate::engine::context::timers::Timer;
use crate::engine::decisions::Decisions;
use crate::engine::decisions::runs::RunOutcome;
use crate::engine::fabric::Fabric;
use crate::engine::messages::event::{Effect, ReportedRule};
use crate::engine::messages::received_packet::ReceivedPacket;
use crate::engine::one_switch::Stale;
use crate::engine::one_switch::classifier::table_miss;
use crate::engine::one_switch::cookies::own_cookie;
use crate::engine::one_switch::restoring::{NextStep, RESTORE_POLL, Restoring};
use crate::engine::tools::expected::Expected;
use crate::ids::{LeafId, Time};
use crate::labels::{LabelIds, LabelKey, LabelTable, Refusal};
use crate::memory::{RememberedLabel, Surroundings, Witness};
use crate::network::Location;
use crate::rule::Rule;
use crate::run::Run;

/// The pause between two batches of leaves, in which the engine does other things. Chosen: with `BATCHES`
/// (`one_switch/restoring.rs`) it spreads the runs of a switch over about a second.
const BATCH_INTERVAL: Duration = Duration::from_millis(8);

/// The time for which the ids of labels of the earlier run stay reserved after they became known. By the end all other
/// switches have their new rules. It must exceed the longest wait of a switch that is restored, ten seconds.
const LABEL_RESERVATION: Duration = Duration::from_secs(30);

/// The restore of this shard's switches, one at a time.
#[derive(Default)]
pub(in crate::engine) struct Restore {
    /// The latest time when the table of a switch was built, or compared with the rules of an earlier run.
    last_built: Option<Time>,
}

impl Restore {
    /// Begins to restore a switch from these witness packets, or adds them to a restore under way. `rules`: the rules
    /// that the previous controller reported, if it did. The switch's own report follows.
    pub fn begin(
        decisions: &mut Decisions,
        fabric: &mut Fabric,
        dpid: Dpid,
        rules: Option<Vec<ReportedRule>>,
        witnesses: Vec<Witness>,
        known: &Surroundings,
    ) {
        let Some(switch) = fabric.switches.known_mut(dpid) else { return Restore::give_up(fabric, dpid) };
        let earlier = known.look_ups.iter().filter(|(of, _)| *of == dpid);
        earlier.for_each(|(_, look_ups)| switch.ingress.look_ups.adopt(look_ups));
        let until = fabric.ctx.now() + LABEL_RESERVATION;
        let here = known.labels.iter().filter(|label| label.switch == dpid);
        let labels: Vec<LabelKey> = fabric.ctx.store.with_label_ids(dpid, |ids| {
            let key = |label: &RememberedLabel| {
                let key = LabelKey { port: label.port, id: label.id };
                ids.prefer(key, label.meaning);
                key
            };
            let labels: Vec<LabelKey> = here.map(key).collect();
            ids.reserve(labels.iter().copied(), until);
            labels
        });
        if let Some(restoring) = switch.restoring.as_mut().filter(|restoring| !restoring.is_confirmed()) {
            // More is remembered than was reported at first.
            return restoring.extend(labels, witnesses);
        }
        // The switch may have disconnected and come back since the network was presumed.
        fabric.ctx.store.change_restoring(|all| {
            all.unread.insert(dpid);
            all.unconfirmed.insert(dpid);
            all.undecided.insert(dpid);
            all.asking.insert(dpid);
        });
        switch.ingress.table.begin_rebuild();
        switch.restoring = Some(Restoring::new(fabric.ctx.now(), labels, witnesses));
        if let Some(rules) = rules {
            fabric.switches.take_reported_rules(&mut fabric.ctx, dpid, rules);
            Restore::on_earlier_rules_known(decisions, fabric, dpid, false);
        }
        Restore::decide_next(decisions, fabric, dpid);
    }

    /// Goes on with a restore when the switch's rules have become known, from the switch itself (`is_confirmed`) or
    /// from the previous controller.
    pub fn on_earlier_rules_known(decisions: &mut Decisions, fabric: &mut Fabric, dpid: Dpid, is_confirmed: bool) {
        let Some(switch) = fabric.switches.known_mut(dpid) else { return };
        let ingress = switch.ingress_table();
        let (mut preferred, mut labels, mut pushed) = (Vec::new(), Vec::new(), Vec::new());
        let (shared, routes) = (switch.shared_table(), switch.route_table());
        let mut route_numbers = FxHashSet::default();
        let mut hosts_with_ways = BTreeSet::new();
        for (table, rule) in switch.tables.installed() {
            labels.extend(LabelTable::key_of_rule(rule.priority, &rule.matching).filter(|_| table == shared));
            pushed.extend(labels_pushed_by(&rule));
            if Some(table) == routes {
                let metadata = rule.matching.constraints().find(|of| of.field == Field::Metadata);
                route_numbers.extend(metadata.map(|number| number.value as u64));
            }
            hosts_with_ways.extend(switch.ingress.look_ups.host_with_way(switch.layout(), table, &rule));
            if table == ingress {
                preferred.push((rule.matching.constraints().copied().collect(), rule.priority));
            }
        }
        let miss = table_miss(own_cookie(fabric.ctx.options.epoch));
        if switch.route_table().and_then(|table| switch.tables.has_but_for_cookie(table, &miss)) == Some(true) {
            switch.use_route_table();
        }
        if let Some(table) = switch.usable_route_table() {
            // The leaves that were decided before use it too.
            switch.ingress.changed_actions.extend(fabric.routes.use_route_table(dpid, table, &route_numbers));
        }
        if let Some(restoring) = &mut switch.restoring {
            labels.extend(restoring.labels());
            restoring.set_route_numbers(route_numbers);
            if restoring.on_rules_known(fabric.ctx.now(), preferred, is_confirmed) {
                switch.ingress.table.begin_rebuild();
            }
        }
        decisions.ways.note_earlier(dpid, hosts_with_ways);
        reserve_labels(fabric, dpid, labels, pushed);
        revoke_lost_labels(fabric, dpid);
        fabric.sync_route_rules();
        fabric.ctx.store.change_restoring(|all| {
            all.unread.remove(&dpid);
            all.asking.insert(dpid);
            if is_confirmed {
                all.unconfirmed.remove(&dpid);
            }
        });
        fabric.acquire_early_labels();
        fabric.mark_dirty(dpid);
        if is_confirmed {
            Restore::decide_next(decisions, fabric, dpid);
        }
    }

    /// Returns the effect that keeps a switch's leaves and surroundings for its return, if the engine publishes its
    /// leaves.
    pub fn remembered_of(decisions: &mut Decisions, fabric: &mut Fabric, dpid: Dpid) -> Option<Effect> {
        let switch = fabric.switches.get_mut(&dpid).filter(|_| fabric.ctx.options.remember)?;
        let undecided = switch.restoring.take().into_iter().flat_map(Restoring::into_undecided);
        let remembered = |id: LeafId| Some((id, decisions.leaves.get(&id)?.remembered()));
        let mut leaves: Vec<(LeafId, Witness)> = switch.tree().leaves().filter_map(remembered).collect();
        leaves.extend(undecided.map(|witness| (decisions.new_leaf_id(fabric), witness)));
        leaves.sort_unstable_by_key(|(id, _)| *id);
        Some(Effect::Departed { dpid, leaves, surroundings: fabric.ctx.store.surroundings_of(dpid) })
    }

    /// Ends the restore of a switch that is gone, so that other switches do not wait for it.
    pub fn give_up(fabric: &mut Fabric, dpid: Dpid) {
        fabric.ctx.store.change_restoring(|all| {
            all.unread.remove(&dpid);
            all.unconfirmed.remove(&dpid);
            all.undecided.remove(&dpid);
            all.asking.remove(&dpid);
        });
        fabric.acquire_early_labels();
    }

    /// Lets f decide the next leaves of a switch. After the last one, has the engine look whether the switch still
    /// waits for labels.
    pub fn decide_next(decisions: &mut Decisions, fabric: &mut Fabric, dpid: Dpid) {
        // The timer outlives the restore of a switch that has gone, or whose leaves were decided meanwhile.
        let Some(restoring) = fabric.switches.restoring_mut(dpid) else { return };
        let Some(witnesses) = restoring.next_batch() else {
            return fabric.mark_dirty(dpid);
        };
        let run = |witness: Witness| {
            let Witness { at, total_len, metadata, is_made_up, .. } = witness;
            let received = ReceivedPacket::new(Arc::clone(&witness.frame), total_len, at);
            let received = ReceivedPacket { is_made_up, ..received };
            // A packet that has come meanwhile may have been decided already.
            let is_open = at.switch == dpid && fabric.switches.find_leaf_with(&received, metadata).is_none();
            let run = Decisions::run_assuming(fabric, &received, metadata).filter(|_| is_open)?;
            Some((run, (received, witness)))
        };
        let runs: Vec<(Run, _)> = witnesses.into_iter().filter_map(run).collect();
        for ((received, witness), outcome) in decisions.run_policy(fabric, runs) {
            restore_leaf(decisions, fabric, outcome, received, witness);
        }
        let Some(restoring) = fabric.switches.restoring_mut(dpid).expected() else { return };
        if restoring.end_batch(fabric.ctx.now()) {
            fabric.ctx.store.change_restoring(|all| all.undecided.remove(&dpid));
            fabric.mark_stale(dpid, Stale::ALL);
        } else {
            fabric.ctx.wake_at(fabric.ctx.now() + BATCH_INTERVAL, Timer::Restore(dpid));
        }
    }

    /// Compiles the table from all leaves of a switch at once. A leaf whose route is not ready has no rules, and the
    /// priorities that they had are lost.
    fn build(&mut self, samples: &mut Samples, decisions: &mut Decisions, fabric: &mut Fabric, dpid: Dpid) {
        // The leaves whose routes have just become ready.
        decisions.collect(fabric, dpid);
        let Some(switch) = fabric.switches.known_mut(dpid) else { return };
        let Some(preferred) = switch.restoring.as_mut().and_then(Restoring::begin_build) else { return };
        self.last_built = Some(fabric.ctx.now());
        switch.ingress.table.end_rebuild(&preferred);
        for id in switch.tree().leaves() {
            let extra_reads = switch.tree().extra_reads(id);
            if let Some(leaf) = decisions.leaves.get_mut(&id).filter(|leaf| *leaf.extra_reads != *extra_reads) {
                leaf.extra_reads = extra_reads.into();
                decisions.leaves.mark_changed(id);
            }
        }
        samples.begin_pass(decisions, fabric, dpid);
    }

    /// Takes the place of an update while a switch keeps the rules of an earlier run. Labels whose rules the switch has
    /// become ready. When there is nothing to wait for, builds the table, and ends the restore after the last switch.
    pub fn flush(&mut self, samples: &mut Samples, decisions: &mut Decisions, fabric: &mut Fabric, dpid: Dpid) {
        let Some(switch) = fabric.switches.get(&dpid) else { return };
        if !switch.restoring.as_ref().is_some_and(Restoring::are_rules_known) {
            return;
        }
        if switch.layout().has_action_sets() {
            // The ways of keys' rules need labels too.
            decisions.follow_tables(fabric, dpid);
        }
        decisions.collect(fabric, dpid);
        confirm_labels(fabric, dpid);
        let Fabric { ctx, switches, routes, .. } = fabric;
        let Some(restoring) = switches.restoring_mut(dpid).expected() else { return };
        let are_all_decided = || ctx.store.restoring(|all| all.undecided.is_empty() && all.unread.is_empty());
        let now = ctx.now();
        let is_turn_used = self.last_built == Some(now);
        match restoring.next_step(now, routes.any_waits_at(dpid), are_all_decided) {
            NextStep::AwaitEarlierRun => {}
            NextStep::AwaitLabels { next_look } => fabric.ctx.wake_at(next_look, Timer::Restore(dpid)),
            // Packets are answered between two switches.
            NextStep::Build | NextStep::Compare { .. } if is_turn_used => {
                fabric.ctx.wake_at(now + RESTORE_POLL, Timer::Restore(dpid));
            }
            NextStep::Build => {
                self.build(samples, decisions, fabric, dpid);
                fabric.ctx.wake_at(now + RESTORE_POLL, Timer::Restore(dpid));
            }
            NextStep::Compare { next_look } => {
                // Another switch may still ask for a label that this one has a rule for.
                let are_all_built = fabric.ctx.store.change_restoring(|all| {
                    all.asking.remove(&dpid);
                    all.asking.is_empty() && all.unconfirmed.is_empty()
                });
                if are_all_built {
                    self.last_built = Some(now);
                    end_restore(decisions, fabric, dpid);
                } else if let Some(next_look) = next_look {
                    fabric.ctx.wake_at(next_look, Timer::Restore(dpid));
                }
            }
        }
    }
}

/// Reserves the labels of a switch's rules, and at its neighbours those that its rules push: another switch may have
/// lost the rules for them.
fn reserve_labels(fabric: &mut Fabric, dpid: Dpid, own: Vec<LabelKey>, pushed: Vec<(PortNo, u16)>) {
    let until = fabric.ctx.now() + LABEL_RESERVATION;
    fabric.ctx.store.with_label_ids(dpid, |ids| ids.reserve(own, until));
    let state = fabric.ctx.store.snapshot();
    for (port, id) in pushed {
        let Some(far) = state.peer(Location::new(dpid, port)) else { continue };
        let keys = [None, Some(far.port)].map(|port| LabelKey { port, id });
        fabric.ctx.store.with_other_label_ids(far.switch, |ids| ids.reserve(keys, until));
    }
}

/// Revokes the labels that counted as ready although the switch does not have their rules.
fn revoke_lost_labels(fabric: &mut Fabric, dpid: Dpid) {
    let Some(switch) = fabric.switches.known(dpid) else { return };
    let tables = &switch.tables;
    let table = switch.shared_table();
    let is_lost = |(_, rule): &(u64, &Rule)| tables.has_but_for_cookie(table, rule) != Some(true);
    let lost: Vec<u64> = switch.paths.labels.confirmed_rules().filter(is_lost).map(|(serial, _)| serial).collect();
    lost.into_iter().for_each(|serial| fabric.revoke_label(dpid, serial, Refusal::Stale(dpid)));
}

/// Makes a leaf of f's decision about a remembered packet, if the decision lasts.
fn restore_leaf(
    decisions: &mut Decisions,
    fabric: &mut Fabric,
    outcome: RunOutcome,
    received: ReceivedPacket,
    witness: Witness,
) {
    let RunOutcome::Answer((goal, _), finished) = outcome else { return };
    let at = received.at;
    if !finished.lasts() || !fabric.make_room_for_trace(at.switch) {
        return;
    }
    let Some(adopted) = decisions.adopt(fabric, goal, *finished, received) else {
        if let Some(restoring) = fabric.switches.restoring_mut(at.switch) {
            restoring.repeat(witness);
        }
        return;
    };
    // Specialised at once, since packets that the leaf gave up have leaves of their own, which come after it.
    if adopted.is_new
        && let Some(switch) = fabric.switches.get_mut(&at.switch)
    {
        switch.ingress.table.specialise(adopted.leaf, &witness.extra_reads);
    }
}

/// Ends the restore of a switch, which gets the rules of this run afterwards.
fn end_restore(decisions: &mut Decisions, fabric: &mut Fabric, dpid: Dpid) {
    fabric.ctx.store.with_label_ids(dpid, LabelIds::forget_earlier);
    if let Some(switch) = fabric.switches.get_mut(&dpid) {
        switch.restoring = None;
    }
    // The paths that had an open look-up in the earlier run need not be those that the policy follows.
    decisions.ways.note_ended_leaf(dpid);
    // Rules that follow from what has just become ready.
    decisions.collect(fabric, dpid);
    if let Some(switch) = fabric.switches.get_mut(&dpid) {
        // Rules of keys, whose changes have not been taken, are among those that have the engine's own cookie.
        switch.rename_cookies(fabric.ctx.options.epoch);
        if switch.may_have_key_rules() {
            // What was compared so far would change in one update.
            switch.tables.compare_again();
        }
    }
    fabric.mark_dirty(dpid);
}

/// Makes the labels of a switch ready whose rules the switch has already, and revokes those that it has other rules
/// for.
fn confirm_labels(fabric: &mut Fabric, dpid: Dpid) {
    let Some(switch) = fabric.switches.get_mut(&dpid).filter(|switch| switch.tables.has_own_rules()) else { return };
    let (mut ready, mut stale) = (Vec::new(), Vec::new());
    let tables = &switch.tables;
    let labels = &switch.paths.labels;
    let table = switch.shared_table();
    for serial in switch.tables.labels_to_confirm() {
        match labels.unconfirmed_rule(serial).map(|rule| tables.has_but_for_cookie(table, rule)) {
            None | Some(Some(true)) => ready.push(serial),
            Some(Some(false)) => stale.push(serial),
            Some(None) => {}
        }
    }
    switch.tables.confirm_labels(&ready);
    if !ready.is_empty() {
        fabric.on_labels_confirmed(dpid, &ready);
    }
    for serial in stale {
        fabric.revoke_label(dpid, serial, Refusal::Stale(dpid));
    }
}

/// Returns the labels that a rule pushes, with the ports by which the packets leave.
fn labels_pushed_by(rule: &Rule) -> Vec<(PortNo, u16)> {
    let mut pushed = Vec::new();
    let mut id = None;
    for instruction in rule.instructions.iter() {
        let (Instruction::ApplyActions(actions) | Instruction::WriteActions(actions)) = instruction else { continue };
        for action in actions {
            match action {
                Action::SetVlanVid(vid) => id = Some(*vid),
                Action::SetField(Constraint { field: Field::VlanVid, value, .. }) => id = Some((value & 0xfff) as u16),
                Action::Output { port, .. } | Action::Enqueue { port, .. } => pushed.extend(id.map(|id| (*port, id))),
                _ => {}
            }
        }
    }
    pushed
}
