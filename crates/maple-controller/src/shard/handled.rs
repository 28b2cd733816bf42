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
use crate::framing::Framer;
use crate::handler::{BATCH, Handler, Replies};
use crate::session::{Output, Session, SwitchInfo, apply_port_status};

/// Bytes of packet-ins that a connection may hold until its handshake is done. Some switches (and `cbench`) do not wait.
const EARLY: usize = 16 * 1024;

/// What a shard lends to the connection that it serves.
pub(super) struct Desk<'a> {
    pub now: Time,
    pub replies: &'a mut Replies,
    pub outputs: &'a mut Vec<Output>,
    pub counters: &'a mut Counters,
}

impl Shard {
    /// Handles what one read brought, and writes the answers.
    pub(super) fn serve(&mut self, now: Time, slot: usize, bytes: &[u8]) {
        let mut rest = bytes;
        loop {
            let Some(connection) = self.connections.get(slot) else { return };
            connection.outbox.borrow(&mut self.spare);
            let (replies, outputs, counters) = (&mut self.replies, &mut self.outputs, &mut self.counters);
            let done = connection.take_in_place(&mut rest, Desk { now, replies, outputs, counters });
            self.act(now, slot);
            if done {
                break;
            }
        }
        self.write(now, slot);
    }

    /// A switch that a handler will serve is up.
    pub(super) fn up_with_handler(&mut self, now: Time, slot: usize, info: &SwitchInfo) {
        let Some(factory) = &self.handlers else { return };
        let handler = factory.handler(info);
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
        let Connection { life: Life::Open { session, .. }, handler: Some(handler), outbox, wake, .. } = connection
        else {
            return;
        };
        self.replies.begin(session.version(), now, outbox.buffer());
        call(handler.as_mut(), &mut self.replies);
        settle(now, session, &mut self.replies, outbox.buffer(), wake, &mut self.counters);
        self.want_write(slot);
        self.arm(slot);
    }
}

impl Connection {
    /// Handles messages from the front of `rest` up to the first that makes the session say something, which the owner
    /// must act on before the next. `true` once all bytes are dealt with.
    fn take_in_place(&mut self, rest: &mut &[u8], mut desk: Desk<'_>) -> bool {
        let Connection { life: Life::Open { session, framer }, handler, early, outbox, wake, .. } = self else {
            return true;
        };
        let before = desk.counters.of_messages_in;
        let version = handler.as_ref().map(|_| session.version());
        desk.replies.begin(session.version(), desk.now, outbox.buffer());
        if let Some(handler) = handler.as_deref_mut()
            && !early.is_empty()
        {
            catch_up(&std::mem::take(early), session.version(), handler, &mut desk);
        }
        let done = match finish_begun(rest, framer, session, handler.as_deref_mut(), &mut desk) {
            Some(done) => done,
            None => match handler.as_deref_mut().zip(version) {
                Some((handler, version)) => in_place(rest, framer, session, (handler, version), &mut desk),
                None => one_by_one(rest, framer, session, early, &mut desk),
            },
        };
        if desk.counters.of_messages_in != before {
            session.on_progress(desk.now);
        }
        settle(desk.now, session, desk.replies, outbox.buffer(), wake, desk.counters);
        done
    }
}

/// Completes the message that an earlier read began. `None` if the messages behind it are next, otherwise whether all is
/// done.
fn finish_begun(
    rest: &mut &[u8],
    framer: &mut Framer,
    session: &mut Session,
    handler: Option<&mut (dyn Handler + 'static)>,
    desk: &mut Desk<'_>,
) -> Option<bool> {
    if framer.held() == 0 {
        return None;
    }
    let header = match framer.complete(rest) {
        Ok(Some(header)) => header,
        Ok(None) => {
            framer.pending().into_iter().for_each(|header| session.on_header(header, desk.outputs));
            return Some(true);
        }
        Err(error) => {
            session.on_garbage(error, desk.outputs);
            return Some(true);
        }
    };
    desk.counters.of_messages_in += 1;
    let version = session.version();
    match handler.and_then(|handler| Some((packet_in(version, header, framer.begun())?, handler))) {
        Some((packet, handler)) => hand_over(&mut [packet].into_iter().collect(), handler, desk),
        None => session.on_message(desk.now, header, framer.begun(), desk.outputs),
    }
    framer.clear();
    (!desk.outputs.is_empty()).then_some(false)
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
        match next(rest) {
            Ok(Some((header, message))) => {
                desk.counters.of_messages_in += 1;
                if let Some(packet) = packet_in(version, header, message) {
                    batch.push(packet);
                    if batch.is_full() {
                        hand_over(&mut batch, handler, desk);
                    }
                    continue;
                }
                hand_over(&mut batch, handler, desk);
                session.on_message(desk.now, header, message, desk.outputs);
                if !desk.outputs.is_empty() {
                    return false;
                }
            }
            Ok(None) => {
                hand_over(&mut batch, handler, desk);
                return begin(rest, framer, session, desk);
            }
            Err(error) => {
                hand_over(&mut batch, handler, desk);
                session.on_garbage(error, desk.outputs);
                return true;
            }
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
        match next(rest) {
            Ok(Some((header, message))) => {
                desk.counters.of_messages_in += 1;
                let is_early = session.is_introducing() && packet_in(session.version(), header, message).is_some();
                if is_early && early.len() + message.len() <= EARLY {
                    early.extend_from_slice(message);
                    continue;
                }
                session.on_message(desk.now, header, message, desk.outputs);
                if !desk.outputs.is_empty() {
                    return false;
                }
            }
            Ok(None) => return begin(rest, framer, session, desk),
            Err(error) => {
                session.on_garbage(error, desk.outputs);
                return true;
            }
        }
    }
}

/// Puts the start of a message that has not come in whole aside.
fn begin(rest: &mut &[u8], framer: &mut Framer, session: &mut Session, desk: &mut Desk<'_>) -> bool {
    framer.keep(rest);
    framer.pending().into_iter().for_each(|header| session.on_header(header, desk.outputs));
    true
}

/// Takes the next whole message off the front of `rest`.
#[inline]
fn next<'a>(rest: &mut &'a [u8]) -> Result<Option<(Header, &'a [u8])>, maple_wire::Error> {
    let Some(header) = Header::peek(rest)? else { return Ok(None) };
    let Some((message, behind)) = rest.split_at_checked(usize::from(header.length)) else { return Ok(None) };
    *rest = behind;
    Ok(Some((header, message)))
}

