//! The fast path without a shard: bytes in, answers out.

use super::*;
use maple_controller::Counters;
use maple_controller::session::{CloseReason, Deadlines, Output};
use maple_wire::msg::stats::{Desc, ReplyBody};
use maple_wire::msg::{
    Features, FlowMod, FlowModCommand, Hello, NO_BUFFER, PacketIn, PacketOut, PortReason, PortStatus, StatsReply,
    SwitchConfig,
};
use maple_wire::packet::build::Frame;
use maple_wire::{Dpid, Field, Match, Port, PortNo};
use std::collections::HashMap;

const BOTH: [Version; 2] = [Version::Of10, Version::Of13];

/// A small learning switch: its answers depend on the order of packets, and are flow-mods or packet-outs.
#[derive(Default)]
struct Learner {
    ports: HashMap<u128, PortNo>,
}

impl Handler for Learner {
    fn packet_in(&mut self, packet: &PacketInView<'_>, out: &mut Replies) {
        let in_port = packet.in_port().unwrap();
        let frame = maple_wire::Packet::new(packet.data(), in_port.0);
        let [src, dst] = [Field::EthSrc, Field::EthDst].map(|field| frame.get(field).unwrap());
        self.ports.insert(src, in_port);
        let to = self.ports.get(&dst).copied();
        if to.is_some() {
            let rule = FlowMod::new(FlowModCommand::Add, 1, Match::any().exact(Field::EthDst, dst), Vec::new());
            out.answer(packet.xid(), &Message::FlowMod(rule));
        }
        if to.is_none() || packet.buffer_id() == NO_BUFFER {
            let actions = vec![maple_wire::Action::output(to.unwrap_or(PortNo::FLOOD))];
            let answer = PacketOut { buffer_id: packet.buffer_id(), in_port, actions, data: Vec::new() };
            out.answer(packet.xid(), &Message::PacketOut(answer));
        }
    }
}

/// A connection with its program, and the parts of its shard.
struct Harness {
    program: Served,
    session: Session,
    framer: Framer,
    waiting: Vec<u8>,
    version: Version,
    outputs: Vec<Output>,
    counters: Counters,
    delivered: Vec<Message>,
    closed: Option<CloseReason>,
}

impl Harness {
    /// Creates a connection on which both ends have sent their hello.
    fn greeted(version: Version) -> Harness {
        let mut outputs = Vec::new();
        let session = Session::new(Time(0), Deadlines::default(), &mut outputs);
        let factory = Arc::new(|_: &SwitchInfo| Learner::default());
        let mut harness = Harness {
            program: Served::new(factory, ProgramErrors::detached().0, false),
            session,
            framer: Framer::default(),
            waiting: Vec::new(),
            version,
            outputs,
            counters: Counters::default(),
            delivered: Vec::new(),
            closed: None,
        };
        harness.feed(&encoded(version, &Message::Hello(Hello { version: version as u8, elements: vec![] })));
        harness
    }

    /// Creates a connection whose handshake is done, to a switch that has learned nothing.
    fn up(version: Version) -> Harness {
        let mut harness = Harness::greeted(version);
        harness.feed(&encoded(version, &Message::FeaturesReply(features())));
        assert!(harness.program.handler.is_some());
        harness.waiting.clear();
        harness
    }

    fn call<T>(&mut self, call: impl FnOnce(&mut Served, &mut Framer, ProgramConnection<'_>) -> T) -> T {
        let Harness { program, session, framer, waiting, outputs, counters, .. } = self;
        call(program, framer, ProgramConnection { now: Time(1), session, outputs, waiting, counters })
    }

    /// Handles received bytes as the shard does.
    fn feed(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        loop {
            let progress = self.call(|program, framer, line| program.read(&mut rest, framer, line));
            while !self.outputs.is_empty() {
                let outputs = std::mem::take(&mut self.outputs);
                outputs.into_iter().for_each(|output| self.act(output));
            }
            if progress == Progress::Done || self.closed.is_some() {
                return;
            }
        }
    }

    fn act(&mut self, output: Output) {
        match output {
            Output::Claim(_) => self.session.admit(Time(1), &mut self.outputs),
            Output::Send { xid, message } => self.sent(xid, message),
            Output::Up(info) => self.call(|program, _, line| program.switch_up(&info, line)),
            Output::Deliver { message, .. } => self.delivered.push(message),
            Output::Close(reason) => self.closed = Some(reason),
            other => panic!("{other:?}"),
        }
    }

    /// Sends a message of the session as the shard would, and answers requests of the handshake as the switch would.
    fn sent(&mut self, xid: u32, message: Message) {
        // Nothing waits for the configuration, so these messages may come after the handler's first answers.
        if !matches!(message, Message::GetConfigRequest | Message::SetConfig(_)) {
            message.encode(self.version, xid, &mut self.waiting).unwrap();
        }
        let answer = match message {
            Message::GetConfigRequest => Message::GetConfigReply(SwitchConfig { flags: 0, miss_send_len: 0 }),
            Message::StatsRequest(request) => Message::StatsReply(StatsReply::new(match request.body {
                maple_wire::msg::RequestBody::PortDesc => ReplyBody::PortDesc(vec![]),
                _ => ReplyBody::Desc(Desc::default()),
            })),
            _ => return,
        };
        let bytes = answer.to_bytes(self.version, xid).unwrap();
        self.feed(&bytes);
    }

    fn answers(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.waiting)
    }
}

