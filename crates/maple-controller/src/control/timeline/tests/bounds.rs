//! Bounds of a timeline, and what gives way.

use std::sync::Arc;

use maple_core::engine::{DropCause, Dropped};

use super::*;
use crate::control::timeline::entry::{CountsThen, DropThen, Entry, Growth, Known, LineThen, RatesThen, Stamped};
use crate::control::timeline::network::NetworkChange;
use crate::control::timeline::segment_format::encode;
use crate::control::timeline::segments::{EarlierSegment, SegmentBounds, Segments, UnreadableKind, Work, Written};
use crate::control::timeline::timeline_state::{IN_MEMORY, Limits, ON_DISK};
use crate::control::timeline::view::GapReason;

/// The switches of a large network, and the hosts at each. Each host has a port, and four ports lead to other switches.
const SWITCHES: u64 = 1000;
const HOSTS: u32 = 10;
/// The milliseconds that the days of these tests rest between two looks.
const STEP: u64 = 300_000;
/// The maximum size of the timeline of 24 hours.
const MAX_BYTES: usize = 50_000_000;

fn number(switch: u64, port: u32) -> u32 {
    switch as u32 * HOSTS + port
}

fn large() -> Vec<Write> {
    let mut all = Vec::new();
    for id in 1..=SWITCHES {
        all.push(switch(id, true));
        // A ring, twice: port 11 leads to port 12 of the next switch, and 13 to 14.
        let (next, former) = (id % SWITCHES + 1, (id + SWITCHES - 2) % SWITCHES + 1);
        for (port_number, peer) in [(11, at(next, 12)), (12, at(former, 11)), (13, at(next, 14)), (14, at(former, 13))]
        {
            all.push(port(at(id, port_number), true, PortKind::Link(peer)));
        }
        for own in 1..=HOSTS {
            all.push(port(at(id, own), true, PortKind::Edge));
            all.push(host(number(id, own), Some(at(id, own))));
        }
    }
    all
}

fn with_limits(limits: Limits) -> Lab {
    let lab = Lab::in_memory();
    *lab.timeline.kept() = Ok(Box::new(TimelineState::new(false, limits, 0)));
    lab
}

fn drops(switch: u64, count: u64) -> Vec<Dropped> {
    let one = |number: u64| Dropped {
        switch: Dpid(switch),
        port: None,
        host: None,
        cause: DropCause::Failed(format!("KeyError: 'a key of the table of hosts {number}'").into()),
        packets: 1000 + number,
        latest: 0,
        example: Arc::from(""),
    };
    (0..count).map(one).collect()
}

/// Returns limits that hold nothing back for want of room, so that what comes can be measured.
fn without_bounds(mut limits: Limits) -> Limits {
    limits.bytes = SegmentBounds { all: usize::MAX, waiting: usize::MAX, count: usize::MAX };
    limits
}

/// Lets a step of a day pass: looks, rates, drops and lines. `turn` says what changes, in `looks` looks.
fn pass(lab: &mut Lab, turn: u64, (each, looks): (u64, usize), lines: u64) {
    let mut writes = Vec::new();
    lab.away = (0..each / 10).map(|one| Dpid(1 + (turn * 37 + one) % SWITCHES)).collect();
    for one in 0..each {
        let (id, own) = (1 + (turn * 101 + one * 7) % SWITCHES, 1 + ((one + one / 1000) % 10) as u32);
        let moved = at(1 + (id + turn) % SWITCHES, own);
        writes.push(host(number(id, own), (!turn.is_multiple_of(5)).then_some(moved)));
        writes.push(port(
            at(id, 11 + (one / 1000) as u32 % 4),
            (turn + one).is_multiple_of(2),
            PortKind::Link(at(id % SWITCHES + 1, 12)),
        ));
    }
    for some in writes.chunks(writes.len().div_ceil(looks)) {
        lab.store.update(|_| some.to_vec());
        lab.after(50);
    }
    for minute in 0..STEP / 60_000 {
        for _ in 0..12 {
            (lab.wall, lab.passed) = (lab.wall + 5000, lab.passed + 5000);
            let reading = Reading { wall: lab.wall, passed: lab.passed };
            let counts = CountsThen {
                packet_ins: turn * 1_000_000,
                decisions: turn * 10_000,
                flow_mods: turn * 10_000,
                failures: 1,
            };
            lab.kept(|kept| {
                kept.advance(reading);
                kept.rate(Some(counts), false);
            });
        }
        let (wall, dropped) = (lab.wall, drops(1 + turn % SWITCHES, each / 10));
        lab.kept(|kept| {
            kept.drop_packets(&dropped);
            for one in 0..lines / 5 {
                let text = "link s101:11 - s102:12 is down: the port of the first is down";
                kept.line(&line(turn * 10_000 + minute * 1000 + one, wall, Level::Info, "topology", text));
            }
        });
    }
    lab.after(0);
}

