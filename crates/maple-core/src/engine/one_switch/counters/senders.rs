//! Finds who sent what a rule for several hosts has dropped.
//!
//! A rule of a leaf that rests on look-ups is for classes, and other rules match no address at all. But each packet
//! that they count has come in by a rule of the classifier, and such a rule is for one host at one port. So the sender
//! is one of the hosts that such a rule can match, and whose own rules have counted in the same readings of all
//! counters. If there is one such host, it has sent them all.
//!
//! # Bounds
//!
//! There are as many entries as the classifier has rules of which [`super::rule_growth`] keeps the counters, and at
//! most [`MAX_OPEN`] drops wait for the end of a reading. Each of these is compared with each entry.

use std::collections::BTreeMap;
use std::sync::Arc;

use maple_wire::{Constraint, Field, Match, PortNo};

use super::drops::{class_of, exact};
use crate::engine::messages::cause::{DropCause, Origin};
use crate::engine::one_switch::Switch;
use crate::ids::Time;
use crate::network::Mac;
use crate::trace::ReadMetadata;

/// The maximum number of drops whose senders are looked for when a reading ends. Of further ones the sender is unknown.
/// Chosen: each is compared with each entry of the reading, in one turn.
const MAX_OPEN: usize = 256;
/// The maximum number of senders that are named where there are several. Chosen: they fit in a line; of more senders
/// the names help nobody.
const MAX_NAMED: usize = 3;

/// The place where packets come in: a port, and the host that a rule of the classifier is for. Without a host, the rule
/// is for all hosts at the port.
pub(in crate::engine) type Entrance = (PortNo, Option<Mac>);

/// The packets that the classifier has let in, and the drops whose senders are not known yet.
#[derive(Debug, Default)]
pub(in crate::engine) struct Senders {
    /// The packets that came in: in this reading, and in the one before. A switch does not read all counters at one
    /// time, so what the one before has counted may be dropped in this one.
    let_in: [BTreeMap<Entrance, u64>; 2],
    /// The number of times that classes of keys had changed when each of the last two readings ended.
    changes: [u64; 2],
    open: Vec<OpenDrop>,
}

/// Packets that a rule has dropped.
#[derive(Clone, Debug)]
pub(in crate::engine) struct OpenDrop {
    /// The origin of the decision.
    pub origin: Arc<Origin>,
    /// The packets that the rule is for.
    pub matching: Match,
    /// The number of packets.
    pub packets: u64,
}

impl Senders {
    /// Counts packets that the classifier has let in.
    pub fn let_in(&mut self, entrance: Entrance, packets: u64) {
        if packets > 0 {
            let count = self.let_in[0].entry(entrance).or_default();
            *count = count.saturating_add(packets);
        }
    }

    /// Looks for the sender of these packets when the reading ends. Gives them back if too many wait already.
    pub fn look_for(&mut self, drop: OpenDrop) -> Result<(), OpenDrop> {
        if self.open.len() >= MAX_OPEN {
            return Err(drop);
        }
        self.open.push(drop);
        Ok(())
    }

    /// Ends a reading, before which classes of keys had changed this often. Returns the drops of which senders were
    /// looked for, each with who can have sent it.
    fn end_reading(
        &mut self,
        changes: u64,
        metadata_of: impl Fn(Entrance) -> ReadMetadata,
    ) -> Vec<(OpenDrop, Suspects)> {
        // Packets that were dropped before a change had the classes from before.
        let are_stable = self.changes == [changes, changes];
        self.changes = [changes, self.changes[0]];
        let mut sums = self.let_in[1].clone();
        for (entrance, packets) in &self.let_in[0] {
            let sum = sums.entry(*entrance).or_default();
            *sum = sum.saturating_add(*packets);
        }
        self.let_in.swap(0, 1);
        self.let_in[0].clear();
        let metadata = |entrance| if are_stable { metadata_of(entrance) } else { ReadMetadata::default() };
        let all: Vec<_> = sums.into_iter().map(|(entrance, packets)| (entrance, packets, metadata(entrance))).collect();
        let suspects = |drop: &OpenDrop| {
            let possible = all.iter().filter(|(entrance, _, metadata)| fits(&drop.matching, *entrance, *metadata));
            possible.fold(Suspects::default(), |suspects, (entrance, packets, _)| suspects.with(*entrance, *packets))
        };
        let open = std::mem::take(&mut self.open);
        let with_suspects = |drop| {
            let suspects = suspects(&drop);
            (drop, suspects)
        };
        open.into_iter().map(with_suspects).collect()
    }
}

