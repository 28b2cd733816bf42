//! Look-ups: f asks a table for what it holds at fields of the packet.
//!
//! # What
//!
//! `table[pkt.eth_dst]` is an observation of the table's value, not of the address. So a trace says what the value was,
//! and one leaf serves all packets whose addresses have that value. Trace, tree and compiler need no new idea for this:
//! equal values are a *class*, classes have numbers, and a class number is a part of the packet's metadata. What f asks
//! of a value is a read of these bits.
//!
//! * [`LookUp`]: a table, and the fields whose values are its key.
//! * `Component`: what f asks of a value.
//! * `Classes`: the numbers of the classes of one component.
//! * `Registers`: which bits of the metadata hold which component of which look-up at one switch, and the numbers of
//!   classes.
//! * `SOURCE_IS_HERE`: the bit that says that the packet's host is where the packet came in. The classifier knows that
//!   anyway.
//! * `KeyRules`: the rules in the table of one look-up at one switch. A packet passes these before it comes to the
//!   leaves' rules. They write the class of its key into its metadata.
//!
//! # Why it is correct
//!
//! The number of a class means one value as long as a leaf or a key's rule has it. So a leaf depends on no key: when
//! the value at a key changes, its packets are in another class. A packet that has no key is in class 0, which means
//! that the table lacks it.
//!
//! A packet must not pass rules that were made of different states. `KeyRules` says how.

mod bindings;
mod fixed_table;
mod key_rules;
mod key_ways;
mod registers;
mod value_classes;

#[cfg(test)]
mod tests;

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use maple_wire::Field;
use maple_wire::field::ValueKind;
use serde::{Deserialize, Serialize};

use crate::ids::Name;
use crate::network::Mac;
use crate::state::snooping_tables::LEASES_BY_MAC;
use crate::state::{Cell, CellValue, Snapshot, Value};
use crate::trace::Fields;

pub use fixed_table::FixedTable;
pub(crate) use key_rules::{KeyRules, KeyTarget};
pub(crate) use key_ways::KeyWays;
pub(crate) use registers::{Classified, LookUpNumber, OpenPaths, Registers, SOURCE_IS_HERE, SharedRegisters, lock};

/// The number of bits for the class of a value. Chosen: 65,535 different values are more than most tables have, and
/// three such registers fit the metadata.
const CLASS_BITS: u8 = u16::BITS as u8;
/// The number of bits for the class of a value of a table that never changes and has few values. Chosen: other rows,
/// which take the place of its own, have room for other values beside them.
const FEW_CLASS_BITS: u8 = u8::BITS as u8;

/// The values of the fields of a key, in order.
pub(crate) type KeyBits = Box<[u128]>;

/// A table, and the fields of the packet whose values are its key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LookUp {
    table: LookUpTable,
    fields: Arc<[KeyField]>,
    is_tuple: bool,
}

/// A table that look-ups ask.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum LookUpTable {
    /// A table of the policy's.
    Named(Name),
    /// The locations of hosts, by hardware address.
    Hosts,
    /// A table of what snooping has learned. Slices have no tables of their own in its place.
    Learned(Name),
    /// The pairs of a host's hardware address and an IP address that it announced last.
    Bindings,
    /// The pairs of a host's hardware address and the IPv4 address that DHCP gave it last, at the port where it is.
    Leased,
    /// A table that the policy brings with it and that never changes.
    Fixed(FixedTable),
}

/// A field that is a key of a table, or a part of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct KeyField {
    /// The field. The policy sees its whole value, so it is not `vlan_vid`, of which it sees a part.
    pub field: Field,
    /// The form that its value has in keys of the table.
    pub form: KeyForm,
}

/// The form that the value of a field has in a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum KeyForm {
    /// A number.
    Int,
    /// A hardware address.
    Mac,
    /// An IPv4 address.
    Ipv4,
    /// An IPv6 address.
    Ipv6,
    /// The text of a hardware address, as it is printed.
    MacText,
    /// The text of an IPv4 address, as it is printed.
    Ipv4Text,
    /// The text of an IPv6 address, as it is printed.
    Ipv6Text,
}

/// The part of a looked-up value that f asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) enum Component {
    /// Whether the table has the key.
    Presence,
    /// The whole value.
    Value,
}

