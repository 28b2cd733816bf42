//! Access lists: the first entry that a packet fits decides.
//!
//! A policy asks a list as one question ([`CondList`]), however long the list is. Its entries belong to rules, which
//! people wrote; one rule may have many entries. A rule has an [`AccessAction`], a source line, and a treatment for
//! allowed packets: a queue, copies.
//!
//! An entry may name groups of addresses. Where switches look things up, `groups` has a table for each field of these.
//!
//! The crate `maple-acl` reads lists from files and builds these lists from them.

mod groups;

#[cfg(test)]
mod tests;

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use maple_wire::Dpid;
use rustc_hash::FxHashMap;

pub use groups::AccessGroup;
use groups::{GroupRef, GroupTables, KnownClass};

use crate::look_ups::LookUp;
use crate::route::Route;
use crate::run::PacketHandle;
use crate::sample_packet::SamplePacket;
use crate::trace::{Cond, CondList, ListAnswer, Source};

/// The action of a rule of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AccessAction {
    /// The packet may pass: the policy for allowed packets decides where it goes.
    Allow,
    /// The list drops the packet.
    Deny,
    /// The list does not decide.
    Pass,
}

/// A rule of a list.
#[derive(Clone, Debug)]
pub struct AccessRule {
    /// The action.
    pub action: AccessAction,
    /// The line of the rule, if it is known.
    pub source: Option<Source>,
    /// A route that passes, with the treatment of this rule's packets: a queue, copies.
    pub carries: Option<Route>,
    /// Whether each packet is reported, as [`crate::Report::AccessLogged`], at a bounded rate. Packets of a rule that
    /// logs always come to the controller.
    pub log: bool,
}

/// An entry of a list: a condition on packets, and the rule that decides about them unless an earlier entry fits.
#[derive(Clone, Debug)]
pub struct AccessEntry {
    /// The condition that the packets fit.
    pub cond: Cond,
    /// The groups all of which have the packet too, each in a field of it.
    pub groups: Vec<AccessGroup>,
    /// The switch where the packets enter; `None` for any.
    pub switch: Option<Dpid>,
    /// The index of the rule.
    pub rule: u32,
}

/// An access list, ready to be asked.
#[derive(Debug)]
pub struct AccessList {
    /// All entries. `at` (for a switch that some entries name) and `elsewhere` (for all others) are built from them at
    /// the first question.
    entries: Vec<StatedEntry>,
    /// The tables of the groups that entries name.
    groups: GroupTables,
    at: BTreeMap<Dpid, PlaceEntries>,
    elsewhere: PlaceEntries,
    /// The rules that people wrote and those that follow from the list's settings; the default comes last.
    rules: Vec<AccessRule>,
    samples: Vec<SamplePacket>,
    written: Option<Arc<dyn WrittenList>>,
}

/// A list in the form in which people wrote it.
pub trait WrittenList: Any + fmt::Debug + Send + Sync {
    /// Returns the name of the file.
    fn file(&self) -> &str;

    /// Describes a rule, given by its index among [`AccessList::rules`], as people know it: `rule no-ssh
    /// (acl.yaml:12)`.
    fn describe(&self, rule: usize) -> String;

    /// Returns what `other`, in place of this list, would treat differently; `None` if `other` is a list of another
    /// kind.
    fn compare(&self, other: &dyn WrittenList) -> Option<ListComparison>;
}

/// The packets that two lists treat differently.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListComparison {
    /// The differences, each pair of rules once, in the order of the first list.
    pub differences: Vec<ListDifference>,
    /// Whether `differences` has all of them.
    pub complete: bool,
}

/// Packets that two lists treat differently.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListDifference {
    /// Example packets, as people write them.
    pub packets: String,
    /// The number of such sets of packets.
    pub sets: usize,
    /// The decision of the first list.
    pub before: AccessDecision,
    /// The decision of the second list.
    pub after: AccessDecision,
}

/// The decision of a list about some packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessDecision {
    /// The action of the list on the packets.
    pub action: AccessAction,
    /// The rule that decides so, as people name it.
    pub rule: String,
}

impl fmt::Display for AccessDecision {
    /// Writes, for example, `rule x (a.yaml:3) says allow`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} says {}", self.rule, self.action)
    }
}

/// An entry whose condition states the prerequisites of its fields, unless it names groups.
#[derive(Debug)]
struct StatedEntry {
    cond: Arc<Cond>,
    groups: Box<[GroupRef]>,
    switch: Option<Dpid>,
    rule: u32,
}

/// The entries that are asked at a place, once they have been.
#[derive(Debug, Default)]
struct PlaceEntries {
    /// Those of a list without groups.
    all: OnceLock<Entries>,
    /// Those of a list with groups, for the classes of packets.
    of_classes: RwLock<FxHashMap<Box<[KnownClass]>, Arc<Entries>>>,
}

/// Conditions, and for each the index of the rule that it belongs to.
#[derive(Debug, Default)]
struct Entries {
    conds: Arc<CondList>,
    rule_of: Vec<u32>,
}

