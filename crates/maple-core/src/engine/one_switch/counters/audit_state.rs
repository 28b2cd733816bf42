//! The audits of one switch: what is due, what was judged, what is being repaired.

use std::collections::BTreeSet;

use crate::engine::context::backoff::Backoff;
use crate::ids::Time;
use crate::rule::Rule;
use crate::update::EntryKey;

/// The audits of one switch.
#[derive(Debug, Default)]
pub(in crate::engine) struct Audits {
    /// When the next audit is due.
    pub due: Time,
    /// When the switch was last asked.
    pub asked: Time,
    /// The foreign rules that were compared with ours, by table.
    pub judged: BTreeSet<(u8, EntryKey)>,
    /// The foreign rules in the last answer.
    foreign: Vec<(u8, Rule)>,
    /// The rules that were wrong, until an audit finds them right.
    pub repair: Option<Repair>,
}

/// Wrong rules that are being repaired.
#[derive(Debug)]
pub(in crate::engine) struct Repair {
    pub missing: usize,
    pub altered: usize,
    pub unknown: usize,
    pub example: Box<str>,
    /// Their places in the tables.
    pub places: BTreeSet<u64>,
    /// The audits in a row that found some of them wrong again.
    pub failed: Backoff,
    pub is_reported: bool,
}

impl Audits {
    /// Returns the foreign rules that the switch had when it was last asked, as many as an audit keeps.
    pub fn foreign(&self) -> &[(u8, Rule)] {
        &self.foreign
    }

    /// Sets the foreign rules of the switch.
    pub fn set_foreign(&mut self, foreign: Vec<(u8, Rule)>) {
        self.foreign = foreign;
    }

    /// Keeps what outlives a connection: the foreign rules, and which of them were compared with ours.
    pub fn suspended(self) -> Audits {
        Audits { judged: self.judged, foreign: self.foreign, ..Audits::default() }
    }
}
