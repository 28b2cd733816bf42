//! What is odd about a list: rules that never match, twins, conflicts.

use maple_core::access::AccessAction;

use crate::cube::{Cube, Found};
use crate::error::Place;
use crate::list::{List, RuleRef};

/// Something odd.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The rule's place.
    pub place: Place,
    /// What kind of thing it is.
    pub kind: FindingKind,
    /// What is odd, and the other rules that take part in it.
    pub text: String,
}

/// The kinds of findings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FindingKind {
    /// No packet reaches the rule, and the rules before it say the same.
    Redundant,
    /// No packet reaches the rule, and a rule before it says something else.
    Shadowed,
    /// Some of the rule's packets are decided otherwise by a rule before it, which is not simply an exception to it.
    Conflict,
    /// The search gave up: whether packets reach the rule is not known.
    Unknown,
}

/// The most rules that a finding names.
const NAMED: usize = 3;

impl FindingKind {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            FindingKind::Redundant => "redundant",
            FindingKind::Shadowed => "shadowed",
            FindingKind::Conflict => "conflict",
            FindingKind::Unknown => "unknown",
        }
    }

    /// Whether something is certainly wrong.
    pub fn is_error(self) -> bool {
        matches!(self, FindingKind::Redundant | FindingKind::Shadowed)
    }
}

impl List {
    /// What is odd about its rules, in their order.
    pub fn findings(&self) -> Vec<Finding> {
        let mut by_rule: Vec<Vec<usize>> = vec![Vec::new(); self.rules().len()];
        for at in 0..self.entries().len() {
            if let RuleRef::Rule(rule) = self.rule_of(at) {
                by_rule[rule].push(at);
            }
        }
        by_rule.iter().enumerate().filter_map(|(rule, entries)| self.finding(rule, entries)).collect()
    }

    fn finding(&self, rule: usize, entries: &[usize]) -> Option<Finding> {
        let finding = |kind, text| Some(Finding { place: self.rules()[rule].place, kind, text });
        let name = self.describe(RuleRef::Rule(rule));
        let mut unknown = false;
        for entry in entries {
            match self.witness(*entry) {
                Found::One(_) => return self.conflict(rule, entries),
                Found::Unknown => unknown = true,
                Found::None => {}
            }
        }
        if unknown {
            return finding(
                FindingKind::Unknown,
                format!("{name}: no packet was found that reaches it, nor a proof that there is none"),
            );
        }
        let action = self.rules()[rule].action;
        let covering = self.covering(rule, entries);
        let others: Vec<String> = covering.iter().take(NAMED).map(|other| self.describe(*other)).collect();
        let more = if covering.len() > NAMED { format!(" and {} more", covering.len() - NAMED) } else { String::new() };
        let (others, all_same) = (others.join(", "), covering.iter().all(|other| self.action(*other) == action));
        match all_same {
            true => finding(
                FindingKind::Redundant,
                format!("{name} never matches: {others}{more} already {action} its packets"),
            ),
            false => finding(
                FindingKind::Shadowed,
                format!("{name} never matches: {others}{more} decide first, and not all {action}"),
            ),
        }
    }

    /// The rules that take the packets of a rule that gets none: of each entry the first that has all of it, if no other
    /// takes a part before, or else all that overlap it up to the first that has all of it.
    fn covering(&self, rule: usize, entries: &[usize]) -> Vec<RuleRef> {
        let mut all: Vec<RuleRef> = Vec::new();
        for entry in entries {
            let cube = &self.entries()[*entry].cube;
            let before = self.overlapping(cube, *entry);
            let whole = before.iter().find(|(_, other)| other.contains(cube)).map(|(at, _)| *at);
            let until = whole.unwrap_or(*entry);
            let overlap: Vec<RuleRef> =
                before.iter().filter(|(at, _)| *at <= until).map(|(at, _)| self.rule_of(*at)).collect();
            match whole.map(|at| self.rule_of(at)) {
                Some(whole) if overlap.iter().all(|other| self.action(*other) == self.action(whole)) => all.push(whole),
                _ => all.extend(overlap),
            }
        }
        all.retain(|other| *other != RuleRef::Rule(rule));
        all.sort_unstable();
        all.dedup();
        all
    }

    /// A rule before this one that decides some of its packets otherwise, where neither is an exception to the other.
    fn conflict(&self, rule: usize, entries: &[usize]) -> Option<Finding> {
        let action = self.rules()[rule].action;
        let first = *entries.first()?;
        let differs = |at: usize| {
            let other = self.action(self.rule_of(at));
            other != action && other != AccessAction::Pass && action != AccessAction::Pass
        };
        let with_others = |entry: &usize| {
            let cube = &self.entries()[*entry].cube;
            let others = self.overlapping(cube, first).into_iter();
            others.filter(|(at, _)| differs(*at)).map(move |(at, there)| (at, there, cube))
        };
        let mut pairs: Vec<(usize, &Cube, &Cube)> = entries.iter().flat_map(with_others).collect();
        pairs.sort_by_key(|(other, ..)| *other);
        for (other, there, cube) in pairs {
            // Packets of both that no rule before them decides.
            let both = cube.and(there).filter(|_| !cube.contains(there) && !there.contains(cube));
            let contested = both.map(|both| both.outside(self.overlapping(&both, other)));
            if let Some(Found::One(both)) = contested {
                let (name, before) = (self.describe(RuleRef::Rule(rule)), self.rule_of(other));
                let text = format!(
                    "{name} would {action} some packets that {} {}s before: {both}",
                    self.describe(before),
                    match self.action(before) {
                        AccessAction::Deny => "denie".to_owned(),
                        action => action.to_string(),
                    }
                );
                let place = self.rules()[rule].place;
                return Some(Finding { place, kind: FindingKind::Conflict, text });
            }
        }
        None
    }
}
