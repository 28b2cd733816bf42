//! The log: where frames come out, with which headers, on which path, and why they do not.

use super::*;

#[test]
fn the_log_says_where_a_frame_came_out_and_which_rules_it_met() {
    let mut network = programmed("linear:3", Version::Of13);
    let id = network.inject_from("h1", unique(1)).unwrap();
    network.run_for(SECOND);
    assert_eq!(network.log().egress(id).into_iter().collect::<Vec<_>>(), [(Dpid(2), PortNo(1), unique(1))]);
    let delivery = network.log().of_frame(id).next().unwrap();
    assert_eq!(delivery.outcome, Outcome::Egress { dpid: Dpid(2), port: PortNo(1), host: Some("h2".into()) });
    let hops: Vec<_> = delivery.path.iter().map(|h| (h.dpid.0, h.in_port.0, h.out_port.unwrap().0)).collect();
    assert_eq!(hops, [(1, 1, 2), (2, 2, 1)]);
    assert_eq!(delivery.path[0].steps, [PassedTable::Rule { table: 0, priority: 10, cookie: 0, ambiguous: false }]);
    assert_eq!(network.log().entered(Dpid(1), PortNo(1), &unique(1)), [id]);
}

#[test]
fn a_frame_stays_itself_on_its_way_through_the_controller() {
    let mut network = greeted(&Topology::linear(2), Version::Of13);
    add(&mut network, Dpid(1), 0, Match::any(), &[PortNo::CONTROLLER]);
    network.run_for(MILLISECOND);
    let id = network.inject_from("h1", unique(1)).unwrap();
    network.run_for(MILLISECOND);
    let packet_in = packet_ins(&mut network, Dpid(1)).pop().unwrap();
    assert_eq!(packet_in.data, unique(1));
    assert!(network.log().egress(id).is_empty());
    let set = Action::SetField(Constraint::exact(Field::UdpDst, 53));
    let actions = vec![set, Action::output(PortNo(1))];
    let packet_out = PacketOut { buffer_id: NO_BUFFER, in_port: PortNo::CONTROLLER, actions, data: packet_in.data };
    say(&mut network, Dpid(2), &Message::PacketOut(packet_out));
    network.run_for(MILLISECOND);
    let egress: Vec<_> = network.log().egress(id).into_iter().collect();
    assert_eq!((egress[0].0, egress[0].1), (Dpid(2), PortNo(1)));
    assert_eq!(Packet::new(&egress[0].2, 0).get(Field::UdpDst), Some(53));
    let outcomes: Vec<_> = network.log().of_frame(id).map(|d| d.outcome.clone()).collect();
    assert_eq!(outcomes[0], Outcome::Controller(Dpid(1)));
    assert_eq!(network.log().of_frame(id).last().unwrap().path.len(), 2);
}

#[test]
fn a_packet_out_of_unknown_bytes_is_a_frame_of_the_controllers() {
    let mut network = greeted(&Topology::linear(2), Version::Of10);
    let actions = vec![Action::output(PortNo(2))];
    let packet_out = PacketOut { buffer_id: NO_BUFFER, in_port: PortNo::CONTROLLER, actions, data: unique(4) };
    say(&mut network, Dpid(1), &Message::PacketOut(packet_out));
    network.run_for(SECOND);
    let entry = network.log().entries().last().unwrap();
    assert_eq!(entry.origin, Origin::Controller(Dpid(1)));
    let packet_in = packet_ins(&mut network, Dpid(2)).pop().unwrap();
    assert_eq!(packet_in.in_port(), Some(PortNo(2)), "it came over the link, as LLDP does");
}

#[test]
fn every_loss_has_a_reason() {
    let mut network = greeted(&Topology::linear(2), Version::Of13);
    let why = |network: &mut EmulatedNetwork, number| {
        let id = network.inject_from("h1", unique(number)).unwrap();
        network.run_for(SECOND);
        network.log().of_frame(id).map(|d| d.outcome.clone()).collect::<Vec<_>>()
    };
    let dropped = |why| Outcome::Dropped(Dpid(1), Drop::Switch(why));
    assert_eq!(why(&mut network, 1), [dropped(Lost::NoRule)]);
    add(&mut network, Dpid(1), 1, Match::any(), &[]);
    network.run_for(MILLISECOND);
    assert_eq!(why(&mut network, 2), [dropped(Lost::ByRule)]);
    add(&mut network, Dpid(1), 1, Match::any(), &[PortNo(2)]);
    network.link_down(Dpid(1), Dpid(2)).unwrap();
    network.run_for(MILLISECOND);
    assert_eq!(why(&mut network, 3), [dropped(Lost::PortDown(PortNo(2)))]);
    add(&mut network, Dpid(1), 1, Match::any(), &[PortNo(1), PortNo(9)]);
    network.run_for(MILLISECOND);
    let lost = [dropped(Lost::ToIngress(PortNo(1))), dropped(Lost::NoSuchPort(PortNo(9)))];
    assert_eq!(why(&mut network, 4), lost);
}