impl AccessList {
    /// Creates a list from entries in the order in which they are asked. The rule `default` is for packets that fit no
    /// entry. `samples` are packets, at best one for each entry and one for the default ([`crate::Policy::samples`]).
    ///
    /// # Panics
    /// If the rule index of an entry is out of range.
    pub fn new(
        entries: impl IntoIterator<Item = AccessEntry>,
        rules: Vec<AccessRule>,
        default: AccessRule,
        samples: Vec<SamplePacket>,
    ) -> AccessList {
        let entries: Vec<AccessEntry> = entries.into_iter().collect();
        let name = default.source.as_ref().map_or("list", |source| &*source.file);
        let mut groups = GroupTables::new(name, entries.iter().flat_map(|entry| &entry.groups));
        let mut stated = Vec::with_capacity(entries.len());
        for AccessEntry { cond, groups: named, switch, rule } in entries {
            assert!((rule as usize) < rules.len(), "an entry names rule {rule}, which is not there");
            let named = groups.of_entry(&named);
            let conds = if named.is_empty() { CondList::with_prerequisites(&cond) } else { vec![cond] };
            let new = |cond| StatedEntry { cond: Arc::new(cond), groups: named.clone(), switch, rule };
            stated.extend(conds.into_iter().map(new));
        }
        let switches: BTreeSet<Dpid> = stated.iter().filter_map(|entry| entry.switch).collect();
        AccessList {
            entries: stated,
            groups,
            at: switches.into_iter().map(|dpid| (dpid, PlaceEntries::default())).collect(),
            elsewhere: PlaceEntries::default(),
            rules: rules.into_iter().chain([default]).collect(),
            samples,
            written: None,
        }
    }

    /// Attaches the form in which people wrote the list.
    #[must_use]
    pub fn written_as(self, written: Arc<dyn WrittenList>) -> AccessList {
        AccessList { written: Some(written), ..self }
    }

    /// Returns the list as people wrote it, if it comes from a file.
    pub fn written(&self) -> Option<&dyn WrittenList> {
        self.written.as_deref()
    }

    /// Returns the rule that decides about a packet; the default if no entry fits.
    pub fn ask(&self, pkt: &PacketHandle) -> &AccessRule {
        let there = if self.at.is_empty() { None } else { self.at.get_key_value(&pkt.switch()) };
        let (dpid, place) = there.map_or((None, &self.elsewhere), |(dpid, place)| (Some(*dpid), place));
        if self.groups.is_empty() {
            return self.ask_entries(pkt, place.all.get_or_init(|| self.entries_at(dpid, &[])));
        }
        let default = self.rules.last().and_then(|rule| rule.source.as_ref());
        let known = self.groups.ask(pkt, default);
        self.ask_entries(pkt, &place.entries_of(known, |known| self.entries_at(dpid, known)))
    }

    fn ask_entries(&self, pkt: &PacketHandle, entries: &Entries) -> &AccessRule {
        let rule = |place: usize| &self.rules[self.rule_at(entries, place)];
        let place = pkt.first_of(&entries.conds, |place| rule(place).source.clone());
        rule(place.unwrap_or(entries.rule_of.len()))
    }

    /// Returns the index of the rule that owns the condition at a place. A place after the last one gives the default's
    /// index.
    fn rule_at(&self, entries: &Entries, place: usize) -> usize {
        entries.rule_of.get(place).map_or(self.rules.len() - 1, |rule| *rule as usize)
    }

    /// Returns the index of the rule that decided, if `answer` is an answer of this list.
    pub(crate) fn rule_of(&self, answer: &ListAnswer) -> Option<usize> {
        let mut places = self.at.values().chain([&self.elsewhere]);
        places.find_map(|place| place.with_entries_of(answer, |entries| self.rule_at(entries, answer.first)))
    }

    /// Returns the rules in order; the default comes last.
    pub fn rules(&self) -> &[AccessRule] {
        &self.rules
    }

    /// Builds the entries that hold at a switch, for packets of these classes; with `None`, those that name no switch.
    fn entries_at(&self, dpid: Option<Dpid>, known: &[KnownClass]) -> Entries {
        let (mut conds, mut rule_of) = (Vec::new(), Vec::new());
        for entry in self.entries.iter().filter(|entry| entry.switch.is_none() || entry.switch == dpid) {
            if entry.groups.is_empty() {
                conds.push(Arc::clone(&entry.cond));
            } else {
                let left = self.groups.left_of(&entry.cond, &entry.groups, known);
                conds.extend(left.iter().flat_map(CondList::with_prerequisites).map(Arc::new));
            }
            rule_of.resize(conds.len(), entry.rule);
        }
        Entries { conds: Arc::new(CondList::new(conds)), rule_of }
    }

    /// Returns what the list looks up.
    pub(crate) fn look_ups(&self) -> impl Iterator<Item = &LookUp> {
        self.groups.look_ups()
    }

    /// Returns packets that the list decides.
    pub fn samples(&self) -> &[SamplePacket] {
        &self.samples
    }
}

impl PlaceEntries {
    /// Returns the entries for packets of these classes; `new` builds them.
    fn entries_of(&self, known: Box<[KnownClass]>, new: impl FnOnce(&[KnownClass]) -> Entries) -> Arc<Entries> {
        if let Some(entries) = self.of_classes.read().unwrap_or_else(PoisonError::into_inner).get(&known) {
            return Arc::clone(entries);
        }
        let built = Arc::new(new(&known));
        // Another shard may have been faster. All ask the same list.
        let mut all = self.of_classes.write().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(all.entry(known).or_insert(built))
    }

    /// Returns what `of` makes of the entries that gave an answer, if they are of this place.
    fn with_entries_of<T>(&self, answer: &ListAnswer, of: impl FnOnce(&Entries) -> T) -> Option<T> {
        let gave_answer = |entries: &&Entries| Arc::ptr_eq(&entries.conds, &answer.list);
        if let Some(entries) = self.all.get().filter(gave_answer) {
            return Some(of(entries));
        }
        let of_classes = self.of_classes.read().unwrap_or_else(PoisonError::into_inner);
        of_classes.values().map(|entries| &**entries).find(gave_answer).map(of)
    }
}

impl fmt::Display for AccessAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AccessAction::Allow => "allow",
            AccessAction::Deny => "deny",
            AccessAction::Pass => "pass",
        })
    }
}
