//! A proof that the runs so far are all that a policy can do with any packet, in one state of the network.
//!
//! # What
//!
//! The traces of each switch form a tree. It is complete if each test has both sides, and each read has all possible
//! values: those of at most [`BITS`] bits, or the edge ports of the switch. Then every packet that enters there follows
//! some trace of the tree, because a trace has everything that decides the rest of the run. So no packet does anything
//! that no run did.
//!
//! # What is not claimed
//!
//! A side of a test for a port counts only if a port of the switch can take it. A policy that reads a whole address has
//! more values than can be tried. A side that no packet took counts as open, even if no packet can take it, unless
//! tests that failed before show that. A proof is about the state in which the runs were made.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use maple_wire::{Constraint, Dpid, Field, PortNo, counted};

use super::coverage::{MergedTraces, StepKey};
use super::observe::Observation;
use crate::network::{Mac, PortKind};
use crate::state::Snapshot;
use crate::trace::{Cond, Item, Knowledge, KnownAnswer};

/// The maximum number of bits of a read whose values are all tried. Chosen: 256 values are one run each, which a check
/// can afford for several reads; whole ports with 16 bits would be 65,536.
pub(super) const BITS: u32 = 8;

/// The reason why nothing is proved about all packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Open {
    /// The policy writes state, so later packets may take other paths.
    Writes,
    /// Two runs on one packet and state differ.
    Untracked,
    /// The policy failed on this number of packets. It may do anything with them once it does not fail.
    Failed(u64),
    /// Packets wait for a change: this many.
    Waits(u64),
    /// The policy asks for a whole frame.
    WholeFrame,
    /// Packets that enter at this switch were not tried.
    Switch(Dpid),
    /// A field has more values than were tried: the field, and the number of bits that were read.
    Read(Field, u32),
    /// No packet took the other side of a test.
    Side(String),
    /// No packet was tried that first fits this entry of a list, counted from 1; with `None`, no packet that fits none
    /// of the entries.
    Entry(Option<usize>),
    /// The runs on one state asked different questions after the same observations.
    Differs,
}

impl fmt::Display for Open {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Open::Writes => f.write_str("the policy writes state, and later packets may take other paths"),
            Open::Untracked | Open::Differs => f.write_str("two runs on the same packet and state differ"),
            Open::Failed(count) => {
                write!(f, "the policy failed on {}, whose route is not known", counted(count, "packet"))
            }
            Open::Waits(count) => write!(f, "{count} packets wait for a change, and their routes are not known"),
            Open::WholeFrame => f.write_str("the policy looks at whole frames"),
            Open::Switch(dpid) => write!(f, "no packet was tried that enters at switch {dpid}"),
            Open::Read(field, bits) => {
                write!(
                    f,
                    "the policy reads {bits} bits of {field}, and not all values were tried (a test makes two cases)"
                )
            }
            Open::Entry(Some(entry)) => write!(f, "no packet was tried that fits entry {entry} of a list first"),
            Open::Entry(None) => f.write_str("no packet was tried that fits no entry of a list"),
            Open::Side(side) => write!(f, "no packet was tried for which holds: {side}"),
        }
    }
}

/// The traces of each switch.
#[derive(Default)]
pub(super) struct Explored {
    switches: BTreeMap<Dpid, MergedTraces>,
    wrote: bool,
    whole_frame: bool,
    /// The tests, by switch, whose failure ends the claim about a packet: packets that fail one are out of the
    /// question.
    last_tests: BTreeSet<(Dpid, Cond)>,
}

impl Explored {
    /// Starts with no traces. `last_tests` are the tests whose failure ends the claim about a packet.
    pub fn with_last_tests(last_tests: BTreeSet<(Dpid, Cond)>) -> Explored {
        Explored { last_tests, ..Explored::default() }
    }

    /// Adds a run on a packet that entered at a switch. Returns whether its trace is new there.
    pub fn take(&mut self, at: Dpid, run: &Observation) -> bool {
        self.wrote |= !run.writes.is_empty();
        self.whole_frame |= run.trace.needs_controller;
        self.switches.entry(at).or_default().take(run)
    }

