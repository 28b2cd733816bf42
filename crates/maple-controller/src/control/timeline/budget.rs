//! Budgets: the number of bytes that each kind of entry may take.
//!
//! Hosts and switches cause most of what happens, so each kind has a budget of its own: what hosts do takes nothing
//! from switches. What is beyond it is counted. A change of the network that is beyond it stays pending.

/// The bytes that a kind of entry may take at once, and a second.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rate {
    pub burst: usize,
    pub refill: usize,
}

/// The bytes that a kind of entry may still take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    rate: Rate,
    /// The bytes that are left, in thousandths, so that nothing of what a millisecond earns is lost.
    left: u64,
    since: u64,
}

/// The number of parts of a byte in which budgets count. With a thousand, a byte a second is a part a millisecond.
const PARTS: u64 = 1000;

impl Budget {
    /// Creates a full budget.
    pub fn new(rate: Rate) -> Budget {
        Budget { rate, left: parts(rate.burst), since: 0 }
    }

    /// Adds what has been earned until `now`, in milliseconds: a byte a second is a part a millisecond.
    fn earn(&mut self, now: u64) {
        let earned = (self.rate.refill as u64).saturating_mul(now.saturating_sub(self.since));
        self.left = self.left.saturating_add(earned).min(parts(self.rate.burst));
        self.since = self.since.max(now);
    }

    /// Takes this many bytes, unless there are fewer.
    pub fn spend(&mut self, now: u64, bytes: usize) -> bool {
        self.earn(now);
        let left = self.left.checked_sub(parts(bytes));
        self.left = left.unwrap_or(self.left);
        left.is_some()
    }

    /// Takes what an earlier run has spent, so that a run that ends soon gains nothing by beginning again.
    pub fn spent(&mut self, now: u64, bytes: usize) {
        self.earn(now);
        self.left = self.left.saturating_sub(parts(bytes));
    }
}

fn parts(bytes: usize) -> u64 {
    (bytes as u64).saturating_mul(PARTS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earned_budget_does_not_depend_on_how_often_it_is_asked_for() {
        for refill in [1, 4, 7, 8, 45, 80] {
            for step in [1, 3, 50, 200, 400, 999] {
                let mut budget = Budget::new(Rate { burst: 100_000, refill });
                assert!(budget.spend(0, 100_000));
                let steps = 1_000_000 / step;
                assert!((1..=steps).all(|number| !budget.spend(number * step, 200_000)), "more than the burst");
                let earned = refill * (steps * step) as usize / 1000;
                assert!(budget.spend(steps * step, earned), "{refill} bytes a second, each {step} ms");
                assert!(!budget.spend(steps * step, 1), "{refill} bytes a second, each {step} ms");
            }
        }
    }
}
