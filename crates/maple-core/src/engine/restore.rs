//! Restore: what switches do for an earlier run of the controller goes on, if the policy still says so.
//!
//! # What
//!
//! The rules of the earlier run are still on the switches, and carry packets. This run must not touch them before it
//! knows what f says. So:
//!
//! 1. Where links, edge ports and hosts were is presumed to be so still ([`Event::Presume`](super::Event::Presume)).
//!    Discovery confirms it or ends it, as it does with what it finds itself. From now on f decides packets that come.
//! 2. f runs on the remembered witness packets of each switch, a few at a time
//!    ([`Event::Restore`](super::Event::Restore)). Meanwhile the switch's rules are read
//!    ([`Event::FlowsRead`](super::Event::FlowsRead)). No rule is sent. At a take-over the controller before says which
//!    rules there are, so that all up to step 4 is done before it ends. The rules that are read at last confirm it.
//! 3. When the rules of all switches are known, labels get the ids that they had. If the switch already has a label's
//!    rule, the label is ready without a message.
//! 4. When the routes of the switch's leaves are ready, or [`PATIENCE`] after the last leaf of all was decided, the table
//!    is built from all leaves at once, with the priorities of the rules that are there. Once all switches have that, the
//!    rules are compared. A rule that is there already, except for its cookie, stays, and its old cookie is *renamed*
//!    (`cookies.rs`). The ordered update sends the rest.
//!
//! # Why it is correct
//!
//! Until step 4 a switch gives each packet the answer of the earlier run: the one before the change. After it, it has
//! the rules of leaves that f decided in this run. A label's id is reserved while packets of the earlier run may carry
//! it: the switch has a rule for it, remembers it, or another switch has a rule that pushes it. No label is given out
//! before the rules of all switches are known. A label that means the same may have the id. If the switch has another
//! rule for it, the label is revoked. So no packet that was sent under a label of the earlier run meets another meaning. A route may
//! have the number that one of the earlier run has in the table of routes, with another path. Then entries that lead
//! there for the earlier run only send to the controller before that rule changes (`tables/detours.rs`).
//!
//! A packet that comes before step 4 and has no rule leaves straight by the egress ports of f's answer, as a packet does
//! whose leaf can have no rule. It does not wait for labels, which may take as long as reading rules does. Nor does it
//! use labels that no switch has confirmed: another controller may have changed their meaning since it told of them.
//!
//! # Cost
//!
//! As for a reload: a run for each leaf, and building each table once. Runs are spread over about a second
//! ([`Restoring::batch`]), because packets that come meanwhile are decided in between, and switches may share the cores.
//! Each table is built, and compared with the switch's rules, in a turn of its own. Such a turn takes 4 µs a rule with
//! 3,000 rules, and more for each with more.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

use maple_wire::msg::NO_BUFFER;
use maple_wire::{Action, Constraint, Dpid, Field, Instruction, PortNo};

use super::classifier::table_miss;
use super::cookies::cookie;
use super::decide::{Outcome, outcome};
use super::drops::Origin;
use super::received_packet::ReceivedPacket;
use super::segments::may_be_joined;
use super::switch::{CLASSIFIER, INGRESS, ROUTES, RouteTable, Stale};
use super::timers::Timer;
use super::topology::may_be_edge;
use super::{Effect, Engine, InstalledFlow, Time};
use crate::ids::LeafId;
use crate::labels::{LabelIds, LabelKey, LabelTable, Refusal};
use crate::network::{HostInfo, Location, Mac, PortInfo, PortKind};
use crate::remembered::{RememberedLabel, Surroundings, Witness};
use crate::report::Report;
use crate::rule::Rule;
use crate::run::{Finished, Run};
use crate::state::Write;

/// In how many steps the leaves of a switch are decided, and how long the engine does other things in between.
const STEPS: usize = 128;
const STEP: Duration = Duration::from_millis(8);
/// The fewest and the most leaves that are decided in a step.
const LEAST_BATCH: usize = 16;
const MOST_BATCH: usize = 128;

/// How long a switch waits for the labels of its routes after the leaves of all switches are decided.
const PATIENCE: Duration = Duration::from_secs(2);

