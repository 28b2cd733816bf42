//! Room in switches and trees: who may come in, and who has to go.
//!
//! # What
//!
//! A switch has so many rules at most as [`Options::max_rules`](super::Options) says, and in each table so many as it had
//! when it last said that the table was full. A leaf comes in only while there is a reserve; its rules are counted when
//! they are known, before any of them is sent, and if they don't fit it is turned away again. Its packets go through the
//! controller, which knows the answer, until it finds room at a later packet.
//!
//! Whoever is turned away makes the controller ask the switch for statistics, once in [`Options::room_period`](super::Options)
//! at most. When they are here some leaves are evicted, as many at most as were turned away: those first whose rules
//! took the fewest packets since the last time, and of these those that were not used for longest. They are withdrawn like
//! all that f no longer says: their place in the tree becomes Ω, and the compiler does the rest. Labels are evicted too:
//! whoever sends packets under one stops first.
//!
//! A switch that has hardly more than the reserve left has rules that are there without need taken out
//! ([`Table::tidy`](crate::Table::tidy)), which otherwise wait for new traces.
//!
//! A tree has so many leaves at most as [`Options::max_traces`](super::Options) says. When it is full decisions are not
//! cached, and leaves are evicted in the same way.
//!
//! # Bounds
//!
//! In a period at most an eighth of the bound, but at least one leaf, is evicted at a switch; and of leaves whose rules were
//! in use since the last time an eighth of that, but at least one: where more is in use than there is room for, the
//! controller does not exchange one half for the other all the time. Only if rules that have to come in for others' sake
//! (barriers where a leaf goes) find no room in the reserve, all leaves at the switch go at once.
//!
//! No rule has a timeout at the switch: a rule may shield others.

use std::collections::BTreeMap;
use std::time::Duration;

use maple_wire::Dpid;
use maple_wire::msg::Message;
use maple_wire::msg::stats::{FlowStatsRequest, ReplyBody, RequestBody, StatsReply, StatsRequest};
use rustc_hash::FxHashMap;

use super::host_rules::HostRoom;
use super::leaf::{LeafState, Subject, subject_of};
use super::switch::{CLASSIFIER, Switch};
use super::tables::Waiter;
use super::timers::Timer;
use super::{Effect, Engine, Options, Time};
use crate::labels::Refusal;
use crate::tree::LeafId;

/// After what time a table that was full may have more room.
const FULL_FOR: Duration = Duration::from_secs(60);

/// What is known of the room in a switch.
#[derive(Default)]
pub(super) struct Room {
    /// How many rules a table had when it was full, and when that was.
    full_at: BTreeMap<u8, (usize, Time)>,
    /// Tables that have just said that they are full.
    pub full: Vec<u8>,
    /// The request for statistics that is not answered yet.
    asked: Option<u32>,
    /// When the next one may be sent.
    next: Time,
    /// Packets that the rules of leaves and labels took, as the answer under way tells.
    reading: FxHashMap<Subject, u64>,
    /// The same as the last answer told.
    packets: FxHashMap<Subject, u64>,
    /// How many leaves were turned away since the last answer for want of rules, and of traces.
    wanted: usize,
    wanted_traces: usize,
}

impl Room {
    /// The switch says what it has: tables that were full had room for just so many rules.
    pub fn learn(&mut self, now: Time, count: impl Fn(u8) -> usize) {
        for table in std::mem::take(&mut self.full) {
            self.full_at.insert(table, (count(table), now));
        }
    }

    /// The most rules that a table, or for `None` the switch, may have.
    fn bound(&self, table: Option<u8>, now: Time, options: &Options) -> Option<usize> {
        let Some(table) = table else { return options.max_rules };
        let (count, at) = *self.full_at.get(&table)?;
        // Perhaps there is more by now.
        (now < at + FULL_FOR).then_some(count)
    }

    /// All bounds that hold now: a table or all of them, and how many rules.
    fn bounds(&self, now: Time, options: &Options) -> Vec<(Option<u8>, usize)> {
        let tables = [None].into_iter().chain(self.full_at.keys().copied().map(Some));
        tables.filter_map(|table| Some((table, self.bound(table, now, options)?))).collect()
    }
}

/// Whether a table's bound is nothing to leaves: a classifier has rules of hosts and ports alone.
fn is_leafless(switch: &Switch, table: Option<u8>) -> bool {
    switch.three_tables && table == Some(CLASSIFIER)
}

/// How many of so many are kept for what has to come in.
fn reserve(bound: usize) -> usize {
    (bound / 16).max(1)
}

/// How many of so many may go in a period.
fn share(bound: usize) -> usize {
    (bound / 8).max(1)
}

