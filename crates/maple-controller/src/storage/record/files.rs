//! The folder of a run: its header, its segments, and the files of its policies; and the removal of earlier runs.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use maple_core::engine::Options;
use maple_core::state::Write;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use super::engine_options::OptionsForm;
use super::segment::{self, FORMAT, append, begin, kind, size_of};
use super::source::MAX_BYTES;
use super::{PolicySource, RecordedSource, RecordingError};
use crate::fingerprint::Fingerprint;
use crate::time::timestamp;

/// The lowest limit of all recordings, in bytes. Chosen: a segment has an eighth of the limit, and must hold more than
/// a few blocks.
const LEAST: u64 = 1 << 20;
/// The size from which on another segment begins, in bytes. When one begins, older runs are removed until there is room
/// for all of it. Chosen: as large as the largest block, so that a segment has at least one.
const SEGMENT: u64 = 64 << 20;
/// The number of bytes that are kept free for the end of a recording: its reason, of at most a few kilobytes.
const RESERVE: u64 = 16 << 10;
/// The name of the header.
const HEADER: &str = "header.json";
/// The maximum size of a header that is read, in bytes. Chosen: far more than the command and the versions in it; a
/// larger file is damaged, and is not read.
const MAX_HEADER: u64 = 64 << 10;

/// The header of a recording. People can read it too.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Header {
    /// The format of all files.
    pub format: u32,
    /// The version of Maple that recorded.
    pub maple: String,
    /// The time when the clock of the run was at zero, in nanoseconds since 1970.
    began: u128,
    /// The time of the beginning as text, for people.
    began_at: String,
    /// The number of shards.
    pub shards: usize,
    /// The compiler of the rules.
    pub compiler: String,
    /// The maximum number of a switch's tables that are for look-ups.
    pub look_up_tables: u8,
    /// The number of a switch's leaves up to which it was explored; 0 in recordings of versions that did not explore.
    #[serde(default)]
    pub explored_leaves: usize,
    /// Whether one decision might be for all places that a look-up finds; not so in recordings of versions before.
    #[serde(default)]
    pub open_routes: bool,
}

/// The options and the state with which engines began.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct RecordingStart {
    #[serde(with = "OptionsForm")]
    pub options: Options,
    /// The number of times that the store had moved.
    pub from: u64,
    /// The writes that made the state.
    pub writes: Vec<Write>,
}

/// The files of a run that are being written.
pub(crate) struct Files {
    folder: PathBuf,
    /// The folder of all runs.
    all: PathBuf,
    max_bytes: u64,
    /// The header. It is locked while the run is recorded, so that no other controller takes the run for an old one.
    _header: File,
    segment: u32,
    file: File,
    /// The bytes of the segment.
    written: u64,
    /// The bytes of all earlier files of this run.
    earlier: u64,
    scratch: Vec<u8>,
}

/// The reason why nothing more can be written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WriteStop {
    #[error("all recordings together reach the limit of {0} bytes (--record-limit), and this is the only one")]
    Limit(u64),
    #[error("{0}")]
    Io(#[from] io::Error),
}

impl Header {
    /// Creates the header of a run that began at this time.
    pub fn new(began: SystemTime, shards: usize, compiler: &str, engine: &Options) -> Header {
        let since = began.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Header {
            format: FORMAT,
            maple: env!("CARGO_PKG_VERSION").into(),
            began: since.as_nanos(),
            began_at: timestamp(began),
            shards,
            compiler: compiler.into(),
            look_up_tables: engine.look_up_tables,
            explored_leaves: engine.explored_leaves,
            open_routes: engine.open_routes,
        }
    }

    /// Returns when the clock of the run was at zero.
    pub fn began(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_nanos(u64::try_from(self.began).unwrap_or(u64::MAX))
    }

    /// Reads the header of the recording in this folder.
    ///
    /// # Errors
    /// [`RecordingError`] if there is no recording, or it is damaged, or of another format or version of Maple.
    pub fn read(folder: &Path) -> Result<Header, RecordingError> {
        let path = folder.join(HEADER);
        let bytes = match segment::read_bounded(&path, MAX_HEADER) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(RecordingError::None(folder.into())),
            Err(error) => return Err(RecordingError::io(&path, error)),
        };
        let value: serde_json::Value = serde_json::from_slice(&bytes).map_err(|error| {
            RecordingError::damaged(&path, 0, format!("it is not a header of a recording: {error}"))
        })?;
        // A header of another format may have other members.
        let format = value["format"].as_u64().and_then(|format| u32::try_from(format).ok());
        if let Some(format) = format.filter(|format| *format != FORMAT) {
            return Err(RecordingError::Format { path, format });
        }
        let header: Header = serde_json::from_value(value).map_err(|error| {
            RecordingError::damaged(&path, 0, format!("it is not a header of a recording: {error}"))
        })?;
        let this = env!("CARGO_PKG_VERSION");
        if header.maple != this {
            return Err(RecordingError::Version { path: folder.into(), recorded: header.maple, this });
        }
        Ok(header)
    }
}

