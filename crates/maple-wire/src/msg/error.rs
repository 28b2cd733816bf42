//! Error: the report that a request could not be done (1.0 §5.4.4, 1.3 §7.4.4).

use serde::{Deserialize, Serialize};

use super::wire::{Bytes, layout};
use super::{Header, Version};

layout! {
    /// Reports that a request could not be done. The form is equal in all versions.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub struct ErrorMsg {
        /// The class of the error, `OFPET_*` in the version's own numbering.
        pub kind: u16,
        /// The error within its class.
        pub code: u16,
        /// At least the first 64 bytes of the request; for `OFPET_HELLO_FAILED` a text.
        #[serde(with = "serde_bytes")]
        pub data: Vec<u8> as Bytes,
    }
}

impl ErrorMsg {
    /// `OFPET_HELLO_FAILED`: no common version; the data is a text.
    pub const HELLO_FAILED: u16 = 0;
    /// `OFPET_BAD_REQUEST`.
    pub const BAD_REQUEST: u16 = 1;
    /// `OFPET_BAD_ACTION`.
    pub const BAD_ACTION: u16 = 2;
    /// `OFPET_BAD_INSTRUCTION` of 1.3.
    pub const BAD_INSTRUCTION: u16 = 3;
    /// `OFPET_METER_MOD_FAILED` of 1.3.
    pub const METER_MOD_FAILED: u16 = 12;
    /// `NXET_VENDOR`, by which Open vSwitch sends errors that 1.0 lacks; the data begins with Nicira's id.
    pub const NICIRA: u16 = 0xb0c2;
    /// `OFPET_EXPERIMENTER` of 1.3; the data begins with the experimenter's id.
    pub const EXPERIMENTER: u16 = 0xffff;

    /// `OFPHFC_INCOMPATIBLE`, with its type.
    pub const INCOMPATIBLE: (u16, u16) = (Self::HELLO_FAILED, 0);
    /// `OFPHFC_EPERM`, with its type.
    pub const HELLO_NOT_PERMITTED: (u16, u16) = (Self::HELLO_FAILED, 1);
    /// `OFPBRC_BAD_VERSION`, with its type.
    pub const BAD_VERSION: (u16, u16) = (Self::BAD_REQUEST, 0);
    /// `OFPBRC_BAD_TYPE`, with its type.
    pub const BAD_TYPE: (u16, u16) = (Self::BAD_REQUEST, 1);
    /// `OFPBRC_BAD_STAT`, in 1.3 `OFPBRC_BAD_MULTIPART`, with its type.
    pub const BAD_STATS: (u16, u16) = (Self::BAD_REQUEST, 2);
    /// `OFPBRC_BAD_VENDOR`, in 1.3 `OFPBRC_BAD_EXPERIMENTER`, with its type.
    pub const BAD_EXPERIMENTER: (u16, u16) = (Self::BAD_REQUEST, 3);
    /// `OFPBRC_BAD_SUBTYPE`, in 1.3 `OFPBRC_BAD_EXP_TYPE`, with its type.
    pub const BAD_EXPERIMENTER_TYPE: (u16, u16) = (Self::BAD_REQUEST, 4);
    /// `OFPBRC_BAD_LEN`, with its type.
    pub const BAD_LENGTH: (u16, u16) = (Self::BAD_REQUEST, 6);
    /// `OFPMMFC_METER_EXISTS`, with its type.
    pub const METER_EXISTS: (u16, u16) = (Self::METER_MOD_FAILED, 1);

    /// The number of bytes of a request that an error returns at least.
    const MIN_DATA: usize = 64;

    /// Creates an error with this type and code, which returns the first 64 bytes of a request.
    pub fn about((kind, code): (u16, u16), request: &[u8]) -> ErrorMsg {
        ErrorMsg { kind, code, data: request[..request.len().min(Self::MIN_DATA)].to_vec() }
    }

    /// Returns type and code.
    pub fn number(&self) -> (u16, u16) {
        (self.kind, self.code)
    }

    /// Returns type and code of the error that a table is full: `OFPFMFC_ALL_TABLES_FULL`, in 1.3 `OFPFMFC_TABLE_FULL`.
    pub const fn table_full(version: Version) -> (u16, u16) {
        match version {
            Version::Of10 => (3, 0),
            Version::Of13 => (5, 1),
        }
    }

    /// Returns type and code of the error that a switch can't obey a flow-mod: `OFPFMFC_UNSUPPORTED`, in 1.3
    /// `OFPFMFC_UNKNOWN`.
    pub const fn flow_mod_failed(version: Version) -> (u16, u16) {
        match version {
            Version::Of10 => (3, 5),
            Version::Of13 => (5, 0),
        }
    }

    /// Returns the header of the request that failed, if the data contains one.
    pub fn request(&self) -> Option<Header> {
        if self.kind == Self::HELLO_FAILED { None } else { Header::peek(&self.data).ok().flatten() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::msg::test::{check, hex};
    use crate::msg::{Message, Version};

    #[test]
    fn an_error_quotes_the_request_that_failed() {
        let error = ErrorMsg { kind: 1, code: 6, data: hex("040e 0048 00000007") };
        for (version, byte) in [(Version::Of10, "01"), (Version::Of13, "04")] {
            let bytes = format!("{byte} 01 0014 00000001 0001 0006 040e 0048 00000007");
            check(version, &bytes, Message::Error(error.clone()));
        }
        assert_eq!(error.request().map(|request| request.xid), Some(7));
    }

    #[test]
    fn a_failed_hello_has_a_text() {
        let error = ErrorMsg { kind: 0, code: 0, data: b"no!".to_vec() };
        check(Version::Of13, "04 01 000f 00000001 0000 0000 6e6f21", Message::Error(error.clone()));
        assert_eq!(error.request(), None);
    }
}
