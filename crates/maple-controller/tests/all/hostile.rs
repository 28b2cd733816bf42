//! Peers that break the protocol, flood, are slow, or do not read: they harm only themselves.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::common::{LONG, Maple, Peer, descriptors, eventually, packet_in, port, speaks_tls};
use maple_controller::{Deadlines, QueueLimits};
use maple_wire::msg::{ErrorMsg, PacketIn, PacketInReason, PortReason, PortStatus};
use maple_wire::packet::build::Frame;
use maple_wire::{Field, Match, Message, PortNo, Version};

/// Makes a message with this type and body.
fn raw(version: Version, kind: u8, body: &[u8]) -> Vec<u8> {
    let length = (8 + body.len()) as u16;
    [&[version as u8, kind][..], &length.to_be_bytes(), &[0, 0, 0, 9], body].concat()
}

#[test]
fn a_malformed_message_costs_its_own_connection_and_is_answered_with_an_error() {
    let maple = Maple::start();
    let mut bystander = Peer::up(&maple, Version::Of13, 1);
    let bad = [
        ("a message shorter than its header", vec![4, 10, 0, 4, 0, 0, 0, 1]),
        ("a packet-in without its fixed part", raw(Version::Of13, 10, &[0; 4])),
        ("half a port description", raw(Version::Of13, 19, &[&[0, 13][..], &[0; 39]].concat())),
    ];
    for (dpid, (what, bytes)) in (100..).zip(&bad) {
        let mut peer = Peer::up(&maple, Version::Of13, dpid);
        peer.seen.clear();
        peer.send_bytes(bytes);
        let error = peer.error().unwrap_or_else(|| panic!("{what}: an error"));
        assert_eq!((error.kind, error.code), (1, 6), "{what}: OFPET_BAD_REQUEST, OFPBRC_BAD_LEN");
        assert!(peer.is_closed(), "{what}");
        bystander.echo();
    }
    assert_eq!(maple.count("of_malformed"), bad.len() as u64);
    assert_eq!(maple.connected().len(), 1);
}

#[test]
fn unknown_types_are_answered_with_bad_type_and_the_session_goes_on() {
    let maple = Maple::start();
    for version in [Version::Of10, Version::Of13] {
        let mut peer = Peer::up(&maple, version, 1);
        maple.notices();
        for kind in [99, 200, 14] {
            peer.seen.clear();
            peer.send_bytes(&raw(version, kind, &[0; 8]));
            if kind != 14 {
                let error = peer.error().expect("an error");
                assert_eq!((error.kind, error.code), (1, 1), "OFPET_BAD_REQUEST, OFPBRC_BAD_TYPE");
                peer.echo();
            }
        }
        let odd = maple.notices().iter().filter(|notice| notice.contains("which no switch sends")).count();
        assert_eq!(odd, 1, "told once a connection");
    }
}

#[test]
fn replies_that_nobody_asked_for_are_ignored() {
    let maple = Maple::start();
    let mut peer = Peer::up(&maple, Version::Of13, 1);
    for xid in [0, 1, 0x8000_0000, 0xffff_ffff] {
        peer.send(xid, &Message::BarrierReply);
        peer.send(xid, &Message::EchoReply(vec![0; 100]));
    }
    peer.dpid = maple_wire::Dpid(2);
    peer.answer(3, &Message::FeaturesRequest);
    peer.echo();
    assert!(maple.count("of_unexpected_replies") >= 4);
    assert_eq!(maple.connected()[0].dpid, maple_wire::Dpid(1), "a switch does not change who it is");
}

#[test]
fn a_switch_that_drips_a_message_forever_is_given_up() {
    let quick = Duration::from_millis(300);
    let maple = Maple::impatient(Deadlines { idle: quick, echo: quick, ..Deadlines::default() });
    let mut dripper = Peer::up(&maple, Version::Of13, 2);
    dripper.send_bytes(&[4, 2, 0xff, 0xff, 0, 0, 0, 0]);
    eventually("it is given up", || {
        dripper.send_bytes(&[0]);
        maple.connected().is_empty()
    });
    assert_eq!(maple.count("of_timeouts"), 1, "bytes are no life, messages are");
}

