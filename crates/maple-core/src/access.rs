//! Access lists: the first entry that a packet fits decides.
//!
//! A list is one question ([`CondList`]), however long it is. Its entries belong to rules, which people wrote: one rule
//! may have many entries. What a rule does is a [`AccessAction`], a source line, and what allowed packets carry: a
//! queue, copies.
//!
//! The crate `maple-acl` reads lists from files and makes these of them.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, OnceLock};

use maple_wire::Dpid;

use crate::route::Route;
use crate::run::PacketHandle;
use crate::sample::SamplePacket;
use crate::trace::{Cond, CondList, ListAnswer, Source};

/// What a rule of a list says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AccessAction {
    /// The packet may pass: what decides about allowed packets decides where it goes.
    Allow,
    /// The packet is dropped.
    Deny,
    /// This list does not decide.
    Pass,
}

/// A rule of a list.
#[derive(Clone, Debug)]
pub struct AccessRule {
    /// What it says.
    pub action: AccessAction,
    /// Its line.
    pub source: Option<Source>,
    /// A route that passes, with what packets of this rule carry: a queue, copies.
    pub carries: Option<Route>,
    /// Whether each packet is reported, as [`crate::Report::AccessLogged`], at a bounded rate. Such packets always come
    /// to the controller.
    pub log: bool,
}

/// An entry of a list: packets, and the rule that decides about them unless an earlier entry does.
#[derive(Clone, Debug)]
pub struct AccessEntry {
    /// The packets.
    pub cond: Cond,
    /// The switch where they enter; `None` for any.
    pub switch: Option<Dpid>,
    /// The index of the rule.
    pub rule: u32,
}

/// An access list, ready to be asked.
#[derive(Debug)]
pub struct AccessList {
    /// All entries. What is asked at a switch that some of them name is made when it is asked for the first time, as is
    /// what is asked elsewhere.
    entries: Vec<StatedEntry>,
    at: BTreeMap<Dpid, OnceLock<Entries>>,
    elsewhere: OnceLock<Entries>,
    /// The rules that people wrote and those that follow from the list's settings; the default comes last.
    rules: Vec<AccessRule>,
    samples: Vec<SamplePacket>,
    written: Option<Arc<dyn WrittenList>>,
}

/// A list as people wrote it.
pub trait WrittenList: Any + fmt::Debug + Send + Sync {
    /// Its file.
    fn file(&self) -> &str;

    /// A rule as people know it, by its index among [`AccessList::rules`]: `rule no-ssh (acl.yaml:12)`.
    fn describe(&self, rule: usize) -> String;

    /// What another list in its place would treat differently; `None` if that is of another kind.
    fn compare(&self, other: &dyn WrittenList) -> Option<ListComparison>;
}

/// What two lists treat differently.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListComparison {
    /// The differences, each pair of rules once, in the order of the first list.
    pub differences: Vec<ListDifference>,
    /// Whether these are all.
    pub complete: bool,
}

/// Packets that two lists treat differently.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListDifference {
    /// Such packets, as people write them.
    pub packets: String,
    /// How many such sets of packets there are.
    pub sets: usize,
    /// What the first list says, and the rule that says so.
    pub before: (AccessAction, String),
    /// What the second list says, and the rule that says so.
    pub after: (AccessAction, String),
}

/// An entry whose condition states the prerequisites of its fields.
#[derive(Debug)]
struct StatedEntry {
    cond: Arc<Cond>,
    switch: Option<Dpid>,
    rule: u32,
}

/// Conditions, and for each the rule that it belongs to.
#[derive(Debug, Default)]
struct Entries {
    conds: Arc<CondList>,
    rule_of: Vec<u32>,
}

impl AccessList {
    /// A list of entries in the order in which they are asked. `default` holds for packets that fit none. `samples` are
    /// packets, at best one for each entry and one for the default ([`crate::Policy::samples`]).
    ///
    /// # Panics
    /// If an entry names a rule that is not there.
    pub fn new(
        entries: impl IntoIterator<Item = AccessEntry>,
        rules: Vec<AccessRule>,
        default: AccessRule,
        samples: Vec<SamplePacket>,
    ) -> AccessList {
        let stated = |AccessEntry { cond, switch, rule }: AccessEntry| {
            assert!((rule as usize) < rules.len(), "an entry names rule {rule}, which is not there");
            let conds = CondList::stated(&cond).into_iter().map(Arc::new);
            conds.map(move |cond| StatedEntry { cond, switch, rule })
        };
        let entries: Vec<StatedEntry> = entries.into_iter().flat_map(stated).collect();
        let switches: BTreeSet<Dpid> = entries.iter().filter_map(|entry| entry.switch).collect();
        AccessList {
            entries,
            at: switches.into_iter().map(|dpid| (dpid, OnceLock::new())).collect(),
            elsewhere: OnceLock::new(),
            rules: rules.into_iter().chain([default]).collect(),
            samples,
            written: None,
        }
    }

    /// The same list, which people wrote so.
    #[must_use]
    pub fn written_as(self, written: Arc<dyn WrittenList>) -> AccessList {
        AccessList { written: Some(written), ..self }
    }

    /// The list as people wrote it, if it comes from a file.
    pub fn written(&self) -> Option<&dyn WrittenList> {
        self.written.as_deref()
    }

    /// The rule that decides about a packet, which may be the default.
    pub fn ask(&self, pkt: &PacketHandle) -> &AccessRule {
        let there = if self.at.is_empty() { None } else { self.at.get_key_value(&pkt.switch()) };
        let entries = match there {
            Some((dpid, entries)) => entries.get_or_init(|| self.entries_at(Some(*dpid))),
            None => self.elsewhere.get_or_init(|| self.entries_at(None)),
        };
        let rule = |place: usize| &self.rules[self.rule_at(entries, place)];
        let place = pkt.first_of(&entries.conds, |place| rule(place).source.clone());
        rule(place.unwrap_or(entries.rule_of.len()))
    }

    /// The index of the rule that the condition at a place belongs to; that of the default for no place.
    fn rule_at(&self, entries: &Entries, place: usize) -> usize {
        entries.rule_of.get(place).map_or(self.rules.len() - 1, |rule| *rule as usize)
    }

    /// The index of the rule that a run was told of, if this list was asked.
    pub(crate) fn rule_of(&self, answer: &ListAnswer) -> Option<usize> {
        let asked = self.at.values().chain([&self.elsewhere]).filter_map(OnceLock::get);
        let entries = asked.into_iter().find(|entries| Arc::ptr_eq(&entries.conds, &answer.list))?;
        Some(self.rule_at(entries, answer.first))
    }

    /// The rules in order; the default comes last.
    pub fn rules(&self) -> &[AccessRule] {
        &self.rules
    }

    /// What is asked at a switch that entries name, or at all others.
    fn entries_at(&self, dpid: Option<Dpid>) -> Entries {
        let is_there = |entry: &&StatedEntry| entry.switch.is_none() || entry.switch == dpid;
        let there = || self.entries.iter().filter(is_there);
        let conds = CondList::new(there().map(|entry| Arc::clone(&entry.cond)));
        Entries { conds: Arc::new(conds), rule_of: there().map(|entry| entry.rule).collect() }
    }

    /// Packets that the list decides.
    pub fn samples(&self) -> &[SamplePacket] {
        &self.samples
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
