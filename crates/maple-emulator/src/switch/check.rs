//! The checks of a flow-mod, a packet-out or a group: matches, instructions, actions
//! (1.0 §5.4.4, 1.3 §7.2.3.6–7.2.3.8, §7.4.4).

use std::collections::BTreeMap;

use maple_wire::field::Prerequisite;
use maple_wire::{Action, Constraint, Field, FieldSet, Instruction, Match, MatchField, PortNo, Version};

use crate::switch::groups::Group;
use crate::switch::meters::Meter;
use crate::switch::refusal::Refusal;

/// The properties of the switch that the checks need.
pub struct Abilities<'a> {
    /// The version it speaks.
    pub version: Version,
    /// The number of its tables.
    pub n_tables: u8,
    /// Whether it takes masks on transport ports.
    pub masked_ports: bool,
    /// The groups that exist.
    pub groups: &'a BTreeMap<u32, Group>,
    /// The meters that exist.
    pub meters: &'a BTreeMap<u32, Meter>,
}

/// Fields that no action can set.
const UNSETTABLE: FieldSet = FieldSet::of(&[
    Field::InPort,
    Field::InPhyPort,
    Field::Metadata,
    Field::EthType,
    Field::IpProto,
    Field::MplsBos,
    Field::PbbIsid,
    Field::TunnelId,
    Field::Ipv6Exthdr,
]);

/// Ports of transport protocols.
const PORTS: FieldSet =
    FieldSet::of(&[Field::TcpSrc, Field::TcpDst, Field::UdpSrc, Field::UdpDst, Field::SctpSrc, Field::SctpDst]);

/// Whether rules can match the field.
pub fn can_match(field: Field) -> bool {
    field != Field::PbbIsid
}

/// Whether actions can set the field.
pub fn can_set(field: Field) -> bool {
    !UNSETTABLE.contains(field)
}

/// The match as the table keeps it: in OXM order and each field once.
///
/// A field whose prerequisites the match lacks is refused in 1.3; in 1.0 such a field is as if it were wildcarded,
/// so it is left out.
pub fn matching(abilities: &Abilities, given: &Match) -> Result<Match, Refusal> {
    let mut seen = FieldSet::EMPTY;
    let mut kept = Vec::new();
    for entry in &given.fields {
        let MatchField::Known(constraint) = entry else { return Err(Refusal::MatchField) };
        let field = constraint.field;
        if seen.contains(field) {
            return Err(Refusal::MatchDuplicate);
        }
        seen.insert(field);
        if !can_match(field) {
            return Err(Refusal::MatchField);
        }
        if constraint.value & !constraint.mask != 0 || constraint.mask & !field.full_mask() != 0 {
            return Err(Refusal::MatchValue);
        }
        let takes_mask = field.is_maskable() || abilities.masked_ports && PORTS.contains(field);
        if !constraint.is_exact() && !takes_mask {
            return Err(Refusal::MatchMask);
        }
        if promises(given, field) {
            kept.push(*constraint);
        } else if abilities.version == Version::Of13 {
            return Err(Refusal::MatchPrerequisite);
        }
    }
    Ok(Match::from_constraints(kept))
}

/// Whether every packet that fits the match has the field.
fn promises(matching: &Match, field: Field) -> bool {
    let holds = |need: &Prerequisite| {
        matching.get(need.field).is_some_and(|c| c.mask & need.mask == need.mask && c.value & need.mask == need.value)
    };
    field.prerequisites().iter().any(|all| all.iter().all(holds))
}

/// Whether a rule in `table` with this match may have these instructions.
pub fn instructions(abilities: &Abilities, table: u8, matching: &Match, list: &[Instruction]) -> Result<(), Refusal> {
    for instruction in list {
        match instruction {
            Instruction::GotoTable(to) if *to <= table || *to >= abilities.n_tables => return Err(Refusal::GotoTable),
            Instruction::GotoTable(_) | Instruction::WriteMetadata { .. } | Instruction::ClearActions => {}
            Instruction::WriteActions(list) | Instruction::ApplyActions(list) => {
                actions(abilities, Some(matching), list, false)?;
            }
            Instruction::Meter(meter) if abilities.meters.contains_key(meter) => {}
            Instruction::Meter(_) => return Err(Refusal::InvalidMeter),
            Instruction::Experimenter { .. } | Instruction::Unknown { .. } => return Err(Refusal::UnknownInstruction),
        }
    }
    Ok(())
}

