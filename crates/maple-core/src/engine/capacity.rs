//! Room in a switch and its tree: who may come in, and who has to go. [`super::capacity`] does what it says.
//!
//! # What
//!
//! A switch has so many rules at most as [`Options::max_rules`](super::Options) says, and in each table so many as it had
//! when it last said that the table was full. A leaf comes in only while there is a reserve; its rules are counted when
//! they are known, before any of them is sent, and if they don't fit it is turned away again. Its packets go through the
//! controller, which knows the answer, until it finds room at a later packet.
//!
//! Whoever is turned away makes the controller ask the switch for statistics, once in [`Options::eviction_period`](super::Options)
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

use rustc_hash::FxHashMap;

use super::cookies::Subject;
use super::host_rules::HostCapacity;
use super::switch::CLASSIFIER;
use super::{Options, Time};

/// After what time a table that was full may have more room.
const FULL_FOR: Duration = Duration::from_secs(60);

/// What is known of the room in a switch.
#[derive(Debug)]
pub(super) struct Capacity {
    max_rules: Option<usize>,
    max_traces: Option<usize>,
    period: Duration,
    /// The table that has rules of hosts and ports alone, if there is one: its bound is nothing to leaves.
    leafless: Option<u8>,
    /// How many rules a table had when it was full, and when that was.
    full_at: BTreeMap<u8, (usize, Time)>,
    /// Tables that have just said that they are full.
    full: Vec<u8>,
    /// The request for statistics that is not answered yet.
    asked: Option<u32>,
    /// When the next one may be sent.
    next: Time,
    /// Packets that the rules of leaves and labels took, as the answer under way tells.
    reading: FxHashMap<Subject, u64>,
    /// The same as the last answer told.
    packets: FxHashMap<Subject, u64>,
    /// How many leaves were turned away since the last answer for want of rules, and of traces.
    refused_rules: usize,
    refused_traces: usize,
}

/// Whether the switch is to be asked which rules are in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UsageQuery {
    /// No: nobody was turned away, or it has been asked.
    No,
    /// Not before this time.
    At(Time),
    Now,
}

impl Capacity {
    /// A switch of which nothing is known. Where it has a classifier of its own, no leaf has rules there.
    pub fn new(has_classifier: bool, options: &Options) -> Capacity {
        Capacity {
            max_rules: options.max_rules,
            max_traces: options.max_traces,
            period: options.eviction_period,
            leafless: has_classifier.then_some(CLASSIFIER),
            full_at: BTreeMap::new(),
            full: Vec::new(),
            asked: None,
            next: Time::default(),
            reading: FxHashMap::default(),
            packets: FxHashMap::default(),
            refused_rules: 0,
            refused_traces: 0,
        }
    }

    /// A table says that it is full.
    pub fn on_table_full(&mut self, table: u8) {
        self.full.push(table);
    }

    /// The switch says what it has, so many rules in each table: tables that were full had room for just so many.
    pub fn on_tables_read(&mut self, now: Time, count: impl Fn(u8) -> usize) {
        for table in std::mem::take(&mut self.full) {
            self.full_at.insert(table, (count(table), now));
        }
    }

    /// All bounds that hold now: a table or all of them, and how many rules.
    fn bounds(&self, now: Time) -> impl Iterator<Item = (Option<u8>, usize)> {
        // Perhaps there is more by now.
        let is_fresh = move |at: Time| now < at + FULL_FOR;
        let full = self.full_at.iter().filter(move |(_, (_, at))| is_fresh(*at));
        let all = self.max_rules.map(|bound| (None, bound));
        all.into_iter().chain(full.map(|(table, (count, _))| (Some(*table), *count)))
    }

    /// The bounds that matter to leaves and labels.
    fn bounds_of_leaves(&self, now: Time) -> impl Iterator<Item = (Option<u8>, usize)> {
        self.bounds(now).filter(|(table, _)| table.is_none() || *table != self.leafless)
    }

    /// Whether a leaf may try to come in, with so many rules in a table or all of them.
    pub fn has_capacity(&self, now: Time, count: impl Fn(Option<u8>) -> usize) -> bool {
        self.bounds_of_leaves(now).all(|(table, bound)| count(table) + reserve(bound) < bound)
    }

    /// Whether a tree of so many leaves may have one more.
    pub fn has_capacity_for_trace(&self, leaves: usize) -> bool {
        self.max_traces.is_none_or(|bound| leaves < bound)
    }

    /// Whether so many `added` rules fit beside those that are there, with or without a reserve that stays free.
    pub fn fits(
        &self,
        now: Time,
        with_reserve: bool,
        count: impl Fn(Option<u8>) -> usize,
        added: impl Fn(Option<u8>) -> usize,
    ) -> bool {
        self.bounds_of_leaves(now).all(|(table, bound)| {
            let (kept, added) = (if with_reserve { reserve(bound) } else { 0 }, added(table));
            added == 0 || count(table) + added + kept <= bound
        })
    }

