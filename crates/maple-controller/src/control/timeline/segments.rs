//! The segments of the timeline, in memory or in files: a whole network each, and what happened after that.
//!
//! A segment begins with [`MAGIC`] and the format. An entry has its length and a CRC-32 before it. Segments are only
//! appended to. So a crash can only cut the last entries off, and what is before them is whole.
//!
//! A segment that is not written yet, because the disk refuses, stays in memory. So there are two bounds: on all
//! segments, and on those in memory. The oldest ones give way.

use std::collections::VecDeque;
use std::fs::{DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use super::entry::{Entry, Stamped};
use super::network::NetworkThen;
use crate::memory::format::{Damaged, put, read};

/// The start of each segment: four bytes that say what it is, and the number of its format.
const MAGIC: [u8; 8] = *b"MTL\0\0\0\0\x01";
/// The number of bytes before an entry.
const HEADER: usize = 8;
/// The size from which on another segment begins, unless its network is larger.
const SEGMENT: usize = 256 << 10;
/// The age at which another segment begins, in milliseconds, for each [`NETWORK`] bytes that its network takes.
const SEGMENT_AGE: u64 = 3_600_000;
const NETWORK: usize = 1 << 20;
/// How long segments are kept, in milliseconds.
const KEPT: u64 = 24 * 3_600_000;
/// How far the clock may go back before what seems to be in the future is given up, in milliseconds.
const BACK: u64 = 60_000;

/// The bounds of all segments, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub all: usize,
    pub in_memory: usize,
}

#[derive(Clone, Debug)]
pub(super) struct Segment {
    number: u32,
    pub began: u64,
    /// The time of the last entry.
    pub ended: u64,
    /// Whether it goes on where the one before ended.
    pub continues: bool,
    size: usize,
    /// The bytes of the network at its beginning.
    network: usize,
    /// Its bytes, unless all of them are in its file.
    bytes: Option<Vec<u8>>,
    /// How many of them are in its file.
    written: usize,
}

/// All segments, oldest first. The last one grows.
#[derive(Debug)]
pub(super) struct Segments {
    folder: Option<PathBuf>,
    bounds: Bounds,
    pub all: VecDeque<Segment>,
    next: u32,
}

impl Segments {
    /// Creates a timeline without segments; with a folder, in its files.
    pub fn new(folder: Option<PathBuf>, bounds: Bounds) -> Segments {
        Segments { folder, bounds, all: VecDeque::new(), next: 1 }
    }

    /// Reads the segments of earlier runs. Each of their entries goes to `each`. Returns what is wrong with them.
    pub fn open(&mut self, mut each: impl FnMut(&Stamped)) -> io::Result<Vec<String>> {
        let (Some(folder), mut troubles) = (self.folder.clone(), Vec::new()) else { return Ok(Vec::new()) };
        let mut numbers: Vec<u32> = match std::fs::read_dir(&folder) {
            Ok(entries) => entries.filter_map(|entry| number_of(&entry.ok()?.path())).collect(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error),
        };
        numbers.sort_unstable();
        self.next = numbers.last().map_or(1, |last| last.saturating_add(1));
        for number in numbers {
            let path = path(&folder, number);
            let bytes = std::fs::read(&path)?;
            let (entries, whole, damage) = entries_of(&bytes);
            let damage = if entries.is_empty() { damage.or(Some(Damaged("it has no entry"))) } else { damage };
            if let Some(Damaged(why)) = damage {
                troubles.push(format!("{}, byte {whole}: {why}; what comes after that is left out", path.display()));
            }
            let (Some(Stamped { time: began, entry: Entry::Begin { continues, .. } }), Some(last)) =
                (entries.first(), entries.last())
            else {
                // Without a network to begin with, it tells nothing.
                std::fs::remove_file(&path)?;
                continue;
            };
            if damage.is_some() {
                OpenOptions::new().write(true).open(&path)?.set_len(whole as u64)?;
            }
            let (began, ended, continues) = (*began, last.time, *continues);
            entries.iter().for_each(&mut each);
            let (size, network, bytes, written) = (whole, 0, None, whole);
            self.all.push_back(Segment { number, began, ended, continues, size, network, bytes, written });
        }
        Ok(troubles)
    }

