//! Sessions against a switch that is written down byte by byte or message by message, in simulated time.

use maple_wire::msg::stats::{Desc, ReplyBody};
use maple_wire::msg::{Features, Hello, HelloElement, PacketIn, PacketInReason, StatsReply, SwitchConfig};
use maple_wire::{Match, PortNo};

use super::*;
use crate::framing::Cut;
use crate::time::after as later;

/// A session and what it said.
struct Peer {
    session: Session,
    now: Time,
    out: Vec<Output>,
}

impl Peer {
    fn connect() -> Peer {
        let mut out = Vec::new();
        let session = Session::new(Time(0), Deadlines::default(), &mut out);
        let mut peer = Peer { session, now: Time(0), out };
        assert_eq!(peer.sent().len(), 1, "the hello");
        peer
    }

    /// A session whose switch has said hello in this version.
    fn agreed(version: Version) -> Peer {
        let mut peer = Peer::connect();
        peer.says(version, 1, &hello(version as u8, None));
        assert!(matches!(peer.sent()[..], [(_, Message::FeaturesRequest)]));
        peer
    }

    /// A session that is up.
    fn up(version: Version) -> Peer {
        let mut peer = Peer::agreed(version);
        peer.says(version, 2, &Message::FeaturesReply(features(7, 0)));
        assert!(matches!(peer.out[..], [Output::Claim(Dpid(7))]));
        peer.out.clear();
        peer.session.admit(peer.now, &mut peer.out);
        peer.answer_all();
        assert!(peer.session.is_up());
        peer.out.clear();
        peer
    }

    /// Answers the requests of the handshake that are in `out`.
    fn answer_all(&mut self) {
        let version = self.session.version();
        for (xid, message) in self.sent() {
            match message {
                Message::StatsRequest(request) => {
                    let body = match request.body {
                        maple_wire::msg::RequestBody::PortDesc => ReplyBody::PortDesc(vec![port(1)]),
                        _ => ReplyBody::Desc(desc()),
                    };
                    self.says(version, xid, &Message::StatsReply(StatsReply::new(body)));
                }
                Message::GetConfigRequest => {
                    let config = SwitchConfig { flags: 1, miss_send_len: 128 };
                    self.says(version, xid, &Message::GetConfigReply(config));
                }
                _ => {}
            }
        }
    }

    fn says(&mut self, version: Version, xid: u32, message: &Message) {
        let mut bytes = Vec::new();
        message.encode(version, xid, &mut bytes).unwrap();
        self.sends(&bytes);
    }

    fn sends(&mut self, bytes: &[u8]) {
        let header = Header::peek(bytes).unwrap().unwrap();
        self.session.on_message(self.now, header, bytes, &mut self.out);
    }

    fn waits(&mut self, duration: Duration) {
        self.now = later(self.now, duration);
        self.session.on_timer(self.now, &mut self.out);
    }

    /// The messages that the session has sent since the last call; other outputs stay.
    fn sent(&mut self) -> Vec<(u32, Message)> {
        let (mut sent, mut rest) = (Vec::new(), Vec::new());
        for output in self.out.drain(..) {
            match output {
                Output::Send { xid, message } => sent.push((xid, message)),
                other => rest.push(other),
            }
        }
        self.out = rest;
        sent
    }

    fn closed(&self) -> Option<&CloseReason> {
        self.out.iter().find_map(|output| match output {
            Output::Close(reason) => Some(reason),
            _ => None,
        })
    }

    /// The error that was sent, and why the session ended.
    fn error_and_end(&mut self) -> (ErrorMsg, CloseReason) {
        let error = self.sent().into_iter().find_map(|(_, message)| match message {
            Message::Error(error) => Some(error),
            _ => None,
        });
        (error.expect("an error"), self.closed().expect("the end").clone())
    }
}

fn hello(version: u8, bitmap: Option<u32>) -> Message {
    let elements = bitmap.into_iter().map(|bits| HelloElement::VersionBitmap(vec![bits])).collect();
    Message::Hello(Hello { version, elements })
}

fn features(dpid: u64, auxiliary_id: u8) -> Features {
    let (n_buffers, n_tables, capabilities, actions) = (0, 254, 0, 0);
    Features { dpid: Dpid(dpid), n_buffers, n_tables, auxiliary_id, capabilities, actions, ports: vec![] }
}

