//! Streams that are split anywhere: the messages that the session gets, and the packet-ins that are answered in place.

use std::sync::Arc;

use maple_core::engine::testing::switch_up;
use maple_core::engine::{Effect, Engine, Event, Options, ShardId};
use maple_core::network::Location;
use maple_core::policy::{Net, PacketHandle};
use maple_core::route::Route;
use maple_core::state::Store;
use maple_wire::msg::{Frames, Hello, NO_BUFFER};
use maple_wire::packet::build::Frame;
use maple_wire::{Dpid, Message, Port, PortNo};

use super::*;
use crate::session::Deadlines;
use crate::shard::testing::{packet_in as encoded_packet_in, reply};

const SWITCH: Dpid = Dpid(1);
const NOW: Time = Time(3_600_000_000_000);

/// The results of a stream.
#[derive(Debug, Default, PartialEq)]
struct Results {
    /// The outputs of the session.
    outputs: String,
    messages: usize,
    answered: AnsweredInPlace,
    /// The answers to hits.
    answers: Vec<u8>,
}

/// A session, and the engine that answers its switch's packets if there is one.
struct Harness {
    session: Session,
    framer: Framer,
    engine: Option<Engine>,
    out: Vec<Output>,
}

impl Harness {
    /// Creates a newly accepted connection.
    fn new() -> Harness {
        let mut out = Vec::new();
        let session = Session::new(NOW, Deadlines::default(), &mut out);
        Harness { session, framer: Framer::default(), engine: None, out }
    }

    /// Creates the connection of a switch that a policy serves, whose handshake is done, with two known hosts.
    fn up(version: Version) -> Harness {
        let mut harness = Harness::new();
        harness.out.clear();
        let hello = Message::Hello(Hello { version: version as u8, elements: vec![] });
        harness.take(&encoded(version, 1, &hello));
        while !harness.session.is_up() {
            for output in std::mem::take(&mut harness.out) {
                match output {
                    Output::Claim(_) => harness.session.admit(NOW, &mut harness.out),
                    Output::Send { xid, message } => {
                        let reply = reply(SWITCH, &message).map(|reply| encoded(version, xid, &reply));
                        reply.into_iter().for_each(|reply| drop(harness.take(&reply)));
                    }
                    _ => {}
                }
            }
        }
        harness.out.clear();
        harness.engine = Some(engine(version));
        harness
    }

    /// Returns the results of one read.
    fn take(&mut self, read: &[u8]) -> Results {
        let Harness { session, framer, engine, out } = self;
        let hits = engine.as_mut().map(|engine| engine.hits(NOW, SWITCH).expect("no update is in progress"));
        let mut answers = Vec::new();
        let dispatch = MessageDispatch::new(NOW, session, hits, &mut answers, out);
        let (messages, answered) = dispatch.dispatch(framer, read);
        Results { outputs: String::new(), messages, answered, answers }
    }

    /// Returns the results of a stream that comes in these reads.
    fn results<'a>(mut self, reads: impl Iterator<Item = &'a [u8]>) -> Results {
        let mut all = Results::default();
        for read in reads {
            let results = self.take(read);
            all.messages += results.messages;
            all.answered.packets += results.answered.packets;
            all.answered.packet_outs += results.answered.packet_outs;
            all.answers.extend(results.answers);
        }
        all.outputs = format!("{:?}", self.out);
        all
    }
}

/// Creates the engine of a policy that floods, which knows the hosts 1 and 2 and has leaves for their packets.
fn engine(version: Version) -> Engine {
    let policy = Arc::new(|_: &PacketHandle, _: &Net| Route::flood());
    let options = Options { check_rate: 0, ..Options::default() };
    let mut engine = Engine::new(ShardId(0), Store::new(), policy, options);
    let dpid = SWITCH;
    let ports = [1, 2].map(|number| Port::new(PortNo(number), [0; 6], "port")).to_vec();
    handle(&mut engine, vec![switch_up(dpid, version, 3, ports)]);
    let edges = [1, 2].map(|number| Event::PortIsEdge { port: Location::new(dpid, PortNo(number)) });
    handle(&mut engine, edges.to_vec());
    for host in [1, 2].repeat(3) {
        let Ok((_, Message::PacketIn(packet_in))) = Message::decode(&packet(version, 0, host)) else {
            panic!("it is a packet-in")
        };
        handle(&mut engine, vec![Event::PacketIn { dpid, packet_in }]);
    }
    engine
}

/// Handles events, and answers barriers immediately.
fn handle(engine: &mut Engine, mut events: Vec<Event>) {
    let mut effects = Vec::new();
    while !events.is_empty() {
        engine.handle(NOW, &mut events, &mut effects);
        events.extend(effects.drain(..).filter_map(|effect| match effect {
            Effect::Send { dpid, xid, message: Message::BarrierRequest } => Some(Event::BarrierReply { dpid, xid }),
            Effect::ReadRules { dpid } => Some(Event::RulesRead { dpid, rules: Vec::new() }),
            _ => None,
        }));
    }
}

fn encoded(version: Version, xid: u32, message: &Message) -> Vec<u8> {
    message.to_bytes(version, xid).expect("it can be said")
}

/// Encodes a packet-in of a host's packet, from port 1.
fn packet(version: Version, xid: u32, host: u8) -> Vec<u8> {
    let frame = Frame::ethernet([2, 0, 0, 0, 1, host], [2, 0, 0, 0, 0, host]);
    let frame = frame.ipv4([10, 0, 0, host], [10, 0, 1, host]).udp(1, 2).build();
    encoded_packet_in(version, xid, NO_BUFFER, 1, &frame)
}

#[test]
fn messages_of_all_sizes_are_the_same_to_a_session_however_they_are_cut() {
    let mut stream = Vec::new();
    let hello = Message::Hello(Hello { version: Version::Of13 as u8, elements: vec![] });
    let echo = |length: usize| Message::EchoRequest((0..length).map(|n| n as u8).collect());
    for message in [hello, echo(0), echo(5000), echo(1), echo(2500), echo(30)] {
        stream.extend(encoded(Version::Of13, 7, &message));
    }
    let whole = Harness::new().results([&stream[..]].into_iter());
    assert_eq!(whole.messages, 6);
    for length in (1..64).chain([500, 2047, 2048, 2049, 5000, 5008, 5024]) {
        assert_eq!(Harness::new().results(stream.chunks(length)), whole, "in reads of {length}");
    }
}

/// The stream has hits, a packet of an unknown host, and an echo request between them.
#[test]
fn hits_are_the_same_wherever_a_stream_is_cut() {
    for version in [Version::Of10, Version::Of13] {
        let echo = encoded(version, 3, &Message::EchoRequest(vec![7; 5]));
        let packet = |xid, host| packet(version, xid, host);
        let stream =
            [packet(1, 1), packet(2, 2), echo, packet(4, 2), packet(5, 9), packet(6, 1), packet(7, 1)].concat();
        let whole = Harness::up(version).results([&stream[..]].into_iter());
        assert_eq!((whole.messages, whole.answered), (7, AnsweredInPlace { packets: 5, packet_outs: 5 }));
        assert_eq!(Frames::new(&whole.answers).map_while(Result::ok).count(), 5, "an answer a hit");
        for at in 0..=stream.len() {
            let (front, back) = stream.split_at(at);
            let results = Harness::up(version).results([front, back].into_iter());
            assert_eq!(results, whole, "{version:?}, cut at {at}");
        }
        assert_eq!(Harness::up(version).results(stream.chunks(1)), whole, "{version:?}, byte by byte");
    }
}
