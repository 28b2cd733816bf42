//! Disks that fail: full ones, slow ones, and files that others delete, replace or write into.

mod disk;
mod random;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use maple_core::engine::Time;
use maple_core::state::{Cell, Snapshot, Store, Value, Write};
use redb::StorageBackend;
use redb::backends::FileBackend;
use tempfile::TempDir;

use super::super::place::StateFile;
use super::super::state_file::cell;
use super::super::*;
use disk::{Disk, OnDisk};

/// The time that something may take that is certain to come. Chosen: a test ends in the end, and no machine is that
/// slow.
const LONG: Duration = Duration::from_secs(120);

/// A run of a controller's persistence, with a folder that is removed with it.
struct PersistenceRun {
    folder: TempDir,
    disk: Arc<Disk>,
    store: Arc<Store>,
    files: KeptFiles,
    reported: Arc<Mutex<Vec<String>>>,
    persistence: Option<Persistence>,
}

impl Drop for PersistenceRun {
    fn drop(&mut self) {
        self.disk.heals();
        self.persistence.take();
    }
}

impl PersistenceRun {
    fn new() -> PersistenceRun {
        let folder = tempfile::tempdir().expect("a folder");
        let (files, reported) = (KeptFiles::default(), Arc::<Mutex<Vec<String>>>::default());
        let to = Arc::clone(&reported);
        files.report_to(move |news| to.lock().expect("no panic").push(news.to_string()));
        let mut run =
            PersistenceRun { folder, disk: Arc::default(), store: Store::new(), files, reported, persistence: None };
        run.store.keep("t");
        run.start().expect("the disk is in order");
        run
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    fn start(&mut self) -> Result<(), PersistenceError> {
        let disk = Arc::clone(&self.disk);
        let make = move |file: File| {
            let backend = OnDisk { file: FileBackend::new(file)?, disk: Arc::clone(&disk) };
            Ok(Box::new(backend) as Box<dyn StorageBackend>)
        };
        let ms = Duration::from_millis;
        let pace = Pace { look: ms(5), first: ms(1), most: ms(20) };
        let place = StateFile::with(&self.path(), Arc::new(make));
        self.persistence = Some(Persistence::open_at(place, &self.store, &self.files, pace)?.0);
        Ok(())
    }

    fn pending(&self) -> Arc<PendingWrites> {
        self.persistence.as_ref().expect("it runs").pending_writes()
    }

    fn write(&self, key: i64, value: Option<i64>) -> u64 {
        write(&self.store, key, value)
    }

    /// Waits until everything is on the disk.
    fn kept(&self) {
        let (version, began) = (self.write(-1, Some(0)), Instant::now());
        while !self.pending().wait(version, LONG) {
            assert!(began.elapsed() < LONG, "{:?}", self.files);
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn until(&self, what: &str, is_so: impl Fn(&PersistenceRun) -> bool) {
        let began = Instant::now();
        while !is_so(self) {
            assert!(began.elapsed() < LONG, "{what}: {:?}", self.files);
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn fails(&self) {
        self.until("it fails", |run| run.files.is_failing(KeptFile::State));
    }

    fn is_mended(&self) {
        self.until("it is mended", |run| !run.files.is_failing(KeptFile::State));
    }

    /// Returns the news of files so far.
    fn reported(&self) -> Vec<String> {
        self.reported.lock().expect("no panic").clone()
    }

    /// Lets somebody meddle with the file, and waits until its failure, which may be over at once, and its mending are
    /// published. Returns the last of that news.
    fn is_mended_after(&self, meddle: impl FnOnce()) -> String {
        let before = self.reported().len();
        meddle();
        let is_mended = |reported: &str| reported.contains(" is in order again, after ");
        self.until("it is mended", |run| run.reported()[before..].last().is_some_and(|reported| is_mended(reported)));
        self.reported().pop().expect("that it is mended")
    }

    /// Returns the contents of the file.
    fn file(&self) -> BTreeMap<Cell, Value> {
        contents_of(&self.path())
    }

    /// Returns the contents of the memory.
    fn memory(&self) -> BTreeMap<Cell, Value> {
        rows(&self.store)
    }
}

fn write(store: &Store, key: i64, value: Option<i64>) -> u64 {
    let write = Write::Table { table: "t".into(), key: Value::from(key), value: value.map(Value::from) };
    store.update(|_| vec![write]).kept.expect("it is kept")
}

fn rows(store: &Store) -> BTreeMap<Cell, Value> {
    store.kept_contents().1.iter().filter_map(cell).filter_map(|(cell, value)| Some((cell, value?))).collect()
}

/// Returns the contents of a file, on a disk that is in order.
fn contents_of(path: &Path) -> BTreeMap<Cell, Value> {
    let store = Store::new();
    let opened = Persistence::open(path, &store, &KeptFiles::default());
    drop(opened.map_err(|error| error.to_string()).expect("the file is whole"));
    rows(&store)
}

#[test]
fn a_full_disk_is_reported_and_everything_is_written_when_there_is_room() {
    let mut run = PersistenceRun::new();
    run.write(1, Some(1));
    run.kept();
    run.disk.fails(io::ErrorKind::StorageFull);
    let version = run.write(2, Some(2));
    assert!(!run.pending().wait(version, LONG), "it is not on the disk, and nobody waits for it");
    run.fails();
    for key in 100..200 {
        run.write(key, Some(key));
    }
    run.write(1, None);
    run.disk.heals();
    run.kept();
    run.is_mended();
    let reported = run.reported();
    assert!(reported[0].contains("no storage space; what changes waits in memory"), "{reported:?}");
    assert!(reported[1].contains(" is in order again, after ") && reported.len() == 2, "{reported:?}");
    let expected = run.memory();
    run.persistence.take();
    assert_eq!(run.file(), expected);
    assert_eq!(expected.len(), 102);
}

#[test]
fn unwritten_commits_are_tried_once_more_at_the_end() {
    let mut run = PersistenceRun::new();
    run.disk.fails(io::ErrorKind::StorageFull);
    run.write(1, Some(1));
    run.fails();
    run.disk.heals();
    let expected = run.memory();
    run.persistence.take();
    assert_eq!(run.file(), expected);
}

#[test]
fn a_file_that_is_deleted_is_made_anew() {
    let mut run = PersistenceRun::new();
    run.write(1, Some(1));
    run.kept();
    let reported = run.is_mended_after(|| fs::remove_file(run.path()).expect("it is there"));
    assert!(reported.ends_with("; it was made anew"), "{reported}");
    run.write(2, Some(2));
    run.kept();
    let expected = run.memory();
    run.persistence.take();
    assert_eq!(run.file(), expected);
    let names: Vec<_> =
        fs::read_dir(run.folder.path()).expect("a folder").flatten().map(|one| one.file_name()).collect();
    assert_eq!(names, ["state"], "nothing is left");
}

#[test]
fn acknowledged_writes_are_in_the_file_at_the_path_even_if_it_was_just_deleted() {
    for _ in 0..20 {
        let mut run = PersistenceRun::new();
        run.kept();
        fs::remove_file(run.path()).expect("it is there");
        let version = run.write(1, Some(1));
        let began = Instant::now();
        while !run.pending().wait(version, LONG) {
            assert!(began.elapsed() < LONG);
            std::thread::yield_now();
        }
        // As after a crash: nothing more is written.
        run.disk.fails(io::ErrorKind::StorageFull);
        run.persistence.take();
        assert_eq!(run.file().get(&Cell::Table("t".into(), Value::from(1i64))), Some(&Value::from(1i64)));
    }
}

#[test]
fn a_file_in_its_place_is_set_aside_as_it_is() {
    let mut run = PersistenceRun::new();
    run.write(1, Some(1));
    run.kept();
    for (round, aside) in ["state.aside", "state.aside-2"].into_iter().enumerate() {
        let text = format!("somebody's own {round}");
        let other = run.folder.path().join("other");
        fs::write(&other, &text).expect("it can be written");
        let reported = run.is_mended_after(|| fs::rename(&other, run.path()).expect("it can be moved"));
        assert!(reported.contains("made anew, and what was there is ") && reported.ends_with(aside), "{reported}");
        assert_eq!(fs::read_to_string(run.folder.path().join(aside)).expect("it is there"), text);
        run.kept();
    }
    let expected = run.memory();
    run.persistence.take();
    assert_eq!(run.file(), expected);
}

#[test]
fn a_file_that_another_process_uses_is_left_alone_until_it_is_free() {
    let run = PersistenceRun::new();
    run.write(1, Some(1));
    run.kept();
    fs::remove_file(run.path()).expect("it is there");
    // The first one may be quicker.
    let store = Store::new();
    store.keep("t");
    let mut other = None;
    while other.is_none() {
        let unlinked = fs::remove_file(run.path());
        other = Persistence::open(&run.path(), &store, &KeptFiles::default()).ok();
        drop(unlinked);
    }
    let version = write(&store, 7, Some(7));
    let (other, _) = other.expect("it is open");
    assert!(other.pending_writes().wait(version, LONG));
    run.until("it says so", |run| {
        run.files.all()[0].trouble.as_ref().is_some_and(|(why, _)| why.contains("another process uses"))
    });
    drop(other);
    run.kept();
    let aside = contents_of(&run.folder.path().join("state.aside"));
    assert_eq!(aside, rows(&store), "the other one's is not lost");
}

#[test]
fn a_file_that_another_program_writes_into_is_set_aside() {
    let mut run = PersistenceRun::new();
    run.write(1, Some(1));
    run.kept();
    // In place, as `cp` does, and shorter, as `> state` does.
    for text in ["x".repeat(1 << 20), String::new()] {
        run.is_mended_after(|| fs::write(run.path(), &text).expect("it can be written"));
        run.kept();
    }
    let expected = run.memory();
    run.persistence.take();
    assert_eq!(run.file(), expected);
}

#[test]
fn commits_do_not_wait_for_a_slow_disk_and_acknowledgements_do() {
    let run = PersistenceRun::new();
    run.kept();
    run.disk.set(|state| state.is_stuck = true);
    let first = run.write(0, Some(0));
    run.until("the thread waits for the disk", |run| run.disk.lock().waits);
    // On a thread of a shard these would be turns.
    let last = (1..1000).fold(first, |_, key| run.write(key, Some(key)));
    assert!(!run.pending().wait(first, Duration::from_millis(50)) && !run.pending().wait(last, Duration::ZERO));
    assert!(!run.files.is_failing(KeptFile::State), "slow is not failed");
    run.disk.set(|state| state.is_stuck = false);
    assert!(run.pending().wait(first, LONG) && run.pending().wait(last, LONG));
}

#[test]
fn a_controller_starts_with_a_file_that_it_can_read_and_not_write() {
    for kind in [io::ErrorKind::ReadOnlyFilesystem, io::ErrorKind::StorageFull] {
        let mut run = PersistenceRun::new();
        run.write(1, Some(1));
        run.kept();
        run.persistence.take();
        run.disk.fails(kind);
        run.store = Store::new();
        run.start().expect("it can be read");
        run.fails();
        assert_eq!(run.memory().len(), 2, "what was kept");
        let version = run.write(2, Some(2));
        assert!(!run.pending().wait(version, LONG));
        run.disk.heals();
        run.kept();
        let expected = run.memory();
        run.persistence.take();
        assert_eq!((run.file(), expected.len()), (expected, 3));
    }
}

#[test]
fn a_controller_starts_without_a_file_where_none_can_be_made() {
    for kind in [io::ErrorKind::ReadOnlyFilesystem, io::ErrorKind::StorageFull] {
        let mut run = PersistenceRun::new();
        run.kept();
        run.persistence.take();
        fs::remove_file(run.path()).expect("it is there");
        run.disk.fails(kind);
        run.store = Store::new();
        run.store.keep("t");
        run.start().expect("it goes on in memory");
        run.fails();
        let version = run.write(1, Some(1));
        assert!(!run.pending().wait(version, LONG) && !run.path().exists());
        run.disk.heals();
        run.kept();
        let expected = run.memory();
        run.persistence.take();
        assert_eq!((run.file(), expected.len()), (expected, 2), "{kind}");
    }
}

#[test]
fn a_repair_that_was_cut_off_before_it_shortened_the_file_is_no_damage() {
    for pages in [1, 16, 1000] {
        let mut run = PersistenceRun::new();
        run.write(1, Some(1));
        run.kept();
        let expected = run.memory();
        run.persistence.take();
        let file = File::options().write(true).open(run.path()).expect("the file");
        file.set_len(file.metadata().expect("a file").len() + pages * 4096).expect("room");
        let (_, copied) = state_file::open_copy(&StateFile::new(&run.path())).expect("a copy is whole too");
        assert_eq!(copied.writes.len(), expected.len());
        assert_eq!(run.file(), expected, "{pages}");
        run.store = Store::new();
        run.store.keep("t");
        run.start().expect("it is whole");
        run.write(2, Some(2));
        run.kept();
        run.persistence.take();
        assert_eq!(run.file().len(), expected.len() + 1);
    }
}

#[test]
fn leaves_are_asked_for_again_when_the_file_is_made_anew() {
    let mut run = PersistenceRun::new();
    run.kept();
    let journal = Arc::new(LeafJournal::new(1));
    let restart = Arc::new(Restart::new(Time(1), Arc::clone(&run.store), BTreeMap::new()));
    let persistence = run.persistence.as_mut().expect("it runs");
    persistence.remember(Arc::clone(&journal), restart, Arc::default()).expect("a thread");
    assert_eq!(journal.wanted(), 0);
    for wanted in 1..=2 {
        // The writer rests when nothing has changed for two periods.
        std::thread::sleep(Duration::from_secs(2));
        fs::remove_file(run.path()).expect("it is there");
        run.until("they are asked for", |_| journal.wanted() == wanted);
        run.is_mended();
    }
}

/// Checks that the state that a policy sees does not depend on the disk.
#[test]
fn the_state_is_read_and_written_while_the_file_fails() {
    let run = PersistenceRun::new();
    run.disk.fails(io::ErrorKind::StorageFull);
    run.write(1, Some(1));
    run.fails();
    let has = |state: &Snapshot| state.table("t").map_or(0, |rows| rows.len());
    assert_eq!(has(&run.store.snapshot()), 1);
    run.write(2, Some(2));
    assert_eq!(has(&run.store.snapshot()), 2);
}
