//! Packets that take another path through f, made from the questions of a run about its packet.
//!
//! Each test is turned to its other side, with the values next to its boundary. Each value read is replaced by others
//! that may matter: those of hosts, those of tables that the run read, those that tests compare the field with, the
//! ends of the field's range, and a random one. The rest of the packet stays. So the earlier questions of the run get
//! the same answers, and the new packet reaches the same question.

use std::collections::{BTreeMap, BTreeSet};

use fastrand::Rng;
use maple_wire::eth_type::value::{ARP, IPV4, IPV6};
use maple_wire::field::ValueKind;
use maple_wire::ip_proto::value::{ICMP, ICMPV6, SCTP, TCP, UDP};
use maple_wire::{Constraint, Field};

use super::Host;
use super::observe::Observation;
use super::proof::BITS;
use super::sample_packets::{Headers, Sample};
use crate::state::{Cell, Snapshot, Value};
use crate::trace::{Cond, Item, Range, TraceStep};

/// The maximum number of known values that are tried for one read. Chosen: each becomes a packet, and the next packet
/// of that kind begins at another value, so all have their turn.
const MAX_VALUES_OF_READ: usize = 12;
/// The maximum number of entries of a list that are tried for one answer. Chosen: each becomes a packet; of longer
/// lists, entries at even distances are tried.
const MAX_ENTRIES_OF_LIST: usize = 64;
/// The maximum number of values of a kind that are remembered. Chosen: as many as a read of [`BITS`] bits can have, and
/// a bound on memory.
const MAX_REMEMBERED: usize = 256;

/// Values that may matter, by kind.
#[derive(Default)]
pub(super) struct TriedValues(BTreeMap<Field, BTreeSet<u128>>);

/// Returns the field that stands for all with the same kind of values: what is tried in one is tried in the others.
fn kind(field: Field) -> Field {
    match field.kind() {
        ValueKind::Mac => Field::EthSrc,
        ValueKind::Ipv4 => Field::Ipv4Src,
        ValueKind::Ipv6 => Field::Ipv6Src,
        ValueKind::TransportPort => Field::TcpSrc,
        _ => field,
    }
}

impl TriedValues {
    /// Collects the values of the network's hosts, and some that belong to no host.
    pub fn from_network(hosts: &[Host], state: &Snapshot) -> TriedValues {
        let mut values = TriedValues::default();
        for (mac, info) in hosts {
            values.note(Field::EthSrc, mac.bits());
            info.ipv4.iter().for_each(|ip| values.note(Field::Ipv4Src, u128::from(u32::from(*ip))));
            info.ipv6.iter().for_each(|ip| values.note(Field::Ipv6Src, u128::from(*ip)));
        }
        for mac in [0x0200_0000_0099, 0xffff_ffff_ffff, 0x0100_5e01_0101] {
            values.note(Field::EthSrc, mac);
        }
        for ip in [0x0a63_6363, 0xffff_ffff, 0xef01_0101] {
            values.note(Field::Ipv4Src, ip);
        }
        for port in [22, 53, 80] {
            values.note(Field::TcpSrc, port);
        }
        for (at, _) in state.switches().flat_map(|(dpid, _)| state.ports_of(dpid)) {
            values.note(Field::InPort, u128::from(at.0));
        }
        for (field, some) in [
            (Field::EthType, &[IPV4, ARP, IPV6, 0x88b5][..]),
            (Field::IpProto, &[ICMP, TCP, UDP, ICMPV6, SCTP]),
            (Field::VlanVid, &[0, 0x1001, 0x1002]),
            (Field::ArpOp, &[1, 2]),
        ] {
            some.iter().for_each(|value| values.note(field, *value));
        }
        values
    }

    fn note(&mut self, field: Field, value: u128) {
        let known = self.0.entry(kind(field)).or_default();
        if known.len() < MAX_REMEMBERED {
            known.insert(value);
        }
    }

