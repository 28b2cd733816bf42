//! The bodies of the fuzz targets, with bytes that are nearly right.

#[path = "../support/entry.rs"]
mod entry;

use proptest::prelude::*;

/// Makes the bytes of a message whose header is right, mostly a packet-in.
fn message() -> impl Strategy<Value = Vec<u8>> {
    let kind = prop_oneof![8 => Just(10u8), 1 => any::<u8>()];
    let body = prop::collection::vec(prop_oneof![2 => any::<u8>(), 3 => Just(0), 1 => Just(8)], 0..120);
    (prop_oneof![Just(1u8), Just(4)], kind, body).prop_map(|(version, kind, body)| {
        let length = (8 + body.len()) as u16;
        [&[version, kind][..], &length.to_be_bytes(), &[0; 4], &body].concat()
    })
}

/// Makes a 1.0 packet-in with a frame: a common Ethernet type or a length, and random bytes after it.
fn packet_in() -> impl Strategy<Value = Vec<u8>> {
    let kind = prop::sample::select(vec![[8, 0], [8, 6], [0x86, 0xdd], [0x81, 0], [0, 46]]);
    (kind, prop::collection::vec(any::<u8>(), 0..64), 0u8..4, 0u8..4).prop_map(|(kind, rest, src, dst)| {
        let ends = [2, 0, 0, 0, 0, dst, 2, 0, 0, 0, 0, src];
        let frame = [&ends[..], &kind, &[0x45], &rest].concat();
        let (length, total) = ((18 + frame.len()) as u16, frame.len() as u16);
        let fixed = [&[0, 0, 0, src][..], &total.to_be_bytes(), &[0, src + 1, 0, 0]].concat();
        [&[1, 10][..], &length.to_be_bytes(), &[0; 4], &fixed, &frame].concat()
    })
}

proptest! {
    #[test]
    fn reads_of_any_length_give_the_same_messages_and_whole_answers(
        length: u8,
        version: u8,
        messages in prop::collection::vec(prop_oneof![message(), packet_in()], 0..20),
        rest in prop::collection::vec(any::<u8>(), 0..20),
    ) {
        entry::reads(&[&[length, version][..], &messages.concat(), &rest].concat());
    }
}
