//! A bar on standard error while a benchmark runs, on terminals only.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// A progress bar with a text. Dropping it removes it.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// A bar of `steps` steps. Hidden if standard error is no terminal.
    pub fn new(steps: u64) -> Progress {
        let bar = ProgressBar::new(steps);
        let style = ProgressStyle::with_template("{spinner:.green} {wide_bar:.green} {pos}/{len} {msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.enable_steady_tick(Duration::from_millis(100));
        Progress { bar }
    }

    /// A bar that is never seen.
    pub fn hidden() -> Progress {
        Progress { bar: ProgressBar::hidden() }
    }

    /// Sets the text.
    pub fn set_message(&self, what: impl Into<String>) {
        self.bar.set_message(what.into());
    }

    /// One step is done.
    pub fn step(&self) {
        self.bar.inc(1);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
