//! The hot road: switches that a [`Handler`] serves.
//!
//! ```text
//!  socket ── one read ──► the shard's buffer ── frames in place ── packet-ins, up to BATCH ──► handler
//!  socket ◄─ one write ── the connection's outbox ◄────────────── appended by the handler ◄─────┘
//! ```
//!
//! One turn does this for each socket that is ready: one read of at most [`READ_SHARE`](super::READ_SHARE) bytes, one
//! write of the answers. A packet-in is looked at where the kernel put it, and its answer is encoded where the kernel takes
//! it from; in between nothing is copied or allocated a message. All other messages take the session's road, in order with
//! the packets around them.
//!
//! Memory: the shard has one read buffer and one spare write buffer. The write buffer is lent to the connection that is
//! being served and comes back when the socket has taken all of it, so a connection that is idle has none. One that does
//! not drain its answers keeps them and is not read from until they are gone: what it can hold is the answers to one read.

use arrayvec::ArrayVec;
use maple_core::engine::Time;
use maple_wire::msg::{Frames, Header, PacketInView, kind};
use maple_wire::{Message, Version};

use super::Shard;
use super::connection::{Connection, Life};
use crate::counters::Counters;
use crate::framing::{Cut, Framer};
use crate::handler::{BATCH, Complaints, Handler, Replies};
use crate::session::{Output, Session, SwitchInfo, apply_port_status};

/// Bytes of packet-ins that a connection may hold until its handshake is done. Some switches (and `cbench`) do not wait.
const EARLY: usize = 16 * 1024;

/// What a shard lends to the connection that it serves.
pub(super) struct Desk<'a> {
    pub now: Time,
    pub replies: &'a mut Replies,
    pub outputs: &'a mut Vec<Output>,
    pub counters: &'a mut Counters,
    /// Most packet-ins that are answered before their answers are written: [`BATCH`], or 1.
    pub most: usize,
}

impl Shard {
    /// Handles what one read brought, and writes the answers.
    pub(super) fn serve(&mut self, now: Time, slot: usize, bytes: &[u8]) {
        let mut rest = bytes;
        loop {
            let Some(connection) = self.connections.get(slot) else { return };
            connection.outbox.borrow(&mut self.spare);
            let (replies, outputs, counters) = (&mut self.replies, &mut self.outputs, &mut self.counters);
            let most = if self.write_each { 1 } else { BATCH };
            let done = connection.take_in_place(&mut rest, Desk { now, replies, outputs, counters, most });
            self.act(now, slot);
            if done {
                break;
            }
            if self.write_each {
                self.write(now, slot);
            }
        }
        self.write(now, slot);
    }

    /// A switch that a handler will serve is up.
    pub(super) fn up_with_handler(&mut self, now: Time, slot: usize, info: &SwitchInfo) {
        let Some(factory) = &self.handlers else { return };
        let handler = factory.handler(info, Complaints::new(self.notices.clone(), info.features.dpid));
        let Some(connection) = self.connections.get(slot) else { return };
        connection.handler = Some(handler);
        self.call_handler(now, slot, |handler, out| handler.switch_up(info, out));
    }

    /// A message for the handler that is no packet-in.
    pub(super) fn tell_handler(&mut self, now: Time, slot: usize, xid: u32, message: Message) {
        match message {
            Message::PortStatus(status) => {
                self.counters.of_port_status += 1;
                if let Some(about) = self.connections.get(slot).and_then(|connection| connection.about.as_mut()) {
                    apply_port_status(&mut about.ports, status.clone());
                }
                self.call_handler(now, slot, |handler, out| handler.port_status(&status, out));
            }
            Message::FlowRemoved(removed) => {
                self.counters.of_flow_removed += 1;
                self.call_handler(now, slot, |handler, out| handler.flow_removed(&removed, out));
            }
            message => {
                self.counters.of_errors += u64::from(matches!(message, Message::Error(_)));
                self.call_handler(now, slot, |handler, out| handler.reply(xid, &message, out));
            }
        }
    }

    /// Wakes a connection's handler if its time has come.
    pub(super) fn wake_handler(&mut self, now: Time, slot: usize) {
        let Some(connection) = self.connections.get(slot) else { return };
        if connection.wake.take_if(|wake| *wake <= now).is_some() {
            self.call_handler(now, slot, |handler, out| handler.timer(out));
        }
    }

    fn call_handler(&mut self, now: Time, slot: usize, call: impl FnOnce(&mut dyn Handler, &mut Replies)) {
        let Some(connection) = self.connections.get(slot) else { return };
        let Connection { life: Life::Open { session, .. }, handler: Some(handler), outbox, wake, next_xid, .. } =
            connection
        else {
            return;
        };
        self.replies.begin(session.version(), now, *next_xid, outbox.buffer());
        call(handler.as_mut(), &mut self.replies);
        *next_xid = self.replies.next_xid();
        settle(now, session, &mut self.replies, outbox.buffer(), wake, &mut self.counters);
        self.want_write(slot);
        self.arm(slot);
    }
}