fn reported(lab: &Lab) -> (u64, u64) {
    let sums = |kept: &mut TimelineState| {
        let all = kept.rates.all.iter().map(|(_, rates)| (rates.left_out, rates.pending));
        all.fold((0, 0), |(a, b), (left_out, pending)| (a + left_out, b + pending))
    };
    lab.kept(sums)
}

#[test]
fn a_day_of_1000_switches_and_10000_hosts_with_churn_takes_less_than_50_mb() {
    // In a day: 40,000 moves of hosts, as many ports that go up or down, 4,000 reconnections, 40,000 lines. Each look
    // finds twenty changes.
    let (each, lines) = ((140, 14), 140);
    let mut lab = with_limits(without_bounds(ON_DISK));
    lab.change(large());
    let first = lab.wall;
    for turn in 0..24 * HOUR / STEP {
        pass(&mut lab, turn, each, lines);
    }
    let (bytes, _) = lab.kept(|kept| kept.segments.size());
    assert!(bytes < MAX_BYTES, "{bytes}");
    assert_eq!(reported(&lab), (0, 0), "nothing is left out");
    assert_eq!(lab.kept(|kept| kept.range()), Some((first, lab.wall)), "and the whole day is kept");
    assert_eq!(lab.then(lab.wall), lab.present());
}

#[test]
fn a_day_in_which_everything_is_used_up_takes_less_than_50_mb_too() {
    let mut lab = with_limits(without_bounds(ON_DISK));
    lab.change(large());
    let first = lab.wall;
    for turn in 0..24 * HOUR / STEP {
        pass(&mut lab, turn, (1500, 3), 2000);
    }
    let (bytes, _) = lab.kept(|kept| kept.segments.size());
    assert!(bytes < MAX_BYTES, "{bytes}");
    let (left_out, _) = reported(&lab);
    assert!(left_out > 100_000, "{left_out}");
    assert_eq!(lab.then(lab.wall), lab.present());
    let (from, to) = lab.kept(|kept| kept.range()).expect("it is kept");
    assert!(to - from >= 20 * HOUR && from >= first, "nearly a day: {} h", (to - from) / HOUR);
}

/// The table has the maximum size of an event of each kind, in bytes. An entry has 8 bytes before it, and its time.
#[test]
fn no_kind_of_event_takes_more_than_its_row_of_this_table_says() {
    let info = PortInfo { up: true, kind: PortKind::Link(at(u64::MAX, 48)) };
    let host_info = HostInfo { location: at(u64::MAX, 48), ipv4: [[10, 0, 0, 1].into()].into(), ipv6: [].into() };
    let ipv6 = [0xfe80 << 112 | u128::MAX >> 64, u128::MAX].map(Into::into);
    let with_ipv6 = HostInfo { ipv6: ipv6.into(), ..host_info.clone() };
    let known = Known { version: 1 << 40, pending: 1 << 20, beyond: 1 << 20, unseen: 1 << 20, late: true };
    let look = |changes| Entry::Look { known, changes };
    let text = "link s101:11 - s102:12 is down";
    let (level, area) = ("warning".to_owned(), "topology".to_owned());
    let line = LineThen { before: 0, number: 1 << 30, level, area, text: text.to_owned() };
    let row = DropThen { packets: u64::MAX, switch: Dpid(u64::MAX), line: Some("acl.py:12".into()), why: "no".into() };
    let counts = CountsThen { packet_ins: 1 << 30, decisions: 1 << 30, flow_mods: 1 << 30, failures: 1 << 30 };
    let growth = Some(Growth { span: 10_000, counts });
    let rates = RatesThen { span: 5000, growth, switches: 1000, links: 2000, hosts: 10_000, ..RatesThen::default() };
    let table = [
        ("a look at which something changed", look(vec![]), 40),
        (
            "a switch comes, or its connection ends",
            look(vec![NetworkChange::Switch(Dpid(u64::MAX), Some(true))]),
            40 + 13,
        ),
        ("a port comes, goes up or goes down", look(vec![NetworkChange::Port(at(u64::MAX, 48), Some(info))]), 40 + 27),
        ("a port goes", look(vec![NetworkChange::Port(at(u64::MAX, 48), None)]), 40 + 13),
        ("a host comes or moves", look(vec![NetworkChange::Host(mac(1), Some(host_info))]), 40 + 27),
        ("a host with two further addresses", look(vec![NetworkChange::Host(mac(1), Some(with_ipv6))]), 40 + 27 + 34),
        ("a host goes", look(vec![NetworkChange::Host(mac(1), None)]), 40 + 8),
        ("a line of the log", Entry::Line(line), 40 + text.len()),
        ("a kind of drops", Entry::Drops { rows: vec![row], others: 0 }, 32 + 20 + 11),
        ("how it went for five seconds", Entry::Rates(rates), 64),
    ];
    for (what, entry, most) in table {
        let size = encode(&Stamped { time: BEGIN, entry }).len();
        assert!(size <= most, "{what}: {size}");
    }
}

