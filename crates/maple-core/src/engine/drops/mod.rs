//! The drops of the last minutes at one switch, by cause and sender, for people who ask what was dropped and why.
//!
//! Packets are dropped by rules of leaves whose answer is a drop, by rules of the classifier, and by the controller. The
//! controller counts its own. What rules drop is known from their counters, whenever the switch reports them: in audits,
//! in polls, and when a rule is removed. A rule has dropped as much as its counter has grown since the last report. It is
//! counted in the minute of the report.
//!
//! # Bounds
//!
//! Hosts choose what is dropped. So each port has room for [`MAX_AT_PORT`] kinds of drops in a minute. What is beyond
//! that is counted as [`DropCause::Others`] of that port: no host can push out what is known of other ports. Rules that
//! do not determine a port share the room of one more port. [`KEPT_MINUTES`] minutes are kept. Of rules, the last
//! counters of at most [`MAX_RULES`] are kept, and of leaves that were withdrawn [`MAX_WITHDRAWN`].

mod cause;
mod class;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use maple_wire::packet::text::summary;
use maple_wire::{Dpid, Field, Match, Packet, PortNo};
use rustc_hash::FxHashMap;

use super::Time;
use super::received_packet::ReceivedPacket;
use super::tables::place;
use crate::ids::LeafId;
use crate::network::Mac;
use crate::update::EntryKey;

pub use cause::{DropCause, Origin};
use class::class_of;

/// How many minutes are kept.
pub const KEPT_MINUTES: u64 = 15;
/// The kinds of drops that a port has room for in a minute.
const MAX_AT_PORT: usize = 32;
/// The rules whose last counters are kept.
const MAX_RULES: usize = 1 << 16;
/// The withdrawn leaves that are remembered until their rules are gone.
const MAX_WITHDRAWN: usize = 4096;

const MINUTE: u64 = 60_000_000_000;

/// The drops of one kind at a switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dropped {
    /// The switch.
    pub switch: Dpid,
    /// The port where the packets came in; `None` if the rule that drops them is for several.
    pub port: Option<PortNo>,
    /// The sender; `None` if the rule that drops them is for several hosts.
    pub host: Option<Mac>,
    /// Why.
    pub cause: DropCause,
    /// How many packets, in the minutes that were asked for.
    pub packets: u64,
    /// How many of them in the current minute and the one before.
    pub latest: u64,
    /// One of the packets, or which packets the rule that drops them is for, as a line of text.
    pub example: Arc<str>,
}

/// What was dropped in a way that can't be told apart.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Kind {
    port: Option<PortNo>,
    host: Option<Mac>,
    cause: DropCause,
}

#[derive(Clone, Debug)]
struct Count {
    packets: u64,
    example: Arc<str>,
}

/// The drops of one minute.
#[derive(Clone, Debug, Default)]
struct Minute {
    number: u64,
    counts: BTreeMap<Kind, Count>,
    /// How many kinds each port has.
    kinds: FxHashMap<Option<PortNo>, usize>,
}

/// The last counter of a rule that drops.
#[derive(Clone, Copy, Debug)]
struct Counter {
    packets: u64,
    /// The reading in which it was last seen.
    round: u64,
}

/// What drops of a leaf's rules are counted as.
#[derive(Clone, Debug)]
pub(super) struct DropLeaf {
    pub origin: Arc<Origin>,
    pub witness: ReceivedPacket,
}

/// The drops at one switch.
#[derive(Debug, Default)]
pub(super) struct Drops {
    minutes: VecDeque<Minute>,
    /// By the hash of table and entry.
    rules: FxHashMap<u64, Counter>,
    /// Withdrawn leaves, whose rules may still report.
    withdrawn: FxHashMap<LeafId, DropLeaf>,
    /// The order in which they were withdrawn.
    withdrawn_order: VecDeque<LeafId>,
    /// Rules that have counted something else than drops, with the reading before which they did: their first report
    /// counts nothing.
    unread: FxHashMap<u64, u64>,
    /// How many readings were complete.
    round: u64,
}

impl Drops {
    /// Packets were dropped.
    pub fn count(
        &mut self,
        now: Time,
        (port, host): (Option<PortNo>, Option<Mac>),
        cause: DropCause,
        packets: u64,
        example: impl FnOnce() -> Arc<str>,
    ) {
        let minute = self.minute(now);
        let kind = Kind { port, host, cause };
        if let Some(count) = minute.counts.get_mut(&kind) {
            count.packets = count.packets.saturating_add(packets);
            return;
        }
        let kinds = minute.kinds.entry(port).or_default();
        let kind = if *kinds < MAX_AT_PORT { kind } else { Kind { host: None, cause: DropCause::Others, ..kind } };
        *kinds += usize::from(kind.cause != DropCause::Others);
        let count = minute.counts.entry(kind).or_insert_with(|| Count { packets: 0, example: example() });
        count.packets = count.packets.saturating_add(packets);
    }

    /// A packet was dropped by the controller.
    pub fn count_packet(&mut self, now: Time, packet: &Packet<'_>, cause: DropCause) {
        let value = |field| packet.switch_value(field);
        let host = value(Field::EthSrc).map(Mac::from_bits).filter(|mac| mac.is_host());
        let port = value(Field::InPort).map(|port| PortNo(port as u32));
        self.count(now, (port, host), cause, 1, || summary(packet).into());
    }

