//! Files that are damaged, of another format, locked, or on a disk that refuses or hangs.

use std::fs::OpenOptions;
use std::process::Command;
use std::time::Instant;

use super::*;
use crate::control::timeline::disk::serve;
use crate::control::timeline::view::GapReason;
use crate::kept_files::KeptFiles;

/// Records three runs, an hour apart. Returns a moment of each, and the network then.
fn three_runs(path: &Path) -> (Lab, [(u64, NetworkThen); 3]) {
    let mut lab = Lab::in_files(path);
    let runs = [3, 4, 5].map(|number| {
        let time = lab.change([linked(), vec![switch(number, true)]].concat());
        lab.rate();
        lab.write();
        let then = (time, lab.present());
        lab = std::mem::replace(&mut lab, Lab::in_memory()).restarted(HOUR);
        then
    });
    lab.after(1000);
    (lab, runs)
}

/// Waits until something is so.
fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn segment(folder: &Path, number: u32) -> PathBuf {
    folder.join(format!("{number:08}.segment"))
}

#[test]
fn a_damaged_file_costs_its_own_time_and_is_left_in_place() {
    let folder = tempfile::tempdir().expect("a folder");
    let (lab, runs) = three_runs(folder.path());
    drop(lab);
    let path = segment(folder.path(), 2);
    let whole = std::fs::read(&path).expect("it is there");
    let cut = (0..whole.len()).step_by(5).map(|end| whole[..end].to_vec());
    let flipped = (8..whole.len()).step_by(5).map(|at| {
        let mut other = whole.clone();
        other[at] ^= 0x10;
        other
    });
    for bytes in cut.chain(flipped) {
        std::fs::write(&path, &bytes).expect("it is ours");
        let mut disk = Folder::new(folder.path().to_owned());
        let mut kept = TimelineState::new(true, super::super::ON_DISK, 0);
        let troubles = disk.open(&mut kept).expect("the others can be read");
        // A file that is cut between two entries is a shorter one.
        if let Some(trouble) = troubles.first() {
            assert!(troubles.len() == 1 && trouble.contains("00000002.segment: "), "{troubles:?}");
        }
        drop((disk, kept));
        let mut lab = Lab::in_files(folder.path());
        lab.wall += 4 * HOUR;
        let end = lab.after(1000);
        for (time, then) in [&runs[0], &runs[2]] {
            assert_eq!(&lab.then(*time), then, "the other runs are whole");
        }
        match lab.moment(runs[1].0) {
            Ok(moment) => assert_eq!(moment.network, runs[1].1),
            Err(Refused::NotKept(_, why)) => assert!(why.contains("00000002.segment"), "{why}"),
            Err(other) => panic!("{other:?}"),
        }
        let span = lab.span(runs[0].0, end);
        let whys: Vec<&str> =
            span.gaps.as_array().expect("gaps").iter().filter_map(|gap| gap["why"].as_str()).collect();
        assert_eq!(whys.contains(&"damaged"), !troubles.is_empty(), "{whys:?}");
        assert_eq!(std::fs::read(&path).expect("it is left"), bytes);
    }
}

#[test]
fn a_file_of_another_format_is_named_and_left_and_numbers_go_on_after_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let old = segment(folder.path(), 7);
    std::fs::write(&old, b"MTL\0\0\0\0\x01 what was kept before").expect("it is ours");
    std::fs::write(folder.path().join("notes.txt"), "of somebody else").expect("it is ours");
    let mut disk = Folder::new(folder.path().to_owned());
    let mut kept = TimelineState::new(true, super::super::ON_DISK, 0);
    let troubles = disk.open(&mut kept).expect("it can be read");
    assert!(troubles[0].ends_with("00000007.segment: it is of another format; it is left as it is"), "{troubles:?}");
    drop((disk, kept));
    let mut lab = Lab::in_files(folder.path());
    let time = lab.change(linked());
    lab.write();
    assert!(segment(folder.path(), 8).is_file() && old.is_file() && folder.path().join("notes.txt").is_file());
    let lab = lab.restarted(HOUR);
    assert_eq!(lab.then(time), lab.present());
}

#[test]
fn a_file_that_goes_or_changes_while_the_controller_runs_becomes_a_gap() {
    let folder = tempfile::tempdir().expect("a folder");
    let (lab, runs) = three_runs(folder.path());
    std::fs::write(segment(folder.path(), 1), "short").expect("it is ours");
    std::fs::remove_file(segment(folder.path(), 2)).expect("it is ours");
    let span = lab.timeline.span((None, None), lab.wall).expect("what is left can be shown");
    assert_eq!((span.from, &*span.before), (runs[2].0, &runs[2].1), "the first moment that can be read");
    assert_eq!(lab.then(runs[2].0), runs[2].1);
    assert!(lab.refusal(runs[1].0).contains("what is kept is from"));
}

