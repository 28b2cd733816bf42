//! Flow-mod: adds, changes or deletes rules (1.0 §5.3.3, 1.3 §7.3.4.1).

use crate::flow::{Instruction, Match};
use crate::port::PortNo;

/// What a flow-mod does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum FlowModCommand {
    /// Add a rule; one with the same priority and match is replaced.
    Add = 0,
    /// Change the instructions of all rules that the match covers.
    Modify = 1,
    /// Change the instructions of the rule with exactly this match and priority.
    ModifyStrict = 2,
    /// Delete all rules that the match covers.
    Delete = 3,
    /// Delete the rule with exactly this match and priority.
    DeleteStrict = 4,
}

/// Adds, changes or deletes rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowMod {
    /// The controller's own mark on the rule.
    pub cookie: u64,
    /// With deletes and changes: only rules whose cookie agrees with `cookie` in these bits (1.3; 0 in 1.0).
    pub cookie_mask: u64,
    /// The table; 0 in OpenFlow 1.0, 0xff is all tables when deleting.
    pub table_id: u8,
    /// What to do.
    pub command: FlowModCommand,
    /// Seconds without a packet after which the rule goes; 0 is never.
    pub idle_timeout: u16,
    /// Seconds after which the rule goes; 0 is never.
    pub hard_timeout: u16,
    /// Higher wins.
    pub priority: u16,
    /// A buffered packet to apply the rule to, or [`super::NO_BUFFER`].
    pub buffer_id: u32,
    /// Deletes only rules that output here; [`PortNo::ANY`] is no restriction.
    pub out_port: PortNo,
    /// Deletes only rules that use this group; 0xffff_ffff is no restriction (1.3).
    pub out_group: u32,
    /// Bits of `OFPFF_*` in the version's own numbering (bit 0: send flow-removed, bit 1: check overlap).
    pub flags: u16,
    /// Which packets.
    pub matching: Match,
    /// What to do with them. None is to drop.
    pub instructions: Vec<Instruction>,
}

impl FlowMod {
    /// `OFPFF_SEND_FLOW_REM`.
    pub const SEND_FLOW_REM: u16 = 1;

    /// A flow-mod of this kind for table 0 without timeouts, buffer, flags, cookie or restrictions.
    pub fn new(command: FlowModCommand, priority: u16, matching: Match, instructions: Vec<Instruction>) -> FlowMod {
        FlowMod {
            cookie: 0,
            cookie_mask: 0,
            table_id: 0,
            command,
            idle_timeout: 0,
            hard_timeout: 0,
            priority,
            buffer_id: super::NO_BUFFER,
            out_port: PortNo::ANY,
            out_group: 0xffff_ffff,
            flags: 0,
            matching,
            instructions,
        }
    }
}
