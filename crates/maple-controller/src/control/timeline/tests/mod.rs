//! Tests of what is kept, made again, bounded, and read after a crash.

mod bounds;
mod files;
mod history;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use crossbeam_channel::bounded;
use maple_core::engine::ShardId;
use maple_core::network::{HostInfo, Location, Mac, PortInfo, PortKind};
use maple_core::state::{Store, SwitchInfo, Write};
use maple_wire::{Dpid, PortNo, Version};
use serde_json::Value;

use super::clock::Reading;
use super::disk::{Folder, ReadJob};
use super::entry::{CountsThen, RatesThen};
use super::moments::{Moment, Refused, Span};
use super::network::NetworkThen;
use super::span_answers::SpanAnswers;
use super::timeline_state::TimelineState;
use super::view::Gap;
use super::{Timeline, WAITING, grace, rest_after};
use crate::log::{Level, LogEntry};

const HOUR: u64 = 3_600_000;
/// The time at which each test begins.
const BEGIN: u64 = 1_790_000_000_000;

/// A network that a timeline follows, in simulated time.
struct Lab {
    store: Arc<Store>,
    timeline: Timeline,
    /// The folder, if there is one.
    disk: Option<Folder>,
    /// The number of times that files were read for requests.
    reads: Arc<AtomicUsize>,
    path: PathBuf,
    wall: u64,
    passed: u64,
    away: BTreeSet<Dpid>,
}

fn at(switch: u64, port: u32) -> Location {
    Location::new(Dpid(switch), PortNo(port))
}

fn mac(number: u32) -> Mac {
    let [a, b, c, d] = number.to_be_bytes();
    Mac([2, 0, a, b, c, d])
}

fn host(number: u32, location: Option<Location>) -> Write {
    let [_, b, c, d] = number.to_be_bytes();
    let info = |location| HostInfo { location, ipv4: [[10, b, c, d].into()].into(), ipv6: [].into() };
    Write::Host { mac: mac(number), info: location.map(info) }
}

fn port(at: Location, up: bool, kind: PortKind) -> Write {
    Write::Port { at, info: Some(PortInfo { up, kind }) }
}

fn switch(dpid: u64, is_there: bool) -> Write {
    let info = SwitchInfo { shard: ShardId(0), version: Version::Of13 };
    Write::Switch { dpid: Dpid(dpid), info: is_there.then_some(info) }
}

fn line(number: u64, time: u64, level: Level, area: &'static str, text: &str) -> LogEntry {
    LogEntry { number, time: SystemTime::UNIX_EPOCH + Duration::from_millis(time), level, area, text: text.to_owned() }
}

/// Creates two switches with a link between them.
fn linked() -> Vec<Write> {
    let (a, b) = (at(1, 1), at(2, 1));
    vec![switch(1, true), switch(2, true), port(a, true, PortKind::Link(b)), port(b, true, PortKind::Link(a))]
}

impl Lab {
    fn in_memory() -> Lab {
        Lab::with(None, Duration::ZERO)
    }

    /// Creates a run that keeps its timeline in a folder, and has read what is there.
    fn in_files(path: &Path) -> Lab {
        Lab::with(Some(path), Duration::ZERO)
    }

    fn with(path: Option<&Path>, grace: Duration) -> Lab {
        let (jobs, waiting) = bounded::<ReadJob>(1);
        let timeline = Timeline::new(path.is_some().then_some(jobs), grace);
        let mut disk = path.map(|path| Folder::new(path.to_owned()));
        if let Some(disk) = &mut disk {
            let mut kept = timeline.empty();
            disk.open(&mut kept).expect("it can be read");
            *timeline.kept() = Ok(Box::new(kept));
        }
        let path = path.map(Path::to_owned).unwrap_or_default();
        // Ends when nobody can ask any more.
        let (reader, reads) = (Folder::new(path.clone()), Arc::new(AtomicUsize::new(0)));
        let count = Arc::clone(&reads);
        std::thread::spawn(move || {
            for job in &waiting {
                count.fetch_add(1, Ordering::Relaxed);
                drop(job.reply.send(reader.read(job.number, job.length)));
            }
        });
        Lab { store: Store::new(), timeline, disk, reads, path, wall: BEGIN, passed: 0, away: BTreeSet::new() }
    }

