//! Moving switches from a shard that has too much to do to one that has little.
//!
//! Connections are given to the shard that has fewest, and most of the time that is good enough. Where a few switches make
//! all the work and happen to share a shard, that shard's core is full while others sleep. So each shard notes once a
//! period how much of it it was busy, and one that was nearly always busy [`PATIENCE`] periods on end, while another had
//! much more time left, gives a switch away: the one whose work halves the difference best, and never more than half of
//! it, so that a switch does not come back. Then it waits as long again, and the switch stays for [`REST`] periods at least,
//! whatever loads do meanwhile. A single switch that fills a core stays where it is.
//!
//! What moves is the connection itself: socket, session, what was read of the next message, what waits to be written, and
//! the handler with all that it knows. Nothing is copied or said again. It leaves between two messages, in one letter, and
//! nobody else reads or writes the socket in between, so nothing is lost and nothing overtakes anything.
//!
//! Only switches that a handler serves move. With a policy the number of the shard is in the id of each leaf, under which the
//! store keeps who read what, and leaves are parts of paths across other shards' switches: such switches stay where they
//! were accepted.
//!
//! Cost: two relaxed atomic operations a shard and period, none a message or turn.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use maple_core::engine::{ShardId, Time};

use super::Shard;
use super::connection::{Connection, Life};
use super::post::Letter;
use super::registry::ConnectionId;
use super::sockets::token;
use super::sync::{self, Fault};
use crate::session::CloseReason;
use crate::time::until;

/// A shard that was busy for more of its time has too much to do.
const FULL: f64 = 0.85;
/// Another shard's share must be less by this for a move to be worth it.
const WORTH: f64 = 0.3;
/// For how many periods on end that must hold.
const PATIENCE: u32 = 3;
/// For how many periods a switch that has moved stays.
const REST: u32 = 60;

/// How busy each shard was in its last period.
#[derive(Debug)]
pub(crate) struct Loads(Vec<AtomicU64>);

impl Loads {
    /// Nobody is busy.
    pub fn new(shards: usize) -> Loads {
        Loads((0..shards).map(|_| AtomicU64::new(0)).collect())
    }

    /// A shard was busy for this share of the period with this number.
    fn tell(&self, shard: ShardId, period: u64, share: f64) {
        // 16 bits of share behind the period's number.
        let share = (share.clamp(0.0, 1.0) * 65_535.0) as u64;
        self.0[usize::from(shard.0)].store(period << 16 | share, Ordering::Relaxed);
    }

    /// The shard that was least busy, and how much. One that has said nothing for two periods sleeps.
    fn least(&self, period: u64, but: ShardId) -> Option<(ShardId, f64)> {
        let share = |word: u64| if period > (word >> 16) + 2 { 0.0 } else { (word & 0xffff) as f64 / 65_535.0 };
        let others = self.0.iter().enumerate().filter(|(shard, _)| *shard != usize::from(but.0));
        let loads = others.map(|(shard, word)| (ShardId(shard as u8), share(word.load(Ordering::Relaxed))));
        loads.min_by(|(_, a), (_, b)| a.total_cmp(b))
    }
}

/// What one shard knows of its own load.
#[derive(Debug)]
pub(super) struct Balance {
    /// How long a period is; switches never move if it is zero.
    period: Duration,
    /// When this one began.
    began: Time,
    busy: Duration,
    /// For how many periods on end another shard could have taken work.
    unfair: u32,
}

impl Balance {
    pub fn new(period: Duration) -> Balance {
        Balance { period, began: Time(0), busy: Duration::ZERO, unfair: 0 }
    }

    /// A turn took so long and ended now. At the end of a period: how much of it was busy, and its number.
    fn turn(&mut self, now: Time, took: Duration) -> Option<(f64, u64)> {
        self.busy += took;
        let passed = until(self.began, now);
        if self.period.is_zero() || passed < self.period {
            return None;
        }
        let share = self.busy.as_secs_f64() / passed.as_secs_f64();
        (self.began, self.busy) = (now, Duration::ZERO);
        Some((share, now.0 / self.period.as_nanos() as u64))
    }

    /// Whether it is time to give a switch away.
    fn is_persistent(&mut self, own: f64, least: f64) -> bool {
        let is_unfair = own >= FULL && own - least >= WORTH;
        self.unfair = if is_unfair { self.unfair + 1 } else { 0 };
        let is_persistent = self.unfair >= PATIENCE;
        if is_persistent {
            self.unfair = 0;
        }
        is_persistent
    }
}

