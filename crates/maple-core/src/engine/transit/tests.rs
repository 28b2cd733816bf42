//! How long parts of withdrawn leaves stay, told letter by letter.

use std::collections::BTreeSet;
use std::time::Duration;

use maple_wire::Version;
use maple_wire::msg::Features;

use super::*;
use crate::engine::{Engine, Event, Options, ShardId};
use crate::policy::{Net, PacketHandle};
use crate::route::Route;
use crate::state::Store;
use crate::trace::Recorder;

const DPID: Dpid = Dpid(2);
const LEAF: LeafId = LeafId(1);
/// What happens happens at multiples of it; parts drain for eight of them.
const STEP: Duration = Duration::from_millis(10);

/// The engine of a switch behind the ingress.
struct World {
    engine: Engine,
    now: Time,
}

impl World {
    fn new() -> World {
        let policy = |_: &PacketHandle, _: &Net| Route::drop();
        let options = Options { drain: STEP * 8, ..Options::default() };
        let mut engine = Engine::new(ShardId(0), Store::new(), std::sync::Arc::new(policy), options);
        let features = Features {
            dpid: DPID,
            n_buffers: 0,
            n_tables: 8,
            auxiliary_id: 0,
            capabilities: 0,
            actions: 0,
            ports: Vec::new(),
        };
        engine.switch_up(DPID, Capabilities::of(Version::Of13, &features), &[]);
        World { engine, now: Time(1) }
    }

    /// Lets so many steps pass.
    fn steps(&mut self, steps: u32) {
        self.now = self.now + STEP * steps;
        self.engine.handle(self.now, &mut vec![Event::Tick], &mut Vec::new());
    }

    /// The leaf's owner wants its part here.
    fn install(&mut self, attempt: u32) {
        let edges = BTreeSet::from([PortNo(3)]);
        self.engine.install(&Install {
            leaf: LEAF,
            attempt,
            dpid: DPID,
            ingress: (Dpid(1), None),
            trace: Recorder::new().finish(),
            entering: Vec::new(),
            frame: [0; 60].into(),
            total_len: 60,
            part: Part { arrives: Some(PortNo(1)), edges, ..Part::default() },
            unicast: true,
            tag: None,
        });
    }

    /// The leaf's owner wants its part here no more.
    fn remove(&mut self) {
        self.engine.remove_part(DPID, LEAF, PortNo(1));
    }

    /// Whether packets of the leaf are still known here.
    fn is_there(&self) -> bool {
        self.engine.switches[&DPID].transit.leaves().any(|leaf| leaf == LEAF)
    }
}

#[test]
fn a_part_stays_for_packets_under_way_and_then_goes() {
    let mut world = World::new();
    world.install(1);
    world.remove();
    world.steps(7);
    assert!(world.is_there());
    world.steps(1);
    assert!(!world.is_there());
}

#[test]
fn a_part_that_is_wanted_again_stays_when_the_time_of_its_removal_comes() {
    let mut world = World::new();
    world.install(1);
    world.remove();
    world.steps(4);
    world.install(2);
    world.steps(100);
    assert!(world.is_there());
}

#[test]
fn a_part_that_was_removed_twice_goes_by_the_time_of_the_last_removal() {
    let mut world = World::new();
    world.install(1);
    world.remove();
    world.steps(3);
    world.install(2);
    world.steps(2);
    world.remove();
    world.steps(3);
    assert!(world.is_there(), "the first removal's time is no reason to go");
    world.steps(4);
    assert!(world.is_there());
    world.steps(1);
    assert!(!world.is_there());
}
