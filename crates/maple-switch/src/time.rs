//! Simulated time: nanoseconds since the simulation began.

/// A point in simulated time, or a span of it, in nanoseconds.
pub type Time = u64;

/// One microsecond.
pub const MICROSECOND: Time = 1_000;
/// One millisecond.
pub const MILLISECOND: Time = 1_000_000;
/// One second.
pub const SECOND: Time = 1_000_000_000;