/// The message as a packet-in, if it is one and holds together; if it does not, the session says so.
#[inline]
fn packet_in(version: Version, header: Header, message: &[u8]) -> Option<PacketInView<'_>> {
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
mod tests {
    use super::*;
    use crate::handler::LearningSwitch;
    use crate::session::{CloseReason, Deadlines};
    use crate::shard::registry::ConnectionId;
    use maple_core::engine::ShardId;
    use maple_wire::msg::stats::{Desc, ReplyBody};
    use maple_wire::msg::{
        Features, Hello, NO_BUFFER, PacketIn, PacketInReason, PortReason, PortStatus, StatsReply, SwitchConfig,
    };
    use maple_wire::packet::build::Frame;
    use maple_wire::{Dpid, Field, Match, Port, PortNo};
    use std::net::SocketAddr;

    const BOTH: [Version; 2] = [Version::Of10, Version::Of13];

    /// A connection, and what its shard would have.
    struct Bench {
        connection: Connection,
        version: Version,
        replies: Replies,
        outputs: Vec<Output>,
        counters: Counters,
        told: Vec<Message>,
        closed: Option<CloseReason>,
        _peer: std::net::TcpStream,
    }

    impl Bench {
        /// A connection whose handshake is done, to a switch that has learned nothing.
        fn up(version: Version) -> Bench {
            let listener = std::net::TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
            let peer = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (socket, address) = listener.accept().unwrap();
            socket.set_nonblocking(true).unwrap();
            let mut outputs = Vec::new();
            let session = Session::new(Time(0), Deadlines::default(), &mut outputs);
            let id = ConnectionId { shard: ShardId(0), slot: 0, generation: 0 };
            let socket = mio::net::TcpStream::from_std(socket);
            let mut bench = Bench {
                connection: Connection::new(id, socket, address, session),
                version,
                replies: Replies::default(),
                outputs,
                counters: Counters::default(),
                told: Vec::new(),
                closed: None,
                _peer: peer,
            };
            bench.feed(&encoded(version, &Message::Hello(Hello { version: version as u8, elements: vec![] })));
            bench.feed(&encoded(version, &Message::FeaturesReply(features())));
            assert!(bench.connection.handler.is_some());
            bench.connection.outbox.buffer().clear();
            bench
        }

        /// What the shard does with bytes that came in.
        fn feed(&mut self, bytes: &[u8]) {
            let mut rest = bytes;
            loop {
                let (replies, outputs, counters) = (&mut self.replies, &mut self.outputs, &mut self.counters);
                let desk = Desk { now: Time(1), replies, outputs, counters };
                let done = self.connection.take_in_place(&mut rest, desk);
                while !self.outputs.is_empty() {
                    let outputs = std::mem::take(&mut self.outputs);
                    outputs.into_iter().for_each(|output| self.act(output));
                }
                if done || self.closed.is_some() {
                    return;
                }
            }
        }

        fn act(&mut self, output: Output) {
            match output {
                Output::Claim(_) => self.connection.session().unwrap().admit(Time(1), &mut self.outputs),
                Output::Send { xid, message } => self.sent(xid, message),
                Output::Up(_) => self.connection.handler = Some(Box::new(LearningSwitch::new())),
                Output::Deliver { message, .. } => self.told.push(message),
                Output::Close(reason) => self.closed = Some(reason),
                other => panic!("{other:?}"),
            }
        }

