//! State that survives a restart, also when the controller is killed while writes follow each other, and files that
//! can't be used.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use maple_controller::control::transactions::ChangeError;
use maple_controller::{Controller, ControllerOptions, StartError};
use maple_core::state::{Counter, Store, Table, Tx, Value, Var, Write};
use maple_core::{Net, PacketHandle, Route};
use tempfile::TempDir;

/// The environment variable that makes this program the one to be killed, and names the file that it writes.
const FILE: &str = "MAPLE_TEST_STORM";
/// The number of threads that write at a time in a storm.
const WRITERS: i64 = 4;

fn start_with(file: Option<&Path>, prepare: impl FnOnce(&Store)) -> Result<Controller, StartError> {
    let mut options = ControllerOptions::new(Arc::new(|_: &PacketHandle, _: &Net| Route::flood()));
    options.openflow.listen = vec![SocketAddr::from(([127, 0, 0, 1], 0))];
    (options.workers.count, options.workers.pin) = (1, false);
    options.store = Store::new();
    prepare(&options.store);
    options.memory.state_file = file.map(Path::to_owned);
    Controller::start(options)
}

fn start(file: &Path) -> Result<Controller, StartError> {
    start_with(Some(file), |store| ["storm", "sum", "mode"].into_iter().for_each(|name| store.keep(name)))
}

/// Returns the place of a state file, in a folder that is removed with its test.
fn state_file() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("state");
    (folder, file)
}

fn storm_table() -> Table<i64, i64> {
    Table::new("storm")
}

#[test]
fn a_file_is_brought_to_the_types_that_were_declared_since_or_refused_by_name() {
    let (_folder, file) = state_file();
    let row = |key: &str| Write::Table { table: "storm".into(), key: key.into(), value: Some(true.into()) };
    let as_text = start(&file).expect("the file can be used");
    as_text.handle().change(vec![row("00-00-0A-00-00-01")]).expect("it is kept");
    as_text.stop();
    type Typed = Table<maple_core::Mac, bool>;
    let typed = || {
        start_with(Some(&file), |store| {
            store.keep("storm");
            store.declare_types("storm", Typed::types()).expect("nothing is there");
        })
    };
    let address = "00:00:0a:00:00:01".parse().expect("an address");
    for round in 0..2 {
        let controller = typed().expect("the file can be used");
        assert_eq!(Typed::new("storm").entries(&controller.handle().store().view()), [(address, true)], "{round}");
        controller.stop();
    }
    let untyped = start(&file).expect("the file can be used");
    let gone = Write::Table { table: "storm".into(), key: address.into(), value: None };
    untyped.handle().change(vec![gone]).expect("it is kept");
    assert_eq!(untyped.handle().store().snapshot().table("storm"), None, "its old spelling is not there any more");
    untyped.handle().change(vec![row("banana")]).expect("it is kept");
    untyped.stop();
    let error = typed().map(|_| ()).expect_err("a banana").to_string();
    let text = "the table storm is declared with keys of type Mac, and \"banana\" is not one; it was not changed";
    assert!(error.ends_with(text) && error.contains(file.to_str().expect("text")), "{error}");
    assert!(start(&file).is_ok(), "as it was before");
}

#[test]
fn kept_state_survives_a_restart_and_other_state_does_not() {
    let (_folder, file) = state_file();
    let (mode, other) = (Var::new("mode", "day".to_owned()), Var::new("other", 0i64));
    for round in 0..3i64 {
        let controller = start(&file).expect("the file can be used");
        let view = controller.handle().store().view();
        let expected = if round == 0 { "day".to_owned() } else { format!("night {}", round - 1) };
        assert_eq!((mode.get(&view), other.get(&view)), (expected, 0));
        assert_eq!(Counter::new("sum").get(&view), i128::from(round) * 5);
        let change = |tx: &Tx| {
            mode.set(tx, &format!("night {round}"));
            other.set(tx, &1);
            Counter::new("sum").add(tx, 5);
            storm_table().set(tx, &round, &round);
            storm_table().delete(tx, &(round - 1));
            Ok(())
        };
        controller.handle().atomically(None, change).expect("it is kept");
        assert_eq!(storm_table().entries(&controller.handle().store().view()), [(round, round)]);
        controller.stop();
    }
}

