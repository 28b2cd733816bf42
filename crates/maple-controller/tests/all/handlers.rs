//! Switches that handlers serve, over real sockets.

use std::io::{ErrorKind, Read, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::{LONG, Maple, Peer, SHORT, eventually, hello, packet_in, port};
use maple_controller::session::SwitchInfo;
use maple_handlers::{Handler, Handlers, Hub, LearningSwitch, Replies};
use maple_wire::msg::{NO_BUFFER, PacketInView, PortReason, PortStatus};
use maple_wire::packet::build::Frame;
use maple_wire::{Message, PortNo, Version};

const BOTH: [Version; 2] = [Version::Of10, Version::Of13];

fn serving<H: Handler + 'static>(make: impl Fn() -> H + Send + Sync + 'static) -> Maple {
    Maple::with(|options| options.programs = Some(Arc::new(Handlers::new(move |_: &SwitchInfo| make()))))
}

/// Brings up a switch, whose handshake is done then.
fn up(maple: &Maple, version: Version, dpid: u64) -> Peer {
    let mut peer = Peer::begin(maple.address, version, dpid);
    assert!(peer.pump(LONG, |_, message| matches!(message, Message::SetConfig(_))));
    let switches = || maple.connected().iter().any(|switch| switch.dpid == peer.dpid);
    eventually("the switch is up", switches);
    peer.seen.clear();
    peer
}

fn frame(src: u8, dst: u8) -> Vec<u8> {
    let frame = Frame::ethernet([2, 0, 0, 0, 0, dst], [2, 0, 0, 0, 0, src]);
    frame.ipv4([10, 0, 0, src], [10, 0, 0, dst]).udp(7, 8).build()
}

/// Returns the next message that is a flow-mod or packet-out with actions that send.
fn answer(peer: &mut Peer) -> Message {
    let wanted = |message: &Message| match message {
        Message::PacketOut(_) => true,
        Message::FlowMod(flow_mod) => flow_mod.priority > 0,
        _ => false,
    };
    assert!(peer.pump(LONG, |_, message| wanted(message)), "an answer; there was {:?}", peer.seen);
    peer.seen.pop().expect("it is the last").1
}

#[test]
fn the_learning_switch_floods_then_installs() {
    let maple = serving(LearningSwitch::new);
    for (dpid, version) in (1..).zip(BOTH) {
        let mut peer = up(&maple, version, dpid);
        peer.send(1, &packet_in(1, frame(0xa, 0xb)));
        let Message::PacketOut(flood) = answer(&mut peer) else { panic!("unknown: flooded") };
        assert_eq!((flood.in_port, flood.data), (PortNo(1), frame(0xa, 0xb)));
        peer.send(2, &packet_in(2, frame(0xb, 0xa)));
        let Message::FlowMod(rule) = answer(&mut peer) else { panic!("known: a rule") };
        assert_eq!(rule.buffer_id, NO_BUFFER);
        let Message::PacketOut(packet) = answer(&mut peer) else { panic!("the packet goes along") };
        assert_eq!(packet.data, frame(0xb, 0xa));
    }
    assert_eq!(maple.count("of_flow_mods"), 2 + 1, "one of them asks for packets in 1.3");
    assert_eq!(maple.count("of_packet_ins"), 4);
}

#[test]
fn packets_that_come_during_the_handshake_are_learned_from_and_answered_after_it() {
    let maple = serving(LearningSwitch::new);
    for (dpid, version) in (1..).zip(BOTH) {
        let mut peer = Peer::begin(maple.address, version, dpid);
        peer.send(1, &packet_in(2, frame(0xb, 0xff)));
        peer.send(2, &packet_in(1, frame(0xa, 0xb)));
        let Message::PacketOut(flood) = answer(&mut peer) else { panic!("a broadcast is flooded") };
        assert_eq!(flood.in_port, PortNo(2));
        assert!(matches!(answer(&mut peer), Message::FlowMod(_)), "it was learned from");
    }
    assert_eq!((maple.count("of_packet_ins"), maple.count("of_early_packet_ins")), (4, 0));
}

#[test]
fn switches_of_one_shard_learn_each_for_itself() {
    let maple = serving(LearningSwitch::new);
    let (mut one, mut two) = (up(&maple, Version::Of10, 1), up(&maple, Version::Of10, 2));
    one.send(1, &packet_in(1, frame(0xa, 0xb)));
    answer(&mut one);
    two.send(2, &packet_in(2, frame(0xb, 0xa)));
    assert!(matches!(answer(&mut two), Message::PacketOut(_)));
    one.send(2, &packet_in(2, frame(0xb, 0xa)));
    assert!(matches!(answer(&mut one), Message::FlowMod(_)));
}

#[test]
fn the_hub_floods_everything() {
    let maple = serving(|| Hub);
    for (dpid, version) in (1..).zip(BOTH) {
        let mut peer = up(&maple, version, dpid);
        for (src, dst) in [(1, 2), (2, 1), (1, 2)] {
            peer.send(1, &packet_in(src.into(), frame(src, dst)));
            assert!(matches!(answer(&mut peer), Message::PacketOut(out) if out.in_port == PortNo(src.into())));
        }
    }
}

/// A handler that repeats to the switch everything that it hears, as the text of an echo request.
struct Parrot;

impl Parrot {
    fn say(&self, text: &str, out: &mut Replies) {
        out.request(&Message::EchoRequest(text.as_bytes().to_vec()));
    }
}

