//! Shared helpers of the codecs' unit tests: messages as hex text, compared in both directions.

use super::{Header, Message, Version};
use crate::Error;

/// Decodes hex digits; white space is skipped.
pub(crate) fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text.chars().filter_map(|c| c.to_digit(16)).collect();
    digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect()
}

/// Checks that `bytes` decode to `message`, and `message` encodes to `bytes`. Checks too that no cut of `bytes`
/// decodes, and that no cut with an adapted header makes the decoder panic.
#[track_caller]
pub(crate) fn check(version: Version, bytes: &str, message: Message) {
    let bytes = hex(bytes);
    let (header, decoded) = Message::decode(&bytes).unwrap();
    assert_eq!(decoded, message);
    assert_eq!(usize::from(header.length), bytes.len());
    let mut out = b"before".to_vec();
    message.encode(version, header.xid, &mut out).unwrap();
    assert_eq!(out, [b"before", &bytes[..]].concat(), "encoded {}", show(&out[6..]));
    for length in 0..bytes.len() {
        let mut cut = bytes[..length].to_vec();
        assert!(matches!(Message::decode(&cut), Err(Error::Truncated { .. })), "cut at {length}");
        if length >= super::header::LEN {
            cut[2..4].copy_from_slice(&(length as u16).to_be_bytes());
            let _ = Message::decode(&cut);
            assert!(Header::of_message(&cut).is_ok());
        }
    }
}

/// Checks that `version` can't express `message`, and that the buffer stays unchanged.
#[track_caller]
pub(crate) fn check_unsupported(version: Version, message: Message) {
    let mut out = b"before".to_vec();
    assert!(matches!(message.encode(version, 1, &mut out), Err(Error::Unsupported { .. })));
    assert_eq!(out, b"before");
}

fn show(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
