//! The fast path: I/O of switches that a [`Handler`] serves.
//!
//! ```text
//!  socket ── one read ──► the shard's buffer ── frames in place ── packet-ins, up to BATCH ──► handler
//!  socket ◄─ one write ── the connection's outbox ◄────────────── appended by the handler ◄─────┘
//! ```
//!
//! A turn does this once for each ready socket: one read of at most [`READ_SHARE`](super::READ_SHARE) bytes, and one
//! write of the answers. The handler reads a packet-in where the kernel wrote it, and encodes the answer where the
//! kernel reads it. Nothing is copied or allocated for a message. All other messages go through the session, in order
//! with the packets around them.
//!
//! Memory: the shard has one read buffer and one spare write buffer. It lends the write buffer to the connection that
//! it serves, and gets it back when the socket has taken all bytes. So an idle connection has no buffer. A connection
//! whose switch does not read keeps its answers, and is not read until they are gone. So it holds at most the answers
//! to one read.

use std::sync::Arc;

use arrayvec::ArrayVec;
use maple_core::engine::Time;
use maple_wire::msg::{Frames, Header, PacketInView, kind};
use maple_wire::{Message, Version};

use super::Shard;
use super::connection::{Connection, ConnectionState};
use crate::counters::Counters;
use crate::framing::{Cut, Framer};
use crate::handler::{BATCH, ErrorReporter, Handler, Replies};
use crate::session::{Output, Session, SwitchInfo, apply_port_status};

/// Maximum bytes of packet-ins that a connection keeps until its handshake is done. Some switches (and `cbench`) do not
/// wait for that.
const MAX_EARLY: usize = 16 * 1024;

/// The parts of the shard that the dispatch of messages needs. The shard lends them to the connection that it serves.
pub(super) struct MessageDispatch<'a> {
    pub now: Time,
    pub replies: &'a mut Replies,
    pub outputs: &'a mut Vec<Output>,
    pub counters: &'a mut Counters,
    /// Maximum number of packet-ins that are answered before their answers are written: [`BATCH`], or 1.
    pub max_batch: usize,
}

