//! Faults, and their effects on the controller and the hosts.

use maple_wire::msg::PortStatus;

use super::*;

fn port_states(network: &mut EmulatedNetwork, dpid: Dpid) -> Vec<(PortNo, bool)> {
    let state = |message| match message {
        Message::PortStatus(PortStatus { port, .. }) => Some((port.number, port.is_up())),
        _ => None,
    };
    heard(network, dpid).into_iter().filter_map(state).collect()
}

#[test]
fn a_link_that_goes_down_is_reported_at_both_ends_and_carries_nothing() {
    let mut network = programmed("linear:2", Version::Of13);
    assert_eq!(flow(&mut network, "h1", "h2", FlowKind::Ping, false), Progress::Done);
    network.link_down(Dpid(2), Dpid(1)).unwrap();
    assert_eq!(flow(&mut network, "h1", "h2", FlowKind::Ping, false), Progress::NoAnswer);
    assert_eq!(port_states(&mut network, Dpid(1)), [(PortNo(2), false)]);
    assert_eq!(port_states(&mut network, Dpid(2)), [(PortNo(2), false)]);
    network.link_up(Dpid(1), Dpid(2)).unwrap();
    assert_eq!(flow(&mut network, "h1", "h2", FlowKind::Ping, false), Progress::Done);
    assert_eq!(port_states(&mut network, Dpid(2)), [(PortNo(2), true)]);
}

#[test]
fn a_port_that_is_taken_down_darkens_the_far_end() {
    let mut network = programmed("linear:2", Version::Of10);
    network.set_port(Dpid(1), PortNo(2), false).unwrap();
    network.run_for(MILLISECOND);
    assert_eq!(port_states(&mut network, Dpid(1)), [(PortNo(2), false)]);
    assert_eq!(port_states(&mut network, Dpid(2)), [(PortNo(2), false)]);
    let far = network.switch(Dpid(2)).unwrap().ports()[&PortNo(2)].description.clone();
    assert_eq!((far.config, far.state), (0, maple_wire::Port::STATE_LINK_DOWN));
}

#[test]
fn a_switch_that_restarts_has_lost_its_rules_and_its_connection_and_comes_back() {
    let mut network = programmed("linear:2", Version::Of13);
    heard(&mut network, Dpid(1));
    network.restart_switch(Dpid(1)).unwrap();
    assert!(!network.is_connected(Dpid(1)));
    assert_eq!(network.switch(Dpid(1)).unwrap().tables()[0].rules().len(), 0);
    network.run_for(20 * MILLISECOND);
    let events = network.take_control(Dpid(1));
    assert!(
        matches!(&events[..], [ControlEvent::Closed, ControlEvent::Opened, ControlEvent::Message(hello)] if hello[1] == 0),
        "{events:?}"
    );
    program_again(&mut network);
    assert_eq!(flow(&mut network, "h1", "h2", FlowKind::Ping, false), Progress::Done);
}

fn program_again(network: &mut EmulatedNetwork) {
    greet(network);
    program(network, &Topology::linear(2));
}

#[test]
fn messages_under_way_in_an_old_connection_do_not_reach_the_new_one() {
    let mut network = greeted(&Topology::linear(1), Version::Of13);
    let slow = ControlFaults { delay: SECOND, ..Default::default() };
    network.control_faults(Dpid(1), slow).unwrap();
    add(&mut network, Dpid(1), 1, Match::any(), &[]);
    network.restart_switch(Dpid(1)).unwrap();
    network.control_faults(Dpid(1), ControlFaults::default()).unwrap();
    network.run_for(20 * MILLISECOND);
    greet(&mut network);
    network.run_for(5 * SECOND);
    assert_eq!(network.switch(Dpid(1)).unwrap().tables()[0].rules().len(), 0);
}

#[test]
fn a_cut_channel_stays_closed_until_it_is_mended() {
    let mut network = programmed("linear:2", Version::Of13);
    network.cut_control(Dpid(2)).unwrap();
    network.run_for(SECOND);
    assert!(!network.is_connected(Dpid(2)));
    assert_eq!(
        flow(&mut network, "h1", "h2", FlowKind::Ping, false),
        Progress::Done,
        "rules go on without a controller"
    );
    network.mend_control(Dpid(2)).unwrap();
    network.run_for(SECOND);
    assert!(network.is_connected(Dpid(2)));
}

