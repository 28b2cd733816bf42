//! Writes into the state file what the next run needs to know: witness packets of leaves, and what is around switches.
//!
//! # How
//!
//! Shards report which leaves came and went ([`LeafJournal`]); of each leaf the newest report waits. Every
//! [`journal::PERIOD`] a thread writes all of them in one transaction of `redb`, and the surroundings with them, if
//! they have changed. Packets never wait for that. A crash loses at most the last period. Rows that are lost, damaged
//! or of another format cost time after the restart, and nothing else.
//!
//! While the file fails (`persistence/keeper.rs`), reports wait in memory, up to a bound ([`journal::MAX_PENDING`]). If
//! some were left out, or the file was made anew, shards report all their leaves again.
//!
//! # Copies
//!
//! A process that takes over gets a copy of the rows while this one goes on, and at the end the changes since then
//! ([`Archive`]).
//!
//! # Standbys
//!
//! In a cluster there is no file, but standbys that get the rows, one for each leaf and for each part of the
//! surroundings ([`SharedRows`]). Whoever takes over has them as if it had found them in a file.
//!
//! # The file
//!
//! There is a row for each leaf: its key is the epoch of the run in the upper 16 bits and the leaf's id, its value the
//! leaf ([`format`](mod@super::format)). The surroundings, the policy that runs, the epoch and the format have one row
//! each. Rows of leaves that were restored are deleted some time later ([`journal::KEEP`]), when their leaves of this
//! run have rows.

mod archive;
mod journal;
mod remembered_rows;
mod shared_rows;
mod writer;

