//! Switches of an earlier run that come back while shards take turns in every order.

use maple_core::memory::{ReadMetadata, Surroundings, Witness};
use maple_core::network::{HostInfo, Location, Mac};
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::storage::{Departed, KnownSwitches, LeafJournal, Restart};

/// The switches, each with a host and a leaf.
const SWITCHES: [Dpid; 3] = [Dpid(1), Dpid(2), Dpid(3)];

fn departed(dpid: Dpid) -> Departed {
    let (at, mac) = (Location::new(dpid, PortNo(1)), [2, 0, 0, 0, 0, dpid.0 as u8]);
    let frame: Arc<[u8]> = Frame::ethernet([2; 6], mac).ipv4([10; 4], [11; 4]).udp(1, 2).build().into();
    let host = HostInfo { location: at, ipv4: Default::default(), ipv6: Default::default() };
    let surroundings = Surroundings { edges: vec![at], hosts: vec![(Mac(mac), host)], ..Surroundings::default() };
    let leaf = Witness {
        at,
        total_len: frame.len(),
        frame,
        extra_reads: Box::default(),
        metadata: ReadMetadata::default(),
        is_made_up: false,
    };
    Departed { leaves: vec![leaf], rows: vec![dpid.0], surroundings }
}

impl ShardsWithSwitches {
    /// Creates a run after one that knew the switches.
    fn after_a_restart() -> ShardsWithSwitches {
        let mut world = ShardsWithSwitches::with(Arc::default(), Arc::new(|_: &PacketHandle, _: &Net| Route::flood()));
        let earlier = SWITCHES.map(|dpid| (dpid, departed(dpid))).into();
        let restart = Arc::new(Restart::new(world.now, Arc::clone(&world.store), earlier));
        let known = KnownSwitches { restart, journal: Arc::new(LeafJournal::new(2)) };
        for simulated in &mut world.simulation.shards {
            simulated.shard.remember(known.clone());
        }
        world
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// A step is the shard that takes a turn, the switch that answers after it, and the milliseconds that pass.
    #[test]
    fn every_leaf_is_decided_again_whichever_shard_is_quicker(steps in vec((0..2usize, 0..3usize, 0..10u64), 200)) {
        let mut world = ShardsWithSwitches::after_a_restart();
        let lines = SWITCHES.map(|dpid| (dpid, world.connect(dpid.0 as usize % 2)));
        for (shard, switch, milliseconds) in steps {
            let (here, later) = std::mem::take(&mut world.batches).into_iter().partition(|batch| batch.to == shard);
            world.batches = later;
            Vec::into_iter(here).for_each(|batch| world.simulation.deliver(batch));
            let said = world.simulation.turn(world.now, shard);
            world.batches.extend(said);
            let (dpid, line) = &lines[switch];
            world.answer(*dpid, line);
            world.now = after(world.now, Duration::from_millis(milliseconds));
        }
        world.settle_all(&[0, 1], &lines);
        let leaves: u64 = (0..2).map(|shard| world.simulation.stats(shard).leaves).sum();
        prop_assert_eq!(leaves, 3);
    }
}

#[test]
fn packets_that_wait_at_a_new_port_go_with_their_switch() {
    let mut world = ShardsWithSwitches::keeping(Duration::ZERO);
    let line = world.connect(0);
    world.settle(&[0], &line);
    let frame = Frame::ethernet([2; 6], [4; 6]).raw(0x88b5, &[0; 46]);
    line.send(world.now, &packet_in(Version::Of10, 9, NO_BUFFER, 1, &frame));
    world.settle(&[0], &line);
    line.hang_up();
    world.settle(&[0], &line);
    assert_eq!(world.simulation.stats(0).new_port_drops, 1);
    // The time is over for which the packet would have waited.
    world.now = after(world.now, Duration::from_secs(60));
    world.settle(&[0], &line);
    assert_eq!(world.simulation.stats(0).new_port_drops, 1);
}