impl Connection {
    /// Handles messages from the front of `rest` up to the first that makes the session say something, which the owner
    /// must act on before the next, or up to as many packet-ins as are to be written at once. `true` once all bytes are
    /// dealt with.
    fn take_in_place(&mut self, rest: &mut &[u8], mut desk: Desk<'_>) -> bool {
        let Connection { life: Life::Open { session, framer }, handler, early, outbox, wake, next_xid, .. } = self
        else {
            return true;
        };
        let before = desk.counters.of_messages_in;
        let version = handler.as_ref().map(|_| session.version());
        desk.replies.begin(session.version(), desk.now, *next_xid, outbox.buffer());
        if let Some(handler) = handler.as_deref_mut()
            && !early.is_empty()
        {
            catch_up(&std::mem::take(early), session.version(), handler, &mut desk);
        }
        let done = match handler.as_deref_mut().zip(version) {
            Some((handler, version)) => in_place(rest, framer, session, (handler, version), &mut desk),
            None => one_by_one(rest, framer, session, early, &mut desk),
        };
        if desk.counters.of_messages_in != before {
            session.on_progress(desk.now);
        }
        *next_xid = desk.replies.next_xid();
        settle(desk.now, session, desk.replies, outbox.buffer(), wake, desk.counters);
        done
    }
}

/// Messages of a switch that is up: packet-ins go to the handler in batches.
fn in_place(
    rest: &mut &[u8],
    framer: &mut Framer,
    session: &mut Session,
    (handler, version): (&mut dyn Handler, Version),
    desk: &mut Desk<'_>,
) -> bool {
    let mut batch = ArrayVec::new();
    loop {
        let cut = framer.next(rest);
        match cut {
            Ok(Cut::Whole(header, message)) => {
                desk.counters.of_messages_in += 1;
                if let Some(packet) = packet_in(version, header, message) {
                    batch.push(packet);
                    if batch.len() >= desk.most {
                        hand_over(&mut batch, handler, desk);
                        if desk.most < BATCH {
                            return false;
                        }
                    }
                    continue;
                }
                hand_over(&mut batch, handler, desk);
                session.on_message(desk.now, header, message, desk.outputs);
            }
            Ok(Cut::Begun(header, message)) => {
                desk.counters.of_messages_in += 1;
                match packet_in(version, header, message) {
                    Some(packet) => hand_over(&mut [packet].into_iter().collect(), handler, desk),
                    None => session.on_message(desk.now, header, message, desk.outputs),
                }
            }
            Ok(Cut::Rest(header)) => {
                hand_over(&mut batch, handler, desk);
                header.into_iter().for_each(|header| session.on_header(header, desk.outputs));
                return true;
            }
            Err(error) => {
                hand_over(&mut batch, handler, desk);
                session.on_garbage(error, desk.outputs);
                return true;
            }
        }
        if !desk.outputs.is_empty() {
            return false;
        }
    }
}

/// Gives the handler the packet-ins that came before it.
fn catch_up(early: &[u8], version: Version, handler: &mut dyn Handler, desk: &mut Desk<'_>) {
    let mut batch = ArrayVec::new();
    for (header, message) in Frames::new(early).map_while(Result::ok) {
        batch.extend(packet_in(version, header, message));
        if batch.is_full() {
            hand_over(&mut batch, handler, desk);
        }
    }
    hand_over(&mut batch, handler, desk);
}

/// Messages of a connection that is not a switch's yet. Packet-ins among them wait, as far as there is room.
fn one_by_one(
    rest: &mut &[u8],
    framer: &mut Framer,
    session: &mut Session,
    early: &mut Vec<u8>,
    desk: &mut Desk<'_>,
) -> bool {
    loop {
        let (header, message) = match framer.next(rest) {
            Ok(Cut::Whole(header, message)) => (header, message),
            Ok(Cut::Begun(header, message)) => (header, message),
            Ok(Cut::Rest(header)) => {
                header.into_iter().for_each(|header| session.on_header(header, desk.outputs));
                return true;
            }
            Err(error) => {
                session.on_garbage(error, desk.outputs);
                return true;
            }
        };
        desk.counters.of_messages_in += 1;
        if keep_early(session, header, message, early) {
            continue;
        }
        session.on_message(desk.now, header, message, desk.outputs);
        if !desk.outputs.is_empty() {
            return false;
        }
    }
}

/// Keeps a packet-in that came before the handshake is done, if this is one and there is room.
fn keep_early(session: &Session, header: Header, message: &[u8], early: &mut Vec<u8>) -> bool {
    let is_early = session.is_introducing() && packet_in(session.version(), header, message).is_some();
    let is_kept = is_early && early.len() + message.len() <= EARLY;
    if is_kept {
        early.extend_from_slice(message);
    }
    is_kept
}

/// The message as a packet-in, if it is one and holds together; if it does not, the session says so.
#[inline]
pub(super) fn packet_in(version: Version, header: Header, message: &[u8]) -> Option<PacketInView<'_>> {
    if header.kind != kind::PACKET_IN || header.version != version as u8 {
        return None;
    }
    PacketInView::new_checked(version, message).ok()
}

/// Gives the handler a batch, which is empty then.
#[inline]
fn hand_over(batch: &mut ArrayVec<PacketInView<'_>, BATCH>, handler: &mut dyn Handler, desk: &mut Desk<'_>) {
    if !batch.is_empty() {
        desk.counters.of_packet_ins += batch.len() as u64;
        handler.packet_ins(batch, desk.replies);
        batch.clear();
    }
}

/// Takes back what was lent to a handler: its answers, what it waits for, and when it wants to be woken.
fn settle(
    now: Time,
    session: &mut Session,
    replies: &mut Replies,
    waiting: &mut Vec<u8>,
    wake: &mut Option<Time>,
    counters: &mut Counters,
) {
    let (tally, wish) = replies.end(waiting);
    counters.of_messages_out += tally.messages;
    counters.of_flow_mods += tally.flow_mods;
    counters.of_packet_outs += tally.packet_outs;
    counters.of_unsendable += tally.unsendable;
    *wake = wish.or(*wake);
    replies.take_requests().for_each(|xid| session.expect(now, xid));
}

#[cfg(test)]
mod tests;
