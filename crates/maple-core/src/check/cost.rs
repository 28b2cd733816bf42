//! What the number of a policy's rules grows with: reads can make one rule for each host, pair of hosts or connection.
//!
//! A test makes at most two rules, however many packets there are. A read makes one for each value, so a run that reads
//! who sends and to whom answers for one pair of hosts only. For floods that is never intended: a destination that is
//! read last multiplies nothing.

use std::collections::{BTreeMap, BTreeSet};

use maple_wire::Field;

use super::observe::Observation;
use super::packet::Sample;
use crate::trace::{Item, Source};

/// Fields that say who sends.
const SOURCES: [Field; 6] =
    [Field::EthSrc, Field::Ipv4Src, Field::Ipv6Src, Field::ArpSpa, Field::ArpSha, Field::Ipv6NdSll];
/// Fields that say to whom.
const DESTINATIONS: [Field; 6] =
    [Field::EthDst, Field::Ipv4Dst, Field::Ipv6Dst, Field::ArpTpa, Field::ArpTha, Field::Ipv6NdTarget];
/// Fields that differ between connections: what clients send from a port of their own, and what servers answer to it.
const CONNECTIONS: [Field; 6] =
    [Field::TcpSrc, Field::UdpSrc, Field::SctpSrc, Field::TcpDst, Field::UdpDst, Field::SctpDst];

/// What the policy has one rule for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Per {
    /// One for each destination, on each switch where packets enter.
    Destination,
    /// One for each source, where it is.
    Source,
    /// One for each pair of hosts that talk.
    Pair,
    /// One for each connection.
    Connection,
}

/// Runs whose number of rules grows with the hosts or connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wide {
    /// What there is one rule for.
    pub per: Per,
    /// Whether the packets of these rules are flooded.
    pub floods: bool,
    /// The fields that were read, and the lines that read them, if known.
    pub reads: BTreeSet<(Field, Option<Source>)>,
    /// The first packet with such a run.
    pub sample: Sample,
}

impl Per {
    /// How many rules the network then has, with this many hosts and switches. `None` if the number does not depend on
    /// hosts.
    pub fn rules(self, hosts: u64, switches: u64) -> Option<u64> {
        match self {
            Per::Destination => Some(hosts.saturating_mul(switches)),
            Per::Source => Some(hosts),
            Per::Pair => Some(hosts.saturating_mul(hosts.saturating_sub(1))),
            Per::Connection => None,
        }
    }
}

/// The runs seen that make the most rules.
#[derive(Debug, Default)]
pub(super) struct Costs(BTreeMap<(Per, bool), Wide>);

impl Costs {
    /// Adds a run that gave an answer.
    pub fn take(&mut self, sample: &Sample, run: &Observation) {
        let Some(per) = per(run) else { return };
        let new = || Wide { per, floods: run.floods, reads: BTreeSet::new(), sample: sample.clone() };
        let wide = self.0.entry((per, run.floods)).or_insert_with(new);
        wide.reads.extend(reads(run).map(|(field, source)| (field, source.clone())));
    }

    /// All kinds, those with the most rules last.
    pub fn all(&self) -> impl Iterator<Item = &Wide> {
        self.0.values()
    }
}

/// The fields of hosts and connections that a run read with a full mask, unless a test had said that the packet is one of
/// few: a server's port below 1024, for example.
fn reads(run: &Observation) -> impl Iterator<Item = (Field, &Option<Source>)> {
    let mut bounded = BTreeSet::new();
    run.trace.items.iter().zip(run.trace.sources.iter()).filter_map(move |(item, source)| match item {
        Item::Test { cond, outcome: true } => {
            bounded.extend(cond.all.iter().map(|constraint| constraint.field));
            bounded.extend(cond.ranges.iter().map(|range| range.field));
            None
        }
        Item::Read(read) => {
            let is_one_of_few = CONNECTIONS.contains(&read.field) && bounded.contains(&read.field);
            let is_whole = read.mask == read.field.full_mask();
            (is_whole && is_wide(read.field) && !is_one_of_few).then_some((read.field, source))
        }
        Item::Test { .. } => None,
    })
}

fn is_wide(field: Field) -> bool {
    SOURCES.contains(&field) || DESTINATIONS.contains(&field) || CONNECTIONS.contains(&field)
}

fn per(run: &Observation) -> Option<Per> {
    let has = |fields: &[Field]| reads(run).any(|(field, _)| fields.contains(&field));
    match (has(&SOURCES), has(&DESTINATIONS), has(&CONNECTIONS)) {
        (_, _, true) => Some(Per::Connection),
        (true, true, _) => Some(Per::Pair),
        (true, ..) => Some(Per::Source),
        (_, true, _) => Some(Per::Destination),
        _ => None,
    }
}
