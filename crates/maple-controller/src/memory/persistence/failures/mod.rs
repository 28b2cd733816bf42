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

use super::file::cell;
use super::place::StateFile;
use super::*;
use disk::{Disk, OnDisk};

/// The time that something may take that is certain to come.
const LONG: Duration = Duration::from_secs(120);

/// A run of a controller's persistence, with a folder that is removed with it.
struct Bench {
    folder: TempDir,
    disk: Arc<Disk>,
    store: Arc<Store>,
    files: KeptFiles,
    told: Arc<Mutex<Vec<String>>>,
    persistence: Option<Persistence>,
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.disk.heals();
        self.persistence.take();
    }
}

impl Bench {
    fn new() -> Bench {
        let folder = tempfile::tempdir().expect("a folder");
        let (files, told) = (KeptFiles::default(), Arc::<Mutex<Vec<String>>>::default());
        let to = Arc::clone(&told);
        files.report_to(move |news| to.lock().expect("no panic").push(news.to_string()));
        let mut bench = Bench { folder, disk: Arc::default(), store: Store::new(), files, told, persistence: None };
        bench.store.keep("t");
        bench.start().expect("the disk is in order");
        bench
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

    fn until(&self, what: &str, is_so: impl Fn(&Bench) -> bool) {
        let began = Instant::now();
        while !is_so(self) {
            assert!(began.elapsed() < LONG, "{what}: {:?}", self.files);
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn fails(&self) {
        self.until("it fails", |bench| bench.files.is_failing(KeptFile::State));
    }

    fn is_mended(&self) {
        self.until("it is mended", |bench| !bench.files.is_failing(KeptFile::State));
    }

    /// The news of files so far.
    fn told(&self) -> Vec<String> {
        self.told.lock().expect("no panic").clone()
    }

    /// Lets somebody meddle with the file, and waits until its failure, which may be over at once, and its mending are
    /// published. Returns the last of that news.
    fn is_mended_after(&self, meddle: impl FnOnce()) -> String {
        let before = self.told().len();
        meddle();
        let is_mended = |told: &str| told.contains(" is in order again, after ");
        self.until("it is mended", |bench| bench.told()[before..].last().is_some_and(|told| is_mended(told)));
        self.told().pop().expect("that it is mended")
    }

    /// The contents of the file.
    fn file(&self) -> BTreeMap<Cell, Value> {
        contents_of(&self.path())
    }

    /// The contents of the memory.
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

/// The contents of a file, on a disk that is in order.
fn contents_of(path: &Path) -> BTreeMap<Cell, Value> {
    let store = Store::new();
    let opened = Persistence::open(path, &store, &KeptFiles::default());
    drop(opened.map_err(|error| error.to_string()).expect("the file is whole"));
    rows(&store)
}

#[test]
fn a_full_disk_is_told_and_everything_is_written_when_there_is_room() {
    let mut bench = Bench::new();
    bench.write(1, Some(1));
    bench.kept();
    bench.disk.fails(io::ErrorKind::StorageFull);
    let version = bench.write(2, Some(2));
    assert!(!bench.pending().wait(version, LONG), "it is not on the disk, and nobody waits for it");
    bench.fails();
    for key in 100..200 {
        bench.write(key, Some(key));
    }
    bench.write(1, None);
    bench.disk.heals();
    bench.kept();
    bench.is_mended();
    let told = bench.told();
    assert!(told[0].contains("no storage space; what changes waits in memory"), "{told:?}");
    assert!(told[1].contains(" is in order again, after ") && told.len() == 2, "{told:?}");
    let expected = bench.memory();
    bench.persistence.take();
    assert_eq!(bench.file(), expected);
    assert_eq!(expected.len(), 102);
}

#[test]
fn what_is_not_written_at_the_end_is_tried_once_more() {
    let mut bench = Bench::new();
    bench.disk.fails(io::ErrorKind::StorageFull);
    bench.write(1, Some(1));
    bench.fails();
    bench.disk.heals();
    let expected = bench.memory();
    bench.persistence.take();
    assert_eq!(bench.file(), expected);
}

#[test]
fn a_file_that_is_deleted_is_made_anew() {
    let mut bench = Bench::new();
    bench.write(1, Some(1));
    bench.kept();
    let told = bench.is_mended_after(|| fs::remove_file(bench.path()).expect("it is there"));
    assert!(told.ends_with("; it was made anew"), "{told}");
    bench.write(2, Some(2));
    bench.kept();
    let expected = bench.memory();
    bench.persistence.take();
    assert_eq!(bench.file(), expected);
    let names: Vec<_> =
        fs::read_dir(bench.folder.path()).expect("a folder").flatten().map(|one| one.file_name()).collect();
    assert_eq!(names, ["state"], "nothing is left");
}

#[test]
fn what_is_acknowledged_is_in_the_file_at_the_path_also_if_it_was_deleted_just_before() {
    for _ in 0..20 {
        let mut bench = Bench::new();
        bench.kept();
        fs::remove_file(bench.path()).expect("it is there");
        let version = bench.write(1, Some(1));
        let began = Instant::now();
        while !bench.pending().wait(version, LONG) {
            assert!(began.elapsed() < LONG);
            std::thread::yield_now();
        }
        // As after a crash: nothing more is written.
        bench.disk.fails(io::ErrorKind::StorageFull);
        bench.persistence.take();
        assert_eq!(bench.file().get(&Cell::Table("t".into(), Value::from(1i64))), Some(&Value::from(1i64)));
    }
}

#[test]
fn a_file_in_its_place_is_set_aside_as_it_is() {
    let mut bench = Bench::new();
    bench.write(1, Some(1));
    bench.kept();
    for (round, aside) in ["state.aside", "state.aside-2"].into_iter().enumerate() {
        let text = format!("somebody's own {round}");
        let other = bench.folder.path().join("other");
        fs::write(&other, &text).expect("it can be written");
        let told = bench.is_mended_after(|| fs::rename(&other, bench.path()).expect("it can be moved"));
        assert!(told.contains("made anew, and what was there is ") && told.ends_with(aside), "{told}");
        assert_eq!(fs::read_to_string(bench.folder.path().join(aside)).expect("it is there"), text);
        bench.kept();
    }
    let expected = bench.memory();
    bench.persistence.take();
    assert_eq!(bench.file(), expected);
}

#[test]
fn a_file_that_another_process_uses_is_left_alone_until_it_is_free() {
    let bench = Bench::new();
    bench.write(1, Some(1));
    bench.kept();
    fs::remove_file(bench.path()).expect("it is there");
    // The first one may be quicker.
    let store = Store::new();
    store.keep("t");
    let mut other = None;
    while other.is_none() {
        let unlinked = fs::remove_file(bench.path());
        other = Persistence::open(&bench.path(), &store, &KeptFiles::default()).ok();
        drop(unlinked);
    }
    let version = write(&store, 7, Some(7));
    let (other, _) = other.expect("it is open");
    assert!(other.pending_writes().wait(version, LONG));
    bench.until("it says so", |bench| {
        bench.files.all()[0].trouble.as_ref().is_some_and(|(why, _)| why.contains("another process uses"))
    });
    drop(other);
    bench.kept();
    let aside = contents_of(&bench.folder.path().join("state.aside"));
    assert_eq!(aside, rows(&store), "the other one's is not lost");
}

#[test]
fn a_file_that_another_program_writes_into_is_set_aside() {
    let mut bench = Bench::new();
    bench.write(1, Some(1));
    bench.kept();
    // In place, as `cp` does, and shorter, as `> state` does.
    for text in ["x".repeat(1 << 20), String::new()] {
        bench.is_mended_after(|| fs::write(bench.path(), &text).expect("it can be written"));
        bench.kept();
    }
    let expected = bench.memory();
    bench.persistence.take();
    assert_eq!(bench.file(), expected);
}

#[test]
fn commits_do_not_wait_for_a_slow_disk_and_acknowledgements_do() {
    let bench = Bench::new();
    bench.kept();
    bench.disk.set(|state| state.is_stuck = true);
    let first = bench.write(0, Some(0));
    bench.until("the thread waits for the disk", |bench| bench.disk.lock().waits);
    // On a thread of a shard these would be turns.
    let last = (1..1000).fold(first, |_, key| bench.write(key, Some(key)));
    assert!(!bench.pending().wait(first, Duration::from_millis(50)) && !bench.pending().wait(last, Duration::ZERO));
    assert!(!bench.files.is_failing(KeptFile::State), "slow is not failed");
    bench.disk.set(|state| state.is_stuck = false);
    assert!(bench.pending().wait(first, LONG) && bench.pending().wait(last, LONG));
}

#[test]
fn a_controller_starts_with_a_file_that_it_can_read_and_not_write() {
    for kind in [io::ErrorKind::ReadOnlyFilesystem, io::ErrorKind::StorageFull] {
        let mut bench = Bench::new();
        bench.write(1, Some(1));
        bench.kept();
        bench.persistence.take();
        bench.disk.fails(kind);
        bench.store = Store::new();
        bench.start().expect("it can be read");
        bench.fails();
        assert_eq!(bench.memory().len(), 2, "what was kept");
        let version = bench.write(2, Some(2));
        assert!(!bench.pending().wait(version, LONG));
        bench.disk.heals();
        bench.kept();
        let expected = bench.memory();
        bench.persistence.take();
        assert_eq!((bench.file(), expected.len()), (expected, 3));
    }
}

#[test]
fn a_controller_starts_without_a_file_where_none_can_be_made() {
    for kind in [io::ErrorKind::ReadOnlyFilesystem, io::ErrorKind::StorageFull] {
        let mut bench = Bench::new();
        bench.kept();
        bench.persistence.take();
        fs::remove_file(bench.path()).expect("it is there");
        bench.disk.fails(kind);
        bench.store = Store::new();
        bench.store.keep("t");
        bench.start().expect("it goes on in memory");
        bench.fails();
        let version = bench.write(1, Some(1));
        assert!(!bench.pending().wait(version, LONG) && !bench.path().exists());
        bench.disk.heals();
        bench.kept();
        let expected = bench.memory();
        bench.persistence.take();
        assert_eq!((bench.file(), expected.len()), (expected, 2), "{kind}");
    }
}

#[test]
fn a_repair_that_was_cut_off_before_it_shortened_the_file_is_no_damage() {
    for pages in [1, 16, 1000] {
        let mut bench = Bench::new();
        bench.write(1, Some(1));
        bench.kept();
        let expected = bench.memory();
        bench.persistence.take();
        let file = File::options().write(true).open(bench.path()).expect("the file");
        file.set_len(file.metadata().expect("a file").len() + pages * 4096).expect("room");
        let (_, copied) = file::open_copy(&StateFile::new(&bench.path())).expect("a copy is whole too");
        assert_eq!(copied.writes.len(), expected.len());
        assert_eq!(bench.file(), expected, "{pages}");
        bench.store = Store::new();
        bench.store.keep("t");
        bench.start().expect("it is whole");
        bench.write(2, Some(2));
        bench.kept();
        bench.persistence.take();
        assert_eq!(bench.file().len(), expected.len() + 1);
    }
}

#[test]
fn leaves_are_asked_for_again_when_the_file_is_made_anew() {
    let mut bench = Bench::new();
    bench.kept();
    let journal = Arc::new(LeafJournal::new(1));
    let restart = Arc::new(Restart::new(Time(1), Arc::clone(&bench.store), BTreeMap::new()));
    let persistence = bench.persistence.as_mut().expect("it runs");
    persistence.remember(Arc::clone(&journal), restart).expect("a thread");
    assert_eq!(journal.wanted(), 0);
    for wanted in 1..=2 {
        // The writer rests when nothing has changed for two periods.
        std::thread::sleep(Duration::from_secs(2));
        fs::remove_file(bench.path()).expect("it is there");
        bench.until("they are asked for", |_| journal.wanted() == wanted);
        bench.is_mended();
    }
}

/// Checks that the state that a policy sees does not depend on the disk.
#[test]
fn the_state_is_read_and_written_while_the_file_fails() {
    let bench = Bench::new();
    bench.disk.fails(io::ErrorKind::StorageFull);
    bench.write(1, Some(1));
    bench.fails();
    let has = |state: &Snapshot| state.table("t").map_or(0, |rows| rows.len());
    assert_eq!(has(&bench.store.snapshot()), 1);
    bench.write(2, Some(2));
    assert_eq!(has(&bench.store.snapshot()), 2);
}
