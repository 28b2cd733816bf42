//! Reading a switch's rules.

use maple_wire::msg::stats::{FlowStats, RequestBody};

use super::super::rule_pieces::MIN_REST;
use super::*;

#[test]
fn a_silent_switch_that_reads_out_its_rules_has_the_time_for_a_request() {
    let mut peer = Peer::up(Version::Of13);
    peer.session.read_flows(peer.now, &mut peer.out);
    (0..29).for_each(|_| peer.waits(Duration::from_secs(1)));
    assert!(peer.closed().is_none());
    peer.waits(Duration::from_secs(1));
    assert!(matches!(peer.closed(), Some(CloseReason::RequestTimeout(_))));
}

/// Creates a rule with a cookie.
fn rule(cookie: u64) -> FlowStats {
    FlowStats {
        table_id: 0,
        duration_sec: 0,
        duration_nsec: 0,
        priority: 1,
        idle_timeout: 0,
        hard_timeout: 0,
        flags: 0,
        cookie,
        packet_count: 0,
        byte_count: 0,
        matching: Match::any(),
        instructions: Vec::new(),
    }
}

fn part(flags: u16, flows: Vec<FlowStats>) -> Message {
    Message::StatsReply(StatsReply { flags, body: ReplyBody::Flow(flows) })
}

/// Answers requests for rules until none is open: each with the rules that it selects, in parts of two. Returns how
/// many rules each request selected, and the other outputs.
fn answer(peer: &mut Peer, rules: &[u64], selects: bool) -> (Vec<usize>, Vec<Output>) {
    let (mut asked, mut rest) = (Vec::new(), Vec::new());
    loop {
        let out = std::mem::take(&mut peer.out);
        let (sent, others): (Vec<Output>, Vec<Output>) =
            out.into_iter().partition(|output| matches!(output, Output::Send { .. }));
        rest.extend(others);
        let Some(Output::Send { xid, message: Message::StatsRequest(request) }) = sent.first() else {
            if !peer.is_at_rest() {
                return (asked, rest);
            }
            peer.waits(MIN_REST);
            continue;
        };
        let RequestBody::Flow(request) = &request.body else { panic!("{request:?}") };
        let is_meant = |cookie: &&u64| !selects || **cookie & request.cookie_mask == request.cookie;
        let found: Vec<FlowStats> = rules.iter().filter(is_meant).map(|cookie| rule(*cookie)).collect();
        asked.push(found.len());
        let parts = found.len().div_ceil(2).max(1);
        for n in 0..parts {
            let flags = u16::from(n + 1 < parts);
            let flows = found.iter().skip(2 * n).take(2).cloned().collect();
            peer.says(peer.session.version(), *xid, &part(flags, flows));
        }
    }
}

#[test]
fn rules_are_read_in_pieces_by_their_cookies() {
    for count in [0, 3, 500, 5_000, 200_000] {
        let mut peer = Peer::up(Version::Of13);
        peer.session.read_flows(peer.now, &mut peer.out);
        let rules: Vec<u64> = (0..count).map(|n| 0x4d56_0a00_0000_0000 + n).chain([0, 0, 7]).collect();
        let (asked, rest) = answer(&mut peer, &rules, true);
        let [Output::Rules(flows)] = &rest[..] else { panic!("{rest:?}") };
        let mut read: Vec<u64> = flows.iter().map(|flow| flow.cookie).collect();
        let mut wanted = rules.clone();
        read.sort_unstable();
        wanted.sort_unstable();
        assert!(read == wanted, "each once, also those that others have made");
        let most = if count > 32_768 { count as usize / 64 + 4 } else { 1_040 };
        assert!(asked.iter().all(|asked| *asked <= most), "{asked:?}");
    }
}

#[test]
fn a_switch_rests_after_each_piece_but_not_after_the_sample() {
    for is_of_engine in [false, true] {
        let mut peer = Peer::up(Version::Of13);
        if is_of_engine {
            peer.session.ask_for_all_rules(peer.now, ENGINE_XIDS, &mut peer.out);
        } else {
            peer.session.read_flows(peer.now, &mut peer.out);
        }
        let (sample, _) = peer.sent()[0];
        peer.says(Version::Of13, sample, &part(0, vec![rule(0x1a); 16]));
        let (first, _) = peer.sent()[0];
        peer.says(Version::Of13, first, &part(0, vec![rule(0x100); 100]));
        assert!(peer.is_at_rest());
        peer.waits(MIN_REST - Duration::from_micros(1));
        assert_eq!(peer.sent(), [], "it rests");
        peer.waits(Duration::from_micros(1));
        let sent = peer.sent();
        let [(second, Message::StatsRequest(request))] = &sent[..] else { panic!("{sent:?}") };
        assert!(matches!(&request.body, RequestBody::Flow(request) if (request.cookie, request.cookie_mask) == (1, 7)));
        assert!(!peer.is_at_rest());
        // A repeated answer does not count for the next piece.
        peer.says(Version::Of13, first, &part(0, vec![rule(0x100); 100]));
        assert_eq!(peer.sent(), []);
        peer.says(Version::Of13, *second, &part(0, vec![rule(0x101); 100]));
        assert!(peer.is_at_rest());
    }
}

