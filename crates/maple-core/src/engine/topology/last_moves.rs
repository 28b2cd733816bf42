//! Notices hosts that seem to alternate between two ports.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Topology;
use crate::engine::fabric::Fabric;
use crate::ids::Time;
use crate::network::{Location, Mac};
use crate::report::{Report, ReportSubject};

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
    use maple_wire::{Dpid, PortNo};

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
