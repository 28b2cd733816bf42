//! Questions that only tests ask of an engine.

use maple_wire::msg::Features;
use maple_wire::msg::stats::Desc;
use maple_wire::{Dpid, Port, Version};

use super::Event;
use super::dispatch::Engine;

/// Returns the event of a switch that connects, has this number of tables and no bundles, and says nothing else about
/// itself.
pub fn switch_up(dpid: Dpid, version: Version, n_tables: u8, ports: Vec<Port>) -> Event {
    let (features, description) = (Features::new(dpid, n_tables), Desc::default());
    Event::SwitchUp { dpid, version, features, description, ports, has_bundles: false }
}

/// Reports whether an update of a switch's rules is between its two steps: additions have been sent, and old rules are
/// still there.
pub fn is_half_way(engine: &Engine, dpid: Dpid) -> bool {
    engine.fabric.switches.get(&dpid).is_some_and(|switch| switch.tables.has_second_step())
}

/// Panics if a remembered answer differs from the one that would be computed now.
pub fn check_remembered(engine: &Engine) {
    engine.decisions.check_remembered(&engine.fabric);
}

/// Returns the number of items kept for hosts, of all kinds together.
pub fn size_of_hosts(engine: &Engine) -> usize {
    let rules = engine.fabric.switches.values().map(|switch| switch.ports.host_rules.size());
    engine.topology.hosts.size() + rules.sum::<usize>()
}
