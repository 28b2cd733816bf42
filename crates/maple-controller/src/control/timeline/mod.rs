//! The timeline: what the network was in the last 24 hours, and what happened.
//!
//! A thread of its own, the follower, looks at the newest snapshot whenever something was published, and keeps how it
//! differs from what is kept already. So a moment is made again of the network at the beginning of a segment and what
//! changed after that. What comes and goes between two looks is in the lines of the log, which are kept too. Shards are
//! asked for counts alone, every [`RATES`], and for drops once a minute. The follower waits for none of them.
//!
//! ```text
//!  snapshot ──► network: differences ─┐
//!  log ───────► lines ────────────────┼─► budgets ─► segments, in memory ─► the disk's thread, with a state file
//!  shards ────► counts, drops ────────┘
//! ```
//!
//! The lock is held while memory is changed or read, and never while a disk or a shard is waited for.

mod ask_shards;
mod budget;
mod clock;
mod disk;
mod entry;
mod follower;
mod moments;
mod network;
mod segment_format;
mod segments;
mod span_answers;
mod timeline_state;
mod view;

#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use crossbeam_channel::{Receiver, Sender, bounded};
use parking_lot::{Mutex, MutexGuard};

use self::ask_shards::{Asking, AskingProgress, RATES};
use self::clock::Reading;
use self::disk::{Folder, ReadJob};
pub(super) use self::moments::{at, changes, overview};
use self::span_answers::SpanAnswers;
use self::timeline_state::{IN_MEMORY, ON_DISK, TimelineState};
use self::view::ReadError;
use super::Handle;
use super::answer::milliseconds;
use crate::kept_files::KeptFile;
use crate::time::Clock;

/// The time after which the follower looks again whether there is something new. Chosen: the page shows what happened
/// within a moment, and what is new goes to the disk as often.
const FOLLOW_INTERVAL: Duration = Duration::from_millis(200);
/// The minimum time for which the follower rests after it has looked. Chosen: a network that changes all the time is
/// looked at 20 times a second at most.
const REST: Duration = Duration::from_millis(50);
/// The divisor of the share of time that looking takes: at most one part in this many, unless it takes longer than
/// [`RATES`]. Chosen: the timeline must not take a core that shards need.
const SHARE: u32 = 10;
/// The minimum time for which a run takes nothing as gone that it has not seen. Chosen: switches need up to some ten
/// seconds to connect, and hosts to be seen.
const LEAST_GRACE: Duration = Duration::from_secs(60);
/// The maximum time for which a request waits for the disk in all, and the end of the controller too. Chosen: people
/// wait for it, and a disk that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(5);
/// A millisecond of the run's clock, in nanoseconds.
const MILLISECOND: u64 = 1_000_000;
/// The number of requests that wait for the disk, besides the one that it works on. Further ones are refused at once.
/// Chosen: while a disk hangs, some of the threads that answer are free for what is in memory.
const WAITING: usize = 2;

/// The error of a wait whose time is over.
const TIMED_OUT: crossbeam_channel::RecvTimeoutError = crossbeam_channel::RecvTimeoutError::Timeout;

/// The record of the last 24 hours.
#[derive(Debug)]
pub(crate) struct Timeline {
    /// The timeline. Until what earlier runs have kept is read, it is the reason why nothing is kept.
    kept: Mutex<Result<Box<TimelineState>, String>>,
    /// Requests to the disk's thread, if there are files, and how long they wait.
    disk: Option<Sender<ReadJob>>,
    patience: Duration,
    /// The time after its beginning for which a run takes nothing as gone that it has not seen.
    grace: Duration,
    /// The answers about spans that were given lately.
    span_answers: Mutex<SpanAnswers>,
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
            handle.operations().files().keep(KeptFile::Timeline, &folder);
            let (own, files, (ending, ended)) =
                (Arc::clone(&timeline), handle.operations().files().clone(), bounded(0));
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
            span_answers: Mutex::default(),
            ended: AtomicBool::new(false),
            disk_ends: AtomicBool::new(false),
        };
        if !in_files {
            *timeline.kept() = Ok(Box::new(timeline.empty()));
        }
        timeline
    }

    /// Returns a timeline in which nothing is kept.
    fn empty(&self) -> TimelineState {
        let in_files = self.disk.is_some();
        TimelineState::new(in_files, if in_files { ON_DISK } else { IN_MEMORY }, self.grace.as_millis() as u64)
    }

    fn kept(&self) -> MutexGuard<'_, Result<Box<TimelineState>, String>> {
        self.kept.lock()
    }

    fn span_answers(&self) -> MutexGuard<'_, SpanAnswers> {
        self.span_answers.lock()
    }

    /// Runs a thread's work. If it panics, nothing is kept any more, requests get that as their answer, and the other
    /// thread ends too.
    fn watch(&self, work: impl FnOnce()) {
        if catch_unwind(AssertUnwindSafe(work)).is_err() {
            let thread = std::thread::current();
            let why = format!("nothing is kept any more: the thread {} panicked", thread.name().unwrap_or_default());
            tracing::error!("the timeline: {why}");
            *self.kept() = Err(why);
            self.ended.store(true, Ordering::Relaxed);
            self.disk_ends.store(true, Ordering::Relaxed);
        }
    }

    fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    /// Keeps what happens, until the end, or until nothing can be kept any more.
    fn follow(&self, handle: &Handle, clock: &Clock) {
        while self.kept().is_err() && !self.has_ended() {
            std::thread::sleep(REST);
        }
        let (mut line, mut version) = (0, None);
        let mut asking = Asking::new(clock.now().0);
        let milliseconds_passed = || clock.now().0 / MILLISECOND;
        let reading = || Reading::take(milliseconds_passed, || milliseconds(SystemTime::now()));
        while !self.has_ended() {
            let lines = handle.operations().log_since(line, FOLLOW_INTERVAL);
            let progress = asking.go_on(Instant::now(), clock.now().0, |minutes| ask_shards::ask(handle, &minutes));
            let is_quiet = lines.is_empty() && matches!(progress, AskingProgress::Nothing);
            if is_quiet && version == Some(handle.snapshot().version()) {
                continue;
            }
            let (began, state) = (Instant::now(), handle.snapshot());
            version = Some(state.version());
            match self.kept().as_mut() {
                Ok(kept) => {
                    kept.advance(reading());
                    kept.look_and_read(&state, |dpid| handle.shared().registry.is_away(dpid), &lines, &mut line);
                    kept.note(progress);
                }
                Err(_) => break,
            }
            self.span_answers().forget(Instant::now());
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

    /// Returns what reads files for one request.
    fn reader(&self) -> DiskReader<'_> {
        DiskReader { timeline: self, left: Cell::new(self.patience) }
    }
}

/// Reads files for one request.
#[derive(Debug)]
struct DiskReader<'a> {
    timeline: &'a Timeline,
    /// The time for which the request still waits for the disk.
    left: Cell<Duration>,
}

impl DiskReader<'_> {
    /// Reads the first bytes of a segment's file.
    fn read(&self, number: u32, length: usize) -> Result<Vec<u8>, ReadError> {
        if self.left.get().is_zero() {
            return Err(ReadError::Late);
        }
        let (reply, answer) = bounded(1);
        let disk = self.timeline.disk.as_ref().ok_or(ReadError::Late)?;
        disk.try_send(ReadJob { number, length, reply }).map_err(|_| ReadError::Late)?;
        let began = Instant::now();
        let read = answer.recv_timeout(self.left.get());
        self.left.set(self.left.get().saturating_sub(began.elapsed()));
        read.map_err(|_| ReadError::Late)?
    }
}
