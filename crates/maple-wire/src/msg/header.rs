//! The header that every message starts with (1.0 §5.1, 1.3 §7.1.1), and the numbers of message types.

use super::Version;
use super::bytes::{u16_at, u32_at};
use crate::error::{Error, Result};

mod offset {
    pub const VERSION: usize = 0;
    pub const TYPE: usize = 1;
    pub const LENGTH: usize = 2;
    pub const XID: usize = 4;
}

/// The length of the header in bytes.
pub const LEN: usize = 8;

/// Message types whose numbers are equal in OpenFlow 1.0 and 1.3. [`super::Message`] has all.
pub mod kind {
    /// Hello.
    pub const HELLO: u8 = 0;
    /// Error.
    pub const ERROR: u8 = 1;
    /// Echo request.
    pub const ECHO_REQUEST: u8 = 2;
    /// Echo reply.
    pub const ECHO_REPLY: u8 = 3;
    /// Experimenter, in 1.0 vendor.
    pub const EXPERIMENTER: u8 = 4;
    /// Features request.
    pub const FEATURES_REQUEST: u8 = 5;
    /// Features reply.
    pub const FEATURES_REPLY: u8 = 6;
    /// Get-config request.
    pub const GET_CONFIG_REQUEST: u8 = 7;
    /// Get-config reply.
    pub const GET_CONFIG_REPLY: u8 = 8;
    /// Set-config.
    pub const SET_CONFIG: u8 = 9;
    /// Packet-in.
    pub const PACKET_IN: u8 = 10;
    /// Flow-removed.
    pub const FLOW_REMOVED: u8 = 11;
    /// Port-status.
    pub const PORT_STATUS: u8 = 12;
    /// Packet-out.
    pub const PACKET_OUT: u8 = 13;
    /// Flow-mod.
    pub const FLOW_MOD: u8 = 14;
}

/// The eight bytes that every message starts with.
///
/// ```
/// use maple_wire::{Header, Version};
///
/// let header = Header::peek(&[4, 2, 0, 8, 0, 0, 0, 7]).unwrap().expect("eight bytes are enough");
/// assert_eq!((header.version().unwrap(), header.xid), (Version::Of13, 7));
/// assert_eq!(Header::peek(&[4, 2]).unwrap(), None, "more bytes have to come");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The version byte, unchanged. This codec may not speak the version.
    pub version: u8,
    /// The type byte.
    pub kind: u8,
    /// The length of the whole message in bytes, at least 8.
    pub length: u16,
    /// Transaction id.
    pub xid: u32,
}

impl Header {
    /// Reads the header at the start of `bytes`. `None` while there are fewer than 8 bytes.
    ///
    /// # Errors
    /// [`Error::BadLength`] if the header's length is less than that of a header.
    pub fn peek(bytes: &[u8]) -> Result<Option<Header>> {
        if bytes.len() < LEN {
            return Ok(None);
        }
        let header = Header {
            version: bytes[offset::VERSION],
            kind: bytes[offset::TYPE],
            length: u16_at(bytes, offset::LENGTH),
            xid: u32_at(bytes, offset::XID),
        };
        if usize::from(header.length) < LEN {
            return Err(Error::BadLength { what: "header", length: header.length.into() });
        }
        Ok(Some(header))
    }

    /// Reads the header of the one message that `bytes` must be, no more and no less.
    ///
    /// # Errors
    /// [`Error::Truncated`] if `bytes` is shorter than the message, [`Error::BadLength`] if it is longer.
    pub fn of_message(bytes: &[u8]) -> Result<Header> {
        let header = Header::peek(bytes)?.ok_or(Error::Truncated { what: "header", need: LEN, have: bytes.len() })?;
        let length = usize::from(header.length);
        if bytes.len() < length {
            return Err(Error::Truncated { what: "message", need: length, have: bytes.len() });
        }
        if bytes.len() > length {
            return Err(Error::BadLength { what: "message", length });
        }
        Ok(header)
    }

    /// Returns the version, if this codec speaks it.
    ///
    /// # Errors
    /// [`Error::BadVersion`] for other versions.
    pub fn version(&self) -> Result<Version> {
        Version::from_wire(self.version).ok_or(Error::BadVersion(self.version))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seven_bytes_are_not_yet_a_header() {
        assert_eq!(Header::peek(&[4, 0, 0, 8, 0, 0, 0]), Ok(None));
        assert!(Header::of_message(&[4, 0, 0, 8, 0, 0, 0]).is_err());
    }

    #[test]
    fn a_message_is_as_long_as_its_header_says() {
        assert!(Header::peek(&[4, 0, 0, 7, 0, 0, 0, 1]).is_err());
        assert!(Header::of_message(&[4, 0, 0, 9, 0, 0, 0, 1]).is_err());
        assert!(Header::of_message(&[4, 0, 0, 8, 0, 0, 0, 1, 0]).is_err());
        let expect = Header { version: 4, kind: 0, length: 8, xid: 1 };
        assert_eq!(Header::of_message(&[4, 0, 0, 8, 0, 0, 0, 1]), Ok(expect));
    }
}