        /// The shard sends a message of the session's; the switch answers those of the handshake.
        fn sent(&mut self, xid: u32, message: Message) {
            self.connection.outbox.push(self.version, xid, &message).unwrap();
            let answer = match message {
                Message::GetConfigRequest => Message::GetConfigReply(SwitchConfig { flags: 0, miss_send_len: 0 }),
                Message::StatsRequest(request) => Message::StatsReply(StatsReply::new(match request.body {
                    maple_wire::msg::RequestBody::PortDesc => ReplyBody::PortDesc(vec![]),
                    _ => ReplyBody::Desc(Desc::default()),
                })),
                _ => return,
            };
            let mut bytes = Vec::new();
            answer.encode(self.version, xid, &mut bytes).unwrap();
            self.feed(&bytes);
        }

        fn answers(&mut self) -> Vec<u8> {
            std::mem::take(self.connection.outbox.buffer())
        }
    }

    fn features() -> Features {
        let (dpid, ports) = (Dpid(1), vec![]);
        Features { dpid, n_buffers: 0, n_tables: 1, auxiliary_id: 0, capabilities: 0, actions: 0, ports }
    }

    fn encoded(version: Version, message: &Message) -> Vec<u8> {
        let mut bytes = Vec::new();
        message.encode(version, 9, &mut bytes).unwrap();
        bytes
    }

    fn packet(version: Version, src: u8, dst: u8, buffer_id: u32) -> Vec<u8> {
        let frame = Frame::ethernet([2, 0, 0, 0, 0, dst], [2, 0, 0, 0, 0, src]);
        let data = frame.ipv4([10, 0, 0, src], [10, 0, 0, dst]).udp(1, 2).build();
        let packet_in = PacketIn {
            buffer_id,
            total_len: data.len() as u16,
            reason: PacketInReason::NoMatch,
            table_id: 0,
            cookie: u64::MAX,
            pipeline: Match::any().exact(Field::InPort, src.into()),
            data,
        };
        encoded(version, &Message::PacketIn(packet_in))
    }

    /// Packets with other messages between them.
    fn stream(version: Version) -> Vec<u8> {
        let port = Port::new(PortNo(1), [0; 6], "p");
        let pieces = [
            packet(version, 1, 2, 5),
            packet(version, 2, 1, 6),
            encoded(version, &Message::EchoRequest(vec![1, 2, 3])),
            packet(version, 1, 2, NO_BUFFER),
            encoded(version, &Message::PortStatus(PortStatus { reason: PortReason::Add, port })),
            packet(version, 3, 2, 8),
        ];
        pieces.concat()
    }

    #[test]
    fn a_stream_split_at_any_byte_is_answered_like_a_whole_one() {
        for version in BOTH {
            let bytes = stream(version);
            let mut whole = Bench::up(version);
            whole.feed(&bytes);
            let expected = whole.answers();
            assert_eq!((whole.counters.of_packet_ins, whole.counters.of_flow_mods, whole.told.len()), (4, 3, 1));
            for at in 0..=bytes.len() {
                let mut split = Bench::up(version);
                split.feed(&bytes[..at]);
                split.feed(&bytes[at..]);
                assert_eq!(split.answers(), expected, "split at {at}");
                assert_eq!(split.counters, whole.counters, "split at {at}");
            }
            let mut drip = Bench::up(version);
            bytes.iter().for_each(|byte| drip.feed(std::slice::from_ref(byte)));
            assert_eq!((drip.answers(), drip.told.len()), (expected, 1));
        }
    }

    #[test]
    fn a_packet_in_that_does_not_hold_together_ends_the_connection_behind_the_answers_before_it() {
        for version in BOTH {
            let mut bench = Bench::up(version);
            let bad = [version as u8, 10, 0, 12, 0, 0, 0, 1, 0, 0, 0, 0];
            bench.feed(&[packet(version, 1, 2, 5), bad.to_vec(), packet(version, 2, 1, 5)].concat());
            assert!(matches!(bench.closed, Some(CloseReason::Malformed(_))), "{:?}", bench.closed);
            assert_eq!((bench.counters.of_packet_ins, bench.answers()[1]), (1, 13));
        }
    }

    #[test]
    fn a_length_that_cannot_be_one_ends_the_connection() {
        let mut bench = Bench::up(Version::Of13);
        bench.feed(&[4, 10, 0, 3, 0, 0, 0, 0]);
        assert!(bench.closed.is_some());
        let mut bench = Bench::up(Version::Of13);
        bench.feed(&[4, 10, 0]);
        bench.feed(&[3, 0, 0, 0, 0]);
        assert!(bench.closed.is_some());
    }

    #[test]
    fn more_packets_than_a_batch_are_all_answered_in_order() {
        let bytes: Vec<u8> = (1..=200u8).flat_map(|n| packet(Version::Of10, n, n - 1, n.into())).collect();
        let mut bench = Bench::up(Version::Of10);
        bench.feed(&bytes);
        let answers = bench.answers();
        let frames: Vec<_> = maple_wire::msg::Frames::new(&answers).map(|frame| frame.unwrap().1[1]).collect();
        assert_eq!((frames.len(), frames[0], &frames[1..]), (200, 13, &[14; 199][..]));
    }
}
