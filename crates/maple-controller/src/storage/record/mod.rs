//! Recordings: all that reaches the engines of a run, so that the run can be repeated without a network.
//!
//! # What
//!
//! Engines are deterministic. So a recording has what determines them. Of each turn it has the time and the events, and
//! how the engine's uses of the store lay between those of other shards
//! ([`Engine::take_notes`](maple_core::engine::Engine)). Of the run it has the options, the state at the start, the
//! files of each policy, and what others wrote to the store. It has a checksum of each message that was sent, so that a
//! replay can compare its own messages. Packets that are answered as hits change nothing, and are only counted.
//! [`replay`](super::replay) repeats the run.
//!
//! # Where
//!
//! Each run of a controller has a folder of its own in the folder of recordings: `header.json`, segments, and the files
//! of policies. A replay can begin only where the engines began: at the start of the run. So when all runs together
//! reach the limit, the oldest *run* is removed. If there is no other run, the recording ends, and says why.
//!
//! # How
//!
//! A shard appends each turn to a buffer. A thread takes the buffers several times a second, compresses them and
//! writes. A write that the disk refuses is tried again. A shard never waits for a disk: if a buffer is full, the
//! recording ends, and says why.
//!
//! ```text
//!  shard ── turn ──► buffer ──┐
//!  shard ── turn ──► buffer ──┼── writer: compress, append ──► 00000001.segment, 00000002.segment, …
//!  store ── write ─► buffer ──┘
//! ```
//!
//! Keys, certificates and passwords are neither events nor options of engines, so no recording has them. It has the
//! state and the policies, and what these hold. So only its owner can read it.

pub(crate) mod engine_events;
mod engine_options;
mod files;
mod outside_writes;
mod shard_records;
mod source;

pub(crate) mod segment;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use maple_core::engine::{Options, Time};
use maple_core::ids::ShardId;
use maple_core::policy::Policy;
use maple_core::state::Store;
use maple_wire::Dpid;
use parking_lot::{Condvar, Mutex};
use serde::Serialize;

use crate::kept_files::{KeptFile, KeptFiles};
use crate::storage::format::put;
use crate::time::Clock;
use files::{Files, WriteStop};
pub(crate) use files::{Header, RecordingStart, hash_of, runs};
pub(crate) use outside_writes::OutsideChange;
use outside_writes::OutsideRecorder;
pub(crate) use shard_records::{RecordedTurn, ShardRecorder, checksum, sent};
pub use source::{PolicySource, RecordedSource};
pub(crate) use source::{SourceRecord, is_inside};

/// The time between two writes of the buffers. Chosen: a crash loses the events of at most this time, and blocks are
/// long enough to compress well.
const PERIOD: Duration = Duration::from_millis(200);
/// The maximum pause before a write that the disk has refused is tried again. Chosen: a disk that works again is
/// noticed before the buffers are full.
const MAX_PAUSE: Duration = Duration::from_secs(8);
/// The time between two checks that all files are there. Chosen: somebody who deletes them is warned at once, and a
/// check costs a look at each.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// The number of bytes from which on a buffer is written at once. Chosen: a burst must not wait for the period, so that
/// memory stays far below [`MAX_PENDING`].
const HIGH: usize = 1 << 20;
/// The maximum number of policies whose files wait to be copied. Chosen: reloads are seldom, so more wait only for a
/// disk that hangs.
const MAX_COPIES: usize = 4;
/// The maximum number of bytes of a buffer: the size of the largest block. If it is reached, the disk is too slow.
const MAX_PENDING: usize = segment::MAX_BLOCK;

/// The options of a recording.
#[derive(Clone, Debug)]
pub struct RecordOptions {
    /// The folder of recordings.
    pub folder: PathBuf,
    /// The maximum number of bytes of all recordings there.
    pub limit: u64,
    /// The source of the policy.
    pub policy: PolicySource,
    /// The name of the compiler, for the replay.
    pub compiler: String,
}

