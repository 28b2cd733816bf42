//! Ports with declared roles.

use std::sync::Arc;

use maple_core::network::{Facts, PortSet, SwitchFacts};

use super::*;

/// Builds two switches with a wire between their first ports; `facts` are declared of the first switch.
fn wired(facts: SwitchFacts) -> ProbedNetwork {
    let facts = Arc::new(Facts::new([(Dpid(1), facts)].into(), [].into()));
    let mut world = ProbedNetwork::new(2);
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
    assert_eq!(world.attachment(at(2, 1)), Attachment::New, "what leads to a port of ours is not an edge port");
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
    let reports = |world: &mut ProbedNetwork, frame: &[u8]| {
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
    // A switch may report as often as it likes that the port is up.
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

/// Declares other facts of the first switch while both are connected.
fn declare(world: &mut ProbedNetwork, facts: SwitchFacts) {
    let facts = Arc::new(Facts::new([(Dpid(1), facts)].into(), [].into()));
    let (now, ports) = (world.now, [1, 2].map(super::port));
    for dpid in [1, 2] {
        let shard = world.shard(Dpid(dpid));
        let switches = [(Dpid(dpid), &ports[..])];
        world.with(shard, |discovery, out| discovery.declare(now, &facts, switches.into_iter(), out));
    }
}

#[test]
fn a_link_between_ports_that_become_link_ports_stays_and_what_is_known_is_reported_again() {
    let mut world = wired(SwitchFacts::default());
    world.run(Duration::from_secs(10));
    let (linked, sent) = (Attachment::Link(at(2, 1)), world.sent.len());
    assert_eq!(world.attachment(at(1, 1)), linked);
    for facts in [SwitchFacts { link: first(), ..SwitchFacts::default() }, SwitchFacts::default()] {
        world.attachments.clear();
        world.forgets = true;
        declare(&mut world, facts);
        world.forgets = false;
        let all = [at(1, 1), at(1, 2), at(2, 1), at(2, 2)].map(|at| world.attachment(at));
        assert_eq!(all, [linked.clone(), Attachment::Edge, Attachment::Link(at(1, 1)), Attachment::Edge]);
        assert_eq!(world.sent.len(), sent, "nothing is probed anew");
    }
}

#[test]
fn a_port_that_is_no_edge_port_any_more_is_looked_at_and_found_to_be_a_link() {
    let mut world = wired(SwitchFacts { edge: first(), ..SwitchFacts::default() });
    world.run(Duration::from_secs(10));
    assert_eq!((world.attachment(at(1, 1)), world.attachment(at(2, 1))), (Attachment::Edge, Attachment::New));
    world.forgets = true;
    declare(&mut world, SwitchFacts::default());
    assert_eq!(world.attachment(at(1, 1)), Attachment::Edge, "until a switch is found");
    world.run(Duration::from_secs(10));
    let ends = [at(1, 1), at(2, 1)].map(|at| world.attachment(at));
    assert_eq!(ends, [Attachment::Link(at(2, 1)), Attachment::Link(at(1, 1))]);
    declare(&mut world, SwitchFacts { edge: first(), ..SwitchFacts::default() });
    world.run(Duration::from_secs(60));
    assert_eq!((world.attachment(at(1, 1)), world.attachment(at(2, 1))), (Attachment::Edge, Attachment::New));
}

#[test]
fn a_port_that_is_closed_and_opened_again_is_found_again() {
    let mut world = wired(SwitchFacts::default());
    world.run(Duration::from_secs(10));
    world.forgets = true;
    declare(&mut world, SwitchFacts { ports: Some(PortSet(vec![2..=2])), ..SwitchFacts::default() });
    world.sent.clear();
    world.run(Duration::from_secs(60));
    assert_eq!(world.attachment(at(2, 1)), Attachment::Edge);
    assert!(world.sent.iter().all(|(_, from)| *from != at(1, 1)));
    declare(&mut world, SwitchFacts::default());
    world.run(Duration::from_secs(10));
    let ends = [at(1, 1), at(2, 1)].map(|at| world.attachment(at));
    assert_eq!(ends, [Attachment::Link(at(2, 1)), Attachment::Link(at(1, 1))]);
}
