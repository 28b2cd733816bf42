//! Splits a connection's byte stream into OpenFlow messages, in place if a message arrived whole.
//!
//! A shard reads every socket into one large buffer, and the connection's [`Framer`] splits what was read. A message
//! that lies whole in the buffer is a slice of it. Only the start of a message that is incomplete at the end of a read
//! is copied: at most 65,535 bytes, each once. So a peer that sends one byte at a time costs one byte's work for each
//! read, and a connection between messages holds no buffer.

use maple_wire::{Error, Header};

/// The largest empty buffer that is kept for the start of a message, in bytes: a packet-in with a frame of 1,500 bytes
/// fits. A larger one is freed.
const MAX_KEPT: usize = 2048;
/// The maximum number of bytes that a shard reads from a socket in one turn. Chosen: no OpenFlow message is longer, and
/// a larger share would let a switch that floods delay the others.
pub(crate) const READ_SHARE: usize = 64 * 1024;
/// The number of bytes of the OpenFlow header (1.0 §5.1, 1.3 §7.1).
const HEADER: usize = 8;

/// The start of a message that has not arrived whole.
#[derive(Debug, Default)]
pub struct Framer {
    partial: Vec<u8>,
    /// Whether `partial` has become a whole message, which was returned.
    is_whole: bool,
}

/// The next part of a stream.
#[derive(Debug, PartialEq, Eq)]
pub enum StreamPart<'held, 'read> {
    /// A message that lies whole in the read.
    Whole(Header, &'read [u8]),
    /// A message that began in an earlier read. It is always the first of a read.
    Completed(Header, &'held [u8]),
    /// No whole message is left. The framer has kept the start of the next one; its header, if that is complete.
    Rest(Option<Header>),
}

impl Framer {
    /// Takes the next message from the front of `read`, the bytes that are not split yet.
    ///
    /// # Errors
    /// [`Error`] if a header has an invalid length. Then the rest of the stream cannot be split.
    #[inline]
    pub fn next<'read>(&mut self, read: &mut &'read [u8]) -> Result<StreamPart<'_, 'read>, Error> {
        if !self.partial.is_empty() {
            if !self.is_whole {
                return self.complete(read);
            }
            self.partial.clear();
            self.is_whole = false;
        }
        let header = Header::peek(read)?;
        if let Some(header) = header
            && let Some((message, rest)) = read.split_at_checked(usize::from(header.length))
        {
            *read = rest;
            return Ok(StreamPart::Whole(header, message));
        }
        self.keep(read);
        Ok(StreamPart::Rest(header))
    }

    /// Returns the start of a message that has not arrived whole.
    pub fn started(&self) -> &[u8] {
        if self.is_whole { &[] } else { &self.partial }
    }

    /// Begins with the start of a message that arrived elsewhere.
    pub fn begin_with(&mut self, started: &[u8]) {
        self.partial.extend_from_slice(started);
    }

    /// Returns the number of kept bytes of an incomplete message.
    pub fn held(&self) -> usize {
        if self.is_whole { 0 } else { self.partial.len() }
    }

    /// Moves bytes from `read` until the kept message is whole or `read` is empty.
    #[cold]
    fn complete<'read>(&mut self, read: &mut &'read [u8]) -> Result<StreamPart<'_, 'read>, Error> {
        self.take_up_to(HEADER, read);
        let Some(header) = Header::peek(&self.partial)? else { return Ok(StreamPart::Rest(None)) };
        self.take_up_to(usize::from(header.length), read);
        self.is_whole = self.partial.len() == usize::from(header.length);
        Ok(if self.is_whole { StreamPart::Completed(header, &self.partial) } else { StreamPart::Rest(Some(header)) })
    }

    /// Moves bytes from `read` until `length` are kept or `read` is empty.
    fn take_up_to(&mut self, length: usize, read: &mut &[u8]) {
        let missing = length.saturating_sub(self.partial.len()).min(read.len());
        let (taken, rest) = read.split_at(missing);
        self.partial.extend_from_slice(taken);
        *read = rest;
    }

