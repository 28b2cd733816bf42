//! Packet-out: a packet that a switch sends for the controller (1.0 §5.3.6, 1.3 §7.3.7).

use super::Version;
use super::action::{self, ActionView};
use super::bytes::{Put, at_least, u16_at, u32_at};
use super::port_desc;
use crate::error::{Error, Result};
use crate::flow::Action;
use crate::port::PortNo;

mod offset {
    pub const BUFFER_ID: usize = 8;
    pub const IN_PORT: usize = 12;
}

mod offset10 {
    pub const ACTIONS_LEN: usize = 14;
    pub const ACTIONS: usize = 16;
}

mod offset13 {
    pub const ACTIONS_LEN: usize = 16;
    pub const ACTIONS: usize = 24;
}

/// A packet that a switch sends for the controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketOut {
    /// The id of a packet in the switch's buffer, or [`super::NO_BUFFER`] if `data` is the packet.
    pub buffer_id: u32,
    /// The port by which the packet is assumed to have come in: [`PortNo::CONTROLLER`] or a real one.
    pub in_port: PortNo,
    /// The actions for the packet.
    pub actions: Vec<Action>,
    /// The frame; empty with a buffer id.
    pub data: Vec<u8>,
}

/// A view of a packet-out.
#[derive(Clone, Copy, Debug)]
pub struct PacketOutView<'a> {
    version: Version,
    bytes: &'a [u8],
    actions: usize,
    data: usize,
}

impl<'a> PacketOutView<'a> {
    /// Creates a view of the packet-out that takes all of `bytes`, header included.
    ///
    /// # Errors
    /// [`Error::Truncated`] if `bytes` ends within the fixed part or the actions.
    pub fn new_checked(version: Version, bytes: &'a [u8]) -> Result<PacketOutView<'a>> {
        let (length_at, actions) = match version {
            Version::Of10 => (offset10::ACTIONS_LEN, offset10::ACTIONS),
            Version::Of13 => (offset13::ACTIONS_LEN, offset13::ACTIONS),
        };
        at_least("packet-out", bytes, actions)?;
        let data = actions + usize::from(u16_at(bytes, length_at));
        at_least("packet-out", bytes, data)?;
        Ok(PacketOutView { version, bytes, actions, data })
    }

    /// Returns the id of a packet in the switch's buffer, or [`super::NO_BUFFER`].
    pub fn buffer_id(&self) -> u32 {
        u32_at(self.bytes, offset::BUFFER_ID)
    }

    /// Returns the port by which the packet is assumed to have come in.
    pub fn in_port(&self) -> PortNo {
        port_desc::number_at(self.version, self.bytes, offset::IN_PORT)
    }

    /// Iterates over the actions for the packet; the first error is the last item.
    pub fn actions(&self) -> impl Iterator<Item = Result<ActionView<'a>>> {
        ActionView::list(self.version, &self.bytes[self.actions..self.data])
    }

    /// Returns the frame.
    pub fn data(&self) -> &'a [u8] {
        &self.bytes[self.data..]
    }
}