    /// Whether there is so little room that no rule may stay without need.
    pub fn is_short(&self, now: Time, count: impl Fn(Option<u8>) -> usize) -> bool {
        self.bounds_of_leaves(now).any(|(table, bound)| count(table) + 2 * reserve(bound) >= bound)
    }

    /// How much room the rules of hosts have.
    pub fn of_hosts(&self, now: Time, count: impl Fn(Option<u8>) -> usize) -> HostCapacity {
        let narrowed = |capacity: HostCapacity, (table, bound): (Option<u8>, usize)| HostCapacity {
            free: capacity.free.min(bound.saturating_sub(reserve(bound) + count(table))),
            per_port: capacity.per_port.min(share(bound)),
            total: capacity.total.min(bound / 2),
        };
        let matters = |(table, _): &(Option<u8>, usize)| table.is_none_or(|table| table == CLASSIFIER);
        self.bounds(now).filter(matters).fold(HostCapacity::ENDLESS, narrowed)
    }

    /// Somebody was turned away for want of rules.
    pub fn on_rules_refused(&mut self) {
        self.refused_rules += 1;
    }

    /// A leaf was turned away for want of traces.
    pub fn on_trace_refused(&mut self) {
        self.refused_traces += 1;
    }

    /// Whether to ask which rules are in use; [`UsageQuery::Now`] is said once in a period.
    pub fn ask(&mut self, now: Time) -> UsageQuery {
        if self.asked.is_some() || self.refused_rules + self.refused_traces == 0 {
            return UsageQuery::No;
        }
        if now < self.next {
            return UsageQuery::At(self.next);
        }
        self.next = now + self.period;
        UsageQuery::Now
    }

    /// The switch has been asked, by the message with this number.
    pub fn on_asked(&mut self, xid: u32) {
        self.asked = Some(xid);
    }

    /// Whether this is the answer that is waited for.
    pub fn is_answer(&self, xid: u32) -> bool {
        self.asked == Some(xid)
    }

    /// A part of the answer: packets that rules took.
    pub fn on_counters(&mut self, packets: impl IntoIterator<Item = (Subject, u64)>) {
        for (subject, count) in packets {
            *self.reading.entry(subject).or_default() += count;
        }
    }

    /// All of the answer is here, as far as the switch gives one.
    pub fn end_round(&mut self, now: Time) -> UsageRound {
        self.asked = None;
        let packets = std::mem::take(&mut self.reading);
        let before = std::mem::replace(&mut self.packets, packets.clone());
        // Counters begin again when a rule is sent anew.
        let since = |(subject, now): (Subject, u64)| {
            let then = before.get(&subject).copied().filter(|then| *then <= now);
            (subject, now - then.unwrap_or_default())
        };
        UsageRound {
            used: packets.into_iter().map(since).filter(|(_, used)| *used > 0).collect(),
            refused_rules: std::mem::take(&mut self.refused_rules),
            refused_traces: std::mem::take(&mut self.refused_traces),
            bound: self.bounds(now).map(|(_, bound)| bound).min(),
            max_traces: self.max_traces,
        }
    }
}

/// What is known of the use of a switch's rules since the last time, and how many leaves were turned away.
#[derive(Debug)]
pub(super) struct UsageRound {
    /// Packets that were taken; what is not in it took none.
    used: FxHashMap<Subject, u64>,
    refused_rules: usize,
    refused_traces: usize,
    bound: Option<usize>,
    max_traces: Option<usize>,
}

impl UsageRound {
    /// Packets that the rules of a leaf or label took since the last time.
    pub fn used(&self, subject: &Subject) -> u64 {
        self.used.get(subject).copied().unwrap_or_default()
    }

    /// Who goes, of those with rules and of those with traces, both in the order in which they were last used.
    pub fn choose(&self, mut with_rules: Vec<Subject>, mut traces: Vec<Subject>) -> Vec<Subject> {
        with_rules.sort_by_key(|subject| self.used(subject));
        traces.sort_by_key(|subject| self.used(subject));
        let mut victims = self.first_of(&with_rules, self.refused_rules, self.bound);
        victims.extend(self.first_of(&traces, self.refused_traces, self.max_traces));
        victims
    }

    /// Who goes of these, in the order of their use, where so many were turned away.
    fn first_of(&self, subjects: &[Subject], refused_rules: usize, bound: Option<usize>) -> Vec<Subject> {
        let Some(bound) = bound else { return Vec::new() };
        let count = refused_rules.min(share(bound));
        let cold = subjects.iter().take_while(|subject| self.used(subject) == 0).count();
        let warm = if cold < count { share(count) } else { 0 };
        subjects.iter().take(count.min(cold + warm)).copied().collect()
    }
}

/// How many of so many are kept for what has to come in.
fn reserve(bound: usize) -> usize {
    (bound / 16).max(1)
}

