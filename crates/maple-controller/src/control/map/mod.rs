//! The map of the network: switches at places that they keep, and links with their load.
//!
//! All who ask see one map, so the controller lays it out, when somebody asks. `layout.rs` says which switches move,
//! and `tree.rs` and `stress.rs` where to.

mod graph;
mod layout;
mod places;
mod stress;
#[cfg(test)]
mod tests;
mod tree;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use maple_core::engine::PortCount;
use maple_core::network::Location;
use maple_core::state::Snapshot;
use maple_wire::Dpid;
use serde_json::{Value, json};

use self::layout::MapLayout;
use self::places::Point;
use super::Handle;
use super::answer::location;
use super::queries::LateShard;

/// The time for which switches and links are the same before the map follows them, apart from the first time. Chosen:
/// more of a network that is being found comes in a moment, and the map should move once.
const QUIET: Duration = Duration::from_secs(1);
/// The age of the oldest counters that say what load a link has: three polls for a policy that wants them.
const FRESH: Duration = Duration::from_secs(30);
/// The maximum number of links that are remembered while one of their ports is down. Chosen: more than are down in a
/// network that works, and a bound on memory.
const MAX_DOWN: usize = 4096;

/// The map, with what it remembers from one question to the next.
#[derive(Debug, Default)]
pub(crate) struct NetworkMap {
    layout: MapLayout,
    /// The switches and neighbours at the last question.
    switches: BTreeSet<Dpid>,
    neighbours: BTreeSet<(Dpid, Dpid)>,
    /// The time when switches and links changed last, until the layout follows.
    changed: Option<Instant>,
    /// The links that are, or that were and have a port that is down; the lower end first.
    links: BTreeSet<(Location, Location)>,
}

impl NetworkMap {
    /// Follows the network to this state.
    fn follow(&mut self, state: &Snapshot, now: Instant) {
        let switches: BTreeSet<Dpid> = state.switches().map(|(dpid, _)| dpid).collect();
        let up: BTreeSet<(Location, Location)> = state.links().collect();
        let ordered = |(a, b): &(Location, Location)| (a.switch.min(b.switch), a.switch.max(b.switch));
        let neighbours: BTreeSet<(Dpid, Dpid)> = up.iter().map(ordered).collect();
        if switches != self.switches || neighbours != self.neighbours {
            (self.switches, self.neighbours, self.changed) = (switches, neighbours, Some(now));
            let settles = self.layout.is_empty();
            self.update(settles);
        } else if self.changed.is_some_and(|changed| now.saturating_duration_since(changed) >= QUIET) {
            self.update(true);
        }
        self.remember_links(state, up);
    }

    fn update(&mut self, settles: bool) {
        self.layout.update(&self.switches, &self.neighbours, settles);
        if settles {
            self.changed = None;
        }
    }

    /// Remembers links that are gone, as long as a port of theirs is down and neither is an end of another link.
    fn remember_links(&mut self, state: &Snapshot, up: BTreeSet<(Location, Location)>) {
        let linked: BTreeSet<Location> = up.iter().flat_map(|(a, b)| [*a, *b]).collect();
        let is_down = |(a, b): &(Location, Location)| {
            let (Some(one), Some(other)) = (state.port(*a), state.port(*b)) else { return false };
            let is_whole = one.up && other.up;
            !is_whole && !linked.contains(a) && !linked.contains(b)
        };
        let gone = std::mem::take(&mut self.links).into_iter().filter(|link| !up.contains(link));
        self.links = gone.filter(is_down).take(MAX_DOWN).collect();
        self.links.extend(up);
    }
}

/// Answers with the places of all switches, and the links between them.
///
/// # Errors
/// [`LateShard`] if a shard does not answer in time.
pub(super) fn answer(handle: &Handle) -> Result<Value, LateShard> {
    let load = load(handle.port_counts()?);
    let (state, names) = (handle.snapshot(), handle.names());
    let mut hosts: BTreeMap<Dpid, u64> = BTreeMap::new();
    for (_, host) in state.hosts() {
        *hosts.entry(host.location.switch).or_default() += 1;
    }
    let mut map = handle.shared().map.lock();
    map.follow(&state, Instant::now());
    let switch = |dpid: &Dpid| {
        let Point { x, y } = map.layout.place(*dpid)?;
        let connected = !handle.shared().registry.is_away(*dpid);
        Some(json!({
            "switch": dpid.to_string(), "name": names.of_switch(*dpid), "x": x, "y": y, "connected": connected,
            "hosts": hosts.get(dpid).copied().unwrap_or_default(),
        }))
    };
    let link = |(from, to): &(Location, Location)| {
        let ends = [*from, *to];
        let bits = ends.iter().filter_map(|at| load.get(at)).copied().reduce(f64::max);
        json!({
            "from": location(*from), "to": location(*to), "bits_per_second": bits,
            "speed": ends.iter().filter_map(|at| state.speed(*at)).min(), "up": state.peer(*from) == Some(*to),
        })
    };
    let switches: Value = map.switches.iter().filter_map(switch).collect();
    Ok(json!({ "switches": switches, "links": map.links.iter().map(link).collect::<Value>() }))
}

/// Returns the places of switches, also of those that are away.
pub(super) fn places(handle: &Handle) -> impl Fn(Dpid) -> Option<(f64, f64)> {
    let mut map = handle.shared().map.lock();
    map.follow(&handle.snapshot(), Instant::now());
    let layout = map.layout.clone();
    move |dpid| layout.place(dpid).map(|Point { x, y }| (x, y))
}

/// Returns what each port sends or receives, whichever is more, in bit/s, by counters that are not old.
fn load(counts: Vec<(PortCount, Duration)>) -> BTreeMap<Location, f64> {
    let fresh = counts.into_iter().filter(|(_, age)| *age <= FRESH);
    fresh
        .filter_map(|(count, _)| count.rates.map(|(sent, received)| (count.at, sent.bits.max(received.bits))))
        .collect()
}
