//! The files of a recording: blocks of records, each compressed, with its length and checksum before it.
//!
//! A segment begins with [`MAGIC`] and the format. A block has a kind (the shard, or one of [`kind`]), the length of
//! its bytes in the file and uncompressed, and a CRC-32 of all that. A block that a crash has cut off is left out, and
//! those before it are whole. A block that is complete never changes, because nothing is written twice.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use super::RecordingError;

/// The first bytes of a segment. They distinguish a recording from any other file.
const MAGIC: &[u8; 8] = b"MAPLEREC";
/// The format of a recording's files. Another one is refused. It grows with each change of what a block holds
/// (docs/compatibility.md).
pub(crate) const FORMAT: u32 = 6;
/// The number of bytes of magic and format: 8 and 4.
const START: usize = 12;
/// The number of bytes before a block's contents: 2 for the kind, 4 for each of the lengths in the file and
/// uncompressed, 4 for the checksum.
const HEADER: usize = 14;
/// The maximum size of a block, uncompressed, in bytes. A larger length in a file means damage, and is not allocated.
/// Chosen: it is in memory once for each shard while the disk is slow.
pub(crate) const MAX_BLOCK: usize = 64 << 20;

/// The kinds of blocks that do not belong to a shard.
pub(crate) mod kind {
    /// The options and the state with which engines began.
    pub const START: u16 = 0x100;
    /// Changes of the store that engines did not make.
    pub const OUTSIDE: u16 = 0x101;
    /// The sources of policies.
    pub const SOURCES: u16 = 0x102;
    /// The reason why the recording ended.
    pub const END: u16 = 0x103;
}

/// Returns the path of a segment. Numbers begin at 1.
pub(crate) fn path(folder: &Path, number: u32) -> PathBuf {
    folder.join(format!("{number:08}.segment"))
}

/// The place of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    pub kind: u16,
    segment: u32,
    offset: u64,
    length: u32,
    raw: u32,
    checksum: u32,
}

/// Writes the beginning of a segment. Returns the bytes that it takes.
pub(crate) fn begin(file: &File) -> io::Result<usize> {
    let mut start = MAGIC.to_vec();
    start.extend_from_slice(&FORMAT.to_be_bytes());
    file.write_all_at(&start, 0)?;
    Ok(START)
}

/// Returns the maximum number of bytes that a block of `raw` bytes takes.
pub(crate) fn most_bytes(raw: usize) -> u64 {
    (HEADER + lz4_flex::block::get_maximum_output_size(raw)) as u64
}

/// Writes a block at the end, which is `at`. Returns the bytes that it takes. `scratch` only lends its memory. If
/// writing fails, a part of the block may be there, and the next one takes its place.
pub(crate) fn append(file: &File, at: u64, kind: u16, raw: &[u8], scratch: &mut Vec<u8>) -> io::Result<usize> {
    let longest = lz4_flex::block::get_maximum_output_size(raw.len());
    scratch.clear();
    scratch.resize(HEADER + longest, 0);
    let written = lz4_flex::block::compress_into(raw, &mut scratch[HEADER..]).map_err(io::Error::other)?;
    scratch.truncate(HEADER + written);
    let sizes = [written, raw.len()].map(|size| u32::try_from(size).map_err(io::Error::other));
    let [length, size] = sizes;
    scratch[0..2].copy_from_slice(&kind.to_be_bytes());
    scratch[2..6].copy_from_slice(&length?.to_be_bytes());
    scratch[6..10].copy_from_slice(&size?.to_be_bytes());
    let checksum = checksum(&scratch[..10], &scratch[HEADER..]);
    scratch[10..HEADER].copy_from_slice(&checksum.to_be_bytes());
    file.write_all_at(scratch, at)?;
    Ok(scratch.len())
}

fn checksum(header: &[u8], contents: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(header);
    hasher.update(contents);
    hasher.finalize()
}

/// Returns the whole blocks of all segments, in order, and whether something after them was cut off.
///
/// # Errors
/// [`RecordingError`] if a segment can't be read, or is not one of this format.
pub(crate) fn index(folder: &Path) -> Result<(Vec<Block>, bool), RecordingError> {
    let mut blocks = Vec::new();
    for number in 1.. {
        let path = path(folder, number);
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((blocks, false)),
            Err(error) => return Err(RecordingError::io(&path, error)),
        };
        let is_whole = index_one(&file, number, &mut blocks).map_err(|error| match error {
            Failure::Io(error) => RecordingError::io(&path, error),
            Failure::Format(format) => RecordingError::Format { path: path.clone(), format },
            Failure::Other => RecordingError::damaged(&path, 0, "it is not a segment of a recording"),
        })?;
        if !is_whole {
            return Ok((blocks, true));
        }
    }
    Ok((blocks, false))
}