/// Returns the runs in a folder of recordings, oldest first.
pub(crate) fn runs(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut runs = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.join(HEADER).is_file() {
            runs.push(path);
        }
    }
    // Their names are times.
    runs.sort();
    Ok(runs)
}

impl Files {
    /// Creates the folder of a run.
    ///
    /// # Errors
    /// [`RecordingError`] if the limit is too low, or the system refuses something.
    pub fn create(all: &Path, max_bytes: u64, header: &Header) -> Result<Files, RecordingError> {
        if max_bytes < LEAST {
            return Err(RecordingError::Limit { limit: max_bytes, least: LEAST });
        }
        std::fs::create_dir_all(all).map_err(|error| RecordingError::io(all, error))?;
        let folder = new_folder(all, header).map_err(|error| RecordingError::io(all, error))?;
        let make = || -> io::Result<(File, File)> {
            let mut about = private().open(folder.join(HEADER))?;
            about.write_all(serde_json::to_string_pretty(header)?.as_bytes())?;
            flock(&about, FlockOperation::LockExclusive)?;
            Ok((about, private().open(segment::path(&folder, 1))?))
        };
        let (about, file) = make().map_err(|error| RecordingError::io(&folder, error))?;
        let written = begin(&file).map_err(|error| RecordingError::io(&folder, error))? as u64;
        let (all, scratch) = (all.to_owned(), Vec::new());
        Ok(Files { folder, all, max_bytes, _header: about, segment: 1, file, written, earlier: 0, scratch })
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Appends a block, unless it is empty. May begin another segment, for which earlier runs may be removed. After an
    /// error of the system, the same block may be appended again.
    ///
    /// # Errors
    /// [`WriteStop::Limit`] if no room is left below the limit, [`WriteStop::Io`] if the system refuses something.
    pub fn append(&mut self, kind: u16, raw: &[u8]) -> Result<(), WriteStop> {
        if raw.is_empty() {
            return Ok(());
        }
        if self.written >= SEGMENT.min(self.max_bytes / 8) {
            self.next_segment()?;
        }
        self.check_room(raw.len())?;
        Ok(self.append_block(kind, raw)?)
    }

    /// Writes why the recording ends, as its last block. A reader notices if that is missing.
    pub fn end(mut self, why: &str) {
        // A part of a block that did not fit may be at the end.
        let cut = self.file.set_len(self.written);
        let done = cut.and_then(|()| self.append_block(kind::END, why.as_bytes())).and_then(|()| self.file.sync_data());
        if let Err(error) = done {
            tracing::error!("the end of the recording {}: {error}", self.folder.display());
        }
    }

    /// Checks that the files of the recording have not been deleted or replaced.
    pub fn check(&self) -> Result<(), &'static str> {
        let is_there = |number| segment::path(&self.folder, number).is_file();
        let found = std::fs::metadata(segment::path(&self.folder, self.segment)).and_then(|found| {
            let own = self.file.metadata()?;
            Ok((found.dev(), found.ino()) == (own.dev(), own.ino()))
        });
        if self.folder.join(HEADER).is_file() && (1..=self.segment).all(is_there) && found.unwrap_or(false) {
            Ok(())
        } else {
            Err("somebody has deleted or replaced files of it")
        }
    }

    fn append_block(&mut self, kind: u16, raw: &[u8]) -> io::Result<()> {
        self.written += append(&self.file, self.written, kind, raw, &mut self.scratch)? as u64;
        Ok(())
    }

    fn next_segment(&mut self) -> io::Result<()> {
        let earlier = size_of(&self.folder)?;
        let path = segment::path(&self.folder, self.segment + 1);
        // The file exists if its beginning could not be written the last time.
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = private().open(path)?;
        let written = begin(&file)? as u64;
        (self.earlier, self.segment, self.file, self.written) = (earlier, self.segment + 1, file, written);
        // Earlier runs change only when another controller records.
        self.check_others()
    }