impl fmt::Display for LookUp {
    /// Writes text such as `blocked[eth_src]`, `hosts[eth_dst]` or `open[(ipv4_src, tcp_dst)]`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.table {
            LookUpTable::Named(table) | LookUpTable::Learned(table) => write!(f, "{table}[")?,
            LookUpTable::Hosts => f.write_str("hosts[")?,
            LookUpTable::Bindings => write!(f, "{}[", bindings::BINDINGS)?,
            LookUpTable::Leased => write!(f, "{}[", bindings::LEASED)?,
            LookUpTable::Fixed(table) => write!(f, "{}[", table.name())?,
        }
        let fields: Vec<&str> = self.fields().map(Field::name).collect();
        let fields = fields.join(", ");
        if self.is_tuple { write!(f, "({fields})]") } else { write!(f, "{fields}]") }
    }
}

impl KeyField {
    /// Returns the key that a field with an address is; `None` for other fields.
    pub(crate) fn of_address(field: Field) -> Option<KeyField> {
        let form = match field.kind() {
            ValueKind::Mac => KeyForm::Mac,
            ValueKind::Ipv4 => KeyForm::Ipv4,
            ValueKind::Ipv6 => KeyForm::Ipv6,
            _ => return None,
        };
        Some(KeyField { field, form })
    }
}

impl KeyForm {
    /// Returns the value of a field with these bits.
    pub(crate) fn value(self, bits: u128) -> Value {
        match self {
            KeyForm::Int => i128::try_from(bits).map_or(Value::None, Value::Int),
            KeyForm::Mac => Value::Mac(Mac::from_bits(bits)),
            KeyForm::Ipv4 => Value::Ipv4(Ipv4Addr::from_bits(bits as u32)),
            KeyForm::Ipv6 => Value::Ipv6(Ipv6Addr::from_bits(bits)),
            KeyForm::MacText => Value::Str(Mac::from_bits(bits).to_string().into()),
            KeyForm::Ipv4Text => Value::Str(Ipv4Addr::from_bits(bits as u32).to_string().into()),
            KeyForm::Ipv6Text => Value::Str(Ipv6Addr::from_bits(bits).to_string().into()),
        }
    }

    fn bits(self, value: &Value) -> Option<u128> {
        match (self, value) {
            (KeyForm::Int, Value::Int(number)) => u128::try_from(*number).ok(),
            (KeyForm::Mac, Value::Mac(mac)) => Some(mac.bits()),
            (KeyForm::Ipv4, Value::Ipv4(ip)) => Some(u128::from(ip.to_bits())),
            (KeyForm::Ipv6, Value::Ipv6(ip)) => Some(ip.to_bits()),
            // A text that is not as it is printed is the key of no packet.
            (KeyForm::MacText, Value::Str(text)) => {
                text.parse().ok().map(|mac: Mac| mac.bits()).filter(|bits| self.value(*bits) == *value)
            }
            (KeyForm::Ipv4Text, Value::Str(text)) => text.parse().ok().map(|ip: Ipv4Addr| u128::from(ip.to_bits())),
            (KeyForm::Ipv6Text, Value::Str(text)) => {
                text.parse().ok().map(Ipv6Addr::to_bits).filter(|bits| self.value(*bits) == *value)
            }
            _ => None,
        }
    }
}

impl LookUp {
    /// Creates the look-up of a table whose keys are values of a field.
    pub fn by(table: impl Into<Name>, field: KeyField) -> LookUp {
        LookUp { table: LookUpTable::Named(table.into()), fields: [field].into(), is_tuple: false }
    }

    /// Creates the look-up of a table whose keys are tuples of values of these fields.
    pub fn by_tuple(table: impl Into<Name>, fields: impl IntoIterator<Item = KeyField>) -> LookUp {
        let fields = fields.into_iter().collect();
        LookUp { table: LookUpTable::Named(table.into()), fields, is_tuple: true }
    }

    /// Creates the look-up of where the host is whose hardware address a field has.
    pub fn of_host(field: Field) -> LookUp {
        let field = KeyField { field, form: KeyForm::Mac };
        LookUp { table: LookUpTable::Hosts, fields: [field].into(), is_tuple: false }
    }