#[test]
fn a_switch_rests_the_longer_the_longer_it_takes_within_limits() {
    for (took, rests) in [(0, 8), (500, 8), (2_000, 16), (10_000, 30), (1_000_000, 30)] {
        let (took, rests) = (Duration::from_micros(took), Duration::from_millis(rests));
        let mut peer = Peer::up(Version::Of13);
        peer.session.read_flows(peer.now, &mut peer.out);
        let (sample, _) = peer.sent()[0];
        peer.says(Version::Of13, sample, &part(0, vec![rule(0x1a); 16]));
        let (first, _) = peer.sent()[0];
        peer.waits(took);
        peer.says(Version::Of13, first, &part(0, vec![rule(0x100); 100]));
        peer.waits(rests - Duration::from_micros(1));
        assert_eq!(peer.sent(), [], "{took:?}");
        peer.waits(Duration::from_micros(1));
        assert_eq!(peer.sent().len(), 1, "{took:?}");
    }
}

#[test]
fn a_switch_that_ignores_cookies_is_asked_for_all_rules_at_once() {
    let rules: Vec<u64> = (0..5_000).collect();
    for (version, asked_first) in [(Version::Of13, vec![5_000, 5_000]), (Version::Of10, vec![5_000])] {
        let mut peer = Peer::up(version);
        peer.session.read_flows(peer.now, &mut peer.out);
        let (asked, rest) = answer(&mut peer, &rules, false);
        assert_eq!(asked, asked_first);
        assert!(matches!(&rest[..], [Output::Rules(flows)] if flows.len() == rules.len()));
        peer.session.ask_for_all_rules(peer.now, ENGINE_XIDS, &mut peer.out);
        assert_eq!(answer(&mut peer, &rules, false).0, [5_000], "it is not asked for a sample again");
    }
}

#[test]
fn requests_of_the_engine_for_all_rules_are_answered_as_one() {
    let mut peer = Peer::up(Version::Of13);
    let rules: Vec<u64> = (0..5_000).collect();
    for xid in [ENGINE_XIDS, ENGINE_XIDS + 1] {
        peer.session.ask_for_all_rules(peer.now, xid, &mut peer.out);
        let (asked, rest) = answer(&mut peer, &rules, true);
        assert!(asked.len() > 4, "{asked:?}");
        let mut read = Vec::new();
        for (at, output) in rest.iter().enumerate() {
            let Output::Deliver { xid: of, message: Message::StatsReply(reply) } = output else { panic!("{output:?}") };
            assert_eq!((*of, reply.more()), (xid, at + 1 < rest.len()));
            let ReplyBody::Flow(flows) = &reply.body else { panic!("{reply:?}") };
            read.extend(flows.iter().map(|flow| flow.cookie));
        }
        read.sort_unstable();
        assert_eq!(read, rules);
    }
}

#[test]
fn requests_for_all_rules_go_beside_each_other_and_a_refusal_ends_its_own() {
    let mut peer = Peer::up(Version::Of13);
    peer.session.ask_for_all_rules(peer.now, ENGINE_XIDS, &mut peer.out);
    let first = peer.sent()[0].0;
    peer.session.ask_for_all_rules(peer.now, ENGINE_XIDS + 1, &mut peer.out);
    let second = peer.sent()[0].0;
    peer.says(Version::Of13, first, &Message::Error(ErrorMsg { kind: 1, code: 2, data: vec![] }));
    // The switch may not know how to select rules, so it is asked for all at once.
    let sent = peer.sent();
    let [(all, Message::StatsRequest(request))] = &sent[..] else { panic!("{sent:?}") };
    assert!(matches!(&request.body, RequestBody::Flow(request) if request.cookie_mask == 0));
    peer.says(Version::Of13, *all, &Message::Error(ErrorMsg { kind: 1, code: 2, data: vec![] }));
    assert!(matches!(&peer.out[..], [Output::Deliver { xid: ENGINE_XIDS, message: Message::Error(_) }]));
    peer.out.clear();
    peer.says(Version::Of13, second, &part(0, vec![]));
    let sent = peer.sent();
    assert_eq!(sent.len(), 1, "one piece");
    peer.out.clear();
    peer.says(Version::Of13, sent[0].0, &part(0, vec![rule(0x5a)]));
    let [Output::Deliver { xid, message: Message::StatsReply(reply) }] = &peer.out[..] else {
        panic!("{:?}", peer.out)
    };
    assert_eq!((*xid, reply.more()), (ENGINE_XIDS + 1, false));
    // No request is open, so the switch may be silent for long, except for echoes.
    peer.out.clear();
    (0..40).for_each(|_| {
        peer.waits(Duration::from_secs(1));
        peer.says(Version::Of13, 0, &packet_in());
    });
    assert!(peer.closed().is_none());
}

