//! Statistics and features of tables.
//!
//! A table that is like the one before is not printed again: it is `ditto`.

use std::fmt::{self, Write};

use super::action::field_name;
use super::value::EscapedText;
use crate::field::Field;
use crate::msg::Version;
use crate::msg::stats::{OxmId, PropertyKind, TableFeatures, TableProperty, TableStats, TypeId};

/// Prints the sizes of the tables, and their use.
pub(super) fn statistics(out: &mut String, version: Version, tables: &[TableStats]) -> fmt::Result {
    let mut same = Ditto::default();
    let mut before: Option<&TableStats> = None;
    for table in tables {
        let counters = |t: &TableStats| (t.active_count, t.lookup_count, t.matched_count);
        let same_counters = before.is_some_and(|b| counters(b) == counters(table));
        let same_features =
            before.is_some_and(|b| (b.wildcards, b.max_entries) == (table.wildcards, table.max_entries));
        before = Some(table);
        if !same.heading(out, table.table_id, &table.name.0, same_counters && same_features)? {
            continue;
        }
        let TableStats { active_count, lookup_count, matched_count, .. } = table;
        write!(out, "\n active={active_count}, lookup={lookup_count}, matched={matched_count}")?;
        if version == Version::Of10 {
            features_of10(out, table, same_features)?;
        }
    }
    same.finish(out)
}

/// Prints the parts of OpenFlow 1.0's report about a table other than counters.
fn features_of10(out: &mut String, table: &TableStats, same: bool) -> fmt::Result {
    let fields: Vec<&str> =
        WILDCARDS.iter().filter(|(bits, _)| table.wildcards & bits != 0).map(|(_, name)| *name).collect();
    if same {
        return if fields.is_empty() && table.max_entries == 0 { Ok(()) } else { out.write_str("\n (same features)") };
    }
    if table.max_entries != 0 {
        write!(out, "\n max_entries={}", table.max_entries)?;
    }
    if !fields.is_empty() {
        write!(out, "\n matching:\n exact match or wildcard: {}", compress(&fields))?;
    }
    Ok(())
}

/// Bits of `OFPFW_*`, and their fields.
const WILDCARDS: [(u32, &str); 12] = [
    (1, "in_port"),
    (1 << 2, "eth_src"),
    (1 << 3, "eth_dst"),
    (1 << 4, "eth_type"),
    (1 << 1, "vlan_vid"),
    (1 << 20, "vlan_pcp"),
    (0x3f << 8, "ip_src"),
    (0x3f << 14, "ip_dst"),
    (1 << 5, "nw_proto"),
    (1 << 21, "nw_tos"),
    (1 << 6, "tcp_src"),
    (1 << 7, "tcp_dst"),
];

/// Prints the abilities of the tables.
pub(super) fn features(out: &mut String, tables: &[TableFeatures]) -> fmt::Result {
    let mut same = Ditto::default();
    let mut before: Option<&TableFeatures> = None;
    for table in tables {
        let is_same = before.is_some_and(|before| is_alike(before, table));
        before = Some(table);
        if same.heading(out, table.table_id, &table.name.0, is_same)? {
            table_features(out, table)?;
        }
    }
    same.finish(out)
}

/// Reports whether the tables differ only in their number, their name and the tables after them.
fn is_alike(a: &TableFeatures, b: &TableFeatures) -> bool {
    let numbers = |t: &TableFeatures| (t.metadata_match, t.metadata_write, t.config, t.max_entries);
    let properties = |t: &TableFeatures| -> Vec<TableProperty> {
        t.properties.iter().filter(|p| !matches!(p, TableProperty::NextTables { .. })).cloned().collect()
    };
    numbers(a) == numbers(b) && properties(a) == properties(b)
}

fn table_features(out: &mut String, table: &TableFeatures) -> fmt::Result {
    if table.metadata_match != 0 || table.metadata_write != 0 {
        write!(out, "\n metadata: match={:#x} write={:#x}", table.metadata_match, table.metadata_write)?;
    }
    if table.config != 0 {
        write!(out, "\n config={:#x}", table.config)?;
    }
    if table.max_entries != 0 {
        write!(out, "\n max_entries={}", table.max_entries)?;
    }
    table.properties.iter().try_for_each(|one| property(out, one))
}

fn property(out: &mut String, property: &TableProperty) -> fmt::Result {
    match property {
        TableProperty::Instructions { miss, ids } => {
            write!(out, "\n instructions{}: {}", on_miss(*miss), type_names(ids, &INSTRUCTIONS))
        }
        TableProperty::NextTables { miss, tables } => {
            write!(out, "\n next tables{}: {}", on_miss(*miss), ranges(tables))
        }
        TableProperty::Actions { kind, ids } => {
            write!(out, "\n {}: {}", list_name(*kind), type_names(ids, &ACTIONS))
        }
        TableProperty::Fields { kind, ids } => {
            let names: Vec<String> = ids.iter().map(oxm_name).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            write!(out, "\n {}: {}", list_name(*kind), compress(&names))
        }
        TableProperty::Unknown { kind, body } => write!(out, "\n property({kind},0x{})", super::value::HexBytes(body)),
    }
}

fn on_miss(miss: bool) -> &'static str {
    if miss { " (table miss)" } else { "" }
}

