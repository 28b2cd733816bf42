//! Links and edge ports: how they are found, kept and lost.

use super::*;

#[test]
fn a_link_is_found_at_both_ends_and_other_ports_become_edges() {
    let world = ProbedNetwork::linked();
    assert_eq!(world.attachment(at(1, 1)), Attachment::Link(at(2, 1)));
    assert_eq!(world.attachment(at(2, 1)), Attachment::Link(at(1, 1)));
    assert_eq!(world.attachment(at(1, 2)), Attachment::Edge);
    assert_eq!(world.attachment(at(2, 2)), Attachment::Edge);
    assert_eq!(world.anomalies, []);
}

#[test]
fn a_new_port_is_neither_edge_nor_link_during_its_grace_period() {
    let mut world = ProbedNetwork::new(1);
    world.up(1, 1);
    world.run(299 * MS);
    assert_eq!(world.attachment(at(1, 1)), Attachment::New);
    world.run(MS);
    assert_eq!(world.attachment(at(1, 1)), Attachment::Edge);
}

#[test]
fn a_port_becomes_an_edge_soon_even_if_its_probes_leave_late() {
    for late in [1, 20, 99] {
        let mut world = ProbedNetwork::new(1);
        world.probe_delay = late * MS;
        world.up(1, 1);
        world.run((299 + late) * MS);
        assert_eq!(world.attachment(at(1, 1)), Attachment::New, "the last probe has its chance");
        world.run(MS);
        assert_eq!(world.attachment(at(1, 1)), Attachment::Edge, "{late} ms late");
    }
}

#[test]
fn a_link_is_found_within_milliseconds_of_the_second_switch_though_the_first_ports_are_edges() {
    let mut world = ProbedNetwork::new(2);
    world.wire(at(1, 1), at(2, 1));
    world.up(1, 1);
    world.run(Duration::from_secs(3));
    assert_eq!(world.attachment(at(1, 1)), Attachment::Edge);
    world.up(2, 1);
    world.run(5 * MS);
    assert_eq!(world.attachment(at(1, 1)), Attachment::Link(at(2, 1)));
    assert_eq!(world.attachment(at(2, 1)), Attachment::Link(at(1, 1)));
}

#[test]
fn a_link_that_works_stays_for_hours_without_an_edge_in_between() {
    let mut world = ProbedNetwork::linked();
    let before = world.attachments.clone();
    world.run(Duration::from_secs(3 * 3600));
    assert_eq!(world.attachments, before);
    assert_eq!(world.anomalies, []);
}

#[test]
fn probes_are_sent_at_once_three_times_quickly_and_then_every_few_seconds() {
    let mut world = ProbedNetwork::new(1);
    let start = world.now;
    world.up(1, 1);
    world.run(Duration::from_secs(60));
    let times: Vec<u64> = world.sent.iter().map(|(time, _)| (time.0 - start.0) / 1_000_000).collect();
    assert_eq!(times[..4], [0, 100, 200, 300]);
    let pauses: Vec<u64> = times[3..].windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(pauses.iter().all(|pause| (4500..=5500).contains(pause)), "{pauses:?}");
    assert!(pauses.iter().any(|pause| *pause != pauses[0]), "they spread: {pauses:?}");
}

#[test]
fn a_link_ages_out_at_both_ends_when_its_probes_are_lost() {
    let mut world = ProbedNetwork::linked();
    world.cut(at(1, 1), at(2, 1));
    world.run(Duration::from_secs(9));
    assert_eq!(world.attachment(at(1, 1)), Attachment::Link(at(2, 1)), "one or two lost rounds are no reason");
    world.run(Duration::from_secs(15));
    assert_eq!((world.attachment(at(1, 1)), world.attachment(at(2, 1))), (Attachment::New, Attachment::New));
    world.run(Duration::from_secs(40));
    assert_eq!((world.attachment(at(1, 1)), world.attachment(at(2, 1))), (Attachment::Edge, Attachment::Edge));
}

#[test]
fn a_link_stays_while_shards_are_blocked_for_minutes() {
    for shards in [1, 2] {
        for shard in 0..shards {
            let mut world = ProbedNetwork::new(shards);
            world.wire(at(1, 1), at(2, 1));
            world.up(1, 1);
            world.up(2, 1);
            world.run(Duration::from_secs(1));
            let before = world.attachments.clone();
            assert_eq!(before.len(), 2);
            for seconds in [3, 1, 18, 2, 30, 120] {
                world.block(shard, Duration::from_secs(seconds));
                assert_eq!(world.attachments, before, "{seconds} s, shard {shard} of {shards}");
                world.run(100 * MS);
                assert_eq!(world.attachments, before, "after {seconds} s, shard {shard} of {shards}");
            }
            world.run(Duration::from_secs(60));
            assert_eq!((&world.attachments, &world.anomalies[..]), (&before, &[][..]), "shard {shard} of {shards}");
        }
    }
}

