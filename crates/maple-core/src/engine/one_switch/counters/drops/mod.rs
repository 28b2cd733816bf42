//! The drops of the last minutes at one switch, by cause and sender, for people who ask what was dropped and why.
//!
//! Packets are dropped by rules of leaves that drop, by rules of the classifier, and by the controller. The controller
//! counts its own drops. The drops by rules are known from the rules' counters, whenever the switch reports them: in
//! audits, in polls, and when a rule is removed. A rule has dropped as much as its counter has grown since the last
//! report. It is counted in the minute of the report (`engine/one_switch/counters/rule_growth.rs`).
//!
//! # Bounds
//!
//! Hosts choose what is dropped. So each port has capacity for [`MAX_AT_PORT`] kinds of drops in a minute. Further ones
//! are counted as [`DropCause::Others`] of that port: no host can push out what is known of other ports. Rules that do
//! not determine a port share the capacity of one more port. [`KEPT_MINUTES`] minutes are kept.

mod class;

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use maple_wire::packet::text::summary;
use maple_wire::{Dpid, Field, Match, Packet, PortNo};
use rustc_hash::FxHashMap;

use crate::engine::messages::received_packet::ReceivedPacket;
use crate::ids::Time;
use crate::network::Mac;
pub(super) use class::class_of;

use crate::engine::messages::cause::{DropCause, Origin};

/// The number of minutes that are kept. Chosen: somebody who hears that something does not work asks within a quarter
/// of an hour, and memory is bounded by it.
pub const KEPT_MINUTES: u64 = 15;
/// The maximum number of kinds of drops that are kept for a port in a minute. Chosen: a host that is dropped for a few
/// reasons is shown in full, and one that makes up addresses costs little memory.
const MAX_AT_PORT: usize = 32;

/// A minute, in nanoseconds.
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
    /// The cause of the drops.
    pub cause: DropCause,
    /// The number of packets in the minutes that were asked for.
    pub packets: u64,
    /// The number of these packets in the current minute and the one before.
    pub latest: u64,
    /// One of the packets, or the packets that the rule that drops them is for, as a line of text.
    pub example: Arc<str>,
}

/// A kind of drops, which are counted together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct DropKind {
    port: Option<PortNo>,
    host: Option<Mac>,
    cause: DropCause,
}

#[derive(Clone, Debug)]
struct DropCount {
    packets: u64,
    example: Arc<str>,
}

/// The drops of one minute.
#[derive(Clone, Debug, Default)]
struct Minute {
    number: u64,
    counts: BTreeMap<DropKind, DropCount>,
    /// The number of kinds by port.
    kinds: FxHashMap<Option<PortNo>, usize>,
}

/// The drops at one switch.
#[derive(Debug, Default)]
pub(in crate::engine) struct Drops {
    minutes: VecDeque<Minute>,
}

impl Drops {
    /// Counts packets that were dropped.
    pub fn count(
        &mut self,
        now: Time,
        port: Option<PortNo>,
        host: Option<Mac>,
        cause: DropCause,
        packets: u64,
        example: impl FnOnce() -> Arc<str>,
    ) {
        let minute = self.minute(now);
        let kind = DropKind { port, host, cause };
        if let Some(count) = minute.counts.get_mut(&kind) {
            count.packets = count.packets.saturating_add(packets);
            return;
        }
        let kinds = minute.kinds.entry(port).or_default();
        let kind = if *kinds < MAX_AT_PORT { kind } else { DropKind { host: None, cause: DropCause::Others, ..kind } };
        *kinds += usize::from(kind.cause != DropCause::Others);
        let count = minute.counts.entry(kind).or_insert_with(|| DropCount { packets: 0, example: example() });
        count.packets = count.packets.saturating_add(packets);
    }

    /// Counts a packet that the controller dropped.
    pub fn count_packet(&mut self, now: Time, packet: &Packet<'_>, cause: DropCause) {
        let value = |field| packet.switch_value(field);
        let host = value(Field::EthSrc).map(Mac::from_bits).filter(|mac| mac.is_host());
        let port = value(Field::InPort).map(|port| PortNo(port as u32));
        self.count(now, port, host, cause, 1, || summary(packet).into());
    }

    fn minute(&mut self, now: Time) -> &mut Minute {
        let number = now.0 / MINUTE;
        if self.minutes.back().is_none_or(|newest| newest.number < number) {
            self.minutes.push_back(Minute { number, ..Minute::default() });
            self.minutes.retain(|minute| minute.number + KEPT_MINUTES > number);
        }
        self.minutes.back_mut().expect("a minute was added")
    }

    /// Counts packets that a rule of a leaf has dropped. The leaf's decision comes from `origin`.
    pub fn count_leaf(
        &mut self,
        now: Time,
        origin: &Arc<Origin>,
        witness: &ReceivedPacket,
        matching: &Match,
        packets: u64,
    ) {
        let cause = DropCause::Policy(Arc::clone(origin));
        let (port, host) = sender(matching, witness);
        self.count(now, port, host, cause, packets, || class_of(matching).into());
    }

    /// Counts packets that a rule of the classifier has dropped.
    pub fn count_classifier(&mut self, now: Time, cause: DropCause, matching: &Match, packets: u64) {
        let port = exact(matching, Field::InPort).map(|port| PortNo(port as u32));
        self.count(now, port, None, cause, packets, || "".into());
    }

    /// Returns the drops of the last `minutes` minutes, including the current one.
    pub fn of_last(&self, now: Time, switch: Dpid, minutes: u64) -> Vec<Dropped> {
        let current = now.0 / MINUTE;
        self.of(switch, |number| number + minutes > current, |number| number + 1 >= current)
    }

    /// Returns the drops of these minutes since time 0, as far as they are kept.
    pub fn of_minutes(&self, switch: Dpid, minutes: Range<u64>) -> Vec<Dropped> {
        self.of(switch, |number| minutes.contains(&number), |_| false)
    }

    /// Returns the drops of minutes with these numbers.
    fn of(&self, switch: Dpid, is_meant: impl Fn(u64) -> bool, is_latest: impl Fn(u64) -> bool) -> Vec<Dropped> {
        let mut all: BTreeMap<&DropKind, Dropped> = BTreeMap::new();
        for minute in self.minutes.iter().rev().filter(|minute| is_meant(minute.number)) {
            for (kind, count) in &minute.counts {
                let DropKind { port, host, cause } = kind;
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
                if is_latest(minute.number) {
                    dropped.latest = dropped.latest.saturating_add(count.packets);
                }
            }
        }
        all.into_values().collect()
    }
}

/// Returns the port and the sender that a rule determines. A host is at one port, where its leaf's witness packet came
/// in.
fn sender(matching: &Match, witness: &ReceivedPacket) -> (Option<PortNo>, Option<Mac>) {
    let host = exact(matching, Field::EthSrc).map(Mac::from_bits);
    let port = exact(matching, Field::InPort).map(|port| PortNo(port as u32));
    (port.or_else(|| host.map(|_| witness.at.port)), host)
}

/// Returns the value of a field that a match requires as a whole.
pub(super) fn exact(matching: &Match, field: Field) -> Option<u128> {
    let mut all = matching.constraints().filter(|constraint| constraint.field == field);
    all.find(|constraint| constraint.mask == field.full_mask()).map(|constraint| constraint.value)
}

#[cfg(test)]
mod tests;