#[test]
fn a_half_open_channel_drops_both_ways_without_notice() {
    let mut network = greeted(&Topology::linear(1), Version::Of13);
    network.take_control(Dpid(1));
    network.half_open_control(Dpid(1)).unwrap();
    say(&mut network, Dpid(1), &Message::EchoRequest(vec![1]));
    add(&mut network, Dpid(1), 1, Match::any(), &[]);
    network.run_for(SECOND);
    assert!(network.take_control(Dpid(1)).is_empty());
    assert_eq!(network.switch(Dpid(1)).unwrap().tables()[0].rules().len(), 0);
    network.mend_control(Dpid(1)).unwrap();
    network.run_for(SECOND);
    assert!(matches!(network.take_control(Dpid(1))[..], [ControlEvent::Closed, ControlEvent::Opened, _]));
}

#[test]
fn control_messages_are_lost_and_repeated_as_the_seed_says() {
    let answers = |faults| {
        let mut network = greeted(&Topology::linear(1), Version::Of13);
        network.take_control(Dpid(1));
        network.control_faults(Dpid(1), faults).unwrap();
        for n in 0..100 {
            say(&mut network, Dpid(1), &Message::EchoRequest(vec![n]));
        }
        network.run_for(SECOND);
        network.to_controller(Dpid(1)).len()
    };
    let lossy = ControlFaults { drop: 0.2, ..Default::default() };
    assert!((40..90).contains(&answers(lossy)));
    assert_eq!(answers(lossy), answers(lossy));
    assert_eq!(answers(ControlFaults { drop: 1.0, ..Default::default() }), 0);
    assert_eq!(answers(ControlFaults { duplicate: 1.0, ..Default::default() }), 400);
    assert_eq!(answers(ControlFaults { delay: SECOND, ..Default::default() }), 0, "still under way");
}

#[test]
fn a_host_that_moves_takes_its_addresses_along() {
    let mut network = programmed("linear:2", Version::Of13);
    assert_eq!(network.move_host("h1", Dpid(2), PortNo(1)), Err(NetworkError::PortTaken(Dpid(2), PortNo(1))));
    network.move_host("h1", Dpid(2), PortNo(7)).unwrap();
    network.announce("h1").unwrap();
    network.run_for(SECOND);
    assert_eq!(port_states(&mut network, Dpid(1)), [(PortNo(1), false)]);
    assert_eq!(port_states(&mut network, Dpid(2)), [(PortNo(7), true)]);
    assert_eq!(network.host("h2").unwrap().neighbour("10.0.0.1".parse().unwrap()), Some([0, 0, 0, 0, 0, 1]));
    add(&mut network, Dpid(2), 30, Match::any().exact(Field::EthDst, 1), &[PortNo(7)]);
    network.run_for(MILLISECOND);
    assert_eq!(flow(&mut network, "h1", "h2", FlowKind::Tcp(22), false), Progress::Done);
}

#[test]
fn faults_can_be_asked_for_in_advance() {
    let mut network = programmed("linear:2", Version::Of13);
    let at = network.now() + SECOND;
    network.schedule(at, Fault::Link { a: Dpid(1), b: Dpid(2), up: false });
    network.schedule(at, Fault::Restart(Dpid(9)));
    network.run_until(at - 1);
    assert!(network.links()[0].up);
    network.run_until(at);
    assert!(!network.links()[0].up);
    assert_eq!(network.failed_faults(), [NetworkError::NoSwitch(Dpid(9))]);
}

#[test]
fn a_switch_closes_on_a_controller_of_another_version_or_without_a_hello() {
    let only_1_0 = Message::Hello(Hello { version: 1, elements: vec![] });
    for first in [only_1_0, Message::EchoRequest(vec![])] {
        let mut network = EmulatedNetwork::new(&Topology::linear(1), Version::Of13);
        network.run_for(MILLISECOND);
        network.take_control(Dpid(1));
        say(&mut network, Dpid(1), &first);
        network.run_for(MILLISECOND);
        let events = network.take_control(Dpid(1));
        let [ControlEvent::Message(error), ControlEvent::Closed] = &events[..] else { panic!("{events:?}") };
        assert!(matches!(Message::decode(error), Ok((_, Message::Error(e))) if (e.kind, e.code) == (0, 0)));
    }
}
