//! Packet-in: a packet that a switch sends to its controller (1.0 §5.4.1, 1.3 §7.4.1).

use serde::{Deserialize, Serialize};

use super::Version;
use super::bytes::{Put, Reader, at_least, u16_at, u32_at, u64_at, unsupported};
use super::header::{Header, kind};
use super::matching;
use super::wire::Wire;
use crate::error::Result;
use crate::field::Field;
use crate::flow::{Constraint, Match, MatchField};
use crate::port::PortNo;

mod offset {
    pub const XID: usize = 4;
    pub const BUFFER_ID: usize = 8;
    pub const TOTAL_LEN: usize = 12;
}

mod offset10 {
    pub const IN_PORT: usize = 14;
    pub const REASON: usize = 16;
    pub const DATA: usize = 18;
}

mod offset13 {
    pub const REASON: usize = 14;
    pub const TABLE_ID: usize = 15;
    pub const COOKIE: usize = 16;
    pub const MATCH: usize = 24;
}

/// The number of zero bytes between match and data in 1.3, which align the frame's IP header.
const PAD13: usize = 2;

/// The reason why a switch sent a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PacketInReason {
    /// No rule matched (`OFPR_NO_MATCH`).
    NoMatch,
    /// An action of a rule (`OFPR_ACTION`).
    Action,
    /// The time to live was not valid (`OFPR_INVALID_TTL`, 1.3).
    InvalidTtl,
    /// Any other number.
    Other(u8),
}

/// A packet that a switch sends to its controller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PacketIn {
    /// The id of the packet in the switch's buffer, or [`super::NO_BUFFER`].
    pub buffer_id: u32,
    /// The length of the whole frame in bytes; `data` may be shorter.
    pub total_len: u16,
    /// The reason why the switch sent the packet.
    pub reason: PacketInReason,
    /// The table whose rule sent it; 0 in OpenFlow 1.0.
    pub table_id: u8,
    /// The cookie of the rule that sent it; all ones in OpenFlow 1.0, or if there is none.
    pub cookie: u64,
    /// The port that the packet came in by, and other pipeline fields. In OpenFlow 1.0 only `in_port`.
    pub pipeline: Match,
    /// The frame, or its first bytes.
    #[serde(with = "serde_bytes")]
    pub data: Vec<u8>,
}

impl PacketIn {
    /// Creates the packet-in of a whole frame that no rule of table 0 matched.
    ///
    /// ```
    /// use maple_wire::msg::{NO_BUFFER, PacketIn};
    ///
    /// let packet_in = PacketIn::new(3, vec![0; 60]);
    /// assert_eq!((packet_in.total_len, packet_in.buffer_id, packet_in.cookie), (60, NO_BUFFER, u64::MAX));
    /// ```
    pub fn new(in_port: u32, data: Vec<u8>) -> PacketIn {
        PacketIn {
            buffer_id: super::NO_BUFFER,
            total_len: u16::try_from(data.len()).unwrap_or(u16::MAX),
            reason: PacketInReason::NoMatch,
            table_id: 0,
            cookie: u64::MAX,
            pipeline: Match::any().exact(Field::InPort, in_port.into()),
            data,
        }
    }
}

/// A view of a packet-in, the message that a busy controller reads most often. Only [`PacketIn::parse`] allocates.
#[derive(Clone, Copy, Debug)]
pub struct PacketInView<'a> {
    version: Version,
    bytes: &'a [u8],
    /// The offset of the frame in bytes.
    data: usize,
}

