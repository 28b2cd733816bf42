//! The timeline: what the network was in the last 24 hours, and what happened.
//!
//! A thread of its own looks at the newest snapshot whenever something was published, and keeps how it differs from what
//! is kept already. So a moment is made again of the network at the beginning of a segment and what changed after that.
//! What comes and goes between two looks is in the lines of the log, which are kept too. Shards are asked for counts
//! alone, every [`RATES`], and for drops once a minute.
//!
//! ```text
//!  snapshot ──► network: differences ─┐                        ┌─► a file each, beside the state file
//!  log ───────► lines ────────────────┼─► budgets ─► segments ─┤
//!  shards ────► counts, drops ────────┘                        └─► memory, without a state file
//! ```

mod answer;
mod entry;
mod kept;
mod network;
mod segments;

#[cfg(test)]
mod tests;

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use maple_core::engine::Dropped;

pub(super) use self::answer::{at, changes, overview};
use self::entry::CountsThen;
use self::kept::Kept;
use super::Handle;
use super::answer::milliseconds;
use super::queries::LateShard;
use crate::kept_files::KeptFile;
use crate::time::Clock;

/// How often counts are kept, and that nothing has happened.
const RATES: Duration = Duration::from_secs(5);
/// How often the thread looks whether there is something new, and how long it rests at least after it has looked.
const LOOK: Duration = Duration::from_millis(200);
const REST: Duration = Duration::from_millis(50);
/// Looking takes at most one part of the time in so many.
const SHARE: u32 = 10;
/// A minute of the engines' time, in nanoseconds, and how long after it its drops are read.
const MINUTE: u64 = 60_000_000_000;
const LATE: u64 = 2_000_000_000;

/// What is kept of the last 24 hours.
#[derive(Debug)]
pub(crate) struct Timeline {
    kept: Mutex<Kept>,
    ended: AtomicBool,
}

/// Keeps the timeline of a controller until it is dropped.
#[derive(Debug)]
pub(crate) struct TimelineWriter {
    timeline: Arc<Timeline>,
    thread: Option<JoinHandle<()>>,
}

impl TimelineWriter {
    /// Starts the thread; with a state file, the timeline is in a folder beside that.
    ///
    /// # Errors
    /// The system's, if it refuses a thread.
    pub fn begin(handle: &Handle, clock: Clock, state_file: Option<&Path>) -> io::Result<TimelineWriter> {
        let folder = state_file.map(folder_of);
        if let Some(folder) = &folder {
            handle.files().keep(KeptFile::Timeline, folder);
        }
        let timeline = Arc::new(Timeline { kept: Mutex::new(Kept::new(folder)), ended: AtomicBool::new(false) });
        handle.keeps_timeline(Arc::clone(&timeline));
        let (own, handle) = (Arc::clone(&timeline), handle.clone());
        let thread = std::thread::Builder::new().name("timeline".into()).spawn(move || own.follow(&handle, &clock))?;
        Ok(TimelineWriter { timeline, thread: Some(thread) })
    }
}

impl Drop for TimelineWriter {
    fn drop(&mut self) {
        self.timeline.ended.store(true, Ordering::Relaxed);
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread of the timeline panicked");
        }
    }
}

/// Returns the folder beside a state file.
fn folder_of(state_file: &Path) -> PathBuf {
    let mut name = state_file.file_name().unwrap_or_default().to_owned();
    name.push(".timeline");
    state_file.with_file_name(name)
}

impl Timeline {
    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    /// Keeps what happens, until the end.
    fn follow(&self, handle: &Handle, clock: &Clock) {
        self.open(handle);
        let (mut line, mut version) = (0, None);
        let mut minute = clock.now().0 / MINUTE;
        let mut rated: Option<Instant> = None;
        while !self.has_ended() {
            let lines = handle.log_since(line, LOOK);
            let began = Instant::now();
            let rates = rated.is_none_or(|rated| rated.elapsed() >= RATES);
            let state = handle.snapshot();
            if lines.is_empty() && !rates && version == Some(state.version()) {
                continue;
            }
            version = Some(state.version());
            let mut kept = self.lock();
            kept.look(milliseconds(SystemTime::now()), &state, |dpid| handle.shared().registry.is_away(dpid));
            drop(state);
            for entry in &lines {
                // What was before this run is not missed.
                kept.leave_out(if line == 0 { 0 } else { entry.number - line });
                kept.line(entry);
                line = entry.number + 1;
            }
            drop(kept);
            if rates {
                rated = Some(began);
                self.measure(handle);
                let complete = clock.now().0.saturating_sub(LATE) / MINUTE;
                // If a shard is late, these minutes are read the next time.
                if complete > minute
                    && let Ok(dropped) = dropped(handle, minute..complete)
                {
                    self.lock().drop_packets(&dropped);
                    minute = complete;
                }
            }
            self.write(handle);
            self.rest(REST.max(began.elapsed() * (SHARE - 1)));
        }
        // The shards may have ended.
        self.lock().rate(milliseconds(SystemTime::now()), None);
        self.write(handle);
    }

    /// Reads what earlier runs have kept. Whatever is wrong with it, this run goes on.
    fn open(&self, handle: &Handle) {
        let mut kept = self.lock();
        match kept.open() {
            Ok(troubles) => troubles.iter().for_each(|trouble| tracing::warn!("the timeline {trouble}")),
            Err(error) => {
                if let Some(folder) = kept.segments.folder() {
                    handle.files().fails(KeptFile::Timeline, folder, error.to_string());
                }
            }
        }
    }

    /// Keeps how much has been counted.
    fn measure(&self, handle: &Handle) {
        let counts = handle.stats().ok().map(|stats| CountsThen {
            packet_ins: stats.total.engine.packet_ins,
            decisions: stats.total.engine.misses,
            flow_mods: stats.total.engine.flow_mods,
            failures: stats.total.engine.policy_errors,
        });
        self.lock().rate(milliseconds(SystemTime::now()), counts);
    }

    fn write(&self, handle: &Handle) {
        match self.lock().segments.write() {
            Ok(()) => handle.files().mended(KeptFile::Timeline, ""),
            Err((path, error)) => handle.files().fails(KeptFile::Timeline, &path, error.to_string()),
        }
    }

    /// Waits, but not longer than until the end.
    fn rest(&self, time: Duration) {
        let began = Instant::now();
        while !self.has_ended() && began.elapsed() < time {
            std::thread::sleep(REST.min(time));
        }
    }
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