fn features() -> Features {
    let (dpid, ports) = (Dpid(1), vec![]);
    Features { ports, ..Features::new(dpid, 1) }
}

fn encoded(version: Version, message: &Message) -> Vec<u8> {
    message.to_bytes(version, 9).unwrap()
}

fn packet(version: Version, src: u8, dst: u8, buffer_id: u32) -> Vec<u8> {
    let frame = Frame::ethernet([2, 0, 0, 0, 0, dst], [2, 0, 0, 0, 0, src]);
    let data = frame.ipv4([10, 0, 0, src], [10, 0, 0, dst]).udp(1, 2).build();
    let packet_in = PacketIn { buffer_id, ..PacketIn::new(src.into(), data) };
    encoded(version, &Message::PacketIn(packet_in))
}

/// Encodes packets with other messages between them.
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
        let mut whole = Harness::up(version);
        whole.feed(&bytes);
        let expected = whole.answers();
        assert_eq!((whole.counters.of_packet_ins, whole.counters.of_flow_mods, whole.delivered.len()), (4, 3, 1));
        for at in 0..=bytes.len() {
            let mut split = Harness::up(version);
            split.feed(&bytes[..at]);
            split.feed(&bytes[at..]);
            assert_eq!(split.answers(), expected, "split at {at}");
            assert_eq!(split.counters, whole.counters, "split at {at}");
        }
        let mut drip = Harness::up(version);
        bytes.iter().for_each(|byte| drip.feed(std::slice::from_ref(byte)));
        assert_eq!((drip.answers(), drip.delivered.len()), (expected, 1));
    }
}

#[test]
fn a_malformed_packet_in_ends_the_connection_after_earlier_answers() {
    for version in BOTH {
        let mut harness = Harness::up(version);
        let bad = [version as u8, 10, 0, 12, 0, 0, 0, 1, 0, 0, 0, 0];
        harness.feed(&[packet(version, 1, 2, 5), bad.to_vec(), packet(version, 2, 1, 5)].concat());
        assert!(matches!(harness.closed, Some(CloseReason::Malformed(_))), "{:?}", harness.closed);
        assert_eq!((harness.counters.of_packet_ins, harness.answers()[1]), (1, 13));
    }
}

#[test]
fn an_invalid_length_ends_the_connection() {
    let mut harness = Harness::up(Version::Of13);
    harness.feed(&[4, 10, 0, 3, 0, 0, 0, 0]);
    assert!(harness.closed.is_some());
    let mut harness = Harness::up(Version::Of13);
    harness.feed(&[4, 10, 0]);
    harness.feed(&[3, 0, 0, 0, 0]);
    assert!(harness.closed.is_some());
}

#[test]
fn more_packets_than_a_batch_are_all_answered_in_order() {
    let bytes: Vec<u8> = (1..=200u8).flat_map(|n| packet(Version::Of10, n, n - 1, n.into())).collect();
    let mut harness = Harness::up(Version::Of10);
    harness.feed(&bytes);
    let answers = harness.answers();
    let frames: Vec<_> = maple_wire::msg::Frames::new(&answers).map(|frame| frame.unwrap().1[1]).collect();
    assert_eq!((frames.len(), frames[0], &frames[1..]), (200, 13, &[14; 199][..]));
}

#[test]
fn packets_during_the_handshake_are_answered_wherever_they_are_split() {
    for version in BOTH {
        let early = [packet(version, 1, 2, 5), packet(version, 2, 1, 6)].concat();
        let mut up = Harness::up(version);
        up.feed(&early);
        let expected = up.answers();
        for at in 0..=early.len() {
            let mut harness = Harness::greeted(version);
            harness.feed(&early[..at]);
            harness.feed(&[&early[at..], &encoded(version, &Message::FeaturesReply(features()))].concat());
            let answers = harness.answers();
            assert!(answers.ends_with(&expected), "split at {at}");
        }
    }
}

#[test]
fn separate_writes_give_the_same_answers() {
    let bytes = stream(Version::Of10);
    let (mut whole, mut single) = (Harness::up(Version::Of10), Harness::up(Version::Of10));
    single.program.max_batch = 1;
    whole.feed(&bytes);
    single.feed(&bytes);
    assert_eq!(single.answers(), whole.answers());
}
