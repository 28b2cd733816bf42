//! Migrates switches from a shard with too much work to one with little.
//!
//! New connections go to the shard with the fewest, which mostly balances the load. But a few switches may cause all
//! the work and happen to share a shard. So each shard measures its load once a period. A shard that was nearly always
//! busy for [`FULL_PERIODS`] periods in a row, while another one had much more time left, gives one switch away. It
//! chooses the switch whose work comes closest to half of the difference, and never exceeds it, so that switches do not
//! return. Then it waits as long again. A migrated switch stays for at least [`STAY_PERIODS`] periods. A single switch
//! that fills a core stays where it is.
//!
//! The connection itself migrates: its socket, session, partial input, unsent output, and the handler with its state.
//! Nothing is copied or repeated. It leaves between two OpenFlow messages, in one shard message, and no other thread
//! uses the socket meanwhile. So nothing is lost and the order is kept.
//!
//! Only switches with a handler migrate because of load. With a policy, the shard's number is part of each leaf's id,
//! which the store's dependencies refer to. So such switches stay on the shard that accepted them.
//!
//! Cost: two relaxed atomic operations for each shard and period; none for a message or a turn.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use maple_controller::program::{Balancer, MigrationCandidate};
use maple_controller::until;
use maple_core::engine::{ShardId, Time};

/// The share of busy time from which on a shard counts as full. Chosen: below it the shard still keeps up, and moving a
/// switch gains nothing.
const FULL: f64 = 0.85;
/// The minimum by which another shard's share of busy time must be lower for a migration. Chosen: a switch that moves
/// must not fill the other shard.
const MIN_DIFFERENCE: f64 = 0.3;
/// The number of periods in a row for which both must hold. Chosen: a short burst moves nothing.
const FULL_PERIODS: u32 = 3;
/// The minimum number of periods that a migrated switch stays. Chosen: it bounds how often loads that alternate move a
/// switch.
const STAY_PERIODS: u32 = 60;

/// The load of each shard in its last period.
#[derive(Debug)]
pub(super) struct Loads(Vec<AtomicU64>);

impl Loads {
    /// Creates the loads of idle shards.
    pub fn new(shards: usize) -> Loads {
        Loads((0..shards).map(|_| AtomicU64::new(0)).collect())
    }

    /// Records the load of a shard in the period with this number.
    fn record(&self, shard: ShardId, period: u64, share: f64) {
        // The period's number, then 16 bits of load.
        let share = (share.clamp(0.0, 1.0) * 65_535.0) as u64;
        self.0[usize::from(shard.0)].store(period << 16 | share, Ordering::Relaxed);
    }

    /// Returns the shard with the least load, except one, and its load. A shard without a record for two periods is
    /// idle.
    fn least(&self, period: u64, except: ShardId) -> Option<(ShardId, f64)> {
        let share = |word: u64| if period > (word >> 16) + 2 { 0.0 } else { (word & 0xffff) as f64 / 65_535.0 };
        let others = self.0.iter().enumerate().filter(|(shard, _)| *shard != usize::from(except.0));
        let loads = others.map(|(shard, word)| (ShardId(shard as u8), share(word.load(Ordering::Relaxed))));
        loads.min_by(|(_, a), (_, b)| a.total_cmp(b))
    }
}

/// Measures the load of one shard, and decides which of its switches migrate.
#[derive(Debug)]
pub(super) struct LoadMonitor {
    /// The length of a period. If it is zero, switches never migrate.
    period: Duration,
    shard: ShardId,
    loads: Arc<Loads>,
    /// The beginning of the current period.
    began: Time,
    busy: Duration,
    /// The load of the last period, and its number.
    last: (f64, u64),
    /// The number of periods in a row in which another shard could have taken work.
    unbalanced: u32,
}

impl LoadMonitor {
    pub fn new(period: Duration, shard: ShardId, loads: Arc<Loads>) -> LoadMonitor {
        LoadMonitor { period, shard, loads, began: Time(0), busy: Duration::ZERO, last: (0.0, 0), unbalanced: 0 }
    }

    /// Counts a turn that took this long. At the end of a period, returns the period's load and its number.
    fn count_turn(&mut self, now: Time, took: Duration) -> Option<(f64, u64)> {
        self.busy += took;
        let passed = until(self.began, now);
        if self.period.is_zero() || passed < self.period {
            return None;
        }
        let share = self.busy.as_secs_f64() / passed.as_secs_f64();
        (self.began, self.busy) = (now, Duration::ZERO);
        Some((share, now.0 / self.period.as_nanos() as u64))
    }

    /// Counts a period, and returns whether a switch should migrate.
    fn is_persistent(&mut self, own: f64, least: f64) -> bool {
        let is_unbalanced = own >= FULL && own - least >= MIN_DIFFERENCE;
        self.unbalanced = if is_unbalanced { self.unbalanced + 1 } else { 0 };
        let is_persistent = self.unbalanced >= FULL_PERIODS;
        if is_persistent {
            self.unbalanced = 0;
        }
        is_persistent
    }
}

impl Balancer for LoadMonitor {
    fn end_turn(&mut self, began: Time, now: Time) -> bool {
        let Some((own, period)) = self.count_turn(now, until(began, now)) else { return false };
        self.loads.record(self.shard, period, own);
        self.last = (own, period);
        true
    }

