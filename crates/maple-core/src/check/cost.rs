//! The growth of a policy's rules: reads can make one rule for each host, pair of hosts or connection.
//!
//! A test makes at most two rules, however many packets there are. A read makes one rule for each value. So a run that
//! reads the source and the destination decides for one pair of hosts only. For floods that is never intended: a
//! destination that is read last multiplies nothing.

use std::collections::{BTreeMap, BTreeSet};

use maple_wire::Field;

use super::observe::Observation;
use super::packet::Sample;
use crate::trace::{Item, Source};

/// The fields that identify the sender.
const SOURCES: [Field; 6] =
    [Field::EthSrc, Field::Ipv4Src, Field::Ipv6Src, Field::ArpSpa, Field::ArpSha, Field::Ipv6NdSll];
/// The fields that identify the receiver.
const DESTINATIONS: [Field; 6] =
    [Field::EthDst, Field::Ipv4Dst, Field::Ipv6Dst, Field::ArpTpa, Field::ArpTha, Field::Ipv6NdTarget];
/// The fields that differ between connections: clients send from a port of their own, and servers answer to it.
const CONNECTIONS: [Field; 6] =
    [Field::TcpSrc, Field::UdpSrc, Field::SctpSrc, Field::TcpDst, Field::UdpDst, Field::SctpDst];

/// The things for each of which the policy needs one rule.
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
    /// The things for each of which there is one rule.
    pub per: Per,
    /// Whether the packets of these rules are flooded.
    pub floods: bool,
    /// The fields that were read, and the lines that read them, if known.
    pub reads: BTreeSet<(Field, Option<Source>)>,
    /// The first packet with such a run.
    pub sample: Sample,
}

impl Per {
    /// Returns the number of rules that a network with this many hosts and switches then has. Returns `None` if the
    /// number does not depend on hosts.
    pub fn rules(self, hosts: u64, switches: u64) -> Option<u64> {
        match self {
            Per::Destination => Some(hosts.saturating_mul(switches)),
            Per::Source => Some(hosts),
            Per::Pair => Some(hosts.saturating_mul(hosts.saturating_sub(1))),
            Per::Connection => None,
        }
    }
}

/// The runs that make the most rules, among those seen.
#[derive(Debug, Default)]
pub(super) struct Costs(BTreeMap<(Per, bool), Wide>);

impl Costs {
    /// Adds a run that gave a route.
    pub fn take(&mut self, sample: &Sample, run: &Observation) {
        let Some(per) = per(run) else { return };
        let new = || Wide { per, floods: run.floods, reads: BTreeSet::new(), sample: sample.clone() };
        let wide = self.0.entry((per, run.floods)).or_insert_with(new);
        wide.reads.extend(reads(run).map(|(field, source)| (field, source.clone())));
    }

    /// Returns all kinds of such runs, those with the most rules last.
    pub fn all(&self) -> impl Iterator<Item = &Wide> {
        self.0.values()
    }
}

/// The fields of hosts and connections that a run read with a full mask. A field is left out if a test had
/// shown that its value is one of few: a server's port below 1024, for example.
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
