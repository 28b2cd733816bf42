//! Filter sets in the format of ClassBench, and a linear search for the first filter that a header matches.
//!
//! Each line is a filter; the first match wins:
//!
//! ```text
//! @10.0.0.0/8 <TAB> 10.1.2.3/32 <TAB> 0 : 65535 <TAB> 80 : 80 <TAB> 0x06/0xFF <TAB> 0x0000/0x0200 <TAB>
//! ```
//!
//! Source and destination prefix, source and destination ports, protocol, flags. Flags are read and written, but
//! ignored in matching.

use std::fmt;
use std::net::Ipv4Addr;
use std::path::Path;
use std::str::FromStr;

use maple_wire::parse_hex;

use crate::headers::FiveTuple;
use crate::input::{InputError, read_lines};

/// Filters by descending precedence. A filter's number is its index, from 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterSet {
    /// The set's name: its file's name without the extension.
    pub name: String,
    /// The filters.
    pub filters: Vec<Filter>,
}

/// A condition on the five header fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Filter {
    /// Source addresses.
    pub src: Prefix,
    /// Destination addresses.
    pub dst: Prefix,
    /// Source ports.
    pub src_ports: PortRange,
    /// Destination ports.
    pub dst_ports: PortRange,
    /// The protocol; `None` matches any.
    pub proto: Option<u8>,
    /// Value and mask of the flags, which are ignored.
    pub flags: (u16, u16),
}

/// An IPv4 prefix: the addresses that agree with `address` in the first `length` bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Prefix {
    /// The address; the bits after the prefix are zero.
    pub address: u32,
    /// The number of leading bits, 0 to 32.
    pub length: u8,
}

/// Ports from `lo` to `hi`, inclusive; `lo` is at most `hi`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PortRange {
    /// The first.
    pub lo: u16,
    /// The last.
    pub hi: u16,
}

impl FilterSet {
    /// Reads a filter file.
    ///
    /// # Errors
    /// [`InputError`] if the file can't be read, or if a line is not a filter.
    pub fn read(path: &Path) -> Result<FilterSet, InputError> {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Ok(FilterSet { name, filters: read_lines(path, str::parse)? })
    }

    /// Returns the number of the first filter that the header matches, by linear search. It is the oracle for
    /// everything else.
    pub fn first_match(&self, header: &FiveTuple) -> Option<usize> {
        self.filters.iter().position(|filter| filter.fits(header))
    }
}

impl Filter {
    /// Reports whether the header matches.
    pub fn fits(&self, header: &FiveTuple) -> bool {
        self.src.holds(header.src)
            && self.dst.holds(header.dst)
            && self.src_ports.holds(header.src_port)
            && self.dst_ports.holds(header.dst_port)
            && self.proto.is_none_or(|proto| proto == header.proto)
    }
}

impl Prefix {
    /// Creates the prefix of `address` with this length (0 to 32).
    pub const fn new(address: u32, length: u8) -> Prefix {
        let prefix = Prefix { address: 0, length };
        Prefix { address: address & prefix.mask(), length }
    }

    /// Returns the mask of the prefix.
    pub const fn mask(&self) -> u32 {
        match u32::MAX.checked_shl(32 - self.length as u32) {
            Some(mask) => mask,
            None => 0,
        }
    }

    /// Reports whether the address has the prefix.
    pub const fn holds(&self, address: u32) -> bool {
        address & self.mask() == self.address
    }
}

impl PortRange {
    /// All ports.
    pub const ALL: PortRange = PortRange { lo: 0, hi: u16::MAX };

    /// Reports whether the port is in the range.
    pub const fn holds(&self, port: u16) -> bool {
        self.lo <= port && port <= self.hi
    }

    /// Reports whether the range is more than one port and less than all.
    pub const fn is_true_range(&self) -> bool {
        self.lo != self.hi && !self.is_all()
    }

    /// Reports whether every port is in the range.
    pub const fn is_all(&self) -> bool {
        self.lo == 0 && self.hi == u16::MAX
    }
}

impl FromStr for Filter {
    type Err = String;

    fn from_str(line: &str) -> Result<Filter, String> {
        let line = line.strip_prefix('@').ok_or("a filter starts with @")?;
        let tokens: Vec<&str> = line.split_whitespace().collect();
        let [src, dst, src_lo, src_colon, src_hi, dst_lo, dst_colon, dst_hi, proto, flags] = tokens[..] else {
            return Err(format!("a filter has 10 words, not {}", tokens.len()));
        };
        let proto = match masked(proto, "a protocol")? {
            (value @ 0..=0xff, 0xff) => Some(value as u8),
            (0, 0) => None,
            _ => return Err(format!("{proto} is not a protocol: the mask must be 0xFF, or both 0x00")),
        };
        Ok(Filter {
            src: src.parse()?,
            dst: dst.parse()?,
            src_ports: ports(src_lo, src_colon, src_hi)?,
            dst_ports: ports(dst_lo, dst_colon, dst_hi)?,
            proto,
            flags: masked(flags, "flags")?,
        })
    }
}

