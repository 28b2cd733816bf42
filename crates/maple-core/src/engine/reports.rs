//! What has been reported: repeated reports are suppressed, and failures of f are counted by their text. Both are
//! bounded, because hosts can cause them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::ids::Time;
use crate::network::Location;

/// The maximum number of distinct reports, and of distinct failures.
const MAX_REPORTS: usize = 10_000;

/// A rule of an access list reports at most this many packets in this time.
const LOGGED_IN_PERIOD: u32 = 10;
const LOG_PERIOD: Duration = Duration::from_secs(1);

/// Of the packets at a port whose source is located elsewhere, one is reported in this time.
const ELSEWHERE_PERIOD: Duration = Duration::from_secs(60);

/// A constraint, and the line whose route it refused.
pub type ViolationKey = (Arc<str>, Arc<str>);

/// What a shard has reported.
#[derive(Debug, Default)]
pub(super) struct Reports {
    keys: BTreeSet<String>,
    /// The number of failures of f, by the text of the error.
    failures: BTreeMap<Arc<str>, u64>,
    /// The number of routes that constraints refused, by constraint and line.
    violations: BTreeMap<ViolationKey, u64>,
    /// The packets that rules of access lists log, by rule.
    logged: BTreeMap<Arc<str>, Logged>,
    /// The packets whose source is located elsewhere, by the port where they come in.
    elsewhere: BTreeMap<Location, Logged>,
}

/// What was reported of one kind of packets lately.
#[derive(Debug, Default)]
struct Logged {
    since: Time,
    reported: u32,
    unreported: u64,
}

impl Reports {
    /// Whether nothing was reported under this key before. The caller then reports it.
    pub fn is_new(&mut self, key: &str) -> bool {
        self.keys.len() < MAX_REPORTS && self.keys.insert(key.to_owned())
    }

    /// Counts a failure of f. Returns its text if it is to be reported.
    pub fn count_failure(&mut self, text: &str) -> Option<Arc<str>> {
        if let Some(count) = self.failures.get_mut(text) {
            *count += 1;
            return None;
        }
        if self.failures.len() >= MAX_REPORTS {
            return None;
        }
        let error: Arc<str> = text.into();
        self.failures.insert(Arc::clone(&error), 1);
        Some(error)
    }

    /// Counts a packet that a rule logs. If it is to be reported: how many packets of this rule were not, since the last
    /// report.
    pub fn count_logged(&mut self, now: Time, what: &Arc<str>) -> Option<u64> {
        if !self.logged.contains_key(what) {
            if self.logged.len() >= MAX_REPORTS {
                return None;
            }
            self.logged.insert(Arc::clone(what), Logged { since: now, ..Logged::default() });
        }
        let logged = self.logged.get_mut(what)?;
        if now.0.saturating_sub(logged.since.0) >= LOG_PERIOD.as_nanos() as u64 {
            (logged.since, logged.reported) = (now, 0);
        }
        if logged.reported >= LOGGED_IN_PERIOD {
            logged.unreported += 1;
            return None;
        }
        logged.reported += 1;
        Some(std::mem::take(&mut logged.unreported))
    }

    /// Counts a packet whose source is located elsewhere. If it is to be reported: how many packets of this port were
    /// not, since the last report.
    pub fn count_elsewhere(&mut self, now: Time, seen: Location) -> Option<u64> {
        if self.elsewhere.len() >= MAX_REPORTS && !self.elsewhere.contains_key(&seen) {
            return None;
        }
        let there = self.elsewhere.entry(seen).or_default();
        let is_due = there.reported == 0 || now.0.saturating_sub(there.since.0) >= ELSEWHERE_PERIOD.as_nanos() as u64;
        if !is_due {
            there.unreported += 1;
            return None;
        }
        (there.since, there.reported) = (now, 1);
        Some(std::mem::take(&mut there.unreported))
    }

    /// Counts a refused route. Returns whether it is to be reported.
    pub fn count_violation(&mut self, key: ViolationKey) -> bool {
        if let Some(count) = self.violations.get_mut(&key) {
            *count += 1;
            return false;
        }
        if self.violations.len() >= MAX_REPORTS {
            return false;
        }
        self.violations.insert(key, 1);
        true
    }

    /// The refused routes that were reported, with their counts.
    pub fn violations(&self) -> impl Iterator<Item = (&ViolationKey, u64)> {
        self.violations.iter().map(|(key, count)| (key, *count))
    }

    /// The failures that were reported, with their counts.
    pub fn failures(&self) -> impl Iterator<Item = (&Arc<str>, u64)> {
        self.failures.iter().map(|(error, count)| (error, *count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_logs_ten_packets_a_second_and_counts_the_others() {
        let (mut reports, rule) = (Reports::default(), Arc::from("deny by a.yaml:3"));
        let mut at = |second: u64| reports.count_logged(Time(second * 1_000_000_000), &rule);
        assert_eq!([0; 10].map(&mut at), [Some(0); 10]);
        assert_eq!([0, 0, 0, 1, 1].map(&mut at), [None, None, None, Some(3), Some(0)]);
    }

    #[test]
    fn of_packets_from_elsewhere_one_a_minute_and_port_is_reported() {
        let mut reports = Reports::default();
        let mut at = |(port, second): (u32, u64)| {
            let seen = Location::new(maple_wire::Dpid(1), maple_wire::PortNo(port));
            reports.count_elsewhere(Time(second * 1_000_000_000), seen)
        };
        assert_eq!([(1, 0), (1, 1), (2, 1), (1, 59)].map(&mut at), [Some(0), None, Some(0), None]);
        assert_eq!([(1, 60), (1, 61), (1, 120)].map(&mut at), [Some(2), None, Some(1)]);
    }

    #[test]
    fn repeated_reports_are_suppressed_and_failures_are_counted() {
        let mut reports = Reports::default();
        assert_eq!([reports.is_new("a"), reports.is_new("b"), reports.is_new("a")], [true, true, false]);
        assert_eq!(reports.count_failure("division by zero").as_deref(), Some("division by zero"));
        assert_eq!(reports.count_failure("division by zero"), None);
        assert_eq!(
            reports.failures().map(|(error, count)| (&**error, count)).collect::<Vec<_>>(),
            [("division by zero", 2)]
        );
    }

    #[test]
    fn the_number_of_remembered_reports_is_bounded() {
        let mut reports = Reports::default();
        let new = (0..2 * MAX_REPORTS).filter(|number| reports.is_new(&number.to_string())).count();
        assert_eq!(new, MAX_REPORTS);
        let new = (0..2 * MAX_REPORTS).filter_map(|number| reports.count_failure(&number.to_string())).count();
        assert_eq!((new, reports.failures().count()), (MAX_REPORTS, MAX_REPORTS));
    }
}
