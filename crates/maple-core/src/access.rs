//! Access lists: the first entry that a packet fits decides.
//!
//! A list is one question ([`CondList`]), however long it is. Its entries belong to rules, which people wrote: one rule
//! may have many entries. What a rule does is a [`AccessAction`], a source line, and what allowed packets carry: a
//! queue, copies.
//!
//! The crate `maple-acl` reads lists from files and makes these of them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, OnceLock};

use maple_wire::Dpid;

use crate::policy::{PacketHandle, SamplePacket};
use crate::route::Route;
use crate::trace::{Cond, CondList, Source};

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
    rules: Vec<AccessRule>,
    default: AccessRule,
    samples: Vec<SamplePacket>,
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
            rules,
            default,
            samples,
        }
    }

    /// The rule that decides about a packet, which may be the default.
    pub fn ask(&self, pkt: &PacketHandle) -> &AccessRule {
        let there = if self.at.is_empty() { None } else { self.at.get_key_value(&pkt.switch()) };
        let entries = match there {
            Some((dpid, entries)) => entries.get_or_init(|| self.entries_at(Some(*dpid))),
            None => self.elsewhere.get_or_init(|| self.entries_at(None)),
        };
        let rule = |place: usize| entries.rule_of.get(place).map_or(&self.default, |rule| &self.rules[*rule as usize]);
        let place = pkt.first_of(&entries.conds, |place| rule(place).source.clone());
        rule(place.unwrap_or(entries.rule_of.len()))
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
