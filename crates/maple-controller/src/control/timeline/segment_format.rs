//! The format of a segment: [`MAGIC`], then entries. An entry has its length and a CRC-32 before it.
//!
//! Segments are only appended to. So a crash can only cut the last entries off, and what is before them is whole.

use super::entry::Stamped;
use crate::storage::format::{Damaged, put, read};

/// The start of each segment: four bytes that say what it is, and the number of its format.
pub(super) const MAGIC: [u8; 8] = *b"MTL\0\0\0\0\x03";
/// The number of bytes before an entry: four for its length, four for its CRC-32.
const HEADER: usize = 8;

/// Encodes an entry.
pub(super) fn encode(entry: &Stamped) -> Vec<u8> {
    let mut bytes = vec![0; HEADER];
    let done = put(entry, &mut bytes);
    debug_assert!(done.is_ok(), "each entry has a form: {entry:?}");
    let (length, checksum) = ((bytes.len() - HEADER) as u32, crc32fast::hash(&bytes[HEADER..]));
    bytes[..4].copy_from_slice(&length.to_be_bytes());
    bytes[4..HEADER].copy_from_slice(&checksum.to_be_bytes());
    bytes
}

/// Reads the entries of a segment in order. Returns how many bytes the whole ones take, and what is wrong with those
/// that follow.
pub(super) fn each_entry(bytes: &[u8], mut each: impl FnMut(Stamped)) -> (usize, Option<Damaged>) {
    if !bytes.starts_with(&MAGIC) {
        let why = if MAGIC.starts_with(bytes) { "it is cut before its first entry" } else { "it is of another format" };
        return (0, Some(Damaged(why)));
    }
    let mut at = MAGIC.len();
    while at < bytes.len() {
        match entry_at(&bytes[at..]) {
            Ok((entry, length)) => {
                each(entry);
                at += length;
            }
            Err(damage) => return (at, Some(damage)),
        }
    }
    (at, None)
}

/// Reads the first entry of some bytes. Returns how many it takes.
pub(super) fn entry_at(bytes: &[u8]) -> Result<(Stamped, usize), Damaged> {
    let number = |at: usize| bytes.get(at..at + 4).and_then(|four| four.try_into().ok()).map(u32::from_be_bytes);
    let cut = Damaged("it ends within an entry");
    let (length, checksum) = number(0).zip(number(4)).ok_or(cut)?;
    let end = HEADER + length as usize;
    let own = bytes.get(HEADER..end).ok_or(cut)?;
    if crc32fast::hash(own) != checksum {
        return Err(Damaged("a checksum is wrong"));
    }
    Ok((read(own)?, end))
}
