//! Tests of what is kept, made again, bounded, and read after a crash.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use maple_core::engine::ShardId;
use maple_core::network::{HostInfo, Location, Mac, PortInfo, PortKind};
use maple_core::state::{Store, SwitchInfo, Write};
use maple_wire::{Dpid, PortNo, Version};
use proptest::prelude::*;

use super::entry::Entry;
use super::kept::{IN_MEMORY, Kept};
use super::network::NetworkThen;
use super::segments::Bounds;
use crate::log::{Level, LogEntry};

const HOUR: u64 = 3_600_000;

/// A network whose changes a timeline follows.
struct Followed {
    store: Arc<Store>,
    kept: Kept,
    now: u64,
    away: BTreeSet<Dpid>,
}

fn at(switch: u64, port: u32) -> Location {
    Location::new(Dpid(switch), PortNo(port))
}

fn mac(number: u8) -> Mac {
    Mac([2, 0, 0, 0, 0, number])
}

fn host(number: u8, location: Option<Location>) -> Write {
    let info = |location| HostInfo { location, ipv4: [[10, 0, 0, number].into()].into(), ipv6: [].into() };
    Write::Host { mac: mac(number), info: location.map(info) }
}

fn port(at: Location, up: bool, kind: PortKind) -> Write {
    Write::Port { at, info: Some(PortInfo { up, kind }) }
}

fn switch(dpid: u64, is_there: bool) -> Write {
    let info = SwitchInfo { shard: ShardId(0), version: Version::Of13 };
    Write::Switch { dpid: Dpid(dpid), info: is_there.then_some(info) }
}

fn line(number: u64, level: Level, area: &'static str, text: &str) -> LogEntry {
    LogEntry { number, time: SystemTime::UNIX_EPOCH, level, area, text: text.to_owned() }
}

impl Followed {
    fn new(kept: Kept) -> Followed {
        Followed { store: Store::new(), kept, now: 1_000_000, away: BTreeSet::new() }
    }

    fn in_memory() -> Followed {
        Followed::new(Kept::new(None))
    }

    fn in_files(folder: &Path) -> Followed {
        let mut kept = Kept::new(Some(folder.to_owned()));
        kept.open().expect("it can be read");
        Followed::new(kept)
    }

    /// Changes the network, and looks a second later. Returns that time.
    fn change(&mut self, writes: Vec<Write>) -> u64 {
        self.store.update(|_| writes);
        self.after(1000)
    }

    fn after(&mut self, milliseconds: u64) -> u64 {
        self.now += milliseconds;
        self.kept.look(self.now, &self.store.snapshot(), |dpid| self.away.contains(&dpid));
        self.now
    }

    fn present(&self) -> NetworkThen {
        let mut all = NetworkThen::default();
        let (changes, beyond) = all.changes_to(&self.store.snapshot(), |dpid| self.away.contains(&dpid), usize::MAX);
        assert_eq!(beyond, 0);
        changes.into_iter().for_each(|change| all.apply(change));
        all
    }

    fn then(&self, time: u64) -> NetworkThen {
        self.kept.network_at(time).expect("it is kept").0
    }
}

/// Two switches with a link between them.
fn linked() -> Vec<Write> {
    let (a, b) = (at(1, 1), at(2, 1));
    vec![switch(1, true), switch(2, true), port(a, true, PortKind::Link(b)), port(b, true, PortKind::Link(a))]
}

#[test]
fn a_moment_is_made_again_as_it_was() {
    let mut network = Followed::in_memory();
    let begin = network.change(linked());
    let found = network.change(vec![port(at(1, 2), true, PortKind::Edge), host(1, Some(at(1, 2)))]);
    let down = network.change(vec![port(at(1, 1), false, PortKind::Link(at(2, 1)))]);
    network.away.insert(Dpid(2));
    let away = network.after(1000);
    let gone = network.change(vec![host(1, None)]);

    assert_eq!(network.then(begin).links().collect::<Vec<_>>(), [(at(1, 1), at(2, 1))]);
    assert!(network.then(begin).hosts.is_empty() && network.then(found - 1).hosts.is_empty());
    assert_eq!(network.then(found).hosts[&mac(1)].location, at(1, 2));
    assert_eq!((network.then(down - 1).links().count(), network.then(down).links().count()), (1, 0));
    assert_eq!((network.then(down).switches[&Dpid(2)], network.then(away).switches[&Dpid(2)]), (true, false));
    assert_eq!((network.then(away).hosts.len(), network.then(gone).hosts.len()), (1, 0));
    assert_eq!(network.then(gone), network.present());
    for beyond in [begin - 1, gone + 1] {
        assert!(network.kept.network_at(beyond).expect_err("it is not kept").contains("what is kept is from 1970-"));
    }
    let versions: Vec<u64> =
        [begin, found, down, gone].map(|time| network.kept.network_at(time).expect("kept").1).into();
    assert!(versions.is_sorted_by(|a, b| a < b) && versions[3] == network.store.snapshot().version(), "{versions:?}");
}

