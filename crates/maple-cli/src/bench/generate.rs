//! `maple bench generate` and `maple bench statistics`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use maple_bench::generate::{self, Files, Style};
use maple_bench::report::Progress;
use maple_bench::{FilterSet, Statistics, TracedHeader, statistics};

use super::Output;
use crate::say;

/// `maple bench generate`.
#[derive(Debug, Args)]
pub struct GenerateArgs {
    /// acl, fw or ipc
    style: Style,
    /// How many filters to make; fewer where the style's networks have no more
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    filters: u32,
    /// Decides everything else
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Folder for NAME.rules, NAME.trace and long/NAME.trace.gz
    #[arg(long, value_name = "DIR", default_value = ".")]
    out: PathBuf,
}

/// `maple bench statistics`.
#[derive(Debug, Args)]
pub struct StatisticsArgs {
    /// Filter files, or folders with such files; a trace beside a filter file says what share of the filters it triggers
    #[arg(required = true)]
    sets: Vec<PathBuf>,
    #[command(flatten)]
    output: Output,
}

/// Makes a set with a trace of one header a filter, and a long one of ten with bursts.
pub fn main(args: GenerateArgs) -> anyhow::Result<u8> {
    let progress = Progress::new(3);
    progress.say("filters");
    let set = generate::filter_set(args.style, args.filters as usize, args.seed);
    progress.step();
    progress.say("traces");
    let trace = generate::trace(&set, set.filters.len(), 0.0, args.seed);
    let long = generate::trace(&set, 10 * set.filters.len(), 0.1, args.seed.wrapping_add(100));
    progress.step();
    let files = Files::of(&args.out, &set.name);
    files.write(&set, &trace, &long)?;
    drop(progress);
    for (path, lines) in [(files.rules, set.filters.len()), (files.trace, trace.len()), (files.long, long.len())] {
        say(format_args!("{}: {lines} lines", path.display()));
    }
    Ok(0)
}

/// Prints figures of filter sets.
pub fn statistics(args: StatisticsArgs) -> anyhow::Result<u8> {
    let mut paths = Vec::new();
    for path in &args.sets {
        if path.is_dir() { paths.extend(filter_files(path)?) } else { paths.push(path.clone()) }
    }
    let progress = Progress::new(paths.len() as u64);
    let (mut sets, mut figures) = (Vec::new(), Vec::new());
    for path in paths {
        progress.say(path.display().to_string());
        let set = FilterSet::read(&path)?;
        let trace = path.with_extension("trace");
        let trace = if trace.exists() { Some(TracedHeader::read(&trace)?) } else { None };
        figures.push(Statistics::of(&set, trace.as_deref()));
        sets.push(set);
        progress.step();
    }
    drop(progress);
    args.output.tell(&figures, &statistics::table(&figures), &[statistics::chart(&sets)])?;
    Ok(0)
}

/// The filter files in a folder, by name.
fn filter_files(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let mut found: Vec<PathBuf> = entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
    found.retain(|path| path.extension().is_some_and(|extension| extension == "rules"));
    found.sort();
    anyhow::ensure!(!found.is_empty(), "{}: there are no .rules files", folder.display());
    Ok(found)
}
