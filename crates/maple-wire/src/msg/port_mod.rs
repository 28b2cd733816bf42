//! Port-mod: changes the behaviour of a port (1.0 §5.3.3, 1.3 §7.3.4.3).

use super::wire::{Padded, layout};
use crate::port::PortNo;

layout! {
    /// Changes the behaviour of a port.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct PortMod {
        /// The port.
        pub port: PortNo as Padded<0, 4>,
        /// The port's hardware address, as a check; it can't be changed.
        pub hw_addr: [u8; 6] as Padded<0, 2>,
        /// New bits of `OFPPC_*`.
        pub config: u32,
        /// The bits of `config` that count.
        pub mask: u32,
        /// Features to advertise, bits of `OFPPF_*` in the version's own numbering; 0 changes nothing.
        pub advertise: u32 as Padded<4>,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::msg::test::check;
    use crate::msg::{Message, Version};

    #[test]
    fn a_port_is_taken_down_in_both_versions() {
        let down = PortMod { port: PortNo(3), hw_addr: [2, 0, 0, 0, 0, 3], config: 1, mask: 1, advertise: 0x10 };
        let of10 = "01 0f 0020 00000001 0003 020000000003 00000001 00000001 00000010 00000000";
        let of13 = "04 10 0028 00000001 00000003 00000000 020000000003 0000 00000001 00000001 00000010 00000000";
        check(Version::Of10, of10, Message::PortMod(down));
        check(Version::Of13, of13, Message::PortMod(down));
    }
}
