//! LLDP (802.1AB): a frame's type-length-value entries, read and written.

use super::Packet;
use super::bytes::u16_at;
use crate::error::{Error, Result};
use crate::eth_type;

/// The destination address of LLDP frames. Bridges don't forward it.
pub const MULTICAST: [u8; 6] = [0x01, 0x80, 0xc2, 0x00, 0x00, 0x0e];

/// The type of a chassis id that the sender chose itself ("locally assigned").
pub const CHASSIS_LOCAL: u8 = 7;
/// The type of a port id that the sender chose itself.
pub const PORT_LOCAL: u8 = 7;
/// The maximum number of bytes in an entry, whose length field has 9 bits.
pub const MAX_VALUE: usize = 511;

const END: u8 = 0;
const CHASSIS_ID: u8 = 1;
const PORT_ID: u8 = 2;
const TTL: u8 = 3;
const ORGANISATION: u8 = 127;

/// One entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tlv<'a> {
    /// The device that sent the frame.
    ChassisId {
        /// The form of the id (802.1AB table 8-2).
        subtype: u8,
        /// The id.
        id: &'a [u8],
    },
    /// The port of that device by which the frame left.
    PortId {
        /// The form of the id (802.1AB table 8-3).
        subtype: u8,
        /// The id.
        id: &'a [u8],
    },
    /// The number of seconds for which the frame is valid.
    Ttl(u16),
    /// An entry that an organisation defined.
    Organisation {
        /// The organisation.
        oui: [u8; 3],
        /// The organisation's number for the entry.
        subtype: u8,
        /// The remaining bytes.
        value: &'a [u8],
    },
    /// Any other entry.
    Other {
        /// The entry's type, 4 to 126.
        kind: u8,
        /// The entry's bytes.
        value: &'a [u8],
    },
}

/// Iterates over the entries of a frame, up to the end entry. A malformed entry is an error and the last item.
#[derive(Clone, Debug)]
pub struct Tlvs<'a> {
    rest: &'a [u8],
}

/// Iterates over the entries of an LLDP frame; `None` for other frames.
pub fn tlvs<'a>(packet: &Packet<'a>) -> Option<Tlvs<'a>> {
    let link = packet.link();
    if link.eth_type() != Some(eth_type::LLDP) {
        return None;
    }
    Some(Tlvs { rest: packet.frame.get(link.end()..)? })
}

impl<'a> Iterator for Tlvs<'a> {
    type Item = Result<Tlv<'a>>;

    fn next(&mut self) -> Option<Result<Tlv<'a>>> {
        if self.rest.is_empty() {
            return None;
        }
        let item = self.split();
        match item {
            Ok(Some((kind, value))) => Some(Tlv::parse(kind, value).inspect_err(|_| self.rest = &[])),
            Ok(None) => {
                self.rest = &[];
                None
            }
            Err(error) => {
                self.rest = &[];
                Some(Err(error))
            }
        }
    }
}

impl<'a> Tlvs<'a> {
    /// Removes the next entry from the rest, and returns its type and bytes, or `None` at the end entry.
    fn split(&mut self) -> Result<Option<(u8, &'a [u8])>> {
        let short = |need, have| Error::Truncated { what: "LLDP entry", need, have };
        let head = u16_at(self.rest, 0).ok_or(short(2, self.rest.len()))?;
        let (kind, len) = ((head >> 9) as u8, usize::from(head & 0x1ff));
        if kind == END {
            return Ok(None);
        }
        let value = self.rest.get(2..2 + len).ok_or(short(2 + len, self.rest.len()))?;
        self.rest = &self.rest[2 + len..];
        Ok(Some((kind, value)))
    }
}

impl<'a> Tlv<'a> {
    fn parse(kind: u8, value: &'a [u8]) -> Result<Tlv<'a>> {
        let bad = |what| Error::BadLength { what, length: value.len() };
        match (kind, value) {
            (CHASSIS_ID, [subtype, id @ ..]) => Ok(Tlv::ChassisId { subtype: *subtype, id }),
            (CHASSIS_ID, _) => Err(bad("LLDP chassis id")),
            (PORT_ID, [subtype, id @ ..]) => Ok(Tlv::PortId { subtype: *subtype, id }),
            (PORT_ID, _) => Err(bad("LLDP port id")),
            (TTL, [high, low, ..]) => Ok(Tlv::Ttl(u16::from_be_bytes([*high, *low]))),
            (TTL, _) => Err(bad("LLDP time to live")),
            (ORGANISATION, [a, b, c, subtype, value @ ..]) => {
                Ok(Tlv::Organisation { oui: [*a, *b, *c], subtype: *subtype, value })
            }
            (ORGANISATION, _) => Err(bad("LLDP organisational entry")),
            (kind, value) => Ok(Tlv::Other { kind, value }),
        }
    }

    /// Appends the entry to `out`.
    ///
    /// # Panics
    /// If the entry would be longer than [`MAX_VALUE`].
    pub fn emit(&self, out: &mut Vec<u8>) {
        let (kind, head, tail): (u8, &[u8], &[u8]) = match self {
            Tlv::ChassisId { subtype, id } => (CHASSIS_ID, &[*subtype], id),
            Tlv::PortId { subtype, id } => (PORT_ID, &[*subtype], id),
            Tlv::Ttl(seconds) => (TTL, &seconds.to_be_bytes(), &[]),
            Tlv::Organisation { oui: [a, b, c], subtype, value } => (ORGANISATION, &[*a, *b, *c, *subtype], value),
            Tlv::Other { kind, value } => (*kind, &[], value),
        };
        let len = head.len() + tail.len();
        assert!(len <= MAX_VALUE, "LLDP entry of {len} bytes");
        out.extend_from_slice(&(u16::from(kind) << 9 | len as u16).to_be_bytes());
        out.extend_from_slice(head);
        out.extend_from_slice(tail);
    }
}

/// Appends entries and the end entry.
pub(super) fn emit(tlvs: &[Tlv], out: &mut Vec<u8>) {
    tlvs.iter().for_each(|tlv| tlv.emit(out));
    out.extend_from_slice(&[END, 0]);
}
