//! Headers as abstract 5-tuples, and traces of them in the format of ClassBench.
//!
//! Each line of a trace is a header ([`maple_load::traced_header`]), with the number of the filter that it was
//! generated from. An earlier filter may match the header too.

use std::path::Path;
use std::str::FromStr;

use maple_core::Fields;
use maple_load::Header;
use maple_wire::Field;

use crate::input::{InputError, read_lines};

/// A packet as its five header fields.
///
/// It has ports for any protocol; they are called `tcp_src` and `tcp_dst`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FiveTuple {
    /// Source address.
    pub src: u32,
    /// Destination address.
    pub dst: u32,
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// Protocol.
    pub proto: u8,
}

/// A line of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TracedHeader {
    /// The header.
    pub header: FiveTuple,
    /// The filter that it was generated from, from 0. This need not be the first filter that it matches.
    pub made_from: u32,
}

impl TracedHeader {
    /// Reads a trace. Decompresses it if the file's name ends in `.gz`.
    ///
    /// # Errors
    /// [`InputError`] if the file can't be read, or if a line is not a header.
    pub fn read(path: &Path) -> Result<Vec<TracedHeader>, InputError> {
        read_lines(path, str::parse)
    }

    /// Writes the line of a trace. `flags`: the value and mask of the flags of the filter that the header was generated
    /// from.
    pub fn line(&self, flags: (u16, u16)) -> String {
        let FiveTuple { src, dst, src_port, dst_port, proto } = self.header;
        let flags = u32::from(flags.0) << 16 | u32::from(flags.1);
        format!("{src}\t{dst}\t{src_port}\t{dst_port}\t{proto}\t{flags}\t{}", self.made_from)
    }
}

impl FromStr for TracedHeader {
    type Err = String;

    fn from_str(line: &str) -> Result<TracedHeader, String> {
        let (Header { src, dst, src_port, dst_port, proto }, made_from) = maple_load::traced_header(line)?;
        let header = FiveTuple { src: src.into(), dst: dst.into(), src_port, dst_port, proto };
        Ok(TracedHeader { header, made_from })
    }
}

impl Fields for FiveTuple {
    fn value(&self, field: Field) -> Option<u128> {
        match field {
            Field::Ipv4Src => Some(self.src.into()),
            Field::Ipv4Dst => Some(self.dst.into()),
            Field::IpProto => Some(self.proto.into()),
            Field::TcpSrc => Some(self.src_port.into()),
            Field::TcpDst => Some(self.dst_port.into()),
            _ => None,
        }
    }

    fn is_captured(&self, _: Field) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    const LINES: &str = "1804686016\t2312319091\t65535\t6789\t6\t268439552\t22\n\n0\t1\t2\t3\t255\t4294967295\t550\n";

    fn wanted() -> Vec<TracedHeader> {
        let (first, last) = (
            FiveTuple { src: 1_804_686_016, dst: 2_312_319_091, src_port: 65535, dst_port: 6789, proto: 6 },
            FiveTuple { src: 0, dst: 1, src_port: 2, dst_port: 3, proto: 255 },
        );
        vec![TracedHeader { header: first, made_from: 22 }, TracedHeader { header: last, made_from: 550 }]
    }

    #[test]
    fn traces_are_read_plain_and_compressed() {
        let folder = tempfile::tempdir().unwrap();
        let (plain, packed) = (folder.path().join("x.trace"), folder.path().join("x.trace.gz"));
        fs::write(&plain, LINES).unwrap();
        let mut encoder = GzEncoder::new(fs::File::create(&packed).unwrap(), Compression::fast());
        encoder.write_all(LINES.as_bytes()).unwrap();
        encoder.finish().unwrap();
        assert_eq!(TracedHeader::read(&plain).unwrap(), wanted());
        assert_eq!(TracedHeader::read(&packed).unwrap(), wanted());

        fs::write(&plain, "1 2 3 4 5 6 7\n1 2 3 4 256 6 7\n").unwrap();
        let error = TracedHeader::read(&plain).unwrap_err().to_string();
        assert_eq!(error, format!("{}:2: \"256\" is not a protocol", plain.display()));
        fs::write(&plain, "\n").unwrap();
        assert!(TracedHeader::read(&plain).unwrap_err().to_string().ends_with("the file is empty"));
        folder.close().unwrap();
        assert!(matches!(TracedHeader::read(&plain), Err(InputError::Unreadable { .. })));
    }
}