impl<'a> PacketInView<'a> {
    /// Creates a view of the packet-in that takes all of `bytes`, header included.
    ///
    /// # Errors
    /// [`Error::Truncated`](crate::Error::Truncated) if `bytes` ends before the frame, and an error for a match of
    /// unknown type or length.
    #[inline]
    pub fn new_checked(version: Version, bytes: &'a [u8]) -> Result<PacketInView<'a>> {
        let data = match version {
            Version::Of10 => offset10::DATA,
            Version::Of13 => {
                at_least("packet-in", bytes, offset13::MATCH)?;
                offset13::MATCH + matching::entries13(&bytes[offset13::MATCH..])?.1 + PAD13
            }
        };
        at_least("packet-in", bytes, data)?;
        Ok(PacketInView { version, bytes, data })
    }

    /// Returns the message as a packet-in of this version, if it is a valid one.
    #[inline]
    pub fn from_message(version: Version, header: Header, message: &'a [u8]) -> Option<PacketInView<'a>> {
        if header.kind != kind::PACKET_IN || header.version != version as u8 {
            return None;
        }
        PacketInView::new_checked(version, message).ok()
    }

    /// Returns the message's transaction id.
    #[inline]
    pub fn xid(&self) -> u32 {
        u32_at(self.bytes, offset::XID)
    }

    /// Returns the id of the packet in the switch's buffer, or [`super::NO_BUFFER`].
    #[inline]
    pub fn buffer_id(&self) -> u32 {
        u32_at(self.bytes, offset::BUFFER_ID)
    }

    /// Returns the length of the whole frame in bytes.
    #[inline]
    pub fn total_len(&self) -> u16 {
        u16_at(self.bytes, offset::TOTAL_LEN)
    }

    /// Returns the reason why the switch sent the packet.
    pub fn reason(&self) -> PacketInReason {
        let at = if self.version == Version::Of10 { offset10::REASON } else { offset13::REASON };
        PacketInReason::from_wire(self.bytes[at])
    }

    /// Returns the table whose rule sent the packet; 0 in OpenFlow 1.0.
    pub fn table_id(&self) -> u8 {
        if self.version == Version::Of10 { 0 } else { self.bytes[offset13::TABLE_ID] }
    }

    /// Returns the cookie of the rule that sent the packet; all ones in OpenFlow 1.0, or if there is none.
    pub fn cookie(&self) -> u64 {
        if self.version == Version::Of10 { u64::MAX } else { u64_at(self.bytes, offset13::COOKIE) }
    }

    /// Returns the port that the packet came in by, if the message has it.
    #[inline]
    pub fn in_port(&self) -> Option<PortNo> {
        match self.version {
            Version::Of10 => Some(PortNo::from_of10(u16_at(self.bytes, offset10::IN_PORT))),
            Version::Of13 => self.pipeline_field(Field::InPort).map(|c| PortNo(c.value as u32)),
        }
    }

    /// Returns the condition on a pipeline field in 1.3, if the message has one that can be read.
    pub fn pipeline_field(&self, field: Field) -> Option<Constraint> {
        let (entries, _) = matching::entries13(self.bytes.get(offset13::MATCH..)?).ok()?;
        let mut entries = entries.map_while(Result::ok).filter(|_| self.version == Version::Of13);
        entries.find(|entry| entry.field() == Some(field)).and_then(|entry| entry.constraint())
    }

    /// Returns the frame, or its first bytes.
    #[inline]
    pub fn data(&self) -> &'a [u8] {
        &self.bytes[self.data..]
    }

    /// Returns the whole message, header included.
    #[inline]
    pub fn message(&self) -> &'a [u8] {
        self.bytes
    }
}

impl PacketIn {
    /// Reads the owned form.
    ///
    /// # Errors
    /// The error of the first pipeline field that is malformed.
    pub fn parse(view: &PacketInView<'_>) -> Result<PacketIn> {
        let pipeline = match view.version {
            Version::Of10 => view.in_port().map_or_else(Match::any, |p| Match::any().exact(Field::InPort, p.0.into())),
            Version::Of13 => Match::read(&mut Reader::new("packet-in", view.version, &view.bytes[offset13::MATCH..]))?,
        };
        Ok(PacketIn {
            buffer_id: view.buffer_id(),
            total_len: view.total_len(),
            reason: view.reason(),
            table_id: view.table_id(),
            cookie: view.cookie(),
            pipeline,
            data: view.data().to_vec(),
        })
    }

