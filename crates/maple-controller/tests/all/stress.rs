//! Many switches, hostile switches, or both, on the fast path of handlers.
//!
//! Short by default. `MAPLE_STRESS=10` makes storms ten times as long.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::common::{LONG, Maple, Peer, eventually, longer, packet_in};
use maple_controller::session::SwitchInfo;
use maple_handlers::{Handler, Handlers, Hub, LearningSwitch, Replies};
use maple_wire::msg::{Frames, NO_BUFFER, PacketInView};
use maple_wire::packet::build::Frame;
use maple_wire::{Message, Version};

/// The maximum number of bytes that the controller reads of a socket before the others have their turn.
const READ_SHARE: usize = 64 * 1024;

fn serving<H: Handler + 'static>(make: impl Fn(&SwitchInfo) -> H + Send + Sync + 'static) -> Maple {
    Maple::with(|options| options.programs = Some(Arc::new(Handlers::new(make))))
}

/// Brings up a switch, whose handshake is done then.
fn up(maple: &Maple, version: Version, dpid: u64) -> Peer {
    let mut peer = Peer::begin(maple.address, version, dpid);
    // The built-in handlers ask for packets that no rule of 1.3 matches; either message may be the last.
    let (mut configured, mut asked) = (false, version == Version::Of10);
    let done = peer.pump(LONG, |_, message| {
        configured |= matches!(message, Message::SetConfig(_));
        asked |= matches!(message, Message::FlowMod(_));
        configured && asked
    });
    assert!(done);
    eventually("the switch is up", || maple.connected().iter().any(|switch| switch.dpid == peer.dpid));
    peer.seen.clear();
    peer
}

#[test]
fn a_storm_of_reconnects_leaves_everything_as_it_was() {
    let maple = Maple::with(|options| {
        options.programs = Some(Arc::new(Handlers::new(|_: &SwitchInfo| LearningSwitch::new())));
        options.workers.count = 2;
        // The bystander answers no echo during the storm.
        options.openflow.deadlines.idle = LONG * 6;
    });
    let mut bystander = up(&maple, Version::Of13, 99);
    let storm = |thread: u64| {
        for round in 0..40 * u64::from(longer()) {
            // Switches of two threads sometimes have the same datapath ids.
            let version = if round % 2 == 0 { Version::Of10 } else { Version::Of13 };
            let mut peer = Peer::begin(maple.address, version, 1 + (thread + round) % 6);
            match round % 4 {
                0 => {}
                1 => peer.send_bytes(&[version as u8, 10, 0]),
                _ => drop(peer.pump(LONG, |_, message| matches!(message, Message::SetConfig(_) | Message::Error(_)))),
            }
            peer.send(1, &packet_in(1, vec![0; 60]));
        }
    };
    std::thread::scope(|scope| {
        (0..4).for_each(|thread| drop(scope.spawn(move || storm(thread))));
        for _ in 0..20 {
            bystander.echo();
        }
    });
    eventually("all but one are gone", || maple.handle.stats().unwrap().connections == 1);
    assert_eq!(maple.connected().len(), 1);
    let survivor = up(&maple, Version::Of10, 1);
    assert_eq!(maple.count("of_dp_connections"), maple.count("of_dp_disconnections") + 2);
    drop(survivor);
}

/// Makes frames of all sizes that a packet-in can have, no two alike.
fn sizes(version: Version) -> Vec<Vec<u8>> {
    let longest = if version == Version::Of10 { 65_535 - 24 } else { 65_535 - 42 };
    let fixed = [0, 1, 13, 14, 60, 64, 1500, 9000, 32_768, longest - 1, longest];
    let many = (0..400usize).map(|n| (n * 37) % 2000);
    fixed.into_iter().chain(many).enumerate().map(|(n, size)| vec![n as u8; size]).collect()
}

