//! Hex dumps: lines with an offset and bytes, as `hexdump -C`, `xxd`, `od -t x1`, `tcpdump -x`, `-xx`, `-X` and `tshark
//! -x` print them. The characters next to the bytes and the lines between dumps are ignored.
//!
//! A dump begins at offset 0, and each line begins where the previous one ended. So lines of other text are
//! distinguished from those of a dump, and a missing line is detected. Lines with another indentation form another
//! dump: `tshark -z follow,tcp,hex` indents one direction.

use std::collections::BTreeMap;

use anyhow::bail;

use super::hex::value;

/// The maximum number of bytes of a dump with repeated lines (`*`). Chosen: a wrong offset after `*` must not take all
/// memory, and an OpenFlow message has at most 64 KiB.
const MAX_REPEATED: usize = 16 * 1024 * 1024;

/// A line of a dump.
#[derive(Debug, PartialEq, Eq)]
struct DumpLine<'a> {
    /// The white space before the line.
    indentation: &'a [u8],
    /// The offset's digits.
    offset: &'a str,
    bytes: Vec<u8>,
    /// Whether the bytes are grouped in words, and no colon follows the offset: words are in a machine's byte order.
    has_words: bool,
}

/// A dump that is being read.
#[derive(Debug, Default)]
struct Dump {
    bytes: Vec<u8>,
    /// The length of the last line.
    last_len: usize,
    /// Whether a line of `*` followed the last line.
    repeats: bool,
    /// Whether the bytes do not come from one packet, but `tshark` assembled them from several.
    is_assembled: bool,
}

/// Reports whether the text begins with the first line of a dump.
pub(super) fn is_first_line(text: &[u8]) -> bool {
    let mut lines = text.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
    lines.next().and_then(DumpLine::read).is_some_and(|line| line.is_at(0) && !line.bytes.is_empty())
}

/// Returns all dumps in a text, in the order of their first lines.
///
/// # Errors
/// If a line is missing, or if the bytes are in a machine's byte order.
pub(super) fn all(text: &[u8]) -> anyhow::Result<Vec<Vec<u8>>> {
    let mut dumps: Vec<Dump> = Vec::new();
    let mut open: BTreeMap<&[u8], usize> = BTreeMap::new();
    let mut heading: &[u8] = &[];
    for (number, text) in (1..).zip(text.split(|byte| *byte == b'\n')) {
        let Some(line) = DumpLine::read(text) else {
            if text.trim_ascii() == b"*" {
                open.values().for_each(|dump| dumps[*dump].repeats = true);
            } else if !text.trim_ascii().is_empty() {
                heading = text.trim_ascii();
            }
            continue;
        };
        let current = open.get(line.indentation).copied();
        if line.is_at(0) && !line.bytes.is_empty() {
            if line.has_words {
                bail!(
                    "line {number}: a dump of words, whose bytes are in the order of the machine that printed it; \
                     use `hexdump -C` or `od -t x1`"
                );
            }
            open.insert(line.indentation, dumps.len());
            dumps.push(Dump { is_assembled: is_of_several(heading), ..Dump::default() });
            dumps.last_mut().into_iter().for_each(|dump| dump.add(line.bytes.clone()));
            heading = &[];
        } else if let Some(dump) = current {
            dumps[dump].continue_with(number, line)?;
        } else if line.bytes.len() >= 8 && !line.has_words {
            bail!("line {number}: a dump begins at offset {}: its first lines are missing", line.offset);
        }
    }
    Ok(dumps.into_iter().filter(|dump| !dump.is_assembled).map(|dump| dump.bytes).collect())
}

/// Reports whether a heading of `tshark` is for bytes of several packets, such as `Reassembled TCP (32 bytes):`.
fn is_of_several(heading: &[u8]) -> bool {
    heading.ends_with(b" bytes):") && !heading.starts_with(b"Frame (")
}

