//! Reads input files, plain or compressed, with errors that name file and line.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;

/// The reason why an input file is invalid.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    /// The file can't be read, or is not text.
    #[error("{}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A line violates the format.
    #[error("{}:{line}: {what}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The mistake.
        what: String,
    },
    /// The file has no lines.
    #[error("{}: the file is empty", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
}

/// Parses the lines of a file with `parse`, except empty ones. Decompresses a file whose name ends in `.gz`.
pub(crate) fn read_lines<T>(path: &Path, parse: impl Fn(&str) -> Result<T, String>) -> Result<Vec<T>, InputError> {
    let unreadable = |source| InputError::Unreadable { path: path.to_path_buf(), source };
    let mut parsed = Vec::new();
    for (number, line) in open(path).map_err(unreadable)?.lines().enumerate() {
        let line = line.map_err(unreadable)?;
        if line.trim().is_empty() {
            continue;
        }
        let malformed = |what| InputError::Malformed { path: path.to_path_buf(), line: number + 1, what };
        parsed.push(parse(&line).map_err(malformed)?);
    }
    if parsed.is_empty() {
        return Err(InputError::Empty { path: path.to_path_buf() });
    }
    Ok(parsed)
}

fn open(path: &Path) -> io::Result<BufReader<Box<dyn Read>>> {
    let file = File::open(path)?;
    let packed = path.extension().is_some_and(|extension| extension == "gz");
    Ok(BufReader::new(if packed { Box::new(MultiGzDecoder::new(file)) } else { Box::new(file) }))
}