    /// Creates the look-up of a table that snooping fills, whose keys are addresses.
    pub(crate) fn of_learned(table: &str, field: KeyField) -> LookUp {
        LookUp { table: LookUpTable::Learned(table.into()), fields: [field].into(), is_tuple: false }
    }

    /// Creates the look-up of a table that never changes, by a field with an address. `None` for other fields.
    pub(crate) fn of_fixed(table: FixedTable, field: Field) -> Option<LookUp> {
        let field = KeyField::of_address(field)?;
        Some(LookUp { table: LookUpTable::Fixed(table), fields: [field].into(), is_tuple: false })
    }

    /// Reports whether the table never changes.
    pub(crate) fn is_fixed(&self) -> bool {
        matches!(self.table, LookUpTable::Fixed(_))
    }

    /// Reports whether another look-up is of the same table and field, with other rows and as many bits for classes.
    fn is_succeeded_by(&self, other: &LookUp) -> bool {
        match (&self.table, &other.table) {
            (LookUpTable::Fixed(table), LookUpTable::Fixed(of)) => {
                let is_same = table.name() == of.name() && table.class_bits() == of.class_bits();
                is_same && self.fields == other.fields && table != of
            }
            _ => false,
        }
    }

    /// Returns the number of bits that the classes of a component take.
    fn class_bits(&self, component: Component) -> u8 {
        match (component, &self.table) {
            (Component::Presence, _) => 1,
            (Component::Value, LookUpTable::Fixed(table)) => table.class_bits(),
            (Component::Value, _) => CLASS_BITS,
        }
    }

    /// Returns the table.
    pub fn table(&self) -> &LookUpTable {
        &self.table
    }

    /// Reports whether the table has facts about the network, which are not a slice's own.
    pub(crate) fn is_of_network(&self) -> bool {
        !matches!(self.table, LookUpTable::Named(_) | LookUpTable::Fixed(_))
    }

    /// Reports whether the keys are pairs of addresses, of which f asks whether they belong together.
    pub(crate) fn is_of_pairs(&self) -> bool {
        matches!(self.table, LookUpTable::Bindings | LookUpTable::Leased)
    }

    /// Returns the fields of the key, in order.
    pub fn fields(&self) -> impl Iterator<Item = Field> {
        self.fields.iter().map(|part| part.field)
    }

    /// Returns the same look-up of the table that a slice calls by this look-up's name.
    pub(crate) fn of_table(&self, table: Name) -> LookUp {
        LookUp { table: LookUpTable::Named(table), ..self.clone() }
    }

    /// Returns the key of a packet; `None` if it lacks one of the fields.
    pub(crate) fn key_of<P: Fields + ?Sized>(&self, packet: &P) -> Option<KeyBits> {
        self.fields.iter().map(|part| packet.value(part.field)).collect()
    }

    /// Returns the cell at a key; for a pair of addresses, one that says whose the IP address is.
    pub(crate) fn cell(&self, key: &[u128]) -> Cell {
        let table = match &self.table {
            LookUpTable::Named(table) | LookUpTable::Learned(table) => table.clone(),
            LookUpTable::Fixed(table) => table.name().clone(),
            LookUpTable::Bindings | LookUpTable::Leased => return self.cell_of_pair(key),
            LookUpTable::Hosts => return Cell::HostAt(Mac::from_bits(key.first().copied().unwrap_or_default())),
        };
        let mut parts = self.fields.iter().zip(key).map(|(part, bits)| part.form.value(*bits));
        let key = if self.is_tuple { Value::Tuple(parts.collect()) } else { parts.next().unwrap_or_default() };
        Cell::Table(table, key)
    }

    /// Returns what is found at a key, as the value of a cell. `read` gives the values of the cells on which that
    /// depends.
    pub(crate) fn find(&self, key: &[u128], mut read: impl FnMut(Cell) -> CellValue) -> CellValue {
        match &self.table {
            LookUpTable::Named(_) | LookUpTable::Hosts | LookUpTable::Learned(_) => read(self.cell(key)),
            LookUpTable::Bindings => CellValue::Value(self.binding(key, &mut read)),
            LookUpTable::Leased => CellValue::Value(self.leased(key, &mut read)),
            LookUpTable::Fixed(table) => CellValue::Value(key.first().and_then(|key| table.get(*key)).cloned()),
        }
    }