/// The reason why there is no recording.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordingError {
    /// The folder has no recording.
    #[error("{0} has no recording: maple run --record makes one")]
    None(PathBuf),
    /// The system refused something.
    #[error("{path}: {error}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// The files have another format.
    #[error("{path} has format {format}, and this version of Maple reads format {known}", known = segment::FORMAT)]
    Format {
        /// The file.
        path: PathBuf,
        /// Its format.
        format: u32,
    },
    /// Another version of Maple recorded it, whose engines may decide otherwise.
    #[error(
        "{path} was recorded by Maple {recorded}, and this is Maple {this}: engines of different versions may decide \
         otherwise, so replay it with that version"
    )]
    Version {
        /// The recording.
        path: PathBuf,
        /// The version that recorded.
        recorded: String,
        /// The version of this program.
        this: &'static str,
    },
    /// Something in a file is not as it was written.
    #[error("{path}, byte {offset}: {why}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The place in the file, in bytes.
        offset: u64,
        /// The fault.
        why: String,
    },
    /// The limit is too small.
    #[error("recordings take at least {least} bytes, and the limit is {limit}")]
    Limit {
        /// The limit that was given.
        limit: u64,
        /// The lowest one.
        least: u64,
    },
    /// The policy is too large.
    #[error("the files of the policy {0} take more than 64 MiB")]
    Policy(String),
}

impl RecordingError {
    /// Creates the error of a file that the system refused.
    pub(crate) fn io(path: &Path, error: io::Error) -> RecordingError {
        RecordingError::Io { path: path.to_owned(), error }
    }

    /// Creates the error of a file that is damaged from this offset on.
    pub(crate) fn damaged(path: &Path, offset: u64, why: impl fmt::Display) -> RecordingError {
        RecordingError::Damaged { path: path.to_owned(), offset, why: why.to_string() }
    }
}

/// A recording that is being made. Clones are of the same one.
#[derive(Clone)]
pub struct Recording(Arc<SharedRecording>);

/// The thread that writes a recording. Dropping this writes everything and ends the thread.
pub struct RecordWriter {
    recording: Recording,
    store: Arc<Store>,
    thread: Option<JoinHandle<()>>,
}

impl fmt::Debug for RecordWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordWriter").field("recording", &self.recording).finish_non_exhaustive()
    }
}

/// The data that shards, the store and the writer share.
pub(crate) struct SharedRecording {
    /// The folder of this run.
    folder: PathBuf,
    /// The time when the clock of the run was at zero.
    began: SystemTime,
    clock: Clock,
    /// The number of times that the store had moved at the start.
    from: AtomicU64,
    is_on: AtomicBool,
    /// The time when it ended by itself, in nanoseconds of the clock of the run.
    ended_at: AtomicU64,
    /// The reason why it has ended, if it ended by itself.
    failure: Mutex<Option<String>>,
    shards: Vec<Mutex<Vec<u8>>>,
    outside: Mutex<Vec<u8>>,
    sources: Mutex<Sources>,
    wanted: Mutex<WriterWork>,
    wake: Condvar,
    kept: KeptFiles,
}

/// Bytes that were taken from a buffer and are not written yet.
#[derive(Default)]
struct TakenBytes {
    kind: u16,
    bytes: Vec<u8>,
}

/// The next work of the writer.
#[derive(Debug, Default)]
struct WriterWork {
    is_urgent: bool,
    is_over: bool,
}

/// The policies of the run.
#[derive(Default)]
struct Sources {
    /// Each policy with its number.
    known: Vec<(Weak<dyn Policy>, u64)>,
    next: u64,
    /// Records that are to be written.
    pending: Vec<u8>,
    /// The policies whose files are to be copied before the records are written.
    to_copy: Vec<(u64, Arc<PolicySource>)>,
}

impl fmt::Debug for Recording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Recording").field(&self.0.folder).finish()
    }
}

impl SharedRecording {
    /// Returns the number of times that the store had moved at the start.
    pub fn from(&self) -> u64 {
        self.from.load(Ordering::Relaxed)
    }

