//! The byte-level operations on which every codec here is built: a [`Reader`] that checks each read, big-endian
//! numbers, elements with lengths of their own.

use crate::error::{Error, Result};
use crate::msg::Version;
use crate::msg::wire::Wire;

/// Checks that `bytes` has at least `need` bytes. The functions that read numbers rely on it.
pub(crate) fn at_least(what: &'static str, bytes: &[u8], need: usize) -> Result<()> {
    if bytes.len() < need { Err(Error::Truncated { what, need, have: bytes.len() }) } else { Ok(()) }
}

/// Checks that `bytes` holds exactly `need` bytes.
pub(crate) fn exactly(what: &'static str, bytes: &[u8], need: usize) -> Result<()> {
    at_least(what, bytes, need)?;
    if bytes.len() > need { Err(Error::BadLength { what, length: bytes.len() }) } else { Ok(()) }
}

/// Creates the error for something that `version` cannot express.
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

/// The way in which an element of a list carries its own 16-bit length.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Element {
    /// The name of an element in errors.
    pub what: &'static str,
    /// The offset of the length in an element, in 1.0 and in 1.3.
    pub length_at: [usize; 2],
    /// The length must be a multiple of this number of bytes.
    pub multiple: usize,
    /// Elements are padded to a multiple of this number of bytes, beyond their length.
    pub pad_to: usize,
}

impl Element {
    /// Describes elements of any length, whose length is at an offset, without padding.
    pub const fn new(what: &'static str, length_at: usize) -> Element {
        Element { what, length_at: [length_at; 2], multiple: 1, pad_to: 1 }
    }
}