fn port(number: u32) -> maple_wire::Port {
    maple_wire::Port::new(PortNo(number), [2, 0, 0, 0, 0, number as u8], "eth")
}

fn desc() -> Desc {
    let text = |text: &str| text.into();
    Desc {
        manufacturer: text("Nicira"),
        hardware: text("Open vSwitch"),
        software: text("3.1"),
        serial: text(""),
        datapath: text(""),
    }
}

fn packet_in() -> Message {
    Message::PacketIn(PacketIn {
        buffer_id: maple_wire::msg::NO_BUFFER,
        total_len: 4,
        reason: PacketInReason::NoMatch,
        table_id: 0,
        cookie: u64::MAX,
        pipeline: Match::any().exact(maple_wire::Field::InPort, 1),
        data: vec![1, 2, 3, 4],
    })
}

const BOTH: [Version; 2] = [Version::Of10, Version::Of13];

/// A session that was admitted, and has asked what it asks.
fn described(version: Version) -> Peer {
    let mut peer = Peer::agreed(version);
    let mut said = features(7, 0);
    if version == Version::Of10 {
        said.ports = vec![port(1)];
    }
    peer.says(version, 2, &Message::FeaturesReply(said));
    peer.out.clear();
    peer.session.admit(peer.now, &mut peer.out);
    peer
}

fn set_config(flags: u16) -> Message {
    Message::SetConfig(SwitchConfig { flags, miss_send_len: 0xffff })
}

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
fn a_switch_of_1_0_is_told_its_configuration_and_never_asked_for_it() {
    let mut peer = described(Version::Of10);
    let sent = peer.sent();
    assert!(!sent.iter().any(|(_, message)| matches!(message, Message::GetConfigRequest)), "{sent:?}");
    assert!(sent.iter().any(|(_, message)| *message == set_config(0)), "{sent:?}");
}

#[test]
fn a_configuration_that_is_not_told_delays_nothing_and_one_that_comes_late_keeps_its_treatment_of_fragments() {
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
            _ => ReplyBody::Desc(desc()),
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
        let notes = peer.out.iter().filter(|output| matches!(output, Output::Note { .. })).count();
        assert_eq!(notes, expected, "an answer that was not asked for is odd");
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
    // Without a bitmap they are known by how they go on.
    let (hello_15, echo_15) = ([6, 0, 0, 8, 0, 0, 0, 1], [6, 2, 0, 8, 0, 0, 0, 2]);
    let (hello_14, features_14) = ([5, 0, 0, 8, 0, 0, 0, 1], [5, 6, 0, 8, 0, 0, 0, 2]);
    let ways: [&[&[u8]]; 4] = [&[&bitmap_15], &[&bitmap_14], &[&hello_15, &echo_15], &[&hello_14, &features_14]];
    for messages in ways {
        let mut peer = Peer::connect();
        messages.iter().for_each(|bytes| peer.sends(bytes));
        let (error, reason) = peer.error_and_end();
        assert_eq!((error.kind, error.code), (HELLO_FAILED, INCOMPATIBLE));
        assert!(String::from_utf8(error.data).unwrap().contains("Maple speaks OpenFlow 1.0 and 1.3"));
        assert!(matches!(reason, CloseReason::Incompatible(_)));
    }
}