    /// Reports whether the recording goes on: it has not failed, and was not ended.
    pub fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// Ends the recording. The writer publishes the first reason.
    pub fn fail(&self, why: &str) {
        // The lock is held meanwhile, so that the writer does not end without the reason.
        let mut failure = self.failure.lock();
        if self.is_on.swap(false, Ordering::Relaxed) {
            *failure = Some(why.to_owned());
            self.ended_at.store(self.clock.now().0, Ordering::Relaxed);
            drop(failure);
            self.wake(|wanted| wanted.is_urgent = true);
        }
    }

    fn wake(&self, change: impl FnOnce(&mut WriterWork)) {
        change(&mut self.wanted.lock());
        self.wake.notify_one();
    }

    /// Appends a record of a shard.
    pub fn append(&self, shard: ShardId, record: &[u8]) {
        let Some(buffer) = self.shards.get(usize::from(shard.0)) else {
            return debug_assert!(false, "the recording has no shard {}", shard.0);
        };
        self.append_to(buffer, |out| out.extend_from_slice(record));
    }

    fn append_outside(&self, what: &impl Serialize) {
        self.append_to(&self.outside, |out| {
            let done = put(what, out);
            debug_assert!(done.is_ok(), "each change has a form");
        });
    }

    fn append_to(&self, buffer: &Mutex<Vec<u8>>, put: impl FnOnce(&mut Vec<u8>)) {
        let mut buffer = buffer.lock();
        let before = buffer.len();
        put(&mut buffer);
        let after = buffer.len();
        if after > MAX_PENDING {
            buffer.truncate(before);
            drop(buffer);
            return self.fail("the disk is too slow, or a turn is too large");
        }
        drop(buffer);
        if before < HIGH && after >= HIGH {
            self.wake(|wanted| wanted.is_urgent = true);
        }
    }

    /// Copies the files of the first policies. A recording without them does not begin.
    fn copy_first(&self) -> io::Result<()> {
        let all = std::mem::take(&mut self.sources.lock().to_copy);
        all.iter().try_for_each(|(number, source)| files::copy(&self.folder, *number, source))
    }

    /// Waits until there is something to write, at most for `pause`. Returns whether this is the last time.
    fn wait(&self, pause: Duration) -> bool {
        let is_quiet = |wanted: &mut WriterWork| !wanted.is_urgent && !wanted.is_over;
        let mut wanted = self.wanted.lock();
        self.wake.wait_while_for(&mut wanted, is_quiet, pause);
        wanted.is_urgent = false;
        wanted.is_over
    }

    /// Writes what was taken before and could not be written, and then everything that has come. Buffers are swapped
    /// with `taken`, so their memory is used again.
    fn write(&self, files: &mut Files, taken: &mut TakenBytes) -> Result<(), WriteStop> {
        let mut append = |taken: &mut TakenBytes| {
            files.append(taken.kind, &taken.bytes)?;
            taken.bytes.clear();
            Ok(())
        };
        append(taken)?;
        let next = || self.sources.lock().to_copy.first().cloned();
        while let Some((number, source)) = next() {
            files::copy(&self.folder, number, &source)?;
            self.sources.lock().to_copy.remove(0);
        }
        let all = self.shards.iter().zip(0u16..).chain([(&self.outside, segment::kind::OUTSIDE)]);
        for (buffer, kind) in all {
            std::mem::swap(&mut *buffer.lock(), &mut taken.bytes);
            taken.kind = kind;
            append(taken)?;
        }
        std::mem::swap(&mut self.sources.lock().pending, &mut taken.bytes);
        taken.kind = segment::kind::SOURCES;
        append(taken)
    }

    /// Does the work of the writer.
    fn run(&self, mut files: Files) {
        let (mut taken, mut pause, mut looked) = (TakenBytes::default(), PERIOD, Instant::now());
        loop {
            let is_last = self.wait(pause);
            // After a failure, shards and store append nothing.
            let is_over = is_last || !self.is_on();
            if looked.elapsed() >= CHECK_INTERVAL {
                looked = Instant::now();
                if let Err(why) = files.check() {
                    return self.end(files, Some(why));
                }
            }
            match self.write(&mut files, &mut taken) {
                Ok(()) if is_over => return self.end(files, None),
                Ok(()) => {
                    pause = PERIOD;
                    self.kept.mended(KeptFile::Recording, "");
                }
                Err(full @ WriteStop::Io(_)) if !is_over => {
                    pause = (pause * 2).min(MAX_PAUSE);
                    self.kept.fails(KeptFile::Recording, &self.folder, full.to_string());
                }
                Err(full) => return self.end(files, Some(&full.to_string())),
            }
        }
    }

