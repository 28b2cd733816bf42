//! Handshakes over real sockets: versions, refusals, deadlines, duplicates.

use std::net::TcpStream;
use std::time::Duration;

use super::common::{LONG, Maple, Peer, SHORT, eventually, hello};
use maple_controller::Deadlines;
use maple_core::engine::CounterKind;
use maple_wire::msg::Header;
use maple_wire::{Dpid, Message, Version};

const BOTH: [Version; 2] = [Version::Of10, Version::Of13];

fn quick() -> Deadlines {
    let ms = Duration::from_millis;
    Deadlines { handshake: ms(400), request: ms(600), idle: ms(300), echo: ms(400), challenge: ms(400) }
}

#[test]
fn switches_of_both_versions_come_up_and_are_shown() {
    let maple = Maple::start();
    let _peers = [Peer::up(&maple, Version::Of10, 0x10), Peer::up(&maple, Version::Of13, 0x13)];
    let switches = maple.connected();
    let shown: Vec<(Dpid, Version, usize)> = switches.iter().map(|s| (s.dpid, s.version, s.ports.len())).collect();
    assert_eq!(shown, [(Dpid(0x10), Version::Of10, 2), (Dpid(0x13), Version::Of13, 2)]);
    assert_eq!(switches[0].description, "Test peer 1");
    assert_eq!(maple.count("of_dp_connections"), 2);
}

#[test]
fn switches_of_1_4_or_1_5_only_are_refused_with_an_error_that_says_so() {
    let maple = Maple::start();
    for (version, bitmap) in [(5, Some(0x20)), (5, None), (6, None), (6, Some(0x60)), (6, Some(0x40))] {
        let mut peer = Peer::connect(maple.address);
        peer.send(1, &hello(version, bitmap));
        if bitmap.is_none() {
            // Such a hello may stand for 1.3 as well; a message in 1.4 or 1.5 does not.
            peer.send_bytes(&[version, 2, 0, 8, 0, 0, 0, 2]);
        }
        let error = peer.error().expect("an error");
        assert_eq!((error.kind, error.code), (0, 0), "OFPET_HELLO_FAILED, OFPHFC_INCOMPATIBLE");
        let text = String::from_utf8(error.data).unwrap();
        assert!(text.contains("Maple speaks OpenFlow 1.0 and 1.3"), "{text}");
        assert!(peer.is_closed());
    }
    maple.wait_for("of_handshake_failures", 5);
    let notices = maple.notices();
    let offers: Vec<&str> =
        notices.iter().filter_map(|notice| notice.split_once("this switch offers ")).map(|(_, all)| all).collect();
    assert_eq!(
        offers,
        ["only 1.4", "only 1.5", "only 1.4 and 1.5"],
        "each reason of an address is told once: {notices:?}"
    );
}

#[test]
fn connect_then_close_is_silent() {
    let maple = Maple::start();
    for _ in 0..20 {
        drop(TcpStream::connect(maple.address).expect("it accepts"));
    }
    maple.wait_for("of_silent_connections", 20);
    assert_eq!(maple.notices(), Vec::<String>::new());
    assert_eq!(maple.count("of_handshake_failures"), 0);
}

#[test]
fn a_silent_peer_is_cut_off_after_the_deadline_whichever_step_it_stops_at() {
    let maple = Maple::impatient(quick());
    let mut mute = Peer::connect(maple.address);
    let mut hello_only = Peer::greeted(maple.address, Version::Of13);
    let mut no_description = Peer::begin(maple.address, Version::Of13, 3);
    no_description.pump(LONG, |_, message| matches!(message, Message::FeaturesRequest));
    for peer in [&mut mute, &mut hello_only, &mut no_description] {
        assert!(peer.is_closed());
    }
    maple.wait_for("of_timeouts", 3);
    assert!(maple.notices().iter().any(|notice| notice.contains("within 400ms")));
}

