//! Error: the report that a request could not be done (1.0 §5.4.4, 1.3 §7.4.4).

use serde::{Deserialize, Serialize};

use super::Header;
use super::wire::{Bytes, layout};

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
