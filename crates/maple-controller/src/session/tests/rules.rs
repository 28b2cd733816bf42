//! Reading a switch's rules.

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
fn unreadable_rules_are_deleted_before_the_switch_counts_as_empty() {
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
fn a_switch_that_never_ends_its_rules_has_a_deadline() {
    let mut peer = Peer::up(Version::Of13);
    peer.session.read_flows(peer.now, &mut peer.out);
    for _ in 0..3 {
        peer.waits(Duration::from_secs(10));
        peer.says(Version::Of13, 0, &packet_in());
    }
    assert!(matches!(peer.closed(), Some(CloseReason::RequestTimeout(_))));
}