#[test]
fn a_host_that_moves_all_the_time_pushes_out_neither_switches_nor_other_hosts() {
    let mut limits = IN_MEMORY;
    limits.follow.hosts.burst = 3000;
    limits.follow.hosts.refill = 1;
    let mut lab = with_limits(limits);
    lab.change(linked());
    let mut others = Vec::new();
    for turn in 0..200u32 {
        lab.change((0..20).map(|number| host(number, Some(at(1, 2 + turn % 2)))).collect());
        if turn == 100 {
            others.push(host(500, Some(at(2, 9))));
            others.extend([switch(7, true), port(at(2, 9), true, PortKind::Edge)]);
            lab.change(std::mem::take(&mut others));
        }
    }
    let then = lab.moment(lab.wall).expect("it is kept");
    assert!(then.known.pending > 0, "not all moves of hosts are kept");
    assert_eq!((&then.network.switches, &then.network.ports), (&lab.present().switches, &lab.present().ports));
    // A flood does not keep a quiet host out: each has its turn.
    lab.steadily(600_000);
    assert_eq!(lab.then(lab.wall), lab.present());
    for turn in 0..400u32 {
        lab.change(vec![host(1, Some(at(1, 2 + turn % 2)))]);
    }
    lab.change(vec![host(600, Some(at(2, 9)))]);
    for turn in 0..200u32 {
        lab.change(vec![host(1, Some(at(1, 2 + turn % 2)))]);
    }
    assert!(lab.then(lab.wall).hosts.contains_key(&mac(600)));
}

#[test]
fn hosts_beyond_the_bound_are_not_kept_and_displace_no_others() {
    let mut limits = IN_MEMORY;
    limits.follow.parts = 10;
    let mut lab = with_limits(limits);
    lab.change(linked());
    lab.change((100..110).map(|number| host(number, Some(at(1, 5)))).collect());
    // Those that come first in the order would take the places of others.
    let time = lab.change((0..7).map(|number| host(number, Some(at(1, 6)))).collect());
    let then = lab.moment(time).expect("it is kept");
    assert_eq!(then.network.hosts.keys().copied().collect::<Vec<_>>(), (100..110).map(mac).collect::<Vec<_>>());
    assert_eq!((then.known.beyond, then.known.pending), (7, 0));
    // One goes, so another is kept.
    lab.change(vec![host(105, None)]);
    lab.after(1000);
    lab.rate();
    let then = lab.moment(lab.wall).expect("it is kept");
    assert!(then.network.hosts.contains_key(&mac(0)) && !then.network.hosts.contains_key(&mac(105)));
    assert_eq!((then.network.hosts.len(), then.known.beyond), (10, 6));
}

#[test]
fn a_network_as_large_as_is_followed_is_kept_at_once() {
    let all = |count: u32| (0..count).map(|number| host(number, Some(at(1, 5)))).collect::<Vec<_>>();
    let mut first = with_limits(ON_DISK);
    let time = first.change([linked(), all(125_000)].concat());
    assert_eq!(first.moment(time).expect("it is kept").known.pending, 0, "the first look");
    let mut later = with_limits(ON_DISK);
    later.change(linked());
    later.change(all(125_000));
    let time = later.after(1000);
    let then = later.moment(time).expect("it is kept");
    assert_eq!((then.known.pending, then.network.hosts.len()), (0, 125_000));
}

#[test]
fn damaged_files_count_and_give_way_before_anything_else_and_those_of_others_do_not() {
    let bounds = SegmentBounds { all: 100_000, waiting: 100_000, count: 10 };
    let mut segments = Segments::new(true, bounds);
    let damaged = |number: u32, segments: &mut Segments| {
        segments.add_unreadable(number, UnreadableKind::Damaged, 30_000, "a checksum is wrong".to_owned());
    };
    damaged(1, &mut segments);
    segments.add_unreadable(2, UnreadableKind::Foreign, 90_000, "it is of another format".to_owned());
    segments.add_unreadable(3, UnreadableKind::Refused, 90_000, "permission denied".to_owned());
    damaged(4, &mut segments);
    // The first one has a damaged end.
    let earlier = |number, began, size, unused, damage| EarlierSegment {
        number,
        began,
        after: None,
        ended: began + 1,
        size,
        unused,
        damage,
    };
    segments.add(earlier(5, BEGIN, 10_000, 20_000, Some("a checksum is wrong".to_owned())));
    assert_eq!(segments.size().0, 90_000);
    segments.trim(BEGIN);
    assert_eq!(segments.unreadable.len(), 4, "there is room");
    segments.add(earlier(6, BEGIN + 1, 30_000, 0, None));
    segments.trim(BEGIN);
    assert_eq!(segments.unreadable.keys().copied().collect::<Vec<_>>(), [2, 3, 4]);
    assert_eq!((segments.all.len(), segments.size().0), (2, 90_000));
    segments.add(earlier(7, BEGIN + 2, 70_000, 0, None));
    segments.trim(BEGIN);
    assert_eq!(segments.unreadable.keys().copied().collect::<Vec<_>>(), [2, 3]);
    assert_eq!(segments.all.iter().map(|one| one.number).collect::<Vec<_>>(), [6, 7]);
    let work = segments.work(false);
    let gone = work.iter().map(|work| if let Work::Delete { number } = work { *number } else { 0 });
    assert_eq!(gone.collect::<Vec<_>>(), [1, 4, 5]);
}

