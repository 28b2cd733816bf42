//! The rows of the state file about leaves, surroundings and the run: how a run begins, reads and writes them.

use std::collections::BTreeMap;

use maple_core::remembered::{Surroundings, Witness};
use maple_wire::Dpid;
use redb::{AccessGuard, Database, ReadableTable, TableDefinition, TableError};

use super::journal::Rows;
use super::rows::{SurroundingsRow, WitnessRow, to_json};
use crate::memory::late::Failed;
use crate::memory::restart::{Departed, Restart, by_switch};
use crate::policy_record::PolicyRecord;

pub(super) const LEAVES: TableDefinition<'_, u64, &str> = TableDefinition::new("maple leaves");
pub(crate) const RUN: TableDefinition<'_, &str, &str> = TableDefinition::new("maple run");

/// The format of leaves and surroundings.
pub(crate) const FORMAT: &str = "1";
/// The format of tables and variables (`persistence/`). A file of another format is refused, because they can't be made
/// anew.
pub(crate) const STATE_FORMAT: &str = "1";
/// The key of the row about the policy that runs.
const POLICY: &str = "policy";
/// The key of the row with [`STATE_FORMAT`]. A file without that row has format 1.
pub(crate) const STATE_FORMAT_KEY: &str = "rows";

/// The rows that an earlier run has left in the file.
#[derive(Debug, Default)]
pub(crate) struct Remembered {
    /// The epoch of this run, which follows that of the last run.
    pub epoch: u16,
    /// The switches.
    pub switches: BTreeMap<Dpid, Departed>,
    /// The policy that ran last.
    pub policy: Option<PolicyRecord>,
}

/// The rows besides leaves, as they were written last.
#[derive(Default, PartialEq, Eq)]
pub(super) struct Written {
    surroundings: String,
    pub(super) policy: Option<String>,
}

/// Writes rows, the surroundings and the policy that runs, if something has changed.
pub(super) fn write(
    database: &Database,
    rows: &Rows,
    policy: Option<String>,
    written: &mut Written,
    restart: &Restart,
) -> Result<(), Failed> {
    let new = Written { surroundings: to_json(&SurroundingsRow::of(restart.surroundings())), policy };
    if rows.is_empty() && *written == new {
        return Ok(());
    }
    let transaction = database.begin_write()?;
    {
        let mut leaves = transaction.open_table(LEAVES)?;
        for (row, witness) in rows {
            match witness {
                Some(witness) => {
                    let text = to_json(&WitnessRow::of(witness));
                    leaves.insert(*row, text.as_str())?;
                }
                None => drop(leaves.remove(*row)?),
            }
        }
        let mut run = transaction.open_table(RUN)?;
        run.insert("surroundings", new.surroundings.as_str())?;
        if let Some(policy) = &new.policy {
            run.insert(POLICY, policy.as_str())?;
        }
    }
    transaction.commit()?;
    *written = new;
    Ok(())
}

/// Reads the rows that an earlier run has left, and begins a new epoch.
pub(crate) fn begin(database: &Database) -> Result<Remembered, Failed> {
    let transaction = database.begin_write()?;
    let mut remembered = Remembered::default();
    {
        let mut run = transaction.open_table(RUN)?;
        let mut leaves = transaction.open_table(LEAVES)?;
        let get = |run: &redb::Table<'_, &str, &str>, key: &str| -> Result<Option<String>, Failed> {
            let row = run.get(key)?;
            Ok(row.map(|row| row.value().to_owned()))
        };
        let last: Option<u16> = get(&run, "epoch")?.and_then(|text| text.parse().ok());
        remembered.epoch = last.map_or(1, next_epoch);
        remembered.policy = get(&run, POLICY)?.and_then(|text| serde_json::from_str(&text).ok());
        let format = get(&run, "format")?;
        if format.as_deref().is_some_and(|format| format != FORMAT) {
            tracing::warn!("the state file was last used by another version of Maple: rules are made anew");
            leaves.retain(|_, _| false)?;
        } else if let Some(text) = get(&run, "surroundings")? {
            remembered.switches = read(&leaves, &text)?;
        }
        let state = (STATE_FORMAT_KEY, STATE_FORMAT);
        for (key, value) in [("epoch", remembered.epoch.to_string().as_str()), ("format", FORMAT), state] {
            run.insert(key, value)?;
        }
    }
    transaction.commit()?;
    Ok(remembered)
}

/// Returns the policy that ran last, from a file that no controller uses.
pub(crate) fn last_policy(database: &Database) -> Result<Option<PolicyRecord>, Failed> {
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
pub(crate) fn begin_known(database: &Database, epoch: u16) -> Result<(), Failed> {
    let transaction = database.begin_write()?;
    {
        let mut run = transaction.open_table(RUN)?;
        transaction.open_table(LEAVES)?;
        let state = (STATE_FORMAT_KEY, STATE_FORMAT);
        for (key, value) in [("epoch", epoch.to_string().as_str()), ("format", FORMAT), state] {
            run.insert(key, value)?;
        }
    }
    transaction.commit()?;
    Ok(())
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
fn read(leaves: &redb::Table<'_, u64, &str>, surroundings: &str) -> Result<BTreeMap<Dpid, Departed>, Failed> {
    let mut damaged = 0;
    let all = serde_json::from_str::<SurroundingsRow>(surroundings).map(SurroundingsRow::surroundings);
    damaged += u64::from(all.is_err());
    let mut rows = Vec::new();
    for row in leaves.iter()? {
        let (key, value) = row?;
        match WitnessRow::parse(value.value()) {
            Some(witness) => rows.push((key.value(), witness)),
            None => damaged += 1,
        }
    }
    if damaged > 0 {
        tracing::warn!("the state file: {damaged} rows about rules are damaged; these rules are made anew");
    }
    Ok(departed(rows, all.unwrap_or_default()))
}

/// Returns all rows of leaves, as they are in the file.
pub(super) fn raw_leaves(database: &Database) -> Result<Vec<(u64, String)>, Failed> {
    let table = match database.begin_read()?.open_table(LEAVES) {
        Ok(table) => table,
        Err(TableError::TableDoesNotExist(_)) => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    };
    let text = |row: Result<(AccessGuard<'_, u64>, AccessGuard<'_, &str>), redb::StorageError>| {
        let (key, value) = row?;
        Ok((key.value(), value.value().to_owned()))
    };
    table.iter()?.map(text).collect()
}
