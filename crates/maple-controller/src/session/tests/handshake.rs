//! The handshake, and messages that are not acceptable.

use super::*;

#[test]
fn the_handshake_asks_for_what_is_needed() {
    for version in BOTH {
        let mut peer = described(version);
        peer.answer_all();
        peer.sent();
        let [Output::Up(info)] = &peer.out[..] else { panic!("{:?}", peer.out) };
        assert_eq!((info.version, info.ports.len(), info.features.dpid), (version, 1, Dpid(7)));
        assert_eq!(info.text(), "Nicira Open vSwitch 3.1");
    }
}

#[test]
fn a_switch_has_bundles_if_it_opens_one_in_time() {
    let opened = |bundle| Message::BundleControl(BundleControl { bundle, kind: BundleControl::OPENED, flags: 0 });
    let refused = Message::Error(ErrorMsg { kind: 1, code: 3, data: Vec::new() });
    for (answer, expected) in [(Some(opened(u32::MAX)), true), (Some(refused), false), (None, false)] {
        let mut peer = described(Version::Of13);
        let sent = peer.sent();
        let probes = sent.iter().filter(|(_, message)| matches!(message, Message::BundleControl(_)));
        let probes: Vec<u32> = probes.map(|(xid, _)| *xid).collect();
        assert_eq!(probes.len(), 2, "one is opened and discarded: {sent:?}");
        for (xid, message) in answer.iter().flat_map(|message| probes.iter().map(move |xid| (*xid, message))) {
            peer.says(Version::Of13, xid, message);
        }
        sent.into_iter().for_each(|(xid, message)| peer.answer(xid, message));
        let up = peer.out.iter().find_map(|output| if let Output::Up(info) = output { Some(info) } else { None });
        assert_eq!(up.map(|info| info.has_bundles), Some(expected), "{answer:?}");
        assert!(!peer.out.iter().any(|output| matches!(output, Output::Warning { .. })), "{:?}", peer.out);
        // Answers that come later have no effect.
        peer.out.clear();
        peer.says(Version::Of13, probes[0], &opened(u32::MAX));
        assert!(peer.out.is_empty());
    }
    assert!(!described(Version::Of10).sent().iter().any(|(_, message)| matches!(message, Message::BundleControl(_))));
}

#[test]
fn a_1_0_switch_gets_its_configuration_and_is_never_asked_for_it() {
    let mut peer = described(Version::Of10);
    let sent = peer.sent();
    assert!(!sent.iter().any(|(_, message)| matches!(message, Message::GetConfigRequest)), "{sent:?}");
    assert!(sent.iter().any(|(_, message)| *message == set_config(0)), "{sent:?}");
}

#[test]
fn a_late_configuration_delays_nothing_and_keeps_the_handling_of_fragments() {
    let mut peer = described(Version::Of13);
    let mut asked = None;
    for (xid, message) in peer.sent() {
        let body = match message {
            Message::GetConfigRequest => {
                asked = Some(xid);
                continue;
            }
            Message::StatsRequest(request) if request.body == maple_wire::msg::RequestBody::PortDesc => {
                ReplyBody::PortDesc(vec![port(1)])
            }
            Message::StatsRequest(_) => ReplyBody::Desc(desc()),
            _ => continue,
        };
        peer.says(Version::Of13, xid, &Message::StatsReply(StatsReply::new(body)));
    }
    assert!(peer.session.is_up());
    peer.waits(Duration::from_secs(4));
    let config = Message::GetConfigReply(SwitchConfig { flags: 1, miss_send_len: 128 });
    for (answer, expected) in [(Some(set_config(1)), 0), (None, 1)] {
        peer.says(Version::Of13, asked.unwrap(), &config);
        let sent: Vec<Message> = peer.sent().into_iter().map(|(_, message)| message).collect();
        assert_eq!(sent, answer.into_iter().collect::<Vec<_>>());
        let warnings = peer.out.iter().filter(|output| matches!(output, Output::Warning { .. })).count();
        assert_eq!(warnings, expected, "an answer without a request is reported");
    }
}

#[test]
fn a_hello_of_1_5_whose_bitmap_has_1_3_leads_to_1_3() {
    let mut peer = Peer::connect();
    peer.sends(&[6, 0, 0, 16, 0, 0, 0, 1, 0, 1, 0, 8, 0, 0, 0, 0x7e]);
    assert_eq!(peer.session.version(), Version::Of13);
    assert!(peer.closed().is_none());
}

#[test]
fn open_vswitchs_hello_of_1_5_without_a_bitmap_leads_to_1_3() {
    let mut peer = Peer::connect();
    peer.sends(&[6, 0, 0, 8, 0, 0, 0, 1]);
    assert_eq!(peer.session.version(), Version::Of13);
    assert!(peer.closed().is_none());
}