/// How long it waits at most after its own leaves are decided and its rules known. f may be slow.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// How often it looks whether the other switches are ready too.
pub(super) const LOOK: Duration = Duration::from_millis(1);

/// How long ids of labels of the earlier run rest from then on: by the end all other switches have their new rules.
const RESERVATION: Duration = Duration::from_secs(30);

/// A switch that keeps the rules of an earlier run for now.
pub(super) struct Restoring {
    /// The leaves to decide.
    todo: VecDeque<Witness>,
    /// How many of them are decided in a step.
    batch: usize,
    /// The labels that the earlier run gave out here.
    labels: Vec<LabelKey>,
    /// When the rules that it has became known, from itself or from the controller before.
    read: Option<Time>,
    /// Whether it has reported its rules itself.
    is_confirmed: bool,
    /// Leaves to decide when it has.
    later: Vec<Witness>,
    /// The rules of the earlier run that have the priorities to prefer.
    preferred: Vec<(Vec<Constraint>, u16)>,
    /// When the last of them was decided.
    decided: Option<Time>,
    /// Whether the table was compiled.
    is_built: bool,
    /// When it stops to wait for labels; `None` before the leaves of all switches are decided and their rules known.
    until: Option<Time>,
    /// How many runs may still be repeated.
    repeats_left: usize,
    /// When it looks again whether the other switches are ready.
    next_look: Time,
}

impl Restoring {
    /// Whether the switch, or the controller before, has said which rules it has.
    pub fn are_rules_known(&self) -> bool {
        self.read.is_some()
    }
}

impl Engine {
    /// Takes what an earlier run knew for true, where this one knows nothing yet.
    pub(super) fn presume(&mut self, earlier: &Surroundings, switches: BTreeSet<Dpid>) {
        self.store.change_restoring(|all| {
            all.unread.extend(&switches);
            all.unconfirmed.extend(&switches);
            all.undecided.extend(&switches);
            all.unsettled.extend(switches);
        });
        let mut reports = Vec::new();
        let options = &self.options;
        let commit = self.store.update(|state| {
            reports.clear();
            let facts = state.facts();
            // Switches that left at different times may tell different things of one port, or of one host.
            let mut ports: BTreeMap<Location, PortKind> = BTreeMap::new();
            let is_new = |at: &Location| state.port(*at) == Some(PortInfo { up: true, kind: PortKind::New });
            for (a, b) in &earlier.links {
                let is_free = |at: &Location| is_new(at) && may_be_joined(facts, *at);
                if a != b && [a, b].into_iter().all(|at| is_free(at) && !ports.contains_key(at)) {
                    ports.extend([(*a, PortKind::Link(*b)), (*b, PortKind::Link(*a))]);
                    reports.push(Report::LinkUp(*a.min(b), *a.max(b)));
                }
            }
            for at in earlier.edges.iter().filter(|at| is_new(at) && may_be_edge(facts, **at)) {
                let is_middlebox = options.middleboxes.contains(at);
                ports.entry(*at).or_insert(if is_middlebox { PortKind::Middlebox } else { PortKind::Edge });
            }
            let mut hosts: BTreeMap<Mac, HostInfo> = BTreeMap::new();
            let mut owned: BTreeSet<IpAddr> = BTreeSet::new();
            for (mac, info) in earlier.hosts.iter().filter(|_| options.track_hosts) {
                let is_free = state.host(*mac).is_none()
                    && !hosts.contains_key(mac)
                    && facts.place(*mac).is_none_or(|place| place == info.location);
                let is_edge = match ports.get(&info.location) {
                    Some(kind) => *kind == PortKind::Edge,
                    None => state.port(info.location) == Some(PortInfo { up: true, kind: PortKind::Edge }),
                };
                if is_free && is_edge {
                    let mut info = info.clone();
                    facts.addresses(*mac).for_each(|ip| info.insert(ip));
                    let mut is_own = |ip: IpAddr| {
                        let may_be = facts.owner(ip).is_none_or(|owner| owner == *mac);
                        may_be && state.host_by_ip(ip).is_none() && owned.insert(ip)
                    };
                    info.ipv4.retain(|ip| is_own((*ip).into()));
                    info.ipv6.retain(|ip| is_own((*ip).into()));
                    reports.push(Report::HostFound { mac: *mac, at: info.location });
                    hosts.insert(*mac, info);
                }
            }
            let port = |(at, kind)| Write::Port { at, info: Some(PortInfo { up: true, kind }) };
            let host = |(mac, info)| Write::Host { mac, info: Some(info) };
            ports.into_iter().map(port).chain(hosts.into_iter().map(host)).collect()
        });
        self.apply_commit(commit);
        reports.into_iter().for_each(|report| self.report(report));
    }

