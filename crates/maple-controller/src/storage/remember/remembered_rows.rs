//! The rows of the state file about leaves, surroundings and the run: how a run begins, reads and writes them.

use std::collections::{BTreeMap, BTreeSet};

use maple_core::memory::{Surroundings, Witness};
use maple_wire::Dpid;
use redb::{Database, ReadableTable, TableDefinition, TableError, WriteTransaction};
use serde::Serialize;

use super::journal::Rows;
use crate::policy_record::PolicyRecord;
use crate::storage::format::{bytes, read};
use crate::storage::history::Unwritten;
use crate::storage::known_switches::{Departed, Restart, by_switch};
use crate::storage::late_database::DatabaseError;

pub(super) const LEAVES: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("maple leaves");
/// The surroundings, in one row.
pub(super) const SURROUNDINGS: TableDefinition<'_, (), &[u8]> = TableDefinition::new("maple surroundings");
/// The facts that each version reads, as text: the formats, the epoch, and the policy as JSON.
pub(crate) const RUN: TableDefinition<'_, &str, &str> = TableDefinition::new("maple run");

/// The history of changes: JSON, by the change's number and, in the highest two bits, its ring.
const CHANGES: TableDefinition<'_, u64, &str> = TableDefinition::new("maple changes");

/// The format of leaves and surroundings.
pub(crate) const FORMAT: &str = "4";
/// The format before, which does not say which packets are made up.
const WITHOUT_MADE_UP: &str = "3";
/// The format before that, which has no look-ups either.
const WITHOUT_LOOK_UPS: &str = "2";
/// The format of tables and variables (`persistence/`). A file of a later format is refused, because they can't be made
/// anew.
pub(crate) const STATE_FORMAT: &str = "2";
/// The key of the row about the policy that runs.
const POLICY: &str = "policy";
/// The key of the row with [`STATE_FORMAT`]. A file without that row has format 1, as `persistence/format_1.rs` says.
pub(crate) const STATE_FORMAT_KEY: &str = "rows";

/// The rows that an earlier run has left in the file.
#[derive(Debug, Default)]
pub(crate) struct RememberedRows {
    /// The epoch of this run, which follows that of the last run.
    pub epoch: u16,
    /// The switches.
    pub switches: BTreeMap<Dpid, Departed>,
    /// The policy that ran last.
    pub policy: Option<PolicyRecord>,
}

/// The rows besides leaves, as they were written last.
#[derive(Default, PartialEq, Eq)]
pub(super) struct WrittenRows {
    surroundings: Vec<u8>,
    pub(super) policy: Option<String>,
}

/// Writes rows, the surroundings and the policy that runs, if something has changed.
pub(super) fn write(
    database: &Database,
    rows: &Rows,
    policy: Option<String>,
    written: &mut WrittenRows,
    restart: &Restart,
) -> Result<(), DatabaseError> {
    let new = WrittenRows { surroundings: form(&once(restart.surroundings()))?, policy };
    if rows.is_empty() && *written == new {
        return Ok(());
    }
    let transaction = database.begin_write()?;
    {
        let mut leaves = transaction.open_table(LEAVES)?;
        for (row, witness) in rows {
            match witness {
                Some(witness) => drop(leaves.insert(*row, form(witness)?.as_slice())?),
                None => drop(leaves.remove(*row)?),
            }
        }
        transaction.open_table(SURROUNDINGS)?.insert((), new.surroundings.as_slice())?;
        let mut run = transaction.open_table(RUN)?;
        if let Some(policy) = &new.policy {
            run.insert(POLICY, policy.as_str())?;
        }
    }
    transaction.commit()?;
    *written = new;
    Ok(())
}

/// Writes new changes, and removes those that are older than what stays.
pub(super) fn write_changes(database: &Database, changes: &Unwritten) -> Result<(), DatabaseError> {
    if changes.rows.is_empty() {
        return Ok(());
    }
    let transaction = database.begin_write()?;
    {
        let mut table = transaction.open_table(CHANGES)?;
        for (row, text) in &changes.rows {
            table.insert(*row, text.as_str())?;
        }
        for old in &changes.old {
            table.retain_in(old.clone(), |_, _| false)?;
        }
    }
    transaction.commit()?;
    Ok(())
}

