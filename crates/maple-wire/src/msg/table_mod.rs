//! Table-mod: configures a table (1.3 §7.3.3).

use super::wire::{Padded, layout};

layout! {
    /// Configures a table.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct TableMod {
        /// The table; 0xff means all.
        pub table_id: u8 as Padded<3>,
        /// Bits of `OFPTC_*`. No bit has an effect in 1.3.
        pub config: u32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::msg::test::{check, check_unsupported};
    use crate::msg::{Message, Version};

    #[test]
    fn a_table_is_configured() {
        let table_mod = Message::TableMod(TableMod { table_id: 255, config: 3 });
        check(Version::Of13, "04 11 0010 00000001 ff 000000 00000003", table_mod.clone());
        check_unsupported(Version::Of10, table_mod);
    }
}
