//! The capacity of a switch and its tree: which leaves fit, and which are evicted. `eviction.rs` carries out the
//! decisions.
//!
//! # What
//!
//! A switch holds at most [`Options::max_rules`](crate::engine::Options) rules. A table that reported itself full holds
//! at most as many rules as it had then. A leaf may try to install only while a reserve is free. Its rules are counted
//! as soon as they are known, before any of them is sent. If they do not fit, the leaf is refused. Its packets then go
//! through the controller, which has the leaf and need not run f, until a later packet finds capacity.
//!
//! A refusal makes the controller ask the switch for statistics, at most once in
//! [`Options::eviction_period`](crate::engine::Options). When they arrive, at most as many leaves are evicted as were
//! refused. The leaves whose rules counted the fewest packets since the last answer go first, and among them the least
//! recently used. They are withdrawn like leaves that are no longer f's answer, and the compiler does the rest. Labels
//! are evicted too; the leaves that use an evicted label stop first.
//!
//! When little more than the reserve is free, the compiler removes redundant barrier rules immediately
//! ([`TableBackend::remove_redundant`](crate::TableBackend::remove_redundant)). Otherwise these wait for new traces.
//!
//! A tree holds at most [`Options::max_traces`](crate::engine::Options) leaves. When it is full, decisions are not
//! cached, and leaves are evicted in the same way.
//!
//! # Bounds
//!
//! In one period, at most an eighth of the bound is evicted at a switch, and at least one leaf. Of leaves whose rules
//! were in use, at most an eighth of that number, and at least one. So if more leaves are in use than fit, the
//! controller does not keep exchanging one half for the other. Removing a leaf may require barrier rules. If these do
//! not fit even into the reserve, all leaves at the switch are evicted together.
//!
//! No rule has a timeout at the switch, because a rule may shield others.

use std::collections::BTreeMap;
use std::time::Duration;

use rustc_hash::FxHashMap;

use crate::engine::context::options::Options;
use crate::engine::one_switch::cookies::Subject;
use crate::engine::one_switch::layout::CLASSIFIER;
use crate::engine::one_switch::ports::host_rules::HostCapacity;
use crate::ids::Time;

/// The time for which a table that was full counts as full. After that it may have more capacity. Chosen: a table that
/// is still full costs an error a minute.
pub(in crate::engine) const FULL_FOR: Duration = Duration::from_secs(60);

/// The capacity of a switch: its bounds, the use of its rules, and what was refused.
#[derive(Clone, Debug)]
pub(in crate::engine) struct Capacity {
    max_rules: Option<usize>,
    max_traces: Option<usize>,
    period: Duration,
    /// The table that has only rules of hosts and ports, if there is one. Its bound does not concern leaves.
    leafless: Option<u8>,
    /// The number of rules of each table that was full, and the time when it was.
    full_at: BTreeMap<u8, (usize, Time)>,
    /// Tables that have just reported that they are full.
    full: Vec<u8>,
    /// The transaction id of the request for statistics that is not answered yet.
    asked: Option<u32>,
    /// The time when the next request may be sent.
    next: Time,
    /// The packets that the rules of leaves and labels counted, in the answer so far.
    reading: FxHashMap<Subject, u64>,
    /// The packets that these rules counted, in the last complete answer.
    packets: FxHashMap<Subject, u64>,
    /// The numbers of refusals since the last answer, for lack of rules and for lack of leaves.
    refused_rules: usize,
    refused_traces: usize,
}

/// A decision whether to ask the switch which rules are in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) enum UsageQuery {
    /// Do not ask: nothing was refused, or the switch has been asked.
    No,
    /// Ask, but not before this time.
    At(Time),
    Now,
}

impl Capacity {
    /// Starts with a switch about which nothing is known. If it has a separate classifier, no leaf has rules there.
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

    /// Records that a table reports that it is full.
    pub fn on_table_full(&mut self, table: u8) {
        self.full.push(table);
    }

    /// Bounds each table that was full by the number of rules that it has. The caller has just read the rules of the
    /// switch, and `count` returns their number in a table.
    pub fn on_tables_read(&mut self, now: Time, count: impl Fn(u8) -> usize) {
        for table in std::mem::take(&mut self.full) {
            self.full_at.insert(table, (count(table), now));
        }
    }

    /// Returns all current bounds: each is a table, or `None` for all tables together, and the maximum number of rules.
    fn bounds(&self, now: Time) -> impl Iterator<Item = (Option<u8>, usize)> {
        // After a while the table may have more capacity.
        let is_fresh = move |at: Time| now < at + FULL_FOR;
        let full = self.full_at.iter().filter(move |(_, (_, at))| is_fresh(*at));
        let all = self.max_rules.map(|bound| (None, bound));
        all.into_iter().chain(full.map(|(table, (count, _))| (Some(*table), *count)))
    }

    /// Returns the bounds that concern leaves and labels.
    fn bounds_of_leaves(&self, now: Time) -> impl Iterator<Item = (Option<u8>, usize)> {
        self.bounds(now).filter(|(table, _)| table.is_none() || *table != self.leafless)
    }

