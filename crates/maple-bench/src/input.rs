//! Reading input files, plain or compressed, with errors that name file and line.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;

/// What is wrong with an input file.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    /// It can't be read, or is no text.
    #[error("{}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A line of it is not what the format says.
    #[error("{}:{line}: {what}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong.
        what: String,
    },
    /// It has no line.
    #[error("{}: the file is empty", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
}

/// What the lines of a file say, by `parse`; empty lines are passed over. A file whose name ends in `.gz` is unpacked.
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
