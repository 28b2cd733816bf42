//! Flow-mod: adds, changes or deletes rules (1.0 §5.3.3, 1.3 §7.3.4.1).

use super::Version;
use super::bytes::{Put, at_least, u16_at, u32_at, u64_at, unsupported};
use super::instruction;
use super::matching::{self, MatchView};
use super::port_desc::{number_at, number10};
use crate::error::{Error, Result};
use crate::flow::{Instruction, Match};
use crate::port::PortNo;

mod offset10 {
    pub const MATCH: usize = 8;
    pub const COOKIE: usize = 48;
    pub const COMMAND: usize = 56;
    pub const IDLE_TIMEOUT: usize = 58;
    pub const OUT_PORT: usize = 68;
    pub const FLAGS: usize = 70;
    pub const ACTIONS: usize = 72;
}

mod offset13 {
    pub const COOKIE: usize = 8;
    pub const COOKIE_MASK: usize = 16;
    pub const TABLE_ID: usize = 24;
    pub const COMMAND: usize = 25;
    pub const IDLE_TIMEOUT: usize = 26;
    pub const OUT_PORT: usize = 36;
    pub const OUT_GROUP: usize = 40;
    pub const FLAGS: usize = 44;
    pub const MATCH: usize = 48;
}

/// Offsets from the idle timeout, equal in both versions.
mod after_idle_timeout {
    pub const HARD_TIMEOUT: usize = 2;
    pub const PRIORITY: usize = 4;
    pub const BUFFER_ID: usize = 6;
}

/// No restriction to a group (`OFPG_ANY`).
const GROUP_ANY: u32 = 0xffff_ffff;
/// All tables (`OFPTT_ALL`).
const TABLE_ALL: u8 = 0xff;

/// The command of a flow-mod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum FlowModCommand {
    /// Adds a rule; one with the same priority and match is replaced.
    Add = 0,
    /// Changes the instructions of all rules that the match covers.
    Modify = 1,
    /// Changes the instructions of the rule with exactly this match and priority.
    ModifyStrict = 2,
    /// Deletes all rules that the match covers.
    Delete = 3,
    /// Deletes the rule with exactly this match and priority.
    DeleteStrict = 4,
}

/// Adds, changes or deletes rules.
///
/// ```
/// use maple_wire::msg::{FlowMod, FlowModCommand};
/// use maple_wire::{Action, Field, Instruction, Match, PortNo, Version, print};
///
/// let matching = Match::any().exact(Field::InPort, 1);
/// let forward = vec![Instruction::ApplyActions(vec![Action::output(PortNo(2))])];
/// let add = FlowMod::new(FlowModCommand::Add, 100, matching, forward);
/// let line = print::FlowLine::of(Version::Of13, &add).to_string();
/// assert_eq!(line, " priority=100,in_port=1 actions=output:2");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowMod {
    /// The controller's own mark on the rule.
    pub cookie: u64,
    /// The bits in which a rule's cookie must agree with `cookie` to be changed or deleted (1.3; 0 in 1.0).
    pub cookie_mask: u64,
    /// The table; 0 in OpenFlow 1.0. 0xff means all tables when deleting.
    pub table_id: u8,
    /// The command.
    pub command: FlowModCommand,
    /// Seconds without a packet after which the rule is removed; 0 means never.
    pub idle_timeout: u16,
    /// Seconds after which the rule is removed; 0 means never.
    pub hard_timeout: u16,
    /// The priority. The highest priority among the rules that match takes a packet.
    pub priority: u16,
    /// A buffered packet to apply the rule to, or [`super::NO_BUFFER`].
    pub buffer_id: u32,
    /// The port to which a rule must output to be deleted; [`PortNo::ANY`] is no restriction.
    pub out_port: PortNo,
    /// The group that a rule must use to be deleted; 0xffff_ffff is no restriction (1.3).
    pub out_group: u32,
    /// Bits of `OFPFF_*` in the version's own numbering (bit 0: send flow-removed, bit 1: check overlap).
    pub flags: u16,
    /// The match.
    pub matching: Match,
    /// The instructions. Without any, packets are dropped.
    pub instructions: Vec<Instruction>,
}

impl FlowMod {
    /// `OFPFF_SEND_FLOW_REM`.
    pub const SEND_FLOW_REM: u16 = 1;

