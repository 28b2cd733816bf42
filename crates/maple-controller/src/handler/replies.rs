//! What a handler says: messages, encoded where they will be written from.

use std::time::Duration;

use maple_core::engine::Time;
use maple_wire::msg::kind;
use maple_wire::{Message, Version};

use crate::session::ENGINE_XIDS;
use crate::time::after;

/// Where the type stands in a message.
const TYPE: usize = 1;
/// Where its length stands.
const LENGTH: std::ops::Range<usize> = 2..4;

/// How many messages were appended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// All of them.
    pub messages: u64,
    /// Of these, flow-mods.
    pub flow_mods: u64,
    /// Of these, packet-outs.
    pub packet_outs: u64,
    /// Messages that the switch's version has no words for; they were left out.
    pub unsendable: u64,
}

/// The messages that a handler answers with, in order, and when it wants to be woken.
///
/// The bytes are the switch's write buffer itself: what is appended here is not copied again.
#[derive(Debug)]
pub struct Replies {
    version: Version,
    now: Time,
    bytes: Vec<u8>,
    tally: Tally,
    wake: Option<Time>,
    next_xid: u32,
    /// The requests among the messages that have an answer.
    requests: Vec<u32>,
}

impl Default for Replies {
    fn default() -> Replies {
        Replies::new(Version::Of13)
    }
}

impl Replies {
    /// An empty buffer for a switch that speaks this version, at time 0.
    pub fn new(version: Version) -> Replies {
        Replies {
            version,
            now: Time::default(),
            bytes: Vec::new(),
            tally: Tally::default(),
            wake: None,
            next_xid: ENGINE_XIDS,
            requests: Vec::new(),
        }
    }

    /// The version that the switch speaks.
    pub fn version(&self) -> Version {
        self.version
    }

    /// The time now.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Everything appended since the bytes were last taken.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// What was appended since the tally was last taken.
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// Appends a message in answer to the one with this transaction id. One that the version has no words for is left
    /// out, counted and logged.
    pub fn answer(&mut self, xid: u32, message: &Message) {
        if let Err(error) = self.try_answer(xid, message) {
            tracing::error!(%error, "a handler's message can't be sent");
        }
    }

    /// The same for those that want to know.
    ///
    /// # Errors
    /// What the version has no words for; the message is left out and counted.
    pub fn try_answer(&mut self, xid: u32, message: &Message) -> Result<(), maple_wire::Error> {
        let start = self.bytes.len();
        message.encode(self.version, xid, &mut self.bytes).inspect_err(|_| self.tally.unsendable += 1)?;
        self.count(self.bytes[start + TYPE]);
        Ok(())
    }

    /// Appends a message with a transaction id of its own, and gives that: an error in answer to it comes to
    /// [`super::Handler::reply`], and so does the answer to a barrier or statistics request.
    pub fn request(&mut self, message: &Message) -> u32 {
        let xid = self.next_xid;
        if let Err(error) = self.try_request(message) {
            tracing::error!(%error, "a handler's message can't be sent");
        }
        xid
    }

    /// The same for those that want to know.
    ///
    /// # Errors
    /// What the version has no words for; the message is left out and counted.
    pub fn try_request(&mut self, message: &Message) -> Result<u32, maple_wire::Error> {
        let xid = self.next_xid;
        self.next_xid = xid.wrapping_add(1).max(ENGINE_XIDS);
        self.try_answer(xid, message)?;
        if matches!(message, Message::BarrierRequest | Message::StatsRequest(_)) {
            self.requests.push(xid);
        }
        Ok(xid)
    }

    /// Appends one whole message that is encoded already, in the switch's version, and gives its bytes to change. This is
    /// the fast road: for a message that differs from the last one in a few fields.
    #[inline]
    pub fn append(&mut self, message: &[u8]) -> &mut [u8] {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(message);
        self.count(message[TYPE]);
        &mut self.bytes[start..]
    }