#[test]
fn a_second_connection_with_a_live_switchs_id_is_refused_and_reported() {
    for workers in [1, 2] {
        let maple = Maple::with(|options| options.workers.count = workers);
        let mut first = Peer::up(&maple, Version::Of13, 7);
        maple.notices();
        let address = maple.address;
        let second = std::thread::spawn(move || {
            let mut second = Peer::begin(address, Version::Of13, 7);
            let error = second.error();
            (error, second.is_closed())
        });
        // The first one answers the probe.
        while !second.is_finished() {
            first.pump(Duration::from_millis(50), |_, _| false);
        }
        let (error, closed) = second.join().unwrap();
        let text = String::from_utf8(error.expect("an error").data).unwrap();
        assert!(closed && text.contains("0000000000000007 belongs to another connection"), "{text}");
        first.echo();
        assert_eq!(maple.count("of_duplicate_dpids"), 1);
        let notices = maple.notices();
        assert!(notices.iter().any(|n| n.contains("belongs to another connection, which is alive")), "{notices:?}");
    }
}

#[test]
fn a_second_connection_replaces_one_that_is_dead() {
    for workers in [1, 2] {
        let maple = Maple::with(|options| {
            options.workers.count = workers;
            options.openflow.deadlines.challenge = Duration::from_millis(300);
        });
        // This switch stays open and never answers again, as after a crash of the switch's host.
        let dead = Peer::up(&maple, Version::Of13, 7);
        let mut second = Peer::up(&maple, Version::Of13, 7);
        second.echo();
        assert_eq!((maple.count("of_replaced_connections"), maple.count("of_dp_connections")), (1, 2));
        assert_eq!(maple.connected().len(), 1);
        let notices = maple.notices();
        assert!(
            notices.iter().any(|n| n.contains("connected again, and this connection did not answer")),
            "{notices:?}"
        );
        drop(dead);
    }
}

#[test]
fn a_switch_that_closes_and_connects_again_is_not_taken_for_a_duplicate() {
    let maple = Maple::start();
    for round in 1..=20 {
        let mut peer = Peer::up(&maple, BOTH[round % 2], 7);
        peer.echo();
    }
    assert_eq!(maple.count("of_duplicate_dpids"), 0);
    maple.wait_for("of_dp_disconnections", 20);
}

#[test]
fn a_switch_that_leaves_before_it_has_read_everything_has_left_and_that_is_no_error() {
    let maple = Maple::impatient(Deadlines { idle: SHORT / 3, echo: LONG, ..Deadlines::default() });
    let peer = Peer::up(&maple, Version::Of13, 7);
    // An echo request comes meanwhile. If something is unread, the system ends a connection with a reset.
    std::thread::sleep(SHORT * 2);
    drop(peer);
    maple.wait_for("of_dp_disconnections", 1);
    let errors: Vec<String> = maple.handle.errors().into_iter().map(|error| error.text).collect();
    assert_eq!(errors, <[String; 0]>::default());
    eventually("it is reported", || maple.notices().iter().any(|notice| notice.contains("closed by the switch")));
}

#[test]
fn nobody_waits_for_the_counters_of_a_switch_without_a_connection() {
    let maple = Maple::start();
    drop(Peer::up(&maple, Version::Of13, 1));
    eventually("it is unreachable", || maple.connected().is_empty() && maple.handle.switches().unwrap().len() == 1);
    let (handle, (to, done)) = (maple.handle.clone(), std::sync::mpsc::channel());
    std::thread::spawn(move || {
        handle.count(CounterKind::Ports, None, LONG * 100).unwrap();
        handle.count(CounterKind::Rules, Some(Dpid(1)), LONG * 100).unwrap();
        to.send(())
    });
    assert_eq!(done.recv_timeout(LONG), Ok(()));
}

#[test]
fn the_first_message_on_the_wire_is_a_hello_of_1_3_with_a_bitmap_of_1_0_and_1_3() {
    let maple = Maple::start();
    let mut peer = Peer::connect(maple.address);
    let (header, message) = peer.receive(LONG).unwrap();
    assert_eq!(header, Header { version: 4, kind: 0, length: 16, xid: header.xid });
    assert_eq!(message, hello(4, Some(0x12)));
}
