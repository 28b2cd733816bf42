//! The table of a switch: applies changes, and finds a header's rule.
//!
//! It is [`maple_switch::Table`], which knows nothing of the compilers, so it can check their rules.

use std::cmp::Ordering;

use maple_core::{Change, Fields as _, Rule};
use maple_switch::Table;
use maple_wire::msg::{FlowMod, FlowModCommand};
use maple_wire::{Action, Instruction, PortNo, Version};

use crate::headers::FiveTuple;

/// The rules of a switch.
#[derive(Clone, Debug)]
pub(crate) struct RuleList(Table);

/// The treatment of a header by a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Sends it out of this port.
    Output(u32),
    /// Drops it.
    Drop,
    /// Sends it to the controller, by a rule or because no rule matches.
    Controller,
}

impl Default for RuleList {
    /// Creates a list without rules. The compilers' priorities, not the switch, limit their number.
    fn default() -> RuleList {
        RuleList(Table::new(usize::MAX))
    }
}

impl RuleList {
    /// Applies a change.
    ///
    /// # Errors
    /// If the change is invalid: a rule that is added twice, a change or deletion of a missing rule, or a rule that
    /// 5-tuples cannot match or that no benchmark has. The rules are undefined then.
    pub(crate) fn apply(&mut self, change: &Change) -> Result<(), String> {
        let rule = change.rule();
        if let Some(other) = rule.matching.constraints().find(|c| FiveTuple::default().value(c.field).is_none()) {
            return Err(format!("5-tuples have no {}: {rule:?}", other.field));
        }
        verdict(&rule.instructions)?;
        let add = FlowMod::new(FlowModCommand::Add, rule.priority, rule.matching.clone(), rule.instructions.to_vec());
        let request = FlowMod { cookie: rule.cookie, ..add };
        let before = self.0.len();
        match change {
            Change::Delete(_) => drop(self.0.delete(&request, true)),
            // An addition replaces a rule of this match and priority, with its cookie.
            Change::Add(_) | Change::Modify(_) => {
                self.0.add(0, Version::Of13, &request).map_err(|refusal| format!("{refusal:?}: {rule:?}"))?;
            }
        }
        match (change, self.0.len().cmp(&before)) {
            (Change::Add(_), Ordering::Greater)
            | (Change::Modify(_), Ordering::Equal)
            | (Change::Delete(_), Ordering::Less) => Ok(()),
            (Change::Add(_), _) => Err(format!("an existing rule is added: {rule:?}")),
            _ => Err(format!("a missing rule is changed: {rule:?}")),
        }
    }

    /// Returns the verdict on a header. All matching rules of the highest priority must agree.
    ///
    /// # Errors
    /// If they do not agree.
    pub(crate) fn treat(&mut self, header: &FiveTuple) -> Result<Verdict, String> {
        match self.0.lookup(|field| header.value(field)) {
            None => Ok(Verdict::Controller),
            Some(found) if found.ambiguous => {
                Err(format!("{header:?} matches {:?}, and another rule of this priority", found.rule))
            }
            Some(found) => verdict(&found.rule.instructions),
        }
    }

    /// Returns the rules, by descending priority.
    pub(crate) fn rules(&self) -> Vec<Rule> {
        let rule = |rule: &maple_switch::Rule| Rule {
            priority: rule.priority,
            matching: rule.matching.clone(),
            instructions: rule.instructions.clone(),
            cookie: rule.cookie,
        };
        self.0.rules().into_iter().map(rule).collect()
    }

    /// Returns the number of rules.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the number of rules that send to the controller.
    pub(crate) fn barriers(&self) -> usize {
        self.0.iter().filter(|rule| verdict(&rule.instructions) == Ok(Verdict::Controller)).count()
    }

    /// Returns the number of different priorities.
    pub(crate) fn levels(&self) -> usize {
        self.0.rules().chunk_by(|a, b| a.priority == b.priority).count()
    }
}

fn verdict(instructions: &[Instruction]) -> Result<Verdict, String> {
    match instructions {
        [] => Ok(Verdict::Drop),
        [Instruction::ApplyActions(actions)] => match actions[..] {
            [Action::Output { port: PortNo::CONTROLLER, .. }] => Ok(Verdict::Controller),
            [Action::Output { port, .. }] => Ok(Verdict::Output(port.0)),
            _ => Err(format!("no benchmark does {actions:?}")),
        },
        _ => Err(format!("no benchmark has the instructions {instructions:?}")),
    }
}

#[cfg(test)]
mod tests {
    use maple_wire::{Constraint, Field, Match};

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
        assert_eq!(switch.treat(&header), Ok(Verdict::Controller));
        let of_net = |port| rule(5, Constraint::masked(Field::Ipv4Src, 0x0a00_0000, 0xff00_0000), port);
        for rule in [tcp(1, 4), of_net(7)] {
            switch.apply(&Change::Add(rule)).unwrap();
        }
        assert_eq!(switch.treat(&header), Ok(Verdict::Output(7)));
        assert_eq!(switch.treat(&FiveTuple { src: 1, ..header }), Ok(Verdict::Output(1)));
        assert_eq!((switch.len(), switch.levels(), switch.barriers()), (2, 2, 0));
        switch.apply(&Change::Modify(Rule { cookie: 5, ..of_net(8) })).unwrap();
        assert_eq!((switch.treat(&header), switch.len(), switch.rules()[0].cookie), (Ok(Verdict::Output(8)), 2, 5));
        switch.apply(&Change::Delete(of_net(8))).unwrap();
        assert_eq!(switch.treat(&header), Ok(Verdict::Output(1)));
    }

    #[test]
    fn invalid_changes_and_ambiguous_priorities_are_errors() {
        let header = FiveTuple { src: 1, dst: 2, src_port: 3, dst_port: 4, proto: 6 };
        let mut switch = RuleList::default();
        switch.apply(&Change::Add(tcp(1, 4))).unwrap();
        assert!(switch.apply(&Change::Add(tcp(2, 4))).unwrap_err().contains("existing rule"));
        assert!(switch.apply(&Change::Delete(tcp(1, 5))).unwrap_err().contains("missing rule"));
        switch.apply(&Change::Add(rule(4, Constraint::exact(Field::TcpDst, 4), 9))).unwrap();
        assert!(switch.treat(&header).unwrap_err().contains("another rule of this priority"));
        assert!(switch.apply(&Change::Add(rule(4, Constraint::exact(Field::VlanPcp, 1), 9))).is_err());
        assert!(switch.apply(&Change::Modify(tcp(1, 5))).unwrap_err().contains("missing rule"));
    }
}