#[test]
fn a_cut_link_ends_even_if_a_shard_is_blocked_repeatedly() {
    let mut world = ProbedNetwork::linked();
    world.cut(at(1, 1), at(2, 1));
    for _ in 0..12 {
        world.block(0, Duration::from_secs(3));
        world.run(100 * MS);
    }
    assert_eq!((world.attachment(at(1, 1)), world.attachment(at(2, 1))), (Attachment::New, Attachment::New));
}

#[test]
fn a_probe_that_waited_to_be_read_is_no_replay_and_one_that_arrived_late_is() {
    let mut world = ProbedNetwork::linked();
    let probe = world.probe(at(2, 2));
    let sent = world.now;
    world.run(Duration::from_secs(3));
    world.read(later(sent, 1999 * MS), at(1, 2), &probe);
    assert_eq!(world.anomalies, []);
    let probe = world.probe(at(2, 2));
    let sent = world.now;
    world.run(Duration::from_secs(3));
    world.read(later(sent, 2001 * MS), at(1, 2), &probe);
    assert_eq!(world.anomalies, [(at(1, 2), Anomaly::Replayed)]);
}

#[test]
fn a_link_vanishes_at_the_other_end_at_once_when_a_port_goes_down_and_returns_with_it() {
    let mut world = ProbedNetwork::linked();
    world.port_goes(at(1, 1), false);
    world.attachments.remove(&at(1, 1));
    assert_eq!(world.attachment(at(2, 1)), Attachment::New);
    world.run(Duration::from_secs(10));
    assert_eq!(world.attachment(at(2, 1)), Attachment::New, "no edge port while the other switch may still forward");
    world.port_goes(at(1, 1), true);
    world.run(250 * MS);
    assert_eq!(world.attachment(at(1, 1)), Attachment::Link(at(2, 1)));
    assert_eq!(world.attachment(at(2, 1)), Attachment::Link(at(1, 1)));
}

#[test]
fn a_link_vanishes_at_once_when_a_switch_goes_and_returns_with_it() {
    let mut world = ProbedNetwork::linked();
    world.down(2);
    world.attachments.retain(|at, _| at.switch != Dpid(2));
    assert_eq!(world.attachment(at(1, 1)), Attachment::New);
    world.run(Duration::from_secs(1));
    world.up(2, 2);
    world.run(250 * MS);
    assert_eq!(world.attachment(at(1, 1)), Attachment::Link(at(2, 1)));
    assert_eq!(world.attachment(at(2, 1)), Attachment::Link(at(1, 1)));
}

#[test]
fn a_port_that_flaps_while_probes_are_in_flight_causes_no_anomaly() {
    let mut world = ProbedNetwork::linked();
    world.delay = 30 * MS;
    for _ in 0..20 {
        world.port_goes(at(1, 1), false);
        world.attachments.remove(&at(1, 1));
        world.run(7 * MS);
        world.port_goes(at(1, 1), true);
        world.run(45 * MS);
    }
    world.run(Duration::from_secs(6));
    assert_eq!(world.attachment(at(1, 1)), Attachment::Link(at(2, 1)));
    assert_eq!(world.attachment(at(2, 1)), Attachment::Link(at(1, 1)));
    assert_eq!(world.anomalies, []);
}

#[test]
fn a_wire_of_one_direction_is_no_link_and_its_ends_are_no_edges() {
    let mut world = ProbedNetwork::new(2);
    world.wires.insert(at(1, 1), at(2, 1));
    world.up(1, 1);
    world.up(2, 1);
    world.run(Duration::from_secs(10));
    assert_eq!((world.attachment(at(1, 1)), world.attachment(at(2, 1))), (Attachment::New, Attachment::New));
    assert_eq!(world.anomalies, []);
    world.run(Duration::from_secs(60));
    assert_eq!(world.anomalies.len(), 2, "reported once at each end: {:?}", world.anomalies);
    assert!(world.anomalies.iter().all(|(_, anomaly)| *anomaly == Anomaly::OneWay));
    assert_eq!((world.attachment(at(1, 1)), world.attachment(at(2, 1))), (Attachment::New, Attachment::New));
}

#[test]
fn a_wire_that_is_moved_to_another_switch_makes_a_new_link() {
    let mut world = ProbedNetwork::linked();
    world.up(3, 1);
    world.run(Duration::from_secs(1));
    world.cut(at(1, 1), at(2, 1));
    world.port_goes(at(1, 1), false);
    world.port_goes(at(2, 1), false);
    world.attachments.remove(&at(1, 1));
    world.attachments.remove(&at(2, 1));
    world.wire(at(1, 1), at(3, 1));
    world.port_goes(at(1, 1), true);
    world.run(100 * MS);
    assert_eq!(world.attachment(at(1, 1)), Attachment::Link(at(3, 1)));
    assert_eq!(world.attachment(at(3, 1)), Attachment::Link(at(1, 1)));
}

