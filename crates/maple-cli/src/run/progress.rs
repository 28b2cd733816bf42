//! Lines about events, above a status line if there is a terminal.

use std::collections::HashSet;
use std::io::IsTerminal;
use std::sync::Arc;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use maple_controller::Notice;
use maple_controller::names::Names;
use maple_core::report::Report;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};

use crate::output::print_line;

/// The time in UTC, to the millisecond: `2026-11-23T10:53:38.123Z`.
fn now() -> String {
    let mut text = String::new();
    // A clock before 1970 has no such form. A line without its time is better than none.
    let _ = SystemTime.format_time(&mut Writer::new(&mut text));
    match text.split_once('.') {
        Some((seconds, rest)) => format!("{seconds}.{}Z", rest.get(..3).unwrap_or("000")),
        None => text,
    }
}

/// Where `maple run` prints while it runs.
pub struct Lines {
    status: Option<ProgressBar>,
    names: Arc<Names>,
    /// Errors of the policy that were shown. Each shard reports an error once.
    shown: HashSet<Arc<str>>,
}

impl Lines {
    /// Plain lines, with these names of switches and hosts.
    pub fn new(names: &Arc<Names>) -> Lines {
        Lines { status: None, names: Arc::clone(names), shown: HashSet::new() }
    }

    /// With a bar for the time of the traffic, if standard output is a terminal.
    pub fn with_bar(traffic: Duration, names: &Arc<Names>) -> Lines {
        if !std::io::stdout().is_terminal() {
            return Lines::new(names);
        }
        let bar = ProgressBar::new(traffic.as_millis() as u64);
        let style = ProgressStyle::with_template("{spinner:.green} {wide_bar:.green} {msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.enable_steady_tick(Duration::from_millis(100));
        Lines { status: Some(bar), ..Lines::new(names) }
    }

    /// Prints a line.
    pub fn print_line(&mut self, line: &str) {
        let line = self.names.in_text(line);
        match &self.status {
            Some(bar) => bar.println(line),
            None => print_line(line),
        }
    }

    /// Prints a line with the time.
    pub fn print_event(&mut self, line: &str) {
        self.print_line(&format!("{} {line}", now()));
    }

    /// Prints a notice of the controller. Problems are marked.
    pub fn notice(&mut self, notice: &Notice) {
        if let Notice::Engine(Report::PolicyFailed { error, .. }) = notice
            && !self.shown.insert(error.clone())
        {
            return;
        }
        let mark = if notice.is_error() { "warning: " } else { "" };
        self.print_event(&format!("{mark}{notice}"));
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
