//! Statistics of tables (1.0 §5.3.5, 1.3 §7.3.5.4).

use serde::{Deserialize, Serialize};

use crate::msg::Text;
use crate::msg::wire::{Chars, Only10, Padded, layout};

layout! {
    /// The size and the use of a table. 1.3 leaves out the parts that table-features contain instead.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub struct TableStats {
        /// The table.
        pub table_id: u8 as Padded<3>,
        /// The table's name (1.0; in 1.3 table-features contain it).
        pub name: Text as Only10<Chars<32>>,
        /// Bits of `OFPFW_*` that rules may wildcard (1.0).
        pub wildcards: u32 as Only10,
        /// The maximum number of rules (1.0).
        pub max_entries: u32 as Only10,
        /// The number of rules.
        pub active_count: u32,
        /// Packets looked up.
        pub lookup_count: u64,
        /// Packets that a rule took.
        pub matched_count: u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::msg::Message;
    use crate::msg::Version;
    use crate::msg::stats::{ReplyBody, StatsReply};
    use crate::msg::test::check;

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
        let of13 = "04 13 0028 00000001 0003 0000 00000000 01 000000 0000000b 0000000000000009 0000000000000008";
        check(Version::Of13, of13, reply("", 0, 0));
    }
}
