//! Instructions (1.3 §7.2.4). OpenFlow 1.0 has a list of actions instead.

use super::Version;
use super::action;
use super::bytes::{Elements, Layout, Put, at_least, exactly, u16_at, u32_at, u64_at, unsupported};
use crate::error::{Error, Result};
use crate::flow::Instruction;

mod offset {
    pub const TYPE: usize = 0;
    pub const LENGTH: usize = 2;
    pub const BODY: usize = 4;
    /// The start of the actions, and of the metadata.
    pub const PADDED_BODY: usize = 8;
}

/// `ofp_instruction_type`.
mod kind {
    pub const GOTO_TABLE: u16 = 1;
    pub const WRITE_METADATA: u16 = 2;
    pub const WRITE_ACTIONS: u16 = 3;
    pub const APPLY_ACTIONS: u16 = 4;
    pub const CLEAR_ACTIONS: u16 = 5;
    pub const METER: u16 = 6;
    pub const EXPERIMENTER: u16 = 0xffff;
}

/// The name in errors of an instruction's body that is too long or too short for its type.
const BODY: &str = "body of an instruction";
const LAYOUT: Layout = Layout { what: "instruction", length_at: offset::LENGTH, min: 8, multiple: 8, pad_to: 1 };

/// A view of one instruction of 1.3.
#[derive(Clone, Copy, Debug)]
pub struct InstructionView<'a> {
    bytes: &'a [u8],
}

impl<'a> InstructionView<'a> {
    /// Iterates over the instructions that lie one after the other in `bytes`; the first error is the last item.
    pub fn list(bytes: &'a [u8]) -> impl Iterator<Item = Result<InstructionView<'a>>> {
        Elements::new(LAYOUT, bytes).map(|bytes| bytes.map(|bytes| InstructionView { bytes }))
    }

    /// Returns the type, `OFPIT_*`.
    pub fn kind(&self) -> u16 {
        u16_at(self.bytes, offset::TYPE)
    }

    /// Returns the bytes after type and length, 4 or more.
    pub fn body(&self) -> &'a [u8] {
        &self.bytes[offset::BODY..]
    }

    /// Reads the owned form.
    ///
    /// # Errors
    /// [`Error::BadLength`] or [`Error::Truncated`] if an instruction of a known type has the wrong length for it, and
    /// the errors of its actions.
    pub fn to_instruction(&self) -> Result<Instruction> {
        let (body, what) = (self.body(), BODY);
        match self.kind() {
            kind::GOTO_TABLE | kind::CLEAR_ACTIONS | kind::METER => exactly(what, body, 4)?,
            kind::WRITE_METADATA => exactly(what, body, 20)?,
            _ => at_least(what, body, 4)?,
        }
        let actions = || action::parse_list(Version::Of13, &self.bytes[offset::PADDED_BODY..]);
        Ok(match self.kind() {
            kind::GOTO_TABLE => Instruction::GotoTable(body[0]),
            kind::WRITE_METADATA => Instruction::WriteMetadata { metadata: u64_at(body, 4), mask: u64_at(body, 12) },
            kind::WRITE_ACTIONS => Instruction::WriteActions(actions()?),
            kind::APPLY_ACTIONS => Instruction::ApplyActions(actions()?),
            kind::CLEAR_ACTIONS => Instruction::ClearActions,
            kind::METER => Instruction::Meter(u32_at(body, 0)),
            kind::EXPERIMENTER => Instruction::Experimenter { id: u32_at(body, 0), body: body[4..].to_vec() },
            kind => Instruction::Unknown { kind, body: body.to_vec() },
        })
    }
}

/// Reads the instructions of a rule. In 1.0 it has actions, which are read as one apply-actions (no instruction if
/// there are no actions).
pub(super) fn parse_list(version: Version, bytes: &[u8]) -> Result<Vec<Instruction>> {
    match version {
        Version::Of10 if bytes.is_empty() => Ok(Vec::new()),
        Version::Of10 => Ok(vec![Instruction::ApplyActions(action::parse_list(version, bytes)?)]),
        Version::Of13 => InstructionView::list(bytes).map(|instruction| instruction?.to_instruction()).collect(),
    }
}

/// Appends the instructions of a rule, in 1.0 its actions.
pub(super) fn emit_list(instructions: &[Instruction], version: Version, out: &mut Vec<u8>) -> Result<()> {
    match (version, instructions) {
        (Version::Of10, []) => Ok(()),
        (Version::Of10, [Instruction::ApplyActions(actions)]) => action::emit_list(actions, version, out),
        (Version::Of10, _) => unsupported(version, "instructions other than one apply-actions"),
        (Version::Of13, _) => instructions.iter().try_for_each(|instruction| emit(instruction, out)),
    }
}

