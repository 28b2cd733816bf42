//! Filter sets as policies: the rules, levels and changes that they take. Each header must get its filter's answer.
//!
//! The sets are outside the project, in `../shared/classbench`. Without them these tests are skipped; in CI they fail.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use maple_core::{
    Augmented, Capabilities, Change, Cond, Fields, LeafAction, LeafId, Range, Recorder, Rule, RuleTable, TableTarget,
};
use maple_wire::{Action, Constraint, Field, Instruction, PortNo};

use super::skip::missing;

/// The five fields of an abstract header.
struct Header([u128; 5]);

const FIELDS: [Field; 5] = [Field::IpProto, Field::Ipv4Src, Field::Ipv4Dst, Field::TcpSrc, Field::TcpDst];

impl Fields for Header {
    fn value(&self, field: Field) -> Option<u128> {
        let at = FIELDS.iter().position(|f| *f == field)?;
        Some(self.0[at])
    }

    fn is_captured(&self, _: Field) -> bool {
        true
    }
}

fn folder() -> Option<PathBuf> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/classbench");
    if folder.join("acl1a.rules").exists() {
        return Some(folder);
    }
    missing(&folder.display().to_string());
    None
}

fn prefix(word: &str, field: Field) -> Option<Constraint> {
    let (address, length) = word.trim_start_matches('@').split_once('/').expect("a prefix");
    let address: std::net::Ipv4Addr = address.parse().expect("an address");
    let length: u32 = length.parse().expect("a length");
    let mask = u32::MAX.checked_shl(32 - length).unwrap_or(0);
    (length > 0).then(|| Constraint::masked(field, u32::from(address).into(), mask.into()))
}

fn filter(line: &str) -> Arc<Cond> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let mut cond = Cond::default();
    let (value, mask) = words[8].split_once('/').expect("a protocol");
    if mask.to_lowercase() == "0xff" {
        let value = u128::from_str_radix(&value[2..], 16).expect("a hexadecimal number");
        cond.constraints.push(Constraint::exact(Field::IpProto, value));
    }
    cond.constraints.extend(prefix(words[0], Field::Ipv4Src));
    cond.constraints.extend(prefix(words[1], Field::Ipv4Dst));
    for (field, lo, hi) in [(Field::TcpSrc, words[2], words[4]), (Field::TcpDst, words[5], words[7])] {
        let (lo, hi) = (lo.parse().expect("a port"), hi.parse().expect("a port"));
        match (lo, hi) {
            (0, 65535) => {}
            (lo, hi) if lo == hi => cond.constraints.push(Constraint::exact(field, lo)),
            (lo, hi) => cond.ranges.push(Range { field, lo, hi }),
        }
    }
    Arc::new(cond)
}

fn header(line: &str) -> Header {
    let n: Vec<u128> = line.split_whitespace().map(|word| word.parse().expect("a number")).collect();
    Header([n[4], n[0], n[1], n[2], n[3]])
}

fn action(filter: usize) -> LeafAction {
    LeafAction::Apply(vec![Instruction::ApplyActions(vec![Action::output(PortNo(filter as u32 + 1))])])
}

/// The counts of a table that learned one trace after the other.
#[derive(Debug, Default)]
struct Counts {
    rules: usize,
    barriers: usize,
    levels: usize,
    flow_mods: usize,
    reprioritised: usize,
    visited: u64,
}

struct Play {
    filters: Vec<Arc<Cond>>,
    table: RuleTable,
    answers: BTreeMap<LeafId, usize>,
    rules: BTreeMap<(u16, Vec<Constraint>), Rule>,
    counts: Counts,
}

impl Play {
    fn learn(&mut self, header: &Header) {
        let mut recorder = Recorder::new();
        let first = self.filters.iter().position(|filter| recorder.fits(header, filter, None));
        let answer = first.expect("every header fits a filter");
        if let Some(leaf) = self.table.tree().search(header) {
            assert_eq!(self.answers[&leaf], answer);
            return;
        }
        let trace = recorder.finish().lower(header, &Capabilities::of_abstract_headers());
        let leaf = LeafId(self.answers.len() as u64);
        self.answers.insert(leaf, answer);
        assert_eq!(self.table.augment(&trace.items, leaf, action(answer)), Augmented::Added);
        self.follow();
    }