    /// Begins to restore a switch from these witness packets, or goes on with more of them. Its rules follow.
    pub(super) fn restore(
        &mut self,
        dpid: Dpid,
        flows: Option<Vec<InstalledFlow>>,
        witnesses: Vec<Witness>,
        known: &Surroundings,
    ) {
        let Some(switch) = self.switches.get_mut(&dpid) else { return self.give_up_restore(dpid) };
        let until = self.now + RESERVATION;
        let here = known.labels.iter().filter(|label| label.switch == dpid);
        let labels: Vec<LabelKey> = self.store.with_label_ids(dpid, |ids| {
            let key = |label: &RememberedLabel| {
                let key = LabelKey { port: label.port, id: label.id };
                ids.prefer(key, label.meaning);
                key
            };
            let labels: Vec<LabelKey> = here.map(key).collect();
            ids.reserve(labels.iter().copied(), until);
            labels
        });
        if let Some(restoring) = switch.restoring.as_mut().filter(|restoring| !restoring.is_confirmed) {
            // More is remembered than was told at first.
            restoring.labels = labels;
            return restoring.later.extend(witnesses);
        }
        // It may have disconnected and come back since the network was presumed.
        self.store.change_restoring(|all| {
            all.unread.insert(dpid);
            all.unconfirmed.insert(dpid);
            all.undecided.insert(dpid);
            all.unsettled.insert(dpid);
        });
        switch.table.begin_rebuild();
        let batch = (witnesses.len() / STEPS).clamp(LEAST_BATCH, MOST_BATCH);
        switch.restoring = Some(Restoring {
            batch,
            labels,
            read: None,
            is_confirmed: false,
            later: Vec::new(),
            preferred: Vec::new(),
            decided: None,
            is_built: false,
            until: None,
            repeats_left: witnesses.len() + batch,
            next_look: self.now,
            todo: witnesses.into(),
        });
        if let Some(flows) = flows {
            self.take_flows(dpid, flows);
            self.earlier_rules_known(dpid, false);
        }
        self.go_on_restoring(dpid);
    }

    /// Whether a switch that is being restored has not reported its rules yet.
    pub(super) fn awaits_earlier_rules(&self, dpid: Dpid) -> bool {
        let restoring = self.switches.get(&dpid).and_then(|switch| switch.restoring.as_ref());
        restoring.is_some_and(|restoring| !restoring.is_confirmed)
    }

    /// The rules of a switch that is being restored have become known, from itself or from the controller before.
    pub(super) fn earlier_rules_known(&mut self, dpid: Dpid, is_confirmed: bool) {
        let Some(switch) = self.switches.get_mut(&dpid) else { return };
        let ingress = if switch.three_tables { INGRESS } else { CLASSIFIER };
        let (mut preferred, mut labels, mut pushed) = (Vec::new(), Vec::new(), Vec::new());
        let shared = switch.shared_table();
        for (table, rule) in switch.tables.installed() {
            labels.extend(LabelTable::key_of_rule(rule.priority, &rule.matching).filter(|_| table == shared));
            pushed.extend(labels_pushed_by(&rule));
            if table == ingress {
                preferred.push((rule.matching.constraints().copied().collect(), rule.priority));
            }
        }
        let miss = table_miss(cookie(self.options.epoch, None));
        if switch.tables.has_but_for_cookie(ROUTES, &miss) == Some(true) {
            switch.open_route_table();
        }
        if switch.route_table == RouteTable::Open {
            // Leaves that were decided before.
            switch.changed_actions.extend(self.routes.use_route_table(dpid));
        }
        if let Some(restoring) = &mut switch.restoring {
            (restoring.preferred, restoring.read) = (preferred, Some(self.now));
            restoring.is_confirmed = is_confirmed;
            labels.extend(&restoring.labels);
            restoring.until = None;
            if is_confirmed && !restoring.later.is_empty() {
                restoring.todo.extend(std::mem::take(&mut restoring.later));
                restoring.repeats_left += restoring.todo.len();
                restoring.decided = None;
            }
            if std::mem::take(&mut restoring.is_built) {
                switch.table.begin_rebuild();
            }
        }
        let until = self.now + RESERVATION;
        self.store.with_label_ids(dpid, |ids| ids.reserve(labels, until));
        // Another switch may have lost the rules for labels that this one pushes.
        let state = self.store.snapshot();
        for (port, id) in pushed {
            let Some(far) = state.peer(Location::new(dpid, port)) else { continue };
            let keys = [None, Some(far.port)].map(|port| LabelKey { port, id });
            self.store.with_other_label_ids(far.switch, |ids| ids.reserve(keys, until));
        }
        self.revoke_lost_labels(dpid);
        self.sync_route_rules();
        self.store.change_restoring(|all| {
            all.unread.remove(&dpid);
            all.unsettled.insert(dpid);
            if is_confirmed {
                all.unconfirmed.remove(&dpid);
            }
        });
        self.ask_again();
        self.mark_dirty(dpid, Stale::default());
        if is_confirmed {
            self.go_on_restoring(dpid);
        }
    }

