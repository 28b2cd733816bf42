//! The fast path: [`Handlers`], the programs of a controller whose switches handlers serve.
//!
//! ```text
//!  socket ── one read ──► the shard's buffer ── frames in place ── packet-ins, up to BATCH ──► handler
//!  socket ◄─ one write ── the connection's outbox ◄────────────── appended by the handler ◄─────┘
//! ```
//!
//! A turn does this once for each ready socket: one read, and one write of the answers. The handler reads a packet-in
//! where the kernel wrote it, and encodes the answer where the kernel reads it. Nothing is copied or allocated for a
//! message. All other messages go through the session, in order with the packets around them.
//!
//! Memory: the shard has one read buffer and one spare write buffer. It lends the write buffer to the connection that
//! it serves, and gets it back when the socket has taken all bytes. So an idle connection has no buffer. A connection
//! whose switch does not read keeps its answers, and is not read until they are gone. So it holds at most the answers
//! to one read.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use arrayvec::ArrayVec;
use maple_controller::framing::{Framer, StreamPart};
use maple_controller::program::{Balancer, Program, ProgramConnection, ProgramErrors, ProgramFactory, Progress};
use maple_controller::session::{ENGINE_XIDS, Session, SwitchInfo};
use maple_core::engine::{ShardId, Time};
use maple_wire::msg::{Frames, Header, PacketInView};
use maple_wire::{Message, Version};

use crate::balance::{LoadMonitor, Loads};
use crate::handler::{BATCH, Handler, HandlerFactory};
use crate::replies::Replies;

/// The maximum number of bytes of packet-ins that a connection keeps until its handshake is done. Some switches (and
/// `cbench`) do not wait for that. Chosen: 200 packet-ins of `cbench`.
const MAX_EARLY: usize = 16 * 1024;

/// The programs of a controller whose switches handlers serve, instead of a policy.
pub struct Handlers(Arc<dyn HandlerFactory>);

impl fmt::Debug for Handlers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handlers").finish_non_exhaustive()
    }
}

impl Handlers {
    /// Creates the programs of these handlers.
    pub fn new(factory: impl HandlerFactory + 'static) -> Handlers {
        Handlers(Arc::new(factory))
    }
}

impl From<Arc<dyn HandlerFactory>> for Handlers {
    fn from(factory: Arc<dyn HandlerFactory>) -> Handlers {
        Handlers(factory)
    }
}

impl ProgramFactory for Handlers {
    fn program(&self, errors: &ProgramErrors, write_each: bool) -> Box<dyn Program> {
        Box::new(Served::new(Arc::clone(&self.0), errors.clone(), write_each))
    }

    fn balancers(&self, shards: usize, period: Duration) -> Vec<Box<dyn Balancer>> {
        let loads = Arc::new(Loads::new(shards));
        let one = |shard| Box::new(LoadMonitor::new(period, ShardId(shard as u8), Arc::clone(&loads)));
        (0..shards).map(|shard| one(shard) as Box<dyn Balancer>).collect()
    }

    fn on_thread(&self, worker: &mut (dyn FnMut() + Send)) {
        self.0.on_thread(worker);
    }
}

/// A connection whose switch a handler serves.
pub(super) struct Served {
    factory: Arc<dyn HandlerFactory>,
    errors: ProgramErrors,
    /// The handler, once the handshake is done.
    handler: Option<Box<dyn Handler>>,
    /// The whole packet-ins that came before the handler existed. The handler gets them first.
    early: Vec<u8>,
    replies: Replies,
    /// The transaction id of the handler's next request.
    next_xid: u32,
    /// The time at which the handler's timer is due.
    wake: Option<Time>,
    /// The maximum number of packet-ins that are answered before their answers are written: [`BATCH`], or 1.
    max_batch: usize,
}

/// The state of the dispatch of messages besides the handler.
struct MessageDispatch<'a> {
    line: ProgramConnection<'a>,
    replies: &'a mut Replies,
    max_batch: usize,
}