/// Which of these switches to give away: the one with most work that is at most half of the difference between the shards.
/// Each has its slot and what it made of the shard's work, in any unit.
fn choose(switches: &[(usize, u64)], own: f64, other: f64) -> Option<usize> {
    let all: u64 = switches.iter().map(|(_, work)| work).sum();
    let load = |work: u64| own * work as f64 / all.max(1) as f64;
    let fitting = switches.iter().filter(|(_, work)| *work > 0 && load(*work) <= (own - other) / 2.0 + 1e-9);
    // Of several the first, so that the same loads give the same moves.
    fitting.max_by_key(|(slot, work)| (*work, std::cmp::Reverse(*slot))).map(|(slot, _)| *slot)
}

impl Shard {
    /// At the end of a turn: once a period, looks whether another shard should have one of this one's switches.
    pub(super) fn balance(&mut self) {
        if self.handlers.is_none() {
            return;
        }
        let now = self.clock.now();
        let Some((own, period)) = self.balance.turn(now, until(self.began, now)) else { return };
        self.registry.busy.tell(self.id, period, own);
        let rest = self.balance.period * REST;
        let switches = self.connections.iter_mut().filter_map(|connection| work(connection, now, rest));
        let switches: Vec<(usize, u64)> = switches.collect();
        let Some((to, least)) = self.registry.busy.least(period, self.id) else { return };
        if self.balance.is_persistent(own, least)
            && let Some(slot) = choose(&switches, own, least)
        {
            self.give_away(slot, to);
        }
    }

    /// Sends a connection to another shard.
    pub(super) fn give_away(&mut self, slot: usize, to: ShardId) {
        let Some(mut connection) = self.connections.remove(slot) else { return };
        connection.moved = Some(self.clock.now());
        if let Err(error) = connection.socket.deregister(self.poll.registry()) {
            tracing::debug!(peer = %connection.peer, %error, "can't deregister a socket");
        }
        if let Some(dpid) = connection.dpid {
            self.by_dpid.remove(&dpid);
        }
        self.registry.moved(self.id, to);
        tracing::debug!(peer = %connection.peer, to = to.0, "a switch moves");
        self.post.send(to, Letter::Move(connection));
    }

    /// Serves a connection that another shard gives away.
    pub(super) fn take_over(&mut self, now: Time, mut connection: Box<Connection>) {
        let id: ConnectionId = self.connections.reserve();
        let before = std::mem::replace(&mut connection.id, id);
        let registered = connection.socket.register(self.poll.registry(), token(id.slot));
        if let Some(dpid) = connection.dpid {
            if !sync::has(Fault::KeepsName) {
                self.registry.renew(dpid, before, id);
            }
            self.by_dpid.insert(dpid, id.slot);
        }
        // These lists and heaps were the other shard's. What came in meanwhile is read whether the poll says so or not.
        (connection.queued_to_read, connection.queued_to_write, connection.timer) = (false, false, None);
        connection.readable = true;
        self.counters.of_moved += 1;
        self.counters.of_moving_nanoseconds += until(connection.moved.unwrap_or(now), now).as_nanos() as u64;
        (connection.waiting_since, connection.moved) = (Some(now), Some(now));
        self.connections.put(connection);
        self.want_read(id.slot);
        self.want_write(id.slot);
        self.arm(id.slot);
        if let Err(error) = registered {
            self.close(now, id.slot, CloseReason::Io(error.kind()));
        }
    }
}

