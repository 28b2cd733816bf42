//! Questions of people to a switch: whose answer is whose, and what is kept of those that do not end.

use maple_wire::msg::Role;
use maple_wire::msg::stats::{FlowStatsRequest, PortStats, RequestBody};

use super::*;

fn reply(flags: u16, body: ReplyBody) -> Message {
    Message::StatsReply(StatsReply { flags, body })
}

fn ports(count: u32) -> ReplyBody {
    let one = |number: u32| PortStats { port: PortNo(number), ..PortStats::default() };
    ReplyBody::Port((1..=count).map(one).collect())
}

fn of_ports() -> SwitchQuestion {
    SwitchQuestion::Statistics(RequestBody::Port(PortNo::ANY))
}

/// Asks, and returns the number, which is the id of the one request.
fn ask(peer: &mut Peer, question: SwitchQuestion) -> u32 {
    let number = peer.session.ask(question, &mut peer.out).expect("it is asked");
    assert!(matches!(peer.sent()[..], [(xid, _)] if xid == number));
    number
}

/// Takes the answers.
fn answers(peer: &mut Peer) -> Vec<(u32, SwitchAnswer)> {
    assert!(peer.closed().is_none());
    let answer = |output| if let Output::Answered(number, answer) = output { Some((number, answer)) } else { None };
    peer.out.drain(..).filter_map(answer).collect()
}

#[test]
fn the_parts_of_an_answer_are_together_whatever_else_is_asked() {
    for version in BOTH {
        let mut peer = Peer::up(version);
        let (one, two) = (ask(&mut peer, of_ports()), ask(&mut peer, SwitchQuestion::Statistics(RequestBody::Table)));
        assert_ne!(one, two);
        peer.says(version, one, &reply(1, ports(2)));
        assert!(answers(&mut peer).is_empty(), "more follows");
        peer.says(version, two, &reply(0, ReplyBody::Table(Vec::new())));
        assert_eq!(answers(&mut peer), [(two, SwitchAnswer::Statistics(vec![ReplyBody::Table(Vec::new())]))]);
        peer.says(version, one, &reply(0, ports(1)));
        assert_eq!(answers(&mut peer), [(one, SwitchAnswer::Statistics(vec![ports(2), ports(1)]))]);
        peer.says(version, one, &reply(0, ports(1)));
        assert!(answers(&mut peer).is_empty(), "it has ended");
    }
}

#[test]
fn questions_that_the_version_lacks_or_the_switch_refuses_are_unsupported() {
    let mut peer = Peer::up(Version::Of10);
    for question in [SwitchQuestion::Role, SwitchQuestion::Statistics(RequestBody::Meter(1))] {
        assert_eq!(peer.session.ask(question, &mut peer.out), Err(SwitchAnswer::Unsupported));
        assert!(peer.sent().is_empty());
    }
    let mut peer = Peer::up(Version::Of13);
    let refused = ask(&mut peer, of_ports());
    let error = Message::Error(ErrorMsg { kind: 1, code: 2, data: Vec::new() });
    peer.says(Version::Of13, refused, &error);
    assert_eq!(answers(&mut peer), [(refused, SwitchAnswer::Unsupported)]);
    let role = Role { role: Role::EQUAL, generation_id: 7 };
    let asked = ask(&mut peer, SwitchQuestion::Role);
    peer.says(Version::Of13, asked, &Message::RoleReply(role));
    assert_eq!(answers(&mut peer), [(asked, SwitchAnswer::Role(role))]);
}

#[test]
fn the_oldest_of_too_many_questions_gives_way_and_its_late_parts_are_ignored() {
    let mut peer = Peer::up(Version::Of13);
    let first = ask(&mut peer, SwitchQuestion::Statistics(RequestBody::Flow(FlowStatsRequest::all())));
    let others: Vec<u32> = (0..7).map(|_| ask(&mut peer, of_ports())).collect();
    assert!(answers(&mut peer).is_empty());
    let ninth = peer.session.ask(of_ports(), &mut peer.out).expect("it is asked");
    assert_eq!(answers(&mut peer), [(first, SwitchAnswer::TooMuch)]);
    peer.says(Version::Of13, first, &reply(0, ReplyBody::Flow(Vec::new())));
    assert!(answers(&mut peer).is_empty());
    for number in others.into_iter().chain([ninth]) {
        peer.says(Version::Of13, number, &reply(0, ports(1)));
        assert_eq!(answers(&mut peer), [(number, SwitchAnswer::Statistics(vec![ports(1)]))]);
    }
}

#[test]
fn an_answer_without_end_is_given_up() {
    let mut peer = Peer::up(Version::Of13);
    let asked = ask(&mut peer, of_ports());
    // A message has 64 kB at most.
    let part = reply(1, ports(500));
    let mut parts = 0;
    let answer = loop {
        peer.says(Version::Of13, asked, &part);
        parts += 1;
        assert!(parts < 1000, "8 MiB are the bound");
        if let [answer] = &answers(&mut peer)[..] {
            break answer.clone();
        }
    };
    assert_eq!(answer, (asked, SwitchAnswer::TooMuch));
    assert!(parts > 100, "{parts} parts are not too much");
    peer.says(Version::Of13, asked, &part);
    assert!(answers(&mut peer).is_empty(), "the rest is ignored");
}