    /// Ends the files. If the recording did not end with the controller, publishes the reason.
    fn end(&self, files: Files, why: Option<&str>) {
        if let Some(why) = why {
            self.fail(why);
        }
        let failure = self.failure.lock().clone();
        if let Some(first) = failure.as_deref() {
            let at = timestamp_of(self.began, Time(self.ended_at.load(Ordering::Relaxed)));
            // A shard whose buffer is full does not know the disk's error, which is the reason.
            let why = why.filter(|why| *why != first).map(|why| format!(" ({why})")).unwrap_or_default();
            self.kept.ended(KeptFile::Recording, &self.folder, format!("at {at}: {first}{why}"));
        }
        files.end(failure.as_deref().unwrap_or("the controller stopped"));
    }
}

impl Recording {
    /// Begins the recording of a controller with this many shards, before any of them runs.
    ///
    /// # Errors
    /// [`RecordingError`] if the limit is too low, the policy's files are too large, or the system refuses something.
    pub(crate) fn begin(
        options: &RecordOptions,
        shards: usize,
        engine: &Options,
        store: &Arc<Store>,
        policy: &Arc<dyn Policy>,
        clock: Clock,
        kept: &KeptFiles,
    ) -> Result<(Recording, RecordWriter), RecordingError> {
        let began = now_at_zero(&clock);
        let header = Header::new(began, shards, &options.compiler, engine);
        let mut files = Files::create(&options.folder, options.limit, &header)?;
        let shared = Arc::new(SharedRecording {
            folder: files.folder().to_owned(),
            began,
            clock,
            from: AtomicU64::new(0),
            is_on: AtomicBool::new(true),
            ended_at: AtomicU64::new(0),
            failure: Mutex::default(),
            shards: (0..shards).map(|_| Mutex::default()).collect(),
            outside: Mutex::default(),
            sources: Mutex::default(),
            wanted: Mutex::default(),
            wake: Condvar::new(),
            kept: kept.clone(),
        });
        kept.keep(KeptFile::Recording, &shared.folder);
        let (state, from) = store.record_to(Arc::new(OutsideRecorder(Arc::clone(&shared))));
        shared.from.store(from, Ordering::Relaxed);
        let mut start = Vec::new();
        let values = RecordingStart { options: engine.clone(), from, writes: state.of_users() };
        put(&values, &mut start).map_err(|error| RecordingError::io(&shared.folder, io::Error::other(error)))?;
        let recording = Recording(Arc::clone(&shared));
        recording.name_policy(policy, &options.policy)?;
        let path = shared.folder.clone();
        shared.copy_first().map_err(|error| RecordingError::io(&path, error))?;
        files.begin(&start).map_err(|error| RecordingError::io(&path, error))?;
        let work = move || shared.run(files);
        let thread = std::thread::Builder::new().name("record".into()).spawn(work);
        let thread = Some(thread.map_err(|error| RecordingError::io(&path, error))?);
        Ok((recording.clone(), RecordWriter { recording, store: Arc::clone(store), thread }))
    }

    /// Returns the folder of this run.
    pub fn folder(&self) -> &Path {
        &self.0.folder
    }

    /// Returns why it has ended, if it ended by itself.
    pub fn failure(&self) -> Option<String> {
        self.0.failure.lock().clone()
    }

    /// Returns the present time, for people: `2026-11-26T04:15:11.000Z`.
    pub fn now(&self) -> String {
        self.timestamp(self.0.clock.now())
    }

    /// Returns a time of the run as `maple replay --until` takes it.
    pub(crate) fn timestamp(&self, at: Time) -> String {
        timestamp_of(self.0.began, at)
    }

