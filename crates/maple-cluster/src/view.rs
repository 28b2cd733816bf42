//! A member's knowledge of the cluster: facts with the revision at which they held, in whatever order they come.
//!
//! A member hears of one key by several ways: it reads, it watches, and the answer to its own claim says what is there.
//! These overtake each other. Each fact has a revision, so a fact that is older than what is known changes nothing.

use std::collections::BTreeMap;
use std::str;

use crate::keys::{ClusterKeys, Record, Subject};

/// A change that a watch reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A key was written.
    Put {
        /// The key as it is now.
        record: Record,
        /// The revision of the write.
        revision: u64,
    },
    /// A key was deleted, or ended with its lease.
    Delete {
        /// The key.
        key: Vec<u8>,
        /// The revision of the deletion.
        revision: u64,
    },
}

/// The member that is master, as etcd has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MasterRecord {
    /// The member.
    pub name: String,
    /// The revision at which the key was written: the generation of this mastership.
    pub generation: u64,
    /// The lease that it ends with, which distinguishes one life of a member from another.
    pub lease: i64,
}

/// The knowledge of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// The master, and the revision at which this was so. `None` means that there is none.
    master: (Option<MasterRecord>, u64),
    /// The members that are there, each with the revision at which its key was so.
    members: BTreeMap<String, (Record, u64)>,
    /// The revision from which on all changes are still to come by the watch.
    revision: u64,
}

impl View {
    /// Returns the master, as far as is known.
    pub fn master(&self) -> Option<&MasterRecord> {
        self.master.0.as_ref()
    }

    /// Returns the names of the members that are there, in order.
    pub fn members(&self) -> impl Iterator<Item = &str> {
        self.members.keys().map(String::as_str)
    }

    /// Returns a member's key.
    pub fn member(&self, name: &str) -> Option<&Record> {
        self.members.get(name).map(|(record, _)| record)
    }

    /// Returns the address at which the others reach a member, if it has one.
    pub fn address(&self, name: &str) -> Option<&str> {
        let value = str::from_utf8(&self.member(name)?.value).ok()?;
        value.split_once('\n').map(|(_, address)| address)
    }

    /// Returns the revision up to which everything is known.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Reports whether master and members, with what they say of themselves, are the same in both.
    pub(crate) fn is_alike(&self, other: &View) -> bool {
        let said =
            |of: &View| of.members.values().map(|(record, _)| (record.key.clone(), record.value.clone())).collect();
        let (own, others): (Vec<_>, Vec<_>) = (said(self), said(other));
        self.master() == other.master() && own == others
    }

    /// Takes in all keys, as they were at one revision.
    pub(crate) fn on_read(&mut self, keys: &ClusterKeys, records: Vec<Record>, revision: u64) {
        if revision < self.revision {
            return;
        }
        self.revision = revision;
        let mut master = None;
        self.members.retain(|_, (_, at)| *at > revision);
        for record in records {
            match keys.subject(&record.key) {
                Some(Subject::Master) => master = Some(record),
                Some(Subject::Member(name)) => {
                    let name = name.to_owned();
                    self.set_member(name, Some(record), revision);
                }
                None => {}
            }
        }
        self.set_master(master, revision);
    }

    /// Takes in the key of mastership alone, as it was at a revision.
    pub(crate) fn on_master(&mut self, record: Option<Record>, revision: u64) {
        self.set_master(record, revision);
    }

    /// Takes in one member's key, as it was at a revision.
    pub(crate) fn on_member(&mut self, name: &str, record: Option<Record>, revision: u64) {
        // The watch has reported what came up to its revision.
        if revision > self.revision {
            self.set_member(name.to_owned(), record, revision);
        }
    }

    /// Takes in a change that the watch reports.
    pub(crate) fn on_change(&mut self, keys: &ClusterKeys, change: Change) {
        let (key, record, revision) = match change {
            Change::Put { record, revision } => (record.key.clone(), Some(record), revision),
            Change::Delete { key, revision } => (key, None, revision),
        };
        self.revision = self.revision.max(revision);
        match keys.subject(&key) {
            Some(Subject::Master) => self.set_master(record, revision),
            Some(Subject::Member(name)) => self.set_member(name.to_owned(), record, revision),
            None => {}
        }
    }

    fn set_master(&mut self, record: Option<Record>, revision: u64) {
        if revision >= self.master.1 {
            let master = record.map(|record| MasterRecord {
                name: String::from_utf8_lossy(&record.value).into_owned(),
                generation: record.revision,
                lease: record.lease,
            });
            self.master = (master, revision);
        }
    }

    fn set_member(&mut self, name: String, record: Option<Record>, revision: u64) {
        if self.members.get(&name).is_some_and(|(_, known)| *known > revision) {
            return;
        }
        match record {
            Some(record) => self.members.insert(name, (record, revision)),
            None => self.members.remove(&name),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(key: Vec<u8>, name: &str, revision: u64) -> Record {
        Record { key, value: name.into(), revision, lease: revision as i64 }
    }

    #[test]
    fn older_facts_change_nothing() {
        let keys = ClusterKeys::new("c");
        let mut view = View::default();
        view.on_master(Some(record(keys.master(), "b", 9)), 9);
        view.on_read(&keys, vec![record(keys.master(), "a", 3), record(keys.member("a"), "a", 2)], 7);
        assert_eq!(view.master().unwrap().name, "b", "the claim was later than the read");
        assert_eq!(view.members().collect::<Vec<_>>(), ["a"]);
        view.on_change(&keys, Change::Delete { key: keys.master(), revision: 8 });
        assert_eq!(view.master().unwrap().generation, 9);
        view.on_change(&keys, Change::Delete { key: keys.master(), revision: 10 });
        view.on_change(&keys, Change::Delete { key: keys.member("a"), revision: 10 });
        assert_eq!((view.master(), view.members().count(), view.revision()), (None, 0, 10));
        view.on_read(&keys, vec![record(keys.master(), "a", 3)], 7);
        assert_eq!(view.master(), None);
    }

    #[test]
    fn a_member_says_where_it_is_reached() {
        let keys = ClusterKeys::new("c");
        let (mut view, before) = (View::default(), View::default());
        view.on_read(&keys, vec![record(keys.member("a"), "a", 2), record(keys.member("b"), "b\nhost:1", 3)], 7);
        assert_eq!((view.address("a"), view.address("b"), view.address("c")), (None, Some("host:1"), None));
        assert!(!view.is_alike(&before));
        let mut moved = view.clone();
        moved.on_member("b", Some(record(keys.member("b"), "b\nhost:2", 8)), 8);
        assert!(!view.is_alike(&moved) && view.is_alike(&view.clone()));
    }

    /// Members with ever new names leave nothing when they are gone.
    #[test]
    fn members_that_are_gone_are_forgotten() {
        let keys = ClusterKeys::new("c");
        let mut view = View::default();
        view.on_member("a", Some(record(keys.member("a"), "a", 5)), 5);
        view.on_change(&keys, Change::Put { record: record(keys.member("b"), "b", 4), revision: 4 });
        view.on_change(&keys, Change::Delete { key: keys.member("a"), revision: 4 });
        assert_eq!(view.members().collect::<Vec<_>>(), ["a", "b"], "it was deleted before it was written");
        view.on_change(&keys, Change::Delete { key: keys.member("a"), revision: 6 });
        view.on_change(&keys, Change::Delete { key: keys.member("b"), revision: 7 });
        assert_eq!(view.members.len(), 0);
        view.on_member("a", Some(record(keys.member("a"), "a", 5)), 5);
        assert_eq!(view.members.len(), 0, "the watch has told more");
    }
}