    /// Ends this run and begins another one, a while later by the clock. The network is the same.
    fn restarted(self, later: u64) -> Lab {
        let Lab { store, timeline, disk, path, wall, away, .. } = self;
        drop((timeline, disk));
        let next = Lab::in_files(&path);
        Lab { store, wall: wall + later, away, ..next }
    }

    fn kept<T>(&self, of: impl FnOnce(&mut TimelineState) -> T) -> T {
        of(self.timeline.kept().as_mut().expect("it is open"))
    }

    /// Changes the network, and looks a second later. Returns that time.
    fn change(&mut self, writes: Vec<Write>) -> u64 {
        self.store.update(|_| writes);
        self.after(1000)
    }

    /// Lets time pass, and looks.
    fn after(&mut self, milliseconds: u64) -> u64 {
        (self.wall, self.passed) = (self.wall + milliseconds, self.passed + milliseconds);
        let reading = Reading { wall: self.wall, passed: self.passed };
        self.kept(|kept| {
            kept.advance(reading);
            kept.look(&self.store.snapshot(), |dpid| self.away.contains(&dpid));
        });
        self.wall
    }

    /// Lets time pass as [`Lab::after`] does, in steps within which a controller looks at least once.
    fn steadily(&mut self, milliseconds: u64) -> u64 {
        for _ in 0..milliseconds / 20_000 {
            self.after(20_000);
        }
        self.after(milliseconds % 20_000)
    }

    fn rate(&self) {
        self.kept(|kept| kept.rate(None, false));
    }

    fn write(&mut self) {
        self.disk.as_mut().expect("there is a folder").work(&self.timeline).expect("it is written");
    }

    /// Returns the network as it is.
    fn present(&self) -> NetworkThen {
        let state = self.store.snapshot();
        let ports = |dpid| state.ports_of(dpid).map(move |(port, info)| (Location::new(dpid, port), info));
        NetworkThen {
            switches: state.switches().map(|(dpid, _)| (dpid, !self.away.contains(&dpid))).collect(),
            ports: state.switches().flat_map(|(dpid, _)| ports(dpid)).collect(),
            hosts: state.hosts().map(|(mac, info)| (*mac, info.clone())).collect(),
        }
    }

    fn moment(&self, time: u64) -> Result<Moment, Refused> {
        self.timeline.moment(Some(time), self.wall)
    }

    fn then(&self, time: u64) -> NetworkThen {
        self.moment(time).expect("it is kept").network
    }

    /// Returns why a moment is not kept.
    fn refusal(&self, time: u64) -> String {
        match self.moment(time) {
            Err(Refused::NotKept(_, why)) => why,
            other => panic!("{other:?}"),
        }
    }

    fn span(&self, from: u64, to: u64) -> Span {
        self.timeline.span((Some(from), Some(to)), self.wall).expect("it is kept")
    }

    fn gaps(&self) -> Vec<Gap> {
        self.kept(|kept| kept.gaps().collect())
    }

    /// Returns the moments of the first and the last gap, by the clock.
    fn gap(&self) -> (u64, u64, String) {
        let gaps = self.gaps();
        let [gap] = gaps.as_slice() else { panic!("{gaps:?}") };
        self.kept(|kept| (kept.clock.shown(gap.from), kept.clock.shown(gap.to), gap.why.to_string()))
    }
}

/// Returns the numbers, times and texts of lines.
fn lines(span: &Span) -> Vec<(u64, u64, String)> {
    let number = |line: &Value, name: &str| line[name].as_u64().expect("a number");
    let text = |line: &Value| line["text"].as_str().expect("a text").to_owned();
    span.happened.lines.iter().map(|line| (number(line, "number"), number(line, "time"), text(line))).collect()
}

