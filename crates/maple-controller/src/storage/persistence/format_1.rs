//! State files of format 1, whose rows are JSON. Such a file is read once, and written again in today's format.

use maple_core::memory::{ReadMetadata, RememberedLabel, Surroundings, SwitchModel, Witness};
use maple_core::network::{HostInfo, Location, Mac};
use maple_core::state::Write;
use maple_wire::{Constraint, Dpid, Field, PortNo, Version};
use redb::{Database, ReadTransaction, ReadableTable, TableDefinition, WriteTransaction};
use serde::Deserialize;
use serde_json::Value;

use super::state_file::{Contents, put_rows};
use crate::storage::late_database::DatabaseError;
use crate::storage::remember::{self, RUN};
use crate::storage::state_json::from_json;

/// The number of this format. A file without a number has it too.
pub(super) const FORMAT: &str = "1";

const ROWS: TableDefinition<'_, &str, &str> = TableDefinition::new("maple state");
const LEAVES: TableDefinition<'_, u64, &str> = TableDefinition::new("maple leaves");
/// The keys, in [`RUN`], of the format of leaves and surroundings, and of the surroundings.
const FORMAT_OF_LEAVES: &str = "format";
const SURROUNDINGS: &str = "surroundings";

/// Leaves by their rows, and surroundings.
type Known = (Vec<(u64, Witness)>, Surroundings);
/// A port: datapath id and number.
type Port = (u64, u32);

#[derive(Deserialize)]
struct WitnessRow {
    at: Port,
    /// The bytes in hexadecimal digits.
    frame: String,
    total_len: usize,
    /// The specialisation: the number of a field, value and mask of each part.
    narrower: Vec<(u8, u128, u128)>,
}

#[derive(Deserialize)]
struct SurroundingsRow {
    links: Vec<(Port, Port)>,
    edges: Vec<Port>,
    hosts: Vec<(u64, Port, Vec<std::net::Ipv4Addr>, Vec<std::net::Ipv6Addr>)>,
    /// Switch, arrival port, id, meaning.
    labels: Vec<(u64, Option<u32>, u16, u64)>,
    /// Switch, OpenFlow version, tables, whether it is Open vSwitch, whether it has bundles.
    #[serde(default)]
    models: Vec<(u64, u8, u8, bool, bool)>,
}

/// Reads the tables and variables. The error is a row that can't be read.
pub(super) fn writes(transaction: &ReadTransaction) -> Result<Result<Vec<Write>, String>, DatabaseError> {
    let mut writes = Vec::new();
    for row in transaction.open_table(ROWS)?.iter()? {
        let (key, value) = row?;
        match write(key.value(), value.value()) {
            Some(write) => writes.push(write),
            None => return Ok(Err(key.value().to_owned())),
        }
    }
    Ok(Ok(writes))
}

/// Writes a file of this format again, with these contents, in today's format.
pub(super) fn rewrite(database: &Database, contents: &Contents) -> Result<(), DatabaseError> {
    let transaction = database.begin_write()?;
    let known = remembered(&transaction)?;
    transaction.delete_table(ROWS)?;
    transaction.delete_table(LEAVES)?;
    put_rows(&transaction, &contents.writes)?;
    remember::put_formats(&transaction)?;
    if let Some((leaves, surroundings)) = known {
        remember::put_all(&transaction, &leaves, surroundings)?;
    }
    transaction.commit()?;
    Ok(())
}

/// Reads the leaves and surroundings; `None` if they are of another format. Damaged rows are left out.
fn remembered(transaction: &WriteTransaction) -> Result<Option<Known>, DatabaseError> {
    let mut run = transaction.open_table(RUN)?;
    if run.get(FORMAT_OF_LEAVES)?.is_some_and(|format| format.value() != FORMAT) {
        return Ok(None);
    }
    let text = run.remove(SURROUNDINGS)?.map(|row| row.value().to_owned());
    let row: Option<SurroundingsRow> = text.and_then(|text| serde_json::from_str(&text).ok());
    let mut leaves = Vec::new();
    for row in transaction.open_table(LEAVES)?.iter()? {
        let (key, value) = row?;
        let row = serde_json::from_str::<WitnessRow>(value.value()).ok();
        leaves.extend(row.and_then(witness).map(|witness| (key.value(), witness)));
    }
    Ok(Some((leaves, row.map(surroundings).unwrap_or_default())))
}