#[test]
fn two_thousand_idle_connections_disturb_no_one() {
    // The ends of switches that speak TLS are threads.
    let count = if speaks_tls() { 200 } else { 2000 };
    // Each connection has both of its ends in this process.
    if !descriptors(2 * count as u64) {
        return;
    }
    let maple = Maple::with(|options| options.openflow.deadlines.handshake = LONG * 6);
    let mut bystander = Peer::up(&maple, Version::Of13, 1);
    let idle: Vec<Peer> = (0..count).map(|_| Peer::connect(maple.address)).collect();
    eventually("all are accepted", || maple.handle.stats().unwrap().connections == count + 1);
    (0..50).for_each(|_| bystander.echo());
    drop(idle);
    eventually("all are gone", || maple.handle.stats().unwrap().connections == 1);
    bystander.echo();
}

#[test]
fn a_switch_that_never_reads_stops_being_read_is_cut_off_and_delays_nobody() {
    let quick = Duration::from_secs(3);
    let maple = Maple::with(|options| {
        options.openflow.deadlines = Deadlines { idle: quick, echo: quick, ..Deadlines::default() };
        options.openflow.limits = QueueLimits { pause: 64 * 1024, ..QueueLimits::default() };
    });
    let mut bystander = Peer::up(&maple, Version::Of13, 1);
    let deaf = Peer::up(&maple, Version::Of13, 2);
    // The switch asks for echoes of 32 KiB and reads no answer.
    let mut stream = deaf.stream.try_clone().unwrap();
    let flood = std::thread::spawn(move || {
        let bytes = Message::EchoRequest(vec![0; 32 * 1024]).to_bytes(Version::Of13, 1).unwrap();
        let mut sent = 0;
        while stream.write_all(&bytes).is_ok() {
            sent += bytes.len();
        }
        sent
    });
    maple.wait_for("of_paused", 1);
    let mut most = 0;
    while maple.count("of_not_reading") == 0 {
        bystander.echo();
        most = most.max(maple.connected().iter().map(|switch| switch.waiting_bytes).max().unwrap_or(0));
    }
    assert!(most < 1024 * 1024, "{most} bytes waited");
    let sent = flood.join().unwrap();
    assert!(sent > most, "{sent} bytes were sent");
    assert!(maple.notices().iter().any(|notice| notice.contains("does not read")));
    bystander.echo();
    drop(deaf);
}

#[test]
fn a_switch_is_cut_off_at_the_hard_bound() {
    let maple =
        Maple::with(|options| options.openflow.limits = QueueLimits { pause: usize::MAX, disconnect: 256 * 1024 });
    let mut bystander = Peer::up(&maple, Version::Of13, 1);
    let mut deaf = Peer::up(&maple, Version::Of13, 2);
    let bytes = Message::EchoRequest(vec![0; 32 * 1024]).to_bytes(Version::Of13, 1).unwrap();
    eventually("it is cut off", || {
        deaf.send_bytes(&bytes);
        maple.count("of_not_reading") > 0
    });
    bystander.echo();
    assert_eq!(maple.connected().len(), 1);
}

#[test]
fn a_flood_of_packets_leaves_others_their_share() {
    let maple = Maple::start();
    let mut bystander = Peer::up(&maple, Version::Of13, 1);
    let flooder = Peer::up(&maple, Version::Of13, 2);
    let mut stream = flooder.stream.try_clone().unwrap();
    let mut reader = flooder.stream.try_clone().unwrap();
    let frame = Frame::ethernet([0xff; 6], [0, 0, 0, 0, 0, 9]).raw(0x88b5, &[0; 46]);
    let mut bytes = Vec::new();
    for _ in 0..1000 {
        packet_in(1, frame.clone()).encode(Version::Of13, 0, &mut bytes).unwrap();
    }
    let is_over = Arc::new(AtomicBool::new(false));
    let stop = Arc::clone(&is_over);
    let flood = std::thread::spawn(move || {
        while !stop.load(Ordering::Relaxed) && stream.write_all(&bytes).is_ok() {}
        stream.shutdown(std::net::Shutdown::Both)
    });
    let drain = std::thread::spawn(move || std::io::copy(&mut reader, &mut std::io::sink()));
    maple.wait_for("of_packet_ins", 1000);
    (0..50).for_each(|_| bystander.echo());
    assert!(!flood.is_finished(), "the flood went on meanwhile");
    is_over.store(true, Ordering::Relaxed);
    let _ = (flood.join(), drain.join());
}

