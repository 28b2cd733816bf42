//! Get-config reply and set-config (1.0 §5.3.2, 1.3 §7.3.2).

use super::bytes::{Put, exactly, u16_at};
use crate::error::Result;

mod offset {
    pub const FLAGS: usize = 8;
    pub const MISS_SEND_LEN: usize = 10;
    pub const END: usize = 12;
}

/// A switch's treatment of fragments, and the number of bytes of a packet that it sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwitchConfig {
    /// Bits of `OFPC_FRAG_*`; 0 means normal treatment.
    pub flags: u16,
    /// Bytes of a packet that go to the controller if no action gives a number; 0xffff means all.
    pub miss_send_len: u16,
}

/// A view of a get-config reply or a set-config. Their form is equal in both versions.
#[derive(Clone, Copy, Debug)]
pub struct SwitchConfigView<'a> {
    bytes: &'a [u8],
}

impl<'a> SwitchConfigView<'a> {
    /// Creates a view of the message that takes all of `bytes`, header included.
    ///
    /// # Errors
    /// [`Error::Truncated`](crate::Error::Truncated) or [`Error::BadLength`](crate::Error::BadLength) if `bytes` has
    /// another length.
    pub fn new_checked(bytes: &'a [u8]) -> Result<SwitchConfigView<'a>> {
        exactly("switch config", bytes, offset::END)?;
        Ok(SwitchConfigView { bytes })
    }

    /// Returns bits of `OFPC_FRAG_*`.
    pub fn flags(&self) -> u16 {
        u16_at(self.bytes, offset::FLAGS)
    }

    /// Returns the number of bytes of a packet that go to the controller.
    pub fn miss_send_len(&self) -> u16 {
        u16_at(self.bytes, offset::MISS_SEND_LEN)
    }
}

impl SwitchConfig {
    /// Reads the owned form.
    pub fn parse(view: &SwitchConfigView<'_>) -> SwitchConfig {
        SwitchConfig { flags: view.flags(), miss_send_len: view.miss_send_len() }
    }

    /// Appends the message without its header.
    ///
    /// # Errors
    /// None; the result is for uniformity with other messages.
    pub fn emit(&self, out: &mut Vec<u8>) -> Result<()> {
        out.put_u16(self.flags);
        out.put_u16(self.miss_send_len);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::msg::test::{check, check_truncated};
    use crate::msg::{Message, Version};

    #[test]
    fn both_directions_look_the_same() {
        let config = SwitchConfig { flags: 1, miss_send_len: 128 };
        check(Version::Of10, "01 08 000c 00000001 0001 0080", Message::GetConfigReply(config));
        check(Version::Of13, "04 09 000c 00000001 0001 0080", Message::SetConfig(config));
        check(Version::Of13, "04 07 0008 00000001", Message::GetConfigRequest);
        check_truncated("04 09 000c 00000001 0001 0080");
    }
}