#[test]
fn rows_that_the_policy_writes_when_it_is_loaded_count_only_the_first_time() {
    let (_folder, file) = state_file();
    let first = |store: &Store| {
        store.keep("storm");
        let entry =
            |key: i64| Write::Table { table: "storm".into(), key: Value::from(key), value: Some(Value::from(1i64)) };
        store.update(|_| vec![entry(1), entry(2)]);
    };
    let controller = start_with(Some(&file), first).expect("the file can be used");
    let handle = controller.handle();
    assert_eq!(storm_table().entries(&handle.store().view()), [(1, 1), (2, 1)]);
    let delete_both = |tx: &Tx| {
        [1, 2].iter().for_each(|key| storm_table().delete(tx, key));
        Ok(())
    };
    handle.atomically(None, delete_both).expect("it is kept");
    controller.stop();
    let controller = start_with(Some(&file), first).expect("the file can be used");
    assert_eq!(storm_table().entries(&controller.handle().store().view()), [], "what was deleted stays deleted");
}

#[test]
fn a_table_that_is_marked_late_is_kept_with_all_that_it_has() {
    let (_folder, file) = state_file();
    let controller = start_with(Some(&file), |_| ()).expect("the file can be used");
    let handle = controller.handle();
    let set = |key: i64| {
        let write = Write::Table { table: "storm".into(), key: Value::from(key), value: Some(Value::from(key)) };
        handle.change(vec![write]).expect("it is changed");
    };
    set(1);
    handle.store().keep("storm");
    set(2);
    controller.stop();
    let controller = start_with(Some(&file), |_| ()).expect("the file can be used");
    assert_eq!(storm_table().entries(&controller.handle().store().view()), [(1, 1), (2, 2)]);
}

#[test]
fn a_table_that_is_to_be_kept_needs_a_file() {
    let error = start_with(None, |store| store.keep("mode")).expect_err("nobody said where").to_string();
    assert!(error.starts_with("mode must survive a restart; name a file"), "{error}");
}

#[test]
fn a_second_controller_on_the_same_file_is_refused() {
    let (_folder, file) = state_file();
    let first = start(&file).expect("the file can be used");
    let error = start(&file).expect_err("it is in use").to_string();
    assert_eq!(error, format!("another process uses the state file {}", file.display()));
    first.stop();
    start(&file).expect("it is free again");
}

#[test]
fn a_file_of_another_format_is_refused_and_left_as_it_is() {
    let (_folder, file) = state_file();
    start(&file).expect("the file can be made").stop();
    start(&file).expect("its format is known").stop();
    let run: redb::TableDefinition<'_, &str, &str> = redb::TableDefinition::new("maple run");
    let write = |format: &str| {
        let database = redb::Database::open(&file).expect("nobody else has it");
        let transaction = database.begin_write().expect("a transaction");
        let mut table = transaction.open_table(run).expect("the table is there");
        table.insert("rows", format).expect("it can be written");
        drop(table);
        transaction.commit().expect("it is written");
    };
    write("3");
    let error = start(&file).expect_err("the format is unknown").to_string();
    let reported = "has format 3, and this version of Maple reads format 2; it was not changed";
    assert_eq!(error, format!("the state file {} {reported}", file.display()));
    write("2");
    start(&file).expect("its format is known").stop();
}

