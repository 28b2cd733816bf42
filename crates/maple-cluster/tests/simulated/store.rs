//! A model of etcd: keys with leases, revisions, a log of changes, compaction. What is planted makes it wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use maple_cluster::{Change, Record, StateBatch, Time};

use crate::faults::Plant;

/// A request of a member.
#[derive(Clone, Debug)]
pub enum Ask {
    Grant(Duration),
    KeepAlive(i64),
    Read(Vec<u8>),
    Write { key: Vec<u8>, value: Vec<u8>, lease: i64, former: u64 },
    Delete { key: Vec<u8>, former: u64 },
    Revoke(i64),
    ReadKey(Vec<u8>),
    Transact(StateBatch),
}

/// An answer of the store.
#[derive(Clone, Debug)]
pub enum Answer {
    Granted { lease: i64, good_for: Duration },
    Kept { good_for: Duration },
    LeaseEnded,
    Read { records: Vec<Record>, revision: u64 },
    Written { record: Option<Record>, revision: u64 },
    NoSuchLease,
    Deleted { revision: u64 },
    Nothing,
    Key { record: Option<Record>, revision: u64 },
    Transacted(u64),
    NotTransacted { master: u64, head: Option<Record> },
}

#[derive(Debug, Default)]
pub struct Store {
    pub revision: u64,
    pub keys: BTreeMap<Vec<u8>, Record>,
    /// Time and end of each lease.
    leases: BTreeMap<i64, (Duration, Time)>,
    granted: i64,
    log: Vec<(u64, Change)>,
    compacted: u64,
    /// The member that was given each mastership, by the revision of its key.
    pub masters: BTreeMap<u64, String>,
    pub tracked: Tracked,
    plants: BTreeSet<Plant>,
}

impl Store {
    /// Creates an empty store, in which something else has made this many revisions.
    pub fn new(revision: u64, plants: BTreeSet<Plant>) -> Store {
        Store { revision, plants, ..Store::default() }
    }

    /// Ends leases whose time is over.
    pub fn advance(&mut self, now: Time) {
        if self.plants.contains(&Plant::LeasesNeverEnd) {
            return;
        }
        let over: Vec<i64> = self.leases.iter().filter(|(_, (_, ends))| *ends <= now).map(|(id, _)| *id).collect();
        over.into_iter().for_each(|lease| self.end(lease));
    }

    /// Makes another server lead: all leases begin anew, as in etcd.
    pub fn change_leader(&mut self, now: Time) {
        for (time, ends) in self.leases.values_mut() {
            *ends = now + *time;
        }
    }

    pub fn compact(&mut self) {
        self.compacted = self.revision;
        self.log.clear();
    }

    /// Returns the changes of keys with a prefix from a revision on; nothing if they are not there any more.
    pub fn changes(&self, prefix: &[u8], from: u64) -> Option<Vec<Change>> {
        if from <= self.compacted && self.compacted > 0 && !self.plants.contains(&Plant::CompactionIsSilent) {
            return None;
        }
        let is_meant = |change: &Change| match change {
            Change::Put { record, .. } => record.key.starts_with(prefix),
            Change::Delete { key, .. } => key.starts_with(prefix),
        };
        let wanted = self.log.iter().filter(|(revision, change)| *revision >= from && is_meant(change));
        Some(wanted.map(|(_, change)| change.clone()).collect())
    }

    pub fn ask(&mut self, now: Time, ask: Ask) -> Answer {
        self.advance(now);
        match ask {
            Ask::Grant(time) => {
                self.granted += 1;
                self.leases.insert(self.granted, (time, now + time));
                Answer::Granted { lease: self.granted, good_for: time }
            }
            Ask::KeepAlive(lease) => match self.leases.get_mut(&lease) {
                Some((time, ends)) => {
                    *ends = now + *time;
                    Answer::Kept { good_for: *time }
                }
                None => Answer::LeaseEnded,
            },
            Ask::Read(prefix) => {
                let records = self.keys.values().filter(|record| record.key.starts_with(&prefix)).cloned().collect();
                Answer::Read { records, revision: self.revision }
            }
            Ask::Write { lease, .. } if !self.leases.contains_key(&lease) => Answer::NoSuchLease,
            Ask::Write { key, value, lease, former } => self.write(key, value, lease, former),
            Ask::Delete { key, former } => {
                if self.keys.get(&key).is_some_and(|record| record.revision == former) {
                    self.revision += 1;
                    self.delete(key);
                }
                Answer::Deleted { revision: self.revision }
            }
            Ask::Revoke(lease) => {
                self.end(lease);
                Answer::Nothing
            }
            Ask::ReadKey(key) => Answer::Key { record: self.keys.get(&key).cloned(), revision: self.revision },
            Ask::Transact(batch) => self.transact(batch),
        }
    }

    fn written_at(&self, key: &[u8]) -> u64 {
        self.keys.get(key).map_or(0, |record| record.revision)
    }

