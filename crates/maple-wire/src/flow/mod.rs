//! Matches, actions and instructions, independent of a version's format.
//!
//! Names and meanings are those of OpenFlow 1.3. If 1.0 has something that 1.3 lacks (its `SET_TP_DST` does not say
//! whether TCP or UDP), the action has a variant of its own. So reading and writing again gives the same bytes.

mod action_set;

pub use action_set::ActionSet;
use serde::{Deserialize, Serialize};

use crate::field::Field;
use crate::port::PortNo;

/// One condition on a packet: it has `field`, and `packet[field] & mask == value`.
///
/// ```
/// use maple_wire::{Constraint, Field};
///
/// let subnet = Constraint::masked(Field::Ipv4Src, 0x0a000000, 0xff000000); // 10.0.0.0/8
/// assert!(subnet.holds(0x0a010203) && !subnet.holds(0x0b000001));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Constraint {
    /// The field.
    pub field: Field,
    /// The value, zero outside the mask. Only an ICMP type or code that was received in 1.0 can have more bits; it fits
    /// no packet.
    pub value: u128,
    /// The bits that count. Zero only if it was received so; then the constraint only requires that the packet has the
    /// field.
    pub mask: u128,
}

impl Constraint {
    /// Creates the constraint `field == value` on all bits.
    #[must_use]
    pub const fn exact(field: Field, value: u128) -> Constraint {
        Constraint { field, value: value & field.full_mask(), mask: field.full_mask() }
    }

    /// Creates the constraint `field & mask == value & mask`.
    #[must_use]
    pub const fn masked(field: Field, value: u128, mask: u128) -> Constraint {
        let mask = mask & field.full_mask();
        Constraint { field, value: value & mask, mask }
    }

    /// Reports whether all bits of the field count.
    #[must_use]
    pub const fn is_exact(&self) -> bool {
        self.mask == self.field.full_mask()
    }

    /// Reports whether a packet whose field has `value` fits.
    #[must_use]
    pub const fn holds(&self, value: u128) -> bool {
        value & self.mask == self.value
    }
}

/// One entry of a match, as a message carries it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum MatchField {
    /// A field of OXM class 0x8000 that this crate knows.
    Known(Constraint),
    /// Any other entry, kept unchanged: the 32-bit OXM header and the bytes after it.
    Unknown {
        /// Class, field, has-mask bit and length.
        header: u32,
        /// The payload: the value, and the mask if there is one.
        body: Vec<u8>,
    },
}

/// A match: the packets that a rule takes. All of its entries must hold.
///
/// Entries keep the order in which they were sent. [`Match::with`] inserts new entries in OXM order, the canonical one.
///
/// ```
/// use maple_wire::{Constraint, Field, Match, Version, print};
///
/// let ssh = Match::any().exact(Field::TcpDst, 22).exact(Field::IpProto, 6).exact(Field::EthType, 0x800);
/// assert_eq!(print::matching(Version::Of13, &ssh), "tcp,tp_dst=22");
/// assert_eq!(ssh.get(Field::TcpDst), Some(&Constraint::exact(Field::TcpDst, 22)));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Match {
    /// The entries.
    pub fields: Vec<MatchField>,
}

impl Match {
    /// Creates the match that takes every packet.
    #[must_use]
    pub const fn any() -> Match {
        Match { fields: Vec::new() }
    }

    /// Creates the canonical match with exactly these constraints (one for each field).
    pub fn from_constraints(constraints: impl IntoIterator<Item = Constraint>) -> Match {
        constraints.into_iter().fold(Match::any(), Match::with)
    }

    /// Adds a constraint in OXM order. It replaces one on the same field.
    #[must_use]
    pub fn with(mut self, constraint: Constraint) -> Match {
        self.fields.retain(|f| !matches!(f, MatchField::Known(c) if c.field == constraint.field));
        let at = self
            .fields
            .iter()
            .position(|f| matches!(f, MatchField::Known(c) if c.field > constraint.field))
            .unwrap_or(self.fields.len());
        self.fields.insert(at, MatchField::Known(constraint));
        self
    }