    fn follow(&mut self) {
        let changes = self.table.take_changes();
        self.counts.flow_mods += changes.len();
        let matched = |change: &Change| change.rule().matching.constraints().copied().collect::<Vec<_>>();
        let deleted: BTreeSet<Vec<Constraint>> =
            changes.iter().filter(|c| matches!(c, Change::Delete(_))).map(matched).collect();
        for change in &changes {
            let (entry, rule) = ((change.rule().priority, matched(change)), change.rule().clone());
            match change {
                Change::Add(_) => {
                    self.counts.reprioritised += usize::from(deleted.contains(&entry.1));
                    assert!(self.rules.insert(entry, rule).is_none());
                }
                Change::Modify(_) => assert!(self.rules.insert(entry, rule).is_some()),
                Change::Delete(_) => assert!(self.rules.remove(&entry).is_some()),
            }
        }
    }

    /// Checks that the table gives a header its answer.
    fn check(&self, header: &Header) {
        let fits = |rule: &&Rule| rule.matching.holds(|field| header.value(field));
        let first = self.rules.values().rev().find(fits).expect("a rule fits");
        let wanted = self.filters.iter().position(|filter| filter.holds(header)).expect("a filter fits");
        assert_eq!(LeafAction::Apply(first.instructions.to_vec()), action(wanted));
    }
}

fn play(set: &str, folder: &std::path::Path) -> Counts {
    let read = |name: String| std::fs::read_to_string(folder.join(name)).expect("the set can be read");
    let filters = read(format!("{set}.rules")).lines().map(filter).collect();
    let headers: Vec<Header> = read(format!("{set}.trace")).lines().map(header).collect();
    let cookie = Arc::new(|leaf: Option<LeafId>| leaf.map_or(0, |leaf| leaf.0 + 1));
    let capabilities = Capabilities::of_abstract_headers();
    let target = TableTarget { under: Vec::new(), capabilities, priorities: 1..=60000, cookie };
    let table = RuleTable::new(target);
    let (answers, rules) = (BTreeMap::new(), BTreeMap::new());
    let mut play = Play { filters, table, answers, rules, counts: Counts::default() };
    headers.iter().for_each(|header| play.learn(header));
    headers.iter().for_each(|header| play.check(header));
    assert!(play.table.rules().iter().eq(play.rules.values().rev()) || play.table.rules().len() == play.rules.len());
    let levels: BTreeSet<u16> = play.rules.keys().map(|(priority, _)| *priority).collect();
    play.counts.rules = play.rules.len();
    play.counts.barriers = play.rules.values().filter(|rule| rule.cookie == 0).count();
    play.counts.levels = levels.len();
    play.counts.visited = play.table.visited();
    println!("{set} {:?} {:.2}", play.counts, play.counts.flow_mods as f64 / play.counts.rules as f64);
    play.counts
}

/// Some sets, with the maximum number of rules and levels that they may take: no more levels than the paper's compiler.
const SETS: [(&str, usize, usize); 4] = [("acl1a", 920, 9), ("acl3a", 905, 33), ("ipc1a", 980, 38), ("ipc2a", 490, 15)];

#[test]
fn filter_sets_take_few_rules_and_changes() {
    let Some(folder) = folder() else { return };
    for (set, rules, levels) in SETS {
        let counts = play(set, &folder);
        assert!(counts.rules <= rules, "{set}: {counts:?}");
        assert!(counts.levels <= levels, "{set}: {counts:?}");
        assert!(10 * counts.flow_mods <= 17 * counts.rules, "{set}: {counts:?}");
        assert!(50 * counts.reprioritised <= counts.flow_mods, "{set}: {counts:?}");
    }
}