    /// Reports whether a leaf may try to install. `count` returns the number of rules in a table, or in all.
    pub fn has_capacity(&self, now: Time, count: impl Fn(Option<u8>) -> usize) -> bool {
        self.bounds_of_leaves(now).all(|(table, bound)| count(table) + reserve(bound) < bound)
    }

    /// Returns the number of rules that fit before half of the room for leaves is used, also of tables that were full
    /// some time ago.
    pub fn free_half(&self, count: impl Fn(Option<u8>) -> usize) -> usize {
        let free = |(table, bound): (Option<u8>, usize)| (bound / 2).saturating_sub(count(table));
        self.bounds_of_leaves(Time::default()).map(free).min().unwrap_or(usize::MAX)
    }

    /// Reports whether a tree with this number of leaves may have one more.
    pub fn has_capacity_for_trace(&self, leaves: usize) -> bool {
        self.max_traces.is_none_or(|bound| leaves < bound)
    }

    /// Reports whether the `added` rules fit beside the present ones. With `with_reserve`, the reserve stays free.
    pub fn fits(
        &self,
        now: Time,
        with_reserve: bool,
        count: impl Fn(Option<u8>) -> usize,
        added: impl Fn(Option<u8>) -> usize,
    ) -> bool {
        self.bounds_of_leaves(now).all(|(table, bound)| {
            let kept = if with_reserve { reserve(bound) } else { 0 };
            let added = added(table);
            added == 0 || count(table) + added + kept <= bound
        })
    }

    /// Reports whether capacity is so short that redundant rules have to go.
    pub fn is_short(&self, now: Time, count: impl Fn(Option<u8>) -> usize) -> bool {
        self.bounds_of_leaves(now).any(|(table, bound)| count(table) + 2 * reserve(bound) >= bound)
    }

    /// Returns the capacity for rules of hosts.
    pub fn of_hosts(&self, now: Time, count: impl Fn(Option<u8>) -> usize) -> HostCapacity {
        let narrowed = |capacity: HostCapacity, (table, bound): (Option<u8>, usize)| HostCapacity {
            free: capacity.free.min(bound.saturating_sub(reserve(bound) + count(table))),
            per_port: capacity.per_port.min(share(bound)),
            total: capacity.total.min(bound / 2),
        };
        let matters = |(table, _): &(Option<u8>, usize)| table.is_none_or(|table| table == CLASSIFIER);
        self.bounds(now).filter(matters).fold(HostCapacity::ENDLESS, narrowed)
    }

    /// Counts a refusal for lack of rules.
    pub fn on_rules_refused(&mut self) {
        self.refused_rules += 1;
    }

    /// Counts a leaf that was refused because the tree is full.
    pub fn on_trace_refused(&mut self) {
        self.refused_traces += 1;
    }

    /// Decides whether to ask which rules are in use. Returns [`UsageQuery::Now`] at most once in a period.
    pub fn next_query(&mut self, now: Time) -> UsageQuery {
        if self.asked.is_some() || self.refused_rules + self.refused_traces == 0 {
            return UsageQuery::No;
        }
        if now < self.next {
            return UsageQuery::At(self.next);
        }
        self.next = now + self.period;
        UsageQuery::Now
    }

    /// Records that the switch has been asked, with this transaction id.
    pub fn on_asked(&mut self, xid: u32) {
        self.asked = Some(xid);
    }

    /// Reports whether the answer with this transaction id is the awaited one.
    pub fn is_answer(&self, xid: u32) -> bool {
        self.asked == Some(xid)
    }

    /// Adds a part of the answer: the packets that rules counted.
    pub fn on_counters(&mut self, packets: impl IntoIterator<Item = (Subject, u64)>) {
        for (subject, count) in packets {
            *self.reading.entry(subject).or_default() += count;
        }
    }

    /// Ends the answer, which is as complete as the switch gives it. Returns the use of rules since the answer before.
    pub fn end_round(&mut self, now: Time) -> UsageRound {
        self.asked = None;
        let packets = std::mem::take(&mut self.reading);
        let before = std::mem::replace(&mut self.packets, packets.clone());
        // Counters start again when a rule is added again.
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

/// The use of a switch's rules since the last answer, and the numbers of refusals.
#[derive(Clone, Debug)]
pub(in crate::engine) struct UsageRound {
    /// The packets counted. A subject that is missing counted none.
    used: FxHashMap<Subject, u64>,
    refused_rules: usize,
    refused_traces: usize,
    bound: Option<usize>,
    max_traces: Option<usize>,
}

impl UsageRound {
    /// Returns the packets that the rules of a leaf or label counted since the last answer.
    pub fn used(&self, subject: &Subject) -> u64 {
        self.used.get(subject).copied().unwrap_or_default()
    }

    /// Chooses what is evicted, among the subjects with rules and among all traces. Both lists are in the order of
    /// their last use.
    pub fn choose(&self, mut with_rules: Vec<Subject>, mut traces: Vec<Subject>) -> Vec<Subject> {
        with_rules.sort_by_key(|subject| self.used(subject));
        traces.sort_by_key(|subject| self.used(subject));
        let mut victims = self.choose_from(&with_rules, self.refused_rules, self.bound);
        victims.extend(self.choose_from(&traces, self.refused_traces, self.max_traces));
        victims
    }

    /// Chooses what is evicted among these subjects, which are in the order of their use, after this number of
    /// refusals.
    fn choose_from(&self, subjects: &[Subject], refused_rules: usize, bound: Option<usize>) -> Vec<Subject> {
        let Some(bound) = bound else { return Vec::new() };
        let count = refused_rules.min(share(bound));
        let cold = subjects.iter().take_while(|subject| self.used(subject) == 0).count();
        let warm = if cold < count { share(count) } else { 0 };
        subjects.iter().take(count.min(cold + warm)).copied().collect()
    }
}

/// Returns the part of a bound that is kept free for rules that must be installed.
fn reserve(bound: usize) -> usize {
    (bound / 16).max(1)
}

/// Returns the part of a bound that may be evicted in a period.
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
        numbers.into_iter().map(|number| Subject::from(LeafId(number))).collect()
    }