    /// Labels were thought to be ready, and their rules are not there.
    fn revoke_lost_labels(&mut self, dpid: Dpid) {
        let Some(switch) = self.switches.get(&dpid) else { return };
        let (tables, table) = (&switch.tables, switch.shared_table());
        let is_lost = |(_, rule): &(u64, &Rule)| tables.has_but_for_cookie(table, rule) != Some(true);
        let lost: Vec<u64> = switch.labels.confirmed_rules().filter(is_lost).map(|(serial, _)| serial).collect();
        lost.into_iter().for_each(|serial| self.revoke_label(dpid, serial, Refusal::Stale(dpid)));
    }

    /// Whether some switch has not reported its rules yet, so that labels may not be what they were.
    pub(super) fn is_any_unconfirmed(&self) -> bool {
        self.store.restoring(|all| !all.unconfirmed.is_empty())
    }

    /// Whether some switch keeps the rules of an earlier run for now. Until that is over, a new label may have to wait.
    pub(super) fn is_any_restoring(&self) -> bool {
        self.store.restoring(|all| !all.unconfirmed.is_empty() || !all.unsettled.is_empty())
    }

    /// Handles requests that waited until all rules of an earlier run were known.
    pub(super) fn ask_again(&mut self) {
        std::mem::take(&mut self.early_requests).into_iter().for_each(|asked| self.acquire_label(asked));
    }

    /// What is to be known of a switch when it comes back.
    pub(super) fn remembered_of(&mut self, dpid: Dpid) -> Option<Effect> {
        let switch = self.switches.get_mut(&dpid).filter(|_| self.options.remember)?;
        let todo = switch.restoring.take().map(|restoring| restoring.todo).unwrap_or_default();
        let ids: Vec<LeafId> = switch.table.tree().leaves().collect();
        let mut leaves: Vec<(LeafId, Witness)> =
            ids.into_iter().filter_map(|id| Some((id, self.leaves.get(&id)?.remembered()))).collect();
        leaves.extend(todo.into_iter().map(|witness| (self.new_leaf_id(), witness)));
        leaves.sort_unstable_by_key(|(id, _)| *id);
        Some(Effect::Departed { dpid, leaves, surroundings: self.store.surroundings_of(dpid) })
    }

    /// The switch is gone, and so are its leaves, but they are still remembered.
    pub(super) fn report_departed(&mut self, departed: Option<Effect>) {
        if let Some(Effect::Departed { leaves, .. }) = &departed {
            self.leaves.unmark_changed(leaves.iter().map(|(id, _)| *id));
        }
        self.out.extend(departed);
    }

    /// The switch is gone.
    pub(super) fn give_up_restore(&mut self, dpid: Dpid) {
        self.store.change_restoring(|all| {
            all.unread.remove(&dpid);
            all.unconfirmed.remove(&dpid);
            all.undecided.remove(&dpid);
            all.unsettled.remove(&dpid);
        });
        self.ask_again();
    }