impl Engine {
    /// Whether a leaf may try to come in at a switch. If not, room is made in time.
    pub(super) fn has_room(&mut self, dpid: Dpid) -> bool {
        let Some(switch) = self.switches.get_mut(&dpid) else { return false };
        let bounds = switch.room.bounds(self.now, &self.options);
        let is_leafless = |table: &Option<u8>| is_leafless(switch, *table);
        if bounds
            .into_iter()
            .all(|(table, bound)| is_leafless(&table) || switch.tables.count(table) + reserve(bound) < bound)
        {
            return true;
        }
        switch.room.wanted += 1;
        self.stats.turned_away += 1;
        self.ask_for_statistics(dpid);
        false
    }

    /// Whether a tree may have one more trace. If not, room is made in time.
    pub(super) fn has_room_for_trace(&mut self, dpid: Dpid) -> bool {
        let Some(switch) = self.switches.get_mut(&dpid) else { return false };
        if self.options.max_traces.is_none_or(|bound| switch.table.tree().len() < bound) {
            return true;
        }
        switch.room.wanted_traces += 1;
        self.stats.turned_away += 1;
        self.ask_for_statistics(dpid);
        false
    }

    /// Whether what is pending fits, with or without a reserve that stays free.
    pub(super) fn fits(&self, switch: &Switch, with_reserve: bool) -> bool {
        switch.room.bounds(self.now, &self.options).into_iter().all(|(table, bound)| {
            let kept = if with_reserve { reserve(bound) } else { 0 };
            let added = switch.tables.additions(table);
            is_leafless(switch, table) || added == 0 || switch.tables.count(table) + added + kept <= bound
        })
    }

    /// Whether there is so little room in a switch that no rule may stay there without need.
    pub(super) fn is_short_of_room(&self, switch: &Switch) -> bool {
        let bounds = switch.room.bounds(self.now, &self.options);
        let is_short =
            |table, bound| !is_leafless(switch, table) && switch.tables.count(table) + 2 * reserve(bound) >= bound;
        bounds.into_iter().any(|(table, bound)| is_short(table, bound))
    }

    /// How much room the rules of hosts have.
    pub(super) fn host_room(&self, switch: &Switch) -> HostRoom {
        let narrowed = |room: HostRoom, (table, bound): (Option<u8>, usize)| HostRoom {
            free: room.free.min(bound.saturating_sub(reserve(bound) + switch.tables.count(table))),
            per_port: room.per_port.min(share(bound)),
            total: room.total.min(bound / 2),
        };
        let bounds = switch.room.bounds(self.now, &self.options).into_iter();
        let matters = |(table, _): &(Option<u8>, usize)| table.is_none_or(|table| table == CLASSIFIER);
        bounds.filter(matters).fold(HostRoom::ENDLESS, narrowed)
    }

    /// Makes room if hosts found none for their rules.
    pub(super) fn make_room_for_hosts(&mut self, dpid: Dpid) {
        let Some(switch) = self.switches.get_mut(&dpid) else { return };
        if switch.host_rules.take_is_short() {
            switch.room.wanted += 1;
            self.stats.turned_away += 1;
            self.ask_for_statistics(dpid);
        }
    }

    /// Turns those away who are about to come in.
    pub(super) fn turn_away(&mut self, dpid: Dpid) {
        let Some(switch) = self.switches.get_mut(&dpid) else { return };
        let waiting = switch.tables.take_waiting();
        for waiter in waiting {
            match waiter {
                Waiter::Fresh(leaf) => self.crowd_out(leaf),
                Waiter::Labels(serials) => {
                    let why = Refusal::Full(dpid);
                    serials.iter().for_each(|serial| self.deny_label(dpid, *serial, why));
                    // Those on their way out wait on.
                    if let Some(switch) = self.switches.get_mut(&dpid) {
                        switch.tables.wait(Waiter::Labels(serials));
                    }
                }
                left @ (Waiter::Left { .. } | Waiter::Former { .. } | Waiter::Settled(_)) => {
                    if let Some(switch) = self.switches.get_mut(&dpid) {
                        switch.tables.wait(left);
                    }
                    continue;
                }
            }
            if let Some(switch) = self.switches.get_mut(&dpid) {
                switch.room.wanted += 1;
            }
            self.stats.turned_away += 1;
        }
        self.ask_for_statistics(dpid);
    }

    /// What has to come in finds no room: all leaves and labels go.
    pub(super) fn clear_out(&mut self, dpid: Dpid) {
        for subject in self.all_subjects_at(dpid) {
            self.evict(dpid, subject);
        }
    }

    /// A leaf's packets go through the controller until there is room.
    pub(super) fn crowd_out(&mut self, id: LeafId) {
        if self.leaves.get(&id).is_some_and(|leaf| leaf.is_moving()) {
            return self.withdraw(id);
        }
        let from = self.now + self.options.room_period;
        self.take_out(id, LeafState::Crowded { from });
    }

