//! Decides which policy a start runs: the one that it names, or the one that ran before; and reports the choice.
//!
//! # Which one
//!
//! A running controller can take another policy (`maple apply`, `maple reload`, `maple rollback`). If it ends, a start
//! names the policy of the command line or the configuration again, which may undo a deliberate change. With
//! `--resume-applied` the start continues with the policy that ran, unless
//!
//! * the policy that the start names has changed since: the newest intention counts,
//! * the files of the policy that ran have changed: nobody has tried them,
//! * a start has continued with it before and ended within [`TRIAL`]: the policy may be what ends the controller.
//!
//! In each of these cases, and without the option, a warning reports what is undone.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use maple_controller::control::socket::{Request, Show, ask};
use maple_controller::history::{Changer, PolicyAct};
use maple_controller::policy_record::{BroughtBy, PolicyIdentity, PolicyRecord};
use maple_controller::{Handle, last_policy, timestamp};

use super::progress::Lines;
use crate::options::{RunArgs, RunOptions, control_of_controller};
use crate::policy::{absolute, identity};
use crate::service;

/// The time that a controller must run with a policy that it continued with, to show that it can. Chosen: switches have
/// connected and their hosts have sent by then; service managers restart within seconds.
const TRIAL: Duration = Duration::from_secs(60);

/// The policy that a start runs.
pub struct StartPolicy {
    record: PolicyRecord,
    /// The policy that ran before, if it is known already.
    before: Option<PolicyRecord>,
    /// The reason why the start does not continue with it.
    why: Option<&'static str>,
    began: Instant,
}

impl StartPolicy {
    /// Decides for a start that names this policy.
    ///
    /// # Errors
    /// If the state file can't be read.
    pub fn for_start(named: &str, args: &RunArgs) -> anyhow::Result<StartPolicy> {
        let named = identity_or_none(named);
        let before = before(args)?;
        let (mut record, mut why) = (PolicyRecord::new(named.clone(), BroughtBy::Start, named.clone()), None);
        match before.as_ref().filter(|before| args.resume_applied && before.was_chosen_later()) {
            Some(before) => match refusal(before, &named) {
                None => {
                    record = PolicyRecord::new(before.policy.clone(), BroughtBy::Resumption, named);
                    record.is_on_trial = true;
                }
                refused => why = refused,
            },
            None => why = Some("--resume-applied would go on with it"),
        }
        Ok(StartPolicy { record, before, why, began: Instant::now() })
    }

    /// Reports whether the start continues with the policy that ran before.
    pub fn is_resumption(&self) -> bool {
        self.record.by == BroughtBy::Resumption
    }

    /// Returns the name of the chosen policy.
    pub fn name(&self) -> &str {
        &self.record.policy.name
    }

    /// Reports which policy runs, and what that undoes.
    pub fn report(&self, handle: &Handle, lines: &mut Lines) {
        let PolicyRecord { policy, by, .. } = &self.record;
        handle.operations().set_policy(self.record.clone());
        let act = if self.is_resumption() { PolicyAct::Resumption } else { PolicyAct::Start };
        handle.operations().note_policy(act, Changer::Start, policy.clone());
        let before =
            self.before.as_ref().or(handle.operations().policy_before()).filter(|before| before.was_chosen_later());
        let since = |before: &PolicyRecord| {
            let at = std::time::UNIX_EPOCH + Duration::from_secs(before.since);
            format!("since {} by {}", timestamp(at), before.by)
        };
        match before {
            Some(before) if *by == BroughtBy::Resumption => lines.print_event(&format!(
                "policy {policy} runs, as before: {}; the command line or the configuration names {}",
                since(before),
                self.record.configured
            )),
            Some(before) if before.policy != *policy => {
                lines.print_event(&format!("policy {policy} runs"));
                let why = self.why.map(|why| format!("; {why}")).unwrap_or_default();
                lines.print_event(&format!(
                    "warning: this start undoes a change: policy {} ran {}{why}",
                    before.policy,
                    since(before)
                ));
            }
            _ => lines.print_event(&format!("policy {policy} runs")),
        }
        if let Some(canary) = before.and_then(|before| before.canary.as_ref()) {
            lines
                .print_event(&format!("warning: this start undoes a canary: policy {canary} decided at some switches"));
        }
    }

    /// Returns the policy that runs.
    pub fn policy(&self) -> &PolicyIdentity {
        &self.record.policy
    }

