//! Hello: opens a connection and negotiates its version (1.0 §5.5.1, 1.3 §6.3.1 and §7.5.1).

use super::bytes::{Elements, Layout, Put, at_least, u16_at, u32_at};
use super::header;
use crate::error::{Error, Result};

mod offset {
    pub const VERSION: usize = 0;
    /// The offsets in an element: of its type, its length (without padding) and its content.
    pub const TYPE: usize = 0;
    pub const LENGTH: usize = 2;
    pub const BODY: usize = 4;
}

/// `OFPHET_VERSIONBITMAP`.
const VERSION_BITMAP: u16 = 1;

const LAYOUT: Layout = Layout { what: "hello element", length_at: offset::LENGTH, min: 4, multiple: 1, pad_to: 8 };

/// Opens a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The highest version that the sender speaks: the version byte of the header. It is kept here because a hello may
    /// come in any version.
    pub version: u8,
    /// The elements, in order.
    pub elements: Vec<HelloElement>,
}

/// A part of a hello.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HelloElement {
    /// The versions that the sender speaks: bit `n % 32` of word `n / 32` stands for wire version `n`.
    VersionBitmap(Vec<u32>),
    /// An element of another type, kept unchanged.
    Unknown {
        /// The number of its type.
        kind: u16,
        /// The bytes after type and length.
        body: Vec<u8>,
    },
    /// Bytes at the end that are not an element. A hello may carry anything (1.0 §5.5.1), so they are not an error.
    Trailing(Vec<u8>),
}

/// A view of a hello of any version.
#[derive(Clone, Copy, Debug)]
pub struct HelloView<'a> {
    bytes: &'a [u8],
}

impl<'a> HelloView<'a> {
    /// Creates a view of the hello that takes all of `bytes`, header included.
    ///
    /// # Errors
    /// [`Error::Truncated`] if `bytes` is shorter than a header.
    pub fn new_checked(bytes: &'a [u8]) -> Result<HelloView<'a>> {
        at_least("hello", bytes, header::LEN)?;
        Ok(HelloView { bytes })
    }

    /// Returns the header's version byte.
    pub fn version(&self) -> u8 {
        self.bytes[offset::VERSION]
    }

    /// Iterates over type and body of each element, up to the first that is malformed.
    pub fn elements(&self) -> impl Iterator<Item = (u16, &'a [u8])> {
        self.raw_elements().map_while(Result::ok).map(|bytes| (u16_at(bytes, offset::TYPE), &bytes[offset::BODY..]))
    }

    /// Returns the first word of the version bitmap, which stands for wire versions 0 to 31.
    pub fn version_bitmap(&self) -> Option<u32> {
        self.elements().find(|(kind, body)| *kind == VERSION_BITMAP && body.len() >= 4).map(|(_, body)| u32_at(body, 0))
    }

    /// Returns the bytes after the last element.
    pub fn trailing(&self) -> &'a [u8] {
        let whole = self.raw_elements().map_while(Result::ok);
        let taken: usize = whole.map(|bytes| bytes.len().next_multiple_of(LAYOUT.pad_to)).sum();
        self.bytes[header::LEN..].get(taken..).unwrap_or_default()
    }

    fn raw_elements(&self) -> Elements<'a> {
        Elements::new(LAYOUT, &self.bytes[header::LEN..])
    }
}

impl Hello {
    /// Creates a hello in `version` that offers these wire versions in a bitmap.
    pub fn offering(version: u8, versions: &[u8]) -> Hello {
        let words = versions.iter().map(|v| usize::from(*v) / 32 + 1).max().unwrap_or(1);
        let mut bitmap = vec![0; words];
        for v in versions {
            bitmap[usize::from(*v) / 32] |= 1 << (v % 32);
        }
        Hello { version, elements: vec![HelloElement::VersionBitmap(bitmap)] }
    }

    /// Reads the owned form.
    pub fn parse(view: &HelloView<'_>) -> Hello {
        let mut elements: Vec<HelloElement> = view.elements().map(HelloElement::parse).collect();
        if !view.trailing().is_empty() {
            elements.push(HelloElement::Trailing(view.trailing().to_vec()));
        }
        Hello { version: view.version(), elements }
    }

