//! The checks of a flow-mod, a packet-out or a group: matches, instructions, actions
//! (1.0 §5.4.4, 1.3 §7.2.3.6–7.2.3.8, §7.4.4). Errors are those of Open vSwitch, where it has one.

use std::collections::BTreeMap;

use maple_wire::eth_type;
use maple_wire::field::{Prerequisite, VLAN_PRESENT, ValueKind};
use maple_wire::msg::ALL_TABLES;
use maple_wire::msg::oxm::{Stated, constraint_in};
use maple_wire::{Action, Constraint, Field, FieldSet, Instruction, Match, MatchField, Packet, PortNo, Version};

use crate::switch::groups::Group;
use crate::switch::meters::Meter;
use crate::switch::refusal::Refusal;

/// The properties of the switch that the checks need.
pub struct Abilities<'a> {
    /// The version that the switch speaks.
    pub version: Version,
    /// The number of its tables.
    pub n_tables: u8,
    /// Whether it accepts masks on transport ports, and only port numbers of 16 bits.
    pub open_vswitch: bool,
    /// The groups that exist.
    pub groups: &'a BTreeMap<u32, Group>,
    /// The meters that exist.
    pub meters: &'a BTreeMap<u32, Meter>,
}

/// The place of actions, which decides what the checks must know about packets.
#[derive(Clone, Copy)]
pub enum ActionPlace<'a> {
    /// Apply-actions of a rule with this match, or actions of a packet-out whose packet this match describes.
    Applied(&'a Match),
    /// Write-actions of a rule with this match.
    Written(&'a Match),
    /// A bucket of a group, which any packet may meet.
    Bucket,
}

/// Fields that no action can set.
const UNSETTABLE: FieldSet = FieldSet::from_fields(&[
    Field::InPort,
    Field::InPhyPort,
    Field::EthType,
    Field::IpProto,
    Field::MplsBos,
    Field::PbbIsid,
    Field::Ipv6Exthdr,
]);

/// The fields that determine which other fields a packet has.
const DESCRIBING: [Field; 4] = [Field::EthType, Field::VlanVid, Field::IpProto, Field::Icmpv6Type];

/// The maximum port number of 1.0 and of Open vSwitch, apart from the reserved ones: just below `OFPP_MAX` of 1.0
/// (§5.2.1).
const MAX_NARROW_PORT: u32 = 0xfeff;
/// `OFPAT_SET_FIELD`.
const SET_FIELD: u16 = 25;

/// Reports whether rules can match the field.
pub fn can_match(field: Field) -> bool {
    field != Field::PbbIsid
}

/// Reports whether actions can set the field.
pub fn can_set(field: Field) -> bool {
    !UNSETTABLE.contains(field)
}

/// Returns the match in the form that the table keeps: in OXM order, each field once, without masks of zeros, which
/// constrain nothing.
///
/// In 1.3 the prerequisites of a field must come before it. In 1.0 fields have no order, and a field without its
/// prerequisites is left out, as if it were wildcarded.
///
/// # Errors
/// [`Refusal`] if a field is unknown, duplicated, out of range, or (in 1.3) lacks its prerequisites.
pub fn matching(abilities: &Abilities, given: &Match) -> Result<Match, Refusal> {
    let mut seen = FieldSet::EMPTY;
    let mut kept = Match::any();
    for entry in &given.fields {
        let constraint = constraint(abilities.version, entry)?;
        let field = constraint.field;
        if !can_match(field) {
            return Err(Refusal::MatchField);
        }
        if seen.contains(field) {
            return Err(Refusal::MatchDuplicate);
        }
        seen.insert(field);
        let takes_mask = field.is_maskable() || abilities.open_vswitch && field.kind() == ValueKind::TransportPort;
        if !constraint.is_exact() && constraint.mask != 0 && !takes_mask {
            return Err(Refusal::MatchMask);
        }
        match abilities.version {
            // 1.0 allows VLAN priorities without ids.
            Version::Of10 if field != Field::VlanPcp && !promises(given, field) => {}
            Version::Of13 if !promises(&kept, field) => return Err(Refusal::MatchPrerequisite),
            _ if constraint.mask == 0 => {}
            _ => kept = kept.with(constraint),
        }
    }
    Ok(kept)
}

/// Returns the condition of an entry, if a packet can fulfil it.
fn constraint(version: Version, entry: &MatchField) -> Result<Constraint, Refusal> {
    let Stated { field, value, mask } = match entry {
        // 1.0 has more bits for ICMP types and codes than packets have.
        MatchField::Known(constraint) if version == Version::Of10 => return Ok(*constraint),
        MatchField::Known(Constraint { field, value, mask }) => {
            Stated { field: *field, value: *value, mask: Some(*mask) }
        }
        MatchField::Unknown { header, body } => constraint_in(*header, body).ok_or(Refusal::MatchField)?,
    };
    if mask.is_some_and(|mask| value & !mask != 0) {
        return Err(Refusal::MatchWildcards);
    }
    if value & !field.full_mask() != 0 {
        return Err(Refusal::MatchValue);
    }
    Ok(Constraint::masked(field, value, mask.unwrap_or(field.full_mask())))
}

/// Reports whether every packet that fits the match has the field.
fn promises(matching: &Match, field: Field) -> bool {
    let holds = |need: &Prerequisite| {
        matching.get(need.field).is_some_and(|c| c.mask & need.mask == need.mask && c.value & need.mask == need.value)
    };
    field.prerequisites().iter().any(|all| all.iter().all(holds))
}

/// Returns the match of packets that have the same headers as this frame.
pub fn describe(frame: &[u8]) -> Match {
    let packet = Packet::new(frame, 0);
    let known = |field| packet.switch_value(field).map(|value| Constraint::exact(field, value));
    Match::from_constraints(DESCRIBING.into_iter().filter_map(known))
}

/// Checks the instructions of a rule in `table` with this match.
///
/// # Errors
/// [`Refusal`] for the first instruction that the rule can't have.
pub fn instructions(abilities: &Abilities, table: u8, matching: &Match, list: &[Instruction]) -> Result<(), Refusal> {
    for (at, instruction) in list.iter().enumerate() {
        let same = |other: &Instruction| std::mem::discriminant(other) == std::mem::discriminant(instruction);
        if list[..at].iter().any(same) {
            return Err(Refusal::DuplicateInstruction);
        }
        match instruction {
            // A deletion in all tables has no table to compare with.
            Instruction::GotoTable(to) if *to <= table && table != ALL_TABLES || *to >= abilities.n_tables => {
                return Err(Refusal::GotoTable);
            }
            Instruction::GotoTable(_) | Instruction::WriteMetadata { .. } | Instruction::ClearActions => {}
            Instruction::WriteActions(written) => {
                // They meet the packet after the actions that are applied at once.
                let place = ActionPlace::Written(matching);
                let mut promised = Promised::at(abilities.version, place);
                list.iter()
                    .filter(|one| one.rank() < instruction.rank())
                    .flat_map(Instruction::actions)
                    .for_each(|action| promised.after(action));
                actions_from(abilities, place, promised, written)?;
            }
            Instruction::ApplyActions(list) => actions(abilities, ActionPlace::Applied(matching), list)?,
            Instruction::Meter(meter) if abilities.meters.contains_key(meter) => {}
            Instruction::Meter(_) => return Err(Refusal::InvalidMeter),
            Instruction::Experimenter { .. } => return Err(Refusal::InstructionExperimenter),
            Instruction::Unknown { .. } => return Err(Refusal::UnknownInstruction),
        }
    }
    Ok(())
}

/// Returns the instructions in the order of their execution (1.3 §5.9), without those that do nothing.
pub fn in_order(mut list: Vec<Instruction>) -> Vec<Instruction> {
    let is_empty = |one: &Instruction| matches!(one, Instruction::ApplyActions(all) | Instruction::WriteActions(all) if all.is_empty());
    list.retain(|instruction| !is_empty(instruction));
    list.sort_by_key(Instruction::rank);
    list
}

/// Checks that these actions can be applied to packets at this place.
///
/// # Errors
/// [`Refusal`] for the first action that can't be applied.
pub fn actions(abilities: &Abilities, place: ActionPlace<'_>, list: &[Action]) -> Result<(), Refusal> {
    actions_from(abilities, place, Promised::at(abilities.version, place), list)
}

fn actions_from(
    abilities: &Abilities,
    place: ActionPlace<'_>,
    mut promised: Promised,
    list: &[Action],
) -> Result<(), Refusal> {
    for action in list {
        let consistent = match action {
            Action::Output { port, .. } => {
                output(abilities, *port)?;
                true
            }
            Action::Enqueue { port, .. } => match *port {
                PortNo::IN_PORT | PortNo::LOCAL => true,
                port if is_number(abilities, port) => true,
                _ => return Err(Refusal::ActionPort),
            },
            Action::Group(group) if !matches!(place, ActionPlace::Bucket) && !abilities.groups.contains_key(group) => {
                return Err(Refusal::ActionGroup);
            }
            Action::SetField(constraint) => {
                settable(&Stated { field: constraint.field, value: constraint.value, mask: None })?;
                promised.has(constraint.field)
            }
            Action::Unknown { kind: SET_FIELD, body } if abilities.version == Version::Of13 => {
                return Err(wrong_set_field(body));
            }
            Action::PushVlan(tag) if !matches!(*tag, eth_type::VLAN | eth_type::QINQ) => {
                return Err(Refusal::ActionArgument);
            }
            Action::PushMpls(tag) if !matches!(*tag, eth_type::MPLS | eth_type::MPLS_MULTICAST) => {
                return Err(Refusal::ActionArgument);
            }
            Action::PopVlan => promised.has_or_is_written(Field::VlanVid, place),
            Action::PopMpls(_)
            | Action::SetMplsTtl(_)
            | Action::DecMplsTtl
            | Action::CopyTtlOut
            | Action::CopyTtlIn => promised.has_or_is_written(Field::MplsLabel, place),
            Action::SetNwTtl(_) | Action::DecNwTtl => promised.has_or_is_written(Field::IpProto, place),
            Action::SetVlanVid(vid) if *vid > 0xfff => return Err(Refusal::ActionArgument),
            Action::SetVlanPcp(pcp) if *pcp > 7 => return Err(Refusal::ActionArgument),
            // This is `SET_NW_TOS` of 1.0 with bits outside the code point.
            Action::Unknown { kind: 8, .. } if abilities.version == Version::Of10 => {
                return Err(Refusal::ActionArgument);
            }
            Action::Experimenter { .. } => return Err(Refusal::ActionExperimenter),
            Action::Unknown { .. } | Action::PushPbb(_) | Action::PopPbb => return Err(Refusal::ActionType),
            _ => true,
        };
        if !consistent {
            return Err(Refusal::ActionInconsistent);
        }
        promised.after(action);
    }
    Ok(())
}

/// The known facts about the packets that an action meets.
struct Promised {
    /// Their headers. `None` if nothing must be known: in buckets, and in 1.0, where an action on a missing header does
    /// nothing.
    headers: Option<Match>,
    /// The minimum number of VLAN tags.
    tags: usize,
}

impl Promised {
    fn at(version: Version, place: ActionPlace<'_>) -> Promised {
        let headers = match place {
            ActionPlace::Applied(matching) | ActionPlace::Written(matching) if version == Version::Of13 => {
                Some(matching.clone())
            }
            _ => None,
        };
        let tags = headers.as_ref().is_some_and(|matching| promises(matching, Field::VlanPcp));
        Promised { headers, tags: usize::from(tags) }
    }

    fn has(&self, field: Field) -> bool {
        let is_of_a_tag = matches!(field, Field::VlanVid | Field::VlanPcp);
        self.headers.as_ref().is_none_or(|m| if is_of_a_tag { self.tags > 0 } else { promises(m, field) })
    }

    /// Reports whether the packet has the field, or the action is written. Like Open vSwitch, the checks leave written
    /// actions other than set-field to the packet.
    fn has_or_is_written(&self, field: Field, place: ActionPlace<'_>) -> bool {
        matches!(place, ActionPlace::Written(_)) || self.has(field)
    }

    fn after(&mut self, action: &Action) {
        match action {
            Action::PushVlan(_) => self.tags += 1,
            Action::PopVlan => self.tags = self.tags.saturating_sub(1),
            Action::PushMpls(eth_type) | Action::PopMpls(eth_type) => {
                self.headers = self.headers.take().map(|m| m.exact(Field::EthType, u128::from(*eth_type)));
            }
            _ => {}
        }
    }
}

/// Checks that a field can be set to this value.
fn settable(set: &Stated) -> Result<(), Refusal> {
    if !can_match(set.field) {
        return Err(Refusal::SetLength);
    }
    if set.mask.is_some() {
        return Err(Refusal::SetMasked);
    }
    // An absent tag cannot be set: bit 12 must be set (1.3 §7.2.3.7).
    let is_tag = set.field != Field::VlanVid || set.value & VLAN_PRESENT != 0;
    if !can_set(set.field) || set.value & !set.field.full_mask() != 0 || !is_tag {
        return Err(Refusal::SetArgument);
    }
    Ok(())
}

/// Returns what is wrong with a set-field of 1.3 that parses as an unknown action.
fn wrong_set_field(body: &[u8]) -> Refusal {
    let Some((header, rest)) = body.split_first_chunk::<4>() else { return Refusal::SetLength };
    let header = u32::from_be_bytes(*header);
    let set = rest.get(..(header & 0xff) as usize).and_then(|payload| constraint_in(header, payload));
    set.and_then(|set| settable(&set).err()).unwrap_or(Refusal::SetLength)
}

fn output(abilities: &Abilities, port: PortNo) -> Result<(), Refusal> {
    match port {
        PortNo::IN_PORT | PortNo::TABLE | PortNo::NORMAL | PortNo::FLOOD | PortNo::ALL => Ok(()),
        PortNo::CONTROLLER | PortNo::LOCAL => Ok(()),
        port if is_number(abilities, port) => Ok(()),
        _ => Err(Refusal::ActionPort),
    }
}

/// Reports whether a port of the switch can have this number. Open vSwitch accepts 0, although no packet leaves by it.
pub fn is_number(abilities: &Abilities, port: PortNo) -> bool {
    let narrow = abilities.open_vswitch || abilities.version == Version::Of10;
    port.0 <= if narrow { MAX_NARROW_PORT } else { PortNo::MAX.0 }
}
