//! Lines about events, above a status line if there is a terminal.

use std::io::IsTerminal;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use indicatif::{ProgressBar, ProgressStyle};
use maple_controller::Handle;
use maple_controller::log::Level;
use maple_controller::names::Names;

use crate::logging::{LogFormat, Logging};
use crate::output::print_line;

/// Where `maple run` prints while it runs.
pub struct Lines {
    status: Option<ProgressBar>,
    names: Arc<Names>,
    logging: Logging,
    /// The number of the next line of the log.
    next: u64,
}

impl Lines {
    /// Plain lines, with these names of switches and hosts.
    pub fn new(names: Arc<Names>, logging: Logging) -> Lines {
        Lines { status: None, names, logging, next: 0 }
    }

    /// With a bar for the time of the traffic, if standard output is a terminal.
    pub fn with_bar(traffic: Duration, names: Arc<Names>, logging: Logging) -> Lines {
        if !std::io::stdout().is_terminal() || logging.format != LogFormat::Text {
            return Lines::new(names, logging);
        }
        let bar = ProgressBar::new(traffic.as_millis() as u64);
        let style = ProgressStyle::with_template("{spinner:.green} {wide_bar:.green} {msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.enable_steady_tick(Duration::from_millis(100));
        Lines { status: Some(bar), ..Lines::new(names, logging) }
    }

    /// From now on switches and hosts have these names.
    pub fn rename(&mut self, names: Arc<Names>) {
        self.names = names;
    }

    /// From now on the log is written so.
    pub fn log_as(&mut self, logging: Logging) {
        if logging != self.logging {
            logging.replace();
            self.logging = logging;
        }
    }

    /// Prints a line that is no event.
    pub fn print_line(&mut self, line: &str) {
        let line = self.names.in_text(line);
        self.write(&self.logging.plain(&line));
    }

    /// Prints what the program did. Problems begin with `warning: `.
    pub fn print_event(&mut self, line: &str) {
        let (level, text) = match line.strip_prefix("warning: ") {
            Some(text) => (Level::Warning, text),
            None => (Level::Info, line),
        };
        if self.logging.shows("run", level) {
            let text = self.names.in_text(text);
            self.write(&self.logging.line(SystemTime::now(), level, "run", &text));
        }
    }

    /// Prints what is new in the log. Waits for something, at most for this time.
    pub fn follow(&mut self, controller: &Handle, timeout: Duration) {
        let entries = controller.log_since(self.next, timeout);
        if let Some(missed) = entries.first().and_then(|first| first.number.checked_sub(self.next)).filter(|n| *n > 0) {
            self.print_event(&format!("warning: {missed} lines of the log were left out: they came too fast"));
        }
        for entry in entries {
            self.next = entry.number + 1;
            if self.logging.shows(entry.area, entry.level) {
                self.write(&self.logging.line(entry.time, entry.level, entry.area, &entry.text));
            }
        }
    }

    fn write(&self, line: &str) {
        match &self.status {
            Some(bar) => bar.println(line),
            None => print_line(line),
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
