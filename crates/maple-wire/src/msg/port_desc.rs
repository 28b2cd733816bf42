//! A port's description: `ofp_phy_port` (1.0 §5.2.1), `ofp_port` (1.3 §7.2.1).

use super::Version;
use super::bytes::{Put, array_at, exactly, records, u16_at, u32_at, unsupported};
use crate::error::Result;
use crate::port::{Port, PortNo};

mod offset10 {
    pub const NUMBER: usize = 0;
    pub const HW_ADDR: usize = 2;
    pub const NAME: usize = 8;
    pub const WORDS: usize = 24;
    pub const END: usize = 48;
}

mod offset13 {
    pub const NUMBER: usize = 0;
    pub const HW_ADDR: usize = 8;
    pub const NAME: usize = 16;
    pub const WORDS: usize = 32;
    pub const END: usize = 64;
}

/// A view of one port's description.
#[derive(Clone, Copy, Debug)]
pub struct PortView<'a> {
    version: Version,
    bytes: &'a [u8],
}

impl<'a> PortView<'a> {
    /// Creates a view of the description that takes all of `bytes`.
    ///
    /// # Errors
    /// [`Error::Truncated`](crate::Error::Truncated) or [`Error::BadLength`](crate::Error::BadLength) if `bytes` has
    /// another length.
    pub fn new_checked(version: Version, bytes: &'a [u8]) -> Result<PortView<'a>> {
        exactly("port", bytes, len(version))?;
        Ok(PortView { version, bytes })
    }

    /// Iterates over the descriptions that lie one after the other in `bytes`.
    ///
    /// # Errors
    /// [`Error::Truncated`](crate::Error::Truncated) if the last one is cut off.
    pub fn list(version: Version, bytes: &'a [u8]) -> Result<impl Iterator<Item = PortView<'a>>> {
        Ok(records("port", bytes, len(version))?.map(move |bytes| PortView { version, bytes }))
    }

    /// Returns the port's number.
    pub fn number(&self) -> PortNo {
        match self.version {
            Version::Of10 => PortNo::from_of10(u16_at(self.bytes, offset10::NUMBER)),
            Version::Of13 => PortNo(u32_at(self.bytes, offset13::NUMBER)),
        }
    }

    /// Returns the port's hardware address.
    pub fn hw_addr(&self) -> [u8; 6] {
        array_at(self.bytes, if self.version == Version::Of10 { offset10::HW_ADDR } else { offset13::HW_ADDR })
    }

    /// Returns the port's name, NUL-padded.
    pub fn name_raw(&self) -> [u8; 16] {
        array_at(self.bytes, if self.version == Version::Of10 { offset10::NAME } else { offset13::NAME })
    }

    /// Reads the owned form.
    pub fn to_port(&self) -> Port {
        let of13 = self.version == Version::Of13;
        let words = if of13 { offset13::WORDS } else { offset10::WORDS };
        let word = |n: usize| u32_at(self.bytes, words + 4 * n);
        Port {
            number: self.number(),
            hw_addr: self.hw_addr(),
            name_raw: self.name_raw(),
            config: word(0),
            state: word(1),
            curr: word(2),
            advertised: word(3),
            supported: word(4),
            peer: word(5),
            curr_speed: if of13 { word(6) } else { 0 },
            max_speed: if of13 { word(7) } else { 0 },
        }
    }
}

/// Returns the length of a description in bytes.
pub(super) const fn len(version: Version) -> usize {
    match version {
        Version::Of10 => offset10::END,
        Version::Of13 => offset13::END,
    }
}

/// Returns a port number in the form of 1.0.
pub(super) fn number10(port: PortNo) -> Result<u16> {
    match port.to_of10() {
        Some(number) => Ok(number),
        None => unsupported(Version::Of10, format!("port {port}")),
    }
}

/// Reads the port number at `at`: 16 bits in 1.0, 32 in 1.3.
pub(super) fn number_at(version: Version, bytes: &[u8], at: usize) -> PortNo {
    match version {
        Version::Of10 => PortNo::from_of10(u16_at(bytes, at)),
        Version::Of13 => PortNo(u32_at(bytes, at)),
    }
}

/// Appends a port number, and zero bytes up to `width` bytes in all.
pub(super) fn emit_number(port: PortNo, version: Version, width: usize, out: &mut Vec<u8>) -> Result<()> {
    match version {
        Version::Of10 => {
            out.put_u16(number10(port)?);
            out.put_zeros(width - 2);
        }
        Version::Of13 => {
            out.put_u32(port.0);
            out.put_zeros(width - 4);
        }
    }
    Ok(())
}

/// Appends a description. 1.0 has no place for speeds, so they are left out.
pub(super) fn emit(port: &Port, version: Version, out: &mut Vec<u8>) -> Result<()> {
    match version {
        Version::Of10 => {
            out.put_u16(number10(port.number)?);
            out.put(&port.hw_addr);
        }
        Version::Of13 => {
            out.put_u32(port.number.0);
            out.put_zeros(4);
            out.put(&port.hw_addr);
            out.put_zeros(2);
        }
    }
    out.put(&port.name_raw);
    for word in [port.config, port.state, port.curr, port.advertised, port.supported, port.peer] {
        out.put_u32(word);
    }
    if version == Version::Of13 {
        out.put_u32(port.curr_speed);
        out.put_u32(port.max_speed);
    }
    Ok(())
}
