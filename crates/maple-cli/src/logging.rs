//! The format of the log, and the lines of each area that it has.

use std::fmt::Write as _;
use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use clap::ValueEnum;
use maple_controller::log::{AREAS, Level, area_of_module, printable_lines};
use maple_controller::timestamp;
use parking_lot::RwLock;
use serde_json::json;
use tracing::field::{Field, Visit};
use tracing::subscriber::Interest;
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::prelude::*;

use crate::output::{json_line, print_error_line, try_to_print_error_line};

/// The target of messages that are also notices in the log.
const NOTICES: &str = "maple_controller::notice";

/// The form of lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// A JSON object a line: time, level, area, text.
    Json,
    /// For systemd's journal, which knows the time: a line begins with its priority.
    Journald,
}

/// The lowest level that is written, for an area or for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Threshold {
    /// The area; `None`: all areas.
    area: Option<&'static str>,
    /// The lowest level that is written; `None`: nothing is written.
    level: Option<Level>,
}

/// Parses `LEVEL` or `AREA=LEVEL`.
///
/// # Errors
/// A text that lists the valid levels or areas.
pub fn threshold(text: &str) -> Result<Threshold, String> {
    let (area, level) = match text.split_once('=') {
        Some((area, level)) => {
            let known = AREAS.iter().find(|known| **known == area);
            let area = known.ok_or_else(|| format!("{area:?} is not an area; there are {}", AREAS.join(", ")))?;
            (Some(*area), level)
        }
        None => (None, text),
    };
    let all = [Level::Error, Level::Warning, Level::Info, Level::Debug];
    let level = match all.into_iter().find(|known| known.name() == level) {
        None if level != "off" => {
            return Err(format!("{level:?} is not a level; there are off, error, warning, info, debug"));
        }
        found => found,
    };
    Ok(Threshold { area, level })
}

/// The settings of the log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Logging {
    /// The format.
    pub format: LogFormat,
    thresholds: Vec<Threshold>,
    /// Whether messages of the program's parts are written from the lowest level on.
    verbose: bool,
}

impl Logging {
    /// Creates a log in this format with these thresholds: the last one that names an area counts, then the last one
    /// for all.
    pub fn new(format: LogFormat, thresholds: &[Threshold], verbose: bool) -> Logging {
        Logging { format, thresholds: thresholds.to_vec(), verbose }
    }

    /// Reports whether a notice is written.
    pub fn shows(&self, area: &str, level: Level) -> bool {
        self.threshold(area, Level::Info).is_some_and(|lowest| level <= lowest)
    }

    /// Returns the lowest level that is written of an area, without a threshold `default`.
    fn threshold(&self, area: &str, default: Level) -> Option<Level> {
        let last = |wanted: Option<&str>| self.thresholds.iter().rev().find(|one| one.area == wanted);
        last(Some(area)).or_else(|| last(None)).map_or(Some(default), |threshold| threshold.level)
    }

    /// Writes a line, without its end, in printable characters.
    pub fn line(&self, time: SystemTime, level: Level, area: &str, text: &str) -> String {
        match self.format {
            LogFormat::Text => printable_lines(&format!("{} {}{text}", timestamp(time), mark(level))),
            LogFormat::Json => {
                json_line(&json!({ "time": timestamp(time), "level": level.name(), "area": area, "text": text }))
            }
            LogFormat::Journald => printable_lines(&prefixed(level, &format!("{area}: {text}"))),
        }
    }

    /// Writes a line that is not an event, such as a line of a summary.
    pub fn plain(&self, level: Level, text: &str) -> String {
        match self.format {
            LogFormat::Text => printable_lines(&format!("{}{text}", mark(level))),
            LogFormat::Json => self.line(SystemTime::now(), level, "run", text),
            LogFormat::Journald => printable_lines(&prefixed(level, text)),
        }
    }

    /// Installs a subscriber that writes messages of the program's parts to standard error. `RUST_LOG` selects
    /// messages; without it only errors are written, unless `verbose` or the thresholds select more. Only the first of
    /// several runs in one process installs it.
    pub fn install(&self) {
        use tracing_subscriber::EnvFilter;
        let selected = EnvFilter::try_from_default_env().ok();
        let messages = Messages { is_selected: selected.is_some() };
        *CURRENT.write() = Some(Arc::new(self.clone()));
        // A subscriber may be installed already.
        let _ = tracing_subscriber::registry().with(selected).with(messages).try_init();
    }

    /// Replaces the installed log.
    pub fn replace(&self) {
        *CURRENT.write() = Some(Arc::new(self.clone()));
        tracing::callsite::rebuild_interest_cache();
    }
}

/// Prints a line that is not an event to standard error, as the installed log writes it.
pub fn print_plain(level: Level, text: &str) {
    print_error_line(current().plain(level, text));
}

fn mark(level: Level) -> &'static str {
    match level {
        Level::Error => "error: ",
        Level::Warning => "warning: ",
        Level::Info | Level::Debug => "",
    }
}