/// How many of so many may go in a period.
fn share(bound: usize) -> usize {
    (bound / 8).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::LeafId;

    fn capacity(max_rules: Option<usize>, max_traces: Option<usize>) -> Capacity {
        Capacity::new(true, &Options { max_rules, max_traces, ..Options::default() })
    }

    fn leaves(numbers: impl IntoIterator<Item = u64>) -> Vec<Subject> {
        numbers.into_iter().map(|number| Subject::Leaf(LeafId(number))).collect()
    }

    #[test]
    fn a_sixteenth_is_kept_for_what_has_to_come_in() {
        let capacity = capacity(Some(160), None);
        let now = Time(1);
        assert!(capacity.has_capacity(now, |_| 149) && !capacity.has_capacity(now, |_| 150));
        assert!(capacity.fits(now, true, |_| 140, |_| 10) && !capacity.fits(now, true, |_| 140, |_| 11));
        assert!(capacity.fits(now, false, |_| 150, |_| 10) && !capacity.fits(now, false, |_| 150, |_| 11));
        assert!(capacity.fits(now, true, |_| 1000, |_| 0), "what adds nothing always fits");
        assert!(!capacity.is_short(now, |_| 139) && capacity.is_short(now, |_| 140));
    }

    #[test]
    fn a_table_that_said_that_it_was_full_is_a_bound_for_a_minute() {
        let mut capacity = capacity(None, None);
        let now = Time(1);
        capacity.on_table_full(1);
        assert!(capacity.has_capacity(now, |_| 1000), "how many it had is not known yet");
        capacity.on_tables_read(now, |table| if table == 1 { 32 } else { 99 });
        assert!(!capacity.has_capacity(now, |_| 30) && capacity.has_capacity(now, |_| 29));
        assert!(capacity.has_capacity(now + FULL_FOR, |_| 30));
    }

    #[test]
    fn a_full_classifier_is_nothing_to_leaves_and_all_to_hosts() {
        let mut capacity = capacity(None, None);
        let now = Time(1);
        capacity.on_table_full(CLASSIFIER);
        capacity.on_tables_read(now, |_| 64);
        assert!(capacity.has_capacity(now, |_| 64));
        assert_eq!(capacity.of_hosts(now, |_| 50), HostCapacity { free: 10, per_port: 8, total: 32 });
        capacity.full_at.clear();
        capacity.on_table_full(1);
        capacity.on_tables_read(now, |_| 64);
        assert_eq!(capacity.of_hosts(now, |_| 50), HostCapacity::ENDLESS);
    }

    #[test]
    fn a_switch_is_asked_once_in_a_period_and_only_if_somebody_was_turned_away() {
        let mut capacity = capacity(Some(16), None);
        let now = Time(1);
        assert_eq!(capacity.ask(now), UsageQuery::No);
        capacity.on_rules_refused();
        assert_eq!(capacity.ask(now), UsageQuery::Now);
        capacity.on_asked(7);
        assert_eq!((capacity.ask(now), capacity.is_answer(7), capacity.is_answer(8)), (UsageQuery::No, true, false));
        capacity.end_round(now);
        capacity.on_trace_refused();
        let next = now + Options::default().eviction_period;
        assert_eq!((capacity.ask(now), capacity.ask(next)), (UsageQuery::At(next), UsageQuery::Now));
    }

    #[test]
    fn those_go_first_that_took_the_fewest_packets_since_the_last_time() {
        let mut capacity = capacity(Some(32), Some(80));
        let now = Time(1);
        let use_of = |counts: [u64; 4]| leaves(1..5).into_iter().zip(counts);
        capacity.on_counters(use_of([100, 50, 10, 5]));
        capacity.end_round(now);
        (0..3).for_each(|_| capacity.on_rules_refused());
        // The third one's rule was sent anew.
        capacity.on_counters(use_of([100, 52, 9, 0]));
        capacity.on_counters(leaves([2]).into_iter().zip([1]));
        let round = capacity.end_round(now);
        assert_eq!(leaves(1..5).iter().map(|leaf| round.used(leaf)).collect::<Vec<_>>(), [0, 3, 9, 0]);
        assert_eq!(round.choose(leaves([4, 3, 2, 1]), leaves(1..5)), leaves([4, 1, 2]), "nobody refused_rules a trace");
    }

    #[test]
    fn of_what_is_in_use_an_eighth_goes_and_of_all_an_eighth_of_the_bound() {
        let used = |count: u64, refused_rules: usize| {
            let mut capacity = capacity(Some(320), None);
            (0..refused_rules).for_each(|_| capacity.on_rules_refused());
            capacity.on_counters(leaves(0..count).into_iter().map(|leaf| (leaf, 1)));
            capacity.end_round(Time(1)).choose(leaves(0..300), Vec::new()).len()
        };
        assert_eq!((used(0, 7), used(0, 1000)), (7, 40));
        assert_eq!((used(300, 1000), used(300, 4)), (5, 1));
        assert_eq!(used(290, 1000), 10 + 5, "those that are not used, and an eighth of the rest that would");
    }
}