/// Returns the changes of earlier runs, by their rows.
pub(super) fn earlier_changes(database: &Database) -> Result<Vec<(u64, String)>, DatabaseError> {
    let table = match database.begin_read()?.open_table(CHANGES) {
        Ok(table) => table,
        Err(TableError::TableDoesNotExist(_)) => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    };
    let mut rows = Vec::new();
    for row in table.iter()? {
        let (key, value) = row?;
        rows.push((key.value(), value.value().to_owned()));
    }
    Ok(rows)
}

/// Reads the rows that an earlier run has left, and begins a new epoch.
pub(crate) fn begin(database: &Database) -> Result<RememberedRows, DatabaseError> {
    let transaction = database.begin_write()?;
    let mut remembered = RememberedRows::default();
    {
        let mut run = transaction.open_table(RUN)?;
        let mut leaves = transaction.open_table(LEAVES)?;
        let get = |run: &redb::Table<'_, &str, &str>, key: &str| -> Result<Option<String>, DatabaseError> {
            let row = run.get(key)?;
            Ok(row.map(|row| row.value().to_owned()))
        };
        let last: Option<u16> = get(&run, "epoch")?.and_then(|text| text.parse().ok());
        remembered.epoch = last.map_or(1, next_epoch);
        remembered.policy = get(&run, POLICY)?.and_then(|text| serde_json::from_str(&text).ok());
        let format = get(&run, "format")?;
        let is_read = |format: &str| [FORMAT, WITHOUT_MADE_UP, WITHOUT_LOOK_UPS].contains(&format);
        if format.as_deref().is_some_and(|format| !is_read(format)) {
            tracing::warn!("the state file was last used by another version of Maple: rules are made anew");
            leaves.retain(|_, _| false)?;
        } else {
            let mut surroundings = transaction.open_table(SURROUNDINGS)?;
            match format.as_deref() {
                Some(WITHOUT_LOOK_UPS) => add_members(&mut leaves, &mut surroundings, &[0, 0, 0], &[0])?,
                Some(WITHOUT_MADE_UP) => add_members(&mut leaves, &mut surroundings, &[0], &[])?,
                _ => {}
            }
            if let Some(row) = surroundings.get(())? {
                remembered.switches = switches(&leaves, row.value())?;
            }
        }
        run.insert("epoch", remembered.epoch.to_string().as_str())?;
    }
    put_formats(&transaction)?;
    transaction.commit()?;
    Ok(remembered)
}

/// Brings rows of an earlier format into this one. Their last members are new, and say that nothing is looked up or
/// made up.
fn add_members(
    leaves: &mut redb::Table<'_, u64, &'static [u8]>,
    surroundings: &mut redb::Table<'_, (), &'static [u8]>,
    of_leaf: &[u8],
    of_surroundings: &[u8],
) -> Result<(), DatabaseError> {
    let mut all = Vec::new();
    for row in leaves.iter()? {
        let (key, value) = row?;
        all.push((key.value(), [value.value(), of_leaf].concat()));
    }
    for (key, row) in all {
        leaves.insert(key, row.as_slice())?;
    }
    let earlier = surroundings.get(())?.map(|row| [row.value(), of_surroundings].concat());
    if let Some(row) = earlier {
        surroundings.insert((), row.as_slice())?;
    }
    Ok(())
}