#[test]
fn switches_of_1_4_and_1_5_only_are_refused_with_an_error_that_says_so() {
    let (bitmap_15, bitmap_14) =
        ([6, 0, 0, 16, 0, 0, 0, 1, 0, 1, 0, 8, 0, 0, 0, 0x60], [5, 0, 0, 16, 0, 0, 0, 1, 0, 1, 0, 8, 0, 0, 0, 0x20]);
    // Without a bitmap their next message shows the version.
    let (hello_15, echo_15) = ([6, 0, 0, 8, 0, 0, 0, 1], [6, 2, 0, 8, 0, 0, 0, 2]);
    let (hello_14, features_14) = ([5, 0, 0, 8, 0, 0, 0, 1], [5, 6, 0, 8, 0, 0, 0, 2]);
    let ways: [&[&[u8]]; 4] = [&[&bitmap_15], &[&bitmap_14], &[&hello_15, &echo_15], &[&hello_14, &features_14]];
    for messages in ways {
        let mut peer = Peer::connect();
        messages.iter().for_each(|bytes| peer.sends(bytes));
        let (error, reason) = peer.error_and_end();
        assert_eq!(error.number(), ErrorMsg::INCOMPATIBLE);
        assert!(String::from_utf8(error.data).unwrap().contains("Maple speaks OpenFlow 1.0 and 1.3"));
        assert!(matches!(reason, CloseReason::Incompatible(_)));
    }
}

#[test]
fn no_message_is_accepted_before_a_hello() {
    for message in [Message::FeaturesReply(features(7, 0)), packet_in(), Message::EchoRequest(vec![])] {
        for version in BOTH {
            let mut peer = Peer::connect();
            peer.says(version, 1, &message);
            let (_, reason) = peer.error_and_end();
            assert!(matches!(reason, CloseReason::NotHello { .. }), "{reason:?}");
            peer.out.clear();
            peer.says(version, 1, &hello(4, None));
            assert!(peer.out.is_empty(), "a session that is over says nothing");
        }
    }
}

#[test]
fn garbage_is_refused_by_its_header_without_waiting_for_the_rest() {
    let mut peer = Peer::connect();
    let header = Header::peek(b"GET / HTTP/1.1").unwrap().unwrap();
    peer.session.on_header(header, &mut peer.out);
    assert!(matches!(peer.closed(), Some(CloseReason::NotHello { .. })));
}

#[test]
fn a_switch_that_refuses_the_hello_ends_the_session() {
    let mut peer = Peer::connect();
    let data = b"OpenFlow 1.5 only".to_vec();
    peer.says(Version::Of13, 1, &Message::Error(ErrorMsg { kind: 0, code: 0, data }));
    assert!(matches!(peer.closed(), Some(CloseReason::RefusedByPeer(text)) if text.contains("OpenFlow 1.5 only")));
}

#[test]
fn auxiliary_connections_are_refused_with_an_error() {
    let mut peer = Peer::negotiated(Version::Of13);
    peer.says(Version::Of13, 2, &Message::FeaturesReply(features(7, 1)));
    let (error, reason) = peer.error_and_end();
    assert_eq!((error.number(), reason), (ErrorMsg::HELLO_NOT_PERMITTED, CloseReason::Auxiliary(1)));
}

#[test]
fn every_phase_of_the_handshake_has_a_deadline() {
    let mut silent = Peer::connect();
    let mut mute = Peer::negotiated(Version::Of13);
    let mut vague = Peer::negotiated(Version::Of13);
    vague.says(Version::Of13, 2, &Message::FeaturesReply(features(7, 0)));
    vague.session.admit(vague.now, &mut vague.out);
    for (peer, expected) in [(&mut silent, "hello"), (&mut mute, "features"), (&mut vague, "port description")] {
        assert_eq!(peer.session.deadline(), Some(Time(5_000_000_000)));
        peer.waits(Duration::from_millis(4_999));
        assert!(peer.closed().is_none());
        peer.waits(Duration::from_millis(1));
        let Some(CloseReason::HandshakeTimeout { waiting_for, .. }) = peer.closed() else { panic!("{expected}") };
        assert_eq!(*waiting_for, expected);
    }
}

#[test]
fn unknown_types_are_answered_with_bad_type_and_the_session_goes_on() {
    let mut peer = Peer::up(Version::Of13);
    for bytes in [&[4, 77, 0, 9, 0, 0, 0, 3, 1][..], &[4, 5, 0, 8, 0, 0, 0, 3]] {
        peer.sends(bytes);
        let sent = peer.sent();
        let [(3, Message::Error(error))] = &sent[..] else { panic!("{sent:?}") };
        assert_eq!((error.number(), &error.data[..]), (ErrorMsg::BAD_TYPE, bytes));
    }
    assert!(peer.closed().is_none());
}

#[test]
fn a_malformed_message_is_answered_with_an_error_and_ends_the_session() {
    let mut peer = Peer::up(Version::Of13);
    // A packet-in that is cut inside its fixed part.
    peer.sends(&[4, 10, 0, 12, 0, 0, 0, 3, 0, 0, 0, 0]);
    let (error, reason) = peer.error_and_end();
    assert_eq!(error.number(), ErrorMsg::BAD_LENGTH);
    assert!(matches!(reason, CloseReason::Malformed(_)));
}

