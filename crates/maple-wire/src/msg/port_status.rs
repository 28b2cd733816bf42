//! Port-status: a port came, went or changed (1.0 §5.4.3, 1.3 §7.4.3).

use crate::port::Port;

/// What happened to a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortReason {
    /// The port was added.
    Add,
    /// The port was removed.
    Delete,
    /// Something about it changed.
    Modify,
    /// Any other number.
    Other(u8),
}

/// A port came, went or changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortStatus {
    /// What happened.
    pub reason: PortReason,
    /// The port as it is now.
    pub port: Port,
}
