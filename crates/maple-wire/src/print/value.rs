//! Values of fields: addresses, masks, numbers.

use std::fmt::{self, Write};
use std::net::{Ipv4Addr, Ipv6Addr};

use crate::field::{Field, ValueKind};
use crate::flow::Constraint;
use crate::msg::oxm::Stated;
use crate::packet::text;
use crate::port::PortNo;

/// A value in hex as C's `%#x` writes it: zero has no `0x`.
pub(super) struct Hex(pub u128);

impl fmt::Display for Hex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 { f.write_char('0') } else { write!(f, "{:#x}", self.0) }
    }
}

/// Bytes in hex, without spaces.
pub(super) struct HexBytes<'a>(pub &'a [u8]);

impl fmt::Display for HexBytes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A hardware address in the low 48 bits.
pub(super) struct Mac(pub u128);

impl From<[u8; 6]> for Mac {
    fn from(bytes: [u8; 6]) -> Mac {
        Mac(bytes.iter().fold(0, |value, byte| value << 8 | u128::from(*byte)))
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&text::mac(self.0 as u64))
    }
}

/// An IPv6 address as `inet_ntop` of the C library writes it.
///
/// It differs from Rust's own form in one case: an address with only the last 32 bits in use, including at least one of
/// their upper 16, ends like an IPv4 address (`::1.2.3.4`).
pub(super) struct Ipv6(pub u128);

impl fmt::Display for Ipv6 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if (0x1_0000..1 << 32).contains(&self.0) {
            write!(f, "::{}", Ipv4Addr::from(self.0 as u32))
        } else {
            write!(f, "{}", Ipv6Addr::from(self.0))
        }
    }
}

/// The names of the bits that are set, separated by spaces.
pub(super) struct BitNames<'a> {
    /// The bits.
    pub bits: u32,
    /// A name for each bit from the lowest on; empty for a bit without one.
    pub names: &'a [&'a str],
    /// The text if no bit is set.
    pub zero: &'static str,
    /// Whether bits without a name are shown, as one hex number after the names.
    pub shows_nameless: bool,
}

impl fmt::Display for BitNames<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut nameless = self.bits;
        let mut separator = "";
        for (bit, name) in self.names.iter().enumerate() {
            if self.bits & 1 << bit != 0 && !name.is_empty() {
                write!(f, "{separator}{name}")?;
                nameless &= !(1 << bit);
                separator = " ";
            }
        }
        if nameless != 0 && self.shows_nameless {
            return write!(f, "{separator}{nameless:#x}");
        }
        f.write_str(if separator.is_empty() { self.zero } else { "" })
    }
}

/// Seconds with as many decimals as needed: none, three, or up to nine.
pub(super) struct Duration {
    /// Whole seconds.
    pub sec: u32,
    /// Nanoseconds beyond the whole seconds.
    pub nsec: u32,
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.sec)?;
        if self.nsec == 0 {
        } else if self.nsec.is_multiple_of(1_000_000) {
            write!(f, ".{:03}", self.nsec / 1_000_000)?;
        } else {
            write!(f, ".{}", format!("{:09}", self.nsec).trim_end_matches('0'))?;
        }
        f.write_char('s')
    }
}

/// Text of unknown origin. Characters that are not printable ASCII, quotes and backslashes are written as octal
/// escapes.
pub(super) struct Printable<'a>(pub &'a [u8]);

impl fmt::Display for Printable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| match byte {
            b'"' | b'\\' => write!(f, "\\{byte:03o}"),
            b' '..=b'~' => f.write_char(char::from(*byte)),
            _ => write!(f, "\\{byte:03o}"),
        })
    }
}

/// A name from a switch, unchanged except for characters that are not printable ASCII and backslashes, which are octal
/// escapes.
pub(super) struct EscapedText<'a>(pub &'a [u8]);

impl fmt::Display for EscapedText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| match byte {
            b'\\' => f.write_str("\\134"),
            b' '..=b'~' => f.write_char(char::from(*byte)),
            _ => write!(f, "\\{byte:03o}"),
        })
    }
}

/// Lines of sixteen bytes: offset, hex, and the printable characters.
pub(super) struct HexDump<'a>(pub &'a [u8]);

impl fmt::Display for HexDump<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (row, line) in self.0.chunks(16).enumerate() {
            write!(f, "{:08x} ", row * 16)?;
            for at in 0..16 {
                let separator = if at == 8 && line.len() >= 8 { '-' } else { ' ' };
                match line.get(at) {
                    Some(byte) => write!(f, "{separator}{byte:02x}")?,
                    None => write!(f, "{separator}  ")?,
                }
            }
            let text = |byte: &u8| if (b' '..=b'~').contains(byte) { char::from(*byte) } else { '.' };
            let text: String = line.iter().map(text).collect();
            writeln!(f, " |{text:16}|")?;
        }
        Ok(())
    }
}

