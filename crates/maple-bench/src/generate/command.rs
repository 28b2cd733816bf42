//! `maple-bench generate` and `maple-bench statistics`.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;

use super::{Files, Style, filter_set, trace};
use crate::error::BenchError;
use crate::filters::FilterSet;
use crate::headers::TracedHeader;
use crate::input::InputError;
use crate::output::{Output, print_line};
use crate::report::Progress;
use crate::statistics::{self, Statistics};

/// `maple-bench generate`.
#[derive(Debug, Args)]
pub struct GenerateArgs {
    /// acl, fw or ipc
    pub style: Style,
    /// Number of filters; fewer if the style's networks have no more
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub filters: u32,
    /// Decides everything else
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Folder for NAME.rules, NAME.trace and long/NAME.trace.gz
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub out: PathBuf,
}

/// `maple-bench statistics`.
#[derive(Debug, Args)]
pub struct StatisticsArgs {
    /// Filter files, or folders with such files; a trace beside a filter file says what share of the filters it
    /// triggers
    #[arg(required = true)]
    pub sets: Vec<PathBuf>,
    /// The form of the output.
    #[command(flatten)]
    pub output: Output,
}

/// Generates a set with a trace of one header for each filter, and a long trace of ten with bursts.
pub(crate) fn generate(args: &GenerateArgs) -> Result<(), BenchError> {
    let progress = Progress::new(2);
    progress.set_message("filters");
    let set = filter_set(args.style, args.filters as usize, args.seed);
    progress.step();
    progress.set_message("traces");
    let short = trace(&set, set.filters.len(), 0.0, args.seed);
    let long = trace(&set, 10 * set.filters.len(), 0.1, args.seed.wrapping_add(100));
    let files = Files::in_folder(&args.out, &set.name);
    files.write(&set, &short, &long)?;
    drop(progress);
    for (path, lines) in [(files.rules, set.filters.len()), (files.trace, short.len()), (files.long, long.len())] {
        print_line(format_args!("{}: {lines} lines", path.display()));
    }
    Ok(())
}

/// Prints statistics of filter sets.
pub(crate) fn statistics(args: &StatisticsArgs) -> Result<(), BenchError> {
    let mut paths = Vec::new();
    for path in &args.sets {
        if path.is_dir() { paths.extend(filter_files(path)?) } else { paths.push(path.clone()) }
    }
    let progress = Progress::new(paths.len() as u64);
    let (mut sets, mut figures) = (Vec::new(), Vec::new());
    for path in paths {
        progress.set_message(path.display().to_string());
        let set = FilterSet::read(&path)?;
        let trace = path.with_extension("trace");
        let trace = if trace.exists() { Some(TracedHeader::read(&trace)?) } else { None };
        figures.push(Statistics::from_filters(&set, trace.as_deref()));
        sets.push(set);
        progress.step();
    }
    drop(progress);
    args.output.print(&figures, || statistics::table(&figures).to_string(), || vec![statistics::chart(&sets)])
}

/// Returns the filter files in a folder, by name.
fn filter_files(folder: &Path) -> Result<Vec<PathBuf>, BenchError> {
    let unreadable = |source| InputError::Unreadable { path: folder.to_path_buf(), source };
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        found.push(entry.map_err(unreadable)?.path());
    }
    found.retain(|path| path.extension().is_some_and(|extension| extension == "rules"));
    found.sort();
    if found.is_empty() {
        return Err(BenchError::Usage(format!("{}: there is no .rules file", folder.display())));
    }
    Ok(found)
}
