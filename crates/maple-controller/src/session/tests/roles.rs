//! Sessions of a controller that is one of several.

use maple_wire::msg::{Experimenter, Role};

use super::*;

/// Creates a session that has negotiated this version, in a cluster of which it knows this.
fn begun(version: Version, role: ClusterRole) -> Peer {
    let mut out = Vec::new();
    let session = Session::with_role(Time(0), Deadlines::default(), Some((1, role)), &mut out);
    let mut peer = Peer { session, now: Time(0), out };
    assert_eq!(peer.sent().len(), 1, "the hello");
    peer.says(version, 1, &hello(version as u8, None));
    peer
}

/// Creates a session of a standby, in a cluster of which it knows this. The switch has seen generation 3, and has made
/// it a slave.
fn standby(version: Version, role: ClusterRole) -> Peer {
    let mut peer = begun(version, role);
    let sent = peer.sent();
    let [(asked, ask), (_, Message::FeaturesRequest)] = &sent[..] else { panic!("{sent:?}") };
    assert!(is_for_slave(ask), "{ask:?}");
    peer.grants(*asked, Role::SLAVE, 3);
    peer.says(version, 2, &Message::FeaturesReply(features(7, 0)));
    assert!(matches!(peer.out[..], [Output::Claim(Dpid(7))]), "{:?}", peer.out);
    peer.out.clear();
    peer.session.admit(peer.now, &mut peer.out);
    assert_eq!(peer.reported(), [RoleNews::Standby]);
    peer
}

/// Creates a session that is master in generation 5.
fn master(version: Version) -> Peer {
    let mut peer = standby(version, follows(3));
    assert_eq!(peer.sent(), []);
    peer.leads(2, 5);
    let asked = peer.asks_for_master(5);
    peer.grants(asked, Role::MASTER, 5);
    peer.comes_up();
    peer
}

fn follows(latest: u64) -> ClusterRole {
    ClusterRole { own_generation: None, latest: Some(latest), has_lease: true }
}

fn nicira(kind: u32, role: u32) -> Message {
    let body = [kind, role].iter().flat_map(|word| word.to_be_bytes()).collect();
    Message::Experimenter(Experimenter { id: 0x2320, body })
}

fn is_for_slave(message: &Message) -> bool {
    *message == Message::RoleRequest(Role { role: Role::SLAVE, generation_id: 3 }) || *message == nicira(10, 2)
}

fn is_slave() -> Message {
    Message::Error(ErrorMsg { kind: 1, code: 10, data: Vec::new() })
}

impl Peer {
    fn leads(&mut self, number: u64, generation: u64) {
        let role = ClusterRole { own_generation: Some(generation), latest: Some(generation), has_lease: true };
        self.session.set_role(self.now, number, role, &mut self.out);
    }

    /// Returns the id of the one message that was sent, which asks to be master in this generation.
    fn asks_for_master(&mut self, generation: u64) -> u32 {
        let sent = self.sent();
        let [(asked, ask)] = &sent[..] else { panic!("{sent:?}") };
        let expected = match self.session.version() {
            Version::Of13 => Message::RoleRequest(Role { role: Role::MASTER, generation_id: generation }),
            Version::Of10 => nicira(10, 1),
        };
        assert_eq!(*ask, expected);
        *asked
    }

    fn grants(&mut self, asked: u32, role: u32, generation_id: u64) {
        let version = self.session.version();
        let answer = match version {
            Version::Of13 => Message::RoleReply(Role { role, generation_id }),
            Version::Of10 => nicira(11, role - 1),
        };
        self.says(version, asked, &answer);
    }

    /// Plays the handshake of a new mastery, which claims nothing.
    fn comes_up(&mut self) {
        let version = self.session.version();
        assert!(matches!(self.sent()[..], [(_, Message::FeaturesRequest)]));
        let ports = if version == Version::Of10 { vec![port(1)] } else { Vec::new() };
        self.says(version, 9, &Message::FeaturesReply(Features { ports, ..features(7, 0) }));
        assert_eq!(self.reported(), []);
        self.answer_all();
        assert!(self.session.is_up());
        self.sent();
        let [Output::Up(info)] = &self.out[..] else { panic!("{:?}", self.out) };
        assert_eq!((info.version, info.ports.len(), info.features.dpid), (version, 1, Dpid(7)));
        self.out.clear();
    }

    /// Takes what was reported of the role. Nothing else was but warnings.
    fn reported(&mut self) -> Vec<RoleNews> {
        let (sent, rest): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.out).into_iter().partition(|output| matches!(output, Output::Send { .. }));
        self.out = sent;
        let of_role = |output| match output {
            Output::Role(news) => Some(news),
            Output::Warning { .. } => None,
            other => panic!("{other:?}"),
        };
        rest.into_iter().filter_map(of_role).collect()
    }
}

