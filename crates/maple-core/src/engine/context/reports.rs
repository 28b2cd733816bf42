//! Remembers what has been reported. Repeated reports are suppressed, and failures of f are counted by their text. Both
//! are bounded, because hosts can cause them.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::ids::Time;
use crate::network::Location;
use crate::report::{ReportKind, ReportSubject};

/// The maximum number of different reports of one kind, of failures of f, and of what else is counted by name. Chosen:
/// a hundred subjects that are all over [`MAX_OF_SUBJECT`], and a bound on memory and on the log.
const MAX_REPORTS: usize = 10_000;
/// The maximum number of different reports of one kind about one port or switch. Hosts and peers can make any number of
/// them: a host that flips between ports can take another address each time. Chosen: an operator sees more than enough
/// of one port, and others still have their reports.
const MAX_OF_SUBJECT: usize = 100;

/// The maximum number of packets that a rule of an access list reports in a [`LOG_PERIOD`]. Chosen: a line that people
/// can read as it comes; the count of the others is in the next one.
const LOGGED_IN_PERIOD: u32 = 10;
/// The period in which the reports of a rule are counted. Chosen: the log shows at once that a rule is hit.
const LOG_PERIOD: Duration = Duration::from_secs(1);

/// The time in which at most one packet of a port whose source is located elsewhere is reported. Chosen: a loop or a
/// forger sends without end, and one report a minute shows that it goes on.
const ELSEWHERE_PERIOD: Duration = Duration::from_secs(60);

/// The text that stands for all errors of f beyond those that are counted one by one.
const OTHER_FAILURES: &str = "other errors, each with a text of its own";

/// A constraint, and the line whose route it refused.
pub type ViolationKey = (Arc<str>, Arc<str>);

/// The reports of a shard, and their counts.
#[derive(Debug, Default)]
pub(in crate::engine) struct Reports {
    once: BTreeMap<ReportKind, KindReports>,
    /// The number of failures of f, by the text of the error.
    failures: BTreeMap<Arc<str>, u64>,
    failure_budget: ReportBudget,
    /// The number of routes that constraints refused, by constraint and line.
    violations: BTreeMap<ViolationKey, u64>,
    /// The packets that rules of access lists log, by rule.
    logged: BTreeMap<Arc<str>, RecentReports>,
    /// The packets whose source is located elsewhere, by the port where they come in.
    elsewhere: BTreeMap<Location, RecentReports>,
}

/// The recent reports on one kind of packets.
#[derive(Debug, Default)]
struct RecentReports {
    since: Time,
    reported: u32,
    unreported: u64,
}

/// Whether something that may have been reported before is to be reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) enum Novelty {
    /// A report that was not made before, so it is to be made.
    New,
    /// Reported before, so it is not to be reported again.
    Known,
    /// Too much of its kind was reported, so it is only counted. If `is_first`, a report is to say so.
    TooMany { is_first: bool },
}

/// The reports of one kind.
#[derive(Debug, Default)]
struct KindReports {
    keys: BTreeSet<String>,
    budget: ReportBudget,
}

/// The number of different things that have been reported, in all and about each port and switch.
#[derive(Debug, Default)]
struct ReportBudget {
    spent: usize,
    of_subject: BTreeMap<ReportSubject, usize>,
    /// Whether a report has said that there are too many in all.
    is_over: bool,
}

impl ReportBudget {
    /// Spends a report on something that was not reported before.
    fn take(&mut self, about: ReportSubject) -> Novelty {
        if self.spent >= MAX_REPORTS {
            return Novelty::TooMany { is_first: !std::mem::replace(&mut self.is_over, true) };
        }
        let maximum = if about == ReportSubject::Policy { MAX_REPORTS } else { MAX_OF_SUBJECT };
        let spent = self.of_subject.entry(about).or_default();
        *spent += 1;
        match (*spent).cmp(&(maximum + 1)) {
            Ordering::Less => {
                self.spent += 1;
                Novelty::New
            }
            Ordering::Equal => Novelty::TooMany { is_first: true },
            Ordering::Greater => Novelty::TooMany { is_first: false },
        }
    }
}

impl Reports {
    /// Notes something, and returns whether it is to be reported: if nothing of this kind was reported under this key,
    /// and not too much about this subject.
    pub fn note(&mut self, kind: ReportKind, about: ReportSubject, key: &str) -> Novelty {
        let once = self.once.entry(kind).or_default();
        if once.keys.contains(key) {
            return Novelty::Known;
        }
        let novelty = once.budget.take(about);
        if novelty == Novelty::New {
            once.keys.insert(key.to_owned());
        }
        novelty
    }

    /// Counts a failure of f on a packet from this port. Returns the text under which it is counted, and whether it is
    /// to be reported.
    pub fn count_failure(&mut self, text: &str, at: Location) -> (Arc<str>, Novelty) {
        if let Some((text, count)) = self.failures.get_key_value(text) {
            let (text, count) = (Arc::clone(text), *count);
            self.failures.insert(Arc::clone(&text), count + 1);
            return (text, Novelty::Known);
        }
        let novelty = self.failure_budget.take(ReportSubject::Port(at));
        let text: Arc<str> = if novelty == Novelty::New { text.into() } else { OTHER_FAILURES.into() };
        *self.failures.entry(Arc::clone(&text)).or_default() += 1;
        (text, novelty)
    }