/// Returns the policy that ran last, from a file that no controller uses.
pub(crate) fn last_policy(database: &Database) -> Result<Option<PolicyRecord>, DatabaseError> {
    let run = match database.begin_read()?.open_table(RUN) {
        Ok(run) => run,
        Err(TableError::TableDoesNotExist(_)) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    Ok(run.get(POLICY)?.and_then(|row| serde_json::from_str(row.value()).ok()))
}

/// Returns the epoch of the run after one with epoch `last`. Epochs run from 1 to 65535, and then from 1 again.
pub(crate) fn next_epoch(last: u16) -> u16 {
    last.wrapping_add(1).max(1)
}

/// Writes the epoch and the formats into a file whose other rows are known.
pub(crate) fn begin_known(database: &Database, epoch: u16) -> Result<(), DatabaseError> {
    let transaction = database.begin_write()?;
    transaction.open_table(LEAVES)?;
    transaction.open_table(RUN)?.insert("epoch", epoch.to_string().as_str())?;
    put_formats(&transaction)?;
    transaction.commit()?;
    Ok(())
}

/// Writes the formats.
pub(crate) fn put_formats(transaction: &WriteTransaction) -> Result<(), DatabaseError> {
    let mut run = transaction.open_table(RUN)?;
    for (key, format) in [("format", FORMAT), (STATE_FORMAT_KEY, STATE_FORMAT)] {
        run.insert(key, format)?;
    }
    Ok(())
}

/// Writes these leaves by their rows, and the surroundings.
pub(crate) fn put_all(
    transaction: &WriteTransaction,
    leaves: &[(u64, Witness)],
    surroundings: Surroundings,
) -> Result<(), DatabaseError> {
    let mut table = transaction.open_table(LEAVES)?;
    for (row, witness) in leaves {
        table.insert(*row, form(witness)?.as_slice())?;
    }
    transaction.open_table(SURROUNDINGS)?.insert((), form(&once(surroundings))?.as_slice())?;
    Ok(())
}

fn form(row: &impl Serialize) -> Result<Vec<u8>, DatabaseError> {
    Ok(bytes(row).map_err(std::io::Error::other).map_err(redb::Error::Io)?)
}

/// Keeps what two switches report of one link, or one switch reports of itself, once, in order.
pub(super) fn once(mut all: Surroundings) -> Surroundings {
    let links: BTreeSet<_> = all.links.into_iter().map(|(a, b)| (a.min(b), a.max(b))).collect();
    all.links = links.into_iter().collect();
    all.models = all.models.into_iter().collect::<BTreeMap<_, _>>().into_iter().collect();
    all.look_ups = all.look_ups.into_iter().collect::<BTreeMap<_, _>>().into_iter().collect();
    all
}

/// Groups the leaves and surroundings of an earlier run by switch.
pub(crate) fn departed(
    rows: impl IntoIterator<Item = (u64, Witness)>,
    surroundings: Surroundings,
) -> BTreeMap<Dpid, Departed> {
    let of_switch = |(dpid, surroundings)| (dpid, Departed { surroundings, ..Departed::default() });
    let mut switches: BTreeMap<Dpid, Departed> = by_switch(surroundings).into_iter().map(of_switch).collect();
    for (row, witness) in rows {
        // A switch without surroundings gets an entry too.
        let switch = switches.entry(witness.at.switch).or_default();
        switch.leaves.push(witness);
        switch.rows.push(row);
    }
    switches
}

/// Reads the switches of an earlier run. Damaged rows are left out, and the log says how many.
fn switches(
    leaves: &impl ReadableTable<u64, &'static [u8]>,
    surroundings: &[u8],
) -> Result<BTreeMap<Dpid, Departed>, DatabaseError> {
    let all = read::<Surroundings>(surroundings);
    let (rows, damaged) = rows(leaves)?;
    let damaged = damaged + u64::from(all.is_err());
    if damaged > 0 {
        tracing::warn!("the state file: {damaged} rows about rules are damaged; these rules are made anew");
    }
    Ok(departed(rows, all.unwrap_or_default()))
}

/// Returns the leaves in the file by their rows, and the number of rows that are damaged.
fn rows(leaves: &impl ReadableTable<u64, &'static [u8]>) -> Result<(Vec<(u64, Witness)>, u64), DatabaseError> {
    let (mut rows, mut damaged) = (Vec::new(), 0);
    for row in leaves.iter()? {
        let (key, value) = row?;
        match read(value.value()) {
            Ok(witness) => rows.push((key.value(), witness)),
            Err(_) => damaged += 1,
        }
    }
    Ok((rows, damaged))
}

/// Returns the leaves in the file by their rows.
pub(super) fn leaves(database: &Database) -> Result<Vec<(u64, Witness)>, DatabaseError> {
    match database.begin_read()?.open_table(LEAVES) {
        Ok(table) => Ok(rows(&table)?.0),
        Err(TableError::TableDoesNotExist(_)) => Ok(Vec::new()),
        Err(error) => Err(error.into()),
    }
}
