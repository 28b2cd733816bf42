//! The promise of exploration, as a property: where it is complete, no packet of a known host comes to f.

use std::ops::Range;
use std::time::Duration;

use maple_core::engine::Engine;
use maple_core::network::Mac;
use maple_sim::Choices;
use maple_sim::cases::{Step, host};
use maple_sim::seeds::Seeds;
use maple_wire::Dpid;

use super::case::Case;
use super::play::Play;

/// The number of cases that are the same in each run, and of fresh ones.
const FIXED: u64 = 300;
const FRESH: u64 = 100;
/// The number of packets that nobody has sent before.
const NEW: usize = 24;

/// The packets of a case to which exploration makes a promise, and the switches that it is complete at.
#[derive(Clone, Copy, Debug, Default)]
struct Promised {
    switches: u64,
    complete: u64,
    packets: u64,
    foreseen: u64,
}

#[test]
fn where_exploration_is_complete_no_packet_of_a_known_host_is_a_miss() {
    let Seeds { fixed, fresh } = Seeds::share(|all| all, FIXED, FRESH);
    // What the cases cover is asked of those that are the same in each run.
    if !fixed.is_empty() {
        let all = explored_all(fixed);
        println!("{all:?}");
        assert!(all.complete * 8 > all.switches && all.packets > 500 && all.foreseen > 500, "{all:?}");
    }
    println!("{:?}", explored_all(fresh));
}

fn explored_all(seeds: Range<u64>) -> Promised {
    let mut all = Promised::default();
    for seed in seeds {
        let counts = explored(seed).unwrap_or_else(|error| panic!("MAPLE_SEED={seed}: {error}"));
        all.switches += counts.switches;
        all.complete += counts.complete;
        all.packets += counts.packets;
        all.foreseen += counts.foreseen;
    }
    all
}

/// Explores the network of a case, and sends it new packets.
fn explored(seed: u64) -> Result<Promised, String> {
    let mut case = if seed.is_multiple_of(2) { Case::of_look_ups(seed) } else { Case::generate(seed) };
    (case.explored_leaves, case.capacity, case.lists) = (400, (None, None), false);
    case.look_up_tables = 1 + (seed % 4) as u8;
    case.shape.heard = Vec::new();
    let (world, mut random) = (case.scenario.network.world(true), Choices::new(seed));
    let known = case.scenario.packets.len();
    for _ in 0..NEW {
        let packet = world.packet(&mut random, &case.scenario.packets);
        case.scenario.packets.push(packet);
    }
    let mut play = Play::new(&case);
    (0..known).try_for_each(|packet| play.step(&Step::Send(packet)))?;
    play.sim.run_for(Duration::from_secs(10));
    let complete = dpids(&play).filter(|dpid| is_complete(&play, *dpid)).count() as u64;
    let foreseen = play.sim.stats().leaves_foreseen;
    let mut promised = Promised { switches: case.shape.versions.len() as u64, complete, packets: 0, foreseen };
    for packet in known..known + NEW {
        let (state, spec) = (play.sim.store.snapshot(), &case.scenario.packets[packet]);
        let mac = host(spec.from).mac;
        let at = play.place_of(mac);
        let is_known = case.track_hosts && state.host(mac).is_some_and(|host| host.location == at);
        let is_promised = is_known && Mac(spec.src) == mac && is_complete(&play, at.switch);
        let before = play.sim.stats();
        play.step(&Step::Send(packet))?;
        play.sim.run_for(Duration::from_secs(2));
        let after = play.sim.stats();
        // A host that was silent for long is found by its packet.
        let has_missed = after.misses > before.misses && after.hosts_aged == before.hosts_aged;
        if is_promised && has_missed {
            let tree = engine_of(&play, at.switch).map(|engine| engine.view().tree(at.switch)).unwrap_or_default();
            return Err(format!("{spec:?} at {at} was a miss\n{}\n{tree}", case.scenario.policy));
        }
        promised.packets += u64::from(is_promised);
    }
    Ok(promised)
}

fn engine_of<'a>(play: &'a Play<'_>, dpid: Dpid) -> Option<&'a Engine> {
    play.sim.engines().iter().find(|engine| engine.view().exploration(dpid).is_some())
}

fn is_complete(play: &Play<'_>, dpid: Dpid) -> bool {
    let engine = engine_of(play, dpid);
    engine.and_then(|engine| engine.view().exploration(dpid)).is_some_and(|of| of.is_complete())
}

fn dpids(play: &Play<'_>) -> impl Iterator<Item = Dpid> + use<> {
    play.sim.dpids().into_iter()
}