    /// The same for a message of a length that is known when this is compiled: a few instructions.
    #[inline(always)]
    pub fn append_array<const N: usize>(&mut self, message: &[u8; N]) -> &mut [u8; N] {
        self.bytes.extend_from_slice(message);
        self.count(message[TYPE]);
        match self.bytes.last_chunk_mut() {
            Some(message) => message,
            None => unreachable!("these bytes have just been appended"),
        }
    }

    /// Appends one whole message that is encoded but for its length, as `head` and `tail`, and sets the length. Gives its
    /// bytes to change; none if it would be longer than a message can be, and then it is left out and counted.
    #[inline]
    pub fn append_two(&mut self, head: &[u8], tail: &[u8]) -> &mut [u8] {
        let start = self.bytes.len();
        let Ok(length) = u16::try_from(head.len() + tail.len()) else {
            self.tally.unsendable += 1;
            return &mut [];
        };
        self.bytes.extend_from_slice(head);
        self.bytes.extend_from_slice(tail);
        self.count(head[TYPE]);
        let message = &mut self.bytes[start..];
        message[LENGTH].copy_from_slice(&length.to_be_bytes());
        message
    }

    /// Makes room for this many bytes, so that appending them does not move the others.
    pub fn reserve(&mut self, bytes: usize) {
        self.bytes.reserve(bytes);
    }

    /// Asks for a call of [`super::Handler::timer`] after this time. The last wish counts.
    pub fn wake_after(&mut self, time: Duration) {
        self.wake = Some(after(self.now, time));
    }

    #[inline]
    fn count(&mut self, kind: u8) {
        self.tally.messages += 1;
        self.tally.flow_mods += u64::from(kind == kind::FLOW_MOD);
        self.tally.packet_outs += u64::from(kind == kind::PACKET_OUT);
    }

    /// Begins to collect for a switch, behind what waits for it already; its next request has this transaction id.
    pub(crate) fn begin(&mut self, version: Version, now: Time, xid: u32, waiting: &mut Vec<u8>) {
        self.version = version;
        self.now = now;
        self.next_xid = xid;
        std::mem::swap(&mut self.bytes, waiting);
    }

    /// Ends it: the bytes go back, what was counted and asked for comes out.
    pub(crate) fn end(&mut self, waiting: &mut Vec<u8>) -> (Tally, Option<Time>) {
        std::mem::swap(&mut self.bytes, waiting);
        (std::mem::take(&mut self.tally), self.wake.take())
    }

    /// The transaction id of the next request.
    pub(crate) fn next_xid(&self) -> u32 {
        self.next_xid
    }

    /// Takes the requests that have an answer.
    pub(crate) fn take_requests(&mut self) -> std::vec::Drain<'_, u32> {
        self.requests.drain(..)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use maple_wire::msg::GroupMod;

    #[test]
    fn messages_lie_one_behind_the_other_and_are_counted() {
        let mut out = Replies::new(Version::Of10);
        out.answer(7, &Message::EchoReply(vec![1, 2]));
        out.append(&[1, 14, 0, 8, 0, 0, 0, 0])[7] = 9;
        assert_eq!(out.bytes(), [1, 3, 0, 10, 0, 0, 0, 7, 1, 2, 1, 14, 0, 8, 0, 0, 0, 9]);
        assert_eq!(out.tally(), Tally { messages: 2, flow_mods: 1, ..Tally::default() });
    }

    #[test]
    fn what_a_version_cannot_say_is_left_out_and_counted() {
        let mut out = Replies::new(Version::Of10);
        out.answer(1, &Message::GroupMod(GroupMod { command: 0, kind: 0, group: 1, buckets: vec![] }));
        assert_eq!((out.bytes().len(), out.tally().unsendable), (0, 1));
    }

    #[test]
    fn requests_have_ids_of_their_own() {
        let mut out = Replies::new(Version::Of13);
        let first = out.request(&Message::BarrierRequest);
        let second = out.request(&Message::EchoRequest(vec![]));
        assert_eq!((first, second), (ENGINE_XIDS, ENGINE_XIDS + 1));
        assert_eq!(out.take_requests().collect::<Vec<_>>(), [first]);
    }
}
