//! The groups of addresses that entries of a list name, as look-ups.
//!
//! # What
//!
//! An entry from one group of addresses to another stands for a condition for each pair of them. A list does not ask
//! these if it need not. For each field that groups are about it has a table ([`FixedTable`]): addresses that are in
//! the same groups are of one *class*, and the table has the class of each address that is in a group at all. A list
//! first looks up the classes of its packet. Then it asks the entries that are left for these, without their groups. So
//! a switch has a rule for each address, and those of the entries for each combination of classes.
//!
//! # Why it is correct
//!
//! A packet's address is in a group exactly if that is one of the groups of the address's class. What is asked depends
//! on what was found before, and on nothing else.
//!
//! Where a switch can't look a field up, the class of a packet is not known. Then the list asks a condition for each
//! aligned block of addresses of each group that is about this field.
//!
//! # Cost
//!
//! The entries of each combination of classes are kept once packets have asked them. Whoever makes a list sees to it
//! that there are few.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use maple_wire::{Constraint, Field};

use crate::look_ups::{FixedTable, LookUp};
use crate::run::{FixedValue, PacketHandle};
use crate::state::Value;
use crate::trace::{Cond, Source};

/// The maximum number of groups by which a class is called. Chosen: the name stays a word or two.
const MAX_NAMED: usize = 3;

/// The packets of which a field has one of some addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessGroup {
    /// The name, for people.
    pub name: Arc<str>,
    /// The field. Only fields with addresses are looked up.
    pub field: Field,
    /// The addresses, ascending, each once.
    pub addresses: Arc<[u128]>,
}

/// The knowledge of a list about a packet's field: the class of its address, 0 if no group has it.
/// `None`: it has not asked for it, or could not.
pub(super) type KnownClass = Option<u32>;

/// A group of an entry: the indexes of its table and of the group there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct GroupRef {
    table: u32,
    group: u32,
}

/// The tables of a list's groups.
#[derive(Debug, Default)]
pub(super) struct GroupTables {
    tables: Vec<GroupTable>,
    /// The groups that entries name, each combination once.
    named: BTreeSet<Box<[GroupRef]>>,
}

/// The groups that are about one field.
#[derive(Debug)]
struct GroupTable {
    field: Field,
    groups: Vec<Arc<[u128]>>,
    /// Finds the class of an address; `None` for a field that is never looked up.
    look_up: Option<LookUp>,
    numbers: BTreeMap<Value, u32>,
    /// The groups that have the addresses of each class, ascending. The first class has none.
    classes: Vec<Vec<u32>>,
}

impl GroupTables {
    /// Creates the tables of these groups. `list` is the name of the list, for people.
    pub fn new<'a>(list: &str, groups: impl Iterator<Item = &'a AccessGroup>) -> GroupTables {
        let mut by_field: BTreeMap<Field, BTreeMap<&Arc<[u128]>, &str>> = BTreeMap::new();
        for AccessGroup { name, field, addresses } in groups {
            by_field.entry(*field).or_default().entry(addresses).or_insert(name);
        }
        let tables = by_field.into_iter().map(|(field, groups)| GroupTable::new(list, field, groups)).collect();
        GroupTables { tables, named: BTreeSet::new() }
    }

    /// Reports whether there are no groups.
    pub fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }

    /// Returns the look-ups.
    pub fn look_ups(&self) -> impl Iterator<Item = &LookUp> {
        self.tables.iter().filter_map(|table| table.look_up.as_ref())
    }

    /// Returns an entry's groups, which are among those that the tables were made of.
    pub fn of_entry(&mut self, groups: &[AccessGroup]) -> Box<[GroupRef]> {
        let find = |AccessGroup { field, addresses, .. }: &AccessGroup| {
            let table = self.tables.iter().position(|table| table.field == *field)?;
            let group = self.tables[table].groups.binary_search(addresses).ok()?;
            Some(GroupRef { table: table as u32, group: group as u32 })
        };
        let named: Box<[GroupRef]> = groups.iter().filter_map(find).collect();
        if !named.is_empty() {
            self.named.insert(named.clone());
        }
        named
    }

    /// Asks a packet for the classes of its addresses, as far as entries depend on these. `source` is the line that
    /// asks.
    pub fn ask(&self, pkt: &PacketHandle, source: Option<&Source>) -> Box<[KnownClass]> {
        let mut known: Vec<KnownClass> = vec![None; self.tables.len()];
        for (number, table) in self.tables.iter().enumerate() {
            let Some(look_up) = table.look_up.as_ref().filter(|_| self.matters(number, &known)) else { continue };
            known[number] = match pkt.find_fixed(look_up, source.cloned()) {
                FixedValue::Unknown => None,
                FixedValue::Known(None) => Some(0),
                FixedValue::Known(Some(value)) => Some(table.numbers.get(&value).copied().unwrap_or(0)),
            };
        }
        known.into()
    }

    /// Reports whether an entry that may fit depends on a table.
    fn matters(&self, table: usize, known: &[KnownClass]) -> bool {
        let names = |groups: &[GroupRef]| groups.iter().any(|group| group.table as usize == table);
        let may_fit = |groups: &[GroupRef]| groups.iter().all(|group| self.has(*group, known) != Some(false));
        self.named.iter().any(|groups| names(groups) && may_fit(groups))
    }

    /// Reports whether a packet of these classes is in a group; `None` if that is not known.
    fn has(&self, GroupRef { table, group }: GroupRef, known: &[KnownClass]) -> Option<bool> {
        let class = known[table as usize]?;
        Some(self.tables[table as usize].classes[class as usize].binary_search(&group).is_ok())
    }

    /// Returns the conditions that are left of an entry for packets of these classes: one for each combination of
    /// blocks of addresses in groups of which the classes do not say it.
    pub fn left_of(&self, cond: &Cond, groups: &[GroupRef], known: &[KnownClass]) -> Vec<Cond> {
        let mut conds = vec![cond.clone()];
        for group in groups {
            match self.has(*group, known) {
                Some(true) => {}
                Some(false) => return Vec::new(),
                None => {
                    let GroupTable { field, groups, .. } = &self.tables[group.table as usize];
                    let addresses = &groups[group.group as usize];
                    conds = conds.iter().flat_map(|cond| within(cond, *field, addresses)).collect();
                }
            }
        }
        conds
    }
}