    /// Whether the sender offers a wire version: by the bitmap if there is one, otherwise all versions up to its own.
    pub fn offers(&self, version: u8) -> bool {
        let bitmap = self.elements.iter().find_map(|element| match element {
            HelloElement::VersionBitmap(words) => Some(words),
            _ => None,
        });
        match bitmap {
            Some(words) => words.get(usize::from(version) / 32).is_some_and(|word| word & 1 << (version % 32) != 0),
            None => version <= self.version,
        }
    }

    /// Appends the message without its header.
    ///
    /// # Errors
    /// An error about lengths if an element is too long.
    pub fn emit(&self, out: &mut Vec<u8>) -> Result<()> {
        let start = out.len();
        for element in &self.elements {
            element.emit(out)?;
            if !matches!(element, HelloElement::Trailing(_)) {
                out.pad_from(start);
            }
        }
        Ok(())
    }
}

impl HelloElement {
    fn parse((kind, body): (u16, &[u8])) -> HelloElement {
        if kind == VERSION_BITMAP && body.len() % 4 == 0 {
            HelloElement::VersionBitmap(body.chunks_exact(4).map(|word| u32_at(word, 0)).collect())
        } else {
            HelloElement::Unknown { kind, body: body.to_vec() }
        }
    }

    fn emit(&self, out: &mut Vec<u8>) -> Result<()> {
        if let HelloElement::Trailing(bytes) = self {
            out.put(bytes);
            return Ok(());
        }
        out.put_sized(offset::LENGTH, |out| {
            match self {
                HelloElement::VersionBitmap(words) => {
                    out.put_u16(VERSION_BITMAP);
                    out.put_u16(0);
                    words.iter().for_each(|word| out.put_u32(*word));
                }
                HelloElement::Unknown { kind, body } => {
                    out.put_u16(*kind);
                    out.put_u16(0);
                    out.put(body);
                }
                HelloElement::Trailing(_) => return Err(Error::BadLength { what: LAYOUT.what, length: 0 }),
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::msg::test::check;
    use crate::msg::{Message, Version};

    #[test]
    fn open_vswitch_says_hello_in_1_5_with_a_bitmap() {
        let hello = Hello::offering(6, &[1, 4, 5, 6]);
        check(Version::Of13, "06 00 0010 00000001 0001 0008 00000072", Message::Hello(hello.clone()));
        assert!(hello.offers(1) && !hello.offers(3) && hello.offers(6) && !hello.offers(40));
    }

    #[test]
    fn without_a_bitmap_all_versions_up_to_the_senders_are_offered() {
        let hello = Hello { version: 4, elements: vec![] };
        check(Version::Of13, "04 00 0008 00000001", Message::Hello(hello.clone()));
        assert!(hello.offers(1) && hello.offers(4) && !hello.offers(5));
    }

    #[test]
    fn unknown_elements_are_padded_and_kept() {
        let unknown = HelloElement::Unknown { kind: 9, body: vec![7] };
        let elements = vec![unknown, HelloElement::VersionBitmap(vec![2, 1])];
        let bytes = "04 00 001c 00000001 0009 0005 07 000000 0001 000c 00000002 00000001";
        // The padding of the last element is written, and may be missing when read.
        let hello = Message::Hello(Hello { version: 4, elements });
        check(
            Version::Of13,
            "04 00 0020 00000001 0009 0005 07 000000 0001 000c 00000002 00000001 00000000",
            hello.clone(),
        );
        assert_eq!(Message::decode(&crate::msg::test::hex(bytes)).unwrap().1, hello);
    }

    #[test]
    fn bytes_that_are_no_element_are_kept() {
        let trailing = HelloElement::Trailing(b"extra data\n".to_vec());
        let hello = Hello { version: 1, elements: vec![trailing] };
        check(Version::Of10, "01 00 0013 00000001 65787472612064617461 0a", Message::Hello(hello));
        let trailing = HelloElement::Trailing(vec![0, 1, 0, 0, 1, 2, 3, 4]);
        let hello = Hello { version: 1, elements: vec![trailing] };
        check(Version::Of10, "01 00 0010 00000001 0001 0000 01020304", Message::Hello(hello));
    }
}
