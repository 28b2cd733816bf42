//! The byte-level operations on which every codec here is built: checked lengths, big-endian numbers, lists.
//!
//! All nested lists go through [`Elements`] or [`records`]. So one place makes the checks that keep a hostile length
//! from hanging or panicking the decoder (too small to advance, longer than the input, wrong multiple).

use crate::error::{Error, Result};
use crate::msg::Version;

/// Checks that `bytes` has at least `need` bytes. The functions that read numbers rely on it.
pub(crate) fn at_least(what: &'static str, bytes: &[u8], need: usize) -> Result<()> {
    if bytes.len() < need { Err(Error::Truncated { what, need, have: bytes.len() }) } else { Ok(()) }
}

/// Checks that `bytes` holds exactly `need` bytes.
pub(crate) fn exactly(what: &'static str, bytes: &[u8], need: usize) -> Result<()> {
    at_least(what, bytes, need)?;
    if bytes.len() > need { Err(Error::BadLength { what, length: bytes.len() }) } else { Ok(()) }
}

/// Returns the error for something that `version` cannot express.
pub(crate) fn unsupported<T>(version: Version, what: impl Into<String>) -> Result<T> {
    Err(Error::Unsupported { version, what: what.into() })
}

/// Fails with [`Error::Unsupported`] in OpenFlow 1.0.
pub(crate) fn only_of13(version: Version, what: &str) -> Result<()> {
    if version == Version::Of10 { unsupported(version, what) } else { Ok(()) }
}

/// Returns `N` bytes from `at`, which must lie within `bytes`.
pub(crate) fn array_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(&bytes[at..at + N]);
    array
}

/// Reads the 16-bit number at `at`, which must lie within `bytes`.
pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes(array_at(bytes, at))
}

/// Reads the 32-bit number at `at`, which must lie within `bytes`.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(array_at(bytes, at))
}

/// Reads the 64-bit number at `at`, which must lie within `bytes`.
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(array_at(bytes, at))
}

/// Returns the number that up to 16 big-endian bytes represent.
pub(crate) fn number(bytes: &[u8]) -> u128 {
    bytes.iter().fold(0, |n, byte| n << 8 | u128::from(*byte))
}

/// Rounds `length` up to a multiple of 8.
pub(crate) fn padded(length: usize) -> usize {
    length.next_multiple_of(8)
}

/// The layout of a list whose elements carry their own 16-bit lengths.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    /// The name of an element in errors.
    pub what: &'static str,
    /// The offset of the length in an element.
    pub length_at: usize,
    /// The minimum length of an element in bytes: at least that of its fixed part, so never 0.
    pub min: usize,
    /// The length must be a multiple of this number of bytes.
    pub multiple: usize,
    /// Elements are padded to a multiple of this number of bytes, beyond their length.
    pub pad_to: usize,
}

/// Iterates over elements that carry their own lengths. The first error is the last item.
#[derive(Clone, Debug)]
pub(crate) struct Elements<'a> {
    layout: Layout,
    rest: &'a [u8],
}

impl<'a> Elements<'a> {
    /// Iterates over the elements in `bytes`.
    pub fn new(layout: Layout, bytes: &'a [u8]) -> Elements<'a> {
        Elements { layout, rest: bytes }
    }

    /// Removes and returns the next element of a list that is not empty.
    fn take(&mut self) -> Result<&'a [u8]> {
        let Layout { what, length_at, min, multiple, pad_to } = self.layout;
        at_least(what, self.rest, min.max(length_at + 2))?;
        let length = usize::from(u16_at(self.rest, length_at));
        if length < min || length == 0 || length % multiple != 0 {
            return Err(Error::BadLength { what, length });
        }
        at_least(what, self.rest, length)?;
        let (element, _) = self.rest.split_at(length);
        // The padding of the last element may be missing, because it carries no information.
        self.rest = self.rest.get(length.next_multiple_of(pad_to)..).unwrap_or_default();
        Ok(element)
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = Result<&'a [u8]>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let element = self.take();
        if element.is_err() {
            self.rest = &[];
        }
        Some(element)
    }
}