impl fmt::Display for Filter {
    /// Writes the line of a filter file.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (proto, mask) = self.proto.map_or((0, 0), |proto| (proto, 0xff));
        let Filter { src, dst, src_ports, dst_ports, flags, .. } = self;
        write!(f, "@{src}\t{dst}\t{src_ports}\t{dst_ports}\t0x{proto:02x}/0x{mask:02X}\t")?;
        write!(f, "0x{:04x}/0x{:04x}\t", flags.0, flags.1)
    }
}

impl FromStr for Prefix {
    type Err = String;

    fn from_str(text: &str) -> Result<Prefix, String> {
        let wrong = || format!("{text:?} is not a prefix such as 10.0.0.0/8");
        let (address, length) = text.split_once('/').ok_or_else(wrong)?;
        let address: Ipv4Addr = address.parse().map_err(|_| wrong())?;
        let length: u8 = length.parse().ok().filter(|length| *length <= 32).ok_or_else(wrong)?;
        let prefix = Prefix::new(address.into(), length);
        if prefix.address != u32::from(address) {
            return Err(format!("{text} has bits after its prefix"));
        }
        Ok(prefix)
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", Ipv4Addr::from(self.address), self.length)
    }
}

impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} : {}", self.lo, self.hi)
    }
}

fn ports(lo: &str, colon: &str, hi: &str) -> Result<PortRange, String> {
    let wrong = || format!("\"{lo} {colon} {hi}\" is not a range of ports such as 0 : 65535");
    let range = PortRange { lo: lo.parse().map_err(|_| wrong())?, hi: hi.parse().map_err(|_| wrong())? };
    if colon == ":" && range.lo <= range.hi { Ok(range) } else { Err(wrong()) }
}

/// Parses a value and a mask, both hexadecimal with `0x`.
fn masked(text: &str, what: &str) -> Result<(u16, u16), String> {
    let hex = |text: &str| parse_hex::<u16>(text.strip_prefix("0x")?);
    let pair = text.split_once('/').and_then(|(value, mask)| Some((hex(value)?, hex(mask)?)));
    pair.ok_or_else(|| format!("{text:?} is not {what} such as 0x06/0xFF"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = "@152.196.119.146/32\t114.219.0.0/16\t0 : 65535\t135 : 139\t0x06/0xFF\t0x1000/0x1000\t";

    #[test]
    fn a_line_is_read_and_written_alike() {
        let filter: Filter = LINE.parse().unwrap();
        assert_eq!(filter.to_string(), LINE);
        assert_eq!(filter.proto, Some(6));
        assert_eq!(filter.dst, Prefix::new(0x72db_0000, 16));
        assert_eq!((filter.src_ports, filter.dst_ports), (PortRange::ALL, PortRange { lo: 135, hi: 139 }));
        assert!(filter.dst_ports.is_true_range() && !filter.src_ports.is_true_range());
    }

    #[test]
    fn every_part_of_a_filter_counts_but_its_flags() {
        let filter: Filter = LINE.parse().unwrap();
        let fits = FiveTuple { src: 0x98c4_7792, dst: 0x72db_ffff, src_port: 7, dst_port: 139, proto: 6 };
        assert!(filter.fits(&fits));
        for other in [
            FiveTuple { src: 0x98c4_7793, ..fits },
            FiveTuple { dst: 0x72dc_0000, ..fits },
            FiveTuple { dst_port: 140, ..fits },
            FiveTuple { proto: 17, ..fits },
        ] {
            assert!(!filter.fits(&other), "{other:?}");
        }
    }

    #[test]
    fn malformed_lines_say_what_is_wrong() {
        for (line, what) in [
            ("10.0.0.0/8", "a filter starts with @"),
            ("@10.0.0.0/8", "a filter has 10 words, not 1"),
            ("@10.0.0.0/33 0.0.0.0/0 0 : 1 0 : 1 0x06/0xFF 0x0000/0x0000", "not a prefix"),
            ("@10.0.0.1/8 0.0.0.0/0 0 : 1 0 : 1 0x06/0xFF 0x0000/0x0000", "bits after its prefix"),
            ("@10.0.0.0/8 0.0.0.0/0 2 : 1 0 : 1 0x06/0xFF 0x0000/0x0000", "not a range of ports"),
            ("@10.0.0.0/8 0.0.0.0/0 0 : 65536 0 : 1 0x06/0xFF 0x0000/0x0000", "not a range of ports"),
            ("@10.0.0.0/8 0.0.0.0/0 0 : 1 0 : 1 0x06/0x0F 0x0000/0x0000", "not a protocol"),
            ("@10.0.0.0/8 0.0.0.0/0 0 : 1 0 : 1 6/255 0x0000/0x0000", "not a protocol"),
            ("@10.0.0.0/8 0.0.0.0/0 0 : 1 0 : 1 0x06/0xFF 0x0000", "not flags"),
        ] {
            let error = line.parse::<Filter>().unwrap_err();
            assert!(error.contains(what), "{line}: {error}");
        }
    }
}
