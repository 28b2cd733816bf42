//! Silent hosts that move: what ports that go and come tell of where to look.
//!
//! A host that says nothing after it was plugged in elsewhere would be found only when somebody asks for it with a broadcast,
//! which takes a peer's operating system some twenty seconds. So hosts are asked for where they may be by now, by the
//! addresses that they announced, and their answers are learned from as ever:
//!
//! * A port that becomes an edge port: the hosts of ports that are down are asked for there. Where the network has few hosts,
//!   all of them, for those whose old port has stayed up: behind a bridge, say.
//! * The hosts that were at that port before are looked for there, as after a claim (`search.rs`): the plug may be another
//!   one's by now. Who does not answer is forgotten, so that f treats it as unknown.
//! * A port that goes down: its hosts are asked for at edge ports that came up a moment ago.
//!
//! Each is bounded by [`MOST`] hosts, each asked by one address.

use std::time::Duration;

use super::probe::probe;
use super::{HostAction, Hosts};
use crate::engine::Time;
use crate::network::{HostInfo, Location, Mac};
use crate::state::Snapshot;

/// How many hosts are asked for when a port comes or goes.
const MOST: usize = 64;

/// For how long a port that came up may be where the hosts of one are that goes down.
pub(in crate::engine) const RECENTLY_UP: Duration = Duration::from_secs(10);

impl Hosts {
    /// A port of ours has become an edge port.
    pub fn on_edge(&mut self, now: Time, state: &Snapshot, at: Location, out: &mut Vec<HostAction>) {
        let here: Vec<Mac> = state.hosts_at(at).take(MOST).collect();
        for mac in here {
            self.verify_host(now, state, mac, at, out);
        }
        let is_elsewhere = |mac: &Mac| state.host(*mac).is_some_and(|host| host.location != at);
        let few = state.hosts().map(|(mac, _)| *mac).take(MOST + 1).collect::<Vec<Mac>>();
        let asked: Vec<Mac> = if few.len() <= MOST { few } else { hosts_at_down_ports(state) };
        for mac in asked.into_iter().filter(is_elsewhere).take(MOST) {
            ask(state, mac, at, out);
        }
    }
}

/// A frame that asks for a host at a port, if it has an address.
pub(in crate::engine) fn ask(state: &Snapshot, mac: Mac, at: Location, out: &mut Vec<HostAction>) {
    let ip = state.host(mac).and_then(|host| HostInfo::addresses(host).next());
    out.extend(ip.map(|ip| HostAction::Emit { at, frame: probe(mac, ip) }));
}

/// The hosts at a port that has gone down, as far as they are asked for.
pub(in crate::engine) fn unplugged(state: &Snapshot, at: Location) -> Vec<Mac> {
    state.hosts_at(at).take(MOST).collect()
}

/// Hosts of ports that are down.
fn hosts_at_down_ports(state: &Snapshot) -> Vec<Mac> {
    let places = state.switches().flat_map(|(dpid, _)| {
        state.ports_of(dpid).filter(|(_, port)| !port.up).map(move |(port, _)| Location::new(dpid, port))
    });
    places.flat_map(|at| state.hosts_at(at)).take(MOST).collect()
}