/// Reads a structure from its front. Each read checks that the bytes are there, and errors name the structure.
#[derive(Clone, Debug)]
pub(crate) struct Reader<'a> {
    what: &'static str,
    version: Version,
    /// The whole structure.
    bytes: &'a [u8],
    /// The bytes that were not read yet.
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Reads a structure that may take all of `bytes`. Errors call it `what`.
    #[inline]
    pub fn new(what: &'static str, version: Version, bytes: &'a [u8]) -> Reader<'a> {
        Reader { what, version, bytes, rest: bytes }
    }

    /// Calls the structure `what` in errors from now on.
    #[inline]
    pub fn call(&mut self, what: &'static str) {
        self.what = what;
    }

    /// Returns the version.
    #[inline]
    pub fn version(&self) -> Version {
        self.version
    }

    /// Reports whether the version is 1.0.
    #[inline]
    pub fn is_10(&self) -> bool {
        self.version == Version::Of10
    }

    /// Returns the whole structure, what was read included.
    #[inline]
    pub fn whole(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns the bytes that were not read yet.
    #[inline]
    pub fn ahead(&self) -> &'a [u8] {
        self.rest
    }

    /// Returns the number of bytes that were not read yet.
    #[inline]
    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// Counts from here: the next structure begins after the bytes that were read.
    #[inline]
    pub fn restart(&mut self) -> &mut Reader<'a> {
        self.bytes = self.rest;
        self
    }

    /// Checks that this number of bytes remain, for 1.0 and for 1.3.
    ///
    /// # Errors
    /// [`Error::Truncated`] if fewer do.
    #[inline]
    pub fn need(&self, count: [usize; 2]) -> Result<()> {
        let count = count[self.version.index()];
        if self.rest.len() < count { Err(self.truncated(count)) } else { Ok(()) }
    }

    /// Returns the error of a read of this many bytes, of which fewer are left.
    #[cold]
    fn truncated(&self, count: usize) -> Error {
        let have = self.bytes.len();
        Error::Truncated { what: self.what, need: have - self.rest.len() + count, have }
    }

    /// Reads bytes.
    ///
    /// # Errors
    /// [`Error::Truncated`] if there are fewer.
    #[inline]
    pub fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or_else(|| self.truncated(count))?;
        self.rest = rest;
        Ok(taken)
    }

    /// Reads `N` bytes.
    ///
    /// # Errors
    /// [`Error::Truncated`] if there are fewer.
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or_else(|| self.truncated(N))?;
        self.rest = rest;
        Ok(*taken)
    }

    /// Reads all bytes that remain.
    #[inline]
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    /// Reads a byte.
    #[inline]
    pub fn u8(&mut self) -> Result<u8> {
        self.array().map(u8::from_be_bytes)
    }

    /// Reads a 16-bit number.
    #[inline]
    pub fn u16(&mut self) -> Result<u16> {
        self.array().map(u16::from_be_bytes)
    }

    /// Reads a 32-bit number.
    #[inline]
    pub fn u32(&mut self) -> Result<u32> {
        self.array().map(u32::from_be_bytes)
    }

    /// Reads a 64-bit number.
    #[inline]
    pub fn u64(&mut self) -> Result<u64> {
        self.array().map(u64::from_be_bytes)
    }

    /// Reads the next element of a list that is not empty, with its padding. An element has at least `min` bytes.
    ///
    /// All elements with lengths of their own go through here. So one place makes the checks that keep a hostile length
    /// from hanging or panicking the decoder (too small to advance, longer than the input, wrong multiple).
    ///
    /// # Errors
    /// [`Error::Truncated`] if the element is cut off, [`Error::BadLength`] if its length cannot be.
    pub fn element(&mut self, element: &Element, min: usize) -> Result<Reader<'a>> {
        let Element { what, length_at, multiple, pad_to } = *element;
        let (rest, length_at) = (self.rest, length_at[self.version.index()]);
        at_least(what, rest, min.max(length_at + 2))?;
        let length = usize::from(u16_at(rest, length_at));
        if length < min || length == 0 || length % multiple != 0 {
            return Err(Error::BadLength { what, length });
        }
        at_least(what, rest, length)?;
        // The padding of the last element may be missing, because it carries no information.
        self.rest = rest.get(length.next_multiple_of(pad_to)..).unwrap_or_default();
        Ok(Reader::new(what, self.version, &rest[..length]))
    }

    /// Reads a value that stands here in 1.0 only.
    pub fn only_10<T: Wire>(&mut self) -> Result<Option<T>> {
        if self.is_10() { T::read(self).map(Some) } else { Ok(None) }
    }

    /// Reads a part of this number of bytes, with its own reader.
    ///
    /// # Errors
    /// [`Error::Truncated`] if it is cut off.
    pub fn part(&mut self, length: usize) -> Result<Reader<'a>> {
        Ok(Reader::new(self.what, self.version, self.take(length)?))
    }

    /// Reads all that remains as values.
    pub fn list<T: Wire>(&mut self) -> Result<Vec<T>> {
        Vec::read(self)
    }

    /// Checks that no bytes remain.
    ///
    /// # Errors
    /// [`Error::BadLength`] if some do.
    pub fn end(&self) -> Result<()> {
        if self.remaining() > 0 { Err(Error::BadLength { what: self.what, length: self.bytes.len() }) } else { Ok(()) }
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
    /// Appends zero bytes until the bytes since `start` are a multiple of `size`.
    fn pad_from(&mut self, start: usize, size: usize);
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

    fn pad_from(&mut self, start: usize, size: usize) {
        let length = self.len() - start;
        self.put_zeros(length.next_multiple_of(size) - length);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const THING: Element = Element { pad_to: 8, ..Element::new("thing", 2) };

    fn elements(bytes: &[u8]) -> Result<Vec<&[u8]>> {
        let mut reader = Reader::new("things", Version::Of13, bytes);
        let mut elements = Vec::new();
        while reader.remaining() > 0 {
            elements.push(reader.element(&THING, 4)?.whole());
        }
        Ok(elements)
    }

    #[test]
    fn elements_are_cut_at_their_lengths_and_padding_is_skipped() {
        let bytes = [0, 1, 0, 5, 9, 0, 0, 0, 0, 2, 0, 4];
        assert_eq!(elements(&bytes), Ok(vec![&bytes[..5], &bytes[8..]]));
    }

    #[test]
    fn an_element_of_length_zero_ends_the_list_with_an_error() {
        assert_eq!(elements(&[0, 1, 0, 0, 9, 9, 9, 9]), Err(Error::BadLength { what: "thing", length: 0 }));
    }

    #[test]
    fn an_element_longer_than_the_list_is_truncated() {
        assert_eq!(elements(&[0, 1, 0, 9, 0]), Err(Error::Truncated { what: "thing", need: 9, have: 5 }));
        assert_eq!(elements(&[0, 1]), Err(Error::Truncated { what: "thing", need: 4, have: 2 }));
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
