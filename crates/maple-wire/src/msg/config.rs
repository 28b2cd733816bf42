//! Get-config reply and set-config (1.0 §5.3.2, 1.3 §7.3.2).

use super::wire::layout;

layout! {
    /// A switch's treatment of fragments, and the number of bytes of a packet that it sends.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct SwitchConfig {
        /// Bits of `OFPC_FRAG_*`; 0 means normal treatment.
        pub flags: u16,
        /// Bytes of a packet that go to the controller if no action gives a number; 0xffff means all.
        pub miss_send_len: u16,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::msg::test::check;
    use crate::msg::{Message, Version};

    #[test]
    fn switch_configurations_look_the_same_in_both_directions() {
        let config = SwitchConfig { flags: 1, miss_send_len: 128 };
        check(Version::Of10, "01 08 000c 00000001 0001 0080", Message::GetConfigReply(config));
        check(Version::Of13, "04 09 000c 00000001 0001 0080", Message::SetConfig(config));
        check(Version::Of13, "04 07 0008 00000001", Message::GetConfigRequest);
    }
}
