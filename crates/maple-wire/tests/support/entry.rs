//! The decoders as a fuzzer sees them: functions that take any bytes and panic if a guarantee is broken.
//!
//! The fuzz targets in `fuzz/` and the smoke test `robustness.rs` call these functions.

use maple_wire::field::Field;
use maple_wire::msg::{Frames, PacketInView};
use maple_wire::packet::dhcp::{self, Dhcp};
use maple_wire::packet::{igmp, mld};
use maple_wire::{Error, Message, Packet, Version};

/// Reads `data` as a message of `version`. The header's version and length are made to fit, so that reading goes deeper
/// than the header.
pub fn message(version: Version, data: &[u8]) {
    any_message(data);
    if let Some(bytes) = with_header(version, data) {
        any_message(&bytes);
        packet_in(version, &bytes);
    }
}

/// Reads `data` as a hello of any version.
pub fn hello(data: &[u8]) {
    let Some(mut bytes) = with_header(Version::Of10, data) else { return };
    (bytes[0], bytes[1]) = (data[0], 0);
    any_message(&bytes);
    let Ok((_, Message::Hello(hello))) = Message::decode(&bytes) else { panic!("eight bytes are a hello: {bytes:?}") };
    for version in 0..=255 {
        let _ = hello.offers(version);
    }
}

/// Reads `data` as a frame, asking for every field.
pub fn packet(data: &[u8]) {
    let packet = Packet::new(data, 1);
    for field in Field::ALL {
        if let Some(value) = packet.get(field) {
            assert!(value <= field.full_mask(), "{field} {value:#x}");
        }
        let _ = packet.switch_value(field);
    }
    let _ = packet.vlans().count() + packet.mpls_stack().count();
    let _ = maple_wire::packet::text::summary(&packet);
    if let Some(tlvs) = maple_wire::packet::lldp::tlvs(&packet) {
        let _ = tlvs.count();
    }
    let _ = (igmp::read(&packet), mld::read(&packet), dhcp::read(&packet));
    let _ = (igmp::parse(data), mld::parse(data), Dhcp::parse(data));
}

/// Cuts `data` into messages, whole and in two parts, and checks that the messages do not depend on the cut.
pub fn stream(data: &[u8]) {
    let whole = frames(data);
    let at = data.first().map_or(0, |byte| usize::from(*byte) % (data.len() + 1));
    let mut first = Frames::new(&data[..at]);
    let mut parts: Vec<_> = first.by_ref().map(|frame| frame.map(|(_, bytes)| bytes.to_vec())).collect();
    if parts.last().is_none_or(Result::is_ok) {
        parts.extend(frames(&data[first.consumed()..]));
    }
    assert_eq!(parts, whole);
}

fn frames(data: &[u8]) -> Vec<Result<Vec<u8>, Error>> {
    let mut frames = Frames::new(data);
    let mut consumed = 0;
    let mut out = Vec::new();
    while let Some(frame) = frames.next() {
        out.push(frame.map(|(header, bytes)| {
            assert_eq!(usize::from(header.length), bytes.len());
            bytes.to_vec()
        }));
        assert!(frames.consumed() > consumed || out.last().is_some_and(Result::is_err), "no progress");
        consumed = frames.consumed();
    }
    assert_eq!(frames.rest(), &data[consumed..]);
    out
}

/// Returns `data` with a header of `version` and the right length. `None` if it is shorter than a header, or too long.
fn with_header(version: Version, data: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = data.to_vec();
    let length = u16::try_from(bytes.len()).ok().filter(|length| *length >= 8)?;
    bytes[0] = version as u8;
    bytes[2..4].copy_from_slice(&length.to_be_bytes());
    Some(bytes)
}

/// Reads a message, and checks that a message that can be read can be written and then reads as an equal value.
fn any_message(bytes: &[u8]) {
    let Ok((header, message)) = Message::decode(bytes) else { return };
    let version = header.version().unwrap_or(Version::Of13);
    let mut again = Vec::new();
    match message.encode(version, header.xid, &mut again) {
        // Missing padding is added when a message is written, which can make it too long.
        Err(Error::TooLong(_)) => return,
        result => result.unwrap_or_else(|error| panic!("{error}: {message:?}")),
    }
    let (_, second) = Message::decode(&again).unwrap_or_else(|error| panic!("{error}: {message:?}"));
    assert_eq!(second, message);
    assert!(!maple_wire::print::message(&header, &message).contains('\n'));
}

/// Walks through a packet-in in place.
fn packet_in(version: Version, bytes: &[u8]) {
    let Ok(view) = PacketInView::new_checked(version, bytes) else { return };
    let _ = (view.in_port(), view.reason(), view.cookie(), view.table_id(), view.data().len());
    for field in [Field::InPort, Field::Metadata, Field::EthType] {
        let _ = view.pipeline_field(field);
    }
}
