//! Reading a switch's ports again.

use super::*;

/// Asks twice, and returns the id of the only request.
fn ask(peer: &mut Peer) -> u32 {
    peer.session.ask_for_ports(&mut peer.out);
    peer.session.ask_for_ports(&mut peer.out);
    let [(xid, _)] = peer.sent()[..] else { panic!("one request, while it is open") };
    xid
}

fn reported(peer: &mut Peer) -> Option<Vec<Port>> {
    assert!(peer.closed().is_none());
    peer.out.drain(..).find_map(|output| match output {
        Output::Ports(ports) => Some(ports),
        _ => None,
    })
}

#[test]
fn a_switch_tells_its_ports_in_one_answer_or_in_parts() {
    let mut peer = Peer::up(Version::Of10);
    let xid = ask(&mut peer);
    peer.says(Version::Of10, xid, &Message::FeaturesReply(Features { ports: vec![port(3)], ..features(7, 0) }));
    assert_eq!(reported(&mut peer), Some(vec![port(3)]));
    let mut peer = Peer::up(Version::Of13);
    for _ in 0..2 {
        let xid = ask(&mut peer);
        let part = |flags, ports| Message::StatsReply(StatsReply { flags, body: ReplyBody::PortDesc(ports) });
        peer.says(Version::Of13, xid, &part(1, vec![port(1)]));
        assert_eq!(reported(&mut peer), None, "more follows");
        peer.says(Version::Of13, xid, &part(0, vec![port(2)]));
        assert_eq!(reported(&mut peer), Some(vec![port(1), port(2)]));
    }
}

#[test]
fn a_switch_that_refuses_to_tell_its_ports_keeps_its_connection() {
    let mut peer = Peer::up(Version::Of13);
    let xid = ask(&mut peer);
    peer.says(Version::Of13, xid, &Message::Error(ErrorMsg { kind: 1, code: 2, data: vec![] }));
    assert_eq!(reported(&mut peer), None);
    assert_ne!(ask(&mut peer), xid, "it may be asked again");
}