#[test]
fn a_file_of_the_format_before_is_rewritten_once_it_fits_the_declared_types() {
    let (_folder, file) = state_file();
    let rows: redb::TableDefinition<'_, &str, &str> = redb::TableDefinition::new("maple state");
    let names: redb::TableDefinition<'_, &str, ()> = redb::TableDefinition::new("maple names");
    let run: redb::TableDefinition<'_, &str, &str> = redb::TableDefinition::new("maple run");
    let database = redb::Database::create(&file).expect("a file");
    let transaction = database.begin_write().expect("a transaction");
    for (key, value) in [(r#"["storm",1]"#, "1"), (r#"["storm",2]"#, "4"), (r#"["mode"]"#, r#""night""#)] {
        transaction.open_table(rows).expect("a table").insert(key, value).expect("a row");
    }
    transaction.open_table(names).expect("a table").insert("storm", ()).expect("a row");
    transaction.open_table(run).expect("a table").insert("rows", "1").expect("a row");
    transaction.commit().expect("it is written");
    drop(database);
    let typed = start_with(Some(&file), |store| {
        store.keep("storm");
        store.declare_types("storm", Table::<String, i64>::types()).expect("nothing is there");
    });
    let error = typed.expect_err("the keys are numbers").to_string();
    assert!(error.ends_with("; it was not changed"), "{error}");
    let database = redb::Database::open(&file).expect("nobody else has it");
    database.begin_read().expect("a transaction").open_table(rows).expect("it is as it was");
    drop(database);
    for round in 0..2 {
        let controller = start(&file).expect("the file can be used");
        let view = controller.handle().store().view();
        assert_eq!(storm_table().entries(&view), [(1, 1), (2, 4)], "{round}");
        assert_eq!(Var::new("mode", "day".to_owned()).get(&view), "night");
        drop(view);
        controller.stop();
    }
    let database = redb::Database::open(&file).expect("nobody else has it");
    let run = database.begin_read().expect("a transaction").open_table(run).expect("a table");
    assert_eq!(run.get("rows").expect("it can be read").expect("it is there").value(), "2");
}

#[test]
fn a_file_of_another_kind_is_refused_and_left_as_it_is() {
    let (_folder, file) = state_file();
    let text = "not a database ".repeat(1000);
    fs::write(&file, &text).expect("it can be written");
    let error = start(&file).expect_err("it is a text").to_string();
    assert_eq!(error, format!("{} is not a state file of Maple; it was not changed", file.display()));
    assert_eq!(fs::read_to_string(&file).expect("it is there"), text);
    let folder = start(&std::env::temp_dir()).expect_err("it is a folder").to_string();
    assert!(folder.contains(&*std::env::temp_dir().to_string_lossy()), "{folder}");
    let nowhere = start(Path::new("/nowhere/state")).expect_err("there is no folder").to_string();
    assert!(nowhere.starts_with("the state file /nowhere/state: No such file"), "{nowhere}");
}

#[test]
fn a_torn_file_is_refused_or_has_all_that_it_had() {
    let (_folder, file) = state_file();
    let controller = start(&file).expect("the file can be used");
    let fill = |tx: &Tx| {
        (0..2000).for_each(|n| storm_table().set(tx, &n, &(n * n)));
        Ok(())
    };
    controller.handle().atomically(None, fill).expect("it is kept");
    controller.stop();
    let whole = fs::read(&file).expect("it is there");
    let mut refused = 0;
    let mut attempt = |torn: &[u8]| {
        fs::write(&file, torn).expect("it can be written");
        match start(&file) {
            Ok(controller) => {
                let kept = storm_table().entries(&controller.handle().store().view());
                assert_eq!(kept.len(), 2000, "nothing is lost in silence");
            }
            Err(error) => {
                let text = error.to_string();
                assert!(text.contains(&*file.to_string_lossy()), "{text}");
                refused += 1;
            }
        }
    };
    for part in 1..12 {
        attempt(&whole[..whole.len() * part / 12]);
    }
    for page in (0..whole.len() / 4096).step_by(16) {
        let mut garbled = whole.clone();
        garbled[page * 4096..][..512].fill(0x5a);
        attempt(&garbled);
    }
    assert!(refused > 10, "{refused}");
}

/// Runs in the process that is killed: threads write numbers, and print each when it is acknowledged.
#[test]
fn storm() {
    let Some(path) = std::env::var_os(FILE) else { return };
    let controller = start(Path::new(&path)).expect("the file can be used");
    let handle = controller.handle();
    let first = storm_table().len(&handle.store().view()) as i64;
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let handle = handle.clone();
            scope.spawn(move || {
                for n in (first + writer..).step_by(WRITERS as usize) {
                    let change = |tx: &Tx| {
                        storm_table().set(tx, &n, &(n * n));
                        Counter::new("sum").add(tx, 1);
                        Ok(())
                    };
                    handle.atomically(None, change).expect("it is kept");
                    println!("acknowledged {n}");
                }
            });
        }
    });
}

