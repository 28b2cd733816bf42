//! OXM entries (1.3 §7.2.3.2): one field of a match, with its value and possibly a mask.

use super::bytes::{Put, at_least, number, u32_at};
use crate::error::{Error, Result};
use crate::field::Field;
use crate::flow::{Constraint, MatchField};

const CLASS_BASIC: u16 = 0x8000;
const HAS_MASK: u32 = 0x100;

mod offset {
    pub const HEADER: usize = 0;
    pub const BODY: usize = 4;
}

/// One entry in place: header and payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OxmEntry<'a> {
    bytes: &'a [u8],
}

impl<'a> OxmEntry<'a> {
    /// Finds the entry at the start of `bytes`.
    ///
    /// # Errors
    /// [`Error::Truncated`] if the entry is cut off, [`Error::BadLength`] if a known field has another length.
    pub fn first(bytes: &'a [u8]) -> Result<OxmEntry<'a>> {
        at_least("OXM entry", bytes, offset::BODY)?;
        let length = offset::BODY + (u32_at(bytes, offset::HEADER) & 0xff) as usize;
        at_least("OXM entry", bytes, length)?;
        let view = OxmEntry { bytes: &bytes[..length] };
        match view.field() {
            Some(field) if view.body().len() != field.bytes() * (1 + usize::from(view.has_mask())) => {
                Err(Error::BadLength { what: field.name(), length: view.body().len() })
            }
            _ => Ok(view),
        }
    }

    /// Returns the number of bytes that the entry takes, header included; 4 or more.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns class (16 bits), field (7 bits), has-mask (1 bit) and payload length (8 bits).
    pub fn header(&self) -> u32 {
        u32_at(self.bytes, offset::HEADER)
    }

    /// Returns the payload: the value, and the mask if there is one.
    pub fn body(&self) -> &'a [u8] {
        &self.bytes[offset::BODY..]
    }

    /// Reports whether a mask follows the value.
    pub fn has_mask(&self) -> bool {
        self.header() & HAS_MASK != 0
    }

    /// Returns the field, if it is one of the 40 of class 0x8000.
    pub fn field(&self) -> Option<Field> {
        field_of(self.header())
    }

    /// Returns the condition that the entry states. `None` if the field is unknown, or if the value has bits outside
    /// its mask or the field, so that no packet could fit.
    pub fn constraint(&self) -> Option<Constraint> {
        let Stated { field, value, mask } = constraint_in(self.header(), self.body())?;
        let mask = mask.unwrap_or(field.full_mask());
        let fits = mask & !field.full_mask() == 0 && value & !mask == 0;
        fits.then_some(Constraint { field, value, mask })
    }

    /// Reads the owned form.
    pub fn to_match_field(self) -> MatchField {
        match self.constraint() {
            Some(constraint) => MatchField::Known(constraint),
            None => MatchField::Unknown { header: self.header(), body: self.body().to_vec() },
        }
    }
}

/// The content of an entry about a known field, whether or not a packet can fit it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stated {
    /// The field.
    pub field: Field,
    /// The value; it may have bits that the field lacks.
    pub value: u128,
    /// The mask, if there is one; it may have bits that the field lacks.
    pub mask: Option<u128>,
}

/// Reads an entry with this header and payload. `None` if the field is not one of the 40 of class 0x8000, or if its
/// length is wrong.
pub fn constraint_in(header: u32, body: &[u8]) -> Option<Stated> {
    let field = field_of(header)?;
    let (value, mask) = body.split_at_checked(field.bytes())?;
    let has_mask = header & HAS_MASK != 0;
    let fits = mask.len() == if has_mask { field.bytes() } else { 0 };
    fits.then(|| Stated { field, value: number(value), mask: has_mask.then(|| number(mask)) })
}

fn field_of(header: u32) -> Option<Field> {
    let class = (header >> 16) as u16;
    Field::from_oxm((header >> 9) as u8 & 0x7f).filter(|_| class == CLASS_BASIC)
}

/// Iterates over entries that lie one after the other; the first error is the last item.
#[derive(Clone, Debug)]
pub(super) struct Entries<'a> {
    rest: &'a [u8],
}