/// Appends one instruction of 1.3.
fn emit(instruction: &Instruction, out: &mut Vec<u8>) -> Result<()> {
    out.put_sized(offset::LENGTH, |out| {
        out.put_u16(kind_of(instruction));
        out.put_u16(0);
        match instruction {
            Instruction::GotoTable(table) => {
                out.put_u8(*table);
                out.put_zeros(3);
            }
            Instruction::WriteMetadata { metadata, mask } => {
                out.put_zeros(4);
                out.put_u64(*metadata);
                out.put_u64(*mask);
            }
            Instruction::WriteActions(actions) | Instruction::ApplyActions(actions) => {
                out.put_zeros(4);
                action::emit_list(actions, Version::Of13, out)?;
            }
            Instruction::ClearActions => out.put_zeros(4),
            Instruction::Meter(meter) => out.put_u32(*meter),
            Instruction::Experimenter { id, body } => {
                check_body(body.len() + 4)?;
                out.put_u32(*id);
                out.put(body);
            }
            Instruction::Unknown { body, .. } => {
                check_body(body.len())?;
                out.put(body);
            }
        }
        Ok(())
    })
}

/// Checks that the kept bytes after type and length make the instruction's length a multiple of 8.
fn check_body(length: usize) -> Result<()> {
    if length % 8 == 4 { Ok(()) } else { Err(Error::BadLength { what: LAYOUT.what, length }) }
}

fn kind_of(instruction: &Instruction) -> u16 {
    match instruction {
        Instruction::GotoTable(_) => kind::GOTO_TABLE,
        Instruction::WriteMetadata { .. } => kind::WRITE_METADATA,
        Instruction::WriteActions(_) => kind::WRITE_ACTIONS,
        Instruction::ApplyActions(_) => kind::APPLY_ACTIONS,
        Instruction::ClearActions => kind::CLEAR_ACTIONS,
        Instruction::Meter(_) => kind::METER,
        Instruction::Experimenter { .. } => kind::EXPERIMENTER,
        Instruction::Unknown { kind, .. } => *kind,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Action, PortNo};

    #[test]
    fn all_instructions_of_1_3_are_read_and_written() {
        #[rustfmt::skip]
        let bytes = [
            0, 1, 0, 8, 5, 0, 0, 0,
            0, 2, 0, 24, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 15,
            0, 3, 0, 16, 0, 0, 0, 0, 0, 22, 0, 8, 0, 0, 0, 2,
            0, 4, 0, 24, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0,
            0, 5, 0, 8, 0, 0, 0, 0,
            0, 6, 0, 8, 0, 0, 0, 3,
            0xff, 0xff, 0, 16, 0, 0, 0, 9, 1, 2, 3, 4, 5, 6, 7, 8,
            0, 77, 0, 8, 1, 2, 3, 4,
        ];
        let expect = [
            Instruction::GotoTable(5),
            Instruction::WriteMetadata { metadata: 7, mask: 15 },
            Instruction::WriteActions(vec![Action::Group(2)]),
            Instruction::ApplyActions(vec![Action::output(PortNo(1))]),
            Instruction::ClearActions,
            Instruction::Meter(3),
            Instruction::Experimenter { id: 9, body: vec![1, 2, 3, 4, 5, 6, 7, 8] },
            Instruction::Unknown { kind: 77, body: vec![1, 2, 3, 4] },
        ];
        assert_eq!(parse_list(Version::Of13, &bytes).unwrap(), expect);
        let mut out = Vec::new();
        emit_list(&expect, Version::Of13, &mut out).unwrap();
        assert_eq!(out, bytes);
    }

    #[test]
    fn a_bad_action_within_an_instruction_is_refused() {
        assert!(parse_list(Version::Of13, &[0, 4, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]).is_err());
        assert!(parse_list(Version::Of13, &[0, 4, 0, 16, 0, 0, 0, 0, 0, 24, 0, 16, 0, 0, 0, 0]).is_err());
    }

    #[test]
    fn instructions_of_length_zero_are_refused() {
        assert!(parse_list(Version::Of13, &[0, 5, 0, 0, 0, 0, 0, 0]).is_err());
    }

    #[test]
    fn only_apply_actions_can_be_said_in_1_0() {
        assert!(emit_list(&[Instruction::ClearActions], Version::Of10, &mut Vec::new()).is_err());
        let mut out = Vec::new();
        emit_list(&[Instruction::ApplyActions(vec![Action::output(PortNo(1))])], Version::Of10, &mut out).unwrap();
        assert_eq!(out, [0, 0, 0, 8, 0, 1, 0, 0]);
    }
}
