//! Switches whose connections have ended, until the engine has handled the end.

use maple_wire::Dpid;

use crate::session::SwitchInfo;
use crate::shard::registry::ConnectionId;

/// A switch whose connection has ended, or that is forgotten. Its datapath id stays taken until the engine has handled
/// that. The engine may delete the switch's state, and must not delete state that a new connection has written, perhaps
/// on another shard.
#[derive(Debug)]
pub(in crate::shard) struct DepartedSwitch {
    pub dpid: Dpid,
    pub connection: Option<ConnectionId>,
    /// The switch's description of itself, with its ports, if the engine has the switch.
    pub info: Option<Box<SwitchInfo>>,
    /// Other connections that claim this switch.
    pub claimants: Vec<ConnectionId>,
}

impl DepartedSwitch {
    /// Creates the departure of an announced switch whose connection has not come, or has ended at once.
    pub fn announced(dpid: Dpid, info: SwitchInfo) -> DepartedSwitch {
        DepartedSwitch { info: Some(Box::new(info)), ..DepartedSwitch::forgotten(dpid) }
    }

    /// Creates the departure of a switch that has had no connection for too long.
    pub fn forgotten(dpid: Dpid) -> DepartedSwitch {
        DepartedSwitch { dpid, connection: None, info: None, claimants: Vec::new() }
    }
}
