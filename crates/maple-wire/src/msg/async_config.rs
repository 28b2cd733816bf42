//! Get-async reply and set-async (1.3 §7.3.10): the messages that a switch sends without a request.

use super::wire::layout;

layout! {
    /// The messages that a switch sends without a request: one bit for each reason, first for a master or equal
    /// controller, then for a slave.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct AsyncConfig {
        /// Bits of `1 << OFPR_*`.
        pub packet_in: [u32; 2],
        /// Bits of `1 << OFPPR_*`.
        pub port_status: [u32; 2],
        /// Bits of `1 << OFPRR_*`.
        pub flow_removed: [u32; 2],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::msg::test::{check, check_unsupported};
    use crate::msg::{Message, Version};

    #[test]
    fn asynchronous_messages_have_a_mask_for_masters_and_one_for_slaves() {
        let config = AsyncConfig { packet_in: [5, 1], port_status: [7, 3], flow_removed: [15, 2] };
        let bytes = "04 1c 0020 00000001 00000005 00000001 00000007 00000003 0000000f 00000002";
        check(Version::Of13, bytes, Message::SetAsync(config));
        check(Version::Of13, &bytes.replacen("1c", "1b", 1), Message::GetAsyncReply(config));
        check_unsupported(Version::Of10, Message::SetAsync(config));
    }
}