    /// Adds the values with which a run compared fields, and the keys of the tables that it read.
    pub fn learn(&mut self, run: &Observation, state: &Snapshot) {
        for item in &run.trace.items {
            let Item::Test { cond, .. } = item else { continue };
            cond.constraints.iter().for_each(|c| self.note(c.field, c.value));
            for range in &cond.ranges {
                self.note(range.field, range.lo);
                self.note(range.field, range.hi);
            }
        }
        let mut tables: Vec<_> = run.reads.iter().filter_map(table).collect();
        tables.dedup();
        for table in tables {
            let keys = state.table(table).into_iter().flat_map(|table| table.keys()).take(MAX_REMEMBERED);
            keys.for_each(|key| self.learn_key(key));
        }
    }

    /// Adds the values in a table's key: an address, the text of one, a port number, or several of these.
    fn learn_key(&mut self, key: &Value) {
        match key {
            Value::Mac(mac) => self.note(Field::EthSrc, mac.bits()),
            Value::Ipv4(ip) => self.note(Field::Ipv4Src, u128::from(u32::from(*ip))),
            Value::Ipv6(ip) => self.note(Field::Ipv6Src, u128::from(*ip)),
            Value::Int(port) if (0..=0xffff).contains(port) => self.note(Field::TcpSrc, *port as u128),
            Value::Str(text) => {
                if let Ok(mac) = text.parse::<crate::network::Mac>() {
                    self.note(Field::EthSrc, mac.bits());
                } else if let Ok(ip) = text.parse::<std::net::Ipv4Addr>() {
                    self.note(Field::Ipv4Src, u128::from(u32::from(ip)));
                } else if let Ok(ip) = text.parse::<std::net::Ipv6Addr>() {
                    self.note(Field::Ipv6Src, u128::from(ip));
                }
            }
            Value::Tuple(parts) => parts.iter().for_each(|part| self.learn_key(part)),
            _ => {}
        }
    }

    /// Returns some values for a field: the ends of its range, a random one, and some that may matter.
    fn for_field(&self, field: Field, random: &mut Rng) -> Vec<u128> {
        let mut values = vec![0, field.full_mask(), random.u128(..) & field.full_mask()];
        let known: Vec<u128> = self.0.get(&kind(field)).into_iter().flatten().copied().collect();
        let start = random.usize(..known.len().max(1));
        values.extend(known.iter().cycle().skip(start).take(known.len().min(MAX_VALUES_OF_READ)));
        values
    }
}

fn table(cell: &Cell) -> Option<&str> {
    match cell {
        Cell::Table(name, _) | Cell::TableAll(name) | Cell::TableLen(name) => Some(name),
        _ => None,
    }
}

/// Makes packets that answer one question of the run differently, for each question in turn. With `all_values`, a read
/// with few possible values gets all of them.
pub(super) fn variants(
    sample: &Sample,
    run: &Observation,
    values: &TriedValues,
    random: &mut Rng,
    all_values: bool,
) -> Vec<Sample> {
    let headers = sample.headers();
    let mut all = Vec::new();
    for step in run.trace.steps() {
        let changes = match step {
            TraceStep::Item(Item::Test { cond, outcome: false }, _) => fitting(cond, &headers),
            TraceStep::Item(Item::Test { cond, outcome: true }, _) => failing(cond, &headers),
            TraceStep::Item(Item::Read(constraint), _) if all_values && is_small(constraint) => {
                every(constraint, values)
            }
            TraceStep::Item(Item::Read(constraint), _) => other_values(constraint, values, random),
            TraceStep::List(answer) => {
                let conds = answer.list.conds();
                let spread = conds.iter().step_by(conds.len() / MAX_ENTRIES_OF_LIST + 1);
                spread.chain(answer.cond()).flat_map(|cond| fitting(cond, &headers)).collect()
            }
        };
        all.extend(changes.iter().map(|changes| sample.with(changes)));
    }
    all
}

