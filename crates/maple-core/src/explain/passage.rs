//! The passage of a packet through one switch: the rules that take it, table by table, and what leaves.
//!
//! A rule that is not ours may do anything, such as send to a group, or forward like a plain switch. Actions that
//! cannot be followed are an outcome too ([`PassageOutcome::Elsewhere`]), in the words of the rule.

use maple_wire::packet::flight::{Effect, Flight, Next};
use maple_wire::{Action, Field, Instruction, PortNo, Version};

use crate::forwarding::is_to_controller;
use crate::ids::LeafId;
use crate::rule::Rule;

/// The maximum number of tables that a packet passes: OpenFlow numbers them with 8 bits.
const MAX_TABLES: usize = 256;

/// The rules of a switch.
pub trait TableRules {
    /// Returns the OpenFlow version of the switch.
    fn version(&self) -> Version;

    /// Returns the rule of a table that takes a packet with these fields.
    fn find(&self, table: u8, value: &dyn Fn(Field) -> Option<u128>) -> Option<PassedRule>;
}

/// A rule that took a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassedRule {
    /// The table of the rule.
    pub table: u8,
    /// The rule, with the cookie that the switch reports.
    pub rule: Rule,
    /// The rule's purpose in words.
    pub why: String,
    /// The leaf of the rule, if it belongs to one.
    pub leaf: Option<LeafId>,
    /// Whether the rule is not ours, as the last audit saw it.
    pub is_foreign: bool,
}

/// The fate of a packet, or of one copy, at a switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PassageOutcome {
    /// The packet leaves by a port.
    Port(PortNo, Vec<u8>),
    /// The packet goes to the controller.
    Controller(Vec<u8>),
    /// The packet's time to live ran out at an action of a rule, and the switch drops it.
    Expired,
    /// A rule that is not ours has an action that is not followed: this one.
    Elsewhere(String),
}

/// The path of a packet through one switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passage {
    /// The OpenFlow version of the switch.
    pub version: Version,
    /// The rules that took the packet, in order.
    pub rules: Vec<PassedRule>,
    /// The table where no rule took the packet.
    pub missed: Option<u8>,
    /// The meters that the packet passes: they may drop it.
    pub meters: Vec<u32>,
    /// The fate of the packet and its copies; empty if it is dropped.
    pub outcomes: Vec<PassageOutcome>,
    /// Whether the action set of the packet asks the controller.
    asks_by_set: bool,
}

/// A packet on its way through the tables.
struct PacketInSwitch<'a> {
    flight: Flight,
    passage: &'a mut Passage,
}

impl Passage {
    /// Sends a frame that came in by a port through the tables of a switch.
    pub fn through(tables: &dyn TableRules, in_port: PortNo, frame: &[u8]) -> Passage {
        let version = tables.version();
        let (rules, meters, outcomes) = (Vec::new(), Vec::new(), Vec::new());
        let mut passage = Passage { version, rules, missed: None, meters, outcomes, asks_by_set: false };
        let mut passing = PacketInSwitch { flight: Flight::new(frame.to_vec(), in_port), passage: &mut passage };
        let mut next = Some(0);
        for _ in 0..MAX_TABLES {
            let Some(table) = next else { break };
            match passing.table(tables, table) {
                Some(to) => next = to,
                None => return passage,
            }
        }
        let last = passing.flight.set.in_order();
        passing.act(&last);
        passage.asks_by_set = is_to_controller(&[Instruction::ApplyActions(last)]);
        passage
    }

    /// Reports whether the switch asks the controller about the packet. A switch that forwards the packet itself may
    /// send a copy to the controller as well.
    pub fn asks_controller(&self) -> bool {
        let is_missed = self.missed.is_some() && self.version == Version::Of10;
        is_missed || self.asks_by_set || self.rules.last().is_some_and(|last| is_to_controller(&last.rule.instructions))
    }
}

