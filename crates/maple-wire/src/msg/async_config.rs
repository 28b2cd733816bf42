//! Get-async reply and set-async (1.3 §7.3.10): the messages that a switch sends without a request.

use super::bytes::{Put, exactly, u32_at};
use crate::error::Result;

mod offset {
    pub const PACKET_IN: usize = 8;
    pub const PORT_STATUS: usize = 16;
    pub const FLOW_REMOVED: usize = 24;
    pub const END: usize = 32;
}

/// The messages that a switch sends without a request: one bit for each reason, first for a master or equal controller,
/// then for a slave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AsyncConfig {
    /// Bits of `1 << OFPR_*`.
    pub packet_in: [u32; 2],
    /// Bits of `1 << OFPPR_*`.
    pub port_status: [u32; 2],
    /// Bits of `1 << OFPRR_*`.
    pub flow_removed: [u32; 2],
}

/// A view of a get-async reply or a set-async.
#[derive(Clone, Copy, Debug)]
pub struct AsyncConfigView<'a> {
    bytes: &'a [u8],
}

impl<'a> AsyncConfigView<'a> {
    /// Creates a view of the message that takes all of `bytes`, header included.
    ///
    /// # Errors
    /// [`Error::Truncated`](crate::Error::Truncated) or [`Error::BadLength`](crate::Error::BadLength) if `bytes` has
    /// another length.
    pub fn new_checked(bytes: &'a [u8]) -> Result<AsyncConfigView<'a>> {
        exactly("async config", bytes, offset::END)?;
        Ok(AsyncConfigView { bytes })
    }

    /// Returns bits of `1 << OFPR_*`.
    pub fn packet_in(&self) -> [u32; 2] {
        self.pair(offset::PACKET_IN)
    }

    /// Returns bits of `1 << OFPPR_*`.
    pub fn port_status(&self) -> [u32; 2] {
        self.pair(offset::PORT_STATUS)
    }

    /// Returns bits of `1 << OFPRR_*`.
    pub fn flow_removed(&self) -> [u32; 2] {
        self.pair(offset::FLOW_REMOVED)
    }

    fn pair(&self, at: usize) -> [u32; 2] {
        [u32_at(self.bytes, at), u32_at(self.bytes, at + 4)]
    }
}

impl AsyncConfig {
    /// Reads the owned form.
    pub fn parse(view: &AsyncConfigView<'_>) -> AsyncConfig {
        AsyncConfig { packet_in: view.packet_in(), port_status: view.port_status(), flow_removed: view.flow_removed() }
    }

    /// Appends the message without its header.
    ///
    /// # Errors
    /// None; the result is for uniformity with other messages.
    pub fn emit(&self, out: &mut Vec<u8>) -> Result<()> {
        [self.packet_in, self.port_status, self.flow_removed].as_flattened().iter().for_each(|mask| out.put_u32(*mask));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::msg::test::{check, check_truncated, check_unsupported};
    use crate::msg::{Message, Version};

    #[test]
    fn there_is_a_mask_for_masters_and_one_for_slaves() {
        let config = AsyncConfig { packet_in: [5, 1], port_status: [7, 3], flow_removed: [15, 2] };
        let bytes = "04 1c 0020 00000001 00000005 00000001 00000007 00000003 0000000f 00000002";
        check(Version::Of13, bytes, Message::SetAsync(config));
        check(Version::Of13, &bytes.replacen("1c", "1b", 1), Message::GetAsyncReply(config));
        check_truncated(bytes);
        check_unsupported(Version::Of10, Message::SetAsync(config));
    }
}
