//! A view of what rests on each line of the policy: leaves, their rules, and the packets that these
//! have counted; and the runs of f that ended there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use rustc_hash::FxHashMap;

use super::Decisions;
use super::leaf::Leaf;
use super::line_runs::EndedRuns;
use crate::engine::fabric::Fabric;
use crate::engine::one_switch::cookies::{Subject, subject_of};
use crate::ids::LeafId;
use crate::report::CounterKind;
use crate::update::entry_key;

/// The use of a line of the policy's source. A leaf rests on each line that asked something in its run, and on the line
/// that made its route. A run ended at the line that made its route, or whose route a constraint refused; without a
/// route, at the last line that asked something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LineUse {
    /// The number of leaves.
    pub leaves: u64,
    /// The number of their own rules.
    pub rules: u64,
    /// The packets that these rules have counted, by the switches' last answers.
    pub packets: u64,
    /// The packet-ins that f decided by a run which ended here, since the policy was loaded.
    pub misses: u64,
    /// The runs of f that ended here, since the policy was loaded: those for packet-ins, and all others, such as after
    /// a change of what f had read.
    pub runs: u64,
    /// The time that these runs took together; zero without [`Options::stopwatch`](crate::engine::Options::stopwatch).
    pub time: Duration,
}

impl LineUse {
    /// Adds what rests on the line elsewhere.
    pub fn add(&mut self, other: LineUse) {
        self.leaves += other.leaves;
        self.rules += other.rules;
        self.packets = self.packets.saturating_add(other.packets);
        self.misses += other.misses;
        self.runs += other.runs;
        self.time = self.time.saturating_add(other.time);
    }
}

impl Decisions {
    /// Returns what rests on each line. Lines of all tiers of a composed policy are together.
    pub fn by_line(&self, fabric: &Fabric) -> BTreeMap<(Arc<str>, u32), LineUse> {
        let counted = counted(fabric);
        // Most leaves share the lists of their lines, and their origins.
        let mut alike: FxHashMap<(usize, usize), (&Leaf, LineUse)> = FxHashMap::default();
        let mut by_line: BTreeMap<(Arc<str>, u32), LineUse> = BTreeMap::new();
        let mut add = |leaf: &Leaf, own: LineUse| {
            for (file, line) in lines(leaf) {
                by_line.entry((Arc::clone(file), line)).or_default().add(own);
            }
        };
        for (id, leaf) in self.leaves.iter() {
            let (rules, packets) = counted.get(id).copied().unwrap_or_default();
            let own = LineUse { leaves: 1, rules, packets, ..LineUse::default() };
            if leaf.trace.lists.is_empty() {
                let shared = (Arc::as_ptr(&leaf.trace.sources).addr(), Arc::as_ptr(&leaf.origin).addr());
                alike.entry(shared).or_insert((leaf, LineUse::default())).1.add(own);
            } else {
                add(leaf, own);
            }
        }
        alike.into_values().for_each(|(leaf, own)| add(leaf, own));
        for (file, line, EndedRuns { runs, time, misses }) in self.line_runs.all() {
            let own = LineUse { misses, runs, time, ..LineUse::default() };
            by_line.entry((Arc::clone(file), line)).or_default().add(own);
        }
        by_line
    }
}

/// Returns the lines that a leaf rests on, each once.
fn lines(leaf: &Leaf) -> BTreeSet<(&Arc<str>, u32)> {
    let asked = leaf.trace.steps().filter_map(|step| step.source());
    asked.chain(&leaf.origin.line).map(|source| (&source.file, source.line)).collect()
}

/// Returns the number of rules of each leaf, and what they have counted.
fn counted(fabric: &Fabric) -> FxHashMap<LeafId, (u64, u64)> {
    let mut all: FxHashMap<LeafId, (u64, u64)> = FxHashMap::default();
    for switch in fabric.switches.values() {
        let (newest, _) = switch.counters.polls.readings(CounterKind::Rules);
        for (table, rule) in switch.tables.installed() {
            let Some(Subject::Dependent(id)) = subject_of(fabric.ctx.options.epoch, rule.cookie) else { continue };
            let in_reading =
                newest.and_then(|reading| reading.rules.get(&(table, entry_key(rule.priority, &rule.matching))));
            let count = in_reading.map(|counted| counted.count).filter(|count| count.cookie == rule.cookie);
            let (rules, packets) = all.entry(id.possible_leaf()).or_default();
            *rules += 1;
            *packets = packets.saturating_add(count.map_or(0, |count| count.packets));
        }
    }
    all
}
