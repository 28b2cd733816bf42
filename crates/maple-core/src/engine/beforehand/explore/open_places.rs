//! The open places of a switch's tree: packets that get there, and what stays open.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use maple_wire::{Constraint, Field};

use super::packets::Packets;
use crate::check::Sample;
use crate::engine::decisions::Decisions;
use crate::engine::fabric::Fabric;
use crate::engine::one_switch::Switch;
use crate::engine::one_switch::ingress::exploration::OpenQuestion;
use crate::look_ups::lock;
use crate::trace::{Item, ReadMetadata, Source, TraceStep};
use crate::tree::{Missing, Opening};

/// The maximum number of bits of a read of which each value is tried. Chosen: eight values, as of a priority of a tag
/// (IEEE 802.1Q); of wider fields most values never come.
const FEW_BITS: u32 = 3;
/// The maximum number of open questions that are kept. Chosen: they fit a screen.
const MAX_OPEN: usize = 32;

/// The values that reads have anywhere in a tree, by field and mask.
type ValuesRead = BTreeMap<(Field, u128), BTreeSet<u128>>;

/// Returns packets for the open places of a switch's tree, one for each answer that is missing there.
pub(super) fn wanted<'a>(
    decisions: &'a Decisions,
    switch: &'a Switch,
    packets: &'a Packets<'a>,
) -> impl Iterator<Item = Sample> + 'a {
    let first = if switch.tree().is_empty() { packets.first() } else { None };
    let values_read = switch.tree().values_read();
    let places = move |opening: Opening| {
        let answers = missing_answers(&opening.missing, packets, &values_read);
        let before = switch.tree().items_before(opening.node);
        let base = switch.tree().leaf_below(opening.node).and_then(|leaf| decisions.leaves.get(&leaf));
        let base = base.map(|leaf| Sample { at: leaf.witness.at, frame: Arc::clone(&leaf.witness.frame) });
        answers.into_iter().filter_map(move |answer| {
            let items: Vec<Item> = before.iter().cloned().chain([answer]).collect();
            packets.fit(base.clone()?, &items)
        })
    };
    first.into_iter().chain(switch.tree().openings().flat_map(places))
}

/// Returns the answers that a place of the tree lacks and that packets may give, as far as they are known.
fn missing_answers(missing: &Missing, packets: &Packets<'_>, values_read: &ValuesRead) -> Vec<Item> {
    let (field, mask, present) = match missing {
        Missing::Side(cond, outcome) => return vec![Item::Test { cond: Arc::clone(cond), outcome: *outcome }],
        Missing::ValuesBeside(field, mask, present) => (*field, *mask, present),
    };
    let values: BTreeSet<u128> = match field {
        Field::Metadata => packets.possible_classes(mask as u64).into_iter().map(u128::from).collect(),
        Field::InPort => packets.ports().iter().map(|port| u128::from(port.0) & mask).collect(),
        _ if mask.count_ones() <= FEW_BITS => all_values(mask),
        _ => values_read.get(&(field, mask)).cloned().unwrap_or_default(),
    };
    let missing = values.into_iter().filter(|value| present.binary_search(value).is_err());
    missing.map(|value| Item::Read(Constraint { field, value, mask })).collect()
}

/// Returns all values that have no bits but these.
fn all_values(mask: u128) -> BTreeSet<u128> {
    let mut all = BTreeSet::from([0]);
    for bit in (0..u128::BITS).map(|bit| 1 << bit).filter(|bit| mask & bit != 0) {
        let with: Vec<u128> = all.iter().map(|value| value | bit).collect();
        all.extend(with);
    }
    all
}

/// Returns the questions to which packets of known hosts may give answers that none has given yet.
pub(super) fn open_questions(decisions: &Decisions, fabric: &mut Fabric, dpid: maple_wire::Dpid) -> Vec<OpenQuestion> {
    let state = fabric.ctx.store.snapshot();
    let Some(switch) = fabric.switches.known(dpid) else { return Vec::new() };
    let packets = Packets::new(switch, &state, fabric.ctx.options.track_hosts);
    let mut open: BTreeMap<(Option<Source>, String), usize> = BTreeMap::new();
    if switch.tree().is_empty() {
        let what = if packets.ports().is_empty() { "no host is known here" } else { "no packet has a rule" };
        open.insert((None, what.to_owned()), 1);
    }
    for opening in switch.tree().openings() {
        if let Some(what) = still_open(&opening, &packets, switch) {
            *open.entry((source_of(decisions, switch, &opening), what)).or_default() += 1;
        }
    }
    if switch.tree().has_open_chains() {
        open.insert((None, "entries of a list, or tests of a long chain".to_owned()), 1);
    }
    for why in switch.ingress.exploration.without_leaf.values() {
        *open.entry((None, format!("a packet that was tried has no rule: {why}"))).or_default() += 1;
    }
    let open = open.into_iter().map(|((source, what), count)| OpenQuestion { source, what, count });
    open.take(MAX_OPEN).collect()
}

/// Describes what is missing at a place of the tree after the exploration; `None` if no packet of a known host gets
/// there.
fn still_open(opening: &Opening, packets: &Packets<'_>, switch: &Switch) -> Option<String> {
    match &opening.missing {
        Missing::Side(cond, true) => packets.may_fit(cond).then(|| format!("no decision about packets with {cond}")),
        Missing::Side(cond, false) => Some(format!("no decision about packets without {cond}")),
        Missing::ValuesBeside(Field::Metadata, mask, present) => {
            let mask = *mask as u64;
            let mut missing = packets.possible_classes(mask).into_iter();
            let before = switch.tree().items_before(opening.node);
            let is_missing = |class: &u64| present.binary_search(&u128::from(*class)).is_err();
            let value = missing.find(|class| is_missing(class) && packets.may_also_have(&before, mask, *class))?;
            let read = ReadMetadata { value, mask };
            let (question, answer) = lock(&switch.ingress.look_ups.registers()).describe(read)?;
            Some(format!("no decision where {question} is {answer}"))
        }
        Missing::ValuesBeside(Field::InPort, mask, present) => {
            let missing =
                packets.ports().iter().find(|port| present.binary_search(&(u128::from(port.0) & mask)).is_err());
            missing.map(|port| format!("no decision for packets that enter at port {port}"))
        }
        Missing::ValuesBeside(field, mask, present) => {
            let bits = mask.count_ones();
            let are_all = bits < usize::BITS && present.len() == 1 << bits;
            (!are_all).then(|| format!("{field} is read, and other values of its {bits} bits may come"))
        }
    }
}

/// Returns the line of the question at a place of the tree, from a leaf below it.
fn source_of(decisions: &Decisions, switch: &Switch, opening: &Opening) -> Option<Source> {
    let leaf = decisions.leaves.get(&switch.tree().leaf_below(opening.node)?)?;
    let is_question = |step: &TraceStep<'_>| match (step, &opening.missing) {
        (TraceStep::Item(Item::Test { cond, .. }, _), Missing::Side(missing, _)) => cond == missing,
        (TraceStep::Item(Item::Read(read), _), Missing::ValuesBeside(field, mask, _)) => {
            (read.field, read.mask) == (*field, *mask)
        }
        _ => false,
    };
    leaf.trace.steps().find(is_question)?.source().cloned()
}