impl Handler for Parrot {
    fn switch_up(&mut self, switch: &SwitchInfo, out: &mut Replies) {
        self.say(&format!("up {}", switch.ports.len()), out);
        out.request(&Message::BarrierRequest);
        out.wake_after(Duration::from_millis(50));
    }

    fn packet_in(&mut self, packet: &PacketInView<'_>, out: &mut Replies) {
        self.say(&format!("packet {}", packet.data().len()), out);
    }

    fn port_status(&mut self, status: &PortStatus, out: &mut Replies) {
        self.say(&format!("port {}", status.port.number), out);
    }

    fn reply(&mut self, _: u32, message: &Message, out: &mut Replies) {
        self.say(&format!("{message:?}"), out);
    }

    fn timer(&mut self, out: &mut Replies) {
        self.say("timer", out);
    }
}

#[test]
fn a_handler_hears_everything_in_order_and_wakes_in_time() {
    let maple = serving(|| Parrot);
    for (dpid, version) in (1..).zip(BOTH) {
        let mut peer = Peer::begin(maple.address, version, dpid);
        let hear = |peer: &mut Peer, text: &str| {
            let said = |message: &Message| matches!(message, Message::EchoRequest(said) if said == text.as_bytes());
            assert!(peer.pump(LONG, |_, message| said(message)), "{text:?}; there was {:?}", peer.seen);
        };
        hear(&mut peer, "up 2");
        hear(&mut peer, "BarrierReply");
        hear(&mut peer, "timer");
        let mut bytes = packet_in(1, vec![0; 20]).to_bytes(version, 1).unwrap();
        let status = PortStatus { reason: PortReason::Add, port: port(3) };
        Message::PortStatus(status).encode(version, 2, &mut bytes).unwrap();
        packet_in(1, vec![0; 30]).encode(version, 3, &mut bytes).unwrap();
        peer.send_bytes(&bytes);
        hear(&mut peer, "packet 20");
        hear(&mut peer, "port 3");
        hear(&mut peer, "packet 30");
        assert_eq!(maple.connected().last().map(|switch| switch.ports.len()), Some(3));
    }
}

#[test]
fn handlers_of_many_workers_serve_all_switches() {
    let maple = Maple::with(|options| {
        options.programs = Some(Arc::new(Handlers::new(|_: &SwitchInfo| LearningSwitch::new())));
        options.workers.count = 3;
    });
    let mut peers: Vec<Peer> = (1..=12).map(|dpid| up(&maple, Version::Of13, dpid)).collect();
    for peer in &mut peers {
        peer.send(1, &packet_in(1, frame(1, 2)));
    }
    peers.iter_mut().for_each(|peer| assert!(matches!(answer(peer), Message::PacketOut(_))));
}

#[test]
fn a_switch_that_does_not_read_is_not_read_from_and_others_are_served() {
    let maple = serving(LearningSwitch::new);
    let mut silent = up(&maple, Version::Of13, 1);
    let mut other = up(&maple, Version::Of13, 2);
    let mut packets = Vec::new();
    for n in 0..500u32 {
        packet_in(1, frame((n % 7) as u8, 0xff)).encode(Version::Of13, n, &mut packets).unwrap();
    }
    // It writes until the controller takes no more.
    silent.stream.set_nonblocking(true).unwrap();
    let mut sent = 0;
    let mut idle = 0;
    let began = Instant::now();
    while idle < 20 || maple.count("of_paused") == 0 {
        match silent.stream.write(&packets[sent % packets.len()..]) {
            Ok(taken) => (sent, idle) = (sent + taken, 0),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                idle += 1;
                std::thread::sleep(Duration::from_millis(10));
            }
            Err(error) => panic!("{error}"),
        }
        assert!(sent < 1 << 30 && began.elapsed() < LONG * 3, "it is still read from");
    }
    let waiting = maple.connected()[0].waiting_bytes;
    assert!(waiting > 0 && waiting < 1 << 20, "{waiting} bytes wait: the answers to one read at most");
    other.send(1, &packet_in(1, frame(1, 2)));
    assert!(matches!(answer(&mut other), Message::PacketOut(_)));

    // When it reads again, it gets every answer.
    silent.stream.set_nonblocking(false).unwrap();
    silent.stream.set_read_timeout(Some(SHORT)).unwrap();
    let mut got = 0;
    let mut chunk = vec![0; 1 << 20];
    eventually("nothing waits", || {
        while let Ok(read @ 1..) = silent.stream.read(&mut chunk) {
            got += read;
        }
        maple.connected().iter().all(|switch| switch.waiting_bytes == 0)
    });
    assert!(got > waiting);
    assert_eq!(maple.connected().len(), 2, "it is still connected");
}

#[test]
fn a_switch_that_leaves_and_comes_again_starts_afresh() {
    let maple = serving(LearningSwitch::new);
    let mut peer = up(&maple, Version::Of10, 1);
    peer.send(1, &packet_in(1, frame(1, 2)));
    answer(&mut peer);
    drop(peer);
    maple.wait_for("of_dp_disconnections", 1);
    let mut peer = up(&maple, Version::Of10, 1);
    peer.send(1, &packet_in(2, frame(2, 1)));
    assert!(matches!(answer(&mut peer), Message::PacketOut(_)), "it has learned nothing yet");
}

#[test]
fn a_handshake_fails_as_it_does_without_handlers() {
    let maple = serving(|| Hub);
    let mut peer = Peer::connect(maple.address);
    peer.send(1, &hello(6, Some(0x60)));
    assert!(peer.error().is_some() && peer.is_closed());
    drop(Peer::connect(maple.address));
    maple.wait_for("of_silent_connections", 1);
}