impl Shard {
    /// Handles the messages of one read, and writes the answers.
    pub(super) fn serve(&mut self, now: Time, slot: usize, bytes: &[u8]) {
        let mut rest = bytes;
        loop {
            let Some(connection) = self.connections.get(slot) else { return };
            connection.outbox.borrow(&mut self.spare_buffer);
            let (replies, outputs, counters) = (&mut self.replies, &mut self.outputs, &mut self.counters);
            let max_batch = if self.write_each { 1 } else { BATCH };
            let done =
                connection.dispatch_in_place(&mut rest, MessageDispatch { now, replies, outputs, counters, max_batch });
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

    /// Creates the handler of a switch whose handshake is done, and reports the switch to it.
    pub(super) fn start_handler(&mut self, now: Time, slot: usize, info: &SwitchInfo) {
        let Some(factory) = &self.handlers else { return };
        let handler = factory.handler(info, ErrorReporter::new(self.notices.clone(), info.features.dpid));
        let Some(connection) = self.connections.get(slot) else { return };
        connection.handler = Some(handler);
        self.call_handler(now, slot, |handler, out| handler.switch_up(info, out));
    }

    /// Passes the handler a message other than a packet-in.
    pub(super) fn handler_message(&mut self, now: Time, slot: usize, xid: u32, message: Message) {
        match message {
            Message::PortStatus(status) => {
                self.counters.of_port_status += 1;
                if let Some(switch) = self.connections.get(slot).and_then(|connection| connection.switch.as_mut()) {
                    apply_port_status(Arc::make_mut(&mut switch.ports), status.clone());
                }
                self.call_handler(now, slot, |handler, out| handler.port_status(&status, out));
            }
            Message::FlowRemoved(removed) => {
                self.counters.of_flow_removed += 1;
                self.call_handler(now, slot, |handler, out| handler.flow_removed(&removed, out));
            }
            message => {
                if matches!(message, Message::Error(_)) {
                    self.counters.of_errors += 1;
                    self.connections.get(slot).into_iter().for_each(|connection| connection.counters.errors += 1);
                }
                self.call_handler(now, slot, |handler, out| handler.reply(xid, &message, out));
            }
        }
    }

    /// Calls the handler's timer if it is due.
    pub(super) fn wake_handler(&mut self, now: Time, slot: usize) {
        let Some(connection) = self.connections.get(slot) else { return };
        if connection.wake.take_if(|wake| *wake <= now).is_some() {
            self.call_handler(now, slot, |handler, out| handler.timer(out));
        }
    }

    fn call_handler(&mut self, now: Time, slot: usize, call: impl FnOnce(&mut dyn Handler, &mut Replies)) {
        let Some(connection) = self.connections.get(slot) else { return };
        let Connection {
            state: ConnectionState::Open { session, .. },
            handler: Some(handler),
            outbox,
            wake,
            next_xid,
            counters,
            ..
        } = connection
        else {
            return;
        };
        self.replies.begin(session.version(), now, *next_xid, outbox.buffer());
        call(handler.as_mut(), &mut self.replies);
        *next_xid = self.replies.next_xid();
        counters.flow_messages +=
            finish_call(now, session, &mut self.replies, outbox.buffer(), wake, &mut self.counters);
        self.want_write(slot);
        self.arm(slot);
    }
}

impl Connection {
    /// Dispatches messages from the front of `rest`. Stops after a message for which the session has an output, because
    /// the shard must act on it before the next message. Also stops after the maximum number of packet-ins whose
    /// answers may be written at once. Returns `true` if all bytes are handled.
    fn dispatch_in_place(&mut self, rest: &mut &[u8], mut dispatch: MessageDispatch<'_>) -> bool {
        let Connection {
            state: ConnectionState::Open { session, framer },
            handler,
            early,
            outbox,
            wake,
            next_xid,
            counters,
            ..
        } = self
        else {
            return true;
        };
        let (before, packet_ins) = (dispatch.counters.of_messages_in, dispatch.counters.of_packet_ins);
        let version = handler.as_ref().map(|_| session.version());
        dispatch.replies.begin(session.version(), dispatch.now, *next_xid, outbox.buffer());
        if let Some(handler) = handler.as_deref_mut()
            && !early.is_empty()
        {
            replay_early(&std::mem::take(early), session.version(), handler, &mut dispatch);
        }
        let done = match handler.as_deref_mut().zip(version) {
            Some((handler, version)) => with_handler(rest, framer, session, (handler, version), &mut dispatch),
            None => before_handler(rest, framer, session, early, &mut dispatch),
        };
        if dispatch.counters.of_messages_in != before {
            session.on_progress(dispatch.now);
        }
        *next_xid = dispatch.replies.next_xid();
        counters.packet_ins += dispatch.counters.of_packet_ins - packet_ins;
        let replies = &mut *dispatch.replies;
        counters.flow_messages += finish_call(dispatch.now, session, replies, outbox.buffer(), wake, dispatch.counters);
        done
    }
}

/// Dispatches messages of a switch with a handler. Packet-ins go to the handler in batches. Returns `true` if all bytes
/// are handled.
fn with_handler(
    rest: &mut &[u8],
    framer: &mut Framer,
    session: &mut Session,
    (handler, version): (&mut dyn Handler, Version),
    dispatch: &mut MessageDispatch<'_>,
) -> bool {
    let mut batch = ArrayVec::new();
    loop {
        let cut = framer.next(rest);
        match cut {
            Ok(Cut::Whole(header, message)) => {
                dispatch.counters.of_messages_in += 1;
                if let Some(packet) = packet_in(version, header, message) {
                    batch.push(packet);
                    if batch.len() >= dispatch.max_batch {
                        call_batch(&mut batch, handler, dispatch);
                        if dispatch.max_batch < BATCH {
                            return false;
                        }
                    }
                    continue;
                }
                call_batch(&mut batch, handler, dispatch);
                session.on_message(dispatch.now, header, message, dispatch.outputs);
            }
            Ok(Cut::Completed(header, message)) => {
                dispatch.counters.of_messages_in += 1;
                match packet_in(version, header, message) {
                    Some(packet) => call_batch(&mut [packet].into_iter().collect(), handler, dispatch),
                    None => session.on_message(dispatch.now, header, message, dispatch.outputs),
                }
            }
            Ok(Cut::Rest(header)) => {
                call_batch(&mut batch, handler, dispatch);
                header.into_iter().for_each(|header| session.on_header(header, dispatch.outputs));
                return true;
            }
            Err(error) => {
                call_batch(&mut batch, handler, dispatch);
                session.on_garbage(error, dispatch.outputs);
                return true;
            }
        }
        if !dispatch.outputs.is_empty() {
            return false;
        }
    }
}

/// Passes the handler the packet-ins that came before it existed.
fn replay_early(early: &[u8], version: Version, handler: &mut dyn Handler, dispatch: &mut MessageDispatch<'_>) {
    let mut batch = ArrayVec::new();
    for (header, message) in Frames::new(early).map_while(Result::ok) {
        batch.extend(packet_in(version, header, message));
        if batch.is_full() {
            call_batch(&mut batch, handler, dispatch);
        }
    }
    call_batch(&mut batch, handler, dispatch);
}

/// Dispatches messages during the handshake. Packet-ins are kept for the handler, up to a limit. Returns `true` if all
/// bytes are handled.
fn before_handler(
    rest: &mut &[u8],
    framer: &mut Framer,
    session: &mut Session,
    early: &mut Vec<u8>,
    dispatch: &mut MessageDispatch<'_>,
) -> bool {
    loop {
        let (header, message) = match framer.next(rest) {
            Ok(Cut::Whole(header, message)) => (header, message),
            Ok(Cut::Completed(header, message)) => (header, message),
            Ok(Cut::Rest(header)) => {
                header.into_iter().for_each(|header| session.on_header(header, dispatch.outputs));
                return true;
            }
            Err(error) => {
                session.on_garbage(error, dispatch.outputs);
                return true;
            }
        };
        dispatch.counters.of_messages_in += 1;
        if keep_early(session, header, message, early) {
            continue;
        }
        session.on_message(dispatch.now, header, message, dispatch.outputs);
        if !dispatch.outputs.is_empty() {
            return false;
        }
    }
}

/// Keeps a message for the handler if it is a packet-in during the handshake and there is room. Returns whether it is
/// kept.
fn keep_early(session: &Session, header: Header, message: &[u8], early: &mut Vec<u8>) -> bool {
    let is_early = session.is_in_handshake() && packet_in(session.version(), header, message).is_some();
    let is_kept = is_early && early.len() + message.len() <= MAX_EARLY;
    if is_kept {
        early.extend_from_slice(message);
    }
    is_kept
}

/// Returns the message as a packet-in, if it is a valid one. The session reports an invalid one.
#[inline]
pub(super) fn packet_in(version: Version, header: Header, message: &[u8]) -> Option<PacketInView<'_>> {
    if header.kind != kind::PACKET_IN || header.version != version as u8 {
        return None;
    }
    PacketInView::new_checked(version, message).ok()
}

/// Passes a batch to the handler and clears it.
#[inline]
fn call_batch(
    batch: &mut ArrayVec<PacketInView<'_>, BATCH>,
    handler: &mut dyn Handler,
    dispatch: &mut MessageDispatch<'_>,
) {
    if !batch.is_empty() {
        dispatch.counters.of_packet_ins += batch.len() as u64;
        handler.packet_ins(batch, dispatch.replies);
        batch.clear();
    }
}

/// Ends calls of a handler: takes back its answers, counts them, and records its requests and its timer. Returns the
/// number of flow-mods and packet-outs.
fn finish_call(
    now: Time,
    session: &mut Session,
    replies: &mut Replies,
    waiting: &mut Vec<u8>,
    wake: &mut Option<Time>,
    counters: &mut Counters,
) -> u64 {
    let (counts, timer) = replies.end(waiting);
    counters.of_messages_out += counts.messages;
    counters.of_flow_mods += counts.flow_mods;
    counters.of_packet_outs += counts.packet_outs;
    counters.of_unencodable += counts.unencodable;
    *wake = timer.or(*wake);
    replies.take_requests().for_each(|xid| session.expect(now, xid));
    counts.flow_mods + counts.packet_outs
}

#[cfg(test)]
mod tests;
