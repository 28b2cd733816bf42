//! The timeline: what the network was in the last 24 hours, and what happened.
//!
//! A thread of its own, the follower, looks at the newest snapshot whenever something was published, and keeps how it
//! differs from what is kept already. So a moment is made again of the network at the beginning of a segment and what
//! changed after that. What comes and goes between two looks is in the lines of the log, which are kept too. Shards are
//! asked for counts alone, every [`RATES`], and for drops once a minute.
//!
//! ```text
//!  snapshot ──► network: differences ─┐
//!  log ───────► lines ────────────────┼─► budgets ─► segments, in memory ─► the disk's thread, with a state file
//!  shards ────► counts, drops ────────┘
//! ```
//!
//! The lock is held while memory is changed or read, and never while a disk or a shard is waited for.

mod answer;
mod budget;
mod clock;
mod disk;
mod entry;
mod follow;
mod format;
mod kept;
mod network;
mod segments;
mod view;

#[cfg(test)]
mod tests;

use std::io;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use crossbeam_channel::{Receiver, Sender, bounded};
use maple_core::engine::Dropped;

pub(super) use self::answer::{at, changes, overview};
use self::clock::Reading;
use self::disk::{Folder, ReadJob};
use self::entry::CountsThen;
use self::kept::{IN_MEMORY, Kept, ON_DISK};
use self::view::ReadError;
use super::Handle;
use super::answer::milliseconds;
use super::queries::LateShard;
use crate::kept_files::KeptFile;
use crate::time::Clock;

/// How often counts are kept, and that nothing has happened.
const RATES: Duration = Duration::from_secs(5);
/// How often the follower looks whether there is something new, and how long it rests at least after it has looked.
const LOOK: Duration = Duration::from_millis(200);
const REST: Duration = Duration::from_millis(50);
/// Looking takes at most one part of the time in so many, unless it takes longer than [`RATES`].
const SHARE: u32 = 10;
/// How long a run takes nothing as gone that it has not seen, at least: switches need a while to connect.
const LEAST_GRACE: Duration = Duration::from_secs(60);
/// A minute of the engines' time, in nanoseconds, and how long after it its drops are read.
const MINUTE: u64 = 60_000_000_000;
const LATE: u64 = 2_000_000_000;
/// How long a request waits for the disk, and the end of the controller too.
const PATIENCE: Duration = Duration::from_secs(5);
/// The number of requests that wait for the disk.
const WAITING: usize = 16;

/// What is kept of the last 24 hours.
#[derive(Debug)]
pub(crate) struct Timeline {
    /// Until what earlier runs have kept is read, the reason why nothing is kept.
    kept: Mutex<Result<Box<Kept>, String>>,
    /// Requests to the disk's thread, if there are files, and how long they wait.
    disk: Option<Sender<ReadJob>>,
    patience: Duration,
    /// How long after its beginning a run takes nothing as gone that it has not seen.
    grace: Duration,
    ended: AtomicBool,
    disk_ends: AtomicBool,
}

/// Keeps the timeline of a controller until it is dropped.
#[derive(Debug)]
pub(crate) struct TimelineWriter {
    timeline: Arc<Timeline>,
    follower: Option<JoinHandle<()>>,
    /// Says when the disk's thread has ended.
    disk: Option<Receiver<()>>,
}

impl TimelineWriter {
    /// Starts the threads; with a state file, the timeline is in a folder beside that. What a run has not seen stays as
    /// an earlier one knew it for the time `forget_after`, after which unreachable switches are forgotten, but for a
    /// minute at least.
    ///
    /// # Errors
    /// The system's, if it refuses a thread.
    pub fn begin(
        handle: &Handle,
        clock: Clock,
        state_file: Option<&Path>,
        forget_after: Duration,
    ) -> io::Result<TimelineWriter> {
        let (jobs, waiting) = bounded(WAITING);
        let folder = state_file.map(folder_of);
        let timeline = Arc::new(Timeline::new(folder.is_some().then_some(jobs), grace(forget_after)));
        handle.keeps_timeline(Arc::clone(&timeline));
        let mut writer = TimelineWriter { timeline: Arc::clone(&timeline), follower: None, disk: None };
        if let Some(folder) = folder {
            handle.files().keep(KeptFile::Timeline, &folder);
            let (own, files, (ending, ended)) = (Arc::clone(&timeline), handle.files().clone(), bounded(0));
            let serve = move || {
                own.watch(|| disk::serve(&own, Folder::new(folder), &waiting, &files));
                drop::<Sender<()>>(ending);
            };
            std::thread::Builder::new().name("timeline-disk".into()).spawn(serve)?;
            writer.disk = Some(ended);
        }
        let handle = handle.clone();
        let follow = move || timeline.watch(|| timeline.follow(&handle, &clock));
        writer.follower = Some(std::thread::Builder::new().name("timeline".into()).spawn(follow)?);
        Ok(writer)
    }
}

impl Drop for TimelineWriter {
    fn drop(&mut self) {
        self.timeline.ended.store(true, Ordering::Relaxed);
        // A thread that panicked has said so.
        drop(self.follower.take().map(JoinHandle::join));
        self.timeline.disk_ends.store(true, Ordering::Relaxed);
        // A disk that hangs does not hold the end up.
        if self.disk.take().is_some_and(|ended| ended.recv_timeout(PATIENCE) == Err(TIMED_OUT)) {
            tracing::warn!("the timeline: the disk has not answered in time; what happened last may be lost");
        }
    }
}

const TIMED_OUT: crossbeam_channel::RecvTimeoutError = crossbeam_channel::RecvTimeoutError::Timeout;

/// Returns how long a run takes nothing as gone that it has not seen.
fn grace(forget_after: Duration) -> Duration {
    forget_after.max(LEAST_GRACE)
}

