//! The folder of the timeline. One thread alone reads and writes there, and holds no lock while it does.
//!
//! ```text
//!  follower ──► TimelineState, in memory ◄── requests: what they need of files they ask the thread for,
//!                  │    ▲                      and wait for a limited time
//!           blocks │    │ what is written
//!                  ▼    │
//!            the disk's thread ──► a file for each segment
//! ```

use std::fs::{DirBuilder, File};
use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender};
use rustix::fs::{AtFlags, CWD, Dir, FlockOperation, Mode, OFlags, flock, openat, unlinkat};
use rustix::io::Errno;

use super::Timeline;
use super::segments::{Block, UnreadableKind, Work, Written};
use super::timeline_state::{ON_DISK, TimelineState};
use super::view::{ReadError, file_name};
use crate::kept_files::{KeptFile, KeptFiles};

/// The time between two writes of what is new. Chosen: a crash loses no more than that, and a disk is written to five
/// times a second.
const WRITE: Duration = Duration::from_millis(200);
/// The time after which the thread tries again what the disk has refused. Chosen: a full disk is not hammered, and one
/// that works again is noticed at once.
const RETRY: Duration = Duration::from_secs(1);
/// The time for which a folder has to be locked before it counts as in use. A child process has all files of its parent
/// until it executes its program, and so the lock of a timeline that has ended meanwhile. It must exceed that moment.
const IN_USE: Duration = Duration::from_secs(1);
/// The time for which a folder may be in use without trouble. It must exceed the time that a predecessor waits for its
/// disk at its end, five seconds.
const SUCCESSION: Duration = Duration::from_secs(10);

/// A request to read the first bytes of a segment's file.
#[derive(Debug)]
pub(super) struct ReadJob {
    pub number: u32,
    pub length: usize,
    pub reply: Sender<Result<Vec<u8>, ReadError>>,
}

/// The folder.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    /// The folder itself, with the lock on it. Files are opened by their names in it: whoever moves it away and makes
    /// another one has that for another controller.
    locked: Option<File>,
}

impl Folder {
    /// Creates a folder that is not opened yet.
    pub fn new(path: PathBuf) -> Folder {
        Folder { path, locked: None }
    }

    /// Creates the folder unless it is there, and locks it.
    fn lock(&mut self) -> io::Result<()> {
        if self.locked.is_none() {
            DirBuilder::new().recursive(true).mode(0o700).create(&self.path)?;
            let folder = File::open(&self.path)?;
            let until = Instant::now() + IN_USE;
            loop {
                match flock(&folder, FlockOperation::NonBlockingLockExclusive) {
                    Err(Errno::WOULDBLOCK) if Instant::now() < until => std::thread::sleep(IN_USE / 100),
                    Err(Errno::WOULDBLOCK) => {
                        let why = "another controller keeps its timeline in this folder";
                        return Err(io::Error::new(io::ErrorKind::ResourceBusy, why));
                    }
                    locked => break locked?,
                }
            }
            self.locked = Some(folder);
        }
        Ok(())
    }

    /// Reads what earlier runs have kept. Returns what is wrong with it.
    ///
    /// # Errors
    /// The system's; also if another process has the folder.
    pub fn open(&mut self, kept: &mut TimelineState) -> io::Result<Vec<String>> {
        self.lock()?;
        let mut numbers = Vec::new();
        for entry in Dir::read_from(self.place("").0)? {
            numbers.extend(number_of(&entry?.file_name().to_string_lossy()));
        }
        numbers.sort_unstable();
        let mut troubles = Vec::new();
        for number in numbers {
            let trouble = match self.read_all(number) {
                Ok(bytes) => kept.read_file(number, &bytes),
                Err(error) if is_of_the_moment(&error) => return Err(error),
                Err(error) => {
                    let kind = match error.kind() {
                        io::ErrorKind::InvalidInput => UnreadableKind::Foreign,
                        _ => UnreadableKind::Refused,
                    };
                    kept.segments.add_unreadable(number, kind, 0, error.to_string());
                    Some(format!("{error}; it is left as it is"))
                }
            };
            let path = self.path.join(file_name(number));
            troubles.extend(trouble.map(|trouble| format!("{}: {trouble}", path.display())));
        }
        Ok(troubles)
    }

