//! Finds silent hosts that move: ports that come and go show where to look for them.
//!
//! Suppose that a host is plugged in elsewhere and stays silent. It would be found only when a peer asks for it with a
//! broadcast, and operating systems wait long before they do that. So hosts are asked for at the ports where they may
//! be, by the addresses that they announced. Their answers are learned from as usual.
//!
//! * When a port becomes an edge port, the hosts of ports that are down are asked for there. If the network has few
//!   hosts, all of them are asked for: a host's old port may have stayed up, as behind a bridge.
//! * The hosts that were at that port before are searched for there, as after a claim (`search.rs`), because another
//!   host may be plugged in now. A host that does not answer is forgotten, so that f treats it as unknown.
//! * When a port goes down, its hosts are asked for at edge ports that came up a moment ago.
//!
//! Each of these concerns at most [`MAX_ASKED`] hosts, and each host is asked for by one address.

use std::time::Duration;

use super::probe::probe;
use super::{HostAction, Hosts};
use crate::ids::Time;
use crate::network::{HostInfo, Location, Mac};
use crate::state::Snapshot;

/// The maximum number of hosts to ask for when a port comes or goes. Chosen: each costs a packet-out, and a port that
/// flaps must not cost the network more than that each time.
const MAX_ASKED: usize = 64;

/// The time after a port came up within which the hosts of a port that goes down may be there. Chosen: switches may
/// report the old port seconds after the new one, and ports that came up earlier mostly have hosts of their own.
pub(in crate::engine) const RECENTLY_UP: Duration = Duration::from_secs(10);

impl Hosts {
    /// Asks for hosts at a port of this shard that has become an edge port.
    pub fn on_edge(&mut self, now: Time, state: &Snapshot, at: Location, out: &mut Vec<HostAction>) {
        let here: Vec<Mac> = state.hosts_at(at).take(MAX_ASKED).collect();
        for mac in here {
            self.verify_host(now, state, mac, at, out);
        }
        let is_elsewhere = |mac: &Mac| state.host(*mac).is_some_and(|host| host.location != at);
        let few = state.hosts().map(|(mac, _)| *mac).take(MAX_ASKED + 1).collect::<Vec<Mac>>();
        let asked: Vec<Mac> = if few.len() <= MAX_ASKED { few } else { hosts_at_down_ports(state) };
        for mac in asked.into_iter().filter(is_elsewhere).take(MAX_ASKED) {
            probe_host(state, mac, at, out);
        }
    }
}

/// Asks for a host at a port, unless the host has no address.
pub(in crate::engine) fn probe_host(state: &Snapshot, mac: Mac, at: Location, out: &mut Vec<HostAction>) {
    let ip = state.host(mac).and_then(|host| HostInfo::addresses(host).next());
    out.extend(ip.map(|ip| HostAction::Emit { at, frame: probe(mac, ip) }));
}

/// Returns the hosts to ask for elsewhere when their port has gone down.
pub(in crate::engine) fn hosts_to_ask_for(state: &Snapshot, at: Location) -> Vec<Mac> {
    state.hosts_at(at).take(MAX_ASKED).collect()
}

/// Returns the hosts at ports that are down, at most [`MAX_ASKED`].
fn hosts_at_down_ports(state: &Snapshot) -> Vec<Mac> {
    let places = state.switches().flat_map(|(dpid, _)| {
        state.ports_of(dpid).filter(|(_, port)| !port.up).map(move |(port, _)| Location::new(dpid, port))
    });
    places.flat_map(|at| state.hosts_at(at)).take(MAX_ASKED).collect()
}
