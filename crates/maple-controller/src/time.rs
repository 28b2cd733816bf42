//! The clock of all shards: nanoseconds since the controller started.

#[cfg(feature = "simulation")]
use std::sync::Arc;
#[cfg(feature = "simulation")]
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use maple_core::engine::Time;

/// Reads the time. Each shard has a copy with the same start.
#[derive(Clone, Debug)]
pub enum Clock {
    /// The system's clock; the instant is the start.
    Real(Instant),
    /// The clock of a simulation, in nanoseconds.
    #[cfg(feature = "simulation")]
    Simulated(Arc<AtomicU64>),
}

impl Clock {
    /// A clock that starts now.
    pub fn start() -> Clock {
        Clock::Real(Instant::now())
    }

    /// The current time.
    pub fn now(&self) -> Time {
        match self {
            Clock::Real(start) => Time(start.elapsed().as_nanos() as u64),
            #[cfg(feature = "simulation")]
            Clock::Simulated(now) => Time(now.load(Ordering::Relaxed)),
        }
    }
}

/// The time this long after `time`.
pub fn after(time: Time, duration: Duration) -> Time {
    Time(time.0.saturating_add(duration.as_nanos() as u64))
}

/// The time this long before `time`.
pub fn before(time: Time, duration: Duration) -> Time {
    Time(time.0.saturating_sub(duration.as_nanos() as u64))
}

/// The duration from `now` to `time`; zero if that is past.
pub fn until(now: Time, time: Time) -> Duration {
    Duration::from_nanos(time.0.saturating_sub(now.0))
}