/// A constraint's value, and after a slash its mask unless all bits count.
///
/// Masks of IP addresses that are prefixes are written as their length. Masked numbers are hex.
pub(super) struct Masked<'a>(pub &'a Constraint);

impl fmt::Display for Masked<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Constraint { field, value, mask } = *self.0;
        if self.0.is_exact() { write_value(f, field, value) } else { write_masked(f, field, value, mask) }
    }
}

/// The content of an entry that no packet can fit: a value with bits that its mask or the field lacks.
pub(super) struct Impossible<'a>(pub &'a Stated);

impl fmt::Display for Impossible<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Stated { field, value, mask } = *self.0;
        match mask {
            Some(mask) => write_masked(f, field, value, mask),
            None => write_value(f, field, value),
        }
    }
}

fn write_masked(f: &mut fmt::Formatter<'_>, field: Field, value: u128, mask: u128) -> fmt::Result {
    match (field.kind(), field.prefix_length(mask)) {
        (ValueKind::Ipv4 | ValueKind::Ipv6, Some(length)) => {
            write_value(f, field, value)?;
            write!(f, "/{length}")
        }
        (ValueKind::Mac | ValueKind::Ipv4 | ValueKind::Ipv6, _) => {
            write_value(f, field, value)?;
            f.write_char('/')?;
            write_value(f, field, mask)
        }
        // Among all numbers, only ports under a mask have a `0x` before their zero too.
        (ValueKind::TransportPort, _) => write!(f, "{value:#x}/{mask:#x}"),
        _ => write!(f, "{}/{}", Hex(value), Hex(mask)),
    }
}

fn write_value(f: &mut fmt::Formatter<'_>, field: Field, value: u128) -> fmt::Result {
    match field.kind() {
        _ if matches!(field, Field::VlanVid | Field::PbbIsid) => write!(f, "{value}"),
        ValueKind::TransportPort | ValueKind::Number => write!(f, "{value}"),
        ValueKind::Bits => write!(f, "{}", Hex(value)),
        ValueKind::SwitchPort => write!(f, "{}", PortNo(value as u32)),
        ValueKind::Mac => write!(f, "{}", Mac(value)),
        ValueKind::Ipv4 => write!(f, "{}", Ipv4Addr::from(value as u32)),
        ValueKind::Ipv6 => write!(f, "{}", Ipv6(value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(constraint: Constraint, text: &str) {
        assert_eq!(Masked(&constraint).to_string(), text);
    }

    #[test]
    fn addresses_are_written_with_prefix_lengths_or_masks() {
        check(Constraint::exact(Field::Ipv4Src, 0x0a00_0001), "10.0.0.1");
        check(Constraint::masked(Field::Ipv4Src, 0x0a00_0000, 0xff00_0000), "10.0.0.0/8");
        check(Constraint::masked(Field::Ipv4Src, 1, 1), "0.0.0.1/0.0.0.1");
        check(Constraint::masked(Field::Ipv6Dst, 0xfe80 << 112, 0xffc0 << 112), "fe80::/10");
        check(Constraint::masked(Field::Ipv6Dst, 1 << 64 | 15, 1 << 64 | 15), "::1:0:0:0:f/::1:0:0:0:f");
        check(
            Constraint::masked(Field::EthSrc, 0x0102_0300_0000, 0xffff_ff00_0000),
            "01:02:03:00:00:00/ff:ff:ff:00:00:00",
        );
    }

    #[test]
    fn ipv6_addresses_are_written_as_the_c_library_does() {
        check(Constraint::exact(Field::Ipv6Src, 0x0a0b), "::a0b");
        check(Constraint::exact(Field::Ipv6Src, 0x0102_0304), "::1.2.3.4");
        check(Constraint::exact(Field::Ipv6Src, 0xffff_0a00_0001), "::ffff:10.0.0.1");
        check(Constraint::exact(Field::Ipv6Src, 0), "::");
    }

    #[test]
    fn numbers_are_hex_where_masked_or_opaque() {
        check(Constraint::masked(Field::TcpDst, 0, 0xfc00), "0x0/0xfc00");
        check(Constraint::masked(Field::Metadata, 0, 0xfc00), "0/0xfc00");
        check(Constraint::exact(Field::TcpDst, 80), "80");
        check(Constraint::masked(Field::TcpDst, 8, 15), "0x8/0xf");
        check(Constraint::exact(Field::Metadata, 0), "0");
        check(Constraint::masked(Field::Metadata, 0, 255), "0/0xff");
        check(Constraint::exact(Field::TunnelId, 3), "0x3");
        check(Constraint::exact(Field::InPort, 0xffff_fffe), "LOCAL");
    }
}