/// Puts a link that leads to itself in the place of a file, so that the system refuses to open it.
fn refuse(path: &Path) -> Vec<u8> {
    let bytes = std::fs::read(path).expect("it is there");
    std::fs::remove_file(path).expect("it is ours");
    std::os::unix::fs::symlink(path, path).expect("it is ours");
    bytes
}

fn restore(path: &Path, bytes: &[u8]) {
    std::fs::remove_file(path).expect("it is ours");
    std::fs::write(path, bytes).expect("it is ours");
}

#[test]
fn a_file_that_the_system_refuses_to_read_for_a_while_is_lost_neither_to_requests_nor_to_a_restart() {
    let folder = tempfile::tempdir().expect("a folder");
    let (lab, runs) = three_runs(folder.path());
    let path = segment(folder.path(), 2);
    let bytes = refuse(&path);
    assert!(matches!(lab.moment(runs[1].0), Err(Refused::Disk(_))));
    let all = lab.timeline.span((None, None), lab.wall).expect_err("it can't be read now");
    assert!(matches!(&all, Refused::Disk(why) if !why.is_empty()), "{all:?}");
    restore(&path, &bytes);
    assert_eq!((lab.then(runs[1].0), lab.gaps().len()), (runs[1].1.clone(), 3));
    // What refuses at the start is left in place, and used by the next run.
    let bytes = refuse(&path);
    let mut lab = lab.restarted(HOUR);
    lab.after(1000);
    assert!(lab.refusal(runs[1].0).contains("can't be read (00000002.segment: "), "{}", lab.refusal(runs[1].0));
    assert_eq!(lab.then(runs[2].0), runs[2].1);
    restore(&path, &bytes);
    assert_eq!(lab.restarted(HOUR).then(runs[1].0), runs[1].1);
}

#[test]
fn no_number_of_files_that_the_system_refuses_to_read_is_deleted_for_want_of_room() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut lab = Lab::in_files(folder.path());
    for _ in 0..70 {
        lab.change(linked());
        lab.write();
        lab = lab.restarted(1000);
    }
    let files: Vec<(PathBuf, Vec<u8>)> =
        (1..=70).map(|number| segment(folder.path(), number)).map(|path| (path.clone(), refuse(&path))).collect();
    let mut lab = lab.restarted(1000);
    lab.change(linked());
    lab.timeline.span((None, None), lab.wall).expect("of this run");
    lab.after(1000);
    lab.write();
    for (path, bytes) in &files {
        restore(path, bytes);
    }
    lab.write();
    assert!(files.iter().all(|(path, _)| path.is_file()));
    // Those that are damaged give way.
    drop(lab);
    files.iter().for_each(|(path, bytes)| std::fs::write(path, &bytes[..12]).expect("it is ours"));
    let mut lab = Lab::in_files(folder.path());
    lab.wall += HOUR;
    lab.after(1000);
    lab.write();
    let is_there: Vec<bool> = files.iter().map(|(path, _)| path.is_file()).collect();
    assert_eq!((&is_there[..6], is_there[6..].iter().all(|there| *there)), (&[false; 6][..], true));
}

#[test]
fn an_end_that_is_cut_is_reported_together_with_the_time_in_which_the_controller_did_not_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut lab = Lab::in_files(folder.path());
    lab.change(linked());
    lab.change(vec![switch(3, true)]);
    lab.write();
    let path = segment(folder.path(), 1);
    let bytes = std::fs::read(&path).expect("it is written");
    std::fs::write(&path, &bytes[..bytes.len() - 3]).expect("it is ours");
    let mut lab = lab.restarted(3 * HOUR);
    lab.after(1000);
    let (from, to, why) = lab.gap();
    assert!(why.contains("00000001.segment, byte ") && why.ends_with("and then the controller did not run"), "{why}");
    assert!(to - from >= 3 * HOUR);
}

#[test]
fn a_file_whose_beginning_is_damaged_is_named_and_so_is_what_is_no_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let (lab, runs) = three_runs(folder.path());
    drop(lab);
    let path = segment(folder.path(), 2);
    let mut bytes = std::fs::read(&path).expect("it is there");
    bytes[0] ^= 1;
    std::fs::write(&path, &bytes).expect("it is ours");
    let looked = |folder: &Path| {
        let mut lab = Lab::in_files(folder);
        lab.wall += 5 * HOUR;
        lab.after(1000);
        let why = lab.refusal(runs[1].0);
        (lab, why)
    };
    let (lab, why) = looked(folder.path());
    assert!(why.contains("can't be read (00000002.segment: it is of another format)"), "{why}");
    assert_eq!(std::fs::read(&path).expect("it is left"), bytes);
    drop(lab);
    // A pipe is not waited for.
    std::fs::remove_file(&path).expect("it is ours");
    assert!(Command::new("mkfifo").arg(&path).status().expect("it runs").success());
    let (lab, why) = looked(folder.path());
    assert!(why.contains("can't be read (00000002.segment: it is not a file)"), "{why}");
    assert_eq!(lab.then(runs[2].0), runs[2].1);
}

