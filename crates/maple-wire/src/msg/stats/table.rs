//! Statistics of tables (1.0 §5.3.5, 1.3 §7.3.5.4).

use crate::error::Result;
use crate::msg::bytes::{Put, records, u32_at, u64_at};
use crate::msg::{Text, Version};

mod offset {
    pub const TABLE_ID: usize = 0;
}

mod offset10 {
    pub const NAME: usize = 4;
    pub const WILDCARDS: usize = 36;
    pub const MAX_ENTRIES: usize = 40;
    pub const ACTIVE_COUNT: usize = 44;
    pub const LOOKUP_COUNT: usize = 48;
    pub const MATCHED_COUNT: usize = 56;
    pub const END: usize = 64;
}

mod offset13 {
    pub const ACTIVE_COUNT: usize = 4;
    pub const LOOKUP_COUNT: usize = 8;
    pub const MATCHED_COUNT: usize = 16;
    pub const END: usize = 24;
}

/// The length of a table's name in bytes.
const NAME_LEN: usize = 32;

/// The size and the use of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableStats {
    /// The table.
    pub table_id: u8,
    /// The table's name (1.0; in 1.3 table-features contain it).
    pub name: Text,
    /// Bits of `OFPFW_*` that rules may wildcard (1.0).
    pub wildcards: u32,
    /// The maximum number of rules (1.0).
    pub max_entries: u32,
    /// The number of rules.
    pub active_count: u32,
    /// Packets looked up.
    pub lookup_count: u64,
    /// Packets that a rule took.
    pub matched_count: u64,
}

impl TableStats {
    /// Reads the body of a reply.
    pub(super) fn parse_list(version: Version, body: &[u8]) -> Result<Vec<TableStats>> {
        let size = if version == Version::Of10 { offset10::END } else { offset13::END };
        Ok(records("table statistics", body, size)?.map(|bytes| TableStats::parse(version, bytes)).collect())
    }

    fn parse(version: Version, bytes: &[u8]) -> TableStats {
        let table_id = bytes[offset::TABLE_ID];
        match version {
            Version::Of10 => TableStats {
                table_id,
                name: Text::parse(&bytes[offset10::NAME..offset10::WILDCARDS]),
                wildcards: u32_at(bytes, offset10::WILDCARDS),
                max_entries: u32_at(bytes, offset10::MAX_ENTRIES),
                active_count: u32_at(bytes, offset10::ACTIVE_COUNT),
                lookup_count: u64_at(bytes, offset10::LOOKUP_COUNT),
                matched_count: u64_at(bytes, offset10::MATCHED_COUNT),
            },
            Version::Of13 => TableStats {
                table_id,
                name: Text::default(),
                wildcards: 0,
                max_entries: 0,
                active_count: u32_at(bytes, offset13::ACTIVE_COUNT),
                lookup_count: u64_at(bytes, offset13::LOOKUP_COUNT),
                matched_count: u64_at(bytes, offset13::MATCHED_COUNT),
            },
        }
    }

    /// Appends the record. 1.3 leaves out the parts that table-features contain instead.
    pub(super) fn emit(&self, version: Version, out: &mut Vec<u8>) -> Result<()> {
        out.put_u8(self.table_id);
        out.put_zeros(3);
        if version == Version::Of10 {
            self.name.emit(NAME_LEN, out)?;
            out.put_u32(self.wildcards);
            out.put_u32(self.max_entries);
        }
        out.put_u32(self.active_count);
        out.put_u64(self.lookup_count);
        out.put_u64(self.matched_count);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::msg::Message;
    use crate::msg::stats::{ReplyBody, StatsReply};
    use crate::msg::test::{check, check_truncated};

    fn reply(name: &str, wildcards: u32, max_entries: u32) -> Message {
        let table = TableStats {
            table_id: 1,
            name: name.into(),
            wildcards,
            max_entries,
            active_count: 11,
            lookup_count: 9,
            matched_count: 8,
        };
        Message::StatsReply(StatsReply::new(ReplyBody::Table(vec![table])))
    }

    #[test]
    fn tables_have_names_in_1_0_only() {
        let of10 = "01 11 004c 00000001 0003 0000 01 000000
            636c617373696669657200000000000000000000000000000000000000000000
            003fffff 00100000 0000000b 0000000000000009 0000000000000008";
        check(Version::Of10, of10, reply("classifier", 0x3fffff, 0x100000));
        check_truncated(of10);
        let of13 = "04 13 0028 00000001 0003 0000 00000000 01 000000 0000000b 0000000000000009 0000000000000008";
        check(Version::Of13, of13, reply("", 0, 0));
        check_truncated(of13);
    }
}
