//! Every message of both versions that is written is read as an equal value.

use maple_wire::{Error, Message, Version};
use proptest::prelude::*;

use crate::support::{entry, generate};

/// Checks that `message` is written in `version` and read as itself. If it is cut or damaged, it is refused or read as
/// another message, without harm.
fn check(version: Version, message: &Message, xid: u32, damage: &[(prop::sample::Index, u8)]) {
    let mut bytes = message.to_bytes(version, xid).unwrap_or_else(|error| panic!("{error}: {message:?}"));
    let (header, decoded) = Message::decode(&bytes).unwrap_or_else(|error| panic!("{error}: {message:?}"));
    assert_eq!((&decoded, header.xid), (message, xid));
    let again = decoded.to_bytes(version, xid).expect("what was written once can be written again");
    assert_eq!(again, bytes);
    for length in 0..bytes.len() {
        assert!(matches!(Message::decode(&bytes[..length]), Err(Error::Truncated { .. })));
    }
    for (at, bits) in damage {
        let at = at.index(bytes.len());
        bytes[at] ^= bits;
        entry::message(version, &bytes);
    }
}

/// Checks that each cut of `message`, with a header of its length, does no harm.
fn check_cuts(version: Version, message: &Message) {
    let bytes = message.to_bytes(version, 1).expect("generated messages can be written");
    for length in 8..bytes.len() {
        entry::message(version, &bytes[..length]);
    }
}

fn damage() -> impl Strategy<Value = Vec<(prop::sample::Index, u8)>> {
    prop::collection::vec((any::<prop::sample::Index>(), 1u8..), 0..12)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn every_1_0_message_is_read_as_it_was_written(
        message in generate::message(Version::Of10), xid in any::<u32>(), damage in damage(),
    ) {
        check(Version::Of10, &message, xid, &damage);
    }

    #[test]
    fn every_1_3_message_is_read_as_it_was_written(
        message in generate::message(Version::Of13), xid in any::<u32>(), damage in damage(),
    ) {
        check(Version::Of13, &message, xid, &damage);
    }

    #[test]
    fn arbitrary_bytes_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        entry::message(Version::Of10, &bytes);
        entry::message(Version::Of13, &bytes);
        entry::hello(&bytes);
        entry::stream(&bytes);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn cut_messages_do_no_harm(
        of10 in generate::message(Version::Of10), of13 in generate::message(Version::Of13),
    ) {
        check_cuts(Version::Of10, &of10);
        check_cuts(Version::Of13, &of13);
    }

    #[test]
    fn messages_of_1_0_are_written_in_1_3_or_refused(message in generate::message(Version::Of10)) {
        let mut out = Vec::new();
        match message.encode(Version::Of13, 1, &mut out) {
            Ok(()) => prop_assert!(Message::decode(&out).is_ok()),
            Err(error) => {
                prop_assert!(matches!(error, Error::Unsupported { .. }), "{error}: {message:?}");
                prop_assert!(out.is_empty());
            }
        }
    }
}