#[test]
fn a_segment_that_has_ended_stays_in_memory_until_it_is_safe_on_the_disk() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut lab = Lab::in_files(folder.path());
    lab.change(linked());
    lab.write();
    let appended = |lab: &Lab, is_last| -> Vec<(u32, usize, bool)> {
        let work = lab.kept(|kept| kept.segments.work(is_last));
        let appended = |work| match work {
            Work::Append { number, blocks, then, .. } => Some((number, blocks.len(), then.is_safe)),
            Work::Delete { .. } => None,
        };
        work.into_iter().filter_map(appended).collect()
    };
    assert_eq!(
        (appended(&lab, false), appended(&lab, true)),
        (vec![], vec![(1, 0, true)]),
        "and at the end of the run"
    );
    lab.steadily(3 * HOUR);
    let all = appended(&lab, false);
    assert_eq!((all.len(), all[0].0, all[0].2, all[1].2), (2, 1, true, false));
    let is_in_memory = |lab: &Lab| lab.kept(|kept| kept.segments.all[0].blocks.is_some());
    // The bytes are in the file, and may still be lost.
    let size = lab.kept(|kept| kept.segments.all[0].size);
    let written = Written { blocks: 2, bytes: size, until: lab.wall, is_safe: false };
    lab.kept(|kept| kept.segments.wrote(1, written));
    assert!(is_in_memory(&lab));
    // The disk has lost them: all of it is written again.
    lab.kept(|kept| kept.segments.wrote(1, Written::default()));
    let blocks = lab.kept(|kept| kept.segments.all[0].blocks.as_ref().map(Vec::len)).expect("it is in memory");
    assert_eq!(appended(&lab, false)[0], (1, blocks, true));
    lab.write();
    assert!(!is_in_memory(&lab));
    assert_eq!(appended(&lab, false), []);
}

#[test]
fn entries_older_than_a_day_give_way() {
    let mut lab = Lab::in_memory();
    let first = lab.change(linked());
    for _ in 0..30 {
        lab.steadily(HOUR);
        lab.rate();
    }
    let (from, to) = lab.kept(|kept| kept.range()).expect("it is kept");
    assert!(from > first && to - from >= 24 * HOUR && to - from < 27 * HOUR, "{from} to {to}");
    assert!(lab.kept(|kept| kept.rates.all.front().is_some_and(|(time, _)| *time >= from)));
    assert_eq!(lab.gaps(), []);
}

#[test]
fn a_controller_that_starts_again_and_again_keeps_the_day_before() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut limits = ON_DISK;
    limits.bytes.count = 20;
    let mut lab = Lab::in_files(folder.path());
    lab.change(linked());
    lab.steadily(8 * HOUR);
    lab.rate();
    let well = (lab.wall, lab.present());
    lab.write();
    for start in 0..60 {
        lab = lab.restarted(5000);
        let opened = std::mem::replace(&mut *lab.timeline.kept(), Err(String::new())).expect("it is open");
        drop(opened);
        let mut kept = TimelineState::new(true, limits, 0);
        lab.disk.as_mut().expect("a folder").open(&mut kept).expect("it can be read");
        *lab.timeline.kept() = Ok(Box::new(kept));
        lab.change(vec![switch(3, start % 2 == 0)]);
        lab.after(1000);
        lab.write();
        lab.write();
    }
    let files = std::fs::read_dir(folder.path()).expect("it is there").count();
    assert!(files <= 21, "{files}");
    assert_eq!(lab.then(well.0), well.1);
    let (from, _) = lab.kept(|kept| kept.range()).expect("it is kept");
    assert!(well.0 - from >= 7 * HOUR);
    assert!(lab.gaps().iter().any(|gap| gap.why == GapReason::GaveWay));
    assert_eq!(lab.then(lab.wall), lab.present());
}
