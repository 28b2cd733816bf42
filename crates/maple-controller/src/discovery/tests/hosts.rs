//! Hosts and other devices: what they can and cannot do.

use super::*;

#[test]
fn a_host_that_forges_probes_makes_no_link() {
    let mut world = ProbedNetwork::linked();
    let made_up = Probe { from: at(2, 2), sent: world.now }.frame(Key([1; 16]), ProbeForm::Lldp, [2; 6], MS);
    let mut changed = world.probe(at(2, 1));
    let port_byte = changed.len() - 2 - 16 - 8 - 1;
    changed[port_byte] ^= 3;
    for frame in [&made_up, &changed, &made_up] {
        world.receive(at(1, 2), frame);
    }
    assert_eq!(world.anomalies, [(at(1, 2), Anomaly::Forged); 3]);
    assert_eq!((world.attachment(at(1, 2)), world.attachment(at(2, 2))), (Attachment::Edge, Attachment::Edge));
}

#[test]
fn a_host_that_replays_old_probes_makes_no_link() {
    let mut world = ProbedNetwork::linked();
    let heard_at_its_own_port = world.probe(at(2, 2));
    world.run(Duration::from_secs(3));
    world.receive(at(1, 2), &heard_at_its_own_port);
    assert_eq!(world.anomalies, [(at(1, 2), Anomaly::Replayed)]);
    assert_eq!((world.attachment(at(1, 2)), world.attachment(at(2, 2))), (Attachment::Edge, Attachment::Edge));
}

#[test]
fn the_forms_of_a_probe_may_arrive_in_any_order() {
    let mut world = ProbedNetwork::linked();
    world.reorders_forms = true;
    world.run(Duration::from_secs(60));
    assert_eq!((world.attachment(at(1, 1)), &world.anomalies[..]), (Attachment::Link(at(2, 1)), &[][..]));
    let (now, shard) = (world.now, world.shard(Dpid(1)));
    let lldp = world.shards[shard].frames(now, at(1, 1)).swap_remove(0);
    let ParsedProbe::Own(probe, ProbeForm::Lldp) = Probe::parse(KEY, &lldp) else { panic!("it is valid") };
    let broadcast = probe.frame(KEY, ProbeForm::Broadcast, [2; 6], MS);
    for frame in [&broadcast, &lldp, &broadcast, &lldp] {
        world.receive(at(2, 1), frame);
    }
    assert_eq!(world.anomalies, [(at(2, 1), Anomaly::Replayed); 2], "each form once");
}

#[test]
fn a_host_that_replays_fresh_probes_makes_no_link() {
    let mut world = ProbedNetwork::linked();
    // The probes of 2:2 also reach a host at 1:2, which sends each of them into 1:2 a hundred times.
    world.wires.insert(at(2, 2), at(1, 2));
    world.run(Duration::from_secs(6));
    let replay = world.probe(at(2, 2));
    for _ in 0..100 {
        world.receive(at(1, 2), &replay);
        world.run(MS);
    }
    assert!(!matches!(world.attachment(at(1, 2)), Attachment::Link(_)), "the other direction was never seen");
    assert!(!matches!(world.attachment(at(2, 2)), Attachment::Link(_)));
    assert!(world.anomalies.iter().filter(|anomaly| **anomaly == (at(1, 2), Anomaly::Replayed)).count() >= 99);
}

#[test]
fn a_probe_that_comes_back_to_its_port_makes_no_link() {
    let mut world = ProbedNetwork::new(1);
    world.wires.insert(at(1, 1), at(1, 1));
    world.up(1, 1);
    world.run(Duration::from_secs(1));
    assert_eq!(world.attachment(at(1, 1)), Attachment::Edge);
    assert!(
        world.anomalies.iter().all(|anomaly| *anomaly == (at(1, 1), Anomaly::Reflected)) && !world.anomalies.is_empty()
    );
}

#[test]
fn nobody_takes_over_a_live_link() {
    let mut world = ProbedNetwork::linked();
    world.run(Duration::from_secs(6));
    let stolen = world.probe(at(2, 2));
    world.receive(at(1, 1), &stolen);
    assert_eq!(world.attachment(at(1, 1)), Attachment::Link(at(2, 1)));
    assert_eq!(world.attachment(at(2, 1)), Attachment::Link(at(1, 1)));
    world.run(Duration::from_secs(60));
    assert_eq!(world.attachment(at(2, 2)), Attachment::Edge);
}

#[test]
fn lldp_of_other_devices_is_for_the_policy() {
    let mut world = ProbedNetwork::linked();
    let foreign = maple_wire::packet::build::Frame::ethernet(maple_wire::packet::lldp::MULTICAST, [2; 6])
        .lldp(&[maple_wire::packet::lldp::Tlv::Ttl(120)]);
    let mut out = Vec::new();
    assert_eq!(world.shards[1].on_lldp(world.now, world.now, at(1, 2), &foreign, &mut out), ProbeOrigin::Foreign);
    assert_eq!(out, []);
}

#[test]
fn probes_of_the_controller_before_are_ignored_while_they_can_be_under_way() {
    let former = Key([1; 16]);
    let mut world = ProbedNetwork::new(2);
    world.shards = (0..2).map(|n| Discovery::new(KEY, Timing::default(), n).in_place_of(Some(former))).collect();
    world.up(1, 2);
    world.up(2, 2);
    // The time is by the clock of the former controller, which had been running for longer.
    let sent = later(world.now, Duration::from_secs(3600));
    let probe = |key| Probe { from: at(2, 2), sent }.frame(key, ProbeForm::Lldp, [2; 6], MS);
    world.receive(at(1, 2), &probe(former));
    world.run(1900 * MS);
    world.receive(at(1, 2), &probe(former));
    assert_eq!((world.attachment(at(1, 2)), &world.anomalies[..]), (Attachment::Edge, &[][..]));
    world.receive(at(1, 2), &probe(Key([2; 16])));
    assert_eq!(world.anomalies, [(at(1, 2), Anomaly::Forged)]);
    world.run(200 * MS);
    world.receive(at(1, 2), &probe(former));
    assert_eq!(world.anomalies, [(at(1, 2), Anomaly::Forged); 2], "it is too late");
}