impl GroupTable {
    /// Creates the table of the groups that are about a field, each with its name.
    fn new(list: &str, field: Field, groups: BTreeMap<&Arc<[u128]>, &str>) -> GroupTable {
        let names: Vec<&str> = groups.values().copied().collect();
        let groups: Vec<Arc<[u128]>> = groups.into_keys().cloned().collect();
        let mut of_address: BTreeMap<u128, Vec<u32>> = BTreeMap::new();
        for (number, addresses) in (0..).zip(&groups) {
            addresses.iter().for_each(|address| of_address.entry(*address).or_default().push(number));
        }
        let distinct: BTreeSet<&Vec<u32>> = of_address.values().collect();
        let mut values: BTreeMap<&Vec<u32>, Value> = BTreeMap::new();
        let mut numbers = BTreeMap::new();
        for (number, class) in (1..).zip(&distinct) {
            let mut name = class_name(class.iter().map(|group| names[*group as usize]));
            if numbers.contains_key(&Value::from(&*name)) {
                name = format!("{name} ({number})");
            }
            values.insert(class, Value::from(&*name));
            numbers.insert(Value::from(&*name), number);
        }
        let classes = std::iter::once(Vec::new()).chain(distinct.iter().map(|class| (*class).clone())).collect();
        let rows = of_address.iter().map(|(address, groups)| (*address, values[groups].clone()));
        let look_up = LookUp::of_fixed(FixedTable::new(list, rows), field).filter(|_| !of_address.is_empty());
        GroupTable { field, groups, look_up, numbers, classes }
    }
}

/// Returns a name for the addresses that are in exactly these groups.
fn class_name<'a>(groups: impl ExactSizeIterator<Item = &'a str>) -> String {
    let more = groups.len().saturating_sub(MAX_NAMED);
    let named: Vec<&str> = groups.take(MAX_NAMED).collect();
    let named = named.join(" & ");
    if more == 0 { named } else { format!("{named} & {more} more") }
}

/// Restricts a condition to packets of which a field has one of these addresses. Returns a condition for each aligned
/// block of addresses; for each address if the condition has a range of the field.
fn within(cond: &Cond, field: Field, addresses: &[u128]) -> Vec<Cond> {
    let others = || Cond {
        constraints: cond.constraints.iter().filter(|c| c.field != field).copied().collect(),
        ranges: cond.ranges.iter().filter(|r| r.field != field).copied().collect(),
    };
    if let Some(range) = cond.ranges.iter().find(|r| r.field == field) {
        let fits = addresses.iter().filter(|address| range.holds(**address));
        return fits.map(|address| others().and(Constraint::exact(field, *address))).collect();
    }
    let stated = cond.constraints.iter().find(|c| c.field == field).copied();
    let stated = stated.unwrap_or(Constraint { field, value: 0, mask: 0 });
    let agree = |block: &Constraint| (block.value ^ stated.value) & block.mask & stated.mask == 0;
    let both = |Constraint { value, mask, .. }: Constraint| {
        others().and(Constraint { field, value: value | stated.value & stated.mask, mask: mask | stated.mask })
    };
    blocks_of(field, addresses).into_iter().filter(agree).map(both).collect()
}

/// Returns the aligned blocks that ascending addresses form.
fn blocks_of(field: Field, mut addresses: &[u128]) -> Vec<Constraint> {
    let mut blocks = Vec::new();
    while let Some(first) = addresses.first().copied() {
        // The largest block that begins here, all of whose addresses are there.
        let is_there = |bits: &u32| {
            let last = (1_usize << bits) - 1;
            first & last as u128 == 0 && addresses.get(last).is_some_and(|address| *address == first + last as u128)
        };
        let bits = (1..usize::BITS).take_while(is_there).last().unwrap_or(0);
        let size = 1_usize << bits;
        blocks.push(Constraint::masked(field, first, field.full_mask() & !(size as u128 - 1)));
        addresses = &addresses[size..];
    }
    blocks
}