/// Returns changes that make a packet fit the condition, with each range at its ends and in its middle. A prefix is a
/// range too.
pub(crate) fn fitting(cond: &Cond, headers: &Headers) -> Vec<Headers> {
    let old = |field| headers.get(&field).copied().unwrap_or(0);
    let base: Headers = cond.constraints.iter().map(|c| (c.field, old(c.field) & !c.mask | c.value)).collect();
    let ranges: Vec<Range> = cond.ranges.iter().copied().chain(cond.constraints.iter().filter_map(block)).collect();
    let within = |pick: fn(&Range) -> u128| {
        let mut changes = base.clone();
        changes.extend(ranges.iter().map(|range| (range.field, pick(range))));
        changes
    };
    if ranges.is_empty() {
        return vec![base];
    }
    vec![within(|r| r.lo), within(|r| r.hi), within(|r| r.lo + (r.hi - r.lo) / 2)]
}

/// Returns changes that make a packet fail one part of the condition.
pub(crate) fn failing(cond: &Cond, headers: &Headers) -> Vec<Headers> {
    let mut all = Vec::new();
    for c in &cond.constraints {
        let old = headers.get(&c.field).copied().unwrap_or(c.value);
        let other: Vec<u128> = match c.field {
            Field::EthType => [IPV4, ARP, IPV6, 0x88b5].into_iter().filter(|value| !c.holds(*value)).collect(),
            Field::IpProto => [6, 17, 1].into_iter().filter(|value| !c.holds(*value)).collect(),
            _ => {
                let low = 1 << c.mask.trailing_zeros().min(127);
                let high = 1 << (127 - c.mask.leading_zeros().min(127));
                vec![old ^ low, old ^ high]
            }
        };
        all.extend(other.into_iter().map(|value| Headers::from([(c.field, value)])));
    }
    for range in cond.ranges.iter().copied().chain(cond.constraints.iter().filter_map(block)) {
        let below = range.lo.checked_sub(1);
        let above = (range.hi < range.field.full_mask()).then(|| range.hi + 1);
        all.extend(below.into_iter().chain(above).map(|value| Headers::from([(range.field, value)])));
    }
    all
}

/// Returns a prefix of more than one value as a range.
fn block(constraint: &Constraint) -> Option<Range> {
    let Constraint { field, value, mask } = *constraint;
    let rest = field.full_mask() & !mask;
    (rest != 0 && rest & (rest + 1) == 0).then_some(Range { field, lo: value, hi: value | rest })
}

/// Reports whether a read has few possible values.
fn is_small(read: &Constraint) -> bool {
    read.field == Field::InPort || read.mask.count_ones() <= BITS
}

/// Returns changes that give a field that was read each value that it can have; for the input port, each port of the
/// network.
fn every(read: &Constraint, values: &TriedValues) -> Vec<Headers> {
    let with_value = |value| Headers::from([(read.field, value)]);
    if read.field == Field::InPort {
        return values.0.get(&kind(read.field)).into_iter().flatten().copied().map(with_value).collect();
    }
    let places: Vec<u32> = (0..128).filter(|bit| read.mask >> bit & 1 == 1).collect();
    let spread = |number: u128| places.iter().enumerate().map(|(i, bit)| (number >> i & 1) << bit).sum::<u128>();
    (0..1u128 << places.len()).map(|number| with_value(spread(number))).collect()
}

/// Returns changes that give other values to a field that was read. For a masked read, only the bits under the mask
/// matter.
fn other_values(read: &Constraint, values: &TriedValues, random: &mut Rng) -> Vec<Headers> {
    let mut all: BTreeSet<u128> =
        values.for_field(read.field, random).into_iter().filter(|value| value & read.mask != read.value).collect();
    all.insert(read.value ^ 1 << read.mask.trailing_zeros().min(127));
    all.into_iter().map(|value| Headers::from([(read.field, value)])).collect()
}