    /// Returns the key that these bits are, as text.
    pub(crate) fn key_text(&self, key: &[u128]) -> String {
        let parts: Vec<String> =
            self.fields.iter().zip(key).map(|(part, bits)| part.form.value(*bits).to_string()).collect();
        parts.join(", ")
    }

    /// Returns the cells one of which changes when any key's value does.
    pub(crate) fn all_cells(&self) -> Vec<Cell> {
        match &self.table {
            LookUpTable::Named(table) | LookUpTable::Learned(table) => vec![Cell::TableAll(table.clone())],
            LookUpTable::Hosts => vec![Cell::Hosts],
            LookUpTable::Bindings => vec![Cell::Bindings { is_v6: self.is_of_ipv6() }],
            LookUpTable::Leased => vec![Cell::TableAll(LEASES_BY_MAC.into()), Cell::Hosts],
            LookUpTable::Fixed(_) => Vec::new(),
        }
    }

    /// Returns what a state holds for keys that packets can have, in no order.
    pub(crate) fn entries(&self, state: &Snapshot) -> Vec<(KeyBits, Value)> {
        let row = |(key, value): (&Value, &Value)| Some((self.bits_of(key)?, value.clone()));
        match &self.table {
            LookUpTable::Named(table) | LookUpTable::Learned(table) => {
                state.table(table).into_iter().flatten().filter_map(row).collect()
            }
            LookUpTable::Hosts => {
                state.hosts().map(|(mac, host)| ([mac.bits()].into(), Value::Location(host.location))).collect()
            }
            LookUpTable::Bindings | LookUpTable::Leased => self.pairs(state),
            LookUpTable::Fixed(table) => table.rows().map(|(key, value)| ([key].into(), value.clone())).collect(),
        }
    }

    /// Returns what a state holds for the keys that were written since an earlier version of it and that packets can
    /// have, in no order; a key may occur twice. `keys` are those that were there in that version. `None` if the keys
    /// are not known, because there were too many.
    pub(crate) fn written_since<'k>(
        &self,
        state: &Snapshot,
        version: u64,
        keys: impl Iterator<Item = &'k KeyBits>,
    ) -> Option<Vec<(KeyBits, Option<Value>)>> {
        match &self.table {
            LookUpTable::Bindings | LookUpTable::Leased => self.pairs_written_since(state, version, keys),
            LookUpTable::Named(table) | LookUpTable::Learned(table) => {
                let rows = state.table(table)?;
                let row = |key: &Value| Some((self.bits_of(key)?, rows.get(key).cloned()));
                Some(rows.written_since(version)?.filter_map(row).collect())
            }
            LookUpTable::Hosts => {
                let location = |mac: Mac| state.host(mac).map(|host| Value::Location(host.location));
                Some(state.hosts_written_since(version)?.map(|mac| ([mac.bits()].into(), location(mac))).collect())
            }
            LookUpTable::Fixed(_) => Some(Vec::new()),
        }
    }

    /// Returns what a look-up finds in a cell; `None` if it has no value.
    pub(crate) fn value(cell: CellValue) -> Option<Value> {
        match cell {
            CellValue::Value(value) => value,
            CellValue::Location(at) => at.map(Value::Location),
            _ => None,
        }
    }

    /// Returns the value of a cell that holds this.
    pub(crate) fn cell_value(&self, value: Option<Value>) -> CellValue {
        match (&self.table, value) {
            (LookUpTable::Hosts, Some(Value::Location(at))) => CellValue::Location(Some(at)),
            (LookUpTable::Hosts, _) => CellValue::Location(None),
            (_, value) => CellValue::Value(value),
        }
    }

    /// Returns the values of the fields that make this key; `None` if no packet has it.
    fn bits_of(&self, key: &Value) -> Option<KeyBits> {
        let parts = match key {
            Value::Tuple(parts) if self.is_tuple => &parts[..],
            key if !self.is_tuple => std::slice::from_ref(key),
            _ => return None,
        };
        if parts.len() != self.fields.len() {
            return None;
        }
        let bits = |(part, value): (&KeyField, &Value)| {
            part.form.bits(value).filter(|bits| bits & !part.field.full_mask() == 0)
        };
        self.fields.iter().zip(parts).map(bits).collect()
    }
}