    /// Counts a packet that a rule logs. If it is to be reported, returns how many packets of this rule were not since
    /// the last report.
    pub fn count_logged(&mut self, now: Time, what: &Arc<str>) -> Option<u64> {
        if !self.logged.contains_key(what) {
            if self.logged.len() >= MAX_REPORTS {
                return None;
            }
            self.logged.insert(Arc::clone(what), RecentReports { since: now, ..RecentReports::default() });
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

    /// Counts a packet whose source is located elsewhere. If it is to be reported, returns how many packets of this
    /// port were not since the last report.
    pub fn count_elsewhere(&mut self, now: Time, seen: Location) -> Option<u64> {
        if self.elsewhere.len() >= MAX_REPORTS && !self.elsewhere.contains_key(&seen) {
            return None;
        }
        let count = self.elsewhere.entry(seen).or_default();
        let is_due = count.reported == 0 || now.0.saturating_sub(count.since.0) >= ELSEWHERE_PERIOD.as_nanos() as u64;
        if !is_due {
            count.unreported += 1;
            return None;
        }
        (count.since, count.reported) = (now, 1);
        Some(std::mem::take(&mut count.unreported))
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

    /// Returns the refused routes that were reported, with their counts.
    pub fn violations(&self) -> impl Iterator<Item = (&ViolationKey, u64)> {
        self.violations.iter().map(|(key, count)| (key, *count))
    }

    /// Returns the failures that were reported, with their counts.
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
    fn packets_from_elsewhere_are_reported_once_a_minute_for_each_port() {
        let mut reports = Reports::default();
        let mut at = |(port, second): (u32, u64)| {
            let seen = Location::new(maple_wire::Dpid(1), maple_wire::PortNo(port));
            reports.count_elsewhere(Time(second * 1_000_000_000), seen)
        };
        assert_eq!([(1, 0), (1, 1), (2, 1), (1, 59)].map(&mut at), [Some(0), None, Some(0), None]);
        assert_eq!([(1, 60), (1, 61), (1, 120)].map(&mut at), [Some(2), None, Some(1)]);
    }

    fn at(port: u32) -> Location {
        Location::new(maple_wire::Dpid(1), maple_wire::PortNo(port))
    }

    #[test]
    fn repeated_reports_are_suppressed_and_failures_are_counted() {
        let mut reports = Reports::default();
        let mut note = |key| reports.note(ReportKind::Refused, ReportSubject::Policy, key);
        assert_eq!([note("a"), note("b"), note("a")], [Novelty::New, Novelty::New, Novelty::Known]);
        let mut fail = || reports.count_failure("division by zero", at(1));
        assert_eq!(fail(), ("division by zero".into(), Novelty::New));
        assert_eq!(fail().1, Novelty::Known);
        assert_eq!(
            reports.failures().map(|(error, count)| (&**error, count)).collect::<Vec<_>>(),
            [("division by zero", 2)]
        );
    }

    #[test]
    fn one_port_takes_no_reports_from_others_and_its_excess_is_reported_once() {
        let mut reports = Reports::default();
        let mut flips = |port: u32, host: usize| {
            reports.note(ReportKind::HostFlips, ReportSubject::Port(at(port)), &format!("{port} {host}"))
        };
        let novelties: Vec<Novelty> = (0..MAX_OF_SUBJECT + 3).map(|host| flips(1, host)).collect();
        assert!(novelties[..MAX_OF_SUBJECT].iter().all(|one| *one == Novelty::New));
        assert_eq!(novelties[MAX_OF_SUBJECT..], [true, false, false].map(|is_first| Novelty::TooMany { is_first }));
        assert_eq!([flips(2, 0), flips(1, 0)], [Novelty::New, Novelty::Known]);
        assert_eq!(reports.note(ReportKind::Refused, ReportSubject::Port(at(1)), "a"), Novelty::New, "another kind");
    }

    #[test]
    fn failures_beyond_the_bound_are_counted_together() {
        let mut reports = Reports::default();
        let mut novelties = 0;
        for number in 0..3 * MAX_OF_SUBJECT {
            novelties += usize::from(reports.count_failure(&number.to_string(), at(1)).1 == Novelty::New);
        }
        assert_eq!(novelties, MAX_OF_SUBJECT);
        let others = reports.failures().find(|(text, _)| &***text == OTHER_FAILURES).map(|(_, count)| count);
        assert_eq!(others, Some(2 * MAX_OF_SUBJECT as u64));
        assert_eq!(reports.count_failure("another one", at(2)).1, Novelty::New);
    }

    #[test]
    fn the_number_of_remembered_reports_is_bounded() {
        let mut reports = Reports::default();
        let (mut new, mut first) = (0, 0);
        for port in 0..2 * MAX_REPORTS as u32 {
            let novelty = reports.note(ReportKind::HostFlips, ReportSubject::Port(at(port)), &port.to_string());
            new += usize::from(novelty == Novelty::New);
            first += usize::from(novelty == Novelty::TooMany { is_first: true });
            reports.count_failure(&port.to_string(), at(port));
        }
        assert_eq!((new, first), (MAX_REPORTS, 1));
        assert_eq!(reports.failures().count(), MAX_REPORTS + 1);
    }
}