#[test]
fn a_moment_is_made_again_as_it_was() {
    let mut network = Lab::in_memory();
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
    network.wall += 1;
    assert_eq!(network.then(gone + 1), network.present(), "what has happened since is about to be kept");
    for beyond in [begin - 1, gone + 2] {
        assert!(network.refusal(beyond).contains("what is kept is from 2026-"));
    }
    let versions: Vec<u64> =
        [begin, found, down, gone].map(|time| network.moment(time).expect("kept").known.version).into();
    assert!(versions.is_sorted_by(|a, b| a < b) && versions[3] == network.store.snapshot().version(), "{versions:?}");
}

#[test]
fn lines_have_their_own_time_and_only_those_about_the_network_or_what_is_wrong_are_kept() {
    let mut network = Lab::in_memory();
    let begin = network.change(linked());
    network.after(1000);
    for (number, level, area) in
        [(1, Level::Info, "topology"), (2, Level::Info, "hosts"), (3, Level::Info, "control"), (4, Level::Error, "run")]
    {
        let time = network.wall - 700 + 100 * number;
        network.kept(|kept| kept.line(&line(number, time, level, area, "a line")));
    }
    let early = line(5, begin - 2500, Level::Warning, "session", "before the first look");
    network.kept(|kept| kept.line(&early));
    let end = network.after(1000);
    let expected_line = |number: u64| (number, begin + 300 + 100 * number, "a line".to_owned());
    assert_eq!(lines(&network.span(begin, end)), [expected_line(1), expected_line(2), expected_line(4)]);
    assert_eq!(lines(&network.span(begin + 450, end)), [expected_line(2), expected_line(4)]);
    let all = lines(&network.timeline.span((None, None), end).expect("it is kept"));
    let first = (5, begin - 2500, "before the first look".to_owned());
    assert_eq!((all.len(), all.contains(&first)), (4, true), "{all:?}");
}

#[test]
fn a_restart_tells_when_nothing_was_kept_and_what_it_has_not_seen_is_not_gone() {
    let folder = tempfile::tempdir().expect("a folder");
    let grace = Duration::from_secs(60);
    let mut first = Lab::with(Some(folder.path()), grace);
    let time = first.change([linked(), vec![port(at(2, 5), true, PortKind::Edge), host(1, Some(at(2, 5)))]].concat());
    first.after(1000);
    first.kept(|kept| kept.line(&line(7, time + 600, Level::Info, "topology", "a link is up")));
    first.rate();
    let ended = first.wall;
    first.write();
    let before = first.present();
    drop(first);

    let mut second = Lab::with(Some(folder.path()), grace);
    second.wall = ended + 60_000;
    // One of two switches is there, and discovery does not know its link yet.
    let began = second.change(vec![switch(1, true), port(at(1, 1), true, PortKind::New), switch(9, true)]);
    assert_eq!(second.then(time), before);
    let then = second.moment(began).expect("it is kept");
    assert_eq!(then.network.switches, [(Dpid(1), true), (Dpid(2), false), (Dpid(9), true)].into());
    assert_eq!((then.network.links().count(), then.network.hosts.len()), (1, 1), "nothing is gone");
    assert_eq!(then.known.unseen, 5, "the switch and its two ports, the port of the link, the host");
    assert_eq!(second.gap(), (ended, began, "the controller did not run".to_owned()));
    let why = second.refusal(ended + 1);
    assert!(why.contains("the controller did not run from 2026-"), "{why}");
    let span = second.span(time, began);
    assert_eq!(lines(&span), [(7, time + 600, "a link is up".to_owned())]);
    assert_eq!((span.gaps[0]["why"].as_str(), span.gaps[0]["from"].as_u64()), (Some("stopped"), Some(ended)));
    // The other switch comes, and its host does not.
    second.change([linked().split_off(1), vec![port(at(2, 5), true, PortKind::Edge)]].concat());
    let all = second.moment(second.wall).expect("it is kept");
    assert_eq!((all.known.unseen, all.network.hosts.len()), (1, 1));
    let late = second.steadily(60_000);
    let all = second.moment(late).expect("it is kept");
    assert_eq!(all.network, second.present(), "what has not come is gone");
    second.rate();
    assert_eq!(second.moment(late).expect("it is kept").known.unseen, 0);
}

