//! The fill levels of the switches' tables, which are queried from the switches.
//!
//! Open vSwitch is not queried: its tables have room for a million rules unless its database says otherwise (`ovs/`),
//! and its answer is long.

use std::path::Path;
use std::time::{Duration, Instant};

use maple_controller::control::socket::{AskError, Request, Show, ask};
use serde_json::Value;

use super::{Finding, FindingId, Level, items, text};
use crate::doctor::command::within;

/// The maximum time for all switches together.
const TIME_LIMIT: Duration = Duration::from_secs(10);
/// The percentage of rules from which a table is nearly full.
const NEARLY_FULL: u64 = 90;

/// The switches' answers about their tables.
#[derive(Clone, Debug, Default)]
pub struct Tables {
    /// One object for each switch that answered.
    said: Vec<Value>,
    /// The number of switches that were not queried, because the time was over.
    left: usize,
}

impl Tables {
    /// Queries these switches one after the other, within a time limit.
    pub fn ask(control: &Path, switches: &[String]) -> Tables {
        let end = Instant::now() + TIME_LIMIT;
        let mut said = Vec::new();
        for (at, switch) in switches.iter().enumerate() {
            let (path, request) = (control.to_owned(), Request::Show(Show::Tables(Some(switch.clone()))));
            let rest = end.saturating_duration_since(Instant::now());
            match within(rest, move || ask(&path, &request)) {
                None => return Tables { said, left: switches.len() - at },
                // A controller that does not know the request is older, and will not know it for other switches.
                Some(Err(AskError::RefusedByOlder { .. })) => return Tables { said, left: 0 },
                // The switch has disconnected meanwhile.
                Some(Err(_)) => {}
                Some(Ok(answer)) => said.extend(items(&answer).cloned()),
            }
        }
        Tables { said, left: 0 }
    }

    /// Creates tables with these answers.
    #[cfg(test)]
    pub fn from_answers(said: Vec<Value>) -> Tables {
        Tables { said, left: 0 }
    }

    /// Describes what was checked; `None` if no switch was queried.
    pub fn checked(&self) -> Option<String> {
        let sized = self.said.iter().filter(|switch| items(&switch["tables"]).any(|table| table["most"].is_u64()));
        let (asked, sized, left) = (self.said.len() + self.left, sized.count(), self.left);
        let rest = if left > 0 { format!(", {left} were not asked for want of time") } else { String::new() };
        (asked > 0).then(|| format!("how full tables are: {sized} of {asked} switches say it{rest}"))
    }

    /// Returns the findings about nearly full tables.
    pub fn findings(&self) -> Vec<Finding> {
        let full = |switch: &Value, table: &Value| {
            let (rules, most) = (table["rules"].as_u64()?, table["most"].as_u64().filter(|most| *most > 0)?);
            let finding = || {
                let place = format!("switch {}", text(&switch["switch"]));
                Finding::new(Level::Warning, FindingId::TableNearlyFull, place)
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
