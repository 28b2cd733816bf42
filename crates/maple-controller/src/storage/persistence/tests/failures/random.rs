//! Random writes, faults of the disk and acts of other programs: what is in the file afterwards.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use maple_core::state::{Cell, Value};
use proptest::prelude::*;

use super::disk::DiskState;
use super::{LONG, PersistenceRun};

/// An event of a run.
#[derive(Clone, Debug)]
enum Step {
    Write(i64, Option<i64>),
    /// Writes, and waits for the acknowledgement if the disk can give one.
    Acknowledge(i64, Option<i64>),
    /// A disk on which after this number of accesses nothing more can be written.
    Breaks(u64),
    /// A disk on which after this number of accesses one fails.
    Hiccup(u64),
    Heals,
    /// The thread has some time.
    Rest,
    Other(Meddling),
}

/// An act of other programs on the file.
#[derive(Clone, Debug)]
enum Meddling {
    Delete,
    Replace,
    Overwrite,
    Truncate,
}

fn step() -> impl Strategy<Value = Step> {
    let value = || proptest::option::weighted(0.8, 0..1000i64);
    let other = prop_oneof![
        Just(Meddling::Delete),
        Just(Meddling::Replace),
        Just(Meddling::Overwrite),
        Just(Meddling::Truncate)
    ];
    prop_oneof![
        8 => (0..10i64, value()).prop_map(|(key, value)| Step::Write(key, value)),
        6 => (0..10i64, value()).prop_map(|(key, value)| Step::Acknowledge(key, value)),
        2 => (0..40u64).prop_map(Step::Breaks),
        2 => (0..40u64).prop_map(Step::Hiccup),
        3 => Just(Step::Heals),
        2 => Just(Step::Rest),
        1 => other.prop_map(Step::Other),
    ]
}

impl PersistenceRun {
    fn step(&self, step: &Step, history: &mut History) {
        match step {
            Step::Write(key, value) => {
                history.wrote(*key, *value);
                self.write(*key, *value);
            }
            Step::Acknowledge(key, value) => {
                history.wrote(*key, *value);
                let version = self.write(*key, *value);
                if self.pending().wait(version, LONG) {
                    history.acknowledged();
                }
            }
            Step::Breaks(after) => self.disk.set(|state| state.good = Some(*after)),
            Step::Hiccup(after) => self.disk.set(|state| state.bad = Some(*after)),
            Step::Heals => self.disk.heals(),
            Step::Rest => std::thread::sleep(Duration::from_millis(6)),
            Step::Other(meddling) => self.meddle(meddling),
        }
    }

    fn meddle(&self, what: &Meddling) {
        // The file may be missing, and there may be a part of another one: whatever others do is right.
        let other = self.folder.path().join("other");
        drop(match what {
            Meddling::Delete => fs::remove_file(self.path()),
            Meddling::Replace => fs::write(&other, "another").and_then(|()| fs::rename(&other, self.path())),
            Meddling::Overwrite => fs::write(self.path(), "x".repeat(100_000)),
            Meddling::Truncate => fs::write(self.path(), ""),
        });
        // What is set aside is bounded, and somebody tidies up.
        for entry in fs::read_dir(self.folder.path()).expect("a folder").flatten() {
            if entry.file_name().to_string_lossy().contains("aside") {
                drop(fs::remove_file(entry.path()));
            }
        }
    }
}

/// The values that were written to each key since the last acknowledgement.
#[derive(Default)]
struct History {
    /// All values since the one that was acknowledged last, that one included.
    possible: BTreeMap<i64, Vec<Option<i64>>>,
}

impl History {
    fn wrote(&mut self, key: i64, value: Option<i64>) {
        self.possible.entry(key).or_insert_with(|| vec![None]).push(value);
    }

    /// Notes that everything until now is on the disk.
    fn acknowledged(&mut self) {
        self.possible.values_mut().for_each(|values| drop(values.drain(..values.len() - 1)));
    }
}

fn value_at(rows: &BTreeMap<Cell, Value>, key: i64) -> Option<Value> {
    rows.get(&Cell::Table("t".into(), Value::from(key))).cloned()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// Checks that the file has what the memory has when all faults are over, whatever failed and when.
    #[test]
    fn the_file_equals_the_memory_when_faults_are_over(steps in prop::collection::vec(step(), 1..40)) {
        let mut run = PersistenceRun::new();
        let mut history = History::default();
        steps.iter().for_each(|step| run.step(step, &mut history));
        run.disk.heals();
        run.kept();
        run.is_mended();
        let expected = run.memory();
        run.persistence.take();
        prop_assert_eq!(run.file(), expected);
    }

    /// Checks that acknowledged writes are in the file after the process is killed, whatever failed before and when.
    #[test]
    fn acknowledged_writes_survive_a_crash(
        steps in prop::collection::vec(step().prop_filter("others", |step| !matches!(step, Step::Other(_))), 1..40),
    ) {
        let mut run = PersistenceRun::new();
        let mut history = History::default();
        steps.iter().for_each(|step| run.step(step, &mut history));
        // Nothing more is written.
        run.disk.set(|state| *state = DiskState { good: Some(0), ..DiskState::default() });
        run.persistence.take();
        let file = run.file();
        for (key, possible) in &history.possible {
            let found = value_at(&file, *key);
            let is_possible = possible.iter().any(|value| value.map(Value::from) == found);
            prop_assert!(is_possible, "{} is {:?}, and not one of {:?}", key, found, possible);
        }
    }
}