fn write(row: &str, value: &str) -> Option<Write> {
    let place: Value = serde_json::from_str(row).ok()?;
    let value = Some(from_json(&serde_json::from_str(value).ok()?).ok()?);
    match place.as_array()?.as_slice() {
        [name] => Some(Write::Var { name: name.as_str()?.into(), value }),
        [table, key] => Some(Write::Table { table: table.as_str()?.into(), key: from_json(key).ok()?, value }),
        _ => None,
    }
}

fn location((switch, port): Port) -> Location {
    Location::new(Dpid(switch), PortNo(port))
}

fn witness(row: WitnessRow) -> Option<Witness> {
    let part = |(field, value, mask)| Some(Constraint { field: Field::from_oxm(field)?, value, mask });
    Some(Witness {
        at: location(row.at),
        frame: hex::decode(row.frame).ok()?.into(),
        total_len: row.total_len,
        extra_reads: row.narrower.into_iter().map(part).collect::<Option<_>>()?,
        metadata: ReadMetadata::default(),
        is_made_up: false,
    })
}

fn surroundings(row: SurroundingsRow) -> Surroundings {
    let host = |(mac, at, v4, v6): (u64, Port, Vec<_>, Vec<_>)| {
        let (ipv4, ipv6) = (v4.into_iter().collect(), v6.into_iter().collect());
        (Mac::from_bits(mac.into()), HostInfo { location: location(at), ipv4, ipv6 })
    };
    let label = |(switch, port, id, meaning): (u64, Option<u32>, u16, u64)| RememberedLabel {
        switch: Dpid(switch),
        port: port.map(PortNo),
        id,
        meaning,
    };
    let model = |(dpid, version, tables, is_open_vswitch, has_bundles)| {
        Some((Dpid(dpid), SwitchModel { version: Version::from_wire(version)?, tables, is_open_vswitch, has_bundles }))
    };
    Surroundings {
        links: row.links.into_iter().map(|(a, b)| (location(a), location(b))).collect(),
        edges: row.edges.into_iter().map(location).collect(),
        hosts: row.hosts.into_iter().map(host).collect(),
        labels: row.labels.into_iter().map(label).collect(),
        models: row.models.into_iter().filter_map(model).collect(),
        look_ups: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use maple_core::state::{Snapshot, Value};

    use super::super::place::StateFile;
    use super::super::state_file::{NAMES, convert_to_types, open_existing};
    use super::*;

    /// Writes a file as the versions with format 1 did. `formats` are the rows about formats.
    fn old_file(path: &std::path::Path, formats: &[(&str, &str)]) {
        let database = Database::create(path).expect("a file");
        let transaction = database.begin_write().expect("a transaction");
        let mut rows = transaction.open_table(ROWS).expect("a table");
        rows.insert(r#"["blocked",{"mac":"00:00:00:00:00:07"}]"#, "true").expect("a row");
        rows.insert(r#"["mode"]"#, r#"[1,{"bytes":"00ff"},{"float":"NaN"}]"#).expect("a row");
        drop(rows);
        transaction.open_table(NAMES).expect("a table").insert("blocked", ()).expect("a row");
        let witness = r#"{"at":[1,4294967294],"frame":"0001feff","total_len":1514,"narrower":[[27,6,14]]}"#;
        let mut leaves = transaction.open_table(LEAVES).expect("a table");
        leaves.insert(7 << 48 | 5, witness).expect("a row");
        leaves.insert(7 << 48 | 6, r#"{"at":[1,1],"frame":"0","total_len":1,"narrower":[]}"#).expect("a row");
        drop(leaves);
        let around = r#"{"links":[[[1,2],[9,3]]],"edges":[[1,1]],"hosts":[[2199023255807,[1,1],["10.0.0.1"],["::1"]]],
            "labels":[[1,2,4094,18446744073709551615],[1,null,1,2]],"models":[[1,1,3,false,true]]}"#;
        let mut run = transaction.open_table(RUN).expect("a table");
        for (key, value) in [("epoch", "7"), ("surroundings", around)].iter().chain(formats) {
            run.insert(*key, *value).expect("a row");
        }
        drop(run);
        transaction.commit().expect("it is written");
    }

    fn known() -> (Witness, Surroundings) {
        let at = |switch, port| Location::new(Dpid(switch), PortNo(port));
        let narrower = Constraint { field: Field::Ipv6Dst, value: 6, mask: 14 };
        let frame = [0, 1, 0xfe, 0xff].into();
        let witness = Witness {
            at: at(1, 4_294_967_294),
            frame,
            total_len: 1514,
            extra_reads: [narrower].into(),
            metadata: ReadMetadata::default(),
            is_made_up: false,
        };
        let host = HostInfo {
            location: at(1, 1),
            ipv4: [[10, 0, 0, 1].into()].into(),
            ipv6: [std::net::Ipv6Addr::LOCALHOST].into(),
        };
        let label = |port, id, meaning| RememberedLabel { switch: Dpid(1), port, id, meaning };
        let model = SwitchModel { version: Version::Of10, tables: 3, is_open_vswitch: false, has_bundles: true };
        let around = Surroundings {
            links: vec![(at(1, 2), at(9, 3))],
            edges: vec![at(1, 1)],
            hosts: vec![(Mac([2, 0, 0, 0, 0, 0xff]), host)],
            labels: vec![label(Some(PortNo(2)), 4094, u64::MAX), label(None, 1, 2)],
            models: vec![(Dpid(1), model)],
            look_ups: Vec::new(),
        };
        (witness, around)
    }

    #[test]
    fn a_file_of_the_format_before_is_read_once_and_rewritten() {
        // The first versions did not write the formats.
        for formats in [&[("format", "1"), ("rows", "1")][..], &[]] {
            let folder = tempfile::tempdir().expect("a folder");
            let path = folder.path().join("state");
            old_file(&path, formats);
            let expected = {
                let mac = Value::Mac(Mac([0, 0, 0, 0, 0, 7]));
                let parts = [1.into(), Value::Bytes([0, 255].into()), Value::Float(f64::NAN.into())];
                let mode = Write::Var { name: "mode".into(), value: Some(Value::Tuple(parts.into())) };
                [Write::Table { table: "blocked".into(), key: mac, value: Some(true.into()) }, mode]
            };
            for (round, is_old) in [(0, true), (1, false)] {
                let (database, mut contents) = open_existing(&StateFile::new(&path)).expect("it can be read");
                let mut found = contents.writes.clone();
                found.sort_by_key(|write| matches!(write, Write::Var { .. }));
                assert_eq!((found.as_slice(), contents.is_old), (&expected[..], is_old), "{round}");
                assert_eq!(contents.names, ["blocked".into()]);
                convert_to_types(&path, &database, &mut contents, &Snapshot::default()).expect("any type");
                let Ok(remembered) = remember::begin(&database) else { panic!("it can be read") };
                let (witness, around) = known();
                let switch = &remembered.switches[&Dpid(1)];
                assert_eq!((&switch.leaves[..], &switch.surroundings), (&[witness][..], &around), "{round}");
                assert_eq!((&switch.rows[..], remembered.epoch), (&[7 << 48 | 5][..], 8 + round));
            }
        }
    }

    #[test]
    fn leaves_of_an_unknown_format_are_left_out_and_the_rest_is_kept() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("state");
        old_file(&path, &[("format", "0"), ("rows", "1")]);
        let (database, mut contents) = open_existing(&StateFile::new(&path)).expect("it can be read");
        convert_to_types(&path, &database, &mut contents, &Snapshot::default()).expect("any type");
        let Ok(remembered) = remember::begin(&database) else { panic!("it can be read") };
        assert!(remembered.switches.is_empty() && contents.writes.len() == 2);
    }
}
