//! How full the switches' tables are, which they are asked for.
//!
//! Open vSwitch isn't asked: a table of its has a million rules, unless its database says otherwise (`ovs/`), and its
//! answer is long.

use std::path::Path;
use std::time::{Duration, Instant};

use maple_controller::control::socket::{AskError, Request, Show, ask};
use serde_json::Value;

use super::{Finding, Id, Level, items, text};
use crate::doctor::command::within;

/// How long all switches together have.
const TIME_LIMIT: Duration = Duration::from_secs(10);
/// A table with so many of a hundred rules is nearly full.
const NEARLY_FULL: u64 = 90;

/// What switches say of their tables.
#[derive(Clone, Debug, Default)]
pub struct Tables {
    /// One object for each switch that was asked.
    said: Vec<Value>,
    /// How many were not asked, because the time was over.
    left: usize,
}

impl Tables {
    /// Asks these switches one after the other, for a bounded time.
    pub fn ask(control: &Path, switches: &[String]) -> Tables {
        let end = Instant::now() + TIME_LIMIT;
        let mut said = Vec::new();
        for (at, switch) in switches.iter().enumerate() {
            let (path, request) = (control.to_owned(), Request::Show(Show::Tables(Some(switch.clone()))));
            let rest = end.saturating_duration_since(Instant::now());
            match within(rest, move || ask(&path, &request)) {
                None => return Tables { said, left: switches.len() - at },
                // One that does not know the request is older, and will not know it of others.
                Some(Err(AskError::RefusedByOlder { .. })) => return Tables { said, left: 0 },
                // It has gone meanwhile.
                Some(Err(_)) => {}
                Some(Ok(answer)) => said.extend(items(&answer).cloned()),
            }
        }
        Tables { said, left: 0 }
    }

    /// That they say this.
    #[cfg(test)]
    pub fn of(said: Vec<Value>) -> Tables {
        Tables { said, left: 0 }
    }

    /// What was looked at, in words; `None` if no switch was asked.
    pub fn seen(&self) -> Option<String> {
        let sized = self.said.iter().filter(|switch| items(&switch["tables"]).any(|table| table["most"].is_u64()));
        let (asked, sized, left) = (self.said.len() + self.left, sized.count(), self.left);
        let rest = if left > 0 { format!(", {left} were not asked for want of time") } else { String::new() };
        (asked > 0).then(|| format!("how full tables are: {sized} of {asked} switches say it{rest}"))
    }

    /// The tables that are nearly full.
    pub fn findings(&self) -> Vec<Finding> {
        let full = |switch: &Value, table: &Value| {
            let (rules, most) = (table["rules"].as_u64()?, table["most"].as_u64().filter(|most| *most > 0)?);
            let finding = || {
                let place = format!("switch {}", text(&switch["switch"]));
                Finding::new(Level::Warning, Id::TableNearlyFull, place)
                    .what(format!("table {} has {rules} of at most {most} rules", table["table"]))
                    .so("when it is full, the controller forwards the flows that do not fit, slowly")
                    .mend("maple check POLICY")
            };
            (rules.saturating_mul(100) >= most.saturating_mul(NEARLY_FULL)).then(finding)
        };
        self.said
            .iter()
            .flat_map(|switch| items(&switch["tables"]).filter_map(move |table| full(switch, table)))
            .collect()
    }
}
