//! Sample packets: the engine decides them before such packets come.

use std::collections::BTreeSet;
use std::sync::Arc;

use maple_wire::{Dpid, PortNo};

use crate::network::Location;

/// A packet that a policy names so that it can be decided before any packet comes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SamplePacket {
    /// The bytes of the packet.
    pub frame: Arc<[u8]>,
    /// The switch where it enters; `None` for any.
    pub switch: Option<Dpid>,
    /// The port where it enters; `None` for any.
    pub port: Option<PortNo>,
    /// The ports where other packets are decided first. This one is of no use there if another port will do.
    pub not_at: Arc<BTreeSet<Location>>,
}

impl SamplePacket {
    /// Creates a packet that may enter anywhere.
    pub fn new(frame: impl Into<Arc<[u8]>>) -> SamplePacket {
        SamplePacket { frame: frame.into(), switch: None, port: None, not_at: Arc::default() }
    }
}