    /// Records that another policy runs, while a start would run `configured`.
    pub fn change(&mut self, handle: &Handle, policy: PolicyIdentity, by: BroughtBy, configured: &str) {
        self.record = PolicyRecord::new(policy, by, identity_or_none(configured));
        handle.operations().set_policy(self.record.clone());
    }

    /// Records the policy that decides at some switches, or that there is none.
    pub fn set_canary(&mut self, handle: &Handle, canary: Option<String>) {
        self.record.canary = canary;
        handle.operations().set_policy(self.record.clone());
    }

    /// Ends the trial of the policy that the start continued with, if enough time has passed or if the controller
    /// `ends` in order.
    pub fn look(&mut self, handle: &Handle, ends: bool) {
        if self.record.is_on_trial && (ends || self.began.elapsed() >= TRIAL) {
            self.record.is_on_trial = false;
            handle.operations().set_policy(self.record.clone());
        }
    }
}

/// Returns the identity of a policy with its present content. A policy whose files can't be read has no content.
pub fn identity_or_none(policy: &str) -> PolicyIdentity {
    identity(policy).unwrap_or_else(|_| PolicyIdentity {
        name: absolute(policy).unwrap_or_else(|_| policy.to_owned()),
        hash: maple_controller::control::plan::Fingerprint::from_parts::<&str>([]),
    })
}

/// Returns the reason why a start that names a policy does not continue with the one that ran before.
fn refusal(before: &PolicyRecord, named: &PolicyIdentity) -> Option<&'static str> {
    if before.configured != *named {
        return Some("what the command line or the configuration names has changed since");
    }
    if before.is_on_trial {
        return Some("a start went on with it and ended within a minute");
    }
    (identity_or_none(&before.policy.name) != before.policy).then_some("its files have changed since")
}

/// Returns the policy that ran before, if the start must know it before it loads one.
fn before(args: &RunArgs) -> anyhow::Result<Option<PolicyRecord>> {
    let options = &args.options;
    if options.emulate.is_some() {
        return Ok(None);
    }
    if options.takeover {
        let control = options.control.clone().unwrap_or_else(control_of_controller);
        // If there is no controller, the take-over reports it.
        let answer = ask(&control, &Request::Show(Show::Controller)).unwrap_or_default();
        return Ok(serde_json::from_value(answer["policy"].clone()).unwrap_or_default());
    }
    match state_file(options).filter(|_| args.resume_applied) {
        Some(path) => Ok(last_policy(&path)?),
        None => Ok(None),
    }
}

/// Returns the state file that the command line or the service names.
fn state_file(options: &RunOptions) -> Option<PathBuf> {
    // One of several controllers has none, also where the service manager has a folder for one.
    let service = || service::state_file().filter(|_| options.cluster.cluster.is_none());
    options.state.clone().or_else(service)
}

#[cfg(test)]
mod tests {
    use maple_controller::control::plan::Fingerprint;

    use super::*;

    #[test]
    fn a_start_goes_on_with_what_was_applied_unless_a_newer_intention_or_a_doubt_stands_against_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name).display().to_string();
        let write = |name: &str, text: &str| std::fs::write(path(name), text).expect("it can be written");
        write("old.yaml", "old");
        write("new.yaml", "new");
        let identity_of = |name: &str| identity(&path(name)).expect("it is there");
        let applied = PolicyRecord::new(identity_of("new.yaml"), BroughtBy::Apply, identity_of("old.yaml"));
        assert_eq!(refusal(&applied, &identity_of("old.yaml")), None);
        write("other.yaml", "a list beside them is not part of them");
        assert_eq!(refusal(&applied, &identity_of("old.yaml")), None);
        let doubted = PolicyRecord { is_on_trial: true, ..applied.clone() };
        assert!(refusal(&doubted, &identity_of("old.yaml")).is_some_and(|why| why.contains("within a minute")));
        write("new.yaml", "newer");
        assert_eq!(refusal(&applied, &identity_of("old.yaml")), Some("its files have changed since"));
        write("new.yaml", "new");
        write("old.yaml", "edited");
        assert!(refusal(&applied, &identity_of("old.yaml")).is_some_and(|why| why.contains("has changed since")));
        std::fs::remove_file(path("old.yaml")).expect("it was there");
        assert_eq!(identity_or_none(&path("old.yaml")).hash, Fingerprint::from_parts::<&str>([]), "it is gone");
    }
}