/// Puts the priority in front of each line, as sd-daemon(3) requires.
fn prefixed(level: Level, text: &str) -> String {
    let line = |line: &str| format!("<{}>{line}", level.priority());
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// The number of messages that could not be written, because a file is full or fails.
static LOST: AtomicU64 = AtomicU64::new(0);

/// Returns the number of messages of the program's parts that could not be written since the last call.
pub fn take_lost() -> u64 {
    LOST.swap(0, Ordering::Relaxed)
}

/// The installed log.
static CURRENT: RwLock<Option<Arc<Logging>>> = RwLock::new(None);

fn current() -> Arc<Logging> {
    CURRENT.read().clone().unwrap_or_default()
}

/// The subscriber that writes the messages of the program's parts.
struct Messages {
    /// Whether `RUST_LOG` selects the messages.
    is_selected: bool,
}

impl Messages {
    /// Reports whether messages of this place in the program are written. The subscriber is asked once for each place,
    /// and again when the log changes, so unwritten messages cost nothing.
    fn wants(&self, about: &Metadata<'_>) -> bool {
        // Notices are written to the log elsewhere.
        if about.target() == NOTICES {
            return false;
        }
        let logging = current();
        let default = if logging.verbose { Level::Debug } else { Level::Error };
        let lowest = logging.threshold(area_of_module(about.target()), default);
        let is_wanted = lowest.is_some_and(|lowest| level_of(about) <= lowest);
        self.is_selected || about.target().starts_with("maple") && is_wanted
    }
}

impl<S: Subscriber> Layer<S> for Messages {
    fn register_callsite(&self, about: &'static Metadata<'static>) -> Interest {
        if self.wants(about) { Interest::always() } else { Interest::never() }
    }

    fn enabled(&self, about: &Metadata<'_>, _: Context<'_, S>) -> bool {
        self.wants(about)
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let about = event.metadata();
        let mut text = Text::default();
        event.record(&mut text);
        let text = format!("{}{}", text.message, text.fields);
        let area = area_of_module(about.target());
        let line = current().line(SystemTime::now(), level_of(about), area, &text);
        // A closed standard error is not a reason to end: nobody reads it.
        if let Err(error) = try_to_print_error_line(line)
            && error.kind() != ErrorKind::BrokenPipe
        {
            LOST.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn level_of(about: &Metadata<'_>) -> Level {
    match *about.level() {
        tracing::Level::ERROR => Level::Error,
        tracing::Level::WARN => Level::Warning,
        tracing::Level::INFO => Level::Info,
        tracing::Level::DEBUG | tracing::Level::TRACE => Level::Debug,
    }
}

/// The message of an event, and its fields.
#[derive(Default)]
struct Text {
    message: String,
    fields: String,
}

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        // Writing to a string does not fail.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn logging(format: LogFormat, thresholds: &[&str]) -> Logging {
        let thresholds: Vec<Threshold> = thresholds.iter().map(|text| threshold(text).expect("it is right")).collect();
        Logging::new(format, &thresholds, false)
    }

    #[test]
    fn an_area_has_its_own_level_and_the_last_word_counts() {
        let shown = |thresholds: &[&str], area, level| logging(LogFormat::Text, thresholds).shows(area, level);
        assert!(shown(&[], "hosts", Level::Info) && !shown(&[], "hosts", Level::Debug));
        assert!(!shown(&["hosts=warning"], "hosts", Level::Info) && shown(&["hosts=warning"], "rules", Level::Info));
        assert!(shown(&["hosts=debug", "off"], "hosts", Level::Debug) && !shown(&["off"], "hosts", Level::Error));
        assert!(shown(&["hosts=off", "hosts=info"], "hosts", Level::Info));
        assert!(threshold("host=info").is_err_and(|error| error.contains("hosts")));
        assert!(threshold("hosts=loud").is_err_and(|error| error.contains("off, error, warning, info, debug")));
    }

    #[test]
    fn a_line_that_is_not_an_event_has_the_chosen_form_too() {
        let plain = |format, level| logging(format, &[]).plain(level, "slow");
        assert_eq!(plain(LogFormat::Text, Level::Info), "slow");
        assert_eq!(plain(LogFormat::Text, Level::Warning), "warning: slow");
        assert_eq!(plain(LogFormat::Journald, Level::Warning), "<4>slow");
        let json: serde_json::Value = serde_json::from_str(&plain(LogFormat::Json, Level::Info)).expect("one object");
        assert_eq!((json["level"].as_str(), json["area"].as_str()), (Some("info"), Some("run")));
    }

    #[test]
    fn a_line_has_the_chosen_form() {
        let line =
            |format| logging(format, &[]).line(SystemTime::UNIX_EPOCH, Level::Warning, "hosts", "one \"host\"\nmore");
        assert_eq!(line(LogFormat::Text), "1970-01-01T00:00:00.000Z warning: one \"host\"\nmore");
        assert_eq!(line(LogFormat::Journald), "<4>hosts: one \"host\"\n<4>more");
        let logging = logging(LogFormat::Text, &[]);
        assert_eq!(logging.plain(Level::Info, "s1\u{1b}[2J"), "s1\\u{1b}[2J", "also above a bar");
        let json: serde_json::Value = serde_json::from_str(&line(LogFormat::Json)).expect("one object");
        assert_eq!(json["text"], "one \"host\"\nmore");
        assert_eq!((json["level"].as_str(), json["area"].as_str()), (Some("warning"), Some("hosts")));
        assert_eq!(line(LogFormat::Json).lines().count(), 1);
    }
}