    /// Adds the constraint `field == value`.
    #[must_use]
    pub fn exact(self, field: Field, value: u128) -> Match {
        self.with(Constraint::exact(field, value))
    }

    /// Iterates over the constraints on known fields.
    pub fn constraints(&self) -> impl Iterator<Item = &Constraint> {
        self.fields.iter().filter_map(|f| match f {
            MatchField::Known(constraint) => Some(constraint),
            MatchField::Unknown { .. } => None,
        })
    }

    /// Returns the constraint on `field`, if there is one.
    #[must_use]
    pub fn get(&self, field: Field) -> Option<&Constraint> {
        self.constraints().find(|c| c.field == field)
    }

    /// Reports whether a packet fits. `packet` returns its fields, and `None` for a field that it lacks. Unknown
    /// entries fit no packet.
    pub fn holds(&self, packet: impl Fn(Field) -> Option<u128>) -> bool {
        self.fields.iter().all(|f| match f {
            MatchField::Known(c) => packet(c.field).is_some_and(|value| c.holds(value)),
            MatchField::Unknown { .. } => false,
        })
    }

    /// Reports whether this match takes every packet that `narrow` takes, judged entry by entry.
    #[must_use]
    pub fn covers(&self, narrow: &Match) -> bool {
        self.fields.iter().all(|field| match field {
            MatchField::Known(wide) => {
                narrow.get(wide.field).is_some_and(|n| n.mask & wide.mask == wide.mask && wide.holds(n.value))
            }
            unknown => narrow.fields.contains(unknown),
        })
    }
}

/// A change that a switch makes to a packet, or an output.
///
/// ```
/// use maple_wire::{Action, PortNo, Version, print};
///
/// let actions = [Action::PopVlan, Action::output(PortNo(3))];
/// assert_eq!(print::actions(Version::Of13, &actions), "pop_vlan,output:3");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Action {
    /// Sends the packet out of a port, or `max_len` bytes of it if the port is the controller.
    Output {
        /// The port.
        port: PortNo,
        /// Bytes for the controller; 0xffff means the whole packet. 0 for other ports.
        max_len: u16,
    },
    /// Lets a group process the packet (1.3).
    Group(u32),
    /// Chooses the queue for later outputs (1.3).
    SetQueue(u32),
    /// Sends the packet out of a port through a queue (1.0).
    Enqueue {
        /// The port.
        port: PortNo,
        /// The queue on that port.
        queue: u32,
    },
    /// Sets a field. In 1.0 it is written as the action for this field, if there is one.
    SetField(Constraint),
    /// Pushes an outermost VLAN tag with this Ethernet type.
    PushVlan(u16),
    /// Pops the outermost VLAN tag (`STRIP_VLAN` in 1.0).
    PopVlan,
    /// Pushes an MPLS entry with this Ethernet type.
    PushMpls(u16),
    /// Pops the outermost MPLS entry; the payload has this Ethernet type.
    PopMpls(u16),
    /// Pushes a provider backbone header with this Ethernet type.
    PushPbb(u16),
    /// Pops the provider backbone header.
    PopPbb,
    /// Sets the MPLS time to live.
    SetMplsTtl(u8),
    /// Decrements the MPLS time to live.
    DecMplsTtl,
    /// Sets the IP time to live.
    SetNwTtl(u8),
    /// Decrements the IP time to live.
    DecNwTtl,
    /// Copies the time to live outwards.
    CopyTtlOut,
    /// Copies the time to live inwards.
    CopyTtlIn,
    /// Sets the VLAN id, 12 bits, and pushes a tag if there is none (1.0).
    SetVlanVid(u16),
    /// Sets the VLAN priority, 3 bits, and pushes a tag if there is none (1.0).
    SetVlanPcp(u8),
    /// Sets the transport source port, whatever the transport (1.0).
    SetTpSrc(u16),
    /// Sets the transport destination port, whatever the transport (1.0).
    SetTpDst(u16),
    /// An experimenter's (1.0: vendor's) action: its id and the bytes after it.
    Experimenter {
        /// The experimenter's id.
        id: u32,
        /// The bytes after the id.
        body: Vec<u8>,
    },
    /// An action of unknown type, or a known one with unknown contents, kept unchanged.
    Unknown {
        /// The number of its type.
        kind: u16,
        /// The bytes after type and length.
        body: Vec<u8>,
    },
}