enum Failure {
    Io(io::Error),
    Format(u32),
    Other,
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::Io(error)
    }
}

/// Adds the whole blocks of a segment. Returns whether the segment holds nothing else.
fn index_one(file: &File, segment: u32, blocks: &mut Vec<Block>) -> Result<bool, Failure> {
    let end = file.metadata()?.len();
    let mut start = [0; START];
    if end < START as u64 {
        return Ok(false);
    }
    file.read_exact_at(&mut start, 0)?;
    let (magic, format) = start.split_at(MAGIC.len());
    if magic != MAGIC {
        return Err(Failure::Other);
    }
    let format = u32::from_be_bytes([format[0], format[1], format[2], format[3]]);
    if format != FORMAT {
        return Err(Failure::Format(format));
    }
    let mut at = START as u64;
    let mut header = [0; HEADER];
    while at < end {
        if end - at < HEADER as u64 {
            return Ok(false);
        }
        file.read_exact_at(&mut header, at)?;
        let number = |from: usize| u32::from_be_bytes([0, 1, 2, 3].map(|n| header[from + n]));
        let (kind, length, raw, checksum) =
            (u16::from_be_bytes([header[0], header[1]]), number(2), number(6), number(10));
        let offset = at + HEADER as u64;
        if end - offset < u64::from(length) {
            return Ok(false);
        }
        blocks.push(Block { kind, segment, offset, length, raw, checksum });
        at = offset + u64::from(length);
    }
    Ok(true)
}

/// Reads blocks. Keeps the file of the last one open.
#[derive(Debug)]
pub(crate) struct BlockReader {
    folder: PathBuf,
    open: Option<(u32, File)>,
    compressed: Vec<u8>,
}

impl BlockReader {
    pub fn new(folder: &Path) -> BlockReader {
        BlockReader { folder: folder.to_owned(), open: None, compressed: Vec::new() }
    }

    /// Reads a block's bytes, uncompressed.
    ///
    /// # Errors
    /// [`RecordingError`] if the block can't be read, or is not as it was written.
    pub fn read(&mut self, block: &Block) -> Result<Vec<u8>, RecordingError> {
        let path = path(&self.folder, block.segment);
        let damaged = |why| RecordingError::damaged(&path, block.offset, why);
        if block.raw as usize > MAX_BLOCK {
            return Err(damaged("a block is too large"));
        }
        if self.open.as_ref().is_none_or(|(segment, _)| *segment != block.segment) {
            let file = File::open(&path).map_err(|error| RecordingError::io(&path, error))?;
            self.open = Some((block.segment, file));
        }
        let Some((_, file)) = &self.open else { return Err(damaged("it can't be opened")) };
        self.compressed.resize(block.length as usize, 0);
        let read = file.read_exact_at(&mut self.compressed, block.offset);
        read.map_err(|error| RecordingError::io(&path, error))?;
        let mut header = [0; 10];
        header[0..2].copy_from_slice(&block.kind.to_be_bytes());
        header[2..6].copy_from_slice(&block.length.to_be_bytes());
        header[6..10].copy_from_slice(&block.raw.to_be_bytes());
        if checksum(&header, &self.compressed) != block.checksum {
            return Err(damaged("its checksum is wrong"));
        }
        let raw = lz4_flex::block::decompress(&self.compressed, block.raw as usize);
        let raw = raw.map_err(|_| damaged("it can't be decompressed"))?;
        if raw.len() != block.raw as usize {
            return Err(damaged("its length is wrong"));
        }
        Ok(raw)
    }
}

/// Returns the number of bytes of all files in a folder and below it.
pub(crate) fn size_of(folder: &Path) -> io::Result<u64> {
    let mut sum = 0;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let about = entry.metadata()?;
        sum += if about.is_dir() { size_of(&entry.path())? } else { about.len() };
    }
    Ok(sum)
}

/// Reads a whole file, unless it is larger than `most` bytes.
pub(crate) fn read_bounded(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(io::Error::other(format!("it has more than {most} bytes")));
    }
    Ok(bytes)
}