    /// Lets f decide the next leaves of a switch, or stops to wait for labels.
    pub(super) fn go_on_restoring(&mut self, dpid: Dpid) {
        let Some(restoring) = self.switches.get_mut(&dpid).and_then(|switch| switch.restoring.as_mut()) else { return };
        if restoring.decided.is_some() {
            return self.mark_dirty(dpid, Stale::default());
        }
        let rest = restoring.todo.split_off(restoring.todo.len().min(restoring.batch));
        let witnesses = std::mem::replace(&mut restoring.todo, rest);
        let run = |witness: Witness| {
            let Witness { at, frame, total_len, specialisation } = witness;
            let received = ReceivedPacket { frame, total_len, buffer_id: NO_BUFFER, at };
            // A packet that has come since may have been decided already.
            let is_open = at.switch == dpid && self.lookup(&received).is_none();
            Some((self.admissible_run(&received).filter(|_| is_open)?, (received, specialisation)))
        };
        let runs: Vec<(Run, _)> = witnesses.into_iter().filter_map(run).collect();
        for (run, (received, specialisation), answer) in self.run_policy(runs) {
            let outcome = outcome(&run, answer);
            self.restore_leaf(outcome, received, specialisation);
        }
        let Some(restoring) = self.switches.get_mut(&dpid).and_then(|switch| switch.restoring.as_mut()) else { return };
        if restoring.todo.is_empty() {
            restoring.decided = Some(self.now);
            self.store.change_restoring(|all| all.undecided.remove(&dpid));
            self.mark_dirty(dpid, Stale::ALL);
        } else {
            self.timers.insert((self.now + STEP, Timer::Restore(dpid)));
        }
    }

    /// Makes a leaf of f's answer to a remembered packet, if the answer lasts.
    fn restore_leaf(&mut self, outcome: Outcome, received: ReceivedPacket, specialisation: Box<[Constraint]>) {
        let Outcome::Answer((goal, _), finished) = outcome else { return };
        let origin = Origin::of(&finished);
        let Finished { trace, txn, violations, left_out, made_at, .. } = *finished;
        let at = received.at;
        if !trace.lasts() || txn.wrote() || !self.check_capacity_for_trace(at.switch) {
            return;
        }
        let id = self.new_leaf_id();
        if self.store.commit(txn, Some(id)).is_err() {
            // What the run read has changed meanwhile.
            let restoring = self.switches.get_mut(&at.switch).and_then(|switch| switch.restoring.as_mut());
            if let Some(restoring) = restoring.filter(|restoring| restoring.repeats_left > 0) {
                restoring.repeats_left -= 1;
                let ReceivedPacket { frame, total_len, .. } = received;
                restoring.todo.push_back(Witness { at, frame, total_len, specialisation });
            }
            return;
        }
        self.report_left_out(left_out, made_at.as_ref());
        self.report_violations(violations, at);
        let leaf = self.new_leaf(trace, (goal, origin), received);
        let standing = self.cache_leaf(id, leaf);
        // At once, since packets that it gave up have leaves of their own, which come after it.
        if standing == id
            && let Some(switch) = self.switches.get_mut(&at.switch)
        {
            switch.table.specialise(id, &specialisation);
        }
    }

    /// Compiles the table of all leaves of a switch at once. If a leaf's route is not ready, the leaf has no rules, and
    /// the priorities that these had are lost.
    fn build_restored(&mut self, dpid: Dpid) {
        self.with_switch(dpid, |engine, switch| {
            // The leaves whose routes have just become ready.
            engine.collect(switch);
            true
        });
        let Some(switch) = self.switches.get_mut(&dpid) else { return };
        let Some(restoring) = switch.restoring.as_mut().filter(|restoring| !restoring.is_built) else { return };
        restoring.is_built = true;
        self.last_built = Some(self.now);
        switch.table.end_rebuild(&std::mem::take(&mut restoring.preferred));
        let ids: Vec<LeafId> = switch.table.tree().leaves().collect();
        for id in ids {
            let specialisation = switch.table.tree().specialisation(id);
            if let Some(leaf) = self.leaves.get_mut(&id).filter(|leaf| *leaf.specialisation != *specialisation) {
                leaf.specialisation = specialisation.into();
                self.leaves.mark_changed(id);
            }
        }
        self.install_samples(dpid);
    }