    /// Asks which rules are in use, now or when it is time again.
    pub(super) fn ask_for_statistics(&mut self, dpid: Dpid) {
        let now = self.now;
        let Some(switch) = self.switches.get_mut(&dpid) else { return };
        let room = &mut switch.room;
        if room.asked.is_some() || room.wanted + room.wanted_traces == 0 {
            return;
        }
        if now < room.next {
            self.timers.insert((room.next, Timer::Room(dpid)));
            return;
        }
        room.next = now + self.options.room_period;
        let request = Message::StatsRequest(StatsRequest::new(RequestBody::Flow(FlowStatsRequest::all())));
        if let Some(effect) = self.effect(dpid, request) {
            if let (Effect::Send { xid, .. }, Some(switch)) = (&effect, self.switches.get_mut(&dpid)) {
                switch.room.asked = Some(*xid);
            }
            self.stats.stats_requests += 1;
            self.after.push(effect);
        }
    }

    /// Statistics came, or a part of them.
    pub(super) fn flow_stats(&mut self, dpid: Dpid, xid: u32, reply: &StatsReply) {
        let epoch = self.options.epoch;
        let Some(switch) = self.switches.get_mut(&dpid).filter(|switch| switch.room.asked == Some(xid)) else {
            return self.ask_hosts(|hosts, now, wishes| hosts.on_stats(now, dpid, xid, reply, wishes));
        };
        if let ReplyBody::Flow(flows) = &reply.body {
            for flow in flows {
                let reading = &mut switch.room.reading;
                let took = |subject| *reading.entry(subject).or_default() += flow.packet_count;
                subject_of(epoch, flow.cookie).into_iter().for_each(took);
            }
        }
        if !reply.more() {
            self.end_round(dpid);
        }
    }

    /// The switch does not tell: those go that were not used for longest as far as we know.
    pub(super) fn statistics_refused(&mut self, dpid: Dpid, xid: u32) {
        if self.switches.get(&dpid).is_some_and(|switch| switch.room.asked == Some(xid)) {
            self.end_round(dpid);
        } else {
            self.ask_hosts(|hosts, now, wishes| hosts.on_no_stats(now, dpid, xid, wishes));
        }
    }

    /// Makes room by what is known of the rules' use.
    fn end_round(&mut self, dpid: Dpid) {
        let now = self.now;
        let Some(switch) = self.switches.get_mut(&dpid) else { return };
        let room = &mut switch.room;
        room.asked = None;
        let packets = std::mem::take(&mut room.reading);
        let before = std::mem::replace(&mut room.packets, packets);
        let (wanted, wanted_traces) = (std::mem::take(&mut room.wanted), std::mem::take(&mut room.wanted_traces));
        let bound = room.bounds(now, &self.options).into_iter().map(|(_, bound)| bound).min();
        // Counters begin again when a rule is sent anew.
        let used = |subject: &Subject| {
            let (now, then) = (room.packets.get(subject).copied().unwrap_or_default(), before.get(subject).copied());
            then.filter(|then| *then <= now).map_or(now, |then| now - then)
        };
        let tree = switch.table.tree();
        tree.begin_period();
        tree.leaves().filter(|leaf| used(&Subject::Leaf(*leaf)) > 0).for_each(|leaf| tree.mark_used(leaf));
        let coldest = tree.coldest(tree.len());
        let has_rules = |leaf: &LeafId| self.leaves.get(leaf).is_some_and(|leaf| leaf.state == LeafState::Active);
        let leaves = coldest.iter().copied().filter(has_rules).map(Subject::Leaf);
        let mut with_rules: Vec<Subject> = leaves.chain(switch.labels.installed().map(Subject::Label)).collect();
        with_rules.sort_by_key(used);
        let mut traces: Vec<Subject> = coldest.into_iter().map(Subject::Leaf).collect();
        traces.sort_by_key(used);
        let mut victims = choose(&with_rules, wanted, bound, used);
        victims.extend(choose(&traces, wanted_traces, self.options.max_traces, used));
        victims.into_iter().for_each(|subject| self.evict(dpid, subject));
    }

    /// A leaf or label has to go. Whoever sends packets under a label stops first.
    fn evict(&mut self, dpid: Dpid, subject: Subject) {
        match subject {
            Subject::Label(serial) => {
                self.stats.labels_evicted += 1;
                self.revoke_label(dpid, serial, Refusal::Full(dpid));
            }
            Subject::Leaf(leaf) => {
                self.stats.leaves_evicted += 1;
                // Were the packets that wait decided again, they would make the same leaf again.
                self.send_held(leaf);
                self.withdraw(leaf);
            }
        }
    }
}

/// Who goes, of leaves and labels in the order of their use, where so many were turned away.
fn choose(subjects: &[Subject], wanted: usize, bound: Option<usize>, used: impl Fn(&Subject) -> u64) -> Vec<Subject> {
    let Some(bound) = bound else { return Vec::new() };
    let count = wanted.min(share(bound));
    let cold = subjects.iter().take_while(|subject| used(subject) == 0).count();
    let warm = if cold < count { share(count) } else { 0 };
    subjects.iter().take(count.min(cold + warm)).copied().collect()
}