#[test]
fn messages_of_all_sizes_come_back_whole_however_they_are_cut() {
    let maple = serving(|_| Hub);
    for (dpid, version) in (1..).zip([Version::Of10, Version::Of13]) {
        let mut peer = up(&maple, version, dpid);
        let frames = sizes(version);
        let mut bytes = Vec::new();
        for (xid, frame) in (1..).zip(&frames) {
            packet_in(1, frame.clone()).encode(version, xid, &mut bytes).unwrap();
        }
        let mut stream = peer.stream.try_clone().unwrap();
        let writer = std::thread::spawn(move || {
            // Pieces of 1 to 4096 bytes, whose ends fall everywhere.
            let mut rest = &bytes[..];
            for piece in (0..).map(|n: usize| 1 + (n * n * 7919) % 4096) {
                let (now, later) = rest.split_at(piece.min(rest.len()));
                stream.write_all(now).unwrap();
                rest = later;
                if rest.is_empty() {
                    break;
                }
            }
        });
        for (xid, frame) in (1..).zip(&frames) {
            let (header, message) = peer.receive(LONG).expect("an answer");
            let Message::PacketOut(out) = message else { panic!("{message:?}") };
            assert_eq!((header.xid, out.data.len()), (xid, frame.len()));
            assert!(out.data == *frame);
        }
        writer.join().unwrap();
    }
}

#[test]
fn a_switch_that_drips_its_packets_gets_its_answers_and_delays_nobody() {
    let maple = serving(|_| Hub);
    let (mut dripper, mut other) = (up(&maple, Version::Of10, 1), up(&maple, Version::Of10, 2));
    let mut bytes = Vec::new();
    (1..=4).for_each(|xid| packet_in(1, vec![9; 40]).encode(Version::Of10, xid, &mut bytes).unwrap());
    for byte in bytes {
        dripper.send_bytes(&[byte]);
        other.send(7, &packet_in(2, vec![1; 60]));
        assert!(matches!(other.receive(LONG), Some((_, Message::PacketOut(_)))), "it is served between two bytes");
    }
    (1..=4).for_each(|xid| assert_eq!(dripper.receive(LONG).map(|(header, _)| header.xid), Some(xid)));
}

/// A handler that notes the order of its packets. A packet-in with buffer id 0 waits until it is released.
struct Notebook {
    dpid: u64,
    notes: Arc<Mutex<Vec<u64>>>,
    waits: Arc<Mutex<(Sender<()>, Receiver<()>)>>,
}

impl Handler for Notebook {
    fn packet_in(&mut self, packet: &PacketInView<'_>, _: &mut Replies) {
        if packet.buffer_id() == 0 {
            let gate = self.waits.lock().unwrap();
            gate.0.send(()).unwrap();
            gate.1.recv_timeout(LONG).unwrap();
        } else {
            self.notes.lock().unwrap().push(self.dpid);
        }
    }
}

/// Measures fairness by counted work: while the controller is held up, some switches fill their sockets and one sends a
/// single packet. When the controller goes on, that packet waits for at most one read of each of the others.
#[test]
fn a_single_packet_waits_for_one_read_of_each_switch_that_floods() {
    const FLOODERS: usize = 5;
    let (reached, at_gate) = mpsc::channel();
    let (open, opened) = mpsc::channel();
    let waits = Arc::new(Mutex::new((reached, opened)));
    let notes = Arc::new(Mutex::new(Vec::new()));
    let maple = {
        let notes = Arc::clone(&notes);
        serving(move |info: &SwitchInfo| Notebook {
            dpid: info.features.dpid.0,
            notes: Arc::clone(&notes),
            waits: Arc::clone(&waits),
        })
    };
    let mut gate = up(&maple, Version::Of10, 100);
    let mut flooders: Vec<Peer> = (1..=FLOODERS as u64).map(|dpid| up(&maple, Version::Of10, dpid)).collect();
    let mut single = up(&maple, Version::Of10, 50);
    let packet = packet_in(1, vec![0; 60]).to_bytes(Version::Of10, 1).unwrap();
    let mut held = packet.clone();
    held[8..12].fill(0);
    gate.send_bytes(&held);
    at_gate.recv_timeout(LONG).expect("the controller is held up");
    for flooder in &mut flooders {
        fill(flooder, &packet);
    }
    single.send_bytes(&packet);
    open.send(()).unwrap();
    eventually("the packet is handled", || notes.lock().unwrap().contains(&50));
    let mut before = BTreeMap::<u64, usize>::new();
    for dpid in notes.lock().unwrap().iter().take_while(|dpid| **dpid != 50) {
        *before.entry(*dpid).or_default() += packet.len();
    }
    assert!(before.values().all(|bytes| *bytes <= READ_SHARE), "{before:?}");
}