    /// Reports whether another segment is to begin.
    pub fn is_full(&self, now: u64) -> bool {
        self.all.back().is_none_or(|last| {
            let age = SEGMENT_AGE * (1 + (last.network / NETWORK) as u64);
            last.size - last.network > SEGMENT.max(last.network) || now.saturating_sub(last.began) > age
        })
    }

    /// Begins a segment.
    pub fn begin(&mut self, time: u64, network: &NetworkThen, version: u64, continues: bool) {
        let number = self.next;
        self.next = self.next.saturating_add(1);
        let (size, network_size, bytes, written) = (MAGIC.len(), 0, Some(MAGIC.to_vec()), 0);
        let continues = continues && !self.all.is_empty();
        let (began, ended) = (time, time);
        self.all.push_back(Segment { number, began, ended, continues, size, network: network_size, bytes, written });
        let network = network.clone();
        self.append(&Stamped { time, entry: Entry::Begin { continues, version, network } });
        if let Some(last) = self.all.back_mut() {
            last.network = last.size;
        }
    }

    /// Appends an entry to the last segment. Returns the bytes that it takes.
    pub fn append(&mut self, entry: &Stamped) -> usize {
        let Some(Segment { ended, size, bytes: Some(bytes), .. }) = self.all.back_mut() else { return 0 };
        let start = bytes.len();
        bytes.extend([0; HEADER]);
        let done = put(entry, bytes);
        debug_assert!(done.is_ok(), "each entry has a form: {entry:?}");
        let length = (bytes.len() - start - HEADER) as u32;
        let checksum = crc32fast::hash(&bytes[start + HEADER..]);
        bytes[start..start + 4].copy_from_slice(&length.to_be_bytes());
        bytes[start + 4..start + HEADER].copy_from_slice(&checksum.to_be_bytes());
        (*ended, *size) = (entry.time, bytes.len());
        bytes.len() - start
    }

    /// Notes that nothing else has happened until this time.
    pub fn extend(&mut self, time: u64) {
        if let Some(last) = self.all.back_mut() {
            last.ended = last.ended.max(time);
        }
    }

    /// Writes what is not in files yet. Tries again what the disk has refused before.
    ///
    /// # Errors
    /// The path and the system's error.
    pub fn write(&mut self) -> Result<(), (PathBuf, io::Error)> {
        let Some(folder) = &self.folder else { return Ok(()) };
        let count = self.all.len();
        for (at, segment) in self.all.iter_mut().enumerate() {
            let Some(bytes) = &segment.bytes else { continue };
            let path = path(folder, segment.number);
            write(folder, &path, bytes, &mut segment.written).map_err(|error| (path, error))?;
            // The last one is read often, and grows.
            if at + 1 < count {
                segment.bytes = None;
            }
        }
        Ok(())
    }

    /// Gives up segments that are too old, that are in the future because the clock went back, or that exceed the
    /// bounds. Returns whether the newest one was in the future.
    pub fn trim(&mut self, now: u64) -> bool {
        let is_future = self.all.back().is_some_and(|last| last.ended > now + BACK);
        if is_future {
            while self.all.back().is_some_and(|last| last.ended > now) {
                self.remove(self.all.len() - 1);
            }
        }
        let size = |all: &VecDeque<Segment>| all.iter().map(|one| one.size).sum::<usize>();
        let in_memory = |all: &VecDeque<Segment>| -> usize {
            all.iter().filter(|one| one.bytes.is_some()).map(|one| one.size).sum()
        };
        while self.all.len() > 1 && (size(&self.all) > self.bounds.all || self.all[1].began + KEPT < now) {
            self.remove(0);
        }
        while in_memory(&self.all) > self.bounds.in_memory {
            let oldest = self.all.iter().position(|one| one.bytes.is_some()).unwrap_or_default();
            if oldest + 1 == self.all.len() {
                break;
            }
            self.remove(oldest);
            // What follows it does not go on where the one before it ended.
            self.all[oldest].continues = false;
        }
        if let Some(first) = self.all.front_mut() {
            first.continues = false;
        }
        is_future
    }