#[test]
fn a_frame_that_a_controller_sends_again_and_again_is_never_a_loop() {
    let mut network = greeted(&Topology::linear(2), Version::Of13);
    add(&mut network, Dpid(2), 1, Match::any(), &[PortNo::CONTROLLER]);
    network.run_for(MILLISECOND);
    let actions = vec![Action::output(PortNo(2))];
    let request = PacketOut { buffer_id: NO_BUFFER, in_port: PortNo::CONTROLLER, actions, data: unique(4) };
    for _ in 0..100 {
        say(&mut network, Dpid(1), &Message::PacketOut(request.clone()));
        network.run_for(MILLISECOND);
    }
    assert_eq!(network.switch(Dpid(2)).unwrap().counters().packet_ins, 100);
}

#[test]
fn loops_and_storms_end() {
    let mut network = greeted(&Topology::ring(4), Version::Of13);
    for dpid in network.dpids().collect::<Vec<_>>() {
        add(&mut network, dpid, 1, Match::any(), &[PortNo::FLOOD]);
    }
    network.run_for(MILLISECOND);
    let nobodys = Frame::ethernet([2, 0, 0, 0, 0, 9], [0, 0, 0, 0, 0, 1]).raw(0x88b5, b"round and round");
    let id = network.inject_from("h1", nobodys.clone()).unwrap();
    network.run_for(SECOND);
    let loops = network.log().of_frame(id).filter(|d| matches!(d.outcome, Outcome::Dropped(_, Drop::Loop))).count();
    assert_eq!(loops, 2, "one copy each way round");
    let mut network = greeted(&Topology::fattree(4), Version::Of13);
    for dpid in network.dpids().collect::<Vec<_>>() {
        add(&mut network, dpid, 1, Match::any(), &[PortNo::FLOOD]);
    }
    network.run_for(MILLISECOND);
    let id = network.inject_from("h1", nobodys).unwrap();
    network.run_for(SECOND);
    let storms = network.log().of_frame(id).filter(|d| matches!(d.outcome, Outcome::Dropped(_, Drop::Storm))).count();
    assert_eq!(storms, 1);
}

#[test]
fn two_runs_of_one_seed_are_the_same_run() {
    let run = || {
        let mut network = programmed("tree:2,2", Version::Of13);
        let faults = ControlFaults { jitter: MILLISECOND, drop: 0.1, ..Default::default() };
        network.control_faults(Dpid(1), faults).unwrap();
        for (src, dst) in [("h1", "h4"), ("h3", "h2"), ("h4", "h1")] {
            network.open_flow(src, dst, FlowKind::Tcp(443), false).unwrap();
        }
        network.schedule(network.now() + MILLISECOND, Fault::Link { a: Dpid(1), b: Dpid(2), up: false });
        network.run_for(10 * SECOND);
        network.log().deliveries().cloned().collect::<Vec<_>>()
    };
    let first = run();
    assert!(first.len() > 10);
    assert_eq!(first, run());
}

#[test]
fn a_full_log_forgets_its_oldest_entries_and_counts_them() {
    let topology = Topology::linear(1);
    let options = NetworkOptions { log_limit: 2, ..NetworkOptions::new(Version::Of13) };
    let mut network = EmulatedNetwork::with_options(&topology, options);
    let ids: Vec<FrameId> = (0..3).map(|n| network.inject_from("h1", unique(n)).unwrap()).collect();
    network.run_for(SECOND);
    assert_eq!(network.log().entries().map(|e| e.id).collect::<Vec<_>>(), ids[1..]);
    assert_eq!(network.log().forgotten, 2);
    assert!(network.log().is_incomplete);
    network.clear_log();
    assert!(!network.log().is_incomplete);
}
