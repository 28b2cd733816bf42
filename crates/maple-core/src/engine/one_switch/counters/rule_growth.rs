//! Measures how much the counters of a switch's rules grow from one report to the next.
//!
//! A switch reports counters in polls, in audits, and when a rule is removed. A rule has counted as much as its counter
//! has grown since the last report. What it counted for an earlier run of the controller is not counted.
//!
//! # Bounds
//!
//! The last counters of at most [`MAX_RULES`] rules are kept, and at most [`MAX_WITHDRAWN`] withdrawn leaves.

use std::collections::VecDeque;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::engine::context::access_hits::AskedRule;
use crate::engine::messages::cause::Origin;
use crate::engine::messages::received_packet::ReceivedPacket;
use crate::engine::one_switch::tables::place;
use crate::ids::LeafId;
use crate::update::EntryKey;

/// The maximum number of rules whose last counters are kept. Chosen: more than the tables of switches hold, and a bound
/// on what reports of a switch can cost.
const MAX_RULES: usize = 1 << 18;
/// The maximum number of withdrawn leaves that are remembered until their rules are gone. Chosen: more than an update
/// withdraws in most networks; what the rules of further ones drop is counted without their lines.
const MAX_WITHDRAWN: usize = 4096;

/// The parts of a policy for which the packets of a leaf's rules are counted.
#[derive(Clone, Debug)]
pub(in crate::engine) struct CountedLeaf {
    /// The origin of the leaf's decision and its witness packet, if it drops.
    pub drop: Option<(Arc<Origin>, ReceivedPacket)>,
    /// The rules of access lists that decided.
    pub asked: Vec<AskedRule>,
}

/// A switch's report on one of its rules.
#[derive(Clone, Copy, Debug)]
pub(in crate::engine) struct RuleReport<'a> {
    pub table: u8,
    pub key: &'a EntryKey,
    pub packets: u64,
    /// Whether the rule is gone, so that this is its last report.
    pub is_removed: bool,
    /// Whether an earlier run of the controller made the rule, so that its counter has packets from before.
    pub from_earlier: bool,
}

/// The last counter of a rule.
#[derive(Clone, Copy, Debug)]
struct LastCount {
    packets: u64,
    /// The reading in which it was last seen.
    round: u64,
    /// Whether the rule has got other instructions since.
    is_altered: bool,
}

/// The growth of a rule's counter since its last report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::engine) struct CounterGrowth {
    pub packets: u64,
    /// The number of these packets with which the rule certainly did what it does at present.
    pub as_it_is: u64,
}

/// The counters of one switch's rules.
#[derive(Debug, Default)]
pub(in crate::engine) struct RuleGrowth {
    /// The counters by the hash of table and entry.
    rules: FxHashMap<u64, LastCount>,
    /// Withdrawn leaves, whose rules may still report.
    withdrawn: FxHashMap<LeafId, CountedLeaf>,
    /// The withdrawn leaves in the order of their withdrawal.
    withdrawn_order: VecDeque<LeafId>,
    /// Rules that were not reported before they got other instructions, with the reading before which they did.
    altered: FxHashMap<u64, u64>,
    /// The number of complete readings before which the first report of a rule counts nothing.
    unread_before: u64,
    /// The number of complete readings.
    round: u64,
}

impl RuleGrowth {
    /// Notes a report on a rule. Returns what the rule has counted since its last report.
    pub fn grown(&mut self, rule: &RuleReport<'_>) -> CounterGrowth {
        let place = place(rule.table, rule.key);
        let round = self.round;
        let before = self.rules.get(&place).copied();
        if rule.is_removed {
            self.rules.remove(&place);
        } else if before.is_some() || self.rules.len() < MAX_RULES {
            self.rules.insert(place, LastCount { packets: rule.packets, round, is_altered: false });
        } else {
            // Without its last counter it would be counted again and again.
            return CounterGrowth::default();
        }
        let is_of_this_run = !rule.from_earlier && round >= self.unread_before;
        let packets = match before {
            // With a lower counter it is a new rule in the same place.
            Some(before) => rule.packets.checked_sub(before.packets).unwrap_or(rule.packets),
            None if is_of_this_run => rule.packets,
            None => 0,
        };
        let is_altered = before.map_or_else(|| self.altered.contains_key(&place), |before| before.is_altered);
        CounterGrowth { packets, as_it_is: if is_altered { 0 } else { packets } }
    }

    /// Ends a reading of all rules of the switch. Rules that it has not reported twice in a row are gone.
    pub fn end_reading(&mut self) {
        let last = self.round;
        self.round += 1;
        self.rules.retain(|_, counter| counter.round + 1 >= last);
        self.altered.retain(|_, round| *round + 1 > last);
    }

    /// Remembers a withdrawn leaf. Its rules report what they have counted when they are gone.
    pub fn withdraw(&mut self, id: LeafId, leaf: CountedLeaf) {
        if self.withdrawn.insert(id, leaf).is_none() {
            self.withdrawn_order.push_back(id);
        }
        if self.withdrawn_order.len() > MAX_WITHDRAWN
            && let Some(oldest) = self.withdrawn_order.pop_front()
        {
            self.withdrawn.remove(&oldest);
        }
    }