/// Iterates over records of `size` bytes each. Fails if the last one is cut off.
pub(crate) fn records<'a>(what: &'static str, bytes: &'a [u8], size: usize) -> Result<std::slice::ChunksExact<'a, u8>> {
    let chunks = bytes.chunks_exact(size);
    match chunks.remainder().len() {
        0 => Ok(chunks),
        have => Err(Error::Truncated { what, need: size, have }),
    }
}

/// Appends big-endian numbers to a buffer.
pub(crate) trait Put {
    /// Appends a byte.
    fn put_u8(&mut self, value: u8);
    /// Appends a 16-bit number.
    fn put_u16(&mut self, value: u16);
    /// Appends a 32-bit number.
    fn put_u32(&mut self, value: u32);
    /// Appends a 64-bit number.
    fn put_u64(&mut self, value: u64);
    /// Appends the low `bytes` bytes of a number.
    fn put_number(&mut self, value: u128, bytes: usize);
    /// Appends bytes as they are.
    fn put(&mut self, bytes: &[u8]);
    /// Appends zero bytes.
    fn put_zeros(&mut self, count: usize);
    /// Appends the bytes that `body` writes, and stores their number as a 16-bit number at `length_at` within them.
    fn put_sized(&mut self, length_at: usize, body: impl FnOnce(&mut Self) -> Result<()>) -> Result<()>;
    /// Appends zero bytes until the bytes since `start` are a multiple of 8.
    fn pad_from(&mut self, start: usize);
}

impl Put for Vec<u8> {
    fn put_u8(&mut self, value: u8) {
        self.push(value);
    }

    fn put_u16(&mut self, value: u16) {
        self.extend_from_slice(&value.to_be_bytes());
    }

    fn put_u32(&mut self, value: u32) {
        self.extend_from_slice(&value.to_be_bytes());
    }

    fn put_u64(&mut self, value: u64) {
        self.extend_from_slice(&value.to_be_bytes());
    }

    fn put_number(&mut self, value: u128, bytes: usize) {
        self.extend_from_slice(&value.to_be_bytes()[16 - bytes..]);
    }

    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }

    fn put_zeros(&mut self, count: usize) {
        self.resize(self.len() + count, 0);
    }

    fn put_sized(&mut self, length_at: usize, body: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        let start = self.len();
        body(self)?;
        let length = self.len() - start;
        let bytes = u16::try_from(length).map_err(|_| Error::TooLong(length))?.to_be_bytes();
        self[start + length_at..start + length_at + 2].copy_from_slice(&bytes);
        Ok(())
    }

    fn pad_from(&mut self, start: usize) {
        let length = self.len() - start;
        self.put_zeros(padded(length) - length);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYOUT: Layout = Layout { what: "thing", length_at: 2, min: 4, multiple: 1, pad_to: 8 };

    fn elements(bytes: &[u8]) -> Vec<Result<&[u8]>> {
        Elements::new(LAYOUT, bytes).collect()
    }

    #[test]
    fn elements_are_cut_at_their_lengths_and_padding_is_skipped() {
        let bytes = [0, 1, 0, 5, 9, 0, 0, 0, 0, 2, 0, 4];
        assert_eq!(elements(&bytes), [Ok(&bytes[..5]), Ok(&bytes[8..])]);
    }

    #[test]
    fn an_element_of_length_zero_ends_the_list_with_an_error() {
        assert_eq!(elements(&[0, 1, 0, 0, 9, 9, 9, 9]), [Err(Error::BadLength { what: "thing", length: 0 })]);
    }

    #[test]
    fn an_element_longer_than_the_list_is_truncated() {
        assert_eq!(elements(&[0, 1, 0, 9, 0]), [Err(Error::Truncated { what: "thing", need: 9, have: 5 })]);
        assert_eq!(elements(&[0, 1]), [Err(Error::Truncated { what: "thing", need: 4, have: 2 })]);
    }

    #[test]
    fn a_body_longer_than_16_bits_can_say_is_refused() {
        let mut out = Vec::new();
        let result = out.put_sized(0, |out| {
            out.put_zeros(0x1_0000);
            Ok(())
        });
        assert_eq!(result, Err(Error::TooLong(0x1_0000)));
    }
}
