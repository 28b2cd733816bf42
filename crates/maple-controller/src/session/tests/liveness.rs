//! Echoes, deadlines and challenges.

use super::*;

#[test]
fn a_silent_switch_gets_an_echo_request_and_is_dead_without_an_answer() {
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
fn a_busy_switch_gets_no_echo_requests() {
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
fn the_silence_of_a_switch_while_a_request_is_open_is_reported_once() {
    let mut peer = Peer::up(Version::Of13);
    peer.session.on_sent(peer.now, ENGINE_XIDS, &Message::BarrierRequest);
    let reported = |peer: &Peer| -> Vec<bool> {
        peer.out.iter().filter_map(|output| if let Output::Silent(is) = output { Some(*is) } else { None }).collect()
    };
    peer.waits(Duration::from_secs(5));
    peer.waits(Duration::from_secs(4));
    assert_eq!(reported(&peer), [false; 0]);
    for _ in 0..10 {
        peer.waits(Duration::from_secs(1));
    }
    assert_eq!(reported(&peer), [true]);
    peer.says(Version::Of13, 0, &packet_in());
    peer.says(Version::Of13, 0, &packet_in());
    assert_eq!(reported(&peer), [true, false]);
    assert!(peer.closed().is_none());
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
fn each_answer_restarts_the_time_for_the_next_request() {
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
fn answers_to_later_requests_do_not_extend_the_time_for_the_oldest() {
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
fn a_barrier_reply_is_delivered_once_and_only_for_a_request() {
    let mut peer = Peer::up(Version::Of13);
    peer.session.on_sent(peer.now, ENGINE_XIDS + 5, &Message::BarrierRequest);
    peer.says(Version::Of13, ENGINE_XIDS + 4, &Message::BarrierReply);
    peer.says(Version::Of13, ENGINE_XIDS + 5, &Message::BarrierReply);
    peer.says(Version::Of13, ENGINE_XIDS + 5, &Message::BarrierReply);
    let kinds: Vec<bool> = peer.out.iter().map(|output| matches!(output, Output::Deliver { .. })).collect();
    assert_eq!(kinds, [false, true, false]);
    assert!(matches!(peer.out[0], Output::Warning { warning: ProtocolWarning::UnexpectedReply(21), first: true }));
    assert!(matches!(peer.out[2], Output::Warning { first: false, .. }));
}

#[test]
fn only_its_own_echo_reply_answers_a_challenge() {
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