#[test]
fn errors_and_full_tables_never_lose_a_switch() {
    let maple = Maple::start();
    let mut peers = Vec::new();
    for (dpid, version) in [(1, Version::Of10), (2, Version::Of13)] {
        let mut peer = Peer::begin(maple.address, version, dpid);
        // OFPFMFC_ALL_TABLES_FULL (1.0), OFPFMFC_TABLE_FULL (1.3), for every rule.
        let (kind, code) = if version == Version::Of10 { (3, 0) } else { (5, 1) };
        let mut refused = 0;
        let start = Instant::now();
        while refused < 5 && start.elapsed() < LONG {
            let Some((header, message)) = peer.receive(Duration::from_secs(1)) else { break };
            if let Message::FlowMod(_) = message {
                refused += 1;
                peer.send(header.xid, &Message::Error(ErrorMsg { kind, code, data: vec![version as u8; 64] }));
            } else {
                peer.answer(header.xid, &message);
            }
        }
        assert!(refused >= 1);
        for (kind, code) in [(0, 0), (1, 6), (2, 3), (0xffff, 0xffff)] {
            peer.send(0, &Message::Error(ErrorMsg { kind, code, data: vec![] }));
        }
        peer.echo();
        peers.push(peer);
    }
    assert_eq!(maple.connected().len(), 2);
    assert!(maple.count("of_errors") >= 4);
}

#[test]
fn a_switch_that_takes_no_rules_in_its_second_table_gets_the_layout_for_one_when_it_is_back() {
    let maple = Maple::start();
    let mut first = Peer::begin(maple.address, Version::Of13, 5);
    let is_refused = |message: &Message| matches!(message, Message::FlowMod(rule) if rule.table_id == 1);
    assert!(first.pump(LONG, |_, message| is_refused(message)), "it has three tables");
    let (xid, refused) = first.seen.last().expect("a message").clone();
    let data = refused.to_bytes(Version::Of13, xid).unwrap();
    // OFPFMFC_BAD_TABLE_ID
    first.send(xid, &Message::Error(ErrorMsg { kind: 5, code: 2, data }));
    assert!(first.is_closed());
    let again = Peer::up(&maple, Version::Of13, 5);
    let table = |(_, message): &(u32, Message)| match message {
        Message::FlowMod(rule) => Some(rule.table_id),
        _ => None,
    };
    let tables: Vec<u8> = again.seen.iter().filter_map(table).collect();
    assert!(!tables.is_empty() && tables.iter().all(|table| *table == 0), "{tables:?}");
}

#[test]
fn odd_ports_and_packets_are_survived() {
    let maple = Maple::start();
    let mut peers = Vec::new();
    for (dpid, version) in [(1, Version::Of10), (2, Version::Of13)] {
        let mut peer = Peer::up(&maple, version, dpid);
        let frame = Frame::ethernet([0xff; 6], [0, 0, 0, 0, 0, 9]).raw(0x88b5, &[0; 46]);
        let (none, any, local) = (0, PortNo::ANY.0, PortNo::LOCAL.0);
        for in_port in [none, any, local, 77, 0xfeff] {
            for data in [&frame[..], &frame[..13], &[], &[0xff; 60]] {
                peer.send(0, &packet_in(in_port, data.to_vec()));
            }
        }
        if version == Version::Of13 {
            let pipeline = Match::any().exact(Field::EthType, 0x800);
            let reason = PacketInReason::Other(9);
            let odd = PacketIn { buffer_id: 3, total_len: 9, reason, table_id: 255, cookie: 0, pipeline, data: frame };
            peer.send(0, &Message::PacketIn(odd));
        }
        for number in [none, local, any] {
            for reason in [PortReason::Add, PortReason::Modify, PortReason::Delete, PortReason::Other(9)] {
                peer.send(0, &Message::PortStatus(PortStatus { reason, port: port(number) }));
            }
        }
        peer.echo();
        peers.push(peer);
    }
    assert_eq!(maple.connected().len(), 2);
    assert_eq!(maple.handle.hosts(), []);
}