impl Dump {
    fn add(&mut self, bytes: Vec<u8>) {
        self.last_len = bytes.len();
        self.bytes.extend(bytes);
    }

    /// Takes the next line of this dump, or its end.
    fn continue_with(&mut self, number: usize, line: DumpLine<'_>) -> anyhow::Result<()> {
        if !line.is_at(self.bytes.len()) {
            match (self.repeats && self.last_len > 0, line.bytes.is_empty()) {
                (true, _) => self.repeat(number, &line)?,
                (false, true) => return Ok(()),
                (false, false) => {
                    let (offset, have) = (line.offset, self.bytes.len());
                    bail!("line {number}: its offset is {offset}, and {have} bytes come before it: a line is missing")
                }
            }
        }
        self.repeats = false;
        self.add(line.bytes);
        Ok(())
    }

    /// Repeats the last line up to where this one begins.
    fn repeat(&mut self, number: usize, line: &DumpLine<'_>) -> anyhow::Result<()> {
        let repeated = self.bytes[self.bytes.len() - self.last_len..].to_vec();
        while !line.is_at(self.bytes.len()) {
            if self.bytes.len() > MAX_REPEATED {
                bail!("line {number}: no repeated line ends at offset {}", line.offset);
            }
            self.bytes.extend(&repeated);
        }
        Ok(())
    }
}

impl<'a> DumpLine<'a> {
    /// Reads a line that has an offset of at least four digits, and bytes.
    fn read(text: &'a [u8]) -> Option<DumpLine<'a>> {
        let start = text.iter().position(|byte| !matches!(byte, b' ' | b'\t'))?;
        let (indentation, text) = text.split_at(start);
        let text = text.trim_ascii_end();
        let text = text.strip_prefix(b"0x").unwrap_or(text);
        let digits = text.iter().position(|byte| !byte.is_ascii_hexdigit()).unwrap_or(text.len());
        let (offset, rest) = text.split_at(digits);
        let (rest, has_colon) = rest.strip_prefix(b":").map_or((rest, false), |rest| (rest, true));
        if !(4..=16).contains(&offset.len()) || !matches!(rest.first(), None | Some(b' ')) {
            return None;
        }
        let (bytes, widest) = groups(rest, has_colon);
        let offset = std::str::from_utf8(offset).ok()?;
        Some(DumpLine { indentation, offset, bytes, has_words: widest > 2 && !has_colon })
    }

    /// Reports whether the line has this offset. Offsets of `od` have seven digits, which may be octal or decimal.
    fn is_at(&self, offset: usize) -> bool {
        let radixes: &[u32] = if self.offset.len() == 7 { &[16, 8, 10] } else { &[16] };
        radixes.iter().any(|radix| usize::from_str_radix(self.offset, *radix) == Ok(offset))
    }
}

/// Returns the bytes in groups of digits, up to other text or a gap, and the width of the widest group.
fn groups(mut rest: &[u8], has_colon: bool) -> (Vec<u8>, usize) {
    let (mut bytes, mut widest) = (Vec::new(), 0);
    loop {
        let gap = rest.iter().position(|byte| *byte != b' ').unwrap_or(rest.len());
        // If no colon follows the offset, the gap in the middle may be wider.
        let is_within = bytes.is_empty() || gap == 1 || gap == 2 && bytes.len() == 8 && !has_colon;
        rest = &rest[gap..];
        let end = rest.iter().position(|byte| *byte == b' ').unwrap_or(rest.len());
        let (group, after) = rest.split_at(end);
        let is_group = !group.is_empty() && group.len().is_multiple_of(2) && group.iter().all(u8::is_ascii_hexdigit);
        if !is_within || !is_group {
            return (bytes, widest);
        }
        widest = widest.max(group.len());
        bytes.extend(group.chunks(2).map(|pair| value(pair[0]) << 4 | value(pair[1])));
        rest = after;
    }
}

#[cfg(test)]
mod tests;