    /// Returns the port that the packet came in by, if the message has it.
    pub fn in_port(&self) -> Option<PortNo> {
        self.pipeline.get(Field::InPort).map(|c| PortNo(c.value as u32))
    }

    fn in_port10(&self) -> Result<PortNo> {
        match self.pipeline.fields[..] {
            [MatchField::Known(c)] if c.field == Field::InPort && c.is_exact() => Ok(PortNo(c.value as u32)),
            _ => unsupported(Version::Of10, "a packet-in whose pipeline fields are not just in_port"),
        }
    }
}

impl Wire for PacketIn {
    fn read(reader: &mut Reader<'_>) -> Result<PacketIn> {
        let view = PacketInView::new_checked(reader.version(), reader.whole())?;
        reader.rest();
        PacketIn::parse(&view)
    }

    /// Appends the message without its header. 1.0 leaves out table and cookie.
    fn write(&self, version: Version, out: &mut Vec<u8>) -> Result<()> {
        out.put_u32(self.buffer_id);
        out.put_u16(self.total_len);
        match version {
            Version::Of10 => {
                self.in_port10()?.write(version, out)?;
                out.put(&[self.reason.to_wire(), 0]);
            }
            Version::Of13 => {
                out.put(&[self.reason.to_wire(), self.table_id]);
                out.put_u64(self.cookie);
                self.pipeline.write(version, out)?;
                out.put_zeros(PAD13);
            }
        }
        out.put(&self.data);
        Ok(())
    }
}

impl PacketInReason {
    /// Returns the reason with this `OFPR_*` number.
    pub const fn from_wire(number: u8) -> PacketInReason {
        match number {
            0 => PacketInReason::NoMatch,
            1 => PacketInReason::Action,
            2 => PacketInReason::InvalidTtl,
            other => PacketInReason::Other(other),
        }
    }

    /// Returns the `OFPR_*` number.
    pub const fn to_wire(self) -> u8 {
        match self {
            PacketInReason::NoMatch => 0,
            PacketInReason::Action => 1,
            PacketInReason::InvalidTtl => 2,
            PacketInReason::Other(number) => number,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::msg::test::{check, hex};
    use crate::msg::{Message, NO_BUFFER};

    #[test]
    fn a_1_0_packet_in_has_its_port_in_a_field() {
        let bytes = "01 0a 0016 00000001 00000100 003c 0003 01 00 deadbeef";
        let packet_in = PacketIn {
            buffer_id: 256,
            total_len: 60,
            reason: PacketInReason::Action,
            table_id: 0,
            cookie: u64::MAX,
            pipeline: Match::any().exact(Field::InPort, 3),
            data: hex("deadbeef"),
        };
        check(Version::Of10, bytes, Message::PacketIn(packet_in));
    }

    const OF13: &str = "04 0a 0030 00000001 ffffffff 003c 00 02 00000000000000ab
        0001 000c 80000004 00000007 00000000 0000 aabbccddeeff";

    #[test]
    fn a_1_3_packet_in_has_its_port_in_a_match() {
        let packet_in = PacketIn {
            buffer_id: NO_BUFFER,
            total_len: 60,
            reason: PacketInReason::NoMatch,
            table_id: 2,
            cookie: 0xab,
            pipeline: Match::any().exact(Field::InPort, 7),
            data: hex("aabbccddeeff"),
        };
        check(Version::Of13, OF13, Message::PacketIn(packet_in));
    }

    #[test]
    fn the_view_finds_port_and_frame_in_place() {
        let bytes = hex(OF13);
        let view = PacketInView::new_checked(Version::Of13, &bytes).unwrap();
        assert_eq!(view.in_port(), Some(PortNo(7)));
        assert_eq!(view.data(), &bytes[42..]);
        assert_eq!((view.table_id(), view.cookie(), view.total_len(), view.xid()), (2, 0xab, 60, 1));
    }
}
