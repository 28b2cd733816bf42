//! Rules, as `ovs-ofctl dump-flows --no-stats` prints them.

use std::fmt;

use super::{instructions, matching};
use crate::flow::{Instruction, Match};
use crate::msg::{FlowMod, Version};

/// The priority that Open vSwitch assumes and does not print.
const DEFAULT_PRIORITY: u16 = 0x8000;

/// A rule for printing: ` cookie=0x1, table=1, priority=100,tcp,in_port=1,tp_dst=22 actions=output:2`.
///
/// Defaults are not printed: cookie 0, table 0, no timeouts, no flags, priority 32768. As in a dump, the line starts
/// with a space.
#[derive(Clone, Copy, Debug)]
pub struct FlowLine<'a> {
    /// The version that the rule is for.
    pub version: Version,
    /// The rule's cookie.
    pub cookie: u64,
    /// The rule's table.
    pub table: u8,
    /// Idle timeout in seconds; 0 means none.
    pub idle_timeout: u16,
    /// Hard timeout in seconds; 0 means none.
    pub hard_timeout: u16,
    /// Bits of `OFPFF_*`; 0 in OpenFlow 1.0, whose dumps do not show them.
    pub flags: u16,
    /// The rule's priority. The highest priority takes precedence.
    pub priority: u16,
    /// The rule's match.
    pub matching: &'a Match,
    /// The rule's instructions.
    pub instructions: &'a [Instruction],
}

/// Returns the line of a rule without timeouts and flags, which only [`FlowLine`] has.
pub fn flow_line(
    version: Version,
    table: u8,
    priority: u16,
    cookie: u64,
    matching: &Match,
    instructions: &[Instruction],
) -> String {
    let (idle_timeout, hard_timeout, flags) = (0, 0, 0);
    FlowLine { version, cookie, table, idle_timeout, hard_timeout, flags, priority, matching, instructions }.to_string()
}

impl<'a> FlowLine<'a> {
    /// Creates the line of the rule that a flow-mod adds, as a dump shows it afterwards.
    pub fn from_flow_mod(version: Version, flow_mod: &'a FlowMod) -> FlowLine<'a> {
        FlowLine {
            version,
            cookie: flow_mod.cookie,
            table: flow_mod.table_id,
            idle_timeout: flow_mod.idle_timeout,
            hard_timeout: flow_mod.hard_timeout,
            flags: if version == Version::Of10 { 0 } else { flow_mod.flags },
            priority: flow_mod.priority,
            matching: &flow_mod.matching,
            instructions: &flow_mod.instructions,
        }
    }
}

impl fmt::Display for FlowLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(" ")?;
        if self.cookie != 0 {
            write!(f, "cookie={:#x}, ", self.cookie)?;
        }
        if self.table != 0 {
            write!(f, "table={}, ", self.table)?;
        }
        write_rule(f, self)
    }
}

/// Prints the part of a dump's line after cookie, table and counters: timeouts, flags, priority, match and actions.
pub(super) fn write_rule(f: &mut dyn fmt::Write, line: &FlowLine<'_>) -> fmt::Result {
    if line.idle_timeout != 0 {
        write!(f, "idle_timeout={}, ", line.idle_timeout)?;
    }
    if line.hard_timeout != 0 {
        write!(f, "hard_timeout={}, ", line.hard_timeout)?;
    }
    write_flags(f, line.flags)?;
    let rule = prioritised_match(line.version, line.priority, line.matching);
    if !rule.is_empty() {
        write!(f, "{rule} ")?;
    }
    write!(f, "actions={}", instructions(line.version, line.instructions))
}

/// Returns the match, preceded by its priority unless that is the default. Empty if there is nothing to print.
pub(super) fn prioritised_match(version: Version, priority: u16, m: &Match) -> String {
    let fields = matching(version, m);
    match (priority, fields.is_empty()) {
        (DEFAULT_PRIORITY, _) => fields,
        (_, true) => format!("priority={priority}"),
        (_, false) => format!("priority={priority},{fields}"),
    }
}

/// Prints the flags of a rule, each with a space after it. Bits without a name are one hex number.
pub(super) fn write_flags(f: &mut dyn fmt::Write, flags: u16) -> fmt::Result {
    const NAMES: [&str; 5] = ["send_flow_rem", "check_overlap", "reset_counts", "no_packet_counts", "no_byte_counts"];
    for (bit, name) in NAMES.iter().enumerate() {
        if flags & 1 << bit != 0 {
            write!(f, "{name} ")?;
        }
    }
    match flags >> NAMES.len() << NAMES.len() {
        0 => Ok(()),
        unknown => write!(f, "flags:{unknown:#x} "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::Field;
    use crate::flow::{Action, Constraint};
    use crate::msg::FlowModCommand;
    use crate::port::PortNo;

    fn output(port: u32) -> Vec<Instruction> {
        vec![Instruction::ApplyActions(vec![Action::output(PortNo(port))])]
    }

    #[test]
    fn a_rule_is_printed_as_a_dump_without_statistics_prints_it() {
        let ssh = Match::any()
            .exact(Field::InPort, 1)
            .exact(Field::EthType, 0x800)
            .exact(Field::IpProto, 6)
            .exact(Field::TcpDst, 22);
        assert_eq!(
            flow_line(Version::Of13, 1, 100, 1, &ssh, &output(2)),
            " cookie=0x1, table=1, priority=100,tcp,in_port=1,tp_dst=22 actions=output:2"
        );
    }

    #[test]
    fn defaults_are_not_printed() {
        let (any, goto) = (Match::any(), [Instruction::GotoTable(1)]);
        assert_eq!(flow_line(Version::Of13, 0, 32768, 0, &any, &goto), " actions=goto_table:1");
        assert_eq!(flow_line(Version::Of13, 0, 0, 0, &any, &[]), " priority=0 actions=drop");
    }

    #[test]
    fn timeouts_and_flags_stand_before_the_priority() {
        let matching = Match::any().exact(Field::EthType, 0x800).exact(Field::IpDscp, 8);
        let instructions = vec![Instruction::ApplyActions(vec![Action::to_controller()])];
        let mut flow_mod = FlowMod::new(FlowModCommand::Add, 5, matching, instructions);
        (flow_mod.idle_timeout, flow_mod.hard_timeout, flow_mod.flags) = (9, 4, 31);
        assert_eq!(
            FlowLine::from_flow_mod(Version::Of13, &flow_mod).to_string(),
            " idle_timeout=9, hard_timeout=4, send_flow_rem check_overlap reset_counts no_packet_counts \
             no_byte_counts priority=5,ip,nw_tos=32 actions=CONTROLLER:65535"
        );
    }

    #[test]
    fn a_masked_address_is_printed_with_its_mask() {
        let matching = Match::any()
            .with(Constraint::masked(Field::EthSrc, 0x0102_0300_0000, 0xffff_ff00_0000))
            .exact(Field::EthType, 0x88cc);
        assert_eq!(
            flow_line(Version::Of13, 0, 11, 0, &matching, &[]),
            " priority=11,dl_src=01:02:03:00:00:00/ff:ff:ff:00:00:00,dl_type=0x88cc actions=drop"
        );
    }
}
