//! Features-reply: what a switch is (1.0 §5.3.1, 1.3 §7.3.1).

use crate::Dpid;
use crate::port::Port;

/// What a switch says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Features {
    /// Its datapath id.
    pub dpid: Dpid,
    /// How many packets it can buffer.
    pub n_buffers: u32,
    /// How many tables it has.
    pub n_tables: u8,
    /// 0 is a main connection; others are auxiliary (1.3; 0 in 1.0).
    pub auxiliary_id: u8,
    /// Bits of `OFPC_*`, in the version's own numbering.
    pub capabilities: u32,
    /// Bits of the actions it supports in 1.0; reserved in 1.3.
    pub actions: u32,
    /// Its ports (1.0; in 1.3 they come by a port-desc request).
    pub ports: Vec<Port>,
}