impl PacketInSwitch<'_> {
    /// Passes one table. Returns the next one, if there is one. Returns `None` if no further table takes the packet,
    /// and its action set is not applied.
    fn table(&mut self, tables: &dyn TableRules, table: u8) -> Option<Option<u8>> {
        let packet = self.flight.packet();
        let value = |field| self.flight.carried(field).or_else(|| packet.switch_value(field));
        let Some(found) = tables.find(table, &value) else {
            self.passage.missed = Some(table);
            // If no rule matches, 1.0 asks the controller (1.0 §3.4), and 1.3 drops the packet (1.3 §5.4).
            if tables.version() == Version::Of10 {
                self.passage.outcomes.push(PassageOutcome::Controller(self.flight.frame.clone()));
            }
            return None;
        };
        let instructions = found.rule.instructions.clone();
        self.passage.rules.push(found);
        let mut next = None;
        for instruction in instructions.iter() {
            match self.flight.execute(instruction) {
                Next::Apply(actions) => {
                    if !self.act(actions) {
                        return None;
                    }
                }
                Next::Table(to) => next = Some(to).filter(|to| *to > table),
                Next::Meter(meter) => self.passage.meters.push(meter),
                Next::Unknown => self.passage.outcomes.push(PassageOutcome::Elsewhere(format!("{instruction:?}"))),
                Next::Done => {}
            }
        }
        Some(next)
    }

    /// Applies actions in their order. Returns whether the packet goes on after them.
    fn act(&mut self, actions: &[Action]) -> bool {
        actions.iter().all(|action| {
            let outcome = match self.flight.act(action) {
                Effect::Done => return true,
                Effect::Output(port, _) => self.output(port, action),
                Effect::Expired => Some(PassageOutcome::Expired),
                Effect::Group(_) | Effect::Unknown => Some(PassageOutcome::Elsewhere(format!("{action:?}"))),
            };
            let is_alive = outcome != Some(PassageOutcome::Expired);
            self.passage.outcomes.extend(outcome);
            is_alive
        })
    }

    /// Returns the fate of the copy that an action sends to a port.
    fn output(&self, port: PortNo, action: &Action) -> Option<PassageOutcome> {
        let copy = || self.flight.frame.clone();
        match port {
            PortNo::CONTROLLER => Some(PassageOutcome::Controller(copy())),
            // A packet never goes back out of its port by the port's number (1.3 §7.2.5).
            port if port == self.flight.in_port => None,
            PortNo::IN_PORT => Some(PassageOutcome::Port(self.flight.in_port, copy())),
            port if port.is_physical() || port == PortNo::LOCAL => Some(PassageOutcome::Port(port, copy())),
            _ => Some(PassageOutcome::Elsewhere(format!("{action:?}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use maple_wire::Match;
    use maple_wire::packet::Frame;

    use super::*;

    /// Tables with one rule each, which takes everything.
    struct Tables(Vec<Vec<Instruction>>);

    impl TableRules for Tables {
        fn version(&self) -> Version {
            Version::Of13
        }

        fn find(&self, table: u8, _: &dyn Fn(Field) -> Option<u128>) -> Option<PassedRule> {
            let instructions = self.0.get(usize::from(table))?.clone().into();
            let rule = Rule { priority: 1, matching: Match::any(), instructions, cookie: 0 };
            Some(PassedRule { table, rule, why: String::new(), leaf: None, is_foreign: true })
        }
    }

    fn frame(ttl: u8) -> Vec<u8> {
        let ethernet = Frame::ethernet([2, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0, 1]);
        ethernet.ipv4([10, 0, 0, 1], [10, 0, 0, 2]).ttl(ttl).udp(1, 53).payload(b"")
    }

    fn outcomes(tables: Vec<Vec<Instruction>>, frame: &[u8]) -> Vec<PassageOutcome> {
        Passage::through(&Tables(tables), PortNo(1), frame).outcomes
    }

    #[test]
    fn a_packet_whose_time_to_live_runs_out_goes_no_further() {
        let rule = vec![
            Instruction::ApplyActions(vec![Action::output(PortNo(2)), Action::DecNwTtl, Action::output(PortNo(3))]),
            Instruction::WriteActions(vec![Action::output(PortNo(4))]),
        ];
        let first = PassageOutcome::Port(PortNo(2), frame(1));
        assert_eq!(outcomes(vec![rule.clone()], &frame(1)), [first, PassageOutcome::Expired]);
        assert_eq!(
            outcomes(vec![rule], &frame(2)),
            [(2, 2), (3, 1), (4, 1)].map(|(port, ttl)| PassageOutcome::Port(PortNo(port), frame(ttl)))
        );
    }

    #[test]
    fn written_actions_are_done_after_the_last_table_in_their_order() {
        let write = |actions| Instruction::WriteActions(actions);
        let first = vec![write(vec![Action::output(PortNo(2)), Action::DecNwTtl]), Instruction::GotoTable(1)];
        let second = |also: Vec<Instruction>| vec![first.clone(), also];
        let replaced = vec![write(vec![Action::output(PortNo(3))])];
        assert_eq!(outcomes(second(replaced), &frame(2)), [PassageOutcome::Port(PortNo(3), frame(1))]);
        let cleared = vec![Instruction::ClearActions, write(vec![Action::SetNwTtl(9), Action::output(PortNo(3))])];
        assert_eq!(outcomes(second(cleared), &frame(2)), [PassageOutcome::Port(PortNo(3), frame(9))]);
        assert_eq!(outcomes(vec![first], &frame(2)), [], "no rule takes it in the second table");
    }

    #[test]
    fn a_written_action_that_asks_the_controller_asks_it_unless_it_is_cleared() {
        let first = vec![Instruction::WriteActions(vec![Action::to_controller()]), Instruction::GotoTable(1)];
        let asks =
            |second| Passage::through(&Tables(vec![first.clone(), second]), PortNo(1), &frame(2)).asks_controller();
        assert!(asks(Vec::new()) && !asks(vec![Instruction::ClearActions]));
    }
}
