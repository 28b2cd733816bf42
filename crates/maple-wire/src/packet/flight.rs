//! A packet on its way through one switch, and what instructions and actions do to it (1.0 §3.4, 1.3 §5.9–5.12).
//!
//! [`Flight`] does what concerns the packet alone. What concerns the switch, such as an output, it returns to its
//! caller. So an emulated switch and an explanation of a packet agree on what a rule does to it.
//!
//! ```
//! use maple_wire::packet::Frame;
//! use maple_wire::packet::flight::{Effect, Flight};
//! use maple_wire::{Action, Field, PortNo};
//!
//! let frame = Frame::ethernet([2, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0, 1]).raw(0x88b5, b"");
//! let mut flight = Flight::new(frame, PortNo(1));
//! assert_eq!(flight.act(&Action::SetVlanVid(5)), Effect::Done);
//! assert_eq!(flight.act(&Action::output(PortNo(2))), Effect::Output(PortNo(2), None));
//! assert_eq!(flight.value(Field::VlanVid), Some(0x1005));
//! ```

use super::Packet;
use super::rewrite::{self, Applied};
use crate::field::Field;
use crate::flow::{Action, ActionSet, Constraint, Instruction};
use crate::port::PortNo;

/// A packet inside a switch, with what it carries from table to table.
#[derive(Clone, Debug)]
pub struct Flight {
    /// The bytes of the packet.
    pub frame: Vec<u8>,
    /// The port that it came in by.
    pub in_port: PortNo,
    /// The metadata that rules wrote.
    pub metadata: u64,
    /// The id of its tunnel.
    pub tunnel: u64,
    /// The queue for its outputs, if an action has set one.
    pub queue: Option<u32>,
    /// The actions that are applied after the last table (1.3 §5.10).
    pub set: ActionSet,
}

/// The part of an instruction that is left to the switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next<'a> {
    /// Nothing.
    Done,
    /// These actions are applied now, in order.
    Apply(&'a [Action]),
    /// The packet goes on in this table.
    Table(u8),
    /// The packet passes this meter.
    Meter(u32),
    /// The instruction is not one of OpenFlow's.
    Unknown,
}

/// The part of an action that is left to the switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing.
    Done,
    /// The packet is sent to a port, which may be a reserved one, from this queue or none.
    Output(PortNo, Option<u32>),
    /// The packet goes to this group.
    Group(u32),
    /// The packet is dropped: its time to live ran out.
    Expired,
    /// The action is not one that switches have in common.
    Unknown,
}

impl Flight {
    /// Creates the flight of a frame that came in by a port.
    pub fn new(frame: Vec<u8>, in_port: PortNo) -> Flight {
        Flight { frame, in_port, metadata: 0, tunnel: 0, queue: None, set: ActionSet::default() }
    }

    /// Returns the view of the packet's headers.
    pub fn packet(&self) -> Packet<'_> {
        Packet::with_wire_len(&self.frame, self.in_port.0, self.frame.len())
    }

    /// Returns the value of a field, as a switch matches it.
    pub fn value(&self, field: Field) -> Option<u128> {
        self.carried(field).or_else(|| self.packet().switch_value(field))
    }

    /// Returns the value of a field that is not in the frame.
    pub fn carried(&self, field: Field) -> Option<u128> {
        match field {
            Field::InPort | Field::InPhyPort => Some(u128::from(self.in_port.0)),
            Field::Metadata => Some(u128::from(self.metadata)),
            Field::TunnelId => Some(u128::from(self.tunnel)),
            _ => None,
        }
    }

    /// Executes an instruction, as far as it concerns the packet alone.
    pub fn execute<'a>(&mut self, instruction: &'a Instruction) -> Next<'a> {
        match instruction {
            Instruction::ApplyActions(actions) => return Next::Apply(actions),
            Instruction::GotoTable(table) => return Next::Table(*table),
            Instruction::Meter(meter) => return Next::Meter(*meter),
            Instruction::WriteActions(actions) => self.set.write(actions),
            Instruction::ClearActions => self.set.clear(),
            Instruction::WriteMetadata { metadata, mask } => self.metadata = self.metadata & !mask | metadata & mask,
            Instruction::Experimenter { .. } | Instruction::Unknown { .. } => return Next::Unknown,
        }
        Next::Done
    }

    /// Applies an action, as far as it concerns the packet alone.
    pub fn act(&mut self, action: &Action) -> Effect {
        match action {
            Action::Output { port, .. } => return Effect::Output(*port, self.queue),
            Action::Enqueue { port, queue } => return Effect::Output(*port, Some(*queue)),
            Action::Group(group) => return Effect::Group(*group),
            Action::SetQueue(queue) => self.queue = Some(*queue),
            Action::SetField(Constraint { field: Field::Metadata, value, .. }) => self.metadata = *value as u64,
            Action::SetField(Constraint { field: Field::TunnelId, value, .. }) => self.tunnel = *value as u64,
            action => match rewrite::apply(action, &mut self.frame) {
                Applied::Done => {}
                Applied::Expired => return Effect::Expired,
                Applied::NoRewrite => return Effect::Unknown,
            },
        }
        Effect::Done
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Frame;

    fn flight() -> Flight {
        let frame = Frame::ethernet([2, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0, 1]).ipv4([10, 0, 0, 1], [10, 0, 0, 2]).ttl(2);
        Flight::new(frame.udp(1, 53).payload(b""), PortNo(3))
    }

    #[test]
    fn metadata_is_written_by_its_mask_and_carried_along() {
        let mut flight = flight();
        flight.execute(&Instruction::WriteMetadata { metadata: 0xff, mask: 0x0f });
        flight.execute(&Instruction::WriteMetadata { metadata: 0xa0, mask: 0xf0 });
        assert_eq!(flight.value(Field::Metadata), Some(0xaf));
        assert_eq!((flight.value(Field::InPort), flight.value(Field::UdpDst)), (Some(3), Some(53)));
    }

    #[test]
    fn a_queue_holds_for_later_outputs_and_an_enqueue_for_its_own() {
        let mut flight = flight();
        flight.act(&Action::SetQueue(7));
        assert_eq!(flight.act(&Action::Enqueue { port: PortNo(1), queue: 8 }), Effect::Output(PortNo(1), Some(8)));
        assert_eq!(flight.act(&Action::output(PortNo(2))), Effect::Output(PortNo(2), Some(7)));
    }

    #[test]
    fn effects_that_a_packet_cannot_have_alone_are_returned() {
        let mut flight = flight();
        assert_eq!(flight.act(&Action::DecNwTtl), Effect::Done);
        assert_eq!(flight.act(&Action::DecNwTtl), Effect::Expired);
        assert_eq!((flight.act(&Action::Group(4)), flight.act(&Action::PopPbb)), (Effect::Group(4), Effect::Unknown));
        assert_eq!(flight.execute(&Instruction::GotoTable(4)), Next::Table(4));
        assert_eq!(flight.execute(&Instruction::Unknown { kind: 9, body: vec![] }), Next::Unknown);
    }
}