    /// Creates a flow-mod of this kind for table 0, without timeouts, buffer, flags, cookie or restrictions.
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
            out_group: GROUP_ANY,
            flags: 0,
            matching,
            instructions,
        }
    }
    /// Reads the owned form.
    ///
    /// # Errors
    /// [`Error::BadValue`] for an unknown command, and the errors of the match and the instructions.
    pub fn parse(view: &FlowModView<'_>) -> Result<FlowMod> {
        Ok(FlowMod {
            cookie: view.cookie(),
            cookie_mask: view.cookie_mask(),
            table_id: view.table_id(),
            command: view.command()?,
            idle_timeout: view.idle_timeout(),
            hard_timeout: view.hard_timeout(),
            priority: view.priority(),
            buffer_id: view.buffer_id(),
            out_port: view.out_port(),
            out_group: view.out_group(),
            flags: view.flags(),
            matching: view.matching()?.to_match()?,
            instructions: view.instructions()?,
        })
    }

    /// Appends the message without its header.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if 1.0 has no form for a part of it, and an error about lengths for a part that is too
    /// long.
    pub fn emit(&self, version: Version, out: &mut Vec<u8>) -> Result<()> {
        match version {
            Version::Of10 => self.emit10(out)?,
            Version::Of13 => self.emit13(out)?,
        }
        instruction::emit_list(&self.instructions, version, out)
    }

    fn emit10(&self, out: &mut Vec<u8>) -> Result<()> {
        self.check10()?;
        matching::emit(&self.matching, Version::Of10, out)?;
        out.put_u64(self.cookie);
        out.put_u16(self.command as u16);
        self.emit_timeouts_to_buffer(out);
        out.put_u16(number10(self.out_port)?);
        out.put_u16(self.flags);
        Ok(())
    }

    /// Refuses parts that 1.0 would leave out if the change would then be wider or in another place.
    fn check10(&self) -> Result<()> {
        let adds = self.command == FlowModCommand::Add;
        if self.cookie_mask != 0 && !adds {
            return unsupported(Version::Of10, "a cookie mask");
        }
        if self.out_group != GROUP_ANY && !adds {
            return unsupported(Version::Of10, "a restriction to a group");
        }
        if self.table_id != 0 && self.table_id != TABLE_ALL {
            return unsupported(Version::Of10, format!("table {}", self.table_id));
        }
        Ok(())
    }

    fn emit13(&self, out: &mut Vec<u8>) -> Result<()> {
        out.put_u64(self.cookie);
        out.put_u64(self.cookie_mask);
        out.put_u8(self.table_id);
        out.put_u8(self.command as u8);
        self.emit_timeouts_to_buffer(out);
        out.put_u32(self.out_port.0);
        out.put_u32(self.out_group);
        out.put_u16(self.flags);
        out.put_zeros(2);
        matching::emit(&self.matching, Version::Of13, out)
    }

    fn emit_timeouts_to_buffer(&self, out: &mut Vec<u8>) {
        out.put_u16(self.idle_timeout);
        out.put_u16(self.hard_timeout);
        out.put_u16(self.priority);
        out.put_u32(self.buffer_id);
    }
}

impl FlowModCommand {
    /// Returns the command with this `OFPFC_*` number.
    pub const fn from_wire(number: u16) -> Option<FlowModCommand> {
        match number {
            0 => Some(FlowModCommand::Add),
            1 => Some(FlowModCommand::Modify),
            2 => Some(FlowModCommand::ModifyStrict),
            3 => Some(FlowModCommand::Delete),
            4 => Some(FlowModCommand::DeleteStrict),
            _ => None,
        }
    }
}

/// A view of a flow-mod.
#[derive(Clone, Copy, Debug)]
pub struct FlowModView<'a> {
    version: Version,
    bytes: &'a [u8],
}

