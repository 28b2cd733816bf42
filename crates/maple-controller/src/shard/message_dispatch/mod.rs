//! Dispatches the messages of one read: packet-ins that hit a leaf of the engine are answered in place, into the
//! connection's outbox. All others go to the [`Session`], in order.

use std::ops::ControlFlow;

use arrayvec::ArrayVec;
use maple_core::engine::{Hits, MAX_HITS, Time};
use maple_wire::msg::PacketInView;
use maple_wire::{Header, Version};

use crate::framing::{Framer, StreamPart};
use crate::session::{Output, Session};

/// Packet-ins that a leaf of the engine answered in place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct AnsweredInPlace {
    /// The number of packet-ins.
    pub packets: u64,
    /// The number of packet-outs.
    pub packet_outs: u64,
}

/// The state of the dispatch of one read.
pub(super) struct MessageDispatch<'a, 'b> {
    now: Time,
    session: &'a mut Session,
    /// The leaves that answer packet-ins in place, if the switch has leaves in use.
    hits: Option<Hits<'a>>,
    outbox: &'a mut Vec<u8>,
    out: &'a mut Vec<Output>,
    /// Consecutive packet-ins that have not been looked up yet.
    batch: ArrayVec<PacketInView<'b>, MAX_HITS>,
    /// The packet-ins of the batch as messages.
    undecoded: ArrayVec<(Header, &'b [u8]), MAX_HITS>,
    messages: usize,
    answered: AnsweredInPlace,
}

impl<'a, 'b> MessageDispatch<'a, 'b> {
    /// Begins with a read of a connection. `hits` are the leaves that answer packet-ins in place, if there are any.
    pub fn new(
        now: Time,
        session: &'a mut Session,
        hits: Option<Hits<'a>>,
        outbox: &'a mut Vec<u8>,
        out: &'a mut Vec<Output>,
    ) -> MessageDispatch<'a, 'b> {
        let (batch, undecoded, answered) = (ArrayVec::new(), ArrayVec::new(), AnsweredInPlace::default());
        MessageDispatch { now, session, hits, outbox, out, batch, undecoded, messages: 0, answered }
    }

    /// Splits bytes into messages and dispatches them, up to the session's end. Returns the number of messages, and of
    /// the packet-ins among them that are answered.
    pub fn dispatch(mut self, framer: &mut Framer, bytes: &'b [u8]) -> (usize, AnsweredInPlace) {
        self.dispatch_all(framer, bytes);
        if self.answered.packets > 0 {
            self.session.on_progress(self.now);
        }
        (self.messages, self.answered)
    }

    fn dispatch_all(&mut self, framer: &mut Framer, mut bytes: &'b [u8]) {
        let version = self.session.version();
        loop {
            let flow = match framer.next(&mut bytes) {
                Ok(StreamPart::Whole(header, message)) => self.on_whole(version, header, message),
                Ok(StreamPart::Completed(header, message)) => self.on_completed(version, header, message),
                Ok(StreamPart::Rest(header)) => {
                    if self.answer_batch().is_continue()
                        && let Some(header) = header
                    {
                        self.session.on_header(header, self.out);
                    }
                    return;
                }
                Err(error) => {
                    if self.answer_batch().is_continue() {
                        self.session.on_garbage(error, self.out);
                    }
                    return;
                }
            };
            if flow.is_break() {
                return;
            }
        }
    }

    /// Handles a message that lies whole in the read. A packet-in is collected into the batch.
    #[inline]
    fn on_whole(&mut self, version: Version, header: Header, message: &'b [u8]) -> ControlFlow<()> {
        self.messages += 1;
        if self.hits.is_some()
            && let Some(packet) = PacketInView::from_message(version, header, message)
        {
            self.batch.push(packet);
            self.undecoded.push((header, message));
            return if self.batch.is_full() { self.answer_batch() } else { ControlFlow::Continue(()) };
        }
        self.answer_batch()?;
        self.pass_to_session(header, message)
    }

    /// Handles a message that began in an earlier read. The batch is empty then.
    fn on_completed(&mut self, version: Version, header: Header, message: &[u8]) -> ControlFlow<()> {
        self.messages += 1;
        if let Some(hits) = &mut self.hits
            && let Some(packet) = PacketInView::from_message(version, header, message)
        {
            let hit = hits.answer(&[packet], self.outbox);
            self.answered.add(hit);
            if hit.packets != 0 {
                return ControlFlow::Continue(());
            }
        }
        self.pass_to_session(header, message)
    }

    /// Looks up the batch: answers the hits, and passes the other messages to the session in order.
    fn answer_batch(&mut self) -> ControlFlow<()> {
        if let Some(hits) = &mut self.hits
            && !self.batch.is_empty()
        {
            let hit = hits.answer(&self.batch, self.outbox);
            self.answered.add(hit);
            self.batch.clear();
            for (n, (header, message)) in std::mem::take(&mut self.undecoded).into_iter().enumerate() {
                if hit.packets & 1 << n == 0 {
                    self.pass_to_session(header, message)?;
                }
            }
        }
        ControlFlow::Continue(())
    }

    /// Passes a message to the session. Breaks if the session has ended.
    fn pass_to_session(&mut self, header: Header, message: &[u8]) -> ControlFlow<()> {
        self.session.on_message(self.now, header, message, self.out);
        if !self.session.is_up() {
            // This controller may not be the switch's master any more.
            self.hits = None;
        }
        if matches!(self.out.last(), Some(Output::Close(_))) {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }
}

impl AnsweredInPlace {
    fn add(&mut self, hit: maple_core::engine::AnsweredHits) {
        self.packets += u64::from(hit.packets.count_ones());
        self.packet_outs += hit.packet_outs as u64;
    }
}

#[cfg(test)]
mod tests;
