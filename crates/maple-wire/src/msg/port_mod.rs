//! Port-mod: changes the behaviour of a port (1.0 §5.3.3, 1.3 §7.3.4.3).

use super::Version;
use super::bytes::{Put, array_at, exactly, u32_at};
use super::port_desc::{emit_number, number_at};
use crate::error::Result;
use crate::port::PortNo;

mod offset {
    pub const NUMBER: usize = 8;
}

mod offset10 {
    pub const HW_ADDR: usize = 10;
    pub const CONFIG: usize = 16;
    pub const END: usize = 32;
}

mod offset13 {
    pub const HW_ADDR: usize = 16;
    pub const CONFIG: usize = 24;
    pub const END: usize = 40;
}

/// Changes the behaviour of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortMod {
    /// The port.
    pub port: PortNo,
    /// The port's hardware address, as a check; it can't be changed.
    pub hw_addr: [u8; 6],
    /// New bits of `OFPPC_*`.
    pub config: u32,
    /// The bits of `config` that count.
    pub mask: u32,
    /// Features to advertise, bits of `OFPPF_*` in the version's own numbering; 0 changes nothing.
    pub advertise: u32,
}

/// A view of a port-mod.
#[derive(Clone, Copy, Debug)]
pub struct PortModView<'a> {
    version: Version,
    bytes: &'a [u8],
}

impl<'a> PortModView<'a> {
    /// Creates a view of the port-mod that takes all of `bytes`, header included.
    ///
    /// # Errors
    /// [`Error::Truncated`](crate::Error::Truncated) or [`Error::BadLength`](crate::Error::BadLength) if `bytes` has
    /// another length.
    pub fn new_checked(version: Version, bytes: &'a [u8]) -> Result<PortModView<'a>> {
        exactly("port-mod", bytes, if version == Version::Of10 { offset10::END } else { offset13::END })?;
        Ok(PortModView { version, bytes })
    }

    /// Returns the port.
    pub fn port(&self) -> PortNo {
        number_at(self.version, self.bytes, offset::NUMBER)
    }

    /// Returns the port's hardware address.
    pub fn hw_addr(&self) -> [u8; 6] {
        array_at(self.bytes, if self.version == Version::Of10 { offset10::HW_ADDR } else { offset13::HW_ADDR })
    }

    /// Returns the new bits of `OFPPC_*`.
    pub fn config(&self) -> u32 {
        u32_at(self.bytes, self.config_at())
    }

    /// Returns the bits of `config` that count.
    pub fn mask(&self) -> u32 {
        u32_at(self.bytes, self.config_at() + 4)
    }

    /// Returns the features to advertise.
    pub fn advertise(&self) -> u32 {
        u32_at(self.bytes, self.config_at() + 8)
    }

    fn config_at(&self) -> usize {
        if self.version == Version::Of10 { offset10::CONFIG } else { offset13::CONFIG }
    }
}

impl PortMod {
    /// Reads the owned form.
    pub fn parse(view: &PortModView<'_>) -> PortMod {
        PortMod {
            port: view.port(),
            hw_addr: view.hw_addr(),
            config: view.config(),
            mask: view.mask(),
            advertise: view.advertise(),
        }
    }

    /// Appends the message without its header.
    ///
    /// # Errors
    /// [`Error::Unsupported`](crate::Error::Unsupported) if 1.0 has no such port number.
    pub fn emit(&self, version: Version, out: &mut Vec<u8>) -> Result<()> {
        let of10 = version == Version::Of10;
        emit_number(self.port, version, if of10 { 2 } else { 8 }, out)?;
        out.put(&self.hw_addr);
        out.put_zeros(if of10 { 0 } else { 2 });
        out.put_u32(self.config);
        out.put_u32(self.mask);
        out.put_u32(self.advertise);
        out.put_zeros(4);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::msg::Message;
    use crate::msg::test::{check, check_truncated};

    #[test]
    fn a_port_is_taken_down_in_both_versions() {
        let down = PortMod { port: PortNo(3), hw_addr: [2, 0, 0, 0, 0, 3], config: 1, mask: 1, advertise: 0x10 };
        let of10 = "01 0f 0020 00000001 0003 020000000003 00000001 00000001 00000010 00000000";
        let of13 = "04 10 0028 00000001 00000003 00000000 020000000003 0000 00000001 00000001 00000010 00000000";
        check(Version::Of10, of10, Message::PortMod(down));
        check(Version::Of13, of13, Message::PortMod(down));
        check_truncated(of10);
        check_truncated(of13);
    }
}