/// A step of a random network.
fn steps() -> impl Strategy<Value = Vec<(u8, u8, bool)>> {
    proptest::collection::vec((0u8..6, 0u8..4, any::<bool>()), 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn each_moment_of_any_history_is_made_again_also_from_files(steps in steps()) {
        let folder = tempfile::tempdir().expect("a folder");
        let mut network = Followed::in_files(folder.path());
        network.change(linked());
        let mut all = Vec::new();
        for (what, number, is_so) in steps {
            let location = at(1 + u64::from(number % 2), 2 + u32::from(number));
            let time = match what {
                0 => network.change(vec![switch(3, is_so)]),
                1 => network.change(vec![port(at(1, 1), is_so, PortKind::Link(at(2, 1)))]),
                2 => network.change(vec![port(location, is_so, PortKind::Edge)]),
                3 => {
                    if is_so { network.away.insert(Dpid(1)) } else { network.away.remove(&Dpid(1)) };
                    network.after(1000)
                }
                // Another segment begins.
                4 => network.after(2 * HOUR / 10 * 10),
                _ => network.change(vec![host(number, is_so.then_some(location))]),
            };
            all.push((time, network.present()));
        }
        all.retain(|(time, _)| network.kept.range().is_some_and(|(from, _)| *time >= from));
        for (time, then) in &all {
            prop_assert_eq!(&network.then(*time), then);
        }
        network.kept.segments.write().expect("it is written");
        let again = Followed::in_files(folder.path());
        for (time, then) in all.iter().filter(|(time, _)| again.kept.segment_of(*time).is_ok()) {
            prop_assert_eq!(&again.then(*time), then);
        }
    }
}

#[test]
fn a_restart_keeps_what_was_and_says_when_nothing_was_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut first = Followed::in_files(folder.path());
    let time = first.change(linked());
    first.after(1000);
    first.kept.line(&line(7, Level::Info, "topology", "a link is up"));
    first.kept.rate(first.now + 500, None);
    let ended = first.now + 500;
    first.kept.segments.write().expect("it is written");
    let then = first.present();

    let mut second = Followed::in_files(folder.path());
    assert_eq!(second.kept.rates.len(), 1);
    second.now = ended + 60_000;
    let began = second.change(vec![switch(9, true)]);
    assert_eq!(second.then(time), then);
    assert_eq!(second.then(began).switches.len(), 1);
    assert_eq!(second.kept.gaps().collect::<Vec<_>>(), [(ended, began)]);
    let error = second.kept.network_at(ended + 1).expect_err("nobody ran");
    assert!(error.contains("the controller did not run from"), "{error}");
    let lines = second.kept.between(time, began).expect("it is kept").into_iter().filter_map(|one| match one.entry {
        Entry::Line { number, text, .. } => Some((number, text)),
        _ => None,
    });
    assert_eq!(lines.collect::<Vec<_>>(), [(7, "a link is up".to_owned())]);
}

#[test]
fn a_damaged_file_costs_what_follows_the_damage_and_one_that_is_none_is_replaced() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut first = Followed::in_files(folder.path());
    let begin = first.change(linked());
    let last = first.change(vec![switch(3, true)]);
    first.kept.segments.write().expect("it is written");
    let path = folder.path().join("00000001.segment");
    let whole = std::fs::read(&path).expect("it is there");
    for cut in 0..whole.len() {
        std::fs::write(&path, &whole[..cut]).expect("it is ours");
        let mut kept = Kept::new(Some(folder.path().to_owned()));
        let troubles = kept.open().expect("it can be read");
        match kept.range() {
            // What is left ends with an entry.
            Some((from, _)) => assert!(from == begin && kept.segment_of(last).is_err(), "{cut}"),
            None => assert!(!troubles.is_empty() && !path.exists(), "{cut}: {troubles:?}"),
        }
    }
    for at in 0..whole.len() {
        let mut other = whole.clone();
        other[at] ^= 0x10;
        std::fs::write(&path, other).expect("it is ours");
        let troubles = Kept::new(Some(folder.path().to_owned())).open().expect("it can be read");
        assert_eq!(troubles.len(), 1, "{at}");
        assert!(troubles[0].contains("00000001.segment, byte "), "{troubles:?}");
    }
    std::fs::write(folder.path().join("notes.txt"), "of somebody else").expect("it is ours");
    std::fs::write(&path, "MTL of the future").expect("it is ours");
    let mut next = Followed::in_files(folder.path());
    assert_eq!(next.kept.range(), None);
    let time = next.change(linked());
    next.kept.segments.write().expect("it is written");
    assert_eq!(Followed::in_files(folder.path()).then(time), next.present());
    assert!(folder.path().join("notes.txt").exists());
}