/// Returns how long the follower rests after it has looked for the time `took`. That is the system's time: a look that
/// was held up took no work.
fn rest_after(took: Duration) -> Duration {
    (took * (SHARE - 1)).clamp(REST, RATES)
}

/// Returns the folder beside a state file.
fn folder_of(state_file: &Path) -> PathBuf {
    let mut name = state_file.file_name().unwrap_or_default().to_owned();
    name.push(".timeline");
    state_file.with_file_name(name)
}

impl Timeline {
    fn new(disk: Option<Sender<ReadJob>>, grace: Duration) -> Timeline {
        let reading = "what earlier runs have kept is being read".to_owned();
        let in_files = disk.is_some();
        let timeline = Timeline {
            kept: Mutex::new(Err(reading)),
            disk,
            patience: PATIENCE,
            grace,
            ended: AtomicBool::new(false),
            disk_ends: AtomicBool::new(false),
        };
        if !in_files {
            *timeline.kept() = Ok(Box::new(timeline.empty()));
        }
        timeline
    }

    /// Returns a timeline in which nothing is kept.
    fn empty(&self) -> Kept {
        let in_files = self.disk.is_some();
        Kept::new(in_files, if in_files { ON_DISK } else { IN_MEMORY }, self.grace.as_millis() as u64)
    }

    fn kept(&self) -> MutexGuard<'_, Result<Box<Kept>, String>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a thread's work. If it panics, nothing is kept any more, and requests are told so.
    fn watch(&self, work: impl FnOnce()) {
        if catch_unwind(AssertUnwindSafe(work)).is_err() {
            let thread = std::thread::current();
            let why = format!("nothing is kept any more: the thread {} panicked", thread.name().unwrap_or_default());
            tracing::error!("the timeline: {why}");
            *self.kept() = Err(why);
        }
    }

    fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    /// Keeps what happens, until the end.
    fn follow(&self, handle: &Handle, clock: &Clock) {
        while self.kept().is_err() && !self.has_ended() {
            std::thread::sleep(REST);
        }
        let (start, mut line, mut version) = (Instant::now(), 0, None);
        let mut minute = clock.now().0 / MINUTE;
        let mut rated: Option<Instant> = None;
        let reading = || Reading { wall: milliseconds(SystemTime::now()), passed: start.elapsed().as_millis() as u64 };
        while !self.has_ended() {
            let lines = handle.log_since(line, LOOK);
            let is_rated = rated.is_none_or(|rated| rated.elapsed() >= RATES);
            if lines.is_empty() && !is_rated && version == Some(handle.snapshot().version()) {
                continue;
            }
            let counts = is_rated.then(|| counts(handle));
            let complete = clock.now().0.saturating_sub(LATE) / MINUTE;
            // If a shard is late, these minutes are read the next time.
            let drops = (is_rated && complete > minute).then(|| dropped(handle, minute..complete).ok()).flatten();
            let (began, state) = (Instant::now(), handle.snapshot());
            version = Some(state.version());
            if let Ok(kept) = self.kept().as_mut() {
                kept.advance(reading());
                let begins_anew = kept.begins_anew();
                let look = |kept: &mut Kept| kept.look(&state, |dpid| handle.shared().registry.is_away(dpid));
                // Lines go to the segment that is there when they are written.
                if begins_anew {
                    look(kept);
                }
                for entry in &lines {
                    // What was before this run is not missed.
                    kept.leave_out(if line == 0 { 0 } else { entry.number - line });
                    kept.line(entry);
                    line = entry.number + 1;
                }
                if !begins_anew {
                    look(kept);
                }
                if let Some(counts) = counts {
                    kept.rate(counts.ok(), counts.is_err());
                    rated = Some(began);
                }
                if let Some(drops) = drops {
                    kept.drop_packets(&drops);
                    minute = complete;
                }
            }
            self.rest(rest_after(began.elapsed()));
        }
        // The shards may have ended.
        if let Ok(kept) = self.kept().as_mut() {
            kept.advance(reading());
            if !kept.begins_anew() {
                kept.rate(None, false);
            }
        }
    }

    /// Waits, but not longer than until the end.
    fn rest(&self, time: Duration) {
        let began = Instant::now();
        while !self.has_ended() && began.elapsed() < time {
            std::thread::sleep(REST.min(time));
        }
    }

    /// Reads the first bytes of a segment's file.
    fn read(&self, number: u32, length: usize) -> Result<Vec<u8>, ReadError> {
        let (reply, answer) = bounded(1);
        let disk = self.disk.as_ref().ok_or(ReadError::Late)?;
        disk.try_send(ReadJob { number, length, reply }).map_err(|_| ReadError::Late)?;
        answer.recv_timeout(self.patience).map_err(|_| ReadError::Late)?
    }
}

/// Returns what all shards have counted.
fn counts(handle: &Handle) -> Result<CountsThen, LateShard> {
    let total = handle.stats()?.total.engine;
    let (packet_ins, decisions) = (total.packet_ins, total.misses);
    Ok(CountsThen { packet_ins, decisions, flow_mods: total.flow_mods, failures: total.policy_errors })
}

/// Returns what was dropped in some minutes of the engines' time.
fn dropped(handle: &Handle, minutes: Range<u64>) -> Result<Vec<Dropped>, LateShard> {
    let mut all = Vec::new();
    for shard in 0..handle.shared().mailboxes.len() {
        let minutes = minutes.clone();
        all.extend(handle.inspect_shard(shard, move |engine| {
            let view = engine.view();
            view.switches().flat_map(|dpid| view.drops_of_minutes(dpid, minutes.clone())).collect::<Vec<_>>()
        })?);
    }
    Ok(all)
}