    /// Returns where a file is: its name, and the folder that it is relative to.
    fn place(&self, name: &str) -> (BorrowedFd<'_>, PathBuf) {
        match &self.locked {
            Some(folder) => (folder.as_fd(), name.into()),
            None => (CWD, self.path.join(name)),
        }
    }

    /// Opens a segment's file.
    fn open_segment(&self, number: u32, flags: OFlags) -> io::Result<File> {
        let (folder, name) = self.place(&file_name(number));
        let flags = flags | OFlags::CLOEXEC;
        Ok(openat(folder, name, flags, Mode::RUSR | Mode::WUSR)?.into())
    }

    /// Opens a segment's file to read it. What is not a file is not waited for.
    fn open_to_read(&self, number: u32) -> io::Result<File> {
        let file = self.open_segment(number, OFlags::RDONLY | OFlags::NONBLOCK)?;
        let is_file = file.metadata()?.is_file();
        is_file.then_some(file).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "it is not a file"))
    }

    /// Reads a file that is not larger than all of the timeline.
    fn read_all(&self, number: u32) -> io::Result<Vec<u8>> {
        let (mut bytes, longest) = (Vec::new(), ON_DISK.bytes.all as u64);
        match self.open_to_read(number)?.take(longest + 1).read_to_end(&mut bytes)? as u64 {
            read if read <= longest => Ok(bytes),
            _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is too large to be a segment")),
        }
    }

    /// Reads the first bytes of a segment's file.
    ///
    /// # Errors
    /// [`ReadError::Unreadable`] only if the file is gone, or shorter than that, or something else.
    pub fn read(&self, number: u32, length: usize) -> Result<Vec<u8>, ReadError> {
        let mut bytes = vec![0; length];
        match self.open_to_read(number).and_then(|file| file.read_exact_at(&mut bytes, 0)) {
            Ok(()) => Ok(bytes),
            Err(error) => Err(match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidInput => {
                    ReadError::Unreadable(error.to_string())
                }
                _ => ReadError::Refused(error.to_string()),
            }),
        }
    }

    /// Appends blocks to a file. A new file begins at 0.
    fn append(&self, number: u32, at: usize, blocks: &[Block]) -> io::Result<File> {
        let flags = if at == 0 { OFlags::WRONLY | OFlags::CREATE } else { OFlags::WRONLY };
        let file = self.open_segment(number, flags)?;
        file.write_all_at(&blocks.concat(), at as u64)?;
        Ok(file)
    }

    /// Waits until a loss of power costs nothing of a file, and its name is in the folder.
    fn make_safe(&self, file: &File) -> io::Result<()> {
        file.sync_data()?;
        self.locked.as_ref().map_or(Ok(()), File::sync_all)
    }

    /// Does what is to be done. What fails is to be done again.
    ///
    /// # Errors
    /// The first error, with the path.
    pub fn work(&mut self, timeline: &Timeline) -> Result<(), (PathBuf, io::Error)> {
        let is_last = timeline.disk_ends.load(Ordering::Relaxed);
        let todo = timeline.kept().as_mut().map_or_else(|_| Vec::new(), |kept| kept.segments.work(is_last));
        let (mut first, mut is_refused) = (Ok(()), false);
        for work in todo {
            let (Work::Append { number, .. } | Work::Delete { number }) = work;
            // A segment is not written before what it goes on from.
            if is_refused && matches!(work, Work::Append { .. }) {
                break;
            }
            if let Err(error) = self.lock().and_then(|()| self.work_on(timeline, &work)) {
                if matches!(work, Work::Delete { .. })
                    && let Ok(kept) = timeline.kept().as_mut()
                {
                    kept.segments.not_deleted(number);
                }
                is_refused |= matches!(work, Work::Append { .. });
                first = first.and(Err((self.path.join(file_name(number)), error)));
            }
        }
        first
    }

    fn work_on(&mut self, timeline: &Timeline, work: &Work) -> io::Result<()> {
        let is_missing = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
        match work {
            Work::Delete { number } => {
                let (folder, name) = self.place(&file_name(*number));
                match unlinkat(folder, name, AtFlags::empty()) {
                    Ok(()) | Err(Errno::NOENT) => Ok(()),
                    Err(error) => Err(error.into()),
                }
            }
            Work::Append { number, at, blocks, then } => {
                let (written, done) = match self.append(*number, *at, blocks) {
                    Ok(_) if !then.is_safe => (*then, Ok(())),
                    // What the disk has refused once may be lost, though it takes it the second time.
                    Ok(file) => match self.make_safe(&file) {
                        Ok(()) => (*then, Ok(())),
                        refused => (Written::default(), refused),
                    },
                    // Somebody has deleted the file, or the folder: all of it is written again.
                    Err(error) if is_missing(&error) => {
                        self.locked = None;
                        (Written::default(), Ok(()))
                    }
                    Err(error) => return Err(error),
                };
                if let Ok(kept) = timeline.kept().as_mut() {
                    kept.segments.wrote(*number, written);
                }
                done
            }
        }
    }
}

