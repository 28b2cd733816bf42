//! Bridges and segments between switches.

use super::*;

fn segment(ports: &[Location]) -> Attachment {
    Attachment::Segment(ports.iter().copied().collect())
}

#[test]
fn two_switches_find_each_other_through_a_bridge_that_filters_lldp() {
    let mut world = ProbedNetwork::new(2);
    world.bridge(&[at(1, 1), at(2, 1)], false);
    world.up(1, 2);
    world.up(2, 2);
    world.run(50 * MS);
    assert_eq!(world.attachment(at(1, 1)), Attachment::Link(at(2, 1)));
    assert_eq!(world.attachment(at(2, 1)), Attachment::Link(at(1, 1)));
    world.run(Duration::from_secs(3600));
    assert_eq!(world.attachment(at(1, 1)), Attachment::Link(at(2, 1)));
    assert_eq!(world.anomalies, [(at(1, 1), Anomaly::Bridged), (at(2, 1), Anomaly::Bridged)]);
}

#[test]
fn a_few_lost_lldp_frames_are_no_bridge() {
    let mut world = ProbedNetwork::new(2);
    world.wire(at(1, 1), at(2, 1));
    // A switch that has just connected may get its rules between the two frames of a probe.
    world.loses_lldp = 2;
    world.up(1, 1);
    world.up(2, 1);
    world.run(Duration::from_secs(60));
    assert_eq!(world.attachment(at(1, 1)), Attachment::Link(at(2, 1)));
    assert_eq!(world.anomalies, []);
}

#[test]
fn a_switch_that_joins_a_bridge_later_is_found_at_once() {
    let mut world = ProbedNetwork::new(2);
    world.bridge(&[at(1, 1), at(2, 1)], false);
    world.up(1, 1);
    world.run(Duration::from_secs(60));
    assert_eq!(world.attachment(at(1, 1)), Attachment::Edge);
    world.up(2, 1);
    world.run(10 * MS);
    assert_eq!(world.attachment(at(1, 1)), Attachment::Link(at(2, 1)));
}

#[test]
fn three_switches_on_one_bridge_all_find_each_other() {
    for passes_lldp in [false, true] {
        let mut world = ProbedNetwork::new(2);
        let ports = [at(1, 1), at(2, 1), at(3, 1)];
        world.bridge(&ports, passes_lldp);
        (1..=3).for_each(|switch| world.up(switch, 2));
        world.run(200 * MS);
        for me in ports {
            let others: Vec<Location> = ports.into_iter().filter(|other| *other != me).collect();
            assert_eq!(world.attachment(me), segment(&others), "{me}, LLDP passes: {passes_lldp}");
            assert_ne!(world.attachment(at(me.switch.0, 2)), segment(&others));
        }
        world.run(Duration::from_secs(3600));
        assert_eq!(world.attachment(at(1, 1)), segment(&[at(2, 1), at(3, 1)]), "it stays");
        world.port_goes(at(3, 1), false);
        world.run(MS);
        assert_eq!(world.attachment(at(1, 1)), Attachment::Link(at(2, 1)), "two that are left have a link");
    }
}

#[test]
fn two_ports_of_one_switch_on_a_bridge_find_each_other() {
    let mut world = ProbedNetwork::new(1);
    world.bridge(&[at(1, 1), at(1, 2)], false);
    world.up(1, 2);
    world.run(50 * MS);
    assert_eq!(world.attachment(at(1, 1)), Attachment::Link(at(1, 2)));
}

#[test]
fn a_port_remembers_a_limited_number_of_peers() {
    let mut world = ProbedNetwork::new(1);
    let ports: Vec<Location> = (1..=70).map(|switch| at(switch, 1)).collect();
    world.bridge(&ports, false);
    (1..=70).for_each(|switch| world.up(switch, 1));
    world.run(Duration::from_secs(10));
    assert!(world.anomalies.iter().any(|(_, anomaly)| *anomaly == Anomaly::TooManyPeers));
    assert!(
        ports
            .iter()
            .all(|me| world.attachment(*me).peers().len() <= port::MAX_PEERS
                && world.attachment(*me) != Attachment::Edge)
    );
}
