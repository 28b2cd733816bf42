//! One reading of a controller: its answers to some requests, and when they were asked for.

use std::time::Instant;

use maple_controller::control::socket::{AskError, Reach, Request, Show, ask};
use maple_controller::log::printable_lines;
use maple_controller::names::Names;
use serde_json::Value;

/// The number of minutes of which drops are shown. Chosen: as far back as the trends of rates reach.
const MINUTES: u64 = 5;

/// The answers of a controller at one moment.
#[derive(Debug)]
pub struct Reading {
    pub at: Instant,
    pub names: Names,
    pub controller: Value,
    pub stats: Value,
    pub switches: Value,
    pub flows: Value,
    pub drops: Value,
    pub errors: Value,
}

impl Reading {
    /// Asks a controller.
    ///
    /// # Errors
    /// [`AskError`] if it does not answer.
    pub fn take(controller: &dyn Reach) -> Result<Reading, AskError> {
        let show = |what| ask(controller, &Request::Show(what)).map(printable);
        let (at, stats) = (Instant::now(), show(Show::Stats)?);
        Ok(Reading {
            at,
            names: Names::from_json(&show(Show::Names)?),
            controller: show(Show::Controller)?,
            stats,
            switches: show(Show::Switches)?,
            flows: show(Show::Flows(None))?,
            drops: show(Show::Dropped(MINUTES))?,
            errors: show(Show::Errors)?,
        })
    }

    /// Returns all counters with this name, of the controller and of its engines.
    pub fn count(&self, name: &str) -> Option<u64> {
        ["controller", "engine"].iter().find_map(|part| self.stats[*part][name].as_u64())
    }
}

/// Escapes what could control the terminal in all texts of an answer.
fn printable(answer: Value) -> Value {
    match answer {
        Value::String(text) => printable_lines(&text).into(),
        Value::Array(items) => items.into_iter().map(printable).collect(),
        Value::Object(members) => members.into_iter().map(|(name, value)| (name, printable(value))).collect(),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn no_text_of_a_switch_controls_the_terminal() {
        let answer = json!([{ "description": "s1\u{1b}[2J", "ports": [{ "name": "p\u{202e}" }], "shard": 1 }]);
        let shown = json!([{ "description": "s1\\u{1b}[2J", "ports": [{ "name": "p\\u{202e}" }], "shard": 1 }]);
        assert_eq!(printable(answer), shown);
    }
}