impl Action {
    /// Creates an output to `port`.
    #[must_use]
    pub const fn output(port: PortNo) -> Action {
        Action::Output { port, max_len: 0 }
    }

    /// Creates an output of the whole packet to the controller.
    #[must_use]
    pub const fn to_controller() -> Action {
        Action::Output { port: PortNo::CONTROLLER, max_len: 0xffff }
    }
}

/// An instruction of a rule for the packets that it takes. OpenFlow 1.0 has only [`Instruction::ApplyActions`].
///
/// ```
/// use maple_wire::{Action, Instruction, PortNo, Version, print};
///
/// let forward = [Instruction::ApplyActions(vec![Action::output(PortNo(3))]), Instruction::GotoTable(2)];
/// assert_eq!(print::instructions(Version::Of13, &forward), "output:3,goto_table:2");
/// assert_eq!(print::instructions(Version::Of13, &[]), "drop");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Instruction {
    /// Continues in a later table.
    GotoTable(u8),
    /// Sets the bits of the metadata that the mask selects.
    WriteMetadata {
        /// The new bits.
        metadata: u64,
        /// The bits that are set.
        mask: u64,
    },
    /// Adds these actions to the action set.
    WriteActions(Vec<Action>),
    /// Does these actions at once, in order.
    ApplyActions(Vec<Action>),
    /// Empties the action set.
    ClearActions,
    /// Passes the packet through a meter first.
    Meter(u32),
    /// An experimenter's instruction: its id and the bytes after it.
    Experimenter {
        /// The experimenter's id.
        id: u32,
        /// The bytes after the id.
        body: Vec<u8>,
    },
    /// An instruction of unknown type, kept unchanged.
    Unknown {
        /// The number of its type.
        kind: u16,
        /// The bytes after type and length.
        body: Vec<u8>,
    },
}

impl Instruction {
    /// Returns the instruction's place in the order in which a switch carries instructions out (1.3 §5.9).
    #[must_use]
    pub const fn rank(&self) -> u8 {
        match self {
            Instruction::Meter(_) => 0,
            Instruction::ApplyActions(_) => 1,
            Instruction::ClearActions => 2,
            Instruction::WriteActions(_) => 3,
            Instruction::WriteMetadata { .. } => 4,
            Instruction::Experimenter { .. } | Instruction::Unknown { .. } => 5,
            Instruction::GotoTable(_) => 6,
        }
    }

    /// Returns the instruction's actions, applied or written.
    #[must_use]
    pub fn actions(&self) -> &[Action] {
        match self {
            Instruction::ApplyActions(actions) | Instruction::WriteActions(actions) => actions,
            _ => &[],
        }
    }

    /// Reports whether instructions output to the port and use the group, as `out_port` and `out_group` of messages
    /// require. [`PortNo::ANY`] and a group of all ones require nothing.
    #[must_use]
    pub fn lead_to(instructions: &[Instruction], port: PortNo, group: u32) -> bool {
        let actions = || instructions.iter().flat_map(Instruction::actions);
        let to_port = |action: &Action| match action {
            Action::Output { port: to, .. } | Action::Enqueue { port: to, .. } => *to == port,
            _ => false,
        };
        (port == PortNo::ANY || actions().any(to_port))
            && (group == u32::MAX || actions().any(|action| *action == Action::Group(group)))
    }
}