pub(crate) use archive::{Archive, Archived, KnownSwitches};
pub(crate) use journal::{LeafJournal, Rows};
pub(crate) use remembered_rows::{
    FORMAT, RUN, RememberedRows, STATE_FORMAT, STATE_FORMAT_KEY, begin, begin_known, departed, last_policy, next_epoch,
    put_all, put_formats,
};
pub(crate) use shared_rows::{Adopted, RowFeed, STREAM_LIMITS, SharedRows, count};
pub(crate) use writer::Remembering;

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::net::Ipv6Addr;
    use std::sync::Arc;

    use maple_core::engine::Time;
    use maple_core::ids::LeafId;
    use maple_core::memory::{ReadMetadata, RememberedLabel, Surroundings, SwitchModel, Witness};
    use maple_core::network::{HostInfo, Location, Mac};
    use maple_core::state::Store;
    use maple_wire::{Constraint, Dpid, Field, PortNo, Version};
    use redb::{Database, TableDefinition};
    use tempfile::TempDir;

    use super::journal::{MAX_PENDING, PERIOD};
    use super::remembered_rows::{LEAVES, SURROUNDINGS, WrittenRows, write};
    use super::*;
    use crate::storage::format::bytes;
    use crate::storage::known_switches::{Departed, Restart};
    use crate::storage::late_database::LateDatabase;

    fn location(switch: u64, port: u32) -> Location {
        Location::new(Dpid(switch), PortNo(port))
    }

    fn witness(switch: u64) -> Witness {
        let widest = Constraint { field: Field::Ipv6Src, value: u128::MAX - 1, mask: u128::MAX - 1 };
        Witness {
            at: location(switch, 4_294_967_294),
            frame: [0, 1, 0xfe, 0xff].into(),
            total_len: 1514,
            extra_reads: [widest].into(),
            metadata: ReadMetadata { value: u64::MAX - 1, mask: u64::MAX },
            is_made_up: true,
        }
    }

    fn around(switch: u64) -> Surroundings {
        let host = HostInfo {
            location: location(switch, 1),
            ipv4: [[10, 0, 0, 1].into()].into(),
            ipv6: [Ipv6Addr::LOCALHOST].into(),
        };
        let label = |port| RememberedLabel { switch: Dpid(switch), port, id: 4094, meaning: u64::MAX };
        let model = SwitchModel { version: Version::Of10, tables: 3, is_open_vswitch: false, has_bundles: true };
        Surroundings {
            links: vec![(location(switch, 2), location(9, 3))],
            edges: vec![location(switch, 1)],
            hosts: vec![(Mac([2, 0, 0, 0, 0, 0xff]), host)],
            labels: vec![label(None), label(Some(PortNo(2)))],
            models: vec![(Dpid(switch), model)],
            look_ups: vec![(Dpid(switch), vec![1, 2, 3])],
        }
    }

    fn file() -> (Database, TempDir) {
        let folder = tempfile::tempdir().expect("a folder");
        (Database::create(folder.path().join("state")).expect("a file"), folder)
    }

    /// Runs the controller once: returns what it found in the file, and leaves these leaves.
    fn run(database: &Database, leaves: Vec<(LeafId, Option<Witness>)>) -> RememberedRows {
        let Ok(found) = begin(database) else { panic!("the file can be read") };
        let departed = [(Dpid(1), Departed { surroundings: around(1), ..Departed::default() })].into();
        let restart = Restart::new(Time(1), Store::new(), departed);
        let journal = LeafJournal::new(found.epoch);
        journal.note(leaves);
        journal.end();
        let (rows, ..) = journal.next(PERIOD);
        let written = write(database, &rows, None, &mut WrittenRows::default(), &restart);
        assert!(written.is_ok());
        found
    }

    #[test]
    fn the_next_run_finds_what_the_last_one_knew_under_an_epoch_of_its_own() {
        let (database, _folder) = file();
        let first = run(&database, vec![(LeafId(5), Some(witness(1))), (LeafId(6), Some(witness(1)))]);
        assert!(first.switches.is_empty());
        let second = run(&database, vec![(LeafId(5), Some(witness(1)))]);
        assert_eq!(second.epoch, first.epoch + 1);
        let switch = &second.switches[&Dpid(1)];
        assert_eq!((&switch.leaves[..], switch.rows.len()), (&[witness(1), witness(1)][..], 2));
        assert_eq!(switch.surroundings, around(1));
        assert_eq!(second.switches[&Dpid(9)].surroundings.links, around(1).links, "the other end knows the link too");
        let third = run(&database, Vec::new());
        assert_eq!(third.switches[&Dpid(1)].rows.len(), 3, "rows of two runs do not replace each other");
    }

    #[test]
    fn damaged_rows_and_other_formats_are_left_out() {
        let (database, _folder) = file();
        run(&database, vec![(LeafId(5), Some(witness(1))), (LeafId(6), Some(witness(2)))]);
        let spoil = |table: TableDefinition<'_, u64, &[u8]>, row: &[u8]| {
            let transaction = database.begin_write().expect("a transaction");
            transaction.open_table(table).expect("a table").insert(1 << 48 | 5, row).expect("a row");
            transaction.commit().expect("it is written");
        };
        let whole = bytes(&witness(1)).expect("it has a form");
        for damaged in [&[], &b"{}"[..], &whole[..whole.len() - 1], &[&whole[..], &[0]].concat()] {
            spoil(LEAVES, damaged);
            let found = run(&database, Vec::new());
            assert_eq!(found.switches[&Dpid(2)].leaves, [witness(2)], "{damaged:?}");
            assert!(found.switches[&Dpid(1)].leaves.is_empty());
        }
        let transaction = database.begin_write().expect("a transaction");
        transaction.open_table(RUN).expect("a table").insert("format", "5").expect("a row");
        transaction.commit().expect("it is written");
        assert!(run(&database, Vec::new()).switches.is_empty());
    }

    #[test]
    fn rows_of_earlier_formats_are_read() {
        let leaf = Witness { is_made_up: false, ..witness(1) };
        // Rows ended before these members.
        check_rows_of("3", &leaf, 1, &around(1), 0);
        let leaf = Witness { metadata: ReadMetadata::default(), ..leaf };
        check_rows_of("2", &leaf, 3, &Surroundings { look_ups: Vec::new(), ..around(1) }, 1);
    }

    /// Writes rows of an earlier format, which ended this number of bytes earlier, and reads them.
    fn check_rows_of(format: &str, leaf: &Witness, of_leaf: usize, around: &Surroundings, of_around: usize) {
        let (database, _folder) = file();
        run(&database, vec![(LeafId(5), Some(witness(1)))]);
        let transaction = database.begin_write().expect("a transaction");
        {
            let [leaf, around] = [bytes(leaf), bytes(around)].map(|row| row.expect("it has a form"));
            let mut leaves = transaction.open_table(LEAVES).expect("a table");
            leaves.insert(1 << 48 | 5, &leaf[..leaf.len() - of_leaf]).expect("a row");
            let mut rows = transaction.open_table(SURROUNDINGS).expect("a table");
            rows.insert((), &around[..around.len() - of_around]).expect("a row");
            transaction.open_table(RUN).expect("a table").insert("format", format).expect("a row");
        }
        transaction.commit().expect("it is written");
        for _ in 0..2 {
            // The second time, the rows are of this format.
            let Ok(found) = begin(&database) else { panic!("the file can be read") };
            let switch = &found.switches[&Dpid(1)];
            assert_eq!((&switch.leaves[..], &switch.surroundings), (std::slice::from_ref(leaf), around));
        }
    }

    #[test]
    fn a_copy_and_what_changes_after_it_are_everything() {
        let (database, _folder) = file();
        run(&database, vec![(LeafId(5), Some(witness(1))), (LeafId(6), Some(witness(1)))]);
        let restart = Arc::new(Restart::new(Time(1), Store::new(), BTreeMap::new()));
        let (journal, database) = (Arc::new(LeafJournal::new(2)), Arc::new(LateDatabase::open(database)));
        let archive = Archive { journal: Arc::clone(&journal), restart, database };
        journal.note(vec![(LeafId(7), Some(witness(1)))]);
        let copied = archive.copy().expect("it can be read");
        journal.note(vec![(LeafId(8), Some(witness(2))), (LeafId(7), None)]);
        assert_eq!((copied.epoch, copied.leaves.len()), (2, 2));
        let row = |id| journal.row(LeafId(id));
        let later = journal.end_copy().expect("it is not too much");
        assert_eq!(later, [(row(7), None), (row(8), Some(witness(2)))].into());
        assert_eq!(journal.end_copy(), None, "nothing is noted any more");
    }

    #[test]
    fn too_many_leaves_that_wait_are_not_remembered() {
        let journal = LeafJournal::new(1);
        let many = (0..=MAX_PENDING as u64).map(|id| (LeafId(id), Some(witness(1)))).collect();
        journal.note(many);
        journal.end();
        let (rows, lost, _) = journal.next(PERIOD);
        assert_eq!((rows.len(), lost), (MAX_PENDING, 1));
    }
}
