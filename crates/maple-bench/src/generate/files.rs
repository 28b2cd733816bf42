//! Writes generated filter sets and traces in the layout of ClassBench.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::error::BenchError;
use crate::filters::FilterSet;
use crate::headers::TracedHeader;

/// The files of a set: `NAME.rules`, `NAME.trace`, `long/NAME.trace.gz`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    /// The filters.
    pub rules: PathBuf,
    /// The trace with one header for each filter.
    pub trace: PathBuf,
    /// The long trace, compressed.
    pub long: PathBuf,
}

impl Files {
    /// Returns the paths of the set called `name` in a folder.
    pub fn in_folder(folder: &Path, name: &str) -> Files {
        Files {
            rules: folder.join(format!("{name}.rules")),
            trace: folder.join(format!("{name}.trace")),
            long: folder.join("long").join(format!("{name}.trace.gz")),
        }
    }

    /// Writes a set and its traces, and creates missing folders.
    ///
    /// # Errors
    /// [`BenchError::Write`] if a file can't be written.
    pub fn write(&self, set: &FilterSet, trace: &[TracedHeader], long: &[TracedHeader]) -> Result<(), BenchError> {
        write(&self.rules, |file| set.filters.iter().try_for_each(|filter| writeln!(file, "{filter}")))?;
        write(&self.trace, |file| headers(file, set, trace))?;
        write(&self.long, |file| {
            let mut packed = GzEncoder::new(file, Compression::default());
            headers(&mut packed, set, long)?;
            packed.finish()?.flush()
        })
    }
}

fn headers(file: &mut dyn Write, set: &FilterSet, trace: &[TracedHeader]) -> io::Result<()> {
    trace.iter().try_for_each(|traced| writeln!(file, "{}", traced.line(set.filters[traced.made_from as usize].flags)))
}

fn write(path: &Path, content: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), BenchError> {
    let written = || {
        path.parent().map_or(Ok(()), fs::create_dir_all)?;
        let mut file = BufWriter::new(File::create(path)?);
        content(&mut file)?;
        file.flush()
    };
    written().map_err(|source| BenchError::Write { path: path.to_path_buf(), source })
}
