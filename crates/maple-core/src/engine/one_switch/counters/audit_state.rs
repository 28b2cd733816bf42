//! The audits of one switch: what is due, which foreign rules were judged, what is being repaired.

use std::collections::BTreeSet;
use std::time::Duration;

use maple_wire::Version;

use crate::engine::one_switch::tables::AuditFindings;
use crate::engine::tools::backoff::Backoff;
use crate::ids::Time;
use crate::report::rule_line;
use crate::rule::Rule;
use crate::update::{EntryKey, key_of};

/// The pause between noticing wrong rules and asking whether they are right. Chosen: what a busy switch reports may be
/// older than the last update; a longer pause would only delay the repair.
const CONFIRM_AFTER: Duration = Duration::from_millis(250);
/// The maximum number of foreign rules that an audit compares with ours. Further ones have their turn in the next
/// audit. Chosen: each is compared with all rules of a table, and a turn must stay short.
const MAX_JUDGED: usize = 16;

/// The audits of one switch.
#[derive(Debug, Default)]
pub(in crate::engine) struct Audits {
    /// The time when the next audit is due.
    due: Time,
    /// The time when the switch was last asked.
    asked: Time,
    /// The foreign rules that were compared with ours, by table.
    judged: BTreeSet<(u8, EntryKey)>,
    /// The foreign rules in the last answer.
    foreign: Vec<(u8, Rule)>,
    /// The rules that were wrong, until an audit finds them right.
    repair: Option<Repair>,
}

/// Wrong rules that are being repaired.
#[derive(Debug)]
struct Repair {
    wrong: WrongRules,
    /// Their places in the tables.
    places: BTreeSet<u64>,
    /// The audits in a row that found some of them wrong again.
    failed: Backoff,
    is_reported: bool,
}

/// The numbers of rules that a switch had wrong, and one of them.
#[derive(Debug)]
pub(in crate::engine) struct WrongRules {
    pub missing: usize,
    pub altered: usize,
    pub unknown: usize,
    pub example: Box<str>,
}

/// The consequence of the findings of an audit.
#[derive(Debug, Default)]
pub(in crate::engine) struct Judgement {
    /// Rules that an earlier audit found wrong, and that are right now.
    pub repaired: Option<WrongRules>,
    /// The number of rules that repairs have not put right, and one of them, if that is to be reported.
    pub unrepaired: Option<(usize, Box<str>)>,
    pub next: AfterAudit,
}

/// The step after an audit.
#[derive(Debug, Default)]
pub(in crate::engine) enum AfterAudit {
    /// Nothing is wrong, or the next repair is not due.
    #[default]
    Nothing,
    /// Ask again soon, because a repair is on its way.
    AskAgain,
    /// Repair the rules, and ask again after this time.
    Repair(Duration),
}

impl Audits {
    /// Sets when the next audit is due.
    pub fn plan(&mut self, due: Time) {
        self.due = due;
    }

    /// Reports whether an audit is due.
    pub fn is_due(&self, now: Time) -> bool {
        self.due <= now
    }

    /// Notes that the switch was asked.
    pub fn on_asked(&mut self, now: Time) {
        self.asked = now;
    }

    /// Returns the time since the switch was asked.
    pub fn since_asked(&self, now: Time) -> Duration {
        Duration::from_nanos(now.0.saturating_sub(self.asked.0))
    }

    /// Returns the foreign rules that the switch had when it was last asked, as many as an audit keeps.
    pub fn foreign(&self) -> &[(u8, Rule)] {
        &self.foreign
    }

    /// Keeps the foreign rules of the switch. Returns those that are to be compared with ours, each once while it is
    /// there.
    pub fn take_foreign(&mut self, foreign: Vec<(u8, Rule)>) -> Vec<(u8, Rule)> {
        let place = |(table, rule): &(u8, Rule)| (*table, key_of(rule));
        let reported: BTreeSet<(u8, EntryKey)> = foreign.iter().map(place).collect();
        self.judged.retain(|place| reported.contains(place));
        let new = foreign.iter().filter(|rule| !self.judged.contains(&place(rule)));
        let new: Vec<(u8, Rule)> = new.take(MAX_JUDGED).cloned().collect();
        self.judged.extend(new.iter().map(place));
        self.foreign = foreign;
        new
    }

    /// Judges what an audit has found.
    pub fn judge(&mut self, now: Time, version: Version, findings: AuditFindings) -> Judgement {
        let is_unjudged = |repair: &Repair| repair.places.iter().any(|place| findings.unjudged.contains(place));
        if findings.example.is_none() && self.repair.as_ref().is_some_and(is_unjudged) {
            return Judgement { next: AfterAudit::AskAgain, ..Judgement::default() };
        }
        let (again, repaired) = match self.repair.take() {
            Some(before) if !before.places.is_disjoint(&findings.places) => (Some(before), None),
            before => (None, before.map(|before| before.wrong)),
        };
        let AuditFindings { missing, altered, unknown, example: Some((table, rule)), places, .. } = findings else {
            return Judgement { repaired, ..Judgement::default() };
        };
        let example = rule_line(version, table, &rule).into();
        let Some(mut repair) = again else {
            let wrong = WrongRules { missing, altered, unknown, example };
            self.repair = Some(Repair { wrong, places, failed: Backoff::default(), is_reported: false });
            return Judgement { repaired, unrepaired: None, next: AfterAudit::Repair(CONFIRM_AFTER) };
        };
        repair.places = places;
        let mut judgement = Judgement::default();
        if repair.failed.is_over(now) {
            let wrong = &mut repair.wrong;
            wrong.missing = wrong.missing.max(missing);
            wrong.altered = wrong.altered.max(altered);
            wrong.unknown = wrong.unknown.max(unknown);
            let until = repair.failed.fail(now);
            // After one failure, somebody may just have changed them again.
            if repair.failed.failures() > 1 && !std::mem::replace(&mut repair.is_reported, true) {
                judgement.unrepaired = Some((missing + altered + unknown, example));
            }
            judgement.next = AfterAudit::Repair(Duration::from_nanos(until.0.saturating_sub(now.0)));
        }
        self.repair = Some(repair);
        judgement
    }

    /// Keeps what outlives a connection: the foreign rules, and which of them were compared with ours.
    pub fn suspended(self) -> Audits {
        Audits { judged: self.judged, foreign: self.foreign, ..Audits::default() }
    }
}
