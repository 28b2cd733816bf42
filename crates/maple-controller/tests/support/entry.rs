//! The functions that fuzzers call: bytes from a socket, cut into reads anywhere, through the buffers and to a handler.
//!
//! A shard's framer must give the same messages as an iterator over the whole stream. A handler's answers must be whole
//! messages, however odd the packets are.

use maple_controller::framing::{Framer, StreamPart};
use maple_handlers::{Handler, LearningSwitch, Replies};
use maple_wire::msg::{Frames, PacketInView};
use maple_wire::{Error, Message, Version};

/// Runs the bytes of a fuzzer. The first byte of `data` is the length of reads in bytes, the second selects the
/// version, and the rest is the stream.
pub fn reads(data: &[u8]) {
    let [length, version, stream @ ..] = data else { return };
    let version = if version % 2 == 0 { Version::Of10 } else { Version::Of13 };
    let mut framer = Framer::default();
    let mut cut: Vec<Vec<u8>> = Vec::new();
    let mut reads = stream.chunks(usize::from(*length).max(1));
    let failed = reads.any(|read| messages(&mut framer, read, &mut cut).is_err());
    let mut whole = Frames::new(stream);
    let frames: Vec<_> = whole.by_ref().collect();
    let messages: Vec<&[u8]> = frames.iter().flatten().map(|(_, message)| *message).collect();
    assert_eq!(cut, messages);
    assert_eq!(failed, frames.iter().any(Result::is_err));
    handled(version, &messages);
}

/// Splits one read into messages as a shard does.
fn messages(framer: &mut Framer, mut read: &[u8], cut: &mut Vec<Vec<u8>>) -> Result<(), Error> {
    loop {
        match framer.next(&mut read)? {
            StreamPart::Whole(_, message) => cut.push(message.to_vec()),
            StreamPart::Completed(_, message) => cut.push(message.to_vec()),
            StreamPart::Rest(_) => break,
        }
    }
    assert!(read.is_empty(), "all is dealt with");
    assert!(framer.held() < usize::from(u16::MAX), "a whole message is held");
    Ok(())
}

/// Gives the packet-ins among the messages to a learning switch, as batches and one by one.
fn handled(version: Version, messages: &[&[u8]]) {
    let packets: Vec<_> = messages.iter().filter_map(|m| PacketInView::new_checked(version, m).ok()).collect();
    let (mut together, mut single) = (Replies::new(version), Replies::new(version));
    LearningSwitch::new().packet_ins(&packets, &mut together);
    let mut switch = LearningSwitch::new();
    packets.iter().for_each(|packet| switch.packet_in(packet, &mut single));
    assert_eq!(together.bytes(), single.bytes());
    let mut answers = Frames::new(together.bytes());
    for answer in answers.by_ref() {
        let (_, message) = answer.expect("a whole message");
        Message::decode(message).expect("one that holds together");
    }
    assert!(answers.rest().is_empty());
}
