//! The growth of a policy's rules: reads can make one rule for each host, pair of hosts or connection.
//!
//! A test makes at most two rules, however many packets there are. A read makes one rule for each value. So a run that
//! reads the source and the destination decides for one pair of hosts only. For floods that is never intended: a
//! destination that is read last multiplies nothing.
//!
//! A look-up makes one rule for each key of its table, and decisions for each value that is found. So where switches
//! have tables for look-ups, the reads that count are those of a run with such tables.

use std::collections::{BTreeMap, BTreeSet};

use maple_wire::{Constraint, Dpid, Field};

use super::observe::Observation;
use super::sample_packets::Sample;
use crate::look_ups::{Registers, SharedRegisters, lock};
use crate::trace::{Item, ReadMetadata, Source};

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

/// A look-up that f makes: its text, such as `hosts[eth_dst]`, and the line that makes it, if known.
pub type MadeLookUp = (String, Option<Source>);

/// The runs that make the most rules, among those seen.
#[derive(Debug, Default)]
pub(super) struct Costs {
    widest: BTreeMap<(Per, bool), Wide>,
    look_ups: BTreeSet<MadeLookUp>,
    /// The number of tables that a switch has for look-ups.
    look_up_tables: u8,
    /// The registers of switches with such tables.
    registers: BTreeMap<Dpid, SharedRegisters>,
}

impl Costs {
    /// Counts the rules of switches with this number of tables for look-ups.
    pub fn set_look_up_tables(&mut self, tables: u8) {
        self.look_up_tables = tables;
    }

    /// Returns the registers with which a run is to be made again, because it reads what it may look up. `None` if its
    /// reads count as they are.
    pub fn registers_for(&mut self, at: Dpid, run: &Observation) -> Option<SharedRegisters> {
        let tables = self.look_up_tables;
        let is_wide = || run.trace.items.iter().any(|item| matches!(item, Item::Read(read) if is_wide(read.field)));
        let new = || Registers::new(usize::from(tables), u16::MAX).shared();
        (tables > 0 && is_wide()).then(|| SharedRegisters::clone(self.registers.entry(at).or_insert_with(new)))
    }

    /// Adds a run that gave a route, made at this switch.
    pub fn take(&mut self, sample: &Sample, run: &Observation) {
        if let Some(registers) = self.registers.get(&sample.at.switch) {
            let registers = lock(registers);
            let look_up = |(item, source): (&Item, &Option<Source>)| match item {
                Item::Read(Constraint { field: Field::Metadata, value, mask }) => {
                    let read = ReadMetadata { value: *value as u64, mask: *mask as u64 };
                    registers.describe(read).map(|(question, _)| (question, source.clone()))
                }
                _ => None,
            };
            self.look_ups.extend(run.trace.items.iter().zip(run.trace.sources.iter()).filter_map(look_up));
        }
        let Some(per) = per(run) else { return };
        let new = || Wide { per, floods: run.floods, reads: BTreeSet::new(), sample: sample.clone() };
        let wide = self.widest.entry((per, run.floods)).or_insert_with(new);
        wide.reads.extend(reads(run).map(|(field, source)| (field, source.clone())));
    }

    /// Returns the look-ups that runs made, in order.
    pub fn look_ups(&self) -> impl Iterator<Item = &MadeLookUp> {
        self.look_ups.iter()
    }

    /// Returns all kinds of such runs, those with the most rules last.
    pub fn all(&self) -> impl Iterator<Item = &Wide> {
        self.widest.values()
    }
}

/// Returns the fields of hosts and connections that a run read with a full mask. A field is left out if a test had
/// shown that its value is one of few: a server's port below 1024, for example.
fn reads(run: &Observation) -> impl Iterator<Item = (Field, &Option<Source>)> {
    let mut bounded = BTreeSet::new();
    run.trace.items.iter().zip(run.trace.sources.iter()).filter_map(move |(item, source)| match item {
        Item::Test { cond, outcome: true } => {
            bounded.extend(cond.constraints.iter().map(|constraint| constraint.field));
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