    /// Removes the oldest runs while all together reach the limit.
    fn check_others(&self) -> io::Result<()> {
        let mut others: Vec<(PathBuf, u64)> = Vec::new();
        for run in runs(&self.all)?.into_iter().filter(|run| *run != self.folder) {
            let size = size_of(&run)?;
            others.push((run, size));
        }
        let mut total =
            self.earlier + SEGMENT.min(self.max_bytes / 8) + others.iter().map(|(_, size)| size).sum::<u64>();
        for (run, size) in others {
            if total + RESERVE > self.max_bytes && remove_run(&run)? {
                total -= size;
            }
        }
        Ok(())
    }

    /// Checks that there is room for a block of this many bytes, however badly they compress.
    fn check_room(&self, bytes: usize) -> Result<(), WriteStop> {
        let own = self.earlier + self.written + segment::most_bytes(bytes) + RESERVE;
        if own > self.max_bytes { Err(WriteStop::Limit(self.max_bytes)) } else { Ok(()) }
    }

    /// Makes room for the first segment, and appends `start` to it.
    pub fn begin(&mut self, start: &[u8]) -> io::Result<()> {
        self.earlier = size_of(&self.folder)?.saturating_sub(self.written);
        self.check_others()?;
        self.append_block(kind::START, start)
    }
}

/// Returns options that create files which only their owner can read.
fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    options
}

/// Creates a folder with the time in its name.
fn new_folder(all: &Path, header: &Header) -> io::Result<PathBuf> {
    let time = header.began_at.replace(':', "-");
    for number in 1.. {
        let name = if number == 1 { time.clone() } else { format!("{time}-{number}") };
        let folder = all.join(name);
        match DirBuilder::new().mode(0o700).create(&folder) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < 1000 => {}
            done => return done.map(|()| folder),
        }
    }
    Err(io::Error::other("all names are taken"))
}

/// Removes the files of a run, unless a controller is recording it. Returns whether they were removed. Other files
/// stay.
fn remove_run(run: &Path) -> io::Result<bool> {
    let header = File::open(run.join(HEADER))?;
    if flock(&header, FlockOperation::NonBlockingLockExclusive).is_err() {
        return Ok(false);
    }
    for entry in std::fs::read_dir(run)? {
        let (entry, is_policy) = entry.map(|entry| {
            let is_policy = entry.file_name().to_string_lossy().starts_with("policy-");
            (entry, is_policy)
        })?;
        let path = entry.path();
        if is_policy && entry.file_type()?.is_dir() {
            std::fs::remove_dir_all(path)?;
        } else if path.extension().is_some_and(|suffix| suffix == "segment") {
            std::fs::remove_file(path)?;
        }
    }
    std::fs::remove_file(run.join(HEADER))?;
    // If something else is in the folder, it stays.
    let _ = std::fs::remove_dir(run);
    Ok(true)
}

/// Describes the source of a policy for the recording. Fails if the policy's files are too large.
pub(crate) fn recorded(number: u64, source: &PolicySource) -> Result<RecordedSource, RecordingError> {
    let (name, files) = match source {
        PolicySource::Builtin(name) => return Ok(RecordedSource::Builtin { name: name.clone() }),
        PolicySource::Program => return Ok(RecordedSource::Program),
        PolicySource::Files { name, files } => (name, files),
    };
    if files.iter().map(|(_, content)| content.len() as u64).sum::<u64>() > MAX_BYTES {
        return Err(RecordingError::Policy(name.clone()));
    }
    Ok(RecordedSource::Files { folder: policy_folder(number), name: name.clone(), hash: hash(files) })
}

fn policy_folder(number: u64) -> String {
    format!("policy-{number}")
}

/// Copies the files of a policy into a folder of the recording. A copy that failed may be tried again.
pub(crate) fn copy(folder: &Path, number: u64, source: &PolicySource) -> io::Result<()> {
    let PolicySource::Files { files, .. } = source else { return Ok(()) };
    let to = folder.join(policy_folder(number));
    match std::fs::remove_dir_all(&to) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    DirBuilder::new().mode(0o700).create(&to)?;
    for (path, content) in files {
        private().open(to.join(path))?.write_all(content)?;
    }
    Ok(())
}

fn hash(files: &[(PathBuf, Vec<u8>)]) -> String {
    let mut files: Vec<&(PathBuf, Vec<u8>)> = files.iter().collect();
    files.sort();
    let parts = files.iter().flat_map(|(path, content)| [path.as_os_str().as_encoded_bytes(), content.as_slice()]);
    Fingerprint::from_parts(parts).to_string()
}