#[test]
fn a_run_that_forgets_switches_at_once_gives_those_of_the_run_before_time_to_connect() {
    let folder = tempfile::tempdir().expect("a folder");
    let forgets_at_once = || Lab::with(Some(folder.path()), grace(Duration::ZERO));
    let mut first = forgets_at_once();
    first.change(linked());
    first.write();
    let (ended, before) = (first.wall, first.present());
    drop(first);
    let mut second = forgets_at_once();
    second.wall = ended + HOUR;
    let began = second.after(1000);
    let then = second.moment(began).expect("it is kept");
    assert_eq!((then.network.switches.len(), &then.network.ports, then.known.unseen), (2, &before.ports, 4));
    let late = second.steadily(61_000);
    assert_eq!(second.then(late), second.present());
}

#[test]
fn a_look_that_was_held_up_makes_no_gap_of_its_own() {
    let whens = [0, 3, 100, 3_400, 3_600_000].map(|took| rest_after(Duration::from_millis(took)));
    assert_eq!(whens, [50, 50, 900, 5000, 5000].map(Duration::from_millis));
}

#[test]
fn a_network_that_nobody_has_looked_at_for_long_is_not_told_as_that_of_now() {
    let mut lab = Lab::in_memory();
    let last = lab.change(linked());
    lab.wall += 5000;
    assert_eq!(lab.moment(lab.wall).expect("it is about to be kept").time, last);
    lab.wall += 10 * 60_000;
    assert!(lab.refusal(lab.wall).contains("this moment is not kept; what is kept is from "));
    let span = lab.timeline.span((None, Some(lab.wall)), lab.wall).expect_err("its end is not kept");
    assert!(matches!(span, Refused::NotKept("show.time_changes.to", _)), "{span:?}");
    assert_eq!(lab.timeline.moment(None, lab.wall).expect("the newest").time, last);
}

#[test]
fn a_span_that_is_asked_for_again_reads_no_file_again_and_is_told_the_same() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut lab = Lab::in_files(folder.path());
    lab.change(linked());
    let (mut froms, mut number) = (vec![None], 0);
    for turn in 0..5u64 {
        for _ in 0..10 {
            number += 1;
            let line = line(number, lab.wall, Level::Info, "topology", "a link is up");
            lab.kept(|kept| kept.line(&line));
        }
        froms.push(Some(lab.change(vec![switch(10 + turn, true)])));
        lab.steadily(3 * HOUR);
    }
    lab.write();
    let reads = |lab: &Lab| lab.reads.load(Ordering::Relaxed);
    let span = |lab: &Lab, from| {
        let Span { before, after, happened, .. } = lab.timeline.span((from, None), lab.wall).expect("it is kept");
        (before, after, happened)
    };
    for from in froms {
        let (none, reported) = (reads(&lab), span(&lab, from));
        let first = reads(&lab);
        assert_eq!(span(&lab, from), reported);
        assert_eq!(reads(&lab), first, "the second time");
        assert!(from.is_some() || first > none + 3);
        // What comes is shown, and costs nothing but the segment in memory.
        number += 1;
        let line = line(number, lab.wall, Level::Info, "topology", "another link");
        lab.kept(|kept| kept.line(&line));
        lab.change(vec![switch(100 + number, true)]);
        let (before, after, happened) = span(&lab, from);
        assert_eq!((reads(&lab), before, after), (first, reported.0, lab.present()));
        assert_eq!(happened.lines.len(), reported.2.lines.len() + 1);
        *lab.timeline.span_answers() = SpanAnswers::default();
        assert_eq!(span(&lab, from).2, happened, "as if nothing were remembered");
        // A segment ends, and is read once.
        lab.steadily(3 * HOUR);
        lab.write();
        lab.change(vec![switch(200 + number, true)]);
        span(&lab, from);
        let last = reads(&lab);
        span(&lab, from);
        assert_eq!(reads(&lab), last);
    }
}