    /// Carries out a batch of the tracked state, if what it compares holds.
    fn transact(&mut self, batch: StateBatch) -> Answer {
        let master = self.written_at(&batch.master.key);
        let is_masters = master == batch.master.revision || self.plants.contains(&Plant::BatchesOfFormerMasters);
        let is_next =
            self.written_at(&batch.head.key) == batch.head.revision || self.plants.contains(&Plant::BatchesInAnyOrder);
        if !is_masters || !is_next {
            return Answer::NotTransacted { master, head: self.keys.get(&batch.head.key).cloned() };
        }
        self.revision += 1;
        let revision = self.revision;
        for key in batch.clears.map_or_else(Vec::new, |prefix| self.keys_with(&prefix)) {
            self.delete(key);
        }
        let head = (batch.head.key, Some(batch.value.clone()));
        for (key, value) in batch.rows.into_iter().chain([head]) {
            match value {
                Some(value) => self.put_row(key, value),
                None if self.keys.contains_key(&key) => self.delete(key),
                None => {}
            }
        }
        let rows = self.rows();
        self.tracked.on_batch(&batch.value, batch.master.revision, master, rows);
        Answer::Transacted(revision)
    }

    fn keys_with(&self, prefix: &[u8]) -> Vec<Vec<u8>> {
        self.keys.keys().filter(|key| key.starts_with(prefix)).cloned().collect()
    }

    fn put_row(&mut self, key: Vec<u8>, value: Vec<u8>) {
        let record = Record { key: key.clone(), value, revision: self.revision, lease: 0 };
        self.keys.insert(key, record.clone());
        self.log.push((self.revision, Change::Put { record, revision: self.revision }));
    }

    /// Returns the rows of the tracked state.
    pub fn rows(&self) -> State {
        let of_row = |record: &Record| {
            let key = record.key.strip_prefix(&b"c/state/rows/"[..])?;
            Some((key.to_vec(), record.value.clone()))
        };
        self.keys.values().filter_map(of_row).collect()
    }

    fn write(&mut self, key: Vec<u8>, value: Vec<u8>, lease: i64, former: u64) -> Answer {
        let there = self.keys.get(&key).cloned();
        let holds = there.as_ref().map_or(0, |record| record.revision) == former;
        if !holds && !self.plants.contains(&Plant::WritesWithoutComparing) {
            return Answer::Written { record: there, revision: self.revision };
        }
        self.revision += 1;
        // What was compared in vain has the revision that was there.
        let revision = if holds { self.revision } else { there.map_or(self.revision, |record| record.revision) };
        let record = Record { key: key.clone(), value, revision, lease };
        if key.ends_with(b"/master") {
            self.masters.insert(self.revision, String::from_utf8_lossy(&record.value).into_owned());
        }
        self.keys.insert(key, record.clone());
        self.log.push((self.revision, Change::Put { record: record.clone(), revision: self.revision }));
        Answer::Written { record: Some(record), revision: self.revision }
    }

    fn end(&mut self, lease: i64) {
        self.leases.remove(&lease);
        let of_it: Vec<_> =
            self.keys.values().filter(|record| record.lease == lease).map(|record| record.key.clone()).collect();
        if !of_it.is_empty() && !self.plants.contains(&Plant::DeletionsHaveNoRevision) {
            self.revision += 1;
        }
        of_it.into_iter().for_each(|key| self.delete(key));
    }

    fn delete(&mut self, key: Vec<u8>) {
        self.keys.remove(&key);
        if !self.plants.contains(&Plant::DeletionsAreNotReported) {
            self.log.push((self.revision, Change::Delete { key, revision: self.revision }));
        }
    }
}

/// The tracked state: rows by their keys.
pub type State = BTreeMap<Vec<u8>, Vec<u8>>;

/// The tracked state as the store has it.
#[derive(Debug, Default)]
pub struct Tracked {
    /// All states since the first one was complete, in order.
    pub states: Vec<State>,
    /// The first fault that was seen.
    pub failure: Option<String>,
}

impl Tracked {
    /// Notes a batch of this generation, which took effect while the key of mastership had another revision or the
    /// same.
    fn on_batch(&mut self, head: &[u8], generation: u64, master: u64, rows: State) {
        if generation != master {
            self.fail(format!("a batch of {generation} took effect in {master}"));
        }
        if !head.ends_with(b" complete") {
            if !self.states.is_empty() {
                self.fail("a complete state was begun anew".into());
            }
            return;
        }
        // Whatever is written later has a greater number.
        let former = self.states.last().into_iter().flatten();
        let mut both = former.filter_map(|(key, old)| Some((key, number(old), number(rows.get(key)?))));
        let back = both.find(|(_, old, new)| new < old);
        if let Some(why) =
            back.map(|(key, old, new)| format!("row {} goes from {old} back to {new}", key.escape_ascii()))
        {
            self.fail(why);
        }
        self.states.push(rows);
    }

    fn fail(&mut self, why: String) {
        self.failure.get_or_insert(why);
    }
}

/// Returns the number of the write that put this value.
pub fn number(value: &[u8]) -> u64 {
    String::from_utf8_lossy(value).parse().expect("all values are numbers")
}