#[test]
fn another_version_than_the_negotiated_one_ends_the_session() {
    let mut peer = Peer::up(Version::Of10);
    peer.sends(&[4, 21, 0, 8, 0, 0, 0, 3]);
    let (error, reason) = peer.error_and_end();
    assert_eq!((error.number(), reason), (ErrorMsg::BAD_VERSION, CloseReason::WrongVersion(4)));
}

#[test]
fn errors_never_end_a_session() {
    let mut peer = Peer::up(Version::Of13);
    let error = |code| Message::Error(ErrorMsg { kind: 5, code, data: vec![1; 64] });
    peer.says(Version::Of13, ENGINE_XIDS + 9, &error(1));
    peer.says(Version::Of13, 3, &error(2));
    assert!(matches!(peer.out[0], Output::Deliver { xid, .. } if xid == ENGINE_XIDS + 9));
    assert!(matches!(peer.out[1], Output::Warning { warning: ProtocolWarning::Refused(5, 2), .. }));
    assert_eq!(peer.out.len(), 2);
}

#[test]
fn a_switch_that_refuses_optional_requests_still_comes_up() {
    let mut peer = Peer::negotiated(Version::Of13);
    peer.says(Version::Of13, 2, &Message::FeaturesReply(features(7, 0)));
    peer.session.admit(peer.now, &mut peer.out);
    for (xid, _) in peer.sent() {
        peer.says(Version::Of13, xid, &Message::Error(ErrorMsg { kind: 1, code: 2, data: vec![] }));
    }
    assert!(peer.session.is_up());
}

#[test]
fn ports_that_change_during_the_handshake_are_in_its_result() {
    let mut peer = Peer::negotiated(Version::Of10);
    let mut said = features(7, 0);
    said.ports = vec![port(1), port(2)];
    peer.says(Version::Of10, 2, &Message::FeaturesReply(said));
    let status = |reason, number| Message::PortStatus(maple_wire::msg::PortStatus { reason, port: port(number) });
    peer.says(Version::Of10, 0, &status(maple_wire::msg::PortReason::Delete, 1));
    peer.says(Version::Of10, 0, &status(maple_wire::msg::PortReason::Add, 3));
    peer.session.admit(peer.now, &mut peer.out);
    peer.answer_all();
    let info = peer.out.iter().find_map(|output| if let Output::Up(info) = output { Some(info) } else { None });
    let numbers: Vec<u32> = info.unwrap().ports.iter().map(|port| port.number.0).collect();
    assert_eq!(numbers, [2, 3]);
}

#[test]
fn a_description_with_control_characters_is_printed_without_them() {
    let mut peer = described(Version::Of10);
    let evil = Desc { manufacturer: "a\u{1b}[2Jb\n".into(), hardware: "\u{202e}\u{7f}".into(), ..desc() };
    let xid = peer.sent()[0].0;
    peer.says(Version::Of10, xid, &Message::StatsReply(StatsReply::new(ReplyBody::Desc(evil))));
    let [Output::Up(info)] = &peer.out[..] else { panic!("{:?}", peer.out) };
    assert_eq!(info.text(), "a\\u{1b}[2Jb\\n \\u{202e}\\u{7f} 3.1");
}

#[test]
fn a_connection_that_was_handed_over_is_asked_again_and_its_packets_are_kept() {
    for version in BOTH {
        let (now, mut out) = (Time(1_000_000_000), Vec::new());
        let Message::PacketIn(packet) = packet_in() else { unreachable!() };
        // The packet waited in the former process.
        let waiting = PacketIn { data: vec![9; 4], ..packet };
        let session = Session::resumed(now, Deadlines::default(), version, vec![waiting.clone()], &mut out);
        let mut peer = Peer { session, now, out };
        let sent = peer.sent();
        let [(xid, Message::FeaturesRequest)] = &sent[..] else { panic!("{sent:?}") };
        peer.says(version, 0, &packet_in());
        // An answer to a request of the former process.
        peer.says(version, 5, &Message::BarrierReply);
        peer.says(version, *xid, &Message::FeaturesReply(features(7, 0)));
        assert!(peer.out.iter().any(|output| matches!(output, Output::Claim(Dpid(7)))), "{:?}", peer.out);
        peer.out.clear();
        peer.session.admit(peer.now, &mut peer.out);
        peer.says(version, 0, &packet_in());
        peer.answer_all();
        let up = peer.out.iter().position(|output| matches!(output, Output::Up(_))).expect("it is up");
        let is_packet = |output: &Output| matches!(output, Output::Deliver { message: Message::PacketIn(_), .. });
        assert_eq!(peer.out[..up].iter().filter(|output| is_packet(output)).count(), 0);
        let packets: Vec<&Output> = peer.out[up..].iter().filter(|output| is_packet(output)).collect();
        assert_eq!(packets.len(), 3);
        assert!(matches!(packets[0], Output::Deliver { message: Message::PacketIn(first), .. } if *first == waiting));
    }
}