impl PacketOut {
    /// Splits this packet-out into packet-outs that together have its effect. Each has at most `most` outputs (at least
    /// 1), because a message has room for some 4,000. Each contains the actions that change the packet. A packet-out
    /// with a buffered packet stays whole, because the first packet-out releases the buffer.
    pub fn split(&self, most: usize) -> impl Iterator<Item = PacketOut> + '_ {
        let is_output = |action: &Action| matches!(action, Action::Output { .. });
        let outputs = self.actions.iter().filter(|action| is_output(action)).count();
        let each = if self.buffer_id == super::NO_BUFFER { most.max(1) } else { usize::MAX };
        (0..outputs.div_ceil(each).max(1)).map(move |part| {
            let mut number = 0;
            let is_in_it = |action: &&Action| {
                let at = number;
                number += usize::from(is_output(action));
                !is_output(action) || at / each == part
            };
            PacketOut { actions: self.actions.iter().filter(is_in_it).cloned().collect(), ..self.clone() }
        })
    }

    /// Reads the owned form.
    ///
    /// # Errors
    /// The error of the first action that is malformed.
    pub fn parse(view: &PacketOutView<'_>) -> Result<PacketOut> {
        Ok(PacketOut {
            buffer_id: view.buffer_id(),
            in_port: view.in_port(),
            actions: view.actions().map(|action| action?.to_action()).collect::<Result<_>>()?,
            data: view.data().to_vec(),
        })
    }

    /// Appends the message without its header.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if `version` has no form for the port or an action, and an error about lengths if the
    /// actions are too long.
    pub fn emit(&self, version: Version, out: &mut Vec<u8>) -> Result<()> {
        out.put_u32(self.buffer_id);
        port_desc::emit_number(self.in_port, version, if version == Version::Of10 { 2 } else { 4 }, out)?;
        let length_at = out.len();
        out.put_zeros(if version == Version::Of10 { 2 } else { 8 });
        let start = out.len();
        action::emit_list(&self.actions, version, out)?;
        let length = out.len() - start;
        let bytes = u16::try_from(length).map_err(|_| Error::TooLong(length))?.to_be_bytes();
        out[length_at..length_at + 2].copy_from_slice(&bytes);
        out.put(&self.data);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::msg::test::{check, check_truncated, hex};
    use crate::msg::{Message, NO_BUFFER};

    fn packet_out() -> Message {
        Message::PacketOut(PacketOut {
            buffer_id: NO_BUFFER,
            in_port: PortNo::CONTROLLER,
            actions: vec![Action::output(PortNo::FLOOD)],
            data: hex("aabbccdd"),
        })
    }

    #[test]
    fn one_with_too_many_outputs_is_split_and_each_part_has_what_changes_the_packet() {
        let output = |port| Action::output(PortNo(port));
        let actions = vec![output(1), Action::PushVlan(0x8100), output(2), output(3), Action::PopVlan, output(4)];
        let whole = PacketOut { buffer_id: NO_BUFFER, in_port: PortNo(9), actions, data: vec![1, 2] };
        let parts: Vec<PacketOut> = whole.split(2).collect();
        let (push, pop) = (Action::PushVlan(0x8100), Action::PopVlan);
        let expected = [
            vec![output(1), push.clone(), output(2), pop.clone()],
            vec![push.clone(), output(3), pop.clone(), output(4)],
        ];
        assert_eq!(parts.iter().map(|part| part.actions.clone()).collect::<Vec<_>>(), expected);
        assert!(parts.iter().all(|part| part.data == whole.data && part.in_port == whole.in_port));
        assert_eq!(whole.split(4).collect::<Vec<_>>(), std::slice::from_ref(&whole));
        let buffered = PacketOut { buffer_id: 7, ..whole };
        assert_eq!(buffered.split(1).collect::<Vec<_>>(), std::slice::from_ref(&buffered));
        let empty = PacketOut { actions: Vec::new(), ..buffered };
        assert_eq!(empty.split(1).count(), 1);
    }

    #[test]
    fn a_1_0_packet_out_has_actions_then_the_frame() {
        let bytes = "01 0d 001c 00000001 ffffffff fffd 0008 0000 0008 fffb 0000 aabbccdd";
        check(Version::Of10, bytes, packet_out());
        check_truncated(bytes);
    }

    #[test]
    fn a_1_3_packet_out_has_actions_then_the_frame() {
        let bytes = "04 0d 002c 00000001 ffffffff fffffffd 0010 000000000000
            0000 0010 fffffffb 0000 000000000000 aabbccdd";
        check(Version::Of13, bytes, packet_out());
        check_truncated(bytes);
    }

    #[test]
    fn actions_longer_than_the_message_are_refused() {
        let bytes = hex("01 0d 0018 00000001 ffffffff fffd 0010 0000 0008 fffb 0000");
        assert!(Message::decode(&bytes).is_err());
    }
}