/// Writes packets until the socket takes no more, at most four reads' worth. May stop in the middle of a packet.
fn fill(peer: &mut Peer, packet: &[u8]) {
    let bytes = packet.repeat(4 * READ_SHARE / packet.len());
    peer.stream.set_nonblocking(true).unwrap();
    let mut rest = &bytes[..];
    while !rest.is_empty() {
        match peer.stream.write(rest) {
            Ok(taken) => rest = &rest[taken..],
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) => panic!("{error}"),
        }
    }
    peer.stream.set_nonblocking(false).unwrap();
    assert!(bytes.len() - rest.len() > READ_SHARE, "more than one read waits");
}

#[test]
fn a_switch_that_never_reads_is_held_while_others_are_answered() {
    let maple = serving(|_| Hub);
    let (deaf, mut other) = (up(&maple, Version::Of13, 1), up(&maple, Version::Of13, 2));
    let mut stream = deaf.stream.try_clone().unwrap();
    let mut packets = Vec::new();
    let frame = Frame::ethernet([0xff; 6], [2, 0, 0, 0, 0, 1]).raw(0x88b5, &[0; 1400]);
    (0..50).for_each(|xid| packet_in(1, frame.clone()).encode(Version::Of13, xid, &mut packets).unwrap());
    stream.set_write_timeout(Some(Duration::from_millis(300))).unwrap();
    // The switch writes until the controller does not read any more.
    let (mut sent, began) = (0, Instant::now());
    loop {
        match stream.write(&packets[sent % packets.len()..]) {
            Ok(taken) => sent += taken,
            Err(_) if maple.count("of_paused") >= 1 => break,
            Err(error) => assert!(began.elapsed() < LONG * 3, "it reads no more, and has not paused: {error}"),
        }
    }
    let taken = maple.count("of_packet_ins");
    for _ in 0..100 {
        other.send(5, &packet_in(1, frame.clone()));
        assert!(matches!(other.receive(LONG), Some((_, Message::PacketOut(_)))));
    }
    assert_eq!(maple.count("of_packet_ins"), taken + 100, "it is not read from");
    let waiting = maple.connected()[0].waiting_bytes;
    assert!(waiting <= 2 * READ_SHARE, "{waiting} bytes wait: the answers to one read");

    // The answers that it gets in the end are whole.
    let mut reader = deaf.stream.try_clone().unwrap();
    reader.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    let (mut held, mut chunk, mut answers) = (Vec::new(), vec![0; 1 << 16], 0);
    while let Ok(read @ 1..) = reader.read(&mut chunk) {
        held.extend_from_slice(&chunk[..read]);
        let mut frames = Frames::new(&held);
        for message in frames.by_ref() {
            let (_, message) = Message::decode(message.expect("a header").1).expect("a message");
            let Message::PacketOut(out) = message else { continue };
            assert!(out.buffer_id == NO_BUFFER && out.data == frame);
            answers += 1;
        }
        let consumed = frames.consumed();
        held.drain(..consumed);
    }
    assert!(answers > 50, "{answers}");
}

#[test]
fn silent_switches_cost_no_turns() {
    const SWITCHES: u64 = 200;
    let maple = Maple::with(|options| {
        options.programs = Some(Arc::new(Handlers::new(|_: &SwitchInfo| LearningSwitch::new())));
        options.openflow.deadlines.idle = LONG * 6;
    });
    let peers: Vec<Peer> = (1..=SWITCHES)
        .map(|dpid| {
            let mut peer = Peer::begin(maple.address, Version::Of13, dpid);
            assert!(peer.pump(LONG, |_, message| matches!(message, Message::SetConfig(_))));
            peer
        })
        .collect();
    eventually("all are up", || maple.connected().len() == peers.len());
    let turns = maple.count("turns");
    std::thread::sleep(Duration::from_millis(500));
    let turns = maple.count("turns") - turns;
    assert!(turns <= 4, "{turns} turns in half a second, one of which was for this question");
}