#[test]
fn a_standby_asks_to_be_slave_first_and_says_nothing_else() {
    for version in BOTH {
        let mut peer = standby(version, follows(3));
        assert_eq!(peer.sent(), []);
        let packet = PacketIn::new(1, vec![0; 60]);
        for message in [Message::PacketIn(packet), Message::FeaturesReply(features(7, 0)), is_slave()] {
            peer.says(version, 70, &message);
        }
        assert!(peer.out.is_empty() && !peer.session.is_up(), "{:?}", peer.out);
        // It stays connected, and is seen to be alive.
        peer.waits(Duration::from_secs(6));
        let [(echo, Message::EchoRequest(_))] = &peer.sent()[..] else { panic!("no echo") };
        peer.says(version, *echo, &Message::EchoReply(Vec::new()));
        peer.waits(Duration::from_secs(4));
        assert!(peer.out.is_empty(), "{:?}", peer.out);
    }
}

#[test]
fn a_session_without_a_generation_asks_the_switch_before_it_is_slave() {
    let mut peer = begun(Version::Of13, ClusterRole::default());
    let sent = peer.sent();
    let [(asked, ask), (_, Message::FeaturesRequest)] = &sent[..] else { panic!("{sent:?}") };
    assert_eq!(*ask, Message::RoleRequest(Role { role: Role::NOCHANGE, generation_id: 0 }));
    peer.grants(*asked, Role::EQUAL, 3);
    assert!(matches!(&peer.sent()[..], [(_, ask)] if is_for_slave(ask)));
}

#[test]
fn a_leader_asks_to_be_master_when_it_is_admitted_and_then_describes_the_switch() {
    for version in BOTH {
        let mut peer = begun(version, ClusterRole { own_generation: Some(5), latest: Some(5), has_lease: true });
        let sent = peer.sent();
        let [(slave, _), (_, Message::FeaturesRequest)] = &sent[..] else { panic!("{sent:?}") };
        peer.grants(*slave, Role::SLAVE, 5);
        peer.says(version, 2, &Message::FeaturesReply(features(7, 0)));
        assert_eq!(peer.sent(), [], "another connection may have the switch");
        peer.out.clear();
        peer.session.admit(peer.now, &mut peer.out);
        let asked = peer.asks_for_master(5);
        assert_eq!(peer.reported(), [RoleNews::Standby]);
        peer.grants(asked, Role::MASTER, 5);
        peer.comes_up();
    }
}

#[test]
fn a_master_that_is_refused_a_change_is_a_standby_and_forgets_what_it_asked() {
    let mut peer = master(Version::Of13);
    // The engine has asked something, and the rules are being read.
    let engine = ENGINE_XIDS + 4;
    peer.session.on_sent(peer.now, engine, &Message::BarrierRequest);
    peer.session.read_flows(peer.now, &mut peer.out);
    let reading = peer.sent()[0].0;
    peer.says(Version::Of13, ENGINE_XIDS + 3, &is_slave());
    assert_eq!(peer.reported(), [RoleNews::Lost]);
    assert!(!peer.session.is_up());
    peer.says(Version::Of13, engine, &Message::BarrierReply);
    peer.says(Version::Of13, reading, &Message::StatsReply(StatsReply::new(ReplyBody::Flow(Vec::new()))));
    assert!(peer.out.is_empty(), "{:?}", peer.out);
    // Nobody else asks for it: it is master again, with everything asked anew.
    peer.waits(Duration::from_secs(1));
    let asked = peer.asks_for_master(5);
    peer.grants(asked, Role::MASTER, 5);
    peer.comes_up();
    peer.says(Version::Of13, reading, &Message::StatsReply(StatsReply::new(ReplyBody::Flow(Vec::new()))));
    peer.says(Version::Of13, engine, &Message::BarrierReply);
    assert_eq!(peer.reported(), [], "what was asked before means nothing");
}

#[test]
fn a_master_that_follows_is_a_standby_before_the_switch_says_so() {
    for version in BOTH {
        let mut peer = master(version);
        peer.session.set_role(peer.now, 3, follows(6), &mut peer.out);
        assert!(!peer.session.is_up());
        assert_eq!(peer.reported(), [RoleNews::Lost]);
        assert!(matches!(&peer.sent()[..], [(_, Message::RoleRequest(_) | Message::Experimenter(_))]));
        // What was said before means nothing any more.
        peer.leads(2, 5);
        assert!(peer.out.is_empty(), "{:?}", peer.out);
    }
}

