//! Version negotiation (OpenFlow 1.3 §6.3.1).

use maple_wire::Version;
use maple_wire::msg::hello::{Hello, HelloElement};

/// The wire versions that Maple supports, as a hello's bitmap: 1.0 is bit 1, 1.3 is bit 4.
const OURS: u32 = 1 << Version::Of10 as u32 | 1 << Version::Of13 as u32;

/// The peer supports no version that Maple supports. The text is sent to the peer in an error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Maple speaks OpenFlow 1.0 and 1.3; this switch offers only {offered}")]
pub struct Incompatible {
    offered: String,
}

/// Returns Maple's hello: version 1.3, and a bitmap with 1.0 and 1.3.
pub fn our_hello() -> Hello {
    Hello { version: Version::Of13 as u8, elements: vec![HelloElement::VersionBitmap(vec![OURS])] }
}

/// Chooses the version to use with a peer that sent `hello`.
///
/// With a bitmap, this is the highest common version. A hello without a bitmap stands for its version and all lower
/// ones: Open vSwitch with its default protocols sends 1.5 in this way. If a switch supports only 1.4 or 1.5 and sends
/// no bitmap, its next message shows that ([`Incompatible::version`]).
///
/// # Errors
/// [`Incompatible`] if the peer offers neither 1.0 nor 1.3.
pub fn negotiate(hello: &Hello) -> Result<Version, Incompatible> {
    let bitmap = hello.elements.iter().find_map(|element| match element {
        HelloElement::VersionBitmap(words) => Some(words.first().copied().unwrap_or(0)),
        HelloElement::Unknown { .. } | HelloElement::Trailing(_) => None,
    });
    let offered = bitmap.unwrap_or_else(|| up_to(hello.version));
    if offered & 1 << Version::Of13 as u32 != 0 {
        Ok(Version::Of13)
    } else if offered & 1 << Version::Of10 as u32 != 0 {
        Ok(Version::Of10)
    } else {
        Err(Incompatible { offered: names(offered, hello.version) })
    }
}

impl Incompatible {
    /// Creates the error for a peer that sent a message in this version after another one was negotiated.
    pub fn version(version: u8) -> Incompatible {
        Incompatible { offered: names(1u32.checked_shl(version.into()).unwrap_or(0), version) }
    }
}

/// Returns the bits of the versions from 1 to this one.
fn up_to(version: u8) -> u32 {
    (u64::from(u32::MAX) >> (31 - version.min(31))) as u32 & !1
}

/// Returns the versions of a bitmap in words, or the version byte if the bitmap has no named version.
fn names(bitmap: u32, version: u8) -> String {
    let known: Vec<&str> = [(2, "1.1"), (3, "1.2"), (5, "1.4"), (6, "1.5")]
        .iter()
        .filter(|(n, _)| bitmap & 1 << n != 0)
        .map(|(_, name)| *name)
        .collect();
    if known.is_empty() { format!("wire version {version:#04x}") } else { known.join(" and ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello(version: u8, bitmap: Option<Vec<u32>>) -> Hello {
        Hello { version, elements: bitmap.into_iter().map(HelloElement::VersionBitmap).collect() }
    }

    #[test]
    fn the_highest_common_version_is_chosen() {
        assert_eq!(negotiate(&hello(6, Some(vec![0x7e]))), Ok(Version::Of13));
        assert_eq!(negotiate(&hello(6, Some(vec![0x42]))), Ok(Version::Of10));
        assert_eq!(negotiate(&our_hello()), Ok(Version::Of13));
    }

    #[test]
    fn a_hello_without_a_bitmap_stands_for_its_version_and_those_below() {
        for (version, expected) in [(1, Version::Of10), (2, Version::Of10), (3, Version::Of10)] {
            assert_eq!(negotiate(&hello(version, None)), Ok(expected));
        }
        for version in [4, 5, 6, 7, 31, 32, 255] {
            assert_eq!(negotiate(&hello(version, None)), Ok(Version::Of13), "{version}");
        }
    }

    #[test]
    fn a_peer_without_a_common_version_is_told_what_maple_speaks() {
        for (hello, offered) in [
            (hello(6, Some(vec![0x60])), "1.4 and 1.5"),
            (hello(6, Some(vec![0x40])), "1.5"),
            (hello(3, Some(vec![0x0c])), "1.1 and 1.2"),
            (hello(0, None), "wire version 0x00"),
            (hello(6, Some(vec![])), "wire version 0x06"),
            (hello(4, Some(vec![0, 0xff])), "wire version 0x04"),
        ] {
            let text = negotiate(&hello).unwrap_err().to_string();
            assert_eq!(text, format!("Maple speaks OpenFlow 1.0 and 1.3; this switch offers only {offered}"));
        }
        assert_eq!(Incompatible::version(6), Incompatible { offered: "1.5".into() });
        assert_eq!(Incompatible::version(200), Incompatible { offered: "wire version 0xc8".into() });
    }
}
