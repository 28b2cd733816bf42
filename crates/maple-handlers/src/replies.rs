//! The messages of a handler, encoded into the switch's write buffer.

use std::time::Duration;

use maple_controller::after;
use maple_controller::session::ENGINE_XIDS;
use maple_core::engine::Time;
use maple_wire::msg::kind;
use maple_wire::{Message, Version};

/// The position of the type in a message, in bytes (1.0 §5.1, 1.3 §7.1).
const TYPE: usize = 1;
/// The position of the length in a message, in bytes (1.0 §5.1, 1.3 §7.1).
const LENGTH: std::ops::Range<usize> = 2..4;

/// The numbers of appended messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MessageCounts {
    /// All messages.
    pub messages: u64,
    /// The flow-mods among them.
    pub flow_mods: u64,
    /// The packet-outs among them.
    pub packet_outs: u64,
    /// The messages that the switch's version cannot express. They were not appended.
    pub unencodable: u64,
}

/// The messages of a handler, in order, and its timer.
///
/// The bytes are the switch's write buffer itself, so appended messages are not copied again.
#[derive(Debug)]
pub struct Replies {
    version: Version,
    now: Time,
    bytes: Vec<u8>,
    counts: MessageCounts,
    timer: Option<Time>,
    next_xid: u32,
    /// The requests that the switch will answer.
    requests: Vec<u32>,
}

impl Default for Replies {
    fn default() -> Replies {
        Replies::new(Version::Of13)
    }
}

impl Replies {
    /// Creates an empty buffer for a switch of this version, at time 0.
    pub fn new(version: Version) -> Replies {
        Replies {
            version,
            now: Time::default(),
            bytes: Vec::new(),
            counts: MessageCounts::default(),
            timer: None,
            next_xid: ENGINE_XIDS,
            requests: Vec::new(),
        }
    }

    /// Returns the OpenFlow version of the switch.
    #[inline]
    pub fn version(&self) -> Version {
        self.version
    }

    /// Returns the current time.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Returns the bytes appended since they were last taken.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the numbers of messages since they were last taken.
    pub fn counts(&self) -> MessageCounts {
        self.counts
    }

    /// Appends an answer to the message with this transaction id. A message that the version cannot express is not
    /// appended, but counted and logged.
    pub fn answer(&mut self, xid: u32, message: &Message) {
        if let Err(error) = self.try_answer(xid, message) {
            tracing::error!(%error, "cannot encode a message of a handler");
        }
    }

    /// Appends an answer like [`Replies::answer`], but returns errors instead of logging them.
    ///
    /// # Errors
    /// The codec's error, if the version cannot express the message. It is counted and not appended.
    pub fn try_answer(&mut self, xid: u32, message: &Message) -> Result<(), maple_wire::Error> {
        let start = self.bytes.len();
        message.encode(self.version, xid, &mut self.bytes).inspect_err(|_| self.counts.unencodable += 1)?;
        self.count(self.bytes[start + TYPE]);
        Ok(())
    }

    /// Appends a message with a new transaction id, and returns the id. An error about this message is passed to
    /// [`crate::Handler::reply`], and so is the answer to a barrier or statistics request.
    pub fn request(&mut self, message: &Message) -> u32 {
        let xid = self.next_xid;
        if let Err(error) = self.try_request(message) {
            tracing::error!(%error, "cannot encode a message of a handler");
        }
        xid
    }

    /// Appends a request like [`Replies::request`], but returns errors instead of logging them.
    ///
    /// # Errors
    /// The codec's error, if the version cannot express the message. It is counted and not appended.
    pub fn try_request(&mut self, message: &Message) -> Result<u32, maple_wire::Error> {
        let xid = self.next_xid;
        self.next_xid = xid.wrapping_add(1).max(ENGINE_XIDS);
        self.try_answer(xid, message)?;
        if matches!(message, Message::BarrierRequest | Message::StatsRequest(_)) {
            self.requests.push(xid);
        }
        Ok(xid)
    }

    /// Appends one whole message that is already encoded in the switch's version. Returns its bytes, to fill in fields.
    /// This is the fast path for messages that differ in a few fields only.
    #[inline]
    pub fn append(&mut self, message: &[u8]) -> &mut [u8] {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(message);
        self.count(message[TYPE]);
        &mut self.bytes[start..]
    }