#[test]
fn nothing_before_a_hello_is_believed() {
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
fn a_switch_that_refuses_our_hello_is_heard() {
    let mut peer = Peer::connect();
    let data = b"OpenFlow 1.5 only".to_vec();
    peer.says(Version::Of13, 1, &Message::Error(ErrorMsg { kind: 0, code: 0, data }));
    assert!(matches!(peer.closed(), Some(CloseReason::RefusedByPeer(text)) if text.contains("OpenFlow 1.5 only")));
}

#[test]
fn auxiliary_connections_are_refused_politely() {
    let mut peer = Peer::agreed(Version::Of13);
    peer.says(Version::Of13, 2, &Message::FeaturesReply(features(7, 1)));
    let (error, reason) = peer.error_and_end();
    assert_eq!((error.kind, error.code, reason), (HELLO_FAILED, EPERM, CloseReason::Auxiliary(1)));
}

#[test]
fn every_phase_of_the_handshake_has_a_deadline() {
    let mut silent = Peer::connect();
    let mut mute = Peer::agreed(Version::Of13);
    let mut vague = Peer::agreed(Version::Of13);
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
fn a_silent_switch_is_asked_for_an_echo_and_given_up_without_an_answer() {
    let mut peer = Peer::up(Version::Of13);
    peer.waits(Duration::from_secs(4));
    assert!(peer.out.is_empty());
    peer.waits(Duration::from_secs(1));
    let sent = peer.sent();
    let [(xid, Message::EchoRequest(_))] = sent[..] else { panic!("{sent:?}") };
    peer.says(Version::Of13, xid, &Message::EchoReply(vec![]));
    peer.waits(Duration::from_secs(5));
    assert_eq!(peer.sent().len(), 1, "the next echo");
    peer.waits(Duration::from_secs(5));
    assert!(matches!(peer.closed(), Some(CloseReason::EchoTimeout(_))));
}

#[test]
fn a_busy_switch_is_not_asked_for_echoes() {
    let mut peer = Peer::up(Version::Of10);
    for _ in 0..20 {
        peer.waits(Duration::from_secs(3));
        peer.says(Version::Of10, 0, &packet_in());
        assert!(matches!(peer.out[..], [Output::Deliver { .. }]));
        peer.out.clear();
    }
}

#[test]
fn an_echo_request_is_answered_with_its_bytes() {
    for version in BOTH {
        let mut peer = Peer::up(version);
        peer.says(version, 99, &Message::EchoRequest(vec![5, 6]));
        assert_eq!(peer.sent(), [(99, Message::EchoReply(vec![5, 6]))]);
    }
}

#[test]
fn a_request_without_an_answer_ends_the_session_though_echoes_are_answered() {
    let mut peer = Peer::up(Version::Of13);
    peer.session.on_sent(peer.now, ENGINE_XIDS, &Message::BarrierRequest);
    for _ in 0..29 {
        peer.waits(Duration::from_secs(1));
        peer.says(Version::Of13, 0, &packet_in());
        assert!(peer.closed().is_none());
    }
    peer.waits(Duration::from_secs(1));
    assert!(matches!(peer.closed(), Some(CloseReason::RequestTimeout(_))));
}

#[test]
fn a_silent_switch_with_a_barrier_to_answer_has_the_time_for_a_request() {
    let mut peer = Peer::up(Version::Of13);
    peer.session.on_sent(peer.now, ENGINE_XIDS, &Message::BarrierRequest);
    for _ in 0..29 {
        peer.waits(Duration::from_secs(1));
        assert!(peer.closed().is_none(), "{:?}", peer.now);
    }
    peer.waits(Duration::from_secs(1));
    assert!(matches!(peer.closed(), Some(CloseReason::RequestTimeout(_))));
}

#[test]
fn a_switch_that_answers_one_barrier_after_the_other_may_take_its_time_for_each() {
    let mut peer = Peer::up(Version::Of13);
    (0..5).for_each(|n| peer.session.on_sent(peer.now, ENGINE_XIDS + n, &Message::BarrierRequest));
    for n in 0..4 {
        (0..25).for_each(|_| peer.waits(Duration::from_secs(1)));
        peer.says(Version::Of13, ENGINE_XIDS + n, &Message::BarrierReply);
        assert!(peer.closed().is_none(), "barrier {n}");
    }
    assert_eq!(peer.session.deadline(), Some(later(peer.now, Duration::from_secs(5))), "silence is asked about");
    (0..31).for_each(|_| peer.waits(Duration::from_secs(1)));
    assert!(matches!(peer.closed(), Some(CloseReason::RequestTimeout(_))), "the last one is never answered");
}

#[test]
fn answers_to_later_requests_do_not_stretch_the_time_for_the_oldest() {
    let mut peer = Peer::up(Version::Of13);
    (0..50).for_each(|n| peer.session.on_sent(peer.now, ENGINE_XIDS + n, &Message::BarrierRequest));
    for n in 1..30 {
        peer.waits(Duration::from_secs(1));
        peer.says(Version::Of13, ENGINE_XIDS + n, &Message::BarrierReply);
    }
    assert!(peer.closed().is_none());
    peer.waits(Duration::from_secs(1));
    assert!(matches!(peer.closed(), Some(CloseReason::RequestTimeout(_))));
}

#[test]
fn a_silent_switch_that_reads_out_its_rules_has_the_time_for_a_request() {
    let mut peer = Peer::up(Version::Of13);
    peer.session.read_flows(peer.now, &mut peer.out);
    (0..29).for_each(|_| peer.waits(Duration::from_secs(1)));
    assert!(peer.closed().is_none());
    peer.waits(Duration::from_secs(1));
    assert!(matches!(peer.closed(), Some(CloseReason::RequestTimeout(_))));
}

#[test]
fn a_barrier_reply_is_delivered_once_and_only_if_it_was_asked_for() {
    let mut peer = Peer::up(Version::Of13);
    peer.session.on_sent(peer.now, ENGINE_XIDS + 5, &Message::BarrierRequest);
    peer.says(Version::Of13, ENGINE_XIDS + 4, &Message::BarrierReply);
    peer.says(Version::Of13, ENGINE_XIDS + 5, &Message::BarrierReply);
    peer.says(Version::Of13, ENGINE_XIDS + 5, &Message::BarrierReply);
    let kinds: Vec<bool> = peer.out.iter().map(|output| matches!(output, Output::Deliver { .. })).collect();
    assert_eq!(kinds, [false, true, false]);
    assert!(matches!(peer.out[0], Output::Note { note: Note::UnexpectedReply(21), first: true }));
    assert!(matches!(peer.out[2], Output::Note { first: false, .. }));
}

#[test]
fn unknown_types_are_answered_with_bad_type_and_the_session_goes_on() {
    let mut peer = Peer::up(Version::Of13);
    for bytes in [&[4, 77, 0, 9, 0, 0, 0, 3, 1][..], &[4, 5, 0, 8, 0, 0, 0, 3]] {
        peer.sends(bytes);
        let sent = peer.sent();
        let [(3, Message::Error(error))] = &sent[..] else { panic!("{sent:?}") };
        assert_eq!((error.kind, error.code, &error.data[..]), (BAD_REQUEST, BAD_TYPE, bytes));
    }
    assert!(peer.closed().is_none());
}

#[test]
fn a_malformed_message_is_answered_with_an_error_and_ends_the_session() {
    let mut peer = Peer::up(Version::Of13);
    // A packet-in that is cut inside its fixed part.
    peer.sends(&[4, 10, 0, 12, 0, 0, 0, 3, 0, 0, 0, 0]);
    let (error, reason) = peer.error_and_end();
    assert_eq!((error.kind, error.code), (BAD_REQUEST, BAD_LEN));
    assert!(matches!(reason, CloseReason::Malformed(_)));
}

#[test]
fn another_version_than_the_one_agreed_on_ends_the_session() {
    let mut peer = Peer::up(Version::Of10);
    peer.sends(&[4, 21, 0, 8, 0, 0, 0, 3]);
    let (error, reason) = peer.error_and_end();
    assert_eq!((error.kind, error.code, reason), (BAD_REQUEST, BAD_VERSION, CloseReason::WrongVersion(4)));
}

#[test]
fn errors_never_end_a_session() {
    let mut peer = Peer::up(Version::Of13);
    let error = |code| Message::Error(ErrorMsg { kind: 5, code, data: vec![1; 64] });
    peer.says(Version::Of13, ENGINE_XIDS + 9, &error(1));
    peer.says(Version::Of13, 3, &error(2));
    assert!(matches!(peer.out[0], Output::Deliver { xid, .. } if xid == ENGINE_XIDS + 9));
    assert!(matches!(peer.out[1], Output::Note { note: Note::Refused(5, 2), .. }));
    assert_eq!(peer.out.len(), 2);
}

#[test]
fn a_switch_that_refuses_optional_requests_still_comes_up() {
    let mut peer = Peer::agreed(Version::Of13);
    peer.says(Version::Of13, 2, &Message::FeaturesReply(features(7, 0)));
    peer.session.admit(peer.now, &mut peer.out);
    for (xid, _) in peer.sent() {
        peer.says(Version::Of13, xid, &Message::Error(ErrorMsg { kind: 1, code: 2, data: vec![] }));
    }
    assert!(peer.session.is_up());
}

#[test]
fn ports_that_change_during_the_handshake_are_in_its_result() {
    let mut peer = Peer::agreed(Version::Of10);
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
fn a_challenge_is_met_by_its_own_echo_reply_only() {
    let mut peer = Peer::up(Version::Of13);
    peer.session.challenge(peer.now, &mut peer.out);
    let sent = peer.sent();
    let [(xid, Message::EchoRequest(_))] = sent[..] else { panic!("{sent:?}") };
    peer.says(Version::Of13, 0, &packet_in());
    peer.says(Version::Of13, xid + 1, &Message::EchoReply(vec![]));
    assert!(!peer.out.iter().any(|output| matches!(output, Output::Alive)));
    peer.says(Version::Of13, xid, &Message::EchoReply(vec![]));
    assert!(matches!(peer.out.last(), Some(Output::Alive)));
    peer.session.challenge(peer.now, &mut peer.out);
    peer.waits(Duration::from_secs(1));
    assert!(matches!(peer.closed(), Some(CloseReason::EchoTimeout(_))));
}

#[test]
fn rules_are_read_in_parts() {
    let mut peer = Peer::up(Version::Of13);
    peer.session.read_flows(peer.now, &mut peer.out);
    let xid = peer.sent()[0].0;
    let part = |flags| Message::StatsReply(StatsReply { flags, body: ReplyBody::Flow(vec![]) });
    peer.says(Version::Of13, xid, &part(1));
    assert!(peer.out.is_empty());
    peer.says(Version::Of13, xid, &part(0));
    assert!(matches!(&peer.out[..], [Output::Flows(flows)] if flows.is_empty()));
}

#[test]
fn where_a_switch_does_not_tell_its_rules_those_that_may_be_ours_are_deleted_before_it_counts_as_empty() {
    for version in BOTH {
        let mut peer = Peer::up(version);
        peer.session.read_flows(peer.now, &mut peer.out);
        let xid = peer.sent()[0].0;
        peer.says(version, xid, &Message::Error(ErrorMsg { kind: 1, code: 2, data: vec![] }));
        let sent = peer.sent();
        let [(delete, Message::FlowMod(flow_mod)), (barrier, Message::BarrierRequest)] = &sent[..] else {
            panic!("{sent:?}")
        };
        assert_eq!((flow_mod.command, &flow_mod.matching), (maple_wire::msg::FlowModCommand::Delete, &Match::any()));
        let (cookie, mask, table) = match version {
            // It can't choose by cookie.
            Version::Of10 => (0, 0, 0),
            Version::Of13 => (0x4d << 56, 0xff << 56, 0xff),
        };
        assert_eq!((flow_mod.cookie, flow_mod.cookie_mask, flow_mod.table_id), (cookie, mask, table));
        let mut bytes = Vec::new();
        Message::FlowMod(flow_mod.clone()).encode(version, *delete, &mut bytes).expect("it can be said");
        let flows = |peer: &Peer| peer.out.iter().any(|output| matches!(output, Output::Flows(_)));
        assert!(!flows(&peer), "nothing is deleted yet");
        peer.says(version, *barrier, &Message::BarrierReply);
        assert!(matches!(peer.out.last(), Some(Output::Flows(flows)) if flows.is_empty()));
        assert!(peer.out.iter().any(|output| matches!(output, Output::Note { note: Note::RulesUntold, first: true })));
        peer.out.clear();
        peer.says(version, *barrier, &Message::BarrierReply);
        assert!(!flows(&peer), "once");
    }
}

#[test]
fn rules_are_bounded_by_what_they_take() {
    let mut peer = Peer::up(Version::Of13);
    peer.session.read_flows(peer.now, &mut peer.out);
    let xid = peer.sent()[0].0;
    let rule = maple_wire::msg::stats::FlowStats {
        table_id: 0,
        duration_sec: 0,
        duration_nsec: 0,
        priority: 1,
        idle_timeout: 0,
        hard_timeout: 0,
        flags: 0,
        cookie: 0,
        packet_count: 0,
        byte_count: 0,
        matching: Match::any(),
        instructions: vec![maple_wire::Instruction::ApplyActions(vec![maple_wire::Action::output(PortNo(1)); 100])],
    };
    let part = Message::StatsReply(StatsReply { flags: 1, body: ReplyBody::Flow(vec![rule; 30]) });
    let mut bytes = Vec::new();
    part.encode(Version::Of13, xid, &mut bytes).unwrap();
    // Each part takes more than a hundred kilobytes here.
    let parts = (0..).find(|_| {
        peer.sends(&bytes);
        peer.closed().is_some()
    });
    assert!(parts.unwrap() < 1500, "{parts:?}");
    assert!(matches!(peer.closed(), Some(CloseReason::TooMany("bytes of rules", _))));
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
fn a_switch_that_never_ends_its_rules_has_a_deadline() {
    let mut peer = Peer::up(Version::Of13);
    peer.session.read_flows(peer.now, &mut peer.out);
    for _ in 0..3 {
        peer.waits(Duration::from_secs(10));
        peer.says(Version::Of13, 0, &packet_in());
    }
    assert!(matches!(peer.closed(), Some(CloseReason::RequestTimeout(_))));
}

/// Valid messages of a switch, some of them changed, cut or made up.
fn stream(seeds: &[(u8, u8, u8, Vec<u8>)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (choice, at, change, junk) in seeds {
        let start = bytes.len();
        let version = if choice & 1 == 0 { Version::Of13 } else { Version::Of10 };
        let message = match choice >> 1 & 7 {
            0 => hello(*at, (change & 1 == 0).then_some(u32::from(*change))),
            1 => Message::FeaturesReply(features(7, change & 1 & !choice)),
            2 => packet_in(),
            3 => Message::BarrierReply,
            4 => Message::StatsReply(StatsReply::new(ReplyBody::Desc(desc()))),
            5 => Message::EchoRequest(junk.clone()),
            6 => Message::Error(ErrorMsg { kind: 1, code: 1, data: junk.clone() }),
            _ => Message::Unknown { kind: *at, body: junk.clone() },
        };
        message.encode(version, u32::from(*at), &mut bytes).unwrap();
        if choice & 0x80 != 0 {
            let length = bytes.len() - start;
            bytes[start + usize::from(*at) % length] ^= change;
        }
    }
    bytes
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(400))]

    /// Whatever comes in, in whatever pieces: no panic, no endless loop, and nothing after the end.
    #[test]
    fn no_input_breaks_a_session(
        seeds in proptest::collection::vec(
            (proptest::num::u8::ANY, proptest::num::u8::ANY, proptest::num::u8::ANY,
             proptest::collection::vec(proptest::num::u8::ANY, 0..40)), 0..20),
        piece in 1usize..200,
        greeted in proptest::bool::ANY,
    ) {
        let mut peer = if greeted { Peer::up(Version::Of13) } else { Peer::connect() };
        let mut framer = crate::framing::Framer::default();
        for mut chunk in stream(&seeds).chunks(piece) {
            let Peer { session, now, out } = &mut peer;
            loop {
                match framer.next(&mut chunk) {
                    Ok(Cut::Whole(header, message)) => session.on_message(*now, header, message, out),
                    Ok(Cut::Begun(header, message)) => session.on_message(*now, header, message, out),
                    Ok(Cut::Rest(_)) => break,
                    Err(error) => {
                        session.on_garbage(error, out);
                        break;
                    }
                }
            }
            if out.iter().any(|output| matches!(output, Output::Claim(_))) {
                session.admit(*now, out);
            }
            peer.waits(Duration::from_millis(200));
        }
        let end = peer.out.iter().position(|output| matches!(output, Output::Close(_)));
        let after_end = end.map_or(0, |end| peer.out.len() - end - 1);
        proptest::prop_assert_eq!(after_end, 0);
        let up = peer.out.iter().any(|output| matches!(output, Output::Up(_)));
        let claimed = peer.out.iter().any(|output| matches!(output, Output::Claim(_)));
        proptest::prop_assert!(!up || claimed);
    }
}
