//! One switch: the rules that take a packet, table by table, and what leaves.
//!
//! A rule of others may do anything, such as send to a group, or forward like a plain switch. What cannot be followed
//! is an outcome too ([`Outcome::Elsewhere`]), in the words of the rule.

use maple_wire::packet::rewrite;
use maple_wire::{Action, Constraint, Field, Instruction, Packet, PortNo, Version};

use crate::forwarding::{VLAN_TYPE, is_to_controller};
use crate::ids::LeafId;
use crate::rule::Rule;

/// How many tables a packet passes at most.
const MOST_TABLES: usize = 256;

/// The rules of a switch.
pub trait TableRules {
    /// The OpenFlow version of the switch.
    fn version(&self) -> Version;

    /// The rule of a table that takes a packet with these fields.
    fn find(&self, table: u8, value: &dyn Fn(Field) -> Option<u128>) -> Option<PassedRule>;
}

/// A rule that took a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassedRule {
    /// Its table.
    pub table: u8,
    /// The rule, with the cookie that the switch reports.
    pub rule: Rule,
    /// Its purpose in words.
    pub why: String,
    /// Its leaf, if it is the rule of one.
    pub leaf: Option<LeafId>,
    /// Whether it is a rule of others, as the last audit saw it.
    pub is_foreign: bool,
}

/// What becomes of a packet, or of one copy, at a switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It leaves by a port.
    Port(PortNo, Vec<u8>),
    /// It goes to the controller.
    Controller(Vec<u8>),
    /// A rule of others does something that is not followed: the action.
    Elsewhere(String),
}

/// A packet's way through one switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passage {
    /// The OpenFlow version of the switch.
    pub version: Version,
    /// The rules that took the packet, in order.
    pub rules: Vec<PassedRule>,
    /// The table where no rule took it.
    pub missed: Option<u8>,
    /// The meters that it passes: they may drop it.
    pub meters: Vec<u32>,
    /// What becomes of it; nothing if it is dropped.
    pub outcomes: Vec<Outcome>,
}

/// A packet on its way.
struct Passing<'a> {
    frame: Vec<u8>,
    in_port: PortNo,
    passage: &'a mut Passage,
}

impl Passage {
    /// Sends a frame that came in by a port through the tables of a switch.
    pub fn through(tables: &dyn TableRules, in_port: PortNo, frame: &[u8]) -> Passage {
        let version = tables.version();
        let mut passage =
            Passage { version, rules: Vec::new(), missed: None, meters: Vec::new(), outcomes: Vec::new() };
        let mut passing = Passing { frame: frame.to_vec(), in_port, passage: &mut passage };
        let (mut table, mut metadata) = (0, 0);
        for _ in 0..MOST_TABLES {
            let Some(next) = passing.table(tables, table, &mut metadata) else { break };
            table = next;
        }
        passage
    }

    /// Whether the switch leaves it to the controller what becomes of the packet. A switch that sends on the packet
    /// itself may send a copy to the controller as well.
    pub fn asks_controller(&self) -> bool {
        let is_missed = self.missed.is_some() && self.version == Version::Of10;
        is_missed || self.rules.last().is_some_and(|last| is_to_controller(&last.rule.instructions))
    }
}

