//! Instructions (1.3 §7.2.4). OpenFlow 1.0 has a list of actions instead.

use super::Version;
use super::bytes::{Element, Put, Reader, unsupported};
use super::wire::Wire;
use crate::error::{Error, Result};
use crate::flow::Instruction;

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

impl Wire for Instruction {
    const MIN: [usize; 2] = [8; 2];
    const ELEMENT: Option<Element> = Some(Element { multiple: 8, ..Element::new("instruction", 2) });

    fn read(reader: &mut Reader<'_>) -> Result<Instruction> {
        let (kind, _length) = (reader.u16()?, reader.u16()?);
        // All but these types have four bytes of padding, or a body of their own.
        let padding = |reader: &mut Reader<'_>| reader.take(4).map(|_| ());
        let instruction = match kind {
            kind::GOTO_TABLE => Instruction::GotoTable(reader.array().map(|[table, ..]: [u8; 4]| table)?),
            kind::WRITE_METADATA => {
                padding(reader)?;
                Instruction::WriteMetadata { metadata: reader.u64()?, mask: reader.u64()? }
            }
            kind::WRITE_ACTIONS => padding(reader).and_then(|()| reader.list()).map(Instruction::WriteActions)?,
            kind::APPLY_ACTIONS => padding(reader).and_then(|()| reader.list()).map(Instruction::ApplyActions)?,
            kind::CLEAR_ACTIONS => padding(reader).map(|()| Instruction::ClearActions)?,
            kind::METER => Instruction::Meter(reader.u32()?),
            kind::EXPERIMENTER => Instruction::Experimenter { id: reader.u32()?, body: reader.rest().to_vec() },
            kind => Instruction::Unknown { kind, body: reader.rest().to_vec() },
        };
        reader.end()?;
        Ok(instruction)
    }

    fn write(&self, version: Version, out: &mut Vec<u8>) -> Result<()> {
        out.put_u16(kind_of(self));
        out.put_u16(0);
        match self {
            Instruction::GotoTable(table) => out.put(&[*table, 0, 0, 0]),
            Instruction::WriteMetadata { metadata, mask } => {
                out.put_zeros(4);
                out.put_u64(*metadata);
                out.put_u64(*mask);
            }
            Instruction::WriteActions(actions) | Instruction::ApplyActions(actions) => {
                out.put_zeros(4);
                actions.write(version, out)?;
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
    }
}

/// Reads the instructions of a rule, which are all that remains. In 1.0 it has actions, which are read as one
/// apply-actions (no instruction if there are no actions).
pub(super) fn read_rule(reader: &mut Reader<'_>) -> Result<Vec<Instruction>> {
    match reader.version() {
        Version::Of10 if reader.remaining() == 0 => Ok(Vec::new()),
        Version::Of10 => Ok(vec![Instruction::ApplyActions(reader.list()?)]),
        Version::Of13 => reader.list(),
    }
}

/// Appends the instructions of a rule, in 1.0 its actions.
pub(super) fn write_rule(instructions: &Vec<Instruction>, version: Version, out: &mut Vec<u8>) -> Result<()> {
    match (version, &instructions[..]) {
        (Version::Of13, _) => instructions.write(version, out),
        (Version::Of10, []) => Ok(()),
        (Version::Of10, [Instruction::ApplyActions(actions)]) => actions.write(version, out),
        (Version::Of10, _) => unsupported(version, "instructions other than one apply-actions"),
    }
}

/// Checks that the kept bytes after type and length make the instruction's length a multiple of 8.
fn check_body(length: usize) -> Result<()> {
    if length % 8 == 4 { Ok(()) } else { Err(Error::BadLength { what: "instruction", length }) }
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

    fn read(version: Version, bytes: &[u8]) -> Result<Vec<Instruction>> {
        Reader::new("list", version, bytes).list()
    }

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
        assert_eq!(read(Version::Of13, &bytes).unwrap(), expect);
        let mut out = Vec::new();
        expect.to_vec().write(Version::Of13, &mut out).unwrap();
        assert_eq!(out, bytes);
    }

    #[test]
    fn a_bad_action_within_an_instruction_is_refused() {
        assert!(read(Version::Of13, &[0, 4, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]).is_err());
        assert!(read(Version::Of13, &[0, 4, 0, 16, 0, 0, 0, 0, 0, 24, 0, 16, 0, 0, 0, 0]).is_err());
    }

    #[test]
    fn instructions_of_length_zero_are_refused() {
        assert!(read(Version::Of13, &[0, 5, 0, 0, 0, 0, 0, 0]).is_err());
    }

    #[test]
    fn only_apply_actions_can_be_expressed_in_1_0() {
        assert!(write_rule(&vec![Instruction::ClearActions], Version::Of10, &mut Vec::new()).is_err());
        let mut out = Vec::new();
        write_rule(&vec![Instruction::ApplyActions(vec![Action::output(PortNo(1))])], Version::Of10, &mut out).unwrap();
        assert_eq!(out, [0, 0, 0, 8, 0, 1, 0, 0]);
    }
}