#[test]
fn no_acknowledged_write_is_lost_when_the_controller_is_killed() {
    let (_folder, file) = state_file();
    let mut acknowledged = Vec::new();
    for round in 0..5 {
        let own = std::env::current_exe().expect("a test has a file");
        let mut storm = Command::new(own);
        storm.args(["--exact", "persistence::storm", "--nocapture"]).env(FILE, &file).stdout(Stdio::piped());
        let mut child = storm.spawn().expect("it can be started");
        let lines = BufReader::new(child.stdout.take().expect("it is piped")).lines().map_while(Result::ok);
        let mut numbers = lines.filter_map(|line| line.split("acknowledged ").nth(1)?.parse::<i64>().ok());
        acknowledged.extend(numbers.by_ref().take(20 + 13 * round));
        child.kill().expect("it runs");
        child.wait().expect("it has ended");
        // The numbers that it printed before the end count as well.
        acknowledged.extend(numbers);
        let controller = start(&file).expect("the file is whole");
        let view = controller.handle().store().view();
        let lost: Vec<i64> =
            acknowledged.iter().copied().filter(|n| storm_table().get(&view, n) != Some(n * n)).collect();
        assert!(lost.is_empty(), "{lost:?} of {} that were acknowledged", acknowledged.len());
        let kept = storm_table().len(&view) as i128;
        assert_eq!(Counter::new("sum").get(&view), kept, "of each transaction all or nothing");
        fill_gaps(&controller);
    }
    assert!(acknowledged.len() > 200, "{}", acknowledged.len());
}

#[test]
fn a_persistent_writer_neither_delays_the_end_nor_gets_a_false_acknowledgement() {
    let (_folder, file) = state_file();
    let controller = start(&file).expect("the file can be used");
    let handle = controller.handle();
    let (has_begun, is_over) = (AtomicBool::new(false), AtomicBool::new(false));
    let write = |key: i64, value: i64| Write::Table {
        table: "storm".into(),
        key: Value::Int(key.into()),
        value: Some(Value::Int(value.into())),
    };
    let refused = std::thread::scope(|scope| {
        let waits = scope.spawn(|| {
            let mut numbers = 0..;
            let refused = numbers.find(|n| {
                has_begun.store(*n > 20, Ordering::Relaxed);
                handle.change(vec![write(*n, 0)]) == Err(ChangeError::NotKept)
            });
            refused.expect("some day it ends")
        });
        // These writes are faster than the disk.
        scope.spawn(|| {
            for n in (0..).take_while(|_| !is_over.load(Ordering::Relaxed)) {
                handle.store().update(|_| vec![write(-1, n)]);
            }
        });
        while !has_begun.load(Ordering::Relaxed) && !waits.is_finished() {
            std::thread::yield_now();
        }
        controller.stop();
        is_over.store(true, Ordering::Relaxed);
        waits.join().expect("it ends")
    });
    let controller = start(&file).expect("the file is whole");
    let view = controller.handle().store().view();
    let lost: Vec<i64> = (0..refused).filter(|n| !storm_table().contains(&view, n)).collect();
    assert!(lost.is_empty(), "{lost:?} of {refused} that were not refused");
}

/// Writes the numbers that a writer had not reached, so that the next storm can begin after the last one.
fn fill_gaps(controller: &Controller) {
    let fill = |tx: &Tx| {
        let last = storm_table().entries(tx).last().map_or(-1, |(n, _)| *n);
        for n in (0..last).filter(|n| !storm_table().contains(tx, n)).collect::<Vec<_>>() {
            storm_table().set(tx, &n, &(n * n));
            Counter::new("sum").add(tx, 1);
        }
        Ok(())
    };
    controller.handle().atomically(None, fill).expect("it is kept");
}