#[test]
fn a_master_in_a_new_generation_asks_for_everything_anew() {
    let mut peer = master(Version::Of13);
    peer.leads(3, 8);
    assert_eq!(peer.reported(), [RoleNews::Lost]);
    let asked = peer.asks_for_master(8);
    // It is lost again half-way.
    peer.grants(asked, Role::MASTER, 8);
    let [(_, Message::FeaturesRequest)] = &peer.sent()[..] else { panic!("no features") };
    peer.says(Version::Of13, 80, &is_slave());
    peer.says(Version::Of13, 9, &Message::FeaturesReply(features(7, 0)));
    assert!(peer.out.is_empty(), "{:?}", peer.out);
    peer.leads(4, 9);
    let asked = peer.asks_for_master(9);
    peer.grants(asked, Role::MASTER, 9);
    peer.comes_up();
}

#[test]
fn a_switch_that_has_seen_a_later_generation_is_left_alone_and_that_is_reported_once() {
    let mut peer = standby(Version::Of13, follows(3));
    peer.leads(2, 5);
    let mut asked = peer.asks_for_master(5);
    for round in 0..3 {
        let stale = Message::Error(ErrorMsg { kind: 11, code: 0, data: Vec::new() });
        peer.says(Version::Of13, asked, &stale);
        let [(question, Message::RoleRequest(Role { role: Role::NOCHANGE, .. }))] = peer.sent()[..] else {
            panic!("it asks which one")
        };
        peer.grants(question, Role::SLAVE, 9);
        let reported = peer.reported();
        assert_eq!(reported, if round == 0 { vec![RoleNews::Overtaken(9)] } else { vec![] });
        peer.waits(Duration::from_secs(1));
        asked = peer.asks_for_master(5);
    }
    assert!(!peer.session.is_up());
}

#[test]
fn a_switch_without_roles_is_left_alone() {
    let mut peer = begun(Version::Of10, ClusterRole { own_generation: Some(5), latest: Some(5), has_lease: true });
    let refused = Message::Error(ErrorMsg { kind: 1, code: 3, data: Vec::new() });
    let slave = peer.sent()[0].0;
    peer.says(Version::Of10, slave, &refused);
    peer.says(Version::Of10, 2, &Message::FeaturesReply(features(7, 0)));
    peer.out.clear();
    peer.session.admit(peer.now, &mut peer.out);
    let asked = peer.asks_for_master(5);
    peer.says(Version::Of10, asked, &refused);
    assert_eq!(peer.reported(), [RoleNews::Standby, RoleNews::Unsupported]);
    assert!(!peer.session.is_up() && peer.closed().is_none());
}

#[test]
fn in_1_0_a_controller_without_a_lease_gives_up_the_mastership() {
    let unleased = |generation| ClusterRole { own_generation: Some(generation), latest: Some(5), has_lease: false };
    let mut peer = master(Version::Of10);
    peer.session.set_role(peer.now, 3, unleased(5), &mut peer.out);
    assert_eq!(peer.reported(), [RoleNews::Lost]);
    assert!(matches!(&peer.sent()[..], [(_, ask)] if is_for_slave(ask)));
    // In 1.3 the switch decides.
    let mut peer = master(Version::Of13);
    peer.session.set_role(peer.now, 3, unleased(5), &mut peer.out);
    assert!(peer.session.is_up() && peer.out.is_empty(), "{:?}", peer.out);
}

#[test]
fn a_switch_that_answers_no_request_for_a_role_is_disconnected() {
    let mut peer = standby(Version::Of13, follows(3));
    peer.leads(2, 5);
    peer.asks_for_master(5);
    peer.waits(Duration::from_secs(30));
    assert!(matches!(peer.closed(), Some(CloseReason::RequestTimeout(_))), "{:?}", peer.out);
}

#[test]
fn a_connection_can_not_become_another_switch() {
    let mut peer = standby(Version::Of13, follows(3));
    peer.leads(2, 5);
    let asked = peer.asks_for_master(5);
    peer.grants(asked, Role::MASTER, 5);
    peer.says(Version::Of13, 9, &Message::FeaturesReply(features(8, 0)));
    assert_eq!(peer.closed(), Some(&CloseReason::OtherDpid(Dpid(7), Dpid(8))));
}

#[test]
fn the_answer_to_a_question_of_people_is_no_grant() {
    let mut peer = standby(Version::Of13, follows(3));
    peer.leads(2, 5);
    peer.asks_for_master(5);
    peer.grants(4711, Role::MASTER, 5);
    assert!(!peer.session.is_up() && peer.sent().is_empty());
    // Nor is one of Nicira's that nobody has asked for.
    peer.says(Version::Of13, 4711, &nicira(11, 1));
    assert!(!peer.session.is_up() && !peer.sent().iter().any(|(_, one)| matches!(one, Message::FeaturesRequest)));
}
