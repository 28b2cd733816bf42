//! The master's side of a stream: the latest change of each row.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Included, Unbounded};
use std::sync::Arc;

use super::{StreamLimits, StreamPosition, StreamQuestion, StreamedPart};

/// The rows that a member has for standbys.
#[derive(Clone, Debug)]
pub struct StreamSource {
    life: u64,
    limits: StreamLimits,
    /// The number of the latest change.
    latest: u64,
    /// All rows, those included whose deletion is remembered.
    rows: BTreeMap<Arc<[u8]>, SourceRow>,
    /// The row of each change that is the latest one of its row.
    changes: BTreeMap<u64, Arc<[u8]>>,
    /// Those of them that are deletions.
    deletions: BTreeSet<u64>,
    /// The latest deletion that is forgotten. Whoever began before it, and has not had it, can't go on.
    forgotten: u64,
    /// The bytes of the rows that are there.
    bytes: usize,
    left_out: u64,
}

#[derive(Clone, Debug)]
struct SourceRow {
    change: u64,
    /// `None` if it is deleted.
    value: Option<Arc<[u8]>>,
}

impl StreamSource {
    /// Creates a source without rows. No other source has this `life`.
    pub fn new(life: u64, limits: StreamLimits) -> StreamSource {
        StreamSource {
            life,
            limits,
            latest: 0,
            rows: BTreeMap::new(),
            changes: BTreeMap::new(),
            deletions: BTreeSet::new(),
            forgotten: 0,
            bytes: 0,
            left_out: 0,
        }
    }

    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.rows.len() - self.deletions.len()
    }

    /// Reports whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns how often a row was left out because it did not fit.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Returns the rows whose keys begin with this prefix, by their keys.
    pub fn rows<'a>(&'a self, prefix: &'a [u8]) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        let from = self.rows.range::<[u8], _>((Included(prefix), Unbounded));
        let of_prefix = from.take_while(move |(key, _)| key.starts_with(prefix));
        of_prefix.filter_map(|(key, row)| Some((&key[..], row.value.as_deref()?)))
    }

    /// Writes a row, or deletes it with `None`. Returns whether that is a change. A row that does not fit is left out,
    /// and what was there before is deleted.
    pub fn put(&mut self, key: &[u8], value: Option<&[u8]>) -> bool {
        let before = self.rows.get(key).and_then(|row| row.value.clone());
        if before.as_deref() == value {
            return false;
        }
        let size = |value: &[u8]| key.len() + value.len();
        let bytes = self.bytes - before.as_deref().map_or(0, size);
        let fits = |value: &&[u8]| {
            let is_room = before.is_some() || self.len() < self.limits.rows;
            is_room && size(value) <= self.limits.row && bytes + size(value) <= self.limits.bytes
        };
        let fitting = value.filter(fits);
        self.left_out += u64::from(fitting.is_none() && value.is_some());
        if fitting.is_none() && before.is_none() {
            return false;
        }
        self.bytes = bytes + fitting.map_or(0, size);
        self.note(key, fitting.map(Arc::from));
        true
    }

    /// Has the rows whose keys begin with `prefix` be these. Returns whether that is a change.
    pub fn replace(&mut self, prefix: &[u8], rows: &BTreeMap<Vec<u8>, Vec<u8>>) -> bool {
        let is_gone = |(key, _): &(&[u8], &[u8])| !rows.contains_key(*key);
        let gone: Vec<Vec<u8>> = self.rows(prefix).filter(is_gone).map(|(key, _)| key.to_vec()).collect();
        let mut has_changed = false;
        for key in gone {
            has_changed |= self.put(&key, None);
        }
        for (key, value) in rows {
            debug_assert!(key.starts_with(prefix), "{key:?} is another section's");
            has_changed |= self.put(key, Some(value));
        }
        has_changed
    }

    /// Notes the latest change of a row.
    fn note(&mut self, key: &[u8], value: Option<Arc<[u8]>>) {
        self.latest += 1;
        let change = self.latest;
        let key = match self.rows.get_key_value(key) {
            Some((key, row)) => {
                self.changes.remove(&row.change);
                self.deletions.remove(&row.change);
                Arc::clone(key)
            }
            None => Arc::from(key),
        };
        if value.is_none() {
            self.deletions.insert(change);
        }
        self.changes.insert(change, Arc::clone(&key));
        self.rows.insert(key, SourceRow { change, value });
        while self.deletions.len() > self.limits.deletions
            && let Some(oldest) = self.deletions.pop_first()
        {
            self.forgotten = oldest;
            if let Some(key) = self.changes.remove(&oldest) {
                self.rows.remove(&key);
            }
        }
    }

    /// Reports whether there is something new for whoever asks this.
    pub fn has_news(&self, question: &StreamQuestion) -> bool {
        self.start(question) != Some(self.latest)
    }

    /// Returns where to go on; `None` if it is to begin anew.
    fn start(&self, question: &StreamQuestion) -> Option<u64> {
        let is_known = |of: &&StreamPosition| {
            of.life == self.life && of.change <= self.latest && of.change.max(of.began) >= self.forgotten
        };
        question.positions.iter().find(is_known).map(|of| of.change)
    }

    /// Returns the next changes for whoever asks this. The source's member is master, in this generation.
    pub fn answer(&self, question: &StreamQuestion, generation: u64) -> StreamedPart {
        let from = self.start(question).unwrap_or_default();
        let (mut rows, mut bytes, mut to) = (Vec::new(), 0, self.latest);
        for (change, key) in self.changes.range((Excluded(from), Unbounded)) {
            let value = self.rows.get(key).and_then(|row| row.value.as_deref());
            rows.push((key.to_vec(), value.map(<[u8]>::to_vec)));
            bytes += key.len() + value.map_or(0, <[u8]>::len);
            if bytes >= self.limits.part {
                to = *change;
                break;
            }
        }
        StreamedPart { number: question.number, generation, life: self.life, from, to, latest: self.latest, rows }
    }
}