    /// Returns the withdrawn leaf with this id, if it is remembered.
    pub fn withdrawn(&self, id: LeafId) -> Option<&CountedLeaf> {
        self.withdrawn.get(&id)
    }

    /// Notes that rules, given by their place in the tables, have got other instructions, and go on counting.
    pub fn alter(&mut self, altered: impl IntoIterator<Item = u64>) {
        for place in altered {
            match self.rules.get_mut(&place) {
                Some(counter) => counter.is_altered = true,
                None if self.altered.len() < MAX_RULES => _ = self.altered.insert(place, self.round),
                None => {}
            }
        }
    }

    /// Begins to count for another policy. Withdrawn leaves belong to the former one. If the former policy had no
    /// interest in counters, what the rules have counted so far is not counted for the new one.
    pub fn change_policy(&mut self, was_of_interest: bool) {
        self.withdrawn.clear();
        self.withdrawn_order.clear();
        if !was_of_interest {
            // A reading may be on its way.
            self.unread_before = self.round + 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use maple_wire::{Field, Match};

    use super::*;
    use crate::update::entry_key;

    fn key(host: u128) -> EntryKey {
        entry_key(100, &Match::any().exact(Field::EthSrc, host))
    }

    fn report(key: &EntryKey, packets: u64) -> RuleReport<'_> {
        RuleReport { table: 1, key, packets, is_removed: false, from_earlier: false }
    }

    #[test]
    fn a_rule_counts_what_its_counter_has_grown_by() {
        let (mut growth, key) = (RuleGrowth::default(), key(2));
        let counted = |growth: &mut RuleGrowth, packets| growth.grown(&report(&key, packets)).packets;
        assert_eq!([5, 8].map(|packets| counted(&mut growth, packets)), [5, 3]);
        // It is deleted, and added again, without being read in between.
        assert_eq!(growth.grown(&RuleReport { is_removed: true, ..report(&key, 9) }).packets, 1);
        assert_eq!(counted(&mut growth, 1), 1);
        // In OpenFlow 1.0 a switch does not say that it is deleted.
        assert_eq!([0, 4].map(|packets| counted(&mut growth, packets)), [0, 4]);
    }

    #[test]
    fn packets_that_a_rule_has_counted_for_something_else_are_left_out() {
        let mut growth = RuleGrowth::default();
        let earlier = |growth: &mut RuleGrowth, packets| {
            growth.grown(&RuleReport { from_earlier: true, ..report(&key(2), packets) }).packets
        };
        assert_eq!([100, 103].map(|packets| earlier(&mut growth, packets)), [0, 3], "from before this run");
        growth.alter([2, 9].map(|host| place(1, &key(host))));
        // A reading that was on its way ends.
        growth.end_reading();
        let grown = |packets, as_it_is| CounterGrowth { packets, as_it_is };
        let counted = |growth: &mut RuleGrowth, host, packets| growth.grown(&report(&key(host), packets));
        assert_eq!([50, 52].map(|packets| counted(&mut growth, 9, packets)), [grown(50, 0), grown(2, 2)]);
        assert_eq!([110, 111].map(|packets| counted(&mut growth, 2, packets)), [grown(7, 0), grown(1, 1)]);
        (0..3).for_each(|_| growth.end_reading());
        assert!(growth.rules.is_empty() && growth.altered.is_empty(), "gone");
        growth.change_policy(true);
        assert_eq!(counted(&mut growth, 3, 7), grown(7, 7));
        growth.change_policy(false);
        assert_eq!([70, 71].map(|packets| counted(&mut growth, 4, packets).packets), [0, 1], "of no interest before");
        (0..2).for_each(|_| growth.end_reading());
        assert_eq!(counted(&mut growth, 5, 7), grown(7, 7));
    }

    #[test]
    fn rules_and_withdrawn_leaves_are_bounded() {
        let mut growth = RuleGrowth::default();
        for host in 0..MAX_RULES as u128 + 10 {
            growth.grown(&report(&key(host), 1));
        }
        assert_eq!(growth.rules.len(), MAX_RULES);
        assert_eq!(
            growth.grown(&report(&key(MAX_RULES as u128 + 5), 1)),
            CounterGrowth::default(),
            "not counted again and again"
        );
        let leaf = CountedLeaf { drop: None, asked: Vec::new() };
        (0..MAX_WITHDRAWN as u64 + 10).for_each(|id| growth.withdraw(LeafId(id), leaf.clone()));
        assert_eq!((growth.withdrawn.len(), growth.withdrawn_order.len()), (MAX_WITHDRAWN, MAX_WITHDRAWN));
        assert!(growth.withdrawn(LeafId(9)).is_none() && growth.withdrawn(LeafId(10)).is_some());
    }
}
