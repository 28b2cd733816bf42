//! Cuts a byte stream into messages, in place.

use super::Header;
use crate::error::Result;

/// Iterates over the whole messages at the front of a read buffer, without copying them.
///
/// The iterator ends after the last whole message, or at the first impossible length. [`Frames::rest`] returns the
/// bytes that were not consumed, and [`Frames::consumed`] the number of those that were.
///
/// ```
/// use maple_wire::msg::{Frames, Message};
/// use maple_wire::Version;
///
/// let mut buffer = Vec::new();
/// Message::BarrierRequest.encode(Version::Of13, 1, &mut buffer).unwrap();
/// buffer.extend([4, 0, 0]); // the start of another message
/// let mut frames = Frames::new(&buffer);
/// assert_eq!(frames.by_ref().count(), 1);
/// assert_eq!(frames.rest(), [4, 0, 0]);
/// ```
#[derive(Clone, Debug)]
pub struct Frames<'a> {
    rest: &'a [u8],
    consumed: usize,
    broken: bool,
}

impl<'a> Frames<'a> {
    /// Iterates over the messages in `buffer`, which starts where a message starts.
    pub fn new(buffer: &'a [u8]) -> Frames<'a> {
        Frames { rest: buffer, consumed: 0, broken: false }
    }

    /// Returns the bytes after the last message returned: the start of a message that is not complete yet.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Returns the number of bytes that the returned messages take.
    pub fn consumed(&self) -> usize {
        self.consumed
    }
}

impl<'a> Iterator for Frames<'a> {
    /// A message's header and all its bytes, or the error of a malformed header. An error is the last item.
    type Item = Result<(Header, &'a [u8])>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.broken {
            return None;
        }
        let header = match Header::peek(self.rest) {
            Ok(header) => header?,
            Err(error) => {
                self.broken = true;
                return Some(Err(error));
            }
        };
        let (message, rest) = self.rest.split_at_checked(usize::from(header.length))?;
        self.rest = rest;
        self.consumed += message.len();
        Some(Ok((header, message)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;

    const ECHO: [u8; 10] = [4, 2, 0, 10, 0, 0, 0, 7, 1, 2];

    #[test]
    fn whole_messages_come_out_and_the_start_of_the_next_stays() {
        let buffer = [&ECHO[..], &ECHO, &ECHO[..9]].concat();
        let mut frames = Frames::new(&buffer);
        assert_eq!(frames.next().unwrap().unwrap().1, ECHO);
        assert_eq!(frames.next().unwrap().unwrap().0.xid, 7);
        assert!(frames.next().is_none());
        assert_eq!((frames.consumed(), frames.rest()), (20, &ECHO[..9]));
    }

    #[test]
    fn a_length_under_eight_is_an_error_and_the_end() {
        let mut frames = Frames::new(&[4, 2, 0, 7, 0, 0, 0, 0, 0]);
        assert_eq!(frames.next(), Some(Err(Error::BadLength { what: "header", length: 7 })));
        assert_eq!(frames.next(), None);
    }
}