    fn remove(&mut self, at: usize) {
        let Some(gone) = self.all.remove(at) else { return };
        if let (Some(folder), true) = (&self.folder, gone.written > 0)
            && let Err(error) = std::fs::remove_file(path(folder, gone.number))
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!("the timeline {}: {error}", path(folder, gone.number).display());
        }
    }

    /// Returns the entries of a segment.
    pub fn entries(&self, at: usize) -> io::Result<Vec<Stamped>> {
        let Some(segment) = self.all.get(at) else { return Ok(Vec::new()) };
        let (entries, _, damage) = match (&segment.bytes, &self.folder) {
            (Some(bytes), _) => entries_of(bytes),
            (None, Some(folder)) => entries_of(&std::fs::read(path(folder, segment.number))?),
            (None, None) => return Ok(Vec::new()),
        };
        match damage {
            None => Ok(entries),
            Some(damage) => Err(io::Error::other(damage)),
        }
    }

    /// Returns the bytes of all segments, and the most that they may take.
    pub fn size(&self) -> (usize, usize) {
        (self.all.iter().map(|one| one.size).sum(), self.bounds.all)
    }

    /// Reports whether there are files.
    pub fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }
}

fn path(folder: &Path, number: u32) -> PathBuf {
    folder.join(format!("{number:08}.segment"))
}

fn number_of(path: &Path) -> Option<u32> {
    path.file_name()?.to_str()?.strip_suffix(".segment").filter(|number| number.len() == 8)?.parse().ok()
}

/// Writes what follows the bytes that are written already. If the file is gone, all of it.
fn write(folder: &Path, path: &Path, bytes: &[u8], written: &mut usize) -> io::Result<()> {
    if *written == bytes.len() && path.exists() {
        return Ok(());
    }
    if !path.exists() {
        *written = 0;
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)?;
    file.write_all_at(&bytes[*written..], *written as u64)?;
    *written = bytes.len();
    Ok(())
}

/// Returns the whole entries of a segment, how many bytes they take, and what is wrong with those that follow.
fn entries_of(bytes: &[u8]) -> (Vec<Stamped>, usize, Option<Damaged>) {
    let (mut entries, mut at) = (Vec::new(), MAGIC.len());
    if !bytes.starts_with(&MAGIC) {
        return (entries, 0, Some(Damaged("it is not a segment of a timeline of this format")));
    }
    while at < bytes.len() {
        match entry_at(&bytes[at..]) {
            Ok((entry, length)) => {
                entries.push(entry);
                at += length;
            }
            Err(damage) => return (entries, at, Some(damage)),
        }
    }
    (entries, at, None)
}

/// Reads the first entry of some bytes. Returns how many it takes.
fn entry_at(bytes: &[u8]) -> Result<(Stamped, usize), Damaged> {
    let number = |at: usize| bytes.get(at..at + 4).and_then(|four| four.try_into().ok()).map(u32::from_be_bytes);
    let cut = Damaged("it ends within an entry");
    let (length, checksum) = number(0).zip(number(4)).ok_or(cut)?;
    let end = HEADER + length as usize;
    let own = bytes.get(HEADER..end).ok_or(cut)?;
    if crc32fast::hash(own) != checksum {
        return Err(Damaged("a checksum is wrong"));
    }
    Ok((read(own)?, end))
}
