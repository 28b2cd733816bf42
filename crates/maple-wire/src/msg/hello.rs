//! Hello: opens a connection and negotiates its version (1.0 §5.5.1, 1.3 §6.3.1 and §7.5.1).

use super::Version;
use super::bytes::{Element, Put, Reader};
use super::wire::Wire;
use crate::error::Result;

/// `OFPHET_VERSIONBITMAP`.
const VERSION_BITMAP: u16 = 1;

/// An element's length does not count its padding.
const ELEMENT: Element = Element { pad_to: 8, ..Element::new("hello element", 2) };
/// The length of an element's type and length in bytes.
const ELEMENT_MIN: usize = 4;

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

    /// Reports whether the sender offers a wire version: by the bitmap if there is one, otherwise all versions up to
    /// its own.
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
}

impl Wire for Hello {
    fn read(reader: &mut Reader<'_>) -> Result<Hello> {
        let version = reader.whole().first().copied().unwrap_or_default();
        let mut elements = Vec::new();
        while reader.remaining() > 0 {
            elements.push(match reader.element(&ELEMENT, ELEMENT_MIN) {
                Ok(mut element) => HelloElement::read(&mut element)?,
                Err(_) => HelloElement::Trailing(reader.rest().to_vec()),
            });
        }
        Ok(Hello { version, elements })
    }

    fn write(&self, version: Version, out: &mut Vec<u8>) -> Result<()> {
        for element in &self.elements {
            if let HelloElement::Trailing(bytes) = element {
                out.put(bytes);
                continue;
            }
            let start = out.len();
            out.put_sized(ELEMENT.length_at[0], |out| element.write(version, out))?;
            out.pad_from(start, ELEMENT.pad_to);
        }
        Ok(())
    }
}

impl Wire for HelloElement {
    fn read(reader: &mut Reader<'_>) -> Result<HelloElement> {
        let (kind, _length) = (reader.u16()?, reader.u16()?);
        if kind == VERSION_BITMAP && reader.remaining().is_multiple_of(4) {
            return reader.list().map(HelloElement::VersionBitmap);
        }
        Ok(HelloElement::Unknown { kind, body: reader.rest().to_vec() })
    }

    fn write(&self, version: Version, out: &mut Vec<u8>) -> Result<()> {
        match self {
            HelloElement::VersionBitmap(words) => {
                out.put_u16(VERSION_BITMAP);
                out.put_u16(0);
                words.write(version, out)?;
            }
            HelloElement::Unknown { kind, body } => {
                out.put_u16(*kind);
                out.put_u16(0);
                out.put(body);
            }
            HelloElement::Trailing(bytes) => out.put(bytes),
        }
        Ok(())
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