impl Passing<'_> {
    /// Passes one table. Returns the next one.
    fn table(&mut self, tables: &dyn TableRules, table: u8, metadata: &mut u64) -> Option<u8> {
        let packet = Packet::with_wire_len(&self.frame, self.in_port.0, self.frame.len());
        let carried = *metadata;
        let value = |field| match field {
            Field::Metadata => Some(u128::from(carried)),
            _ => packet.switch_value(field),
        };
        let Some(found) = tables.find(table, &value) else {
            self.passage.missed = Some(table);
            // If nothing matches, 1.0 asks the controller (1.0 §3.4), and 1.3 drops (1.3 §5.4).
            if tables.version() == Version::Of10 {
                self.passage.outcomes.push(Outcome::Controller(self.frame.clone()));
            }
            return None;
        };
        let instructions = found.rule.instructions.clone();
        self.passage.rules.push(found);
        let mut next = None;
        for instruction in instructions.iter() {
            match instruction {
                Instruction::ApplyActions(actions) => actions.iter().for_each(|action| self.act(action)),
                Instruction::GotoTable(to) => next = Some(*to).filter(|to| *to > table),
                Instruction::Meter(meter) => self.passage.meters.push(*meter),
                Instruction::WriteMetadata { metadata: bits, mask } => *metadata = *metadata & !mask | bits & mask,
                other => self.passage.outcomes.push(Outcome::Elsewhere(format!("{other:?}"))),
            }
        }
        next
    }

    fn act(&mut self, action: &Action) {
        match action {
            Action::Output { port: PortNo::CONTROLLER, .. } => {
                self.passage.outcomes.push(Outcome::Controller(self.frame.clone()));
            }
            // Nothing goes back by its number (1.3 §7.2.5).
            Action::Output { port, .. } | Action::Enqueue { port, .. } if *port == self.in_port => {}
            Action::Output { port: PortNo::IN_PORT, .. } | Action::Enqueue { port: PortNo::IN_PORT, .. } => {
                self.passage.outcomes.push(Outcome::Port(self.in_port, self.frame.clone()));
            }
            Action::Output { port, .. } | Action::Enqueue { port, .. }
                if port.is_physical() || *port == PortNo::LOCAL =>
            {
                self.passage.outcomes.push(Outcome::Port(*port, self.frame.clone()));
            }
            Action::SetQueue(_) => {}
            other => {
                if !rewrite(other, &mut self.frame) {
                    self.passage.outcomes.push(Outcome::Elsewhere(format!("{other:?}")));
                }
            }
        }
    }
}

/// Does what an action does to a frame. `false` if it is none that rewrites.
fn rewrite(action: &Action, frame: &mut Vec<u8>) -> bool {
    let done = match action {
        Action::SetField(set) => rewrite::set_field(frame, set),
        Action::PushVlan(kind) => rewrite::push_vlan(frame, *kind),
        Action::PopVlan => rewrite::pop_vlan(frame),
        Action::PushMpls(kind) => rewrite::push_mpls(frame, *kind),
        Action::PopMpls(kind) => rewrite::pop_mpls(frame, *kind),
        Action::SetMplsTtl(ttl) => rewrite::set_mpls_ttl(frame, *ttl),
        Action::DecMplsTtl => rewrite::dec_mpls_ttl(frame),
        Action::SetNwTtl(ttl) => rewrite::set_ttl(frame, *ttl),
        Action::DecNwTtl => rewrite::dec_ttl(frame),
        Action::CopyTtlOut => rewrite::copy_ttl_out(frame),
        Action::CopyTtlIn => rewrite::copy_ttl_in(frame),
        Action::SetVlanVid(vid) => set_tag(frame, Field::VlanVid, 0x1000 | u128::from(*vid)),
        Action::SetVlanPcp(pcp) => set_tag(frame, Field::VlanPcp, u128::from(*pcp)),
        Action::SetTpSrc(port) => set_either(frame, Field::TcpSrc, Field::UdpSrc, *port),
        Action::SetTpDst(port) => set_either(frame, Field::TcpDst, Field::UdpDst, *port),
        _ => return false,
    };
    // An action that does not apply to the frame leaves it as it is.
    let _ = done;
    true
}

/// Sets a field of the VLAN tag; gives the frame a tag if it has none (1.0 §5.2.4).
fn set_tag(frame: &mut Vec<u8>, field: Field, value: u128) -> Result<(), rewrite::RewriteError> {
    let is_tagged = Packet::with_wire_len(frame, 0, frame.len()).switch_value(Field::VlanPcp).is_some();
    let pushed = if is_tagged { Ok(()) } else { rewrite::push_vlan(frame, VLAN_TYPE) };
    pushed.and_then(|()| rewrite::set_field(frame, &Constraint::exact(field, value)))
}

fn set_either(frame: &mut [u8], tcp: Field, udp: Field, port: u16) -> Result<(), rewrite::RewriteError> {
    let has_tcp = Packet::with_wire_len(frame, 0, frame.len()).switch_value(tcp).is_some();
    rewrite::set_field(frame, &Constraint::exact(if has_tcp { tcp } else { udp }, u128::from(port)))
}
