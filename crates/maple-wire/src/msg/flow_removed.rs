//! Flow-removed: a rule is gone (1.0 §5.4.2, 1.3 §7.4.2).

use crate::flow::Match;

/// A rule is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowRemoved {
    /// The rule's cookie.
    pub cookie: u64,
    /// The rule's priority.
    pub priority: u16,
    /// Why: 0 idle timeout, 1 hard timeout, 2 delete, 3 group delete.
    pub reason: u8,
    /// The table it was in; 0 in OpenFlow 1.0.
    pub table_id: u8,
    /// Seconds it lived.
    pub duration_sec: u32,
    /// Nanoseconds beyond `duration_sec`.
    pub duration_nsec: u32,
    /// Its idle timeout in seconds.
    pub idle_timeout: u16,
    /// Its hard timeout in seconds; 0 in OpenFlow 1.0, which does not say.
    pub hard_timeout: u16,
    /// Packets it took.
    pub packet_count: u64,
    /// Bytes it took.
    pub byte_count: u64,
    /// Its match.
    pub matching: Match,
}
