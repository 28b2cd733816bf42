//! Switches without a connection: only reports of their neighbours end their links.

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn is_linked(world: &ProbedNetwork) -> bool {
    world.attachment(at(1, 1)) == Attachment::Link(at(2, 1)) && world.attachment(at(2, 1)) == Attachment::Link(at(1, 1))
}

#[test]
fn a_link_stands_however_long_one_end_or_both_have_no_connection() {
    for seconds in [1, 4, 30, 600] {
        for order in [&[1][..], &[2], &[1, 2], &[2, 1]] {
            let mut world = ProbedNetwork::linked();
            for dpid in order {
                world.leaves(*dpid);
                world.run(SECOND);
            }
            world.run(seconds * SECOND);
            assert!(is_linked(&world), "away");
            for dpid in order {
                world.returns(*dpid);
                // The switches come back one after the other, because each waits longer after every attempt.
                world.run(8 * SECOND);
                assert!(is_linked(&world), "back");
            }
            world.run(60 * SECOND);
            assert!(is_linked(&world) && world.anomalies.is_empty(), "and afterwards: {:?}", world.anomalies);
        }
    }
}

#[test]
fn a_neighbour_that_reports_its_port_down_ends_the_link() {
    let mut world = ProbedNetwork::linked();
    world.forgets = true;
    world.leaves(2);
    world.run(SECOND);
    world.port_goes(at(1, 1), false);
    assert_eq!(world.attachment(at(2, 1)), Attachment::New);
    world.run(SECOND);
    world.port_goes(at(1, 1), true);
    world.returns(2);
    world.run(SECOND);
    assert!(is_linked(&world), "and it is found again");
}

#[test]
fn a_port_that_led_to_a_switch_without_a_connection_does_not_become_an_edge_port() {
    let mut world = ProbedNetwork::linked();
    world.forgets = true;
    world.leaves(2);
    world.run(SECOND);
    for _ in 0..3 {
        world.port_goes(at(1, 1), false);
        world.attachments.remove(&at(1, 1));
        world.run(400 * MS);
        world.port_goes(at(1, 1), true);
        world.run(30 * SECOND);
        assert_eq!(world.attachment(at(1, 1)), Attachment::New, "nobody can tell");
    }
    world.returns(2);
    world.run(SECOND);
    assert!(is_linked(&world), "it is found again");
    world.run(60 * SECOND);
    assert!(is_linked(&world));
}

#[test]
fn a_port_that_led_to_a_switch_that_is_back_may_be_an_edge_port() {
    for forgotten in [false, true] {
        let mut world = ProbedNetwork::linked();
        world.forgets = true;
        world.leaves(2);
        world.run(SECOND);
        world.port_goes(at(1, 1), false);
        world.attachments.remove(&at(1, 1));
        world.cut(at(1, 1), at(2, 1));
        world.port_goes(at(1, 1), true);
        world.run(30 * SECOND);
        assert_eq!(world.attachment(at(1, 1)), Attachment::New);
        if forgotten {
            world.down(2);
        } else {
            world.returns(2);
        }
        world.run(30 * SECOND);
        assert_eq!(world.attachment(at(1, 1)), Attachment::Edge, "{forgotten}");
    }
}

#[test]
fn a_cable_that_was_moved_meanwhile_is_noticed_when_both_ends_can_tell() {
    let mut world = ProbedNetwork::linked();
    world.leaves(2);
    world.run(SECOND);
    // A media converter is between the switches, so no port goes down.
    world.cut(at(1, 1), at(2, 1));
    world.run(100 * SECOND);
    assert!(is_linked(&world), "nobody can know");
    world.returns(2);
    world.run(10 * SECOND);
    assert!(is_linked(&world), "it may still be probes that were lost");
    world.run(60 * SECOND);
    assert_eq!((world.attachment(at(1, 1)), world.attachment(at(2, 1))), (Attachment::Edge, Attachment::Edge));
}

#[test]
fn a_switch_that_is_forgotten_ends_its_links() {
    let mut world = ProbedNetwork::linked();
    world.leaves(2);
    world.run(SECOND);
    world.down(2);
    assert_eq!(world.attachment(at(1, 1)), Attachment::New);
}

#[test]
fn a_new_port_waits_for_its_switch() {
    let mut world = ProbedNetwork::new(2);
    world.up(1, 1);
    world.run(50 * MS);
    world.leaves(1);
    world.run(60 * SECOND);
    assert_eq!(world.attachment(at(1, 1)), Attachment::New);
    world.returns(1);
    world.run(SECOND);
    assert_eq!(world.attachment(at(1, 1)), Attachment::Edge);
}

#[test]
fn a_switch_that_adds_and_deletes_ports_for_ever_fills_no_memory() {
    let mut discovery = Discovery::new(KEY, Timing::default(), 0);
    for port in 1..10_000 {
        discovery.keep_former(at(1, port), BTreeSet::from([at(2, 1)]));
    }
    discovery.keep_former(at(2, 1), BTreeSet::from([at(3, 1)]));
    assert!((1024..2048).contains(&discovery.former_peers.len()), "{}", discovery.former_peers.len());
    assert!(discovery.former_peers.contains_key(&at(2, 1)), "the room of a switch is its own");
}
