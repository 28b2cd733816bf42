//! Tests of batches of hits, and of remembered answers while the state changes that they depend on. The tests of
//! `maple-sim` take the same path with random networks and changes, and check all remembered answers after each batch
//! of events.

use maple_wire::Port;
use maple_wire::msg::{PacketIn, PortReason, PortStatus};
use maple_wire::packet::build::Frame;
use maple_wire::{Action, Match};

use super::*;
use crate::engine::Engine;
use crate::engine::testing::{check_remembered, switch_up};
use crate::engine::{Effect, Event, Options};
use crate::ids::ShardId;
use crate::policy::{Net, PacketHandle};
use crate::route::Route;
use crate::state::{Store, Write};

const SWITCH: Dpid = Dpid(1);

/// One switch with three ports that obeys, and a policy that floods.
struct Fixture {
    engine: Engine,
    version: Version,
    now: u64,
}

impl Fixture {
    fn new(version: Version) -> Fixture {
        let policy = Arc::new(|_: &PacketHandle, _: &Net| Route::flood());
        let engine = Engine::new(ShardId(0), Store::new(), policy, Options { check_rate: 0, ..Options::default() });
        let mut fixture = Fixture { engine, version, now: 0 };
        fixture.handle(vec![switch_up(SWITCH, version, 3, (1..=3).map(port).collect())]);
        fixture.handle((1..=3).map(|n| Event::PortIsEdge { port: Location::new(SWITCH, PortNo(n)) }).collect());
        fixture
    }

    /// Handles events, and confirms every barrier immediately.
    fn handle(&mut self, mut events: Vec<Event>) {
        let mut effects = Vec::new();
        while !events.is_empty() {
            self.now += 1_000_000_000;
            self.engine.handle(Time(self.now), &mut events, &mut effects);
            for effect in effects.drain(..) {
                match effect {
                    Effect::Send { dpid, xid, message: Message::BarrierRequest } => {
                        events.push(Event::BarrierReply { dpid, xid });
                    }
                    Effect::ReadRules { dpid } => events.push(Event::RulesRead { dpid, rules: Vec::new() }),
                    _ => {}
                }
            }
            check_remembered(&self.engine);
        }
    }

    /// Returns the answers to packets of these hosts from port 1, in one batch.
    fn answer(&mut self, hosts: &[u8]) -> (AnsweredHits, Vec<u8>) {
        let bytes: Vec<Vec<u8>> = hosts
            .iter()
            .map(|host| Message::PacketIn(packet_in(*host)).to_bytes(self.version, 9).expect("a packet-in"))
            .collect();
        let views: Vec<_> =
            bytes.iter().map(|bytes| PacketInView::new_checked(self.version, bytes).expect("a packet-in")).collect();
        let mut out = Vec::new();
        let answered = self.engine.hits(Time(self.now), SWITCH).expect("all is settled").answer(&views, &mut out);
        (answered, out)
    }

    /// Returns the ports that a host's packet goes to, if it is a hit.
    fn ports_of(&mut self, host: u8) -> Option<Vec<u32>> {
        let (answered, bytes) = self.answer(&[host]);
        if answered.packets == 0 {
            return None;
        }
        let Ok((_, Message::PacketOut(out))) = Message::decode(&bytes) else { panic!("{bytes:?}") };
        assert_eq!((out.in_port, out.data), (PortNo(1), packet_in(host).data));
        let port = |action: &Action| if let Action::Output { port, .. } = action { port.0 } else { 0 };
        Some(out.actions.iter().map(port).collect())
    }

    /// Makes a host known, and a leaf for its packets.
    fn teach(&mut self, host: u8) {
        for _ in 0..3 {
            self.handle(vec![Event::PacketIn { dpid: SWITCH, packet_in: packet_in(host) }]);
        }
    }
}

fn port(number: u32) -> Port {
    Port::new(PortNo(number), [0; 6], "port")
}

fn packet_in(host: u8) -> PacketIn {
    let data = Frame::ethernet([2, 0, 0, 0, 0, host], [2, 0, 0, 0, 1, host])
        .ipv4([10, 0, 0, host], [10, 0, 1, host])
        .udp(1, 2)
        .build();
    PacketIn::new(1, data)
}

#[test]
fn a_changed_leaf_is_never_answered_from_memory() {
    for version in [Version::Of10, Version::Of13] {
        let mut fixture = Fixture::new(version);
        fixture.teach(1);
        assert_eq!(fixture.ports_of(1), Some(vec![1, 2, 3]), "{version:?}");
        assert_eq!(fixture.ports_of(1), Some(vec![1, 2, 3]), "the second time from memory");
        let mut down = port(3);
        down.state = Port::STATE_LINK_DOWN;
        let status = PortStatus { reason: PortReason::Modify, port: down };
        fixture.handle(vec![Event::PortStatus { dpid: SWITCH, status }]);
        assert_ne!(fixture.ports_of(1), Some(vec![1, 2, 3]), "port 3 is down");
        fixture.teach(1);
        assert_eq!(fixture.ports_of(1), Some(vec![1, 2]));
    }
}

