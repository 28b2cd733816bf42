//! Simulated time: nanoseconds since the simulation began.

/// A point in simulated time, or a span of it, in nanoseconds.
pub type Nanoseconds = u64;

/// One microsecond.
pub const MICROSECOND: Nanoseconds = 1_000;
/// One millisecond.
pub const MILLISECOND: Nanoseconds = 1_000_000;
/// One second.
pub const SECOND: Nanoseconds = 1_000_000_000;