impl MessageDispatch<'_> {
    fn pass_to_session(&mut self, header: Header, message: &[u8]) {
        let ProgramConnection { now, session, outputs, .. } = &mut self.line;
        session.on_message(*now, header, message, outputs);
    }
}

impl Served {
    pub fn new(factory: Arc<dyn HandlerFactory>, errors: ProgramErrors, write_each: bool) -> Served {
        let max_batch = if write_each { 1 } else { BATCH };
        let (early, replies) = (Vec::new(), Replies::default());
        Served { factory, errors, handler: None, early, replies, next_xid: ENGINE_XIDS, wake: None, max_batch }
    }

    fn call(&mut self, mut line: ProgramConnection<'_>, call: impl FnOnce(&mut dyn Handler, &mut Replies)) {
        let Some(handler) = &mut self.handler else {
            return debug_assert!(false, "the session delivers nothing before the switch is up");
        };
        self.replies.begin(line.session.version(), line.now, self.next_xid, line.waiting);
        call(handler.as_mut(), &mut self.replies);
        self.next_xid = self.replies.next_xid();
        finish_call(&mut line, &mut self.replies, &mut self.wake);
    }
}

impl Program for Served {
    fn read(&mut self, rest: &mut &[u8], framer: &mut Framer, line: ProgramConnection<'_>) -> Progress {
        let Served { handler, early, replies, next_xid, wake, max_batch, .. } = self;
        let before = line.counters.of_messages_in;
        let version = line.session.version();
        replies.begin(version, line.now, *next_xid, line.waiting);
        let mut dispatch = MessageDispatch { line, replies, max_batch: *max_batch };
        if let Some(handler) = handler.as_deref_mut()
            && !early.is_empty()
        {
            replay_early(&std::mem::take(early), version, handler, &mut dispatch);
        }
        let done = match handler.as_deref_mut() {
            Some(handler) => with_handler(rest, framer, handler, version, &mut dispatch),
            None => before_handler(rest, framer, early, &mut dispatch),
        };
        let MessageDispatch { mut line, replies, .. } = dispatch;
        if line.counters.of_messages_in != before {
            line.session.on_progress(line.now);
        }
        *next_xid = replies.next_xid();
        finish_call(&mut line, replies, wake);
        match done {
            true => Progress::Done,
            false if *max_batch == 1 => Progress::Write,
            false => Progress::Act,
        }
    }

    fn switch_up(&mut self, switch: &SwitchInfo, line: ProgramConnection<'_>) {
        let errors = self.errors.of_switch(switch.features.dpid);
        self.handler = Some(self.factory.handler(switch, errors));
        self.call(line, |handler, out| handler.switch_up(switch, out));
    }

    fn message(&mut self, xid: u32, message: Message, line: ProgramConnection<'_>) {
        self.call(line, |handler, out| match &message {
            Message::PortStatus(status) => handler.port_status(status, out),
            Message::FlowRemoved(removed) => handler.flow_removed(removed, out),
            message => handler.reply(xid, message, out),
        });
    }

    fn wake(&self) -> Option<Time> {
        self.wake
    }

    fn timer(&mut self, line: ProgramConnection<'_>) {
        self.wake = None;
        self.call(line, |handler, out| handler.timer(out));
    }

    fn end(&mut self) {
        if let Some(mut handler) = self.handler.take() {
            handler.switch_down();
        }
    }
}

