//! What has been reported: repeated reports are suppressed, and failures of f are counted by their text. Both are
//! bounded, because hosts can cause them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The maximum number of distinct reports, and of distinct failures.
const MAX_REPORTS: usize = 10_000;

/// What a shard has reported.
#[derive(Debug, Default)]
pub(super) struct Reports {
    keys: BTreeSet<String>,
    /// The number of failures of f, by the text of the error.
    failures: BTreeMap<Arc<str>, u64>,
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

    /// The failures that were reported, with their counts.
    pub fn failures(&self) -> impl Iterator<Item = (&Arc<str>, u64)> {
        self.failures.iter().map(|(error, count)| (error, *count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