    #[test]
    fn a_sixteenth_of_the_bound_is_a_reserve() {
        let capacity = capacity(Some(160), None);
        let now = Time(1);
        assert!(capacity.has_capacity(now, |_| 149) && !capacity.has_capacity(now, |_| 150));
        assert!(capacity.fits(now, true, |_| 140, |_| 10) && !capacity.fits(now, true, |_| 140, |_| 11));
        assert!(capacity.fits(now, false, |_| 150, |_| 10) && !capacity.fits(now, false, |_| 150, |_| 11));
        assert!(capacity.fits(now, true, |_| 1000, |_| 0), "what adds nothing always fits");
        assert!(!capacity.is_short(now, |_| 139) && capacity.is_short(now, |_| 140));
    }

    #[test]
    fn a_full_table_is_a_bound_for_a_minute() {
        let mut capacity = capacity(None, None);
        let now = Time(1);
        capacity.on_table_full(1);
        assert!(capacity.has_capacity(now, |_| 1000), "how many it had is not known yet");
        capacity.on_tables_read(now, |table| if table == 1 { 32 } else { 99 });
        assert!(!capacity.has_capacity(now, |_| 30) && capacity.has_capacity(now, |_| 29));
        assert!(capacity.has_capacity(now + FULL_FOR, |_| 30));
    }

    #[test]
    fn a_full_classifier_bounds_hosts_but_not_leaves() {
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
    fn a_switch_is_asked_once_in_a_period_and_only_after_a_refusal() {
        let mut capacity = capacity(Some(16), None);
        let now = Time(1);
        assert_eq!(capacity.next_query(now), UsageQuery::No);
        capacity.on_rules_refused();
        assert_eq!(capacity.next_query(now), UsageQuery::Now);
        capacity.on_asked(7);
        assert_eq!(
            (capacity.next_query(now), capacity.is_answer(7), capacity.is_answer(8)),
            (UsageQuery::No, true, false)
        );
        capacity.end_round(now);
        capacity.on_trace_refused();
        let next = now + Options::default().eviction_period;
        assert_eq!((capacity.next_query(now), capacity.next_query(next)), (UsageQuery::At(next), UsageQuery::Now));
    }

    #[test]
    fn leaves_with_the_fewest_packets_are_evicted_first() {
        let mut capacity = capacity(Some(32), Some(80));
        let now = Time(1);
        let use_of = |counts: [u64; 4]| leaves(1..5).into_iter().zip(counts);
        capacity.on_counters(use_of([100, 50, 10, 5]));
        capacity.end_round(now);
        (0..3).for_each(|_| capacity.on_rules_refused());
        // The third leaf's rule was added again.
        capacity.on_counters(use_of([100, 52, 9, 0]));
        capacity.on_counters(leaves([2]).into_iter().zip([1]));
        let round = capacity.end_round(now);
        assert_eq!(leaves(1..5).iter().map(|leaf| round.used(leaf)).collect::<Vec<_>>(), [0, 3, 9, 0]);
        assert_eq!(round.choose(leaves([4, 3, 2, 1]), leaves(1..5)), leaves([4, 1, 2]), "no trace was refused");
    }

    #[test]
    fn evictions_are_bounded_by_an_eighth_of_the_bound_and_of_the_leaves_in_use() {
        let used = |count: u64, refused_rules: usize| {
            let mut capacity = capacity(Some(320), None);
            (0..refused_rules).for_each(|_| capacity.on_rules_refused());
            capacity.on_counters(leaves(0..count).into_iter().map(|leaf| (leaf, 1)));
            capacity.end_round(Time(1)).choose(leaves(0..300), Vec::new()).len()
        };
        assert_eq!((used(0, 7), used(0, 1000)), (7, 40));
        assert_eq!((used(300, 1000), used(300, 4)), (5, 1));
        assert_eq!(used(290, 1000), 10 + 5, "all unused leaves, and an eighth of the remaining victims");
    }
}