#[test]
fn numbers_of_nine_digits_go_on() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(segment(folder.path(), 99_999_999), "of another format").expect("it is ours");
    let mut lab = Lab::in_files(folder.path());
    let time = lab.change(linked());
    lab.write();
    assert!(folder.path().join("100000000.segment").is_file());
    let mut lab = lab.restarted(HOUR);
    assert_eq!(lab.then(time), lab.present());
    lab.change(vec![switch(3, true)]);
    lab.write();
    assert!(folder.path().join("100000001.segment").is_file());
}

#[test]
fn a_folder_that_was_moved_away_is_written_on_and_never_the_one_in_its_place() {
    let outer = tempfile::tempdir().expect("a folder");
    let (path, moved) = (outer.path().join("timeline"), outer.path().join("moved"));
    let mut first = Lab::in_files(&path);
    first.change(linked());
    first.write();
    std::fs::rename(&path, &moved).expect("it is ours");
    let mut second = Lab::in_files(&path);
    let of_second = second.change(vec![switch(7, true)]);
    second.write();
    let of_first = first.change(vec![switch(3, true)]);
    first.write();
    let (then_first, then_second) = (first.present(), second.present());
    drop((first, second));
    let read = |path: &Path, time| {
        let lab = Lab::in_files(path);
        assert!(lab.gaps().is_empty());
        lab.timeline.moment(Some(time), time).expect("it is kept").network
    };
    assert_eq!((read(&path, of_second), read(&moved, of_first)), (then_second, then_first));
}

#[test]
fn a_file_whose_end_is_missing_is_a_gap_though_the_next_one_went_on_there() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut lab = Lab::in_files(folder.path());
    let first = lab.change(linked());
    let then = lab.present();
    lab.write();
    let short = std::fs::read(segment(folder.path(), 1)).expect("it is written");
    let lost = lab.change(vec![switch(3, true)]);
    lab.steadily(3 * HOUR);
    lab.write();
    assert!(segment(folder.path(), 2).is_file() && lab.gaps().is_empty());
    std::fs::write(segment(folder.path(), 1), short).expect("it is ours");
    let lab = lab.restarted(HOUR);
    assert_eq!(lab.then(first), then);
    assert!(
        lab.refusal(lost).contains("can't be read (00000001.segment, its end is missing: "),
        "{}",
        lab.refusal(lost)
    );
    let whys = lab.timeline.span((Some(first), None), lab.wall).expect("it is kept").gaps;
    assert_eq!((whys[0]["why"].as_str(), whys.as_array().map(Vec::len)), (Some("damaged"), Some(1)));
}

#[test]
fn a_second_controller_cannot_open_a_timeline_folder_in_use() {
    let folder = tempfile::tempdir().expect("a folder");
    let first = Lab::in_files(folder.path());
    let mut kept = TimelineState::new(true, super::super::ON_DISK, 0);
    let error = Folder::new(folder.path().to_owned()).open(&mut kept).expect_err("it is in use");
    assert_eq!(error.to_string(), "another controller keeps its timeline in this folder");
    drop(first);
    Folder::new(folder.path().to_owned()).open(&mut kept).expect("it is free");
}

#[test]
fn the_next_controller_goes_on_when_the_one_that_has_the_folder_ends() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut first = Lab::in_files(folder.path());
    let time = first.change(linked());
    first.write();
    let (jobs, waiting) = bounded(WAITING);
    let timeline = Arc::new(Timeline::new(Some(jobs), Duration::ZERO));
    let (own, path) = (Arc::clone(&timeline), folder.path().to_owned());
    let thread = std::thread::spawn(move || serve(&own, Folder::new(path), &waiting, &KeptFiles::default()));
    let said = || timeline.kept().as_ref().err().cloned().unwrap_or_default();
    eventually("it says why", || said().contains("another controller keeps its timeline in this folder"));
    let then = first.present();
    drop(first);
    eventually("it goes on", || timeline.kept().is_ok());
    assert_eq!(timeline.moment(Some(time), time).expect("it is kept").network, then);
    timeline.disk_ends.store(true, Ordering::Relaxed);
    thread.join().expect("it ends");
}

