//! A recording that can be read.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use maple_core::engine::Time;

use crate::storage::format::{Damaged, Reader, read_all};
use crate::storage::record::segment::{self, Block, BlockReader, kind};
use crate::storage::record::{
    Header, RecordedSource, RecordingError, RecordingStart, SourceRecord, hash_of, is_inside, runs, timestamp_of,
};

/// A recording of a run.
#[derive(Debug)]
pub struct Recorded {
    folder: PathBuf,
    header: Header,
    pub(super) start: RecordingStart,
    blocks: Vec<Block>,
    is_torn: bool,
    end: Option<String>,
    sources: BTreeMap<u64, RecordedSource>,
    pub(super) candidates: BTreeMap<u64, u64>,
}

impl Recorded {
    /// Opens a recording: the one in this folder, or the newest one of those in it.
    ///
    /// # Errors
    /// [`RecordingError`] if there is none, or if it is damaged, or another version's.
    pub fn open(path: &Path) -> Result<Recorded, RecordingError> {
        let newest = || runs(path).ok().and_then(|mut runs| runs.pop());
        let folder = if path.join("header.json").exists() { path.to_owned() } else { newest().unwrap_or(path.into()) };
        let header = Header::read(&folder)?;
        let (blocks, is_torn) = segment::index(&folder)?;
        let mut reader = BlockReader::new(&folder);
        let (mut start, mut end) = (None, None);
        let (mut sources, mut candidates) = (BTreeMap::new(), BTreeMap::new());
        let damaged = |Damaged(why): Damaged| RecordingError::damaged(&folder, 0, why);
        for block in &blocks {
            match block.kind {
                kind::START => {
                    let bytes = reader.read(block)?;
                    start = Some(Reader::new(&bytes).take::<RecordingStart>().map_err(damaged)?);
                }
                kind::END => end = Some(String::from_utf8_lossy(&reader.read(block)?).into_owned()),
                kind::SOURCES => {
                    for record in read_all(&reader.read(block)?).map_err(damaged)? {
                        match record {
                            SourceRecord::Source { number, source } => drop(sources.insert(number, source)),
                            SourceRecord::Candidate { candidate, number } => drop(candidates.insert(candidate, number)),
                        }
                    }
                }
                _ => {}
            }
        }
        let mut start = start.ok_or_else(|| RecordingError::damaged(&folder, 0, "it has no beginning"))?;
        start.options.look_up_tables = header.look_up_tables;
        start.options.explored_leaves = header.explored_leaves;
        start.options.open_routes = header.open_routes;
        Ok(Recorded { folder, header, start, blocks, is_torn, end, sources, candidates })
    }

    /// Returns the folder of the recording.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the number of shards.
    pub fn shards(&self) -> usize {
        self.header.shards
    }

    /// Returns the name of the compiler.
    pub fn compiler(&self) -> &str {
        &self.header.compiler
    }

    /// Returns when the clock of the run was at zero.
    pub fn began(&self) -> SystemTime {
        self.header.began()
    }

    /// Formats a time of the run.
    pub fn timestamp(&self, at: Time) -> String {
        timestamp_of(self.began(), at)
    }

    /// Returns why the recording ended. `None` if it was cut off.
    pub fn end(&self) -> Option<&str> {
        self.end.as_deref()
    }

    /// Reports whether something at its end is not whole.
    pub fn is_torn(&self) -> bool {
        self.is_torn
    }

    /// Returns the sources of policies, by number. Number 0 ran first.
    pub fn sources(&self) -> &BTreeMap<u64, RecordedSource> {
        &self.sources
    }

    /// Returns the file of a policy, and the policy's name in it if it has one: `policy-0/acl.py:strict`. `None` if the
    /// policy does not come from a file.
    pub fn policy_path(&self, source: &RecordedSource) -> Option<String> {
        let RecordedSource::Files { folder, name, .. } = source else { return None };
        let is_safe = is_inside(Path::new(folder)) && is_inside(Path::new(name));
        is_safe.then(|| self.folder.join(folder).join(name).display().to_string())
    }

    /// Checks that the files of a policy are those that were recorded.
    ///
    /// # Errors
    /// [`RecordingError::Damaged`] if they are not, and [`RecordingError::Io`] if they can't be read.
    pub fn check_files(&self, source: &RecordedSource) -> Result<(), RecordingError> {
        let RecordedSource::Files { folder, hash, .. } = source else { return Ok(()) };
        let path = self.folder.join(folder);
        let found = if is_inside(Path::new(folder)) { hash_of(&path) } else { Ok(None) };
        match found.map_err(|error| RecordingError::io(&path, error))? {
            Some(found) if found == *hash => Ok(()),
            _ => Err(RecordingError::damaged(&path, 0, "the files of the policy are not those that were recorded")),
        }
    }

    /// Returns the blocks of a kind, in order.
    pub(super) fn blocks(&self, kind: u16) -> Blocks {
        let blocks = self.blocks.iter().filter(|block| block.kind == kind).copied().collect::<Vec<_>>();
        Blocks { left: blocks.into_iter(), reader: BlockReader::new(&self.folder) }
    }
}

/// Blocks of one kind.
pub(super) struct Blocks {
    left: std::vec::IntoIter<Block>,
    reader: BlockReader,
}

impl Blocks {
    /// Reads the next block; `None` at the end.
    pub fn next(&mut self) -> Result<Option<Vec<u8>>, RecordingError> {
        self.left.next().map(|block| self.reader.read(&block)).transpose()
    }
}