#[test]
fn a_switch_that_stops_in_the_middle_of_its_rules_has_a_deadline() {
    let mut peer = Peer::up(Version::Of13);
    peer.session.ask_for_all_rules(peer.now, ENGINE_XIDS, &mut peer.out);
    let xid = peer.sent()[0].0;
    peer.says(Version::Of13, xid, &part(0, vec![]));
    for _ in 0..3 {
        peer.waits(Duration::from_secs(10));
        peer.says(Version::Of13, 0, &packet_in());
    }
    assert!(matches!(peer.closed(), Some(CloseReason::RequestTimeout(_))));
}

#[test]
fn unreadable_rules_are_deleted_before_the_switch_counts_as_empty() {
    for version in BOTH {
        let mut peer = Peer::up(version);
        peer.session.read_flows(peer.now, &mut peer.out);
        let refusal = Message::Error(ErrorMsg { kind: 1, code: 2, data: vec![] });
        if version == Version::Of13 {
            // It refuses once with a selection of rules, and once without.
            let xid = peer.sent()[0].0;
            peer.says(version, xid, &refusal);
        }
        let xid = peer.sent()[0].0;
        peer.says(version, xid, &refusal);
        let sent = peer.sent();
        let [(delete, Message::FlowMod(flow_mod)), (barrier, Message::BarrierRequest)] = &sent[..] else {
            panic!("{sent:?}")
        };
        assert_eq!((flow_mod.command, &flow_mod.matching), (maple_wire::msg::FlowModCommand::Delete, &Match::any()));
        let (cookie, mask, table) = match version {
            // A 1.0 switch can't select by cookie.
            Version::Of10 => (0, 0, 0),
            Version::Of13 => (0x4d << 56, 0xff << 56, 0xff),
        };
        assert_eq!((flow_mod.cookie, flow_mod.cookie_mask, flow_mod.table_id), (cookie, mask, table));
        assert!(Message::FlowMod(flow_mod.clone()).to_bytes(version, *delete).is_ok());
        let flows = |peer: &Peer| peer.out.iter().any(|output| matches!(output, Output::Rules(_)));
        assert!(!flows(&peer), "nothing is deleted yet");
        peer.says(version, *barrier, &Message::BarrierReply);
        assert!(matches!(peer.out.last(), Some(Output::Rules(flows)) if flows.is_empty()));
        assert!(peer.out.iter().any(|output| matches!(
            output,
            Output::Warning { warning: ProtocolWarning::RulesUnreadable, first: true }
        )));
        peer.out.clear();
        peer.says(version, *barrier, &Message::BarrierReply);
        assert!(!flows(&peer), "once");
    }
}

#[test]
fn rules_are_bounded_by_their_memory() {
    let mut peer = Peer::up(Version::Of13);
    peer.session.read_flows(peer.now, &mut peer.out);
    let xid = peer.sent()[0].0;
    peer.says(Version::Of13, xid, &part(0, vec![]));
    let xid = peer.sent()[0].0;
    let actions = vec![maple_wire::Action::output(PortNo(1)); 100];
    let rule = FlowStats { instructions: vec![maple_wire::Instruction::ApplyActions(actions)], ..rule(0) };
    let part = part(1, vec![rule; 30]);
    let bytes = part.to_bytes(Version::Of13, xid).unwrap();
    // Each part takes more than a hundred kilobytes here.
    let parts = (0..).find(|_| {
        peer.sends(&bytes);
        peer.closed().is_some()
    });
    assert!(parts.unwrap() < 1500, "{parts:?}");
    assert!(matches!(peer.closed(), Some(CloseReason::TooMany("bytes of rules", _))));
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

#[test]
fn statistics_of_another_kind_than_was_asked_for_are_a_warning() {
    let asks: [fn(&mut Peer); 3] = [
        |peer| peer.session.read_flows(peer.now, &mut peer.out),
        |peer| peer.session.ask_for_ports(&mut peer.out),
        |peer| peer.session.ask_for_table_sizes(&mut peer.out),
    ];
    for ask in asks {
        let mut peer = Peer::up(Version::Of13);
        ask(&mut peer);
        let xid = peer.sent()[0].0;
        peer.says(Version::Of13, xid, &Message::StatsReply(StatsReply::new(ReplyBody::Desc(desc()))));
        assert!(matches!(peer.out[..], [Output::Warning { warning: ProtocolWarning::OtherStatistics, first: true }]));
    }
}
