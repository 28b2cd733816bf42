//! A switch as a list of rules: applies changes, and finds a header's rule by linear search.
//!
//! It is independent of the compilers, so it can check their rules.

use maple_core::{Change, Rule};
use maple_wire::{Action, Field, Instruction, PortNo};

use crate::headers::FiveTuple;

/// The rules of a switch, by descending priority.
#[derive(Clone, Debug, Default)]
pub(crate) struct RuleList {
    rules: Vec<Entry>,
}

#[derive(Clone, Debug)]
struct Entry {
    rule: Rule,
    /// The mask and the value of a header's bits.
    mask: u128,
    value: u128,
    verdict: Treated,
}

/// The treatment of a header by a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Treated {
    /// Sends it out of this port.
    Output(u32),
    /// Drops it.
    Drop,
    /// Sends it to the controller, by a rule or because no rule matches.
    Controller,
}

/// The positions of a header's fields in 128 bits: the field and its lowest bit.
const PLACES: [(Field, u32); 5] =
    [(Field::IpProto, 0), (Field::TcpDst, 8), (Field::TcpSrc, 24), (Field::Ipv4Dst, 40), (Field::Ipv4Src, 72)];

impl RuleList {
    /// Applies a change.
    ///
    /// # Errors
    /// If the change is invalid: a rule that is added twice, a change or deletion of a missing rule, or a rule that
    /// 5-tuples cannot match.
    pub(crate) fn apply(&mut self, change: &Change) -> Result<(), String> {
        let rule = change.rule();
        let first = self.rules.partition_point(|entry| entry.rule.priority > rule.priority);
        let same = self.rules[first..].iter().take_while(|entry| entry.rule.priority == rule.priority);
        let at = same.into_iter().position(|entry| entry.rule.matching == rule.matching).map(|at| first + at);
        match (change, at) {
            (Change::Add(rule), None) => self.rules.insert(first, Entry::from_rule(rule)?),
            (Change::Modify(rule), Some(at)) => self.rules[at] = Entry::from_rule(rule)?,
            (Change::Delete(_), Some(at)) => drop(self.rules.remove(at)),
            (Change::Add(_), Some(_)) => return Err(format!("an existing rule is added: {rule:?}")),
            (_, None) => return Err(format!("a missing rule is changed: {rule:?}")),
        }
        Ok(())
    }

    /// The verdict on a header. All matching rules of the highest priority must agree.
    ///
    /// # Errors
    /// If they do not agree.
    pub(crate) fn treat(&self, header: &FiveTuple) -> Result<Treated, String> {
        let bits = bits(header);
        let Some(at) = self.rules.iter().position(|entry| entry.fits(bits)) else { return Ok(Treated::Controller) };
        let first = &self.rules[at];
        let mut equals = self.rules[at + 1..].iter().take_while(|entry| entry.rule.priority == first.rule.priority);
        match equals.find(|entry| entry.fits(bits) && entry.rule.instructions != first.rule.instructions) {
            None => Ok(first.verdict),
            Some(other) => Err(format!("{header:?} matches two rules: {:?} and {:?}", first.rule, other.rule)),
        }
    }

    /// The rules, by descending priority.
    pub(crate) fn rules(&self) -> impl Iterator<Item = &Rule> {
        self.rules.iter().map(|entry| &entry.rule)
    }

    /// The number of rules.
    pub(crate) fn len(&self) -> usize {
        self.rules.len()
    }

    /// The number of rules that send to the controller.
    pub(crate) fn barriers(&self) -> usize {
        self.rules.iter().filter(|entry| entry.verdict == Treated::Controller).count()
    }

    /// The number of different priorities.
    pub(crate) fn levels(&self) -> usize {
        self.rules.chunk_by(|a, b| a.rule.priority == b.rule.priority).count()
    }
}

impl Entry {
    fn from_rule(rule: &Rule) -> Result<Entry, String> {
        let (mut mask, mut value) = (0, 0);
        for constraint in rule.matching.constraints() {
            let place = PLACES.iter().find(|(field, _)| *field == constraint.field);
            let Some((_, shift)) = place else {
                return Err(format!("5-tuples have no {}: {rule:?}", constraint.field));
            };
            mask |= constraint.mask << shift;
            value |= constraint.value << shift;
        }
        Ok(Entry { rule: rule.clone(), mask, value, verdict: verdict(&rule.instructions)? })
    }

    fn fits(&self, bits: u128) -> bool {
        bits & self.mask == self.value
    }
}

fn bits(header: &FiveTuple) -> u128 {
    use maple_core::Fields as _;

    PLACES.iter().fold(0, |bits, (field, shift)| bits | header.value(*field).unwrap_or(0) << shift)
}

fn verdict(instructions: &[Instruction]) -> Result<Treated, String> {
    match instructions {
        [] => Ok(Treated::Drop),
        [Instruction::ApplyActions(actions)] => match actions[..] {
            [Action::Output { port: PortNo::CONTROLLER, .. }] => Ok(Treated::Controller),
            [Action::Output { port, .. }] => Ok(Treated::Output(port.0)),
            _ => Err(format!("no benchmark does {actions:?}")),
        },
        _ => Err(format!("no benchmark has the instructions {instructions:?}")),
    }
}

#[cfg(test)]
mod tests {
    use maple_wire::{Constraint, Match};

    use super::*;

    fn rule(priority: u16, constraint: Constraint, port: u32) -> Rule {
        let instructions = vec![Instruction::ApplyActions(vec![Action::output(PortNo(port))])];
        Rule { priority, matching: Match::from_constraints([constraint]), instructions: instructions.into(), cookie: 0 }
    }

    fn tcp(port: u32, priority: u16) -> Rule {
        rule(priority, Constraint::exact(Field::IpProto, 6), port)
    }

    #[test]
    fn the_highest_rule_that_fits_counts() {
        let header = FiveTuple { src: 0x0a00_0001, dst: 2, src_port: 3, dst_port: 4, proto: 6 };
        let mut switch = RuleList::default();
        assert_eq!(switch.treat(&header), Ok(Treated::Controller));
        let net = rule(5, Constraint::masked(Field::Ipv4Src, 0x0a00_0000, 0xff00_0000), 7);
        for rule in [tcp(1, 4), net.clone()] {
            switch.apply(&Change::Add(rule)).unwrap();
        }
        assert_eq!(switch.treat(&header), Ok(Treated::Output(7)));
        assert_eq!(switch.treat(&FiveTuple { src: 1, ..header }), Ok(Treated::Output(1)));
        assert_eq!((switch.len(), switch.levels(), switch.barriers()), (2, 2, 0));
        switch.apply(&Change::Delete(net)).unwrap();
        assert_eq!(switch.treat(&header), Ok(Treated::Output(1)));
    }

    #[test]
    fn what_no_switch_would_take_is_an_error() {
        let header = FiveTuple { src: 1, dst: 2, src_port: 3, dst_port: 4, proto: 6 };
        let mut switch = RuleList::default();
        switch.apply(&Change::Add(tcp(1, 4))).unwrap();
        assert!(switch.apply(&Change::Add(tcp(2, 4))).unwrap_err().contains("existing rule"));
        assert!(switch.apply(&Change::Delete(tcp(1, 5))).unwrap_err().contains("missing rule"));
        switch.apply(&Change::Add(rule(4, Constraint::exact(Field::TcpDst, 4), 9))).unwrap();
        assert!(switch.treat(&header).unwrap_err().contains("two rules"));
        assert!(switch.apply(&Change::Add(rule(4, Constraint::exact(Field::VlanPcp, 1), 9))).is_err());
    }
}