/// Whether these actions can be done to packets of the match, or to any packet where none is given.
///
/// `packet_out` allows the output to [`PortNo::TABLE`].
pub fn actions(
    abilities: &Abilities,
    matching: Option<&Match>,
    list: &[Action],
    packet_out: bool,
) -> Result<(), Refusal> {
    // In 1.0 an action on a header that a packet lacks does nothing, so nothing has to be promised.
    let mut promised = if abilities.version == Version::Of13 { matching.cloned() } else { None };
    for action in list {
        let has = |field| promised.as_ref().is_none_or(|m| promises(m, field));
        let consistent = match action {
            Action::Output { port, .. } | Action::Enqueue { port, .. } => {
                port_can_be_output(*port, packet_out)?;
                true
            }
            Action::Group(group) if !abilities.groups.contains_key(group) => return Err(Refusal::ActionGroup),
            Action::SetField(constraint) => {
                settable(constraint)?;
                has(constraint.field)
            }
            Action::PushVlan(tag) if !matches!(tag, 0x8100 | 0x88a8) => return Err(Refusal::ActionTag),
            Action::PushMpls(tag) if !matches!(tag, 0x8847 | 0x8848) => return Err(Refusal::ActionTag),
            Action::PopVlan if abilities.version == Version::Of13 => has(Field::VlanPcp),
            Action::PopMpls(_) | Action::SetMplsTtl(_) | Action::DecMplsTtl => has(Field::MplsLabel),
            Action::SetNwTtl(_) | Action::DecNwTtl => has(Field::IpProto),
            Action::SetVlanVid(vid) if *vid > 0xfff => return Err(Refusal::ActionArgument),
            Action::SetVlanPcp(pcp) if *pcp > 7 => return Err(Refusal::ActionArgument),
            Action::Experimenter { .. } => return Err(Refusal::ActionExperimenter),
            Action::Unknown { .. } | Action::PushPbb(_) | Action::PopPbb => return Err(Refusal::ActionType),
            Action::CopyTtlOut | Action::CopyTtlIn => has(Field::MplsLabel),
            _ => true,
        };
        if !consistent {
            return Err(Refusal::ActionInconsistent);
        }
        promised = promised.map(|m| promised_after(m, action));
    }
    Ok(())
}

fn settable(constraint: &Constraint) -> Result<(), Refusal> {
    if !can_set(constraint.field) {
        return Err(Refusal::SetType);
    }
    if !constraint.is_exact() || constraint.value & !constraint.field.full_mask() != 0 {
        return Err(Refusal::SetArgument);
    }
    // An absent tag cannot be set: bit 12 must be set (1.3 §7.2.3.7).
    if constraint.field == Field::VlanVid && constraint.value & 0x1000 == 0 {
        return Err(Refusal::SetArgument);
    }
    Ok(())
}

fn port_can_be_output(port: PortNo, packet_out: bool) -> Result<(), Refusal> {
    match port {
        PortNo::IN_PORT | PortNo::FLOOD | PortNo::ALL | PortNo::CONTROLLER => Ok(()),
        PortNo::TABLE if packet_out => Ok(()),
        port if port.is_physical() => Ok(()),
        _ => Err(Refusal::ActionPort),
    }
}

/// The known properties of a packet of this match after the action.
fn promised_after(mut matching: Match, action: &Action) -> Match {
    match action {
        Action::PushVlan(_) => matching.with(Constraint::masked(Field::VlanVid, 0x1000, 0x1000)),
        Action::PopVlan => {
            matching.fields.retain(|f| !matches!(f, MatchField::Known(c) if c.field == Field::VlanVid));
            matching
        }
        Action::PushMpls(eth_type) | Action::PopMpls(eth_type) => matching.exact(Field::EthType, u128::from(*eth_type)),
        _ => matching,
    }
}