/// The slot of a switch that could move and the bytes that it has sent since this was last asked; also asked of those that
/// can't, so that their count goes on.
fn work(connection: &mut Connection, now: Time, rest: Duration) -> Option<(usize, u64)> {
    let bytes = connection.bytes_in - std::mem::replace(&mut connection.bytes_counted, connection.bytes_in);
    let has_rested = connection.moved.is_none_or(|moved| until(moved, now) >= rest);
    let is_settled = connection.handler.is_some() && connection.claimants.is_empty();
    let can_move = matches!(connection.life, Life::Open { .. }) && is_settled && has_rested;
    can_move.then_some((connection.id.slot, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PERIOD: Duration = Duration::from_secs(1);

    #[test]
    fn only_what_lasts_is_mended() {
        let mut balance = Balance::new(PERIOD);
        let loads = [(0.9, 0.1), (0.9, 0.1), (0.5, 0.1), (0.9, 0.1), (0.9, 0.7), (1.0, 0.0), (1.0, 0.0), (1.0, 0.0)];
        let moves: Vec<bool> = loads.iter().map(|(own, least)| balance.is_persistent(*own, *least)).collect();
        assert_eq!(moves, [false, false, false, false, false, false, false, true]);
        assert!(!balance.is_persistent(1.0, 0.0), "and then it waits again");
    }

    #[test]
    fn a_period_ends_with_the_share_of_it_that_turns_took() {
        let mut balance = Balance::new(PERIOD);
        assert_eq!(balance.turn(Time(400_000_000), Duration::from_millis(300)), None);
        let (share, period) = balance.turn(Time(1_000_000_000), Duration::from_millis(200)).unwrap();
        assert_eq!((share, period), (0.5, 1));
        assert_eq!(Balance::new(Duration::ZERO).turn(Time(1 << 40), PERIOD), None, "never");
    }

    #[test]
    fn a_shard_that_says_nothing_sleeps() {
        let loads = Loads::new(3);
        loads.tell(ShardId(0), 9, 1.0);
        loads.tell(ShardId(1), 9, 0.25);
        loads.tell(ShardId(2), 5, 0.9);
        assert_eq!(loads.least(9, ShardId(0)), Some((ShardId(2), 0.0)));
        loads.tell(ShardId(2), 9, 0.9);
        let (shard, share) = loads.least(10, ShardId(0)).unwrap();
        assert!(shard == ShardId(1) && (share - 0.25).abs() < 1e-3, "{share}");
        assert_eq!(Loads::new(1).least(9, ShardId(0)), None);
    }

    #[test]
    fn one_switch_that_fills_a_core_stays() {
        assert_eq!(choose(&[(4, 1000)], 1.0, 0.0), None);
        assert_eq!(choose(&[(4, 990), (5, 10), (6, 0)], 1.0, 0.0), Some(5));
        assert_eq!(choose(&[(4, 500), (5, 500)], 1.0, 0.0), Some(4));
    }

    #[test]
    fn an_hour_of_balanced_load_moves_nothing_however_it_wavers() {
        // Two shards with four switches each, busy to different degrees; each switch's work wavers by a third, and every
        // eleventh second one shard stands still.
        let mut x = 1u64;
        let mut wavering = |mean: f64| {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            mean * (0.67 + 0.66 * (x >> 11) as f64 / (1u64 << 53) as f64)
        };
        for mean in [0.05, 0.2, 0.25, 0.4] {
            let mut balances = [Balance::new(PERIOD), Balance::new(PERIOD)];
            for second in 0..3600 {
                let mut load = |stands_still| {
                    if stands_still { 0.0 } else { (0..4).map(|_| wavering(mean)).sum::<f64>().min(1.0) }
                };
                let loads = [load(second % 11 == 0), load(second % 11 == 5)];
                let moves =
                    [balances[0].is_persistent(loads[0], loads[1]), balances[1].is_persistent(loads[1], loads[0])];
                assert_eq!(moves, [false; 2], "{loads:?} in second {second} with {mean}");
            }
        }
    }

    proptest! {
        #[test]
        fn moves_always_end(work in prop::collection::vec(prop::collection::vec(1u64..1000, 0..8), 2..5)) {
            // Shards of switches; each unit of work is a thousandth of a core.
            let mut shards: Vec<Vec<u64>> = work;
            let load = |shard: &Vec<u64>| (shard.iter().sum::<u64>() as f64 / 1000.0).min(1.0);
            // Of what the switches ask for, which may be more than a core.
            let spread = |shards: &[Vec<u64>]| shards.iter().map(|s| s.iter().sum::<u64>().pow(2)).sum::<u64>();
            for _ in 0..64 {
                let from = (0..shards.len()).max_by(|a, b| load(&shards[*a]).total_cmp(&load(&shards[*b]))).unwrap();
                let to = (0..shards.len()).min_by(|a, b| load(&shards[*a]).total_cmp(&load(&shards[*b]))).unwrap();
                let (own, least) = (load(&shards[from]), load(&shards[to]));
                let switches: Vec<(usize, u64)> = shards[from].iter().copied().enumerate().collect();
                if own < FULL || own - least < WORTH {
                    return Ok(());
                }
                let Some(slot) = choose(&switches, own, least) else { return Ok(()) };
                let before = spread(&shards);
                let moved = shards[from].remove(slot);
                shards[to].push(moved);
                prop_assert!(spread(&shards) < before, "it got no better");
            }
            // 4 shards of 7 switches need no more moves than that.
            prop_assert!(false, "switches move without end");
        }
    }
}
