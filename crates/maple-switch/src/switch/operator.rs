//! The changes that an operator makes at a running switch: the version that it speaks, its room, and rules that come
//! from no controller.

use maple_wire::Version;

use super::{Switch, SwitchOptions, Table};

impl Switch {
    /// Returns the options.
    pub fn options(&self) -> SwitchOptions {
        self.options
    }

    /// Changes the options. Rules that the switch has stay, also those that it would refuse now, and tables that were
    /// used keep their sizes.
    pub fn change_options(&mut self, change: impl FnOnce(&mut SwitchOptions)) {
        change(&mut self.options);
    }

    /// Sets the maximum number of rules of a table. Rules that it has stay.
    pub fn set_table_size(&mut self, table: u8, rules: usize) {
        self.table_mut(table).set_capacity(rules);
    }

    /// Lets the switch speak another version: connections end, and rules stay, as in a bridge of Open vSwitch that has
    /// both versions.
    pub fn speak(&mut self, version: Version) {
        self.version = version;
        self.connections.clear();
    }

    /// Returns a table, to change its rules without checks, messages and the limit of all tables together.
    pub fn table_mut(&mut self, table: u8) -> &mut Table {
        self.make_room(table);
        &mut self.tables[usize::from(table)]
    }

    /// Returns the number of tables, 1 to 254.
    pub fn n_tables(&self) -> u8 {
        if self.version == Version::Of10 { 1 } else { self.options.n_tables.clamp(1, 254) }
    }

    /// Reports whether the tables together hold no further rule.
    pub(super) fn is_full(&self) -> bool {
        self.options.capacity < usize::MAX && self.tables.iter().map(Table::len).sum::<usize>() >= self.options.capacity
    }
}
