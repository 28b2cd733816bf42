//! Connections that claim a switch and end before the claim is decided.

use super::*;

/// Bytes that are not OpenFlow: they end a session at once.
const GARBAGE: [u8; 8] = [9; 8];

/// Checks that a switch whose last connection is gone gets a new one. Every older connection has been closed by then.
fn assert_comes_back(world: &mut ShardsWithSwitches, shard: usize) {
    world.now = after(world.now, Duration::from_secs(2));
    let before = world.simulation.counters(0).of_dp_connections;
    let line = world.connect(shard);
    world.settle(&[0, 1], &line);
    assert_eq!(world.simulation.counters(0).of_dp_connections, before + 1);
    assert!(!line.is_closed() && world.simulation.shard_of(SWITCH) == Some(0));
}

#[test]
fn a_claimant_that_ends_while_the_owner_is_asked_does_not_get_the_switch() {
    let mut world = ShardsWithSwitches::new();
    let owner = world.connect(0);
    world.settle(&[0, 1], &owner);
    let claimant = world.connect(0);
    world.settle(&[0, 1], &claimant);
    claimant.send(world.now, &GARBAGE);
    world.settle(&[0, 1], &claimant);
    owner.hang_up();
    world.settle(&[0, 1], &claimant);
    assert_comes_back(&mut world, 0);
}

#[test]
fn a_claimant_that_ends_before_it_leaves_for_the_shard_that_has_the_switch_does_not_get_the_switch() {
    let mut world = ShardsWithSwitches::new();
    let first = world.connect(0);
    world.settle(&[0, 1], &first);
    first.hang_up();
    world.settle(&[0, 1], &first);
    let claimant = world.connect(1);
    let said = world.simulation.turn(world.now, 1);
    world.batches.extend(said);
    // The answer to the request for features, and garbage, are read at once.
    world.answer(SWITCH, &claimant);
    claimant.send(world.now, &GARBAGE);
    world.settle(&[0, 1], &claimant);
    assert_comes_back(&mut world, 1);
}
