//! Table-mod: configures a table (1.3 §7.3.3).

use super::bytes::{Put, exactly, u32_at};
use crate::error::Result;

mod offset {
    pub const TABLE_ID: usize = 8;
    pub const CONFIG: usize = 12;
    pub const END: usize = 16;
}

/// Configures a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableMod {
    /// The table; 0xff means all.
    pub table_id: u8,
    /// Bits of `OFPTC_*`. No bit has an effect in 1.3.
    pub config: u32,
}

/// A view of a table-mod.
#[derive(Clone, Copy, Debug)]
pub struct TableModView<'a> {
    bytes: &'a [u8],
}

impl<'a> TableModView<'a> {
    /// Creates a view of the table-mod that takes all of `bytes`, header included.
    ///
    /// # Errors
    /// [`Error::Truncated`](crate::Error::Truncated) or [`Error::BadLength`](crate::Error::BadLength) if `bytes` has
    /// another length.
    pub fn new_checked(bytes: &'a [u8]) -> Result<TableModView<'a>> {
        exactly("table-mod", bytes, offset::END)?;
        Ok(TableModView { bytes })
    }

    /// Returns the table.
    pub fn table_id(&self) -> u8 {
        self.bytes[offset::TABLE_ID]
    }

    /// Returns bits of `OFPTC_*`.
    pub fn config(&self) -> u32 {
        u32_at(self.bytes, offset::CONFIG)
    }
}

impl TableMod {
    /// Reads the owned form.
    pub fn parse(view: &TableModView<'_>) -> TableMod {
        TableMod { table_id: view.table_id(), config: view.config() }
    }

    /// Appends the message without its header.
    ///
    /// # Errors
    /// None; the result is for uniformity with other messages.
    pub fn emit(&self, out: &mut Vec<u8>) -> Result<()> {
        out.put_u8(self.table_id);
        out.put_zeros(3);
        out.put_u32(self.config);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::msg::test::{check, check_truncated, check_unsupported};
    use crate::msg::{Message, Version};

    #[test]
    fn a_table_is_configured() {
        let table_mod = Message::TableMod(TableMod { table_id: 255, config: 3 });
        check(Version::Of13, "04 11 0010 00000001 ff 000000 00000003", table_mod.clone());
        check_truncated("04 11 0010 00000001 ff 000000 00000003");
        check_unsupported(Version::Of10, table_mod);
    }
}