    /// Returns a text for the report of a crash: where the recording is, and when the crash was.
    pub(crate) fn crash_text(&self) -> String {
        match self.failure() {
            None => format!("; maple replay {} comes there too, at {}", self.folder().display(), self.now()),
            Some(_) => format!("; the recording {} had ended before", self.folder().display()),
        }
    }

    /// Ends the recording, because something can't be repeated.
    pub fn fail(&self, why: &str) {
        self.0.fail(why);
    }

    /// Creates the recorder of a shard.
    pub(crate) fn shard(&self, shard: ShardId) -> ShardRecorder {
        ShardRecorder::new(Arc::clone(&self.0), shard)
    }

    /// Notes the source of a policy that is to replace the one that runs.
    ///
    /// # Errors
    /// [`RecordingError`] if the policy's files are too large, or those of too many policies wait for the disk.
    pub fn name_policy(&self, policy: &Arc<dyn Policy>, source: &PolicySource) -> Result<(), RecordingError> {
        let mut sources = self.0.sources.lock();
        let number = sources.next;
        let recorded = files::recorded(number, source)?;
        if sources.to_copy.len() >= MAX_COPIES {
            let error = io::Error::other(format!("the files of {MAX_COPIES} other policies wait for the disk"));
            return Err(RecordingError::io(&self.0.folder, error));
        }
        sources.add(policy, number, recorded);
        sources.to_copy.push((number, Arc::new(source.clone())));
        Ok(())
    }

    /// Notes that a policy lets `new` decide what enters at some switches, and `old` everything else.
    pub fn name_canary(&self, policy: &Arc<dyn Policy>, of: (&Arc<dyn Policy>, &Arc<dyn Policy>), switches: &[Dpid]) {
        let mut sources = self.0.sources.lock();
        // Without the sources of both this policy has none, and the recording ends when it is tried.
        if let (Some(old), Some(new)) = (sources.number_of(of.0), sources.number_of(of.1)) {
            let number = sources.next;
            sources.add(policy, number, RecordedSource::Canary { old, new, switches: switches.to_vec() });
        }
    }

    /// Notes that this candidate is to be tried. If its policy has no known source, the recording ends.
    pub(crate) fn note_candidate(&self, candidate: u64, policy: &Arc<dyn Policy>) {
        let mut sources = self.0.sources.lock();
        match sources.number_of(policy) {
            Some(number) => sources.note(&SourceRecord::Candidate { candidate, number }),
            None => {
                drop(sources);
                self.0.fail("another policy is to run, and it is not known which files it comes from");
            }
        }
    }
}

impl Sources {
    fn add(&mut self, policy: &Arc<dyn Policy>, number: u64, source: RecordedSource) {
        self.known.retain(|(known, _)| known.strong_count() > 0);
        self.known.push((Arc::downgrade(policy), number));
        self.next = number + 1;
        self.note(&SourceRecord::Source { number, source });
    }

    fn note(&mut self, record: &SourceRecord) {
        let done = put(record, &mut self.pending);
        debug_assert!(done.is_ok(), "each record has a form");
    }

    fn number_of(&self, policy: &Arc<dyn Policy>) -> Option<u64> {
        let is_same_policy = |known: &Weak<dyn Policy>| std::ptr::addr_eq(known.as_ptr(), Arc::as_ptr(policy));
        self.known
            .iter()
            .rev()
            .find(|(known, _)| known.strong_count() > 0 && is_same_policy(known))
            .map(|(_, number)| *number)
    }
}

impl Drop for RecordWriter {
    fn drop(&mut self) {
        self.store.stop_recording();
        self.recording.0.wake(|wanted| wanted.is_over = true);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that writes the recording panicked");
        }
    }
}

/// Returns the time when this clock was at zero.
fn now_at_zero(clock: &Clock) -> SystemTime {
    let since = Duration::from_nanos(clock.now().0);
    SystemTime::now().checked_sub(since).unwrap_or(SystemTime::UNIX_EPOCH)
}

/// Formats a time of a run.
pub(crate) fn timestamp_of(began: SystemTime, at: Time) -> String {
    crate::time::timestamp(began + Duration::from_nanos(at.0))
}