    /// Appends an encoded message as [`Replies::append`] does, for a length that is known at compile time: a few
    /// instructions.
    #[inline(always)]
    pub fn append_array<const N: usize>(&mut self, message: &[u8; N]) -> &mut [u8; N] {
        self.bytes.extend_from_slice(message);
        self.count(message[TYPE]);
        match self.bytes.last_chunk_mut() {
            Some(message) => message,
            None => unreachable!("these bytes have just been appended"),
        }
    }

    /// Appends one encoded message, given as `head` and `tail`, and sets its length field. Returns its bytes, to fill
    /// in fields. A message of more than 65535 bytes is counted and not appended, and no bytes are returned.
    #[inline]
    pub fn append_two(&mut self, head: &[u8], tail: &[u8]) -> &mut [u8] {
        let start = self.bytes.len();
        let Ok(length) = u16::try_from(head.len() + tail.len()) else {
            self.counts.unencodable += 1;
            return &mut [];
        };
        self.bytes.extend_from_slice(head);
        self.bytes.extend_from_slice(tail);
        self.count(head[TYPE]);
        let message = &mut self.bytes[start..];
        message[LENGTH].copy_from_slice(&length.to_be_bytes());
        message
    }

    /// Reserves memory for this many more bytes.
    pub fn reserve(&mut self, bytes: usize) {
        self.bytes.reserve(bytes);
    }

    /// Makes [`crate::Handler::timer`] be called after this time. Only the last call counts.
    pub fn wake_after(&mut self, time: Duration) {
        self.timer = Some(after(self.now, time));
    }

    #[inline]
    fn count(&mut self, kind: u8) {
        self.counts.messages += 1;
        self.counts.flow_mods += u64::from(kind == kind::FLOW_MOD);
        self.counts.packet_outs += u64::from(kind == kind::PACKET_OUT);
    }

    /// Begins to collect messages for a switch, after its waiting output. Its next request has this transaction id.
    pub(crate) fn begin(&mut self, version: Version, now: Time, xid: u32, waiting: &mut Vec<u8>) {
        self.version = version;
        self.now = now;
        self.next_xid = xid;
        std::mem::swap(&mut self.bytes, waiting);
    }

    /// Ends collecting: moves the bytes back to `waiting`, and returns the counts and the timer.
    pub(crate) fn end(&mut self, waiting: &mut Vec<u8>) -> (MessageCounts, Option<Time>) {
        std::mem::swap(&mut self.bytes, waiting);
        (std::mem::take(&mut self.counts), self.timer.take())
    }

    /// Returns the transaction id of the next request.
    pub(crate) fn next_xid(&self) -> u32 {
        self.next_xid
    }

    /// Takes the requests that the switch will answer.
    pub(crate) fn take_requests(&mut self) -> std::vec::Drain<'_, u32> {
        self.requests.drain(..)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use maple_wire::msg::GroupMod;

    #[test]
    fn messages_are_appended_in_order_and_counted() {
        let mut out = Replies::new(Version::Of10);
        out.answer(7, &Message::EchoReply(vec![1, 2]));
        out.append(&[1, 14, 0, 8, 0, 0, 0, 0])[7] = 9;
        assert_eq!(out.bytes(), [1, 3, 0, 10, 0, 0, 0, 7, 1, 2, 1, 14, 0, 8, 0, 0, 0, 9]);
        assert_eq!(out.counts(), MessageCounts { messages: 2, flow_mods: 1, ..MessageCounts::default() });
    }

    #[test]
    fn a_message_that_a_version_cannot_express_is_counted_and_not_appended() {
        let mut out = Replies::new(Version::Of10);
        out.answer(1, &Message::GroupMod(GroupMod { command: 0, kind: 0, group: 1, buckets: vec![] }));
        assert_eq!((out.bytes().len(), out.counts().unencodable), (0, 1));
    }

    #[test]
    fn requests_have_new_transaction_ids() {
        let mut out = Replies::new(Version::Of13);
        let first = out.request(&Message::BarrierRequest);
        let second = out.request(&Message::EchoRequest(vec![]));
        assert_eq!((first, second), (ENGINE_XIDS, ENGINE_XIDS + 1));
        assert_eq!(out.take_requests().collect::<Vec<_>>(), [first]);
    }
}
