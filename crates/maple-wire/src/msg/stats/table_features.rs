//! Abilities of tables (1.3 §7.3.5.5).

use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::msg::bytes::{Element, Put, Reader};
use crate::msg::wire::{After, Bytes, Chars, Padded, Wire, layout};
use crate::msg::{Text, Version};

const TABLE: Element = Element::new("table features", 0);
const PROPERTY: Element = Element { pad_to: 8, ..Element::new("table features property", 2) };
const TYPE_ID: Element = Element::new("type id", 2);

/// The class of experimenters' fields (`OFPXMC_EXPERIMENTER`).
const CLASS_EXPERIMENTER: u32 = 0xffff;

layout! {
    /// The abilities of a table.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub struct TableFeatures: TABLE {
        /// The table.
        pub table_id: u8 as After<2, Padded<5>>,
        /// The table's name.
        pub name: Text as Chars<32>,
        /// The bits of metadata that rules can match.
        pub metadata_match: u64,
        /// The bits of metadata that rules can write.
        pub metadata_write: u64,
        /// Bits of `OFPTC_*`.
        pub config: u32,
        /// The maximum number of rules.
        pub max_entries: u32,
        /// The permitted contents of rules.
        pub properties: Vec<TableProperty>,
    }
}

/// A list of permitted contents of rules. Kinds come in pairs, of which the second is about the table-miss rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TableProperty {
    /// Instructions.
    Instructions {
        /// Whether the list is about the table-miss rule.
        miss: bool,
        /// The instructions.
        ids: Vec<TypeId>,
    },
    /// The tables to which rules can lead.
    NextTables {
        /// Whether the list is about the table-miss rule.
        miss: bool,
        /// The tables.
        tables: Vec<u8>,
    },
    /// Actions.
    Actions {
        /// The kind of list, from [`PropertyKind::WRITE_ACTIONS`] to [`PropertyKind::APPLY_ACTIONS_MISS`].
        kind: u16,
        /// The actions.
        ids: Vec<TypeId>,
    },
    /// Fields.
    Fields {
        /// The kind of list, from [`PropertyKind::MATCH`] to [`PropertyKind::APPLY_SET_FIELD_MISS`].
        kind: u16,
        /// The fields.
        ids: Vec<OxmId>,
    },
    /// Any other property, an experimenter's, or one whose content can't be read. It is kept unchanged.
    Unknown {
        /// The number of its type.
        kind: u16,
        /// The bytes after type and length.
        body: Vec<u8>,
    },
}

/// The types of properties (`OFPTFPT_*`).
#[derive(Clone, Copy, Debug)]
pub struct PropertyKind;

impl PropertyKind {
    /// Instructions.
    pub const INSTRUCTIONS: u16 = 0;
    /// Instructions of the table-miss rule.
    pub const INSTRUCTIONS_MISS: u16 = 1;
    /// Next tables.
    pub const NEXT_TABLES: u16 = 2;
    /// Next tables of the table-miss rule.
    pub const NEXT_TABLES_MISS: u16 = 3;
    /// Actions in write-actions.
    pub const WRITE_ACTIONS: u16 = 4;
    /// Actions in write-actions of the table-miss rule.
    pub const WRITE_ACTIONS_MISS: u16 = 5;
    /// Actions in apply-actions.
    pub const APPLY_ACTIONS: u16 = 6;
    /// Actions in apply-actions of the table-miss rule.
    pub const APPLY_ACTIONS_MISS: u16 = 7;
    /// Fields that can be matched.
    pub const MATCH: u16 = 8;
    /// Fields that can be wildcarded.
    pub const WILDCARDS: u16 = 10;
    /// Fields that can be set in write-actions.
    pub const WRITE_SET_FIELD: u16 = 12;
    /// Fields that can be set in write-actions of the table-miss rule.
    pub const WRITE_SET_FIELD_MISS: u16 = 13;
    /// Fields that can be set in apply-actions.
    pub const APPLY_SET_FIELD: u16 = 14;
    /// Fields that can be set in apply-actions of the table-miss rule.
    pub const APPLY_SET_FIELD_MISS: u16 = 15;
}

layout! {
    /// The type of an action or instruction.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub struct TypeId: TYPE_ID {
        /// `OFPAT_*` or `OFPIT_*`.
        pub kind: u16 as Padded<2>,
        /// The bytes after type and length: nothing or padding; an experimenter's id.
        pub body: Vec<u8> as Bytes,
    }
}

/// The type of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OxmId {
    /// The OXM header. Its mask bit is set if the field can be masked.
    pub header: u32,
    /// The experimenter's id in class 0xffff.
    pub experimenter: Option<u32>,
}

impl TableProperty {
    /// Returns the type, `OFPTFPT_*`.
    pub fn kind(&self) -> u16 {
        match self {
            TableProperty::Instructions { miss, .. } => PropertyKind::INSTRUCTIONS + u16::from(*miss),
            TableProperty::NextTables { miss, .. } => PropertyKind::NEXT_TABLES + u16::from(*miss),
            TableProperty::Actions { kind, .. }
            | TableProperty::Fields { kind, .. }
            | TableProperty::Unknown { kind, .. } => *kind,
        }
    }
}

impl Wire for TableProperty {
    const MIN: [usize; 2] = [4; 2];
    const ELEMENT: Option<Element> = Some(PROPERTY);