    fn minute(&mut self, now: Time) -> &mut Minute {
        let number = now.0 / MINUTE;
        if self.minutes.back().is_none_or(|newest| newest.number < number) {
            self.minutes.push_back(Minute { number, ..Minute::default() });
            self.minutes.retain(|minute| minute.number + KEPT_MINUTES > number);
        }
        self.minutes.back_mut().expect("a minute was added")
    }

    /// A rule of a leaf that drops reports its counter.
    pub fn read_leaf(&mut self, now: Time, leaf: &DropLeaf, rule: RuleReport<'_>) {
        let grown = self.grown(&rule);
        if grown > 0 {
            let example = || class_of(rule.matching).into();
            let sender = sender(rule.matching, &leaf.witness);
            self.count(now, sender, DropCause::Policy(Arc::clone(&leaf.origin)), grown, example);
        }
    }

    /// A rule of the classifier that drops reports its counter.
    pub fn read_classifier(&mut self, now: Time, cause: DropCause, rule: RuleReport<'_>) {
        let grown = self.grown(&rule);
        if grown > 0 {
            let port = exact(rule.matching, Field::InPort).map(|port| PortNo(port as u32));
            self.count(now, (port, None), cause, grown, || "".into());
        }
    }

    /// How much the counter of a rule has grown.
    fn grown(&mut self, rule: &RuleReport<'_>) -> u64 {
        let (place, round) = (place(rule.table, rule.key), self.round);
        let counts_all = !rule.from_earlier && !self.unread.contains_key(&place);
        let before = self.rules.get(&place).map(|counter| counter.packets);
        if rule.is_removed {
            self.rules.remove(&place);
        } else if before.is_some() || self.rules.len() < MAX_RULES {
            self.rules.insert(place, Counter { packets: rule.packets, round });
        } else {
            // Without its last counter it would be counted again and again.
            return 0;
        }
        match before {
            // With a lower counter it is a new rule in the same place.
            Some(before) => rule.packets.checked_sub(before).unwrap_or(rule.packets),
            None if counts_all => rule.packets,
            None => 0,
        }
    }

    /// The switch has reported all its rules. Those that it has not reported twice in a row are gone.
    pub fn end_reading(&mut self) {
        let last = self.round;
        self.round += 1;
        self.rules.retain(|_, counter| counter.round + 1 >= last);
        self.unread.retain(|_, round| *round + 1 > last);
    }

    /// A leaf that drops was withdrawn. Its rules report what they have counted when they are gone.
    pub fn withdraw(&mut self, id: LeafId, leaf: DropLeaf) {
        if self.withdrawn.insert(id, leaf).is_none() {
            self.withdrawn_order.push_back(id);
        }
        if self.withdrawn_order.len() > MAX_WITHDRAWN
            && let Some(oldest) = self.withdrawn_order.pop_front()
        {
            self.withdrawn.remove(&oldest);
        }
    }

    /// A leaf that was withdrawn.
    pub fn withdrawn(&self, id: LeafId) -> Option<&DropLeaf> {
        self.withdrawn.get(&id)
    }

    /// Rules, by their place in the tables, have got other instructions, and go on counting.
    pub fn begin_again(&mut self, altered: impl IntoIterator<Item = u64>) {
        for place in altered {
            self.rules.remove(&place);
            if self.unread.len() < MAX_RULES {
                self.unread.insert(place, self.round);
            }
        }
    }

    /// The drops of this minute and those before, in all `minutes` of them.
    pub fn of_last(&self, now: Time, switch: Dpid, minutes: u64) -> Vec<Dropped> {
        let current = now.0 / MINUTE;
        let mut all: BTreeMap<&Kind, Dropped> = BTreeMap::new();
        for minute in self.minutes.iter().rev().filter(|minute| minute.number + minutes > current) {
            for (kind, count) in &minute.counts {
                let Kind { port, host, cause } = kind;
                let dropped = all.entry(kind).or_insert_with(|| Dropped {
                    switch,
                    port: *port,
                    host: *host,
                    cause: cause.clone(),
                    packets: 0,
                    latest: 0,
                    example: Arc::clone(&count.example),
                });
                dropped.packets = dropped.packets.saturating_add(count.packets);
                if minute.number + 1 >= current {
                    dropped.latest = dropped.latest.saturating_add(count.packets);
                }
            }
        }
        all.into_values().collect()
    }
}

/// What a switch says about one of its rules.
#[derive(Clone, Copy, Debug)]
pub(super) struct RuleReport<'a> {
    pub table: u8,
    pub key: &'a EntryKey,
    pub matching: &'a Match,
    pub packets: u64,
    /// It is gone: this is its last report.
    pub is_removed: bool,
    /// An earlier run of the controller made it, so its counter has packets from before.
    pub from_earlier: bool,
}

/// The port and the sender that a rule determines. A host is at one port, where its leaf's witness packet came in.
fn sender(matching: &Match, witness: &ReceivedPacket) -> (Option<PortNo>, Option<Mac>) {
    let host = exact(matching, Field::EthSrc).map(Mac::from_bits);
    let port = exact(matching, Field::InPort).map(|port| PortNo(port as u32));
    (port.or_else(|| host.map(|_| witness.at.port)), host)
}

fn exact(matching: &Match, field: Field) -> Option<u128> {
    let mut all = matching.constraints().filter(|constraint| constraint.field == field);
    all.find(|constraint| constraint.mask == field.full_mask()).map(|constraint| constraint.value)
}

#[cfg(test)]
mod tests;