#[test]
fn the_port_of_the_switchs_own_host_is_probed_and_becomes_an_edge_port() {
    let mut discovery = Discovery::new(KEY, Timing::default(), 0);
    let at = Location::new(Dpid(1), PortNo::LOCAL);
    let mut out = Vec::new();
    discovery.on_switch_up(Time(0), Dpid(1), &[Port { number: PortNo::LOCAL, ..port(1) }], &mut out);
    assert!(matches!(out.as_slice(), [DiscoveryOutput::Probe { at: from }] if *from == at));
    out.clear();
    while let Some(due) = discovery.deadline().filter(|due| *due < Time(1_000_000_000)) {
        discovery.on_timer(due, &mut out);
    }
    assert!(out.contains(&DiscoveryOutput::Attachment { at, now: Attachment::Edge, before: Attachment::New }));
}

#[test]
fn reserved_ports_and_ports_that_are_down_are_not_probed() {
    let mut discovery = Discovery::new(KEY, Timing::default(), 0);
    let mut down = port(3);
    down.config = Port::CONFIG_DOWN;
    let reserved = Port { number: PortNo::NORMAL, ..port(1) };
    let mut out = Vec::new();
    discovery.on_switch_up(Time(0), Dpid(1), &[reserved, Port { number: PortNo(0), ..port(1) }, down], &mut out);
    assert_eq!((out, discovery.deadline()), (vec![], None));
}

#[test]
fn a_ring_over_three_shards_is_found_whole() {
    let mut world = ProbedNetwork::new(3);
    let n = 8;
    for switch in 0..n {
        world.wire(at(switch + 1, 1), at((switch + 1) % n + 1, 2));
        world.up(switch + 1, 3);
        world.run(13 * MS);
    }
    world.run(Duration::from_secs(1));
    for switch in 1..=n {
        assert_eq!(world.attachment(at(switch, 1)), Attachment::Link(at(switch % n + 1, 2)));
        assert_eq!(world.attachment(at(switch % n + 1, 2)), Attachment::Link(at(switch, 1)));
        assert_eq!(world.attachment(at(switch, 3)), Attachment::Edge);
    }
    assert_eq!(world.anomalies, []);
}

#[test]
fn known_attachments_of_a_switch_stay_if_they_are_found_again() {
    let mut world = ProbedNetwork::new(2);
    world.wire(at(1, 1), at(2, 1));
    for (dpid, peer) in [(1, 2), (2, 1)] {
        world.back(dpid, &Attachment::Link(at(peer, 1)));
    }
    world.back(3, &Attachment::Edge);
    let known = world.attachments.clone();
    world.run(60_000 * MS);
    // Meanwhile the ports of which nothing was known are edge ports.
    let edges = [1, 2, 3].map(|dpid| (at(dpid, 2), Attachment::Edge));
    assert_eq!(world.attachments, known.into_iter().chain(edges).collect());
    assert_eq!(world.anomalies, []);
}

#[test]
fn a_link_that_was_known_and_is_not_there_ends_within_seconds() {
    let mut world = ProbedNetwork::new(2);
    for (dpid, peer) in [(1, 2), (2, 1)] {
        world.back(dpid, &Attachment::Link(at(peer, 1)));
    }
    world.run(300 * MS);
    assert_eq!(world.attachments[&at(1, 1)], Attachment::Link(at(2, 1)), "probes may still be on their way");
    world.run(8_000 * MS);
    for dpid in [1, 2] {
        assert!(matches!(world.attachments[&at(dpid, 1)], Attachment::New | Attachment::Edge), "{dpid}");
    }
}

#[test]
fn an_edge_port_that_was_known_and_has_a_switch_behind_it_becomes_a_link_at_once() {
    let mut world = ProbedNetwork::new(2);
    world.wire(at(1, 1), at(2, 1));
    world.back(1, &Attachment::Edge);
    world.back(2, &Attachment::New);
    world.run(100 * MS);
    assert_eq!(world.attachments[&at(1, 1)], Attachment::Link(at(2, 1)));
}

#[test]
fn a_port_of_which_nothing_was_known_waits_as_a_new_one_does() {
    let mut world = ProbedNetwork::new(1);
    world.back(1, &Attachment::New);
    world.run(200 * MS);
    assert_eq!(world.attachments.get(&at(1, 2)), None);
    world.run(300 * MS);
    assert_eq!(world.attachments[&at(1, 2)], Attachment::Edge);
}
