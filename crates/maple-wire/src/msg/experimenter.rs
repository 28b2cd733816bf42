//! Experimenter messages, in 1.0 vendor messages (1.0 §5.5.4, 1.3 §7.5.4), kept unchanged.

use super::Version;
use super::bytes::{Put, at_least, u32_at};
use crate::error::{Error, Result};

mod offset {
    pub const ID: usize = 8;
    pub const BODY: usize = 12;
    /// The end of the type that 1.3 has after the id.
    pub const END_OF_TYPE: usize = 16;
}

/// An experimenter's own message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Experimenter {
    /// The experimenter's IEEE OUI, or a number that the ONF assigned to it.
    pub id: u32,
    /// The bytes after the id. In 1.3 they start with a 32-bit type.
    pub body: Vec<u8>,
}

/// A view of an experimenter message.
#[derive(Clone, Copy, Debug)]
pub struct ExperimenterView<'a> {
    bytes: &'a [u8],
}

impl<'a> ExperimenterView<'a> {
    /// Creates a view of the experimenter message that takes all of `bytes`, header included.
    ///
    /// # Errors
    /// [`Error::Truncated`] if `bytes` ends within the fixed part.
    pub fn new_checked(version: Version, bytes: &'a [u8]) -> Result<ExperimenterView<'a>> {
        at_least("experimenter", bytes, if version == Version::Of10 { offset::BODY } else { offset::END_OF_TYPE })?;
        Ok(ExperimenterView { bytes })
    }

    /// Returns the experimenter's id.
    pub fn id(&self) -> u32 {
        u32_at(self.bytes, offset::ID)
    }

    /// Returns the bytes after the id.
    pub fn body(&self) -> &'a [u8] {
        &self.bytes[offset::BODY..]
    }
}

impl Experimenter {
    /// Reads the owned form.
    pub fn parse(view: &ExperimenterView<'_>) -> Experimenter {
        Experimenter { id: view.id(), body: view.body().to_vec() }
    }

    /// Appends the message without its header.
    ///
    /// # Errors
    /// [`Error::BadLength`] if the body has fewer than the 4 bytes of 1.3's type.
    pub fn emit(&self, version: Version, out: &mut Vec<u8>) -> Result<()> {
        if version == Version::Of13 && self.body.len() < offset::END_OF_TYPE - offset::BODY {
            return Err(Error::BadLength { what: "experimenter", length: self.body.len() });
        }
        out.put_u32(self.id);
        out.put(&self.body);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::msg::Message;
    use crate::msg::test::{check, check_truncated, hex};

    #[test]
    fn the_body_is_kept_in_both_versions() {
        let nicira = Experimenter { id: 0x2320, body: vec![0, 0, 0, 11, 0, 0, 0, 2] };
        let bytes = "01 04 0014 00000001 00002320 0000000b 00000002";
        check(Version::Of10, bytes, Message::Experimenter(nicira.clone()));
        check_truncated(bytes);
        check(Version::Of13, "04 04 0014 00000001 00002320 0000000b 00000002", Message::Experimenter(nicira));
        assert!(Message::decode(&hex("04 04 000c 00000001 00002320")).is_err());
    }
}