    /// Keeps the start of the next message. None is kept yet.
    fn keep(&mut self, read: &mut &[u8]) {
        if read.is_empty() && self.partial.capacity() > MAX_KEPT {
            self.partial = Vec::new();
        }
        self.partial.extend_from_slice(std::mem::take(read));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Makes a message of this length, in bytes, whose bytes after the header count up.
    fn message(length: u16, xid: u32) -> Vec<u8> {
        let mut bytes = vec![4, 2];
        bytes.extend(length.to_be_bytes());
        bytes.extend(xid.to_be_bytes());
        bytes.extend((8..length).map(|n| n as u8));
        bytes
    }

    fn collect(framer: &mut Framer, chunk: &[u8]) -> Vec<Vec<u8>> {
        let (mut read, mut got) = (chunk, Vec::new());
        loop {
            let (header, bytes) = match framer.next(&mut read).expect("headers are right") {
                StreamPart::Whole(header, bytes) => (header, bytes),
                StreamPart::Completed(header, bytes) => (header, bytes),
                StreamPart::Rest(_) => return got,
            };
            assert_eq!(usize::from(header.length), bytes.len());
            got.push(bytes.to_vec());
        }
    }

    #[test]
    fn reading_one_byte_at_a_time_yields_the_same_messages() {
        let stream = [message(8, 1), message(300, 2), message(8, 3)].concat();
        let mut framer = Framer::default();
        let got: Vec<_> = stream.iter().flat_map(|byte| collect(&mut framer, &[*byte])).collect();
        assert_eq!(got.concat(), stream);
        assert_eq!((got.len(), framer.held()), (3, 0));
    }

    #[test]
    fn a_header_is_seen_before_its_message_is_whole() {
        let mut framer = Framer::default();
        let message = message(300, 2);
        let mut header = |read: &[u8]| match framer.next(&mut &*read) {
            Ok(StreamPart::Rest(header)) => header.map(|header| header.length),
            other => panic!("{other:?}"),
        };
        assert_eq!(
            (header(&message[..5]), header(&message[5..9]), header(&message[9..20])),
            (None, Some(300), Some(300))
        );
    }

    #[test]
    fn a_length_under_eight_fails_after_the_messages_before_it() {
        let mut framer = Framer::default();
        let bad = [message(8, 1), vec![4, 2, 0, 7, 0, 0, 0, 0]].concat();
        let mut read = &bad[..];
        assert!(matches!(framer.next(&mut read), Ok(StreamPart::Whole(..))));
        assert!(framer.next(&mut read).is_err());
    }

    #[test]
    fn a_length_of_zero_in_pieces_fails_and_does_not_hang() {
        let mut framer = Framer::default();
        collect(&mut framer, &[4, 2, 0]);
        assert!(framer.next(&mut &[0, 0, 0, 0, 0, 9, 9][..]).is_err());
    }

    #[test]
    fn a_large_buffer_is_given_back_when_its_message_is_whole() {
        let mut framer = Framer::default();
        let large = message(60_000, 1);
        collect(&mut framer, &large[..50_000]);
        collect(&mut framer, &large[50_000..]);
        assert_eq!(framer.partial.capacity(), 0);
    }

    proptest! {
        #[test]
        fn any_splitting_gives_the_same_messages(
            lengths in prop::collection::vec(8u16..400, 1..20),
            cuts in prop::collection::vec(1usize..300, 1..60),
        ) {
            let stream: Vec<u8> =
                lengths.iter().enumerate().flat_map(|(i, length)| message(*length, i as u32)).collect();
            let (mut framer, mut rest, mut got) = (Framer::default(), &stream[..], Vec::new());
            for cut in cuts.iter().cycle() {
                let (chunk, after) = rest.split_at((*cut).min(rest.len()));
                got.extend(collect(&mut framer, chunk));
                rest = after;
                if rest.is_empty() {
                    break;
                }
            }
            prop_assert_eq!(got.len(), lengths.len());
            prop_assert_eq!(got.concat(), stream);
        }
    }
}
