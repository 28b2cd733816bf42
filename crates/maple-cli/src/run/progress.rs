//! Output of events as lines, above a status line if there is a terminal.

use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use indicatif::{ProgressBar, ProgressStyle};
use maple_controller::Handle;
use maple_controller::kept_files::{KeptFile, KeptFiles};
use maple_controller::log::Level;
use maple_controller::names::Names;

use crate::logging::{self, LogFormat, Logging};
use crate::output::{is_watched, try_to_print_line};
use maple_wire::counted;

/// The path of standard output, a link to the actual file.
const OUTPUT: &str = "/proc/self/fd/1";
/// The minimum time between two checks whether the file still exists. Chosen: a check is a call of the system, and a
/// log that was rotated is noticed at once.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The output of `maple run` while it runs.
pub struct Lines {
    status: Option<ProgressBar>,
    names: Arc<Names>,
    logging: Logging,
    /// The number of the log's next line.
    next: u64,
    kept: LogFile,
}

/// The file to which standard output goes, if it is a file, and the state of writing to it.
#[derive(Default)]
struct LogFile {
    /// The receiver of reports on whether it can be written.
    files: Option<KeptFiles>,
    path: PathBuf,
    /// The number of lines that could not be written since it failed.
    lost: u64,
    looked: Option<Instant>,
}

impl LogFile {
    /// Registers the file of standard output with `files`, if it is a file.
    fn from_stdout(files: &KeptFiles) -> LogFile {
        let is_file = std::fs::metadata(OUTPUT).is_ok_and(|found| found.is_file());
        let Ok(path) = std::fs::read_link(OUTPUT) else { return LogFile::default() };
        if !is_file {
            return LogFile::default();
        }
        files.keep(KeptFile::Log, &path);
        LogFile { files: Some(files.clone()), path, lost: 0, looked: None }
    }

    /// Records whether a line was written.
    fn wrote(&mut self, done: &std::io::Result<()>) {
        let Some(files) = &self.files else { return };
        self.lost += logging::take_lost();
        match done {
            Err(error) => {
                self.lost += 1;
                files.fails(KeptFile::Log, &self.path, error.to_string());
            }
            Ok(()) if self.is_deleted() => {}
            Ok(()) => match std::mem::take(&mut self.lost) {
                0 => {}
                lost => {
                    let are = if lost == 1 { "is" } else { "are" };
                    let text = format!("; about {} {are} missing in it", counted(lost, "line"));
                    files.mended(KeptFile::Log, &text);
                }
            },
        }
    }

    /// Checks whether the file was deleted, because then nobody can read the output.
    fn look(&mut self) {
        if self.looked.is_some_and(|looked| looked.elapsed() < CHECK_INTERVAL) {
            return;
        }
        self.looked = Some(Instant::now());
        if let Some(files) = &self.files
            && self.is_deleted()
        {
            files.fails(KeptFile::Log, &self.path, "it was deleted, and only a restart makes another one");
        }
    }

    fn is_deleted(&self) -> bool {
        std::fs::metadata(OUTPUT).is_ok_and(|found| found.nlink() == 0)
    }
}

impl Lines {
    /// Creates plain output, with these names of switches and hosts.
    pub fn new(names: Arc<Names>, logging: Logging) -> Lines {
        Lines { status: None, names, logging, next: 0, kept: LogFile::default() }
    }

    /// Reports to `files` from then on whether the log can be written.
    pub fn report_to(&mut self, files: &KeptFiles) {
        self.kept = LogFile::from_stdout(files);
    }

    /// Creates output with a bar for the time of the traffic, if standard output is a terminal.
    pub fn with_bar(traffic: Duration, names: Arc<Names>, logging: Logging) -> Lines {
        if !is_watched() || logging.format != LogFormat::Text {
            return Lines::new(names, logging);
        }
        let bar = ProgressBar::new(traffic.as_millis() as u64);
        let style = ProgressStyle::with_template("{spinner:.green} {wide_bar:.green} {msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.enable_steady_tick(Duration::from_millis(100));
        Lines { status: Some(bar), ..Lines::new(names, logging) }
    }

    /// Replaces the names of switches and hosts.
    pub fn rename(&mut self, names: Arc<Names>) {
        self.names = names;
    }

    /// Replaces the settings of the log.
    pub fn log_as(&mut self, logging: Logging) {
        if logging != self.logging {
            logging.replace();
            self.logging = logging;
        }
    }

    /// Prints a line that is not an event.
    pub fn print_line(&mut self, line: &str) {
        let line = self.logging.plain(Level::Info, &self.names.in_text(line));
        self.write(&line);
    }

    /// Prints an event of the program. Problems begin with `warning: `.
    pub fn print_event(&mut self, line: &str) {
        let (level, text) = match line.strip_prefix("warning: ") {
            Some(text) => (Level::Warning, text),
            None => (Level::Info, line),
        };
        if self.logging.shows("run", level) {
            let text = self.names.in_text(text);
            let line = self.logging.line(SystemTime::now(), level, "run", &text);
            self.write(&line);
        }
    }

    /// Prints the new lines of the log. Waits for a line, at most for `timeout`.
    pub fn follow(&mut self, controller: &Handle, timeout: Duration) {
        self.kept.look();
        let entries = controller.operations().log_since(self.next, timeout);
        if let Some(missed) = entries.first().and_then(|first| first.number.checked_sub(self.next)).filter(|n| *n > 0) {
            self.print_event(&format!("warning: {missed} lines of the log were left out: they came too fast"));
        }
        for entry in entries {
            self.next = entry.number + 1;
            if self.logging.shows(entry.area, entry.level) {
                let line = self.logging.line(entry.time, entry.level, entry.area, &entry.text);
                self.write(&line);
            }
        }
    }

    fn write(&mut self, line: &str) {
        match &self.status {
            Some(bar) => bar.println(line),
            None => self.kept.wrote(&try_to_print_line(line)),
        }
    }

    /// Moves the bar.
    pub fn advance(&mut self, elapsed: Duration, message: &str) {
        if let Some(bar) = &self.status {
            bar.set_position(elapsed.as_millis() as u64);
            bar.set_message(message.to_string());
        }
    }

    /// Removes the bar.
    pub fn finish(&mut self) {
        if let Some(bar) = self.status.take() {
            bar.finish_and_clear();
        }
    }
}