#[test]
fn a_request_waits_for_the_disk_for_a_limited_time_in_all() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut lab = Lab::in_files(folder.path());
    let first = lab.change(linked());
    lab.steadily(21 * HOUR);
    lab.write();
    // A disk on which each reading takes a while, but not too long.
    let (jobs, waiting) = bounded::<ReadJob>(WAITING);
    (lab.timeline.disk, lab.timeline.patience) = (Some(jobs), Duration::from_millis(50));
    let reader = Folder::new(lab.path.clone());
    std::thread::spawn(move || {
        for job in &waiting {
            std::thread::sleep(Duration::from_millis(20));
            drop(job.reply.send(reader.read(job.number, job.length)));
        }
    });
    let now = lab.wall;
    let late = lab.timeline.span((None, None), now).expect_err("ten files take 200 ms");
    assert_eq!(late, Refused::Late);
    assert_eq!(lab.timeline.moment(None, now).expect("it is in memory").network, lab.present());
    // Who asks again goes on there, and so comes to the end.
    lab.timeline.patience = Duration::from_secs(3600);
    let span = lab.timeline.span((None, None), now).expect("it is read");
    assert_eq!((span.from, &*span.before, &span.after), (first, &lab.present(), &lab.present()));
}

#[test]
fn a_request_that_finds_others_waiting_for_the_disk_is_refused_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut lab = Lab::in_files(folder.path());
    let first = lab.change(linked());
    lab.steadily(3 * HOUR);
    lab.write();
    // A disk that hangs: nobody takes what is to be read.
    let (jobs, waiting) = bounded::<ReadJob>(WAITING);
    (lab.timeline.disk, lab.timeline.patience) = (Some(jobs.clone()), Duration::from_secs(3600));
    for _ in 0..WAITING {
        jobs.try_send(ReadJob { number: 1, length: 0, reply: bounded(1).0 }).expect("there is room");
    }
    assert_eq!(lab.moment(first).expect_err("there is no room"), Refused::Late);
    assert_eq!(lab.then(lab.wall), lab.present());
    drop(waiting);
}

#[test]
fn counts_of_a_time_in_which_a_shard_was_late_are_reported_when_it_answers() {
    let mut lab = Lab::in_memory();
    lab.change(linked());
    let counts = |packet_ins| Some(CountsThen { packet_ins, ..CountsThen::default() });
    for (answer, is_late) in [(counts(10), false), (None, true), (None, true), (counts(40), false), (counts(50), false)]
    {
        lab.after(5000);
        lab.kept(|kept| kept.rate(answer, is_late));
    }
    let reported: Vec<RatesThen> = lab.kept(|kept| kept.rates.all.iter().map(|(_, rates)| *rates).collect());
    let growth = |rates: RatesThen| rates.growth.map(|growth| (growth.span, growth.counts.packet_ins));
    let all: Vec<_> = reported.iter().copied().map(growth).collect();
    assert_eq!(all, [None, None, None, Some((15_000, 30)), Some((5000, 10))]);
    let joined = reported.into_iter().reduce(RatesThen::join).expect("some");
    assert_eq!((growth(joined), joined.span, joined.late), (Some((20_000, 40)), 20_000, true));
}

#[test]
fn lines_that_were_lost_before_the_first_look_are_counted() {
    let mut lab = Lab::in_memory();
    lab.change(linked());
    let (state, mut next) = (lab.store.snapshot(), 0);
    let lines = [line(7, lab.wall, Level::Info, "control", "x"), line(9, lab.wall, Level::Error, "run", "y")];
    lab.kept(|kept| kept.look_and_read(&state, |_| false, &lines, &mut next));
    lab.rate();
    let left_out = lab.kept(|kept| kept.rates.all.back().map(|(_, rates)| rates.left_out));
    assert_eq!((left_out, next), (Some(8), 10), "0 to 6, and 8");
}

