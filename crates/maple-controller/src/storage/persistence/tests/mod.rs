//! Tests of a state file on a disk that works; `failures` of disks that fail.

mod failures;

use maple_core::state::{Value, Write};

use super::*;

/// Creates a store that keeps the variable `mode` with this value.
fn store(value: i128) -> Arc<Store> {
    let store = Store::new();
    store.keep("mode");
    store.update(|_| vec![Write::Var { name: "mode".into(), value: Some(Value::Int(value)) }]);
    store
}

#[test]
fn a_file_that_another_process_has_is_opened_when_it_is_released() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("state");
    let (first, _) = Persistence::open(&path, &store(1), &KeptFiles::default()).expect("a file");
    let (second, names) = (store(2), ["mode".into()]);
    let (release, released) = std::sync::mpsc::channel::<Release>();
    let later =
        Persistence::open_later(&path, &second, &names, Some(7), released, &KeptFiles::default()).expect("threads");
    let commit = second.update(|_| vec![Write::Var { name: "mode".into(), value: Some(Value::Int(3)) }]);
    let pending = later.pending_writes();
    let version = commit.kept.expect("it is kept");
    assert!(!pending.wait(version, Duration::from_millis(100)), "it is not on the disk");
    drop(first);
    release.send(Box::new(|| {})).expect("it waits");
    assert!(pending.wait(version, Duration::from_secs(20)));
    drop(later);
    let third = store(0);
    let (last, remembered) = Persistence::open(&path, &third, &KeptFiles::default()).expect("the file");
    assert_eq!(third.snapshot().var("mode"), Some(&Value::Int(3)));
    assert_eq!(remembered.epoch, 8);
    drop(last);
    // Nobody releases it: it stays as it is, and nothing hangs.
    let (release, released) = std::sync::mpsc::channel::<Release>();
    drop(Persistence::open_later(&path, &store(9), &names, Some(9), released, &KeptFiles::default()).expect("threads"));
    drop(release);
    let fourth = store(0);
    let (_last, remembered) = Persistence::open(&path, &fourth, &KeptFiles::default()).expect("the file");
    assert_eq!((fourth.snapshot().var("mode"), remembered.epoch), (Some(&Value::Int(3)), 9));
}
