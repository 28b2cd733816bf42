//! A bar on standard error while a benchmark runs, on terminals only.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// A progress bar with a text. Dropping it removes it.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// Creates a bar of `steps` steps. It is hidden if standard error is not a terminal.
    pub fn new(steps: u64) -> Progress {
        let bar = ProgressBar::new(steps);
        let style = ProgressStyle::with_template("{spinner:.green} {wide_bar:.green} {pos}/{len} {msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.enable_steady_tick(Duration::from_millis(100));
        Progress { bar }
    }

    /// Creates a hidden bar.
    #[cfg(test)]
    pub fn hidden() -> Progress {
        Progress { bar: ProgressBar::hidden() }
    }

    /// Sets the text.
    pub fn set_message(&self, what: impl Into<String>) {
        self.bar.set_message(what.into());
    }

    /// Advances the bar by a step.
    pub fn step(&self) {
        self.bar.inc(1);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
