//! A model of etcd: keys with leases, revisions, a log of changes, compaction. What is planted makes it wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use maple_cluster::{Change, Record, Time};

use crate::faults::Plant;

/// What a member asks.
#[derive(Clone, Debug)]
pub enum Ask {
    Grant(Duration),
    KeepAlive(i64),
    Read(Vec<u8>),
    Write { key: Vec<u8>, value: Vec<u8>, lease: i64, former: u64 },
    Delete { key: Vec<u8>, former: u64 },
    Revoke(i64),
}

/// What the store says.
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
    /// Who was given each mastership, by the revision of its key.
    pub masters: BTreeMap<u64, String>,
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

    /// Returns the changes from a revision on; nothing if they are not there any more.
    pub fn changes(&self, from: u64) -> Option<Vec<Change>> {
        if from <= self.compacted && self.compacted > 0 && !self.plants.contains(&Plant::CompactionIsSilent) {
            return None;
        }
        Some(self.log.iter().filter(|(revision, _)| *revision >= from).map(|(_, change)| change.clone()).collect())
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
        }
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
        if !self.plants.contains(&Plant::DeletionsAreNotTold) {
            self.log.push((self.revision, Change::Delete { key, revision: self.revision }));
        }
    }
}
