//! Looks for hosts that may have moved when ports come and go (`hosts/flaps.rs`), and notices hosts that seem to
//! alternate between two ports.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use maple_wire::PortNo;

use super::Topology;
use super::hosts::{HostAction, RECENTLY_UP, hosts_to_ask_for, probe_host};
use crate::engine::fabric::Fabric;
use crate::engine::messages::mail::EngineMessage;
use crate::ids::{ShardId, Time};
use crate::network::{Location, Mac, PortInfo, PortKind};
use crate::report::{Report, ReportSubject};
use crate::state::Snapshot;

/// The time within which a host that repeats a move is not moving: its packets come from two places. Chosen: nobody
/// carries a device to and fro within a minute, and a duplicate address shows itself within seconds.
const ALTERNATION: Duration = Duration::from_secs(60);
/// The maximum number of hosts whose moves are remembered. Chosen: more than move within [`ALTERNATION`] in most
/// networks, and a bound on memory.
const MAX_MOVES: usize = 1024;

/// The last move of each host to a port of this shard.
#[derive(Debug, Default)]
pub(in crate::engine) struct LastMoves(BTreeMap<Mac, (Location, Location, Time)>);

impl LastMoves {
    /// Notes a move. Returns whether it repeats the host's last move within [`ALTERNATION`].
    fn note(&mut self, now: Time, mac: Mac, from: Location, to: Location) -> bool {
        if self.0.len() >= MAX_MOVES && !self.0.contains_key(&mac) {
            self.0.retain(|_, (.., when)| *when + ALTERNATION > now);
        }
        if self.0.len() >= MAX_MOVES && !self.0.contains_key(&mac) {
            return false;
        }
        let before = self.0.insert(mac, (from, to, now));
        before.is_some_and(|(old_from, old_to, when)| (old_from, old_to) == (from, to) && when + ALTERNATION > now)
    }
}

impl Topology {
    /// Handles a port of this shard that may have come or gone. If an edge port with hosts has gone down, all shards
    /// look for these hosts.
    pub fn on_port_change(&mut self, fabric: &mut Fabric, state: &Snapshot, at: Location) {
        let now = fabric.ctx.now();
        let Some(switch) = fabric.switches.get_mut(&at.switch).filter(|_| fabric.ctx.options.track_hosts) else {
            return;
        };
        match state.port(at) {
            Some(PortInfo { up: true, kind: PortKind::Edge }) => {
                if switch.ports.note_edge(now, at.port) {
                    self.with_hosts(fabric, |hosts, now, actions| hosts.on_edge(now, state, at, actions));
                }
            }
            info => {
                let was_edge = switch.ports.forget_edge(at.port);
                if was_edge && info.is_none_or(|port| !port.up) && state.hosts_at(at).next().is_some() {
                    let shards: BTreeSet<ShardId> = state.switches().map(|(_, info)| info.shard).collect();
                    shards.into_iter().for_each(|to| fabric.ctx.send_to_shard(to, EngineMessage::Unplugged(at)));
                }
            }
        }
    }

    /// Looks for the hosts of a port that has gone down. They may be at ports of this shard that have just come up.
    pub fn look_for_unplugged_hosts(&mut self, fabric: &mut Fabric, from: Location) {
        let state = fabric.ctx.store.snapshot();
        let lately = |(_, since): &(PortNo, Time)| *since + RECENTLY_UP > fabric.ctx.now();
        let places: Vec<Location> = fabric
            .switches
            .iter()
            .flat_map(|(dpid, switch)| switch.ports.edges().filter(lately).map(|(port, _)| Location::new(*dpid, port)))
            .collect();
        let hosts = hosts_to_ask_for(&state, from);
        self.with_hosts(fabric, |_, _, actions: &mut Vec<HostAction>| {
            for at in places {
                hosts.iter().for_each(|mac| probe_host(&state, *mac, at, actions));
            }
        });
    }

    /// Notes that a host has moved. If it alternates between two ports, as it would across a transparent middlebox, a
    /// report says so once.
    pub fn note_host_move(&mut self, fabric: &mut Fabric, mac: Mac, from: Location, to: Location) {
        if self.moves.note(fabric.ctx.now(), mac, from, to) {
            let (a, b) = (from.min(to), from.max(to));
            let key = format!("{a} {b} {mac}");
            fabric.ctx.report_once(ReportSubject::Port(to), &key, Report::HostFlips { mac, a, b });
        }
    }
}

#[cfg(test)]
mod tests {
    use maple_wire::Dpid;

    use super::*;

    #[test]
    fn a_host_that_repeats_a_move_soon_alternates() {
        let (mut moves, mac) = (LastMoves::default(), Mac([2; 6]));
        let at = |port| Location::new(Dpid(1), PortNo(port));
        let time = |seconds: u64| Time(1 + seconds * 1_000_000_000);
        assert!(!moves.note(time(0), mac, at(1), at(2)));
        assert!(moves.note(time(5), mac, at(1), at(2)));
        assert!(!moves.note(time(70), mac, at(1), at(2)), "long ago");
        assert!(!moves.note(time(71), mac, at(3), at(2)), "from elsewhere");
    }

    #[test]
    fn the_number_of_remembered_moves_is_bounded() {
        let mut moves = LastMoves::default();
        let at = |port| Location::new(Dpid(1), PortNo(port));
        let again = (0..3 * MAX_MOVES as u128).filter(|n| moves.note(Time(1), Mac::from_bits(*n), at(1), at(2)));
        assert_eq!(again.count(), 0);
        assert_eq!(moves.0.len(), MAX_MOVES);
    }
}