    /// Checks that no packet can make any other run in this state.
    ///
    /// # Errors
    /// [`Open`]: the first thing that was not explored.
    pub fn is_complete(&self, state: &Snapshot, track_hosts: bool) -> Result<(), Open> {
        if self.wrote {
            return Err(Open::Writes);
        }
        if self.whole_frame {
            return Err(Open::WholeFrame);
        }
        for (dpid, _) in state.switches() {
            let is_edge = |kind| matches!(kind, PortKind::Edge | PortKind::Middlebox);
            let ports: Vec<PortNo> =
                state.ports_of(dpid).filter(|(_, p)| is_edge(p.kind)).map(|(port, _)| port).collect();
            if ports.is_empty() {
                continue;
            }
            let traces = self.switches.get(&dpid).ok_or(Open::Switch(dpid))?;
            // A packet of a host that is known to be elsewhere never comes to the policy here. At a middlebox, packets
            // of any source do.
            let is_tracked = track_hosts && !state.ports_of(dpid).any(|(_, port)| port.kind == PortKind::Middlebox);
            let is_elsewhere = |cond: &Cond| {
                let source = cond.constraints.iter().find(|c| c.field == Field::EthSrc && c.is_exact());
                let host = source.and_then(|source| state.host(Mac::from_bits(source.value)));
                is_tracked && host.is_some_and(|host| host.location.switch != dpid)
            };
            for (node, children) in traces.nodes() {
                let is_last = |cond: &Cond| self.last_tests.contains(&(dpid, cond.clone()));
                let fits_none = |cond: &Cond| is_elsewhere(cond) || has_failed(cond, &traces.items_before(node));
                complete(children, &ports, &fits_none, &is_last)?;
            }
        }
        Ok(())
    }
}

/// Reports whether no packet that passes the items fits the condition, because it would have fitted a test that failed.
fn has_failed(cond: &Cond, items: &[&Item]) -> bool {
    let mut known = Knowledge::default();
    items.iter().for_each(|item| known.learn((*item).clone()));
    known.suppose(cond);
    items.iter().any(|item| match item {
        Item::Test { cond: failed, outcome: false } => known.cond(failed) == KnownAnswer::Holds,
        _ => false,
    })
}

/// Checks that the items that follow a node of the tree are all that can follow it.
fn complete<'a>(
    children: impl Iterator<Item = &'a StepKey>,
    ports: &[PortNo],
    fits_none: &impl Fn(&Cond) -> bool,
    is_last: &impl Fn(&Cond) -> bool,
) -> Result<(), Open> {
    let mut items: Vec<&Item> = Vec::new();
    let mut answers: BTreeMap<(usize, usize), BTreeSet<usize>> = BTreeMap::new();
    for key in children {
        match key {
            StepKey::Item(item) => items.push(item),
            StepKey::List { list, length, first } => _ = answers.entry((*list, *length)).or_default().insert(*first),
        }
    }
    if let Some(((_, length), there)) = answers.first_key_value() {
        let is_only = answers.len() == 1 && items.is_empty();
        return if is_only { complete_list(*length, there) } else { Err(Open::Differs) };
    }
    items.sort_by_key(|item| item.to_string());
    match items.first() {
        None => Ok(()),
        Some(Item::Read(read)) => complete_read(*read, &items, ports),
        Some(Item::Test { cond, .. }) => complete_test(cond, &items, ports, fits_none, is_last),
    }
}

/// Checks that each of `length` entries of a list was the first that fits, and that none was.
fn complete_list(length: usize, there: &BTreeSet<usize>) -> Result<(), Open> {
    match (0..=length).find(|first| !there.contains(first)) {
        None => Ok(()),
        Some(entry) => Err(Open::Entry((entry != length).then_some(entry + 1))),
    }
}

/// Checks that a read gave every value that it can give.
fn complete_read(read: Constraint, items: &[&Item], ports: &[PortNo]) -> Result<(), Open> {
    let same = |item: &&Item| matches!(item, Item::Read(c) if (c.field, c.mask) == (read.field, read.mask));
    if !items.iter().all(same) {
        return Err(Open::Differs);
    }
    let bits = read.mask.count_ones();
    let all = match read.field {
        Field::InPort if read.is_exact() => ports.len(),
        _ if bits <= BITS => 1 << bits,
        _ => usize::MAX,
    };
    if items.len() < all { Err(Open::Read(read.field, bits)) } else { Ok(()) }
}

/// Checks that a test had each outcome that it can have.
fn complete_test(
    cond: &Cond,
    items: &[&Item],
    ports: &[PortNo],
    fits_none: &impl Fn(&Cond) -> bool,
    is_last: &impl Fn(&Cond) -> bool,
) -> Result<(), Open> {
    let mut sides = [false; 2];
    for item in items {
        match item {
            Item::Test { cond: other, outcome } if **other == *cond => sides[usize::from(*outcome)] = true,
            _ => return Err(Open::Differs),
        }
    }
    // No packet comes in by a port that is not there, or, if the switch has only one port, by another one.
    let by_port = cond.constraints.iter().find(|c| c.field == Field::InPort && c.is_exact());
    let is_only_port = ports.iter().all(|port| by_port.is_some_and(|by| by.value == u128::from(port.0)));
    let is_no_port = by_port.is_some_and(|by| !ports.iter().any(|port| by.value == u128::from(port.0)));
    let is_about_port_only = cond.constraints.len() == 1 && cond.ranges.is_empty();
    match sides {
        [true, true] => Ok(()),
        [true, false] if is_no_port || fits_none(cond) => Ok(()),
        [false, true] if is_only_port && is_about_port_only || is_last(cond) => Ok(()),
        [true, false] => Err(Open::Side(cond.to_string())),
        _ => Err(Open::Side(format!("not {cond}"))),
    }
}