impl<'a> FlowModView<'a> {
    /// Creates a view of the flow-mod that takes all of `bytes`, header included.
    ///
    /// # Errors
    /// [`Error::Truncated`] if `bytes` ends within the fixed part or the match, and an error for a match of unknown
    /// type or length.
    pub fn new_checked(version: Version, bytes: &'a [u8]) -> Result<FlowModView<'a>> {
        at_least("flow-mod", bytes, if version == Version::Of10 { offset10::ACTIONS } else { offset13::MATCH })?;
        let view = FlowModView { version, bytes };
        view.matching()?;
        Ok(view)
    }

    fn is_10(&self) -> bool {
        self.version == Version::Of10
    }

    /// Returns the controller's own mark on the rule.
    pub fn cookie(&self) -> u64 {
        u64_at(self.bytes, if self.is_10() { offset10::COOKIE } else { offset13::COOKIE })
    }

    /// Returns the bits in which the cookie must agree; 0 in 1.0.
    pub fn cookie_mask(&self) -> u64 {
        if self.is_10() { 0 } else { u64_at(self.bytes, offset13::COOKIE_MASK) }
    }

    /// Returns the table; 0 in 1.0.
    pub fn table_id(&self) -> u8 {
        if self.is_10() { 0 } else { self.bytes[offset13::TABLE_ID] }
    }

    /// Returns the command.
    ///
    /// # Errors
    /// [`Error::BadValue`] if the number is not a command's.
    pub fn command(&self) -> Result<FlowModCommand> {
        let number =
            if self.is_10() { u16_at(self.bytes, offset10::COMMAND) } else { self.bytes[offset13::COMMAND].into() };
        FlowModCommand::from_wire(number).ok_or(Error::BadValue { what: "flow-mod command", value: number.into() })
    }

    fn timeouts(&self) -> usize {
        if self.is_10() { offset10::IDLE_TIMEOUT } else { offset13::IDLE_TIMEOUT }
    }

    /// Returns the seconds without a packet after which the rule is removed.
    pub fn idle_timeout(&self) -> u16 {
        u16_at(self.bytes, self.timeouts())
    }

    /// Returns the seconds after which the rule is removed.
    pub fn hard_timeout(&self) -> u16 {
        u16_at(self.bytes, self.timeouts() + after_idle_timeout::HARD_TIMEOUT)
    }

    /// Returns the priority.
    pub fn priority(&self) -> u16 {
        u16_at(self.bytes, self.timeouts() + after_idle_timeout::PRIORITY)
    }

    /// Returns the buffered packet to apply the rule to.
    pub fn buffer_id(&self) -> u32 {
        u32_at(self.bytes, self.timeouts() + after_idle_timeout::BUFFER_ID)
    }

    /// Returns the port to which a rule must output to be deleted.
    pub fn out_port(&self) -> PortNo {
        number_at(self.version, self.bytes, if self.is_10() { offset10::OUT_PORT } else { offset13::OUT_PORT })
    }

    /// Returns the group that a rule must use to be deleted; no restriction in 1.0.
    pub fn out_group(&self) -> u32 {
        if self.is_10() { GROUP_ANY } else { u32_at(self.bytes, offset13::OUT_GROUP) }
    }

    /// Returns bits of `OFPFF_*`.
    pub fn flags(&self) -> u16 {
        u16_at(self.bytes, if self.is_10() { offset10::FLAGS } else { offset13::FLAGS })
    }

    /// Returns the match.
    ///
    /// # Errors
    /// The errors of [`MatchView::first`], which [`FlowModView::new_checked`] has excluded.
    pub fn matching(&self) -> Result<MatchView<'a>> {
        let at = if self.is_10() { offset10::MATCH } else { offset13::MATCH };
        MatchView::first(self.version, &self.bytes[at..])
    }

    /// Reads the instructions.
    ///
    /// # Errors
    /// The error of the first instruction or action that is malformed.
    pub fn instructions(&self) -> Result<Vec<Instruction>> {
        let at = if self.is_10() { offset10::ACTIONS } else { offset13::MATCH + self.matching()?.len_padded() };
        instruction::parse_list(self.version, &self.bytes[at..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::msg::Message;
    use crate::msg::test::{check, check_truncated, hex};
    use crate::{Action, Field};

    fn to_port_2(matching: Match) -> FlowMod {
        let instructions = vec![Instruction::ApplyActions(vec![Action::output(PortNo(2))])];
        FlowMod {
            cookie: 0x1122,
            idle_timeout: 5,
            hard_timeout: 9,
            flags: 1,
            ..FlowMod::new(FlowModCommand::Add, 100, matching, instructions)
        }
    }

    #[test]
    fn a_1_0_rule_has_actions() {
        let bytes = "01 0e 0050 00000001
            003820fe 0003 000000000000 000000000000 0000 00 00 0000 00 00 0000 00000000 00000000 0000 0000
            0000000000001122 0000 0005 0009 0064 ffffffff ffff 0001 0000 0008 0002 0000";
        check(Version::Of10, bytes, Message::FlowMod(to_port_2(Match::any().exact(Field::InPort, 3))));
        check_truncated(bytes);
    }

    #[test]
    fn a_1_3_rule_has_instructions() {
        let bytes = "04 0e 0058 00000001
            0000000000001122 0000000000000000 00 00 0005 0009 0064 ffffffff ffffffff ffffffff 0001 0000
            0001 000c 80000004 00000003 00000000
            0004 0018 00000000 0000 0010 00000002 0000 000000000000";
        check(Version::Of13, bytes, Message::FlowMod(to_port_2(Match::any().exact(Field::InPort, 3))));
        check_truncated(bytes);
    }

    #[test]
    fn a_command_that_does_not_exist_is_refused() {
        let mut bytes = hex("04 0e 0038 00000001 0000000000000000 0000000000000000 00 05 0000 0000 0000 ffffffff
            ffffffff ffffffff 0000 0000 0001 0004 00000000");
        assert_eq!(Message::decode(&bytes), Err(Error::BadValue { what: "flow-mod command", value: 5 }));
        bytes[25] = 4;
        assert!(Message::decode(&bytes).is_ok());
    }

    #[test]
    fn what_would_widen_a_delete_in_1_0_is_refused() {
        let delete = FlowMod::new(FlowModCommand::Delete, 0, Match::any(), vec![]);
        let emits = |flow_mod: FlowMod| flow_mod.emit(Version::Of10, &mut Vec::new()).is_ok();
        assert!(emits(FlowMod { table_id: 0xff, ..delete.clone() }));
        assert!(!emits(FlowMod { table_id: 1, ..delete.clone() }));
        assert!(!emits(FlowMod { cookie_mask: 1, ..delete.clone() }));
        assert!(!emits(FlowMod { out_group: 1, ..delete }));
    }
}
