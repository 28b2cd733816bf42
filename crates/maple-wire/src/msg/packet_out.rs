//! Packet-out: a packet that a switch sends for the controller (1.0 §5.3.6, 1.3 §7.3.7).

use super::Version;
use super::bytes::{Put, Reader};
use super::wire::{Codec, Padded, Wire};
use crate::error::{Error, Result};
use crate::flow::Action;
use crate::port::PortNo;

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

/// The length of the actions in bytes, which stands before them.
type ActionsLen = Padded<0, 6>;

impl Wire for PacketOut {
    const MIN: [usize; 2] = [8, 16];

    fn read(reader: &mut Reader<'_>) -> Result<PacketOut> {
        reader.need(Self::MIN)?;
        let (buffer_id, in_port) = (reader.u32()?, PortNo::read(reader)?);
        let length: u16 = ActionsLen::read(reader)?;
        let actions = reader.part(length.into())?.list()?;
        Ok(PacketOut { buffer_id, in_port, actions, data: reader.rest().to_vec() })
    }

    fn write(&self, version: Version, out: &mut Vec<u8>) -> Result<()> {
        out.put_u32(self.buffer_id);
        self.in_port.write(version, out)?;
        let length_at = out.len();
        ActionsLen::write(&0u16, version, out)?;
        let start = out.len();
        self.actions.write(version, out)?;
        let length = out.len() - start;
        let bytes = u16::try_from(length).map_err(|_| Error::TooLong(length))?.to_be_bytes();
        out[length_at..length_at + 2].copy_from_slice(&bytes);
        out.put(&self.data);
        Ok(())
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::msg::test::{check, hex};
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
    fn a_packet_out_with_too_many_outputs_is_split_and_each_part_has_the_rewrites() {
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
    }

    #[test]
    fn a_1_3_packet_out_has_actions_then_the_frame() {
        let bytes = "04 0d 002c 00000001 ffffffff fffffffd 0010 000000000000
            0000 0010 fffffffb 0000 000000000000 aabbccdd";
        check(Version::Of13, bytes, packet_out());
    }

    #[test]
    fn actions_longer_than_the_message_are_refused() {
        let bytes = hex("01 0d 0018 00000001 ffffffff fffd 0010 0000 0008 fffb 0000");
        assert!(Message::decode(&bytes).is_err());
    }
}
