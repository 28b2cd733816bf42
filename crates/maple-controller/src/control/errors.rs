//! The errors that were reported to people.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::SystemTime;

use maple_core::engine::ViolationKey;
use maple_core::report::Report;

use super::queries::LateShard;
use super::{Handle, Operations};
use crate::kept_files::{Condition, FileNews};
use crate::notice::Notice;
use crate::shard::mailbox::ShardQuery;

/// An error that was reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportedError {
    /// The time of the report; for a file that can't be kept, the time since when that is so.
    pub time: SystemTime,
    /// The text of the error.
    pub text: String,
    /// The number of packets dropped so far because of an error of the policy, or of routes that a violated constraint
    /// refused. `None` for other errors, and if a shard did not answer in time.
    pub packets: Option<u64>,
}

impl Handle {
    /// Returns the most recent errors, oldest first. Each error of the policy is listed once.
    pub fn errors(&self) -> Vec<ReportedError> {
        let (failures, violations) = (self.operations().policy_errors().ok(), self.violations().ok());
        // A shard reports an error before it counts the packet.
        fn count<K: Ord>(counts: Option<&BTreeMap<K, u64>>, of: &K) -> Option<u64> {
            counts.map(|counts| counts.get(of).copied().unwrap_or(1))
        }
        let mut listed = BTreeSet::new();
        let mut violated = BTreeSet::new();
        let text = |notice: &Notice| self.names().in_text(&notice.to_string());
        let error = |(time, notice): (SystemTime, Notice)| {
            let failed = match &notice {
                Notice::Engine(Report::PolicyFailed { error, .. }) => Some(error.clone()),
                _ => None,
            };
            if let Notice::Engine(Report::ConstraintViolated { constraint, place, .. }) = &notice {
                let key = (constraint.clone(), place.clone());
                let packets = count(violations.as_ref(), &key);
                return violated.insert(key).then(|| ReportedError { time, text: text(&notice), packets });
            }
            if let Some(error) = &failed
                && !listed.insert(error.clone())
            {
                return None;
            }
            let packets = failed.and_then(|error| count(failures.as_ref(), &error));
            Some(ReportedError { time, text: text(&notice), packets })
        };
        let recent = self.shared.notices.recent();
        // A file that still fails is listed also if its report is old.
        let is_reported = |news: &FileNews| {
            let last = recent.iter().rev().find_map(|(_, notice)| match notice {
                Notice::File(reported) if reported.file == news.file => Some(&reported.condition),
                _ => None,
            });
            last.is_some_and(|last| !matches!(last, Condition::Mended(..)))
        };
        let unreported = self.shared.kept.files.troubles().into_iter().filter(|(_, news)| !is_reported(news));
        let unreported: Vec<(SystemTime, Notice)> =
            unreported.map(|(since, news)| (since, Notice::File(news))).collect();
        unreported.into_iter().chain(recent).filter_map(error).collect()
    }

    /// Returns the routes that constraints refused, by constraint and line, each with the number of times.
    ///
    /// # Errors
    /// [`LateShard`] if a shard does not answer in time.
    pub fn violations(&self) -> Result<BTreeMap<ViolationKey, u64>, LateShard> {
        Ok(sums(self.query_all(ShardQuery::Violations)?))
    }
}

impl Operations<'_> {
    /// Returns the policy's errors that were reported, each with the number of packets dropped because of it.
    ///
    /// # Errors
    /// [`LateShard`] if a shard does not answer in time.
    pub fn policy_errors(&self) -> Result<BTreeMap<Arc<str>, u64>, LateShard> {
        Ok(sums(self.handle.query_all(ShardQuery::Failures)?))
    }

    /// Returns how often handlers and listeners failed. Each distinct error was reported.
    pub fn handler_failures(&self) -> u64 {
        self.handle.shared.notices.handler_failures()
    }
}

/// Adds up the counts of all shards.
fn sums<K: Ord>(counts: Vec<impl IntoIterator<Item = (K, u64)>>) -> BTreeMap<K, u64> {
    let mut sums = BTreeMap::new();
    for (key, count) in counts.into_iter().flatten() {
        *sums.entry(key).or_default() += count;
    }
    sums
}