#[test]
fn a_disk_that_refuses_loses_nothing_as_long_as_there_is_room() {
    let folder = tempfile::tempdir().expect("a folder");
    let inside = folder.path().join("timeline");
    let mut lab = Lab::in_files(&inside);
    // A folder in the place of the first file.
    std::fs::create_dir(segment(&inside, 1)).expect("it is ours");
    let time = lab.change(linked());
    lab.disk.as_mut().expect("a folder").work(&lab.timeline).expect_err("it can't be written");
    assert_eq!(lab.then(time), lab.present());
    std::fs::remove_dir(segment(&inside, 1)).expect("it is ours");
    lab.write();
    assert_eq!(lab.then(time), lab.present());
    // Somebody deletes the folder: it is made and written again.
    std::fs::remove_dir_all(&inside).expect("it is ours");
    let time = lab.change(vec![switch(3, true)]);
    lab.write();
    lab.write();
    let lab = lab.restarted(HOUR);
    assert_eq!(lab.then(time), lab.present());
}

#[test]
fn a_disk_that_refuses_for_long_costs_the_oldest_of_what_waits_and_never_what_is_being_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut lab = Lab::in_files(folder.path());
    let limits = {
        let mut limits = super::super::ON_DISK;
        limits.bytes.waiting = 600_000;
        limits
    };
    *lab.timeline.kept() = Ok(Box::new(TimelineState::new(true, limits, 0)));
    let written = lab.change(linked());
    lab.rate();
    lab.write();
    let grown = |lab: &mut Lab, turns: u64| {
        for _ in 0..turns {
            for number in 0..600 {
                let line = line(number, lab.wall, Level::Warning, "session", &"x".repeat(400));
                lab.kept(|kept| kept.line(&line));
            }
            lab.steadily(HOUR);
        }
    };
    grown(&mut lab, 8);
    let now = lab.change(vec![switch(3, true)]);
    let waiting: usize = lab.kept(|kept| {
        kept.segments
            .work(false)
            .iter()
            .map(|work| match work {
                super::super::segments::Work::Append { blocks, .. } => blocks.iter().map(|block| block.len()).sum(),
                super::super::segments::Work::Delete { .. } => 0,
            })
            .sum()
    });
    assert!(waiting <= 900_000, "{waiting} bytes wait");
    assert_eq!(lab.then(written).switches.len(), 2, "what is in the file stays");
    assert_eq!(lab.then(now), lab.present(), "so does the segment that grows");
    assert!(lab.gaps().iter().any(|gap| gap.why == GapReason::Refused), "{:?}", lab.gaps());
    lab.write();
    let end = lab.wall;
    let lab = lab.restarted(HOUR);
    assert_eq!((lab.then(written).switches.len(), lab.then(end)), (2, lab.present()));
}

#[test]
fn a_disk_that_hangs_delays_no_request_but_its_own() {
    let folder = tempfile::tempdir().expect("a folder");
    let (jobs, waiting) = bounded(WAITING);
    let mut timeline = Timeline::new(Some(jobs.clone()), Duration::ZERO);
    timeline.patience = Duration::from_millis(50);
    let timeline = Arc::new(timeline);
    // Nobody reads this pipe, so its writer hangs.
    let pipe = segment(folder.path(), 3);
    let own = Arc::clone(&timeline);
    let path = folder.path().to_owned();
    let thread = std::thread::spawn(move || serve(&own, Folder::new(path), &waiting, &KeptFiles::default()));
    eventually("it is open", || timeline.kept().is_ok());
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("it runs").success());
    let store = Store::new();
    store.update(|_| linked());
    let look = |passed: u64| {
        let mut kept = timeline.kept();
        let kept = kept.as_mut().expect("it is open");
        kept.advance(Reading { wall: BEGIN + passed, passed });
        kept.look(&store.snapshot(), |_| false);
    };
    let is_written = || timeline.kept().as_mut().expect("it is open").segments.work(false).is_empty();
    // Two segments are written, so the first one is in its file alone. The third one is to go into the pipe.
    for begin in [0, 4 * HOUR] {
        look(begin);
        eventually("it is written", is_written);
    }
    look(8 * HOUR);
    store.update(|_| vec![switch(3, true)]);
    look(8 * HOUR + 1000);
    let now = timeline.moment(None, u64::MAX).expect("it is in memory");
    assert_eq!((now.network.switches.len(), now.network.links().count()), (3, 1));
    // Sooner or later the thread hangs: then nobody takes the jobs of requests that have stopped waiting.
    eventually("requests wait in vain", || {
        let refused = timeline.moment(Some(BEGIN), u64::MAX).err();
        assert!(matches!(refused, None | Some(Refused::Late)), "{refused:?}");
        jobs.is_full()
    });
    assert_eq!(timeline.moment(None, u64::MAX).expect("it is in memory").network, now.network);
    timeline.disk_ends.store(true, Ordering::Relaxed);
    // With both ends open, nobody hangs.
    let both = OpenOptions::new().read(true).write(true).open(&pipe).expect("it is a pipe");
    thread.join().expect("it ends");
    drop(both);
}