#[test]
fn a_leaf_out_of_use_is_not_answered_from_memory_even_without_a_commit() {
    let mut fixture = Fixture::new(Version::Of13);
    fixture.teach(1);
    assert_eq!(fixture.ports_of(1), Some(vec![1, 2, 3]));
    let version = fixture.engine.fabric.ctx.store.snapshot().version();
    let id = *fixture.engine.decisions.leaves.keys().next().expect("a leaf");
    fixture.engine.decisions.leaves.get_mut(&id).expect("it is there").state =
        LeafState::Waiting { by_controller: false, since: Time(0) };
    assert_eq!((fixture.ports_of(1), fixture.engine.fabric.ctx.store.snapshot().version()), (None, version));
}

#[test]
fn answers_survive_events_and_commits_that_they_do_not_depend_on() {
    let mut fixture = Fixture::new(Version::Of13);
    fixture.teach(1);
    let ports = fixture.ports_of(1);
    let id = *fixture.engine.decisions.leaves.keys().next().expect("a leaf");
    let write = Write::Var { name: "unread".into(), value: Some(crate::state::Value::from(1)) };
    fixture.handle(vec![Event::Tick, Event::Write(vec![write])]);
    assert!(fixture.engine.decisions.leaves.remembered(id).is_some(), "it was not forgotten");
    assert_eq!(fixture.ports_of(1), ports);
}

#[test]
fn a_hit_needs_a_host_at_its_known_port_that_announces_nothing() {
    let mut fixture = Fixture::new(Version::Of13);
    fixture.teach(1);
    assert!(fixture.ports_of(1).is_some() && fixture.ports_of(2).is_none(), "2 is not known");
    let mut routed = packet_in(1);
    let at = routed.data.windows(4).position(|bytes| bytes == [10, 0, 0, 1]).expect("its address");
    routed.data[at + 3] = 77;
    let mut elsewhere = packet_in(1);
    // Port 65,537 has the same lower 16 bits as port 1.
    elsewhere.pipeline = Match::any().exact(Field::InPort, 0x1_0001);
    let mut announces = packet_in(1);
    announces.data = Frame::ethernet([0xff; 6], [2, 0, 0, 0, 1, 1]).arp_request([10, 0, 0, 1], [10, 0, 0, 2]);
    announces.total_len = announces.data.len() as u16;
    for (packet, packets) in [(routed, 1), (elsewhere, 0), (announces, 0)] {
        let bytes = Message::PacketIn(packet).to_bytes(Version::Of13, 9).expect("a packet-in");
        let view = PacketInView::new_checked(Version::Of13, &bytes).expect("a packet-in");
        let answered =
            fixture.engine.hits(Time(fixture.now), SWITCH).expect("settled").answer(&[view], &mut Vec::new());
        assert_eq!(answered.packets, packets);
    }
}

#[test]
fn a_batch_is_answered_like_its_packets_one_by_one() {
    for version in [Version::Of10, Version::Of13] {
        let mut fixtures = [Fixture::new(version), Fixture::new(version)];
        fixtures.iter_mut().for_each(|fixture| [1, 2, 5].into_iter().for_each(|host| fixture.teach(host)));
        let hosts = [1, 9, 2, 2, 8, 5, 1];
        let [together, single] = &mut fixtures;
        let (answered, bytes) = together.answer(&hosts);
        assert_eq!(answered, AnsweredHits { packets: 0b110_1101, packet_outs: 5 });
        let each: Vec<u8> = hosts.iter().flat_map(|host| single.answer(&[*host]).1).collect();
        assert_eq!(bytes, each, "{version:?}");
    }
}

/// Creates a packet of a known host from another port.
fn from_port_2(host: u8) -> Event {
    let pipeline = Match::any().exact(Field::InPort, 2);
    Event::PacketIn { dpid: SWITCH, packet_in: PacketIn { pipeline, ..packet_in(host) } }
}

#[test]
fn a_search_for_one_host_does_not_stop_hits_of_other_hosts() {
    let mut fixture = Fixture::new(Version::Of13);
    [1, 2].into_iter().for_each(|host| fixture.teach(host));
    assert!(fixture.ports_of(1).is_some() && fixture.ports_of(2).is_some());
    let asks = from_port_2(1);
    let (now, mut effects) = (Time(fixture.now), Vec::new());
    fixture.engine.handle(now, &mut vec![asks], &mut effects);
    assert_eq!(fixture.ports_of(1), None, "the search waits for its packet");
    assert!(fixture.ports_of(2).is_some(), "during the search for host 1");
    for _ in 0..60 {
        fixture.handle(vec![Event::Tick]);
    }
    assert!(fixture.ports_of(2).is_some(), "after the search has ended");
}
