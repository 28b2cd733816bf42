//! The policy that runs: for people, and for the next start.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::fingerprint::Fingerprint;

/// A policy by its name and the contents of its files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyIdentity {
    /// Its name, as for `maple run`, with the whole path of its file.
    pub name: String,
    /// The fingerprint of its files when it was loaded.
    pub hash: Fingerprint,
}

/// The way in which a policy came to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BroughtBy {
    /// The start of the controller, for which the command line or the configuration named it.
    Start,
    /// A start that went on with the policy that ran before.
    Resumption,
    /// A reload: by `maple reload`, a signal, or because a file had changed.
    Reload,
    /// `maple apply`.
    Apply,
    /// `maple rollback`.
    Rollback,
}

/// The policy that runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyRecord {
    /// Its name and fingerprint.
    #[serde(flatten)]
    pub policy: PolicyIdentity,
    /// The time when it came to run, in seconds since 1970.
    pub since: u64,
    /// The way in which it came to run.
    pub by: BroughtBy,
    /// The policy that the command line and the configuration named when it came to run: a start would have run this
    /// one.
    pub configured: PolicyIdentity,
    /// Another policy, which decides at some switches.
    #[serde(default)]
    pub canary: Option<String>,
    /// Whether a start went on with it, and it has not yet run for long enough to show that it can.
    #[serde(default, rename = "on_trial")]
    pub is_on_trial: bool,
}

impl PolicyRecord {
    /// Creates the record of a policy that begins to run.
    pub fn new(policy: PolicyIdentity, by: BroughtBy, configured: PolicyIdentity) -> PolicyRecord {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        PolicyRecord { policy, since, by, configured, canary: None, is_on_trial: false }
    }

    /// Reports whether a start would have run another policy, or another version of its files.
    pub fn was_chosen_later(&self) -> bool {
        self.policy != self.configured
    }
}

impl fmt::Display for PolicyIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name, self.hash.short())
    }
}

impl fmt::Display for BroughtBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BroughtBy::Start => "the start",
            BroughtBy::Resumption => "a start with --resume-applied",
            BroughtBy::Reload => "a reload",
            BroughtBy::Apply => "`maple apply`",
            BroughtBy::Rollback => "`maple rollback`",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_says_whether_a_start_would_have_run_another_policy() {
        let identity =
            |name: &str, content: &str| PolicyIdentity { name: name.into(), hash: Fingerprint::from_parts([content]) };
        let (old, new) = (identity("/a.yaml", "a"), identity("/b.yaml", "b"));
        assert!(!PolicyRecord::new(old.clone(), BroughtBy::Start, old.clone()).was_chosen_later());
        let applied = PolicyRecord::new(new, BroughtBy::Apply, old.clone());
        assert!(applied.was_chosen_later());
        assert!(PolicyRecord::new(identity("/a.yaml", "before"), BroughtBy::Rollback, old).was_chosen_later());
        let text = serde_json::to_string(&applied).expect("numbers and text");
        assert_eq!(serde_json::from_str::<PolicyRecord>(&text).expect("the same form"), applied);
    }
}