    /// In place of an update, for a switch that keeps the rules of an earlier run: labels whose rules it has are ready.
    pub(super) fn flush_restoring(&mut self, dpid: Dpid) {
        let is_read = |restoring: &Restoring| restoring.read.is_some();
        let restoring = self.switches.get(&dpid).and_then(|switch| switch.restoring.as_ref());
        if !restoring.is_some_and(is_read) {
            return;
        }
        self.with_switch(dpid, |engine, switch| {
            engine.collect(switch);
            true
        });
        let Some(switch) = self.switches.get_mut(&dpid) else { return };
        let (mut ready, mut stale) = (Vec::new(), Vec::new());
        if switch.tables.has_own_rules() {
            let (tables, labels, table) = (&switch.tables, &switch.labels, switch.shared_table());
            for serial in switch.tables.labels_to_confirm() {
                match labels.unconfirmed_rule(serial).map(|rule| tables.has_but_for_cookie(table, rule)) {
                    None | Some(Some(true)) => ready.push(serial),
                    Some(Some(false)) => stale.push(serial),
                    Some(None) => {}
                }
            }
            switch.tables.confirm_labels(&ready);
        }
        if !ready.is_empty() {
            self.labels_confirmed(dpid, &ready);
        }
        for serial in stale {
            self.revoke_label(dpid, serial, Refusal::Stale(dpid));
        }
        let (now, any_waits) = (self.now, self.routes.any_waits_at(dpid));
        let Some(restoring) = self.switches.get_mut(&dpid).and_then(|switch| switch.restoring.as_mut()) else { return };
        let Some(decided) = restoring.decided.and_then(|decided| Some(decided.max(restoring.read?))) else { return };
        let are_all_decided = || self.store.restoring(|all| all.undecided.is_empty() && all.unread.is_empty());
        // f runs within a turn, and may take longer than the wait.
        if restoring.until.is_none() && decided < now && are_all_decided() {
            restoring.until = Some(now + PATIENCE);
        }
        let is_over = restoring.until.is_some_and(|until| until <= now) || decided + LONGEST_WAIT <= now;
        let is_settled = !any_waits || is_over;
        if restoring.next_look <= now {
            restoring.next_look = now + LOOK;
        }
        let (next_look, is_confirmed, is_built) = (restoring.next_look, restoring.is_confirmed, restoring.is_built);
        if is_settled && !is_built && self.last_built == Some(now) {
            // Packets are answered between two switches.
            self.timers.insert((now + LOOK, Timer::Restore(dpid)));
            return;
        }
        if is_settled {
            self.build_restored(dpid);
        }
        // Another switch may still ask for a label that this one has a rule for.
        let have_all_waited = is_settled
            && self.store.change_restoring(|all| {
                all.unsettled.remove(&dpid);
                all.unsettled.is_empty() && all.unconfirmed.is_empty()
            });
        if have_all_waited && self.last_built == Some(now) {
            self.timers.insert((now + LOOK, Timer::Restore(dpid)));
        } else if have_all_waited {
            self.last_built = Some(now);
            self.end_restore(dpid);
        } else if is_confirmed || !is_settled {
            self.timers.insert((next_look, Timer::Restore(dpid)));
        }
    }

    /// From now on the switch gets the rules of this run.
    fn end_restore(&mut self, dpid: Dpid) {
        self.store.with_label_ids(dpid, LabelIds::forget_earlier);
        self.with_switch(dpid, |engine, switch| {
            switch.restoring = None;
            // Rules that follow from what has just become ready.
            engine.collect(switch);
            switch.renamed.extend(switch.tables.cookies_to_rename());
            // Where one old cookie is to be two new ones, the rules of the second one are sent.
            switch.tables.translate_cookies(|cookie| switch.renamed.current(cookie));
            true
        });
        self.mark_dirty(dpid, Stale::default());
    }
}

/// The labels that packets have when a rule has sent them, with the ports that they leave by.
fn labels_pushed_by(rule: &Rule) -> Vec<(PortNo, u16)> {
    let (mut pushed, mut id) = (Vec::new(), None);
    for instruction in rule.instructions.iter() {
        let Instruction::ApplyActions(actions) = instruction else { continue };
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
