//! Cuts a connection's byte stream into OpenFlow messages, in place where a message came in whole.
//!
//! A shard reads every socket into one large buffer and feeds what it read to the connection's [`Framer`]. Messages
//! that lie whole in the buffer are handed on as slices of it. Only the bytes of a message that is still incomplete at
//! the end of a read are copied aside, at most 65,535 of them, each once: a peer that sends one byte at a time costs
//! one byte's work a read, and a connection between messages holds no buffer at all.

use maple_wire::{Error, Header};
use std::ops::ControlFlow;

/// A buffer for the start of a message that gets smaller than this is kept; a larger one is given back when empty.
const KEEP: usize = 2048;
/// Length of the OpenFlow header.
const HEADER: usize = 8;

/// The start of a message that has not come in whole yet.
#[derive(Debug, Default)]
pub struct Framer {
    partial: Vec<u8>,
}

impl Framer {
    /// Feeds bytes as they came in; `each` gets every message that is now whole, with its header.
    ///
    /// `each` breaks off when the connection is to close; the bytes behind are then forgotten. Fails on a header whose
    /// length can't be one, after handing out all messages before it.
    pub fn feed(
        &mut self,
        mut chunk: &[u8],
        mut each: impl FnMut(Header, &[u8]) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, Error> {
        if !self.partial.is_empty() {
            let Some(header) = self.complete(&mut chunk)? else { return Ok(ControlFlow::Continue(())) };
            let flow = each(header, &self.partial);
            self.partial.clear();
            if flow.is_break() {
                return Ok(flow);
            }
        }
        while let Some(header) = Header::peek(chunk)? {
            let Some((message, rest)) = chunk.split_at_checked(usize::from(header.length)) else { break };
            chunk = rest;
            if each(header, message).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        self.keep(chunk);
        Ok(ControlFlow::Continue(()))
    }

    /// The header of the message that is still coming in, as soon as it is there.
    pub fn pending(&self) -> Option<Header> {
        Header::peek(&self.partial).ok().flatten()
    }

    /// Bytes held aside.
    pub fn held(&self) -> usize {
        self.partial.len()
    }

    /// What is there of the message begun; all of it once [`Framer::complete`] has given its header.
    pub fn begun(&self) -> &[u8] {
        &self.partial
    }

    /// Forgets the message begun.
    pub fn clear(&mut self) {
        self.partial.clear();
    }

    /// Moves bytes from `chunk` until the message begun is whole; `None` if they do not suffice. Fails on a header whose
    /// length can't be one.
    pub fn complete(&mut self, chunk: &mut &[u8]) -> Result<Option<Header>, Error> {
        self.take_up_to(HEADER, chunk);
        let Some(header) = Header::peek(&self.partial)? else { return Ok(None) };
        self.take_up_to(usize::from(header.length), chunk);
        Ok((self.partial.len() == usize::from(header.length)).then_some(header))
    }

    /// Moves bytes from `chunk` until `length` are held or `chunk` is empty.
    fn take_up_to(&mut self, length: usize, chunk: &mut &[u8]) {
        let missing = length.saturating_sub(self.partial.len()).min(chunk.len());
        let (taken, rest) = chunk.split_at(missing);
        self.partial.extend_from_slice(taken);
        *chunk = rest;
    }

    /// Puts the start of the next message aside, where none is begun.
    pub fn keep(&mut self, rest: &[u8]) {
        if rest.is_empty() && self.partial.capacity() > KEEP {
            self.partial = Vec::new();
        }
        self.partial.extend_from_slice(rest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A message of this length whose bytes behind the header count up.
    fn message(length: u16, xid: u32) -> Vec<u8> {
        let mut bytes = vec![4, 2];
        bytes.extend(length.to_be_bytes());
        bytes.extend(xid.to_be_bytes());
        bytes.extend((8..length).map(|n| n as u8));
        bytes
    }

    fn collect(framer: &mut Framer, chunk: &[u8]) -> Vec<Vec<u8>> {
        let mut got = Vec::new();
        let flow = framer.feed(chunk, |header, bytes| {
            assert_eq!(usize::from(header.length), bytes.len());
            got.push(bytes.to_vec());
            ControlFlow::Continue(())
        });
        assert_eq!(flow, Ok(ControlFlow::Continue(())));
        got
    }

    #[test]
    fn one_byte_at_a_time_gives_the_same_messages() {
        let stream = [message(8, 1), message(300, 2), message(8, 3)].concat();
        let mut framer = Framer::default();
        let got: Vec<_> = stream.iter().flat_map(|byte| collect(&mut framer, &[*byte])).collect();
        assert_eq!(got.concat(), stream);
        assert_eq!((got.len(), framer.held()), (3, 0));
    }

    #[test]
    fn a_header_is_seen_before_its_message_is_whole() {
        let mut framer = Framer::default();
        collect(&mut framer, &message(300, 2)[..9]);
        assert_eq!(framer.pending().map(|h| h.length), Some(300));
    }

    #[test]
    fn a_length_under_eight_fails_after_the_messages_before_it() {
        let mut framer = Framer::default();
        let mut seen = 0;
        let bad = [message(8, 1), vec![4, 2, 0, 7, 0, 0, 0, 0]].concat();
        let result = framer.feed(&bad, |_, _| {
            seen += 1;
            ControlFlow::Continue(())
        });
        assert_eq!((result.is_err(), seen), (true, 1));
    }

    #[test]
    fn a_length_of_zero_in_pieces_fails_and_does_not_hang() {
        let mut framer = Framer::default();
        collect(&mut framer, &[4, 2, 0]);
        assert!(framer.feed(&[0, 0, 0, 0, 0, 9, 9], |_, _| ControlFlow::Continue(())).is_err());
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