/// Dispatches messages of a switch with a handler. Packet-ins go to the handler in batches. Returns `true` if all bytes
/// are handled.
fn with_handler(
    rest: &mut &[u8],
    framer: &mut Framer,
    handler: &mut dyn Handler,
    version: Version,
    dispatch: &mut MessageDispatch<'_>,
) -> bool {
    let mut batch = ArrayVec::new();
    loop {
        let cut = framer.next(rest);
        match cut {
            Ok(StreamPart::Whole(header, message)) => {
                dispatch.line.counters.of_messages_in += 1;
                if let Some(packet) = PacketInView::from_message(version, header, message) {
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
                dispatch.pass_to_session(header, message);
            }
            Ok(StreamPart::Completed(header, message)) => {
                dispatch.line.counters.of_messages_in += 1;
                match PacketInView::from_message(version, header, message) {
                    Some(packet) => call_batch(&mut [packet].into_iter().collect(), handler, dispatch),
                    None => dispatch.pass_to_session(header, message),
                }
            }
            Ok(StreamPart::Rest(header)) => {
                call_batch(&mut batch, handler, dispatch);
                header.into_iter().for_each(|header| dispatch.line.session.on_header(header, dispatch.line.outputs));
                return true;
            }
            Err(error) => {
                call_batch(&mut batch, handler, dispatch);
                dispatch.line.session.on_garbage(error, dispatch.line.outputs);
                return true;
            }
        }
        if !dispatch.line.outputs.is_empty() {
            return false;
        }
    }
}

/// Passes the handler the packet-ins that came before it existed.
fn replay_early(early: &[u8], version: Version, handler: &mut dyn Handler, dispatch: &mut MessageDispatch<'_>) {
    let mut batch = ArrayVec::new();
    for (header, message) in Frames::new(early).map_while(Result::ok) {
        batch.extend(PacketInView::from_message(version, header, message));
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
    early: &mut Vec<u8>,
    dispatch: &mut MessageDispatch<'_>,
) -> bool {
    loop {
        let (header, message) = match framer.next(rest) {
            Ok(StreamPart::Whole(header, message)) => (header, message),
            Ok(StreamPart::Completed(header, message)) => (header, message),
            Ok(StreamPart::Rest(header)) => {
                header.into_iter().for_each(|header| dispatch.line.session.on_header(header, dispatch.line.outputs));
                return true;
            }
            Err(error) => {
                dispatch.line.session.on_garbage(error, dispatch.line.outputs);
                return true;
            }
        };
        dispatch.line.counters.of_messages_in += 1;
        if keep_early(dispatch.line.session, header, message, early) {
            continue;
        }
        dispatch.pass_to_session(header, message);
        if !dispatch.line.outputs.is_empty() {
            return false;
        }
    }
}

/// Keeps a message for the handler if it is a packet-in during the handshake and there is room. Returns whether it is
/// kept.
fn keep_early(session: &Session, header: Header, message: &[u8], early: &mut Vec<u8>) -> bool {
    let is_early =
        session.is_in_handshake() && PacketInView::from_message(session.version(), header, message).is_some();
    let is_kept = is_early && early.len() + message.len() <= MAX_EARLY;
    if is_kept {
        early.extend_from_slice(message);
    }
    is_kept
}

/// Passes a batch to the handler and clears it.
#[inline]
fn call_batch(
    batch: &mut ArrayVec<PacketInView<'_>, BATCH>,
    handler: &mut dyn Handler,
    dispatch: &mut MessageDispatch<'_>,
) {
    if !batch.is_empty() {
        dispatch.line.counters.of_packet_ins += batch.len() as u64;
        handler.packet_ins(batch, dispatch.replies);
        batch.clear();
    }
}

/// Ends calls of a handler: takes back its answers, counts them, and records its requests and its timer.
fn finish_call(line: &mut ProgramConnection<'_>, replies: &mut Replies, wake: &mut Option<Time>) {
    let (counts, timer) = replies.end(line.waiting);
    line.counters.of_messages_out += counts.messages;
    line.counters.of_flow_mods += counts.flow_mods;
    line.counters.of_packet_outs += counts.packet_outs;
    line.counters.of_unencodable += counts.unencodable;
    *wake = timer.or(*wake);
    replies.take_requests().for_each(|xid| line.session.expect(line.now, xid));
}

#[cfg(test)]
mod tests;
