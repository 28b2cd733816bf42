//! Streams that come in cut anywhere: what a session is told, and which packets of a policy are answered where they lie.

use std::sync::Arc;

use maple_core::engine::{Effect, Event, Options, ShardId};
use maple_core::network::Location;
use maple_core::policy::{Net, PacketHandle};
use maple_core::route::Route;
use maple_core::state::Store;
use maple_wire::msg::stats::Desc;
use maple_wire::msg::{Features, Frames, Hello, NO_BUFFER};
use maple_wire::packet::build::Frame;
use maple_wire::{Message, PortNo};

use super::*;
use crate::handler::testing::packet_in as encoded_packet_in;
use crate::session::Deadlines;
use crate::shard::testing::reply;

const SWITCH: Dpid = Dpid(1);
const NOW: Time = Time(3_600_000_000_000);

/// What comes of a stream.
#[derive(Debug, Default, PartialEq)]
struct Told {
    /// What the session says to it.
    said: String,
    messages: usize,
    answered: Answered,
    /// The answers to hits.
    answers: Vec<u8>,
}

/// A session, and the engine that answers its switch's packets if there is one.
struct Bench {
    session: Session,
    framer: Framer,
    engine: Option<Engine>,
    out: Vec<Output>,
}

impl Bench {
    /// A connection that has just been accepted.
    fn new() -> Bench {
        let mut out = Vec::new();
        let session = Session::new(NOW, Deadlines::default(), &mut out);
        Bench { session, framer: Framer::default(), engine: None, out }
    }

    /// A switch of a policy that is up and in use, with two hosts that it knows.
    fn up(version: Version) -> Bench {
        let mut bench = Bench::new();
        bench.out.clear();
        let hello = Message::Hello(Hello { version: version as u8, elements: vec![] });
        bench.take(&encoded(version, 1, &hello));
        while !bench.session.is_up() {
            for output in std::mem::take(&mut bench.out) {
                match output {
                    Output::Claim(_) => bench.session.admit(NOW, &mut bench.out),
                    Output::Send { xid, message } => {
                        let reply = reply(SWITCH, &message).map(|reply| encoded(version, xid, &reply));
                        reply.into_iter().for_each(|reply| drop(bench.take(&reply)));
                    }
                    _ => {}
                }
            }
        }
        bench.out.clear();
        bench.engine = Some(engine(version));
        bench
    }

    /// What comes of bytes that one read brought.
    fn take(&mut self, read: &[u8]) -> Told {
        let Bench { session, framer, engine, out } = self;
        let hits = engine.as_mut().map(|engine| engine.hits(NOW, SWITCH).expect("nothing is to be settled first"));
        let (batch, waiting, answered, mut answers) = (ArrayVec::new(), ArrayVec::new(), Answered::default(), vec![]);
        let mut desk =
            Desk { now: NOW, session, hits, outbox: &mut answers, out, batch, waiting, messages: 0, answered };
        desk.take_in(framer, read);
        let Desk { messages, answered, .. } = desk;
        Told { said: String::new(), messages, answered, answers }
    }

    /// What comes of a stream in these reads.
    fn told<'a>(mut self, reads: impl Iterator<Item = &'a [u8]>) -> Told {
        let mut all = Told::default();
        for read in reads {
            let told = self.take(read);
            all.messages += told.messages;
            all.answered.packets += told.answered.packets;
            all.answered.packet_outs += told.answered.packet_outs;
            all.answers.extend(told.answers);
        }
        all.said = format!("{:?}", self.out);
        all
    }
}

/// A shard of the policy that floods, which knows the hosts 1 and 2 and has leaves for their packets.
fn engine(version: Version) -> Engine {
    let policy = Arc::new(|_: &PacketHandle, _: &Net| Route::flood());
    let options = Options { check_rate: 0, ..Options::default() };
    let mut engine = Engine::new(ShardId(0), Store::new(), policy, options);
    let (dpid, n_tables) = (SWITCH, 3);
    let features =
        Features { dpid, n_buffers: 0, n_tables, auxiliary_id: 0, capabilities: 0, actions: 0, ports: vec![] };
    let ports = [1, 2].map(|number| Port::new(PortNo(number), [0; 6], "port")).to_vec();
    handle(&mut engine, vec![Event::SwitchUp { dpid, version, features, description: Desc::default(), ports }]);
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

/// Handles events, and confirms at once what is to be confirmed.
fn handle(engine: &mut Engine, mut events: Vec<Event>) {
    let mut effects = Vec::new();
    while !events.is_empty() {
        engine.handle(NOW, &mut events, &mut effects);
        events.extend(effects.drain(..).filter_map(|effect| match effect {
            Effect::Send { dpid, xid, message: Message::BarrierRequest } => Some(Event::BarrierReply { dpid, xid }),
            Effect::ReadFlows { dpid } => Some(Event::FlowsRead { dpid, flows: Vec::new() }),
            _ => None,
        }));
    }
}

fn encoded(version: Version, xid: u32, message: &Message) -> Vec<u8> {
    let mut bytes = Vec::new();
    message.encode(version, xid, &mut bytes).expect("it can be said");
    bytes
}

/// A packet-in of a host's packet, by port 1.
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
    let whole = Bench::new().told([&stream[..]].into_iter());
    assert_eq!(whole.messages, 6);
    for length in (1..64).chain([500, 2047, 2048, 2049, 5000, 5008, 5024]) {
        assert_eq!(Bench::new().told(stream.chunks(length)), whole, "in reads of {length}");
    }
}

/// Hits, a packet of a host that is not known, and an echo between them.
#[test]
fn hits_are_the_same_wherever_a_stream_is_cut() {
    for version in [Version::Of10, Version::Of13] {
        let echo = encoded(version, 3, &Message::EchoRequest(vec![7; 5]));
        let packet = |xid, host| packet(version, xid, host);
        let stream =
            [packet(1, 1), packet(2, 2), echo, packet(4, 2), packet(5, 9), packet(6, 1), packet(7, 1)].concat();
        let whole = Bench::up(version).told([&stream[..]].into_iter());
        assert_eq!((whole.messages, whole.answered), (7, Answered { packets: 5, packet_outs: 5 }));
        assert_eq!(Frames::new(&whole.answers).map_while(Result::ok).count(), 5, "an answer a hit");
        for at in 0..=stream.len() {
            let (front, back) = stream.split_at(at);
            let told = Bench::up(version).told([front, back].into_iter());
            assert_eq!(told, whole, "{version:?}, cut at {at}");
        }
        assert_eq!(Bench::up(version).told(stream.chunks(1)), whole, "{version:?}, byte by byte");
    }
}
