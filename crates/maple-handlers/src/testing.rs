//! Encodes packet-ins and decodes answers, for tests of the handlers.

use maple_wire::msg::{Frames, PacketIn};
use maple_wire::{Message, Version};

/// Encodes a packet-in.
pub(crate) fn packet_in(version: Version, xid: u32, buffer_id: u32, in_port: u32, frame: &[u8]) -> Vec<u8> {
    let message = Message::PacketIn(PacketIn { buffer_id, ..PacketIn::new(in_port, frame.to_vec()) });
    message.to_bytes(version, xid).expect("it can be said")
}

/// Decodes the messages in a buffer, with their transaction ids.
pub(crate) fn decoded(bytes: &[u8]) -> Vec<(u32, Message)> {
    let frames = Frames::new(bytes);
    let messages: Vec<_> =
        frames.map(|frame| Message::decode(frame.expect("a header").1).expect("a message")).collect();
    messages.into_iter().map(|(header, message)| (header.xid, message)).collect()
}