#[test]
fn a_disk_that_refuses_loses_nothing_as_long_as_there_is_room() {
    let folder = tempfile::tempdir().expect("a folder");
    let inside = folder.path().join("timeline");
    std::fs::write(&inside, "a file in its place").expect("it is ours");
    let mut network = Followed::new(Kept::new(Some(inside.clone())));
    let time = network.change(linked());
    network.kept.segments.write().expect_err("it can't be written");
    assert_eq!(network.then(time), network.present());
    std::fs::remove_file(&inside).expect("it is ours");
    network.kept.segments.write().expect("it is written");
    assert_eq!(Followed::in_files(&inside).then(time), network.present());
    // Somebody deletes the folder.
    std::fs::remove_dir_all(&inside).expect("it is ours");
    let time = network.change(vec![switch(3, true)]);
    network.kept.segments.write().expect("it is written");
    assert_eq!(Followed::in_files(&inside).then(time), network.present());
}

#[test]
fn a_flood_takes_a_bounded_amount_and_what_is_left_out_is_told() {
    let mut limits = IN_MEMORY;
    limits.bytes = Bounds { all: 100_000, in_memory: 100_000 };
    let mut network = Followed::new(Kept::with_limits(None, limits));
    network.change(linked());
    for turn in 0..120u32 {
        let moved = (0..200u8).map(|number| host(number, Some(at(1, 2 + (turn % 2))))).collect();
        network.change(moved);
        (0..1000).for_each(|number| network.kept.line(&line(number, Level::Warning, "session", &"x".repeat(1000))));
        network.kept.rate(network.now, None);
    }
    let (bytes, _) = network.kept.segments.size();
    assert!(bytes < 1_500_000, "{bytes}");
    let told: u64 = network.kept.rates.iter().map(|(_, rates)| rates.left_out).sum();
    assert!(told > 50_000, "{told}");
    assert!(network.kept.rates.iter().any(|(_, rates)| rates.pending > 0), "changes were left out");
    assert!(network.kept.pending_at(network.now) > 0);
    // There is room again later, and then nothing is pending.
    network.after(20 * HOUR);
    network.kept.rate(network.now, None);
    assert_eq!((network.kept.pending_at(network.now), network.then(network.now)), (0, network.present()));
}

#[test]
fn what_is_older_than_a_day_or_too_much_gives_way_and_a_clock_may_go_back() {
    let mut network = Followed::in_memory();
    let first = network.change(linked());
    for _ in 0..30 {
        network.after(HOUR + 60_000);
        network.kept.rate(network.now, None);
    }
    let (from, to) = network.kept.range().expect("it is kept");
    assert!(from > first && to - from >= 24 * HOUR && to - from < 27 * HOUR, "{from} to {to}");
    assert!(network.kept.rates.front().is_some_and(|(time, _)| *time >= from));
    assert_eq!(network.kept.gaps().count(), 0);
    // A second back is nothing; a day back gives up what seems to be in the future.
    network.now -= 1000;
    network.after(0);
    assert_eq!(network.kept.range(), Some((from, to)));
    network.now -= 24 * HOUR;
    let now = network.after(0);
    assert_eq!(network.kept.range().map(|(_, to)| to), Some(now));
    assert_eq!(network.then(now), network.present());
}

#[test]
fn only_lines_about_the_network_or_about_what_is_wrong_are_kept() {
    let mut network = Followed::in_memory();
    let time = network.change(linked());
    network.after(1000);
    for (number, level, area) in
        [(1, Level::Info, "topology"), (2, Level::Info, "hosts"), (3, Level::Info, "control"), (4, Level::Error, "run")]
    {
        network.kept.line(&line(number, level, area, "a line"));
    }
    let end = network.after(1000);
    let kept = network.kept.between(time, end).expect("it is kept").into_iter().filter_map(|one| match one.entry {
        Entry::Line { number, .. } => Some(number),
        _ => None,
    });
    assert_eq!(kept.collect::<Vec<_>>(), [1, 2, 4]);
}
