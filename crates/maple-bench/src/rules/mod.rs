//! `maple-bench rules`: policies that interpret filter sets (paper §6.1 and §6.3, Tables 1 and 2).
//!
//! Each header of the trace arrives at a switch, which is a list of rules. On a miss the controller searches its tree;
//! if there is no leaf, it runs f, adds the trace, and changes the switch's rules. Every answer is compared with a
//! linear search of the filters: at once, again after the trace, and while hosts and ports are invalidated. A
//! difference is an error.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};
use maple_sim::oracles::Strategy;

use crate::error::BenchError;
use crate::filters::FilterSet;
use crate::headers::TracedHeader;
use crate::input::InputError;
use crate::output::print_line;
use crate::report::Progress;

pub mod measured;
pub mod policy;
pub mod published;

pub(crate) mod play;

mod invalidation;
mod measure;
mod output;
mod speeds;

use measure::{Measurement, Task};
use measured::RulesResult;
use play::{Expected, expected};
use policy::{FilterPolicy, Language, Ranges};
use published::PUBLISHED;
use speeds::Speeds;

/// The number of rounds, in each of which every set is timed, so that a temporary slowdown does not affect all rounds
/// of a set.
const ROUNDS: u32 = 4;
/// The time of a round: a longer one makes more passes, and the benchmark takes longer.
const ROUND: Duration = Duration::from_millis(600);

/// `maple-bench rules`.
#[derive(Debug, Args)]
pub struct RulesArgs {
    /// The filter set
    #[arg(long, value_name = "F.rules", required_unless_present = "all", conflicts_with = "all")]
    pub filters: Option<PathBuf>,
    /// The trace, plain or .gz
    #[arg(long, value_name = "F.trace", required_unless_present = "all", conflicts_with = "all")]
    pub trace: Option<PathBuf>,
    /// Second trace, to count its misses [with --all: long/SET.trace.gz if it exists]
    #[arg(long, value_name = "LONG.trace", conflicts_with = "all")]
    pub then: Option<PathBuf>,
    /// Measure every set of a folder (SET.rules, SET.trace) and print the paper's Tables 1 and 2
    #[arg(long, value_name = "DIR")]
    pub all: Option<PathBuf>,
    /// Which compiler makes the rules [default: maple; with --all both]
    #[arg(long, value_enum)]
    pub compiler: Option<Compiler>,
    /// The test of the policy for a range of ports [default: auto; exact with the paper's compiler]
    #[arg(long, value_enum)]
    pub ranges: Option<Ranges>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Write plots (SVG) into this folder
    #[arg(long, value_name = "DIR")]
    pub plot: Option<PathBuf>,
}

/// A compiler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Compiler {
    /// Maple's own
    Maple,
    /// The paper's (Algorithms 2 and 5, incremental)
    Paper,
}

impl Compiler {
    /// Returns the compiler's strategy.
    pub(crate) fn strategy(self) -> Strategy {
        match self {
            Compiler::Maple => Strategy::Maple,
            Compiler::Paper => Strategy::Paper,
        }
    }

    /// Returns the compiler's name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Compiler::Maple => "maple",
            Compiler::Paper => "paper",
        }
    }
}

/// A filter set with its traces.
struct Subject {
    set: FilterSet,
    trace: Vec<Expected>,
    then: Option<Vec<Expected>>,
}

/// A set whose trace was replayed under a compiler, and whose speeds are being measured.
struct Played<'a> {
    policy: Box<dyn FilterPolicy>,
    speeds: Speeds<'a>,
    /// The results; the speeds are added at the end.
    finding: Finding,
}

/// The results of a set under a compiler.
pub struct Finding {
    /// The set's name.
    pub set: String,
    /// The compiler.
    pub compiler: Compiler,
    /// The results.
    pub measured: RulesResult,
    /// The first wrong answer, if there is one.
    pub first_wrong: Option<String>,
    /// Headers for which the controller has a leaf, but the switch has no rule.
    pub unanswered: usize,
    /// The numbers of rules and of flow-mods so far, after each header of the trace.
    pub growth: Vec<(usize, usize)>,
}

/// Runs the benchmark and prints the results. Filter sets become policies in `language`.
///
/// # Errors
/// [`BenchError`] for invalid input or a wrong answer.
pub fn main(args: &RulesArgs, language: &dyn Language) -> Result<(), BenchError> {
    let findings = measure(args, language)?;
    print_line(if args.json { output::json(&findings, args.all.is_some()) } else { output::text(&findings) });
    if let Some(folder) = &args.plot {
        for path in output::plot(&findings, folder)? {
            // Standard output can be JSON.
            eprintln!("maple-bench: wrote {}", path.display());
        }
    }
    let wrong = findings.iter().find_map(|finding| Some((finding, finding.first_wrong.as_ref()?)));
    match wrong {
        Some((finding, what)) => Err(BenchError::WrongResult(format!("{}: a wrong answer: {what}", finding.set))),
        None => Ok(()),
    }
}