/// The hosts and ports that can have sent what a rule has dropped.
#[derive(Clone, Debug, Default)]
struct Suspects {
    /// The number of entrances by which the packets can have come in.
    entrances: usize,
    /// The number of packets that have come in by the last one of them.
    packets: u64,
    /// The port of the first one, and whether all have that port.
    port: Option<PortNo>,
    is_one_port: bool,
    /// The hosts of the first ones, one more than are named.
    hosts: Vec<Mac>,
}

impl Suspects {
    /// Adds an entrance by which this number of packets has come in.
    fn with(mut self, (port, host): Entrance, packets: u64) -> Suspects {
        self.is_one_port = self.port.is_none_or(|first| first == port) && (self.entrances == 0 || self.is_one_port);
        self.port.get_or_insert(port);
        self.entrances += 1;
        self.packets = packets;
        self.hosts.extend(host.filter(|_| self.hosts.len() <= MAX_NAMED));
        self
    }

    /// Returns the port, if it is known.
    fn port(&self) -> Option<PortNo> {
        self.port.filter(|_| self.is_one_port)
    }

    /// Returns the sender of this number of packets, if there is only one that can have sent them.
    fn sender(&self, packets: u64) -> Option<Mac> {
        self.hosts.first().copied().filter(|_| self.entrances == 1 && self.packets >= packets)
    }

    /// Names the hosts one of which has sent something, as the end of a description, if there are few.
    fn in_words(&self) -> String {
        if self.hosts.is_empty() || self.hosts.len() > MAX_NAMED {
            return String::new();
        }
        let names: Vec<String> = self.hosts.iter().map(Mac::to_string).collect();
        format!(", from {}", names.join(" or "))
    }
}

impl Switch {
    /// Ends a reading, in which the switch has reported all its rules.
    pub fn end_count_reading(&mut self, now: Time) {
        self.counters.growth.end_reading();
        let look_ups = &self.ingress.look_ups;
        let ended =
            self.counters.senders.end_reading(look_ups.class_changes(), |entrance| look_ups.metadata_of(entrance));
        for (OpenDrop { origin, matching, packets }, suspects) in ended {
            let port = exact(&matching, Field::InPort).map(|port| PortNo(port as u32)).or(suspects.port());
            let host = suspects.sender(packets);
            let senders = if host.is_none() { suspects.in_words() } else { String::new() };
            let example = || (class_of(&matching) + &look_ups.describe_match(&matching) + &senders).into();
            self.counters.drops.count(now, port, host, DropCause::Policy(origin), packets, example);
        }
    }
}

/// Reports whether a rule can match packets that come in here and have these bits of the metadata.
fn fits(matching: &Match, (port, host): Entrance, metadata: ReadMetadata) -> bool {
    let is_met = |constraint: &Constraint, value: u128| (constraint.value ^ value) & constraint.mask == 0;
    let is_possible = |constraint: &Constraint| match (constraint.field, host) {
        (Field::InPort, _) => is_met(constraint, u128::from(port.0)),
        (Field::EthSrc, Some(host)) => is_met(constraint, host.bits()),
        (Field::Metadata, _) => {
            (constraint.value as u64 ^ metadata.value) & constraint.mask as u64 & metadata.mask == 0
        }
        _ => true,
    };
    matching.constraints().all(is_possible)
}
