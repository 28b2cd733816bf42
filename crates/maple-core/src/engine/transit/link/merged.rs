//! Rules that stand for all rules to a destination: when they come, when they go, and which rules they stand for.

use maple_wire::{Constraint, Instruction, Match};

use super::super::destination::Destination;
use super::{Does, Link, MERGED, Moment, RuleNo, reads};
use crate::capabilities::Capabilities;
use crate::compile::Rule;
use crate::trace::Item;
use crate::update::Change;

/// A destination, and what is known of the packets that go there.
pub(super) struct Aim {
    /// The match of the rule for all of them.
    pub matching: Vec<Constraint>,
    pub items: Vec<Item>,
    /// What is done with packets that can go there, and by how many parts.
    does: Vec<(Does, usize)>,
    /// How many parts name it as theirs.
    pub named: usize,
    /// What its rule does, if it has one.
    pub rule: Option<Vec<Instruction>>,
    /// How many rules it stands for.
    over: usize,
}

impl Aim {
    fn new(at: &Destination, matching: Vec<Constraint>) -> Aim {
        Aim { matching, items: reads(at.constraints()), does: Vec::new(), named: 0, rule: None, over: 0 }
    }

    pub fn count(&mut self, does: &Does, comes: bool) {
        match self.does.iter_mut().find(|(there, _)| there == does) {
            Some((_, count)) if comes => *count += 1,
            Some((_, count)) => *count -= 1,
            None => self.does.push((does.clone(), 1)),
        }
        self.does.retain(|(_, count)| *count > 0);
    }

    /// What everything that can go there does, if that is the same.
    fn agreed(&self) -> Option<&Does> {
        match self.does.as_slice() {
            [(does, _)] if does.is_plain && self.named > 0 => Some(does),
            _ => None,
        }
    }
}

impl Link {
    /// Whether a destination has a rule for all that goes there; what follows for the switch.
    pub(super) fn settle_aim(&mut self, at: &Destination, moment: Moment, cookie: u64) -> Option<Change> {
        let aim = self.aims.get_mut(at)?;
        let agreed = aim.agreed().map(|does| does.instructions.clone()).filter(|_| !moment.is_too_early());
        let matching = Match::from_constraints(aim.matching.iter().copied());
        let rule = |does: Vec<_>| Rule { priority: MERGED, matching, instructions: does.into(), cookie };
        match (aim.rule.clone(), agreed) {
            (Some(there), Some(agreed)) if aim.over > 0 => {
                aim.rule = Some(agreed.clone());
                (there != agreed).then(|| Change::Modify(rule(agreed)))
            }
            (Some(there), _) => {
                if aim.over > 0 {
                    self.disturb(moment);
                }
                self.fall(at);
                Some(Change::Delete(rule(there)))
            }
            (None, Some(agreed)) if moment.is_open() && self.is_worth_while(at) => {
                if !self.is_calm(moment) {
                    self.waits = true;
                    return None;
                }
                self.stand(at, agreed.clone());
                Some(Change::Add(rule(agreed)))
            }
            _ => {
                if self.aims.get(at).is_some_and(|aim| aim.named == 0) {
                    self.aims.remove(at);
                }
                None
            }
        }
    }

    /// Whether a destination's rule would stand for several.
    fn is_worth_while(&self, at: &Destination) -> bool {
        let is_free = |no: &&RuleNo| self.rules.get(no).is_some_and(|rule| rule.under.is_none());
        self.headed.get(at).into_iter().flatten().filter(is_free).nth(1).is_some()
    }

    fn stand(&mut self, at: &Destination, instructions: Vec<Instruction>) {
        self.standing += 1;
        if let Some(aim) = self.aims.get_mut(at) {
            aim.rule = Some(instructions);
        }
        for no in self.headed.get(at).cloned().unwrap_or_default() {
            let Some(rule) = self.rules.get_mut(&no) else { continue };
            let Some(rank) = rule.aims.iter().position(|aim| aim == at) else { continue };
            if rule.under.is_none_or(|under| rank < under) {
                let old = rule.under.replace(rank).map(|under| rule.aims[under].clone());
                self.doubted.insert(no);
                if let Some(old) = old {
                    self.stand_over(&old, false);
                }
                self.stand_over(at, true);
            }
        }
    }

    fn fall(&mut self, at: &Destination) {
        self.standing -= 1;
        if let Some(aim) = self.aims.get_mut(at) {
            (aim.rule, aim.over) = (None, 0);
        }
        for no in self.headed.get(at).cloned().unwrap_or_default() {
            let Some(rule) = self.rules.get(&no) else { continue };
            if rule.under.is_some_and(|under| rule.aims[under] == *at) {
                self.find_cover(no);
            }
        }
        // Somebody may name it again, or nobody may.
        self.open_questions.insert(at.clone());
    }

    /// Finds the destination's rule that stands for a rule, of those that are in.
    pub(super) fn find_cover(&mut self, no: RuleNo) {
        let Some(rule) = self.rules.get_mut(&no) else { return };
        rule.under = rule.aims.iter().position(|aim| self.aims.get(aim).is_some_and(|aim| aim.rule.is_some()));
        let under = rule.under.map(|under| rule.aims[under].clone());
        // Of those that are not in one may now be worth while.
        self.open_questions.extend(rule.aims.iter().filter(|_| under.is_none()).cloned());
        self.doubted.insert(no);
        if let Some(under) = under {
            self.stand_over(&under, true);
        }
    }

    pub(super) fn stand_over(&mut self, at: &Destination, comes: bool) {
        if let Some(aim) = self.aims.get_mut(at) {
            aim.over = if comes { aim.over + 1 } else { aim.over - 1 };
            if aim.over == 0 {
                self.open_questions.insert(at.clone());
            }
        }
    }

    /// A destination that a part names; what is known of it begins with the parts that are there.
    pub(super) fn add_aim(&mut self, at: &Destination, capabilities: &Capabilities) {
        if self.aims.contains_key(at) {
            return;
        }
        let Some(matching) = at.matching(self.arrives, capabilities) else { return };
        let mut aim = Aim::new(at, matching);
        for part in self.coming.values() {
            if part.meets(&aim.matching, &aim.items) {
                aim.count(&part.does, true);
            }
        }
        self.aims.insert(at.clone(), aim);
    }
}