/// Measures the sets that the options select, one after the other, as policies in `language`.
///
/// # Errors
/// [`BenchError`] for invalid input or invalid rules. Wrong answers are counted.
pub fn measure(args: &RulesArgs, language: &dyn Language) -> Result<Vec<Finding>, BenchError> {
    let compilers = match (args.compiler, &args.all) {
        (Some(compiler), _) => vec![compiler],
        (None, Some(_)) => vec![Compiler::Maple, Compiler::Paper],
        (None, None) => vec![Compiler::Maple],
    };
    let files = match (&args.all, &args.filters, &args.trace) {
        (Some(folder), ..) => sets_in(folder)?,
        (None, Some(filters), Some(trace)) => vec![(filters.clone(), trace.clone(), args.then.clone())],
        _ => return Err(BenchError::Usage("--filters and --trace, or --all, are needed".into())),
    };
    let subjects = files.iter().map(|(filters, trace, then)| Subject::read(filters, trace, then.as_deref()));
    let subjects = subjects.collect::<Result<Vec<Subject>, _>>()?;
    let progress = Progress::new((files.len() * compilers.len()) as u64 * (1 + u64::from(ROUNDS)));
    let mut played = Vec::new();
    for subject in &subjects {
        for compiler in &compilers {
            played.push(subject.play(*compiler, args, language, &progress)?);
            progress.step();
        }
    }
    for round in 1..=ROUNDS {
        for played in &mut played {
            progress.set_message(format!("{}: speeds, round {round} of {ROUNDS}", played.finding.set));
            played.speeds.passes_until(ROUND * round, &mut *played.policy)?;
            progress.step();
        }
    }
    Ok(played.into_iter().map(Played::finish).collect())
}

/// Returns the sets of a folder: the paper's in its order, then others by name.
pub(crate) fn sets_in(folder: &Path) -> Result<Vec<(PathBuf, PathBuf, Option<PathBuf>)>, BenchError> {
    let unreadable = |source| InputError::Unreadable { path: folder.to_path_buf(), source };
    let mut sets = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.extension().is_some_and(|extension| extension == "rules") {
            sets.push(path);
        }
    }
    if sets.is_empty() {
        return Err(BenchError::Usage(format!("{}: there is no .rules file", folder.display())));
    }
    let place = |path: &PathBuf| {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        (PUBLISHED.iter().position(|row| row.set == name).unwrap_or(PUBLISHED.len()), name)
    };
    sets.sort_by_key(place);
    let with_traces = |path: PathBuf| {
        let (_, name) = place(&path);
        let long = folder.join("long").join(format!("{name}.trace.gz"));
        (path.clone(), path.with_extension("trace"), long.exists().then_some(long))
    };
    Ok(sets.into_iter().map(with_traces).collect())
}

impl Subject {
    fn read(filters: &Path, trace: &Path, then: Option<&Path>) -> Result<Subject, BenchError> {
        let set = FilterSet::read(filters)?;
        let headers = |path: &Path| -> Result<Vec<Expected>, BenchError> {
            Ok(expected(&set, TracedHeader::read(path)?.into_iter().map(|line| line.header)))
        };
        let (trace, then) = (headers(trace)?, then.map(headers).transpose()?);
        Ok(Subject { set, trace, then })
    }

    fn play(
        &self,
        compiler: Compiler,
        args: &RulesArgs,
        language: &dyn Language,
        progress: &Progress,
    ) -> Result<Played<'_>, BenchError> {
        let strategy = compiler.strategy();
        let usual = match compiler {
            Compiler::Maple => Ranges::Auto,
            Compiler::Paper => Ranges::Exact,
        };
        let ranges = args.ranges.unwrap_or(usual);
        let mut policy = language.filter_policy(&self.set, ranges).map_err(BenchError::Policy)?;
        let then = self.then.as_deref();
        let task = Task { set: &self.set, trace: &self.trace, then, strategy };
        let Measurement { measured, learned, growth, first_wrong, unanswered } = task.run(&mut *policy, progress)?;
        let finding = Finding { set: self.set.name.clone(), compiler, measured, first_wrong, unanswered, growth };
        Ok(Played { policy, speeds: Speeds::new(strategy, &self.trace, learned), finding })
    }
}

impl Played<'_> {
    fn finish(mut self) -> Finding {
        self.speeds.write_into(&mut self.finding.measured);
        self.finding
    }
}