/// Returns the fingerprint of the files of a policy in this folder; `None` if they are too many bytes. Folders in it,
/// such as Python's for files that it has compiled, do not count.
pub(crate) fn hash_of(folder: &Path) -> io::Result<Option<String>> {
    let (mut files, mut left) = (Vec::new(), MAX_BYTES);
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            let Ok(content) = segment::read_bounded(&entry.path(), left) else { return Ok(None) };
            left -= content.len() as u64;
            files.push((PathBuf::from(entry.file_name()), content));
        }
    }
    Ok(Some(hash(&files)))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt as _;

    use super::*;

    fn header() -> Header {
        Header::new(SystemTime::UNIX_EPOCH, 2, "maple", &Options::default())
    }

    /// Makes bytes that can't be compressed.
    fn noise(count: usize) -> Vec<u8> {
        let next = |state: &mut u64| {
            *state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            Some((*state >> 33) as u8)
        };
        std::iter::successors(Some(1u64), |state| Some(state.wrapping_mul(6364136223846793005).wrapping_add(1)))
            .map(|mut state| next(&mut state).unwrap_or_default())
            .take(count)
            .collect()
    }

    #[test]
    fn blocks_are_read_as_they_were_written_until_any_byte_where_the_file_ends() {
        let all = tempfile::tempdir().expect("a folder");
        let mut files = Files::create(all.path(), LEAST, &header()).expect("a folder");
        let blocks = [noise(300), b"text".repeat(50), noise(2)];
        for (number, block) in blocks.iter().enumerate() {
            files.append(number as u16, block).expect("there is room");
        }
        let folder = files.folder().to_owned();
        drop(files);
        let path = segment::path(&folder, 1);
        let whole = std::fs::read(&path).expect("it was written");
        let mut ends = Vec::new();
        for end in 0..=whole.len() {
            std::fs::write(&path, &whole[..end]).expect("it can be written");
            let (index, _) = segment::index(&folder).expect("what is there is whole");
            let mut reader = segment::BlockReader::new(&folder);
            for (number, block) in index.iter().enumerate() {
                assert_eq!(reader.read(block).expect("it is whole"), blocks[number], "of {end} bytes");
            }
            ends.push(index.len());
        }
        assert!(ends.is_sorted() && ends.last() == Some(&3) && ends[whole.len() - 1] == 2);
    }

    #[test]
    fn a_byte_that_changed_is_found() {
        let all = tempfile::tempdir().expect("a folder");
        let mut files = Files::create(all.path(), LEAST, &header()).expect("a folder");
        files.append(0, &noise(100)).expect("there is room");
        let folder = files.folder().to_owned();
        drop(files);
        let path = segment::path(&folder, 1);
        let whole = std::fs::read(&path).expect("it was written");
        for at in 0..whole.len() {
            let mut other = whole.clone();
            other[at] ^= 1;
            std::fs::write(&path, &other).expect("it can be written");
            let read = segment::index(&folder).and_then(|(index, is_torn)| {
                let mut reader = segment::BlockReader::new(&folder);
                let read = index.iter().map(|block| reader.read(block).map(drop)).collect::<Result<Vec<_>, _>>()?;
                Ok((read.len(), is_torn))
            });
            assert!(matches!(read, Err(_) | Ok((0, true))), "byte {at}: {read:?}");
        }
    }

    #[test]
    fn the_oldest_run_goes_when_all_reach_the_limit_and_a_run_of_its_own_ends() {
        let all = tempfile::tempdir().expect("a folder");
        let mut first = Files::create(all.path(), LEAST, &header()).expect("a folder");
        (0..6).for_each(|_| first.append(0, &noise(100_000)).expect("there is room"));
        let earlier = first.folder().to_owned();
        let mut second = Files::create(all.path(), LEAST, &header()).expect("another folder");
        (0..3).for_each(|_| second.append(0, &noise(100_000)).expect("there is room"));
        assert!(earlier.exists(), "it is being recorded");
        first.end("it is over");
        let mut full = None;
        for _ in 0..20 {
            if let Err(error) = second.append(0, &noise(100_000)) {
                full = Some(error);
                break;
            }
        }
        assert!(!earlier.exists(), "it was the oldest");
        assert!(matches!(full, Some(WriteStop::Limit(LEAST))), "{full:?}");
        second.end("the limit");
        assert!(size_of(all.path()).expect("it is there") <= LEAST);
    }

    #[test]
    fn a_part_of_a_block_that_did_not_fit_is_written_over() {
        let all = tempfile::tempdir().expect("a folder");
        let mut files = Files::create(all.path(), LEAST, &header()).expect("a folder");
        files.append(0, &noise(300)).expect("there is room");
        // A full disk may leave this of the next block.
        files.file.write_all_at(&noise(900)[100..], files.written).expect("it can be written");
        let folder = files.folder().to_owned();
        files.append(1, &noise(40)).expect("there is room");
        files.end("it is over");
        let (index, is_torn) = segment::index(&folder).expect("it can be read");
        let mut reader = segment::BlockReader::new(&folder);
        let blocks: Vec<Vec<u8>> = index.iter().map(|block| reader.read(block).expect("it is whole")).collect();
        assert_eq!(blocks, [noise(300), noise(40), b"it is over".to_vec()]);
        assert!(!is_torn);
    }

    #[test]
    fn a_segment_that_could_not_be_begun_is_begun_again() {
        let all = tempfile::tempdir().expect("a folder");
        let mut files = Files::create(all.path(), LEAST, &header()).expect("a folder");
        let folder = files.folder().to_owned();
        // A folder is in its place, which can't be removed as a file is.
        std::fs::create_dir(segment::path(&folder, 2)).expect("a folder");
        let mut numbers = 0..;
        let failed = numbers.find(|_| files.append(0, &noise(30_000)).is_err()).expect("some day it needs a segment");
        assert!(matches!(files.append(0, &noise(30_000)), Err(WriteStop::Io(_))));
        std::fs::remove_dir(segment::path(&folder, 2)).expect("it is there");
        // The file looks so if there was no room for its beginning.
        std::fs::write(segment::path(&folder, 2), "MAP").expect("it can be written");
        files.append(0, &noise(30_000)).expect("there is room");
        assert_eq!(segment::index(&folder).expect("it can be read").0.len(), failed + 1, "no block is there twice");
        files.check().expect("all is there");
        std::fs::remove_file(segment::path(&folder, 1)).expect("it is there");
        files.check().expect_err("a segment is missing");
    }

    #[test]
    fn another_format_or_version_is_refused_with_both_numbers() {
        let all = tempfile::tempdir().expect("a folder");
        let files = Files::create(all.path(), LEAST, &header()).expect("a folder");
        let folder = files.folder().to_owned();
        drop(files);
        assert_eq!(Header::read(&folder).expect("it is ours"), header());
        let write = |header: &Header| {
            let text = serde_json::to_string(header).expect("it is JSON");
            std::fs::write(folder.join(HEADER), text).expect("it can be written");
            Header::read(&folder).expect_err("it is another's").to_string()
        };
        let error = write(&Header { maple: "0.0.9".into(), ..header() });
        assert!(error.contains("recorded by Maple 0.0.9") && error.contains(env!("CARGO_PKG_VERSION")), "{error}");
        let error = write(&Header { format: 5, ..header() });
        let path = folder.join(HEADER);
        let reported = format!("{} has format 5, and this version of Maple reads format 6", path.display());
        assert_eq!(error, reported, "the one before");
        let error = write(&Header { format: 9, ..header() });
        assert!(error.contains("has format 9, and this version of Maple reads format 6"), "{error}");
        assert!(Header::read(all.path()).expect_err("no run").to_string().contains("has no recording"));
    }

    #[test]
    fn files_of_a_policy_are_copied_for_their_owner_only() {
        use std::os::unix::fs::PermissionsExt as _;
        let all = tempfile::tempdir().expect("a folder");
        let files = Files::create(all.path(), LEAST, &header()).expect("a folder");
        let source =
            PolicySource::Files { name: "acl.py:strict".into(), files: vec![("acl.py".into(), b"pass".to_vec())] };
        copy(files.folder(), 3, &source).expect("it can be written");
        // The first copy may have failed in the middle.
        copy(files.folder(), 3, &source).expect("it can be written again");
        let recorded = recorded(3, &source).expect("it is not too large");
        assert!(matches!(&recorded, RecordedSource::Files { folder, name, .. }
            if folder == "policy-3" && name == "acl.py:strict"));
        let copy = files.folder().join("policy-3/acl.py");
        assert_eq!(std::fs::read(&copy).expect("it was copied"), b"pass");
        assert_eq!(std::fs::metadata(copy).expect("it is there").permissions().mode() & 0o777, 0o600);
    }
}
