//! Flow-mod: adds, changes or deletes rules (1.0 §5.3.3, 1.3 §7.3.4.1).

use super::Version;
use super::bytes::{Put, Reader, unsupported};
use super::instruction;
use super::wire::Wire;
use crate::error::{Error, Result};
use crate::flow::{Instruction, Match};
use crate::msg::{ALL_TABLES, ANY_GROUP};
use crate::port::PortNo;

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
/// let line = print::FlowLine::from_flow_mod(Version::Of13, &add).to_string();
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
    /// The port to which a rule must output to be deleted; [`PortNo::ANY`] admits any.
    pub out_port: PortNo,
    /// The group that a rule must use to be deleted; 0xffff_ffff admits any (1.3).
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
            out_group: ANY_GROUP,
            flags: 0,
            matching,
            instructions,
        }
    }

    /// Refuses parts that 1.0 would leave out if the change would then be wider or in another place.
    fn check10(&self) -> Result<()> {
        let adds = self.command == FlowModCommand::Add;
        if self.cookie_mask != 0 && !adds {
            return unsupported(Version::Of10, "a cookie mask");
        }
        if self.out_group != ANY_GROUP && !adds {
            return unsupported(Version::Of10, "a restriction to a group");
        }
        if self.table_id != 0 && self.table_id != ALL_TABLES {
            return unsupported(Version::Of10, format!("table {}", self.table_id));
        }
        Ok(())
    }
}

impl Wire for FlowMod {
    const MIN: [usize; 2] = [64, 40];

    fn read(reader: &mut Reader<'_>) -> Result<FlowMod> {
        reader.need(Self::MIN)?;
        let in10 = reader.is_10();
        // The match comes first in 1.0, and last in 1.3.
        let first: Option<Match> = reader.only_10()?;
        let cookie = reader.u64()?;
        let (cookie_mask, table_id) = if in10 { (0, 0) } else { (reader.u64()?, reader.u8()?) };
        let command = if in10 { reader.u16()? } else { reader.u8()?.into() };
        let command = FlowModCommand::from_wire(command)
            .ok_or(Error::BadValue { what: "flow-mod command", value: command.into() })?;
        let (idle_timeout, hard_timeout, priority) = (reader.u16()?, reader.u16()?, reader.u16()?);
        let (buffer_id, out_port) = (reader.u32()?, PortNo::read(reader)?);
        let out_group = if in10 { ANY_GROUP } else { reader.u32()? };
        let flags = reader.u16()?;
        let matching = match first {
            Some(first) => first,
            None => {
                reader.take(2)?;
                Match::read(reader)?
            }
        };
        let instructions = instruction::read_rule(reader)?;
        #[rustfmt::skip]
        let flow_mod = FlowMod {
            cookie, cookie_mask, table_id, command, idle_timeout, hard_timeout, priority, buffer_id, out_port, out_group,
            flags, matching, instructions,
        };
        Ok(flow_mod)
    }

    fn write(&self, version: Version, out: &mut Vec<u8>) -> Result<()> {
        let in10 = version == Version::Of10;
        if in10 {
            self.check10()?;
            self.matching.write(version, out)?;
            out.put_u64(self.cookie);
            out.put_u16(self.command as u16);
        } else {
            out.put_u64(self.cookie);
            out.put_u64(self.cookie_mask);
            out.put(&[self.table_id, self.command as u8]);
        }
        out.put_u16(self.idle_timeout);
        out.put_u16(self.hard_timeout);
        out.put_u16(self.priority);
        out.put_u32(self.buffer_id);
        self.out_port.write(version, out)?;
        if in10 {
            out.put_u16(self.flags);
        } else {
            out.put_u32(self.out_group);
            out.put_u16(self.flags);
            out.put_zeros(2);
            self.matching.write(version, out)?;
        }
        instruction::write_rule(&self.instructions, version, out)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::msg::Message;
    use crate::msg::test::{check, hex};
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
    }

    #[test]
    fn a_1_3_rule_has_instructions() {
        let bytes = "04 0e 0058 00000001
            0000000000001122 0000000000000000 00 00 0005 0009 0064 ffffffff ffffffff ffffffff 0001 0000
            0001 000c 80000004 00000003 00000000
            0004 0018 00000000 0000 0010 00000002 0000 000000000000";
        check(Version::Of13, bytes, Message::FlowMod(to_port_2(Match::any().exact(Field::InPort, 3))));
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
    fn deletes_that_1_0_would_widen_are_refused() {
        let delete = FlowMod::new(FlowModCommand::Delete, 0, Match::any(), vec![]);
        let emits = |flow_mod: FlowMod| flow_mod.write(Version::Of10, &mut Vec::new()).is_ok();
        assert!(emits(FlowMod { table_id: 0xff, ..delete.clone() }));
        assert!(!emits(FlowMod { table_id: 1, ..delete.clone() }));
        assert!(!emits(FlowMod { cookie_mask: 1, ..delete.clone() }));
        assert!(!emits(FlowMod { out_group: 1, ..delete }));
    }
}