    fn choose(&mut self, candidates: &[MigrationCandidate]) -> Option<(usize, ShardId)> {
        let (own, period) = self.last;
        let stay = self.period * STAY_PERIODS;
        let may_move = |one: &&MigrationCandidate| one.stayed.is_none_or(|stayed| stayed >= stay);
        let switches: Vec<(usize, u64)> = candidates.iter().filter(may_move).map(|one| (one.slot, one.work)).collect();
        let (to, least) = self.loads.least(period, self.shard)?;
        if self.is_persistent(own, least) { choose(&switches, own, least).map(|slot| (slot, to)) } else { None }
    }
}

/// Chooses the switch to migrate: the one with the most work that is at most half of the difference between the loads.
/// Each switch is given by its slot and its work, in any unit.
fn choose(switches: &[(usize, u64)], own: f64, other: f64) -> Option<usize> {
    let all: u64 = switches.iter().map(|(_, work)| work).sum();
    let load = |work: u64| own * work as f64 / all.max(1) as f64;
    let fitting = switches.iter().filter(|(_, work)| *work > 0 && load(*work) <= (own - other) / 2.0 + 1e-9);
    // The first of several equal ones is taken, so that equal loads give equal choices.
    fitting.max_by_key(|(slot, work)| (*work, std::cmp::Reverse(*slot))).map(|(slot, _)| *slot)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PERIOD: Duration = Duration::from_secs(1);

    fn of_period(period: Duration) -> LoadMonitor {
        LoadMonitor::new(period, ShardId(0), Arc::new(Loads::new(1)))
    }

    #[test]
    fn only_a_lasting_imbalance_causes_a_migration() {
        let mut monitor = of_period(PERIOD);
        let loads = [(0.9, 0.1), (0.9, 0.1), (0.5, 0.1), (0.9, 0.1), (0.9, 0.7), (1.0, 0.0), (1.0, 0.0), (1.0, 0.0)];
        let moves: Vec<bool> = loads.iter().map(|(own, least)| monitor.is_persistent(*own, *least)).collect();
        assert_eq!(moves, [false, false, false, false, false, false, false, true]);
        assert!(!monitor.is_persistent(1.0, 0.0), "after a migration it waits again");
    }

    #[test]
    fn a_period_ends_with_the_share_of_it_that_turns_took() {
        let mut monitor = of_period(PERIOD);
        assert_eq!(monitor.count_turn(Time(400_000_000), Duration::from_millis(300)), None);
        let (share, period) = monitor.count_turn(Time(1_000_000_000), Duration::from_millis(200)).unwrap();
        assert_eq!((share, period), (0.5, 1));
        assert_eq!(of_period(Duration::ZERO).count_turn(Time(1 << 40), PERIOD), None, "never");
    }

    #[test]
    fn a_shard_without_a_record_is_idle() {
        let loads = Loads::new(3);
        loads.record(ShardId(0), 9, 1.0);
        loads.record(ShardId(1), 9, 0.25);
        loads.record(ShardId(2), 5, 0.9);
        assert_eq!(loads.least(9, ShardId(0)), Some((ShardId(2), 0.0)));
        loads.record(ShardId(2), 9, 0.9);
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
    fn an_hour_of_balanced_but_noisy_load_migrates_nothing() {
        // Two shards with four switches each. Each switch's work varies by a third, and every eleventh second one shard
        // is idle.
        let mut x = 1u64;
        let mut noisy = |mean: f64| {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            mean * (0.67 + 0.66 * (x >> 11) as f64 / (1u64 << 53) as f64)
        };
        for mean in [0.05, 0.2, 0.25, 0.4] {
            let mut monitors = [of_period(PERIOD), of_period(PERIOD)];
            for second in 0..3600 {
                let mut load = |is_idle| {
                    if is_idle { 0.0 } else { (0..4).map(|_| noisy(mean)).sum::<f64>().min(1.0) }
                };
                let loads = [load(second % 11 == 0), load(second % 11 == 5)];
                let moves =
                    [monitors[0].is_persistent(loads[0], loads[1]), monitors[1].is_persistent(loads[1], loads[0])];
                assert_eq!(moves, [false; 2], "{loads:?} in second {second} with {mean}");
            }
        }
    }

    proptest! {
        #[test]
        fn migrations_always_end(work in prop::collection::vec(prop::collection::vec(1u64..1000, 0..8), 2..5)) {
            // Each shard is a list of switches; a unit of work is a thousandth of a core.
            let mut shards: Vec<Vec<u64>> = work;
            let load = |shard: &Vec<u64>| (shard.iter().sum::<u64>() as f64 / 1000.0).min(1.0);
            // The sum of squares of the work, which may exceed a core.
            let spread = |shards: &[Vec<u64>]| shards.iter().map(|s| s.iter().sum::<u64>().pow(2)).sum::<u64>();
            for _ in 0..64 {
                let from = (0..shards.len()).max_by(|a, b| load(&shards[*a]).total_cmp(&load(&shards[*b]))).unwrap();
                let to = (0..shards.len()).min_by(|a, b| load(&shards[*a]).total_cmp(&load(&shards[*b]))).unwrap();
                let (own, least) = (load(&shards[from]), load(&shards[to]));
                let switches: Vec<(usize, u64)> = shards[from].iter().copied().enumerate().collect();
                if own < FULL || own - least < MIN_DIFFERENCE {
                    return Ok(());
                }
                let Some(slot) = choose(&switches, own, least) else { return Ok(()) };
                let before = spread(&shards);
                let moved = shards[from].remove(slot);
                shards[to].push(moved);
                prop_assert!(spread(&shards) < before, "the balance did not improve");
            }
            // Four shards of seven switches need fewer migrations than that.
            prop_assert!(false, "migrations do not end");
        }
    }
}