impl<'a> Entries<'a> {
    /// Iterates over the entries in `bytes`.
    pub fn new(bytes: &'a [u8]) -> Entries<'a> {
        Entries { rest: bytes }
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = Result<OxmEntry<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let entry = OxmEntry::first(self.rest);
        self.rest = match entry {
            Ok(entry) => &self.rest[entry.bytes.len()..],
            Err(_) => &[],
        };
        Some(entry)
    }
}

/// Returns the OXM header of a field of class 0x8000, for an entry with or without a mask.
pub const fn header(field: Field, has_mask: bool) -> u32 {
    let length = field.bytes() as u32 * (1 + has_mask as u32);
    (CLASS_BASIC as u32) << 16 | (field.oxm() as u32) << 9 | (has_mask as u32) << 8 | length
}

/// Appends one condition. The mask is left out if all bits count.
pub(super) fn write_constraint(constraint: &Constraint, out: &mut Vec<u8>) {
    let has_mask = !constraint.is_exact();
    out.put_u32(header(constraint.field, has_mask));
    out.put_number(constraint.value, constraint.field.bytes());
    if has_mask {
        out.put_number(constraint.mask, constraint.field.bytes());
    }
}

/// Appends one entry of a match. The payload of an unknown entry must have the length in its header.
pub(super) fn write(entry: &MatchField, out: &mut Vec<u8>) -> Result<()> {
    match entry {
        MatchField::Known(constraint) => write_constraint(constraint, out),
        MatchField::Unknown { header, body } => {
            if (header & 0xff) as usize != body.len() {
                return Err(Error::BadLength { what: "OXM entry", length: body.len() });
            }
            out.put_u32(*header);
            out.put(body);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(bytes: &[u8]) -> OxmEntry<'_> {
        let entry = OxmEntry::first(bytes).unwrap();
        assert_eq!(entry.len(), bytes.len());
        entry
    }

    fn check(bytes: &[u8], expect: MatchField) {
        assert_eq!(whole(bytes).to_match_field(), expect);
        let mut out = Vec::new();
        write(&expect, &mut out).unwrap();
        assert_eq!(out, bytes);
    }

    #[test]
    fn an_exact_value_has_no_mask() {
        check(&[0x80, 0, 0x0a, 2, 8, 0], MatchField::Known(Constraint::exact(Field::EthType, 0x800)));
    }

    #[test]
    fn a_mask_follows_its_value() {
        let constraint = Constraint::masked(Field::Ipv4Src, 0x0a000000, 0xff000000);
        check(&[0x80, 0, 0x17, 8, 10, 0, 0, 0, 255, 0, 0, 0], MatchField::Known(constraint));
    }

    #[test]
    fn every_field_is_read_as_it_was_written() {
        for field in Field::ALL {
            for constraint in [Constraint::exact(field, u128::MAX), Constraint::masked(field, u128::MAX, 1)] {
                let mut out = Vec::new();
                write_constraint(&constraint, &mut out);
                assert_eq!(whole(&out).constraint(), Some(constraint));
            }
        }
    }

    #[test]
    fn experimenter_fields_are_kept() {
        let body = vec![0x4f, 0x4e, 0x46, 0, 10, 0, 1];
        check(&[0xff, 0xff, 0, 7, 0x4f, 0x4e, 0x46, 0, 10, 0, 1], MatchField::Unknown { header: 0xffff0007, body });
    }

    #[test]
    fn a_value_with_bits_that_nothing_can_have_is_kept_as_it_is() {
        // ip_dscp has 6 bits.
        check(&[0x80, 0, 0x10, 1, 0xff], MatchField::Unknown { header: 0x80001001, body: vec![0xff] });
        let says = |value, mask| Some(Stated { field: Field::IpDscp, value, mask });
        assert_eq!(constraint_in(0x8000_1001, &[0xff]), says(0xff, None));
        assert_eq!(constraint_in(0x8000_1102, &[3, 1]), says(3, Some(1)), "a value outside the mask");
        assert_eq!(constraint_in(0x8000_1001, &[1, 2]), None, "another length");
        assert_eq!(constraint_in(0x1234_1001, &[1]), None, "another class");
    }

    #[test]
    fn a_known_field_of_another_length_is_refused() {
        let error = OxmEntry::first(&[0x80, 0, 0x0a, 1, 8]).unwrap_err();
        assert_eq!(error, Error::BadLength { what: "eth_type", length: 1 });
    }
}