/// Opens the folder, serves requests, and writes what is new, until the timeline has ended.
pub(super) fn serve(timeline: &Timeline, mut folder: Folder, jobs: &Receiver<ReadJob>, files: &KeptFiles) {
    let has_ended = || timeline.disk_ends.load(Ordering::Relaxed);
    let since = Instant::now();
    while !has_ended() {
        let mut kept = timeline.empty();
        match folder.open(&mut kept) {
            Ok(troubles) => {
                troubles.iter().for_each(|trouble| tracing::warn!("the timeline: {trouble}"));
                *timeline.kept() = Ok(Box::new(kept));
                files.mended(KeptFile::Timeline, "");
                break;
            }
            Err(error) => {
                *timeline.kept() = Err(format!("nothing is kept, because {}: {error}", folder.path.display()));
                if is_trouble(&error, since.elapsed()) {
                    files.fails(KeptFile::Timeline, &folder.path, error.to_string());
                }
                let began = Instant::now();
                while !has_ended() && began.elapsed() < RETRY {
                    std::thread::sleep(WRITE);
                }
            }
        }
    }
    if timeline.kept().is_err() {
        return;
    }
    let mut next = Instant::now();
    loop {
        let is_last = has_ended();
        if is_last || Instant::now() >= next {
            let pause = match folder.work(timeline) {
                Ok(()) => {
                    files.mended(KeptFile::Timeline, "");
                    WRITE
                }
                Err((path, error)) => {
                    files.fails(KeptFile::Timeline, &path, error.to_string());
                    RETRY
                }
            };
            next = Instant::now() + pause;
        }
        if is_last {
            break;
        }
        if let Ok(ReadJob { number, length, reply }) = jobs.recv_deadline(next) {
            // Who asked may have stopped waiting.
            drop(reply.send(folder.read(number, length)));
        }
    }
}

/// Reports whether an error says that the system is short of something, and nothing of the file.
fn is_of_the_moment(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    errno.is_some_and(|errno| matches!(errno, Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::INTR | Errno::AGAIN))
}

/// Reports whether people should hear that the folder could not be opened for this time.
fn is_trouble(error: &io::Error, time: Duration) -> bool {
    error.kind() != io::ErrorKind::ResourceBusy || time >= SUCCESSION
}

fn number_of(name: &str) -> Option<u32> {
    let number = name.strip_suffix(".segment")?.parse().ok()?;
    (file_name(number) == name).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_predecessor_that_ends_late_is_no_trouble_and_anything_else_is_at_once() {
        let is_trouble_after = |kind, seconds| is_trouble(&io::Error::from(kind), Duration::from_secs(seconds));
        assert!(!is_trouble_after(io::ErrorKind::ResourceBusy, 5) && is_trouble_after(io::ErrorKind::ResourceBusy, 10));
        assert!(is_trouble_after(io::ErrorKind::PermissionDenied, 0));
    }
}
