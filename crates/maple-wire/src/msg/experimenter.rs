//! Experimenter messages, in 1.0 vendor messages (1.0 §5.5.4, 1.3 §7.5.4), kept unchanged.

use super::Version;
use super::bytes::{Put, Reader};
use super::wire::{Bytes, Codec, layout};
use crate::error::{Error, Result};

layout! {
    /// An experimenter's own message, or the body of its own statistics.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Experimenter {
        /// The experimenter's IEEE OUI, or a number that the ONF assigned to it.
        pub id: u32,
        /// The bytes after the id. In 1.3 they start with a 32-bit type.
        pub body: Vec<u8> as Body,
    }
}

impl Experimenter {
    /// The id of the Open Networking Foundation.
    pub const ONF: u32 = 0x4f4e_4600;
    /// Nicira's id, as in Open vSwitch's `nicira-ext.h`.
    pub const NICIRA: u32 = 0x2320;
}

/// The bytes after the id: at least a type in 1.3.
struct Body;

impl Codec<Vec<u8>> for Body {
    const MIN: [usize; 2] = [0, 4];
    const FIXED: bool = false;

    fn read(reader: &mut Reader<'_>) -> Result<Vec<u8>> {
        Bytes::read(reader)
    }

    fn write(body: &Vec<u8>, version: Version, out: &mut Vec<u8>) -> Result<()> {
        if body.len() < Self::MIN[version.index()] {
            return Err(Error::BadLength { what: "experimenter", length: body.len() });
        }
        out.put(body);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::msg::Message;
    use crate::msg::test::{check, hex};

    #[test]
    fn the_body_is_kept_in_both_versions() {
        let nicira = Experimenter { id: 0x2320, body: vec![0, 0, 0, 11, 0, 0, 0, 2] };
        let bytes = "01 04 0014 00000001 00002320 0000000b 00000002";
        check(Version::Of10, bytes, Message::Experimenter(nicira.clone()));
        check(Version::Of13, "04 04 0014 00000001 00002320 0000000b 00000002", Message::Experimenter(nicira));
        assert!(Message::decode(&hex("04 04 000c 00000001 00002320")).is_err());
    }
}
