//! How many bytes each kind of entry may take.
//!
//! Hosts and switches cause most of what happens, so each kind has a budget of its own: what hosts do takes nothing from
//! switches. What is beyond it is counted. A change of the network that is beyond it stays pending.

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
    left: usize,
    since: u64,
}

impl Budget {
    /// Creates a full budget.
    pub fn new(rate: Rate) -> Budget {
        Budget { rate, left: rate.burst, since: 0 }
    }

    /// Adds what has been earned until `now`, in milliseconds.
    fn earn(&mut self, now: u64) {
        let passed = usize::try_from(now.saturating_sub(self.since)).unwrap_or(usize::MAX);
        let earned = self.rate.refill.saturating_mul(passed) / 1000;
        if earned > 0 {
            self.left = self.left.saturating_add(earned).min(self.rate.burst);
            self.since = now;
        }
    }

    /// Takes this many bytes, unless there are fewer.
    pub fn spend(&mut self, now: u64, bytes: usize) -> bool {
        self.earn(now);
        let fits = bytes <= self.left;
        self.left -= if fits { bytes } else { 0 };
        fits
    }

    /// Takes what an earlier run has spent, so that a run that ends soon gains nothing by beginning again.
    pub fn spent(&mut self, now: u64, bytes: usize) {
        self.earn(now);
        self.left = self.left.saturating_sub(bytes);
    }
}