#[test]
fn a_thread_that_panics_ends_the_timeline_and_is_reported() {
    let mut lab = Lab::in_memory();
    let time = lab.change(linked());
    let timeline = &lab.timeline;
    let work = || std::panic::resume_unwind(Box::new("of this test"));
    let run = || timeline.watch(work);
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("timeline".into()).spawn_scoped(scope, run).expect("it starts");
        thread.join().expect("the panic went no further");
    });
    assert_eq!(lab.refusal(time), "nothing is kept any more: the thread timeline panicked");
    assert!(timeline.has_ended() && timeline.disk_ends.load(Ordering::Relaxed), "no thread goes on without the other");
}

#[test]
fn unreadable_entries_in_memory_are_refused_at_once() {
    let mut lab = Lab::in_memory();
    let time = lab.change(linked());
    lab.kept(|kept| {
        let blocks = kept.segments.all[0].blocks.as_mut().expect("it is in memory");
        blocks[1] = blocks[1][..20].into();
    });
    assert_eq!(lab.refusal(time), "what was kept can't be read: it ends within an entry");
    assert!(matches!(lab.timeline.span((None, None), time), Err(Refused::NotKept(..))));
}

#[test]
fn a_span_that_begins_or_ends_in_a_gap_is_that_of_the_moments_next_to_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut lab = Lab::in_files(folder.path());
    let first = lab.change(linked());
    lab.write();
    let mut lab = lab.restarted(HOUR);
    let began = lab.change(vec![switch(3, true)]);
    let end = lab.change(vec![switch(4, true)]);
    let (left, right) = (lab.span(first + 500, end), lab.span(first, began - 500));
    assert_eq!((left.from, left.to, left.before.switches.len()), (began, end, 3));
    assert_eq!((right.from, right.to, right.after.switches.len()), (first, first, 2));
    assert_eq!((left.gaps[0]["why"].as_str(), right.gaps[0]["why"].as_str()), (Some("stopped"), Some("stopped")));
    let within = lab.timeline.span((Some(first + 10), Some(first + 20)), end).expect_err("nothing is kept");
    assert!(matches!(within, Refused::NotKept(_, why) if why.contains("did not run")));
    let wrong = lab.timeline.span((Some(end), Some(first)), end).expect_err("it is the wrong way round");
    assert_eq!(wrong, Refused::Order);
}

#[test]
fn a_clock_that_is_set_moves_no_moment_before_another() {
    let mut network = Lab::in_memory();
    let first = network.change(linked());
    network.wall -= 2 * HOUR;
    let back = network.change(vec![switch(3, true)]);
    assert_eq!(network.then(back).switches.len(), 3);
    assert_eq!(network.then(back - 1000).switches.len(), 2, "the second before is reported by the clock of now");
    assert!(network.refusal(first).contains("what is kept is from"), "{first} is in the future");
    let (from, to, why) = network.gap();
    assert_eq!((to - from, why.as_str()), (1000, "the clock was set back by 7200 s"));
    network.wall += 3 * HOUR;
    network.change(vec![switch(4, true)]);
    assert_eq!(network.then(first).switches.len(), 2, "the clock is right again");
    let gaps = network.gaps();
    assert_eq!(gaps[1].why.to_string(), "the clock was set forward by 10800 s");
    assert_eq!(gaps[1].to - gaps[1].from, HOUR + 1000, "two hours were undone");
}

#[test]
fn a_late_shard_is_reported_and_so_is_a_controller_that_was_held_up() {
    let mut network = Lab::in_memory();
    let first = network.change(linked());
    network.rate();
    let late = network.after(5000);
    network.kept(|kept| kept.rate(None, true));
    assert!(!network.moment(first).expect("kept").known.late && network.moment(late).expect("kept").known.late);
    let well = network.after(5000);
    network.rate();
    assert!(!network.moment(well).expect("kept").known.late);
    let gaps = network.span(first, well).gaps;
    assert_eq!((gaps[0]["why"].as_str(), gaps[0]["from"].as_u64()), (Some("late"), Some(first)));
    network.after(10 * 60_000);
    assert_eq!(network.gap().2, "the controller was held up");
}