    fn read(reader: &mut Reader<'_>) -> Result<TableProperty> {
        let (kind, _length) = (reader.u16()?, reader.u16()?);
        let miss = kind & 1 != 0;
        Ok(match kind {
            PropertyKind::INSTRUCTIONS | PropertyKind::INSTRUCTIONS_MISS => {
                TableProperty::Instructions { miss, ids: reader.list()? }
            }
            PropertyKind::NEXT_TABLES | PropertyKind::NEXT_TABLES_MISS => {
                TableProperty::NextTables { miss, tables: reader.rest().to_vec() }
            }
            PropertyKind::WRITE_ACTIONS..=PropertyKind::APPLY_ACTIONS_MISS => {
                TableProperty::Actions { kind, ids: reader.list()? }
            }
            PropertyKind::MATCH
            | PropertyKind::WILDCARDS
            | PropertyKind::WRITE_SET_FIELD..=PropertyKind::APPLY_SET_FIELD_MISS => {
                TableProperty::Fields { kind, ids: reader.list()? }
            }
            kind => TableProperty::Unknown { kind, body: reader.rest().to_vec() },
        })
    }

    fn write(&self, version: Version, out: &mut Vec<u8>) -> Result<()> {
        out.put_u16(self.kind());
        out.put_u16(0);
        match self {
            TableProperty::Instructions { ids, .. } | TableProperty::Actions { ids, .. } => ids.write(version, out)?,
            TableProperty::NextTables { tables, .. } => out.put(tables),
            TableProperty::Fields { ids, .. } => ids.write(version, out)?,
            TableProperty::Unknown { body, .. } => out.put(body),
        }
        Ok(())
    }
}

/// An id has 4 bytes, or 8 with an experimenter.
impl Wire for OxmId {
    const MIN: [usize; 2] = [4; 2];

    fn read(reader: &mut Reader<'_>) -> Result<OxmId> {
        reader.call("OXM id");
        let header = reader.u32()?;
        let experimenter = if header >> 16 == CLASS_EXPERIMENTER { Some(reader.u32()?) } else { None };
        Ok(OxmId { header, experimenter })
    }

    fn write(&self, _: Version, out: &mut Vec<u8>) -> Result<()> {
        out.put_u32(self.header);
        if let Some(id) = self.experimenter {
            out.put_u32(id);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::msg::Message;
    use crate::msg::stats::{ReplyBody, RequestBody, StatsReply, StatsRequest};
    use crate::msg::test::{check, hex};

    fn table(properties: Vec<TableProperty>) -> TableFeatures {
        TableFeatures {
            table_id: 1,
            name: "t1".into(),
            metadata_match: 0xff,
            metadata_write: 0xf0,
            config: 3,
            max_entries: 1000,
            properties,
        }
    }

    const FIXED: &str = "01 0000000000 7431000000000000000000000000000000000000000000000000000000000000
        00000000000000ff 00000000000000f0 00000003 000003e8";

    #[test]
    fn properties_of_all_kinds_are_read_and_padded() {
        let short = |kind| TypeId { kind, body: vec![] };
        let properties = vec![
            TableProperty::Instructions { miss: false, ids: vec![short(1), TypeId { kind: 4, body: vec![0; 4] }] },
            TableProperty::NextTables { miss: true, tables: vec![2, 3, 4] },
            TableProperty::Actions { kind: PropertyKind::APPLY_ACTIONS, ids: vec![short(0)] },
            TableProperty::Fields {
                kind: PropertyKind::MATCH,
                ids: vec![
                    OxmId { header: 0x80000004, experimenter: None },
                    OxmId { header: 0xffff0108, experimenter: Some(0x4f4e4600) },
                ],
            },
            TableProperty::Unknown { kind: 0xfffe, body: hex("00000009 00000001 aa") },
        ];
        let bytes = format!(
            "04 13 0090 00000001 000c 0000 00000000 0080 {FIXED}
             0000 0010 0001 0004 0004 0008 00000000
             0003 0007 020304 00
             0006 0008 0000 0004
             0008 0010 80000004 ffff0108 4f4e4600
             fffe 000d 00000009 00000001 aa 000000
             "
        );
        let reply = Message::StatsReply(StatsReply::new(ReplyBody::TableFeatures(vec![table(properties)])));
        check(Version::Of13, &bytes, reply);
    }

    #[test]
    fn a_request_may_set_features() {
        let bytes = format!("04 12 0050 00000001 000c 0001 00000000 0040 {FIXED}");
        let request = StatsRequest { flags: 1, body: RequestBody::TableFeatures(vec![table(vec![])]) };
        check(Version::Of13, &bytes, Message::StatsRequest(request));
    }

    #[test]
    fn tables_properties_and_ids_of_length_zero_are_refused() {
        for (length, property) in [
            ("0000", "0000 0004 00000000"),
            ("0048", "0000 0000 00000000"),
            ("0048", "0000 0008 0001 0000"),
            ("0048", "0008 0006 8000 0000"),
            ("0048", "0008 0008 ffff0004"),
        ] {
            let bytes = hex(&format!("04 13 0058 00000001 000c 0000 00000000 {length} {FIXED} {property}"));
            assert!(Message::decode(&bytes).is_err(), "{length} {property}");
        }
    }
}