fn list_name(kind: u16) -> String {
    let name = match kind & !1 {
        PropertyKind::WRITE_ACTIONS => "Write-Actions actions",
        PropertyKind::APPLY_ACTIONS => "Apply-Actions actions",
        PropertyKind::WRITE_SET_FIELD => "Write-Actions supported on Set-Field",
        PropertyKind::APPLY_SET_FIELD => "Apply-Actions supported on Set-Field",
        PropertyKind::MATCH => "matching",
        PropertyKind::WILDCARDS => "wildcards",
        _ => return format!("fields({kind})"),
    };
    // The wildcards of the table-miss rule have no number of their own, and neither has its match.
    let miss = kind & 1 != 0 && !matches!(kind & !1, PropertyKind::MATCH | PropertyKind::WILDCARDS);
    format!("{name}{}", on_miss(miss))
}

const INSTRUCTIONS: [(u16, &str); 6] = [
    (1, "goto_table"),
    (2, "write_metadata"),
    (3, "write_actions"),
    (4, "apply_actions"),
    (5, "clear_actions"),
    (6, "meter"),
];

/// Types of actions and their names, in the order of Open vSwitch.
pub(super) const ACTIONS: [(u16, &str); 16] = [
    (0, "output"),
    (22, "group"),
    (25, "set_field"),
    (18, "strip_vlan"),
    (17, "push_vlan"),
    (23, "mod_nw_ttl"),
    (24, "dec_ttl"),
    (15, "set_mpls_ttl"),
    (16, "dec_mpls_ttl"),
    (19, "push_mpls"),
    (20, "pop_mpls"),
    (21, "set_queue"),
    (11, "copy_ttl_out"),
    (12, "copy_ttl_in"),
    (26, "push_pbb"),
    (27, "pop_pbb"),
];

fn type_names(ids: &[TypeId], known: &[(u16, &'static str)]) -> String {
    let name = |id: &TypeId| match known.iter().find(|(kind, _)| *kind == id.kind) {
        Some((_, name)) => (*name).to_owned(),
        None if id.body.is_empty() => format!("type({})", id.kind),
        None => format!("type({},0x{})", id.kind, super::value::HexBytes(&id.body)),
    };
    if ids.is_empty() { "(none)".to_owned() } else { ids.iter().map(name).collect::<Vec<_>>().join(" ") }
}

fn oxm_name(id: &OxmId) -> String {
    let (class, number) = (id.header >> 16, (id.header >> 9 & 0x7f) as u8);
    match Field::from_oxm(number).filter(|_| class == 0x8000) {
        Some(field) => field_name(field).to_owned(),
        None => format!("oxm(0x{class:04x},{number})"),
    }
}

/// Returns table numbers as text. A run of them is printed as first and last.
fn ranges(tables: &[u8]) -> String {
    let mut runs: Vec<(u8, u8)> = Vec::new();
    for &table in tables {
        match runs.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(table) => *last = table,
            _ => runs.push((table, table)),
        }
    }
    let text = |(first, last): &(u8, u8)| if first == last { first.to_string() } else { format!("{first}-{last}") };
    if runs.is_empty() { "(none)".to_owned() } else { runs.iter().map(text).collect::<Vec<_>>().join(",") }
}

/// Joins names with spaces. Neighbours that begin in the same way share the part before their first underscore, as in
/// `eth_{src,dst}`.
fn compress(names: &[&str]) -> String {
    let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
    for name in names {
        match (name.split_once('_'), groups.last_mut()) {
            (Some((prefix, rest)), Some((last, rests))) if *last == prefix => rests.push(rest),
            (Some((prefix, rest)), _) => groups.push((prefix, vec![rest])),
            (None, _) => groups.push((name, Vec::new())),
        }
    }
    let text = |(prefix, rests): &(&str, Vec<&str>)| match rests.as_slice() {
        [] => (*prefix).to_owned(),
        [rest] => format!("{prefix}_{rest}"),
        rests => format!("{prefix}_{{{}}}", rests.join(",")),
    };
    groups.iter().map(text).collect::<Vec<_>>().join(" ")
}

/// The tables that are like the one before them, and are not printed yet.
#[derive(Default)]
struct Ditto {
    range: Option<(u8, u8)>,
}

impl Ditto {
    /// Writes the heading of a table. Returns whether its content must follow.
    fn heading(&mut self, out: &mut String, table: u8, name: &[u8], same: bool) -> Result<bool, fmt::Error> {
        if same && name.is_empty() {
            self.range = Some((self.range.map_or(table, |(first, _)| first), table));
            return Ok(false);
        }
        self.finish(out)?;
        self.range = None;
        write!(out, "\n  table {table}")?;
        if !name.is_empty() {
            write!(out, " (\"{}\")", EscapedText(name))?;
        }
        out.write_str(if same { ": ditto" } else { ":" })?;
        Ok(!same)
    }

    /// Prints the tables that are not printed yet.
    fn finish(&self, out: &mut String) -> fmt::Result {
        match self.range {
            None => Ok(()),
            Some((first, last)) if first == last => write!(out, "\n  table {first}: ditto"),
            Some((first, last)) => write!(out, "\n  tables {first}...{last}: ditto"),
        }
    }
}
