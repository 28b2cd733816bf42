//! What is declared of ports.

use std::sync::Arc;

use maple_core::network::{Facts, PortSet, SwitchFacts};

use super::*;

/// Two switches with a wire between their first ports, of which this is declared of the first switch.
fn wired(facts: SwitchFacts) -> World {
    let facts = Arc::new(Facts::new([(Dpid(1), facts)].into(), [].into()));
    let mut world = World::new(2);
    world.shards = (0..2).map(|n| Discovery::new(KEY, Timing::default(), n).with_facts(Arc::clone(&facts))).collect();
    world.wire(at(1, 1), at(2, 1));
    world.up(1, 2);
    world.up(2, 2);
    world
}

fn first() -> PortSet {
    PortSet(vec![1..=1])
}

#[test]
fn a_declared_edge_port_is_one_at_once_and_no_link_though_a_switch_is_there() {
    let mut world = wired(SwitchFacts { edge: first(), ..SwitchFacts::default() });
    assert_eq!(world.attachment(at(1, 1)), Attachment::Edge, "before any grace period");
    world.run(Duration::from_secs(60));
    assert_eq!(world.attachment(at(1, 1)), Attachment::Edge);
    assert_eq!(world.attachment(at(2, 1)), Attachment::New, "what leads to a port of ours is no edge port");
    assert!(world.sent.iter().all(|(_, from)| *from != at(1, 1)), "it is not probed");
    let alarms = world.anomalies.iter().filter(|anomaly| **anomaly == (at(1, 1), Anomaly::AtEdge)).count();
    assert!(alarms > 10, "each is counted");
}

#[test]
fn any_lldp_at_a_declared_edge_port_is_an_alarm_that_is_reported_once_until_the_port_comes_up_again() {
    let mut world = wired(SwitchFacts { edge: first(), ..SwitchFacts::default() });
    world.cut(at(1, 1), at(2, 1));
    world.in_flight.clear();
    let mut forged = world.probe(at(2, 2));
    let last = forged.len() - 3;
    forged[last] ^= 1;
    let foreign = maple_wire::packet::build::Frame::ethernet([1; 6], [2; 6]).lldp(&[]);
    let now = world.now;
    let reports = |world: &mut World, frame: &[u8]| {
        let (mut out, shard) = (Vec::new(), world.shard(Dpid(1)));
        let origin = world.shards[shard].on_lldp(now, now, at(1, 1), frame, &mut out);
        let alarms = out.iter().map(|output| match output {
            DiscoveryOutput::Anomaly { at: place, anomaly: Anomaly::AtEdge, first } if *place == at(1, 1) => *first,
            other => panic!("{other:?}"),
        });
        (origin, alarms.collect::<Vec<_>>())
    };
    assert_eq!(reports(&mut world, &foreign), (ProbeOrigin::Foreign, vec![true]));
    assert_eq!(reports(&mut world, &forged), (ProbeOrigin::Own, vec![false]));
    // A switch can say as often as it likes that the port is up.
    world.port_goes(at(1, 1), true);
    assert_eq!(reports(&mut world, &foreign), (ProbeOrigin::Foreign, vec![false]));
    world.port_goes(at(1, 1), false);
    assert_eq!(reports(&mut world, &foreign), (ProbeOrigin::Foreign, vec![]), "there is no such port now");
}

#[test]
fn a_declared_link_port_is_never_an_edge_port_and_becomes_a_link() {
    let mut world = wired(SwitchFacts { link: PortSet(vec![1..=2]), ..SwitchFacts::default() });
    world.run(Duration::from_secs(60));
    assert_eq!(world.attachment(at(1, 1)), Attachment::Link(at(2, 1)));
    assert_eq!(world.attachment(at(1, 2)), Attachment::New);
    assert_eq!(world.attachment(at(2, 2)), Attachment::Edge);
    assert_eq!(world.anomalies, [(at(1, 2), Anomaly::NoLink)], "once");
}

#[test]
fn a_switch_that_comes_some_seconds_later_is_not_missed_at_a_declared_link_port() {
    let mut world = wired(SwitchFacts { link: first(), ..SwitchFacts::default() });
    world.down(2);
    world.run(Duration::from_secs(5));
    world.up(2, 2);
    world.run(Duration::from_secs(60));
    assert_eq!(world.attachment(at(1, 1)), Attachment::Link(at(2, 1)));
    assert_eq!(world.anomalies, []);
}

#[test]
fn nothing_is_found_at_a_closed_port() {
    let mut world = wired(SwitchFacts { ports: Some(PortSet(vec![2..=2])), ..SwitchFacts::default() });
    world.run(Duration::from_secs(60));
    assert_eq!(world.attachment(at(1, 1)), Attachment::New);
    assert!(world.sent.iter().all(|(_, from)| *from != at(1, 1)));
    assert_eq!(world.attachment(at(2, 1)), Attachment::Edge);
}

#[test]
fn a_switch_that_is_gone_leaves_nothing() {
    let mut world = wired(SwitchFacts { edge: first(), ..SwitchFacts::default() });
    world.down(1);
    assert!(world.shards.iter().all(|shard| shard.edges.is_empty()));
}
