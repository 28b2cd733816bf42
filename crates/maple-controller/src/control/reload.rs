//! Reload: another policy takes the place of the one that runs.
//!
//! [`Handle::reload`] tries a policy on the witness packets of all leaves, and adopts it if that went well. To load one
//! by its name is the program's business. So a request on the control socket waits in a queue ([`Handle::ask_for_reload`])
//! until the program, which serves it ([`Handle::serve_reloads`]), has answered.
//!
//! [`Handle::rehearsal`] copies the engines. What a policy would change is found there: a [`Plan`].

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use crossbeam_channel::{Receiver, Sender, bounded};
use maple_core::engine::{Candidate, Event, Rehearsal, Rehearsed, Trial};
use maple_core::policy::Policy;
use maple_core::state::VersionError;
use maple_wire::{Dpid, counted};
use serde::{Deserialize, Serialize};

use super::Handle;
use super::plan::{Fingerprint, Plan};
use super::queries::LateShard;
use crate::names::Names;
use crate::shard::mailbox::{ShardMessage, ShardQuery};

/// How long the switches may take to confirm the new rules.
const SETTLE: Duration = Duration::from_secs(10);
/// How long the program may take to load a policy.
const LOAD: Duration = Duration::from_secs(60);
/// The most requests that wait.
const MAX_WAITING: usize = 4;

/// How many of the packets on which a policy is tried it may fail on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Tolerance {
    /// At most so many.
    Count(u64),
    /// At most this share, in per cent.
    Percent(u8),
}

/// The ingress switches where a new policy decides first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CanaryAt {
    /// These switches (hex digits).
    Switches(Vec<String>),
    /// This share of the switches that are connected, in per cent; at least one.
    Percent(u8),
}

impl CanaryAt {
    /// The switches.
    ///
    /// # Errors
    /// A text that names no connected switch, with the reason.
    pub fn of(&self, connected: &[Dpid], names: &Names) -> Result<Vec<Dpid>, String> {
        let named = |text: &String| match names.switch(text) {
            Ok(dpid) if connected.contains(&dpid) => Ok(dpid),
            Ok(dpid) => Err(format!("switch {dpid} is not connected")),
            Err(error) => Err(error),
        };
        match self {
            CanaryAt::Switches(all) => all.iter().map(named).collect(),
            CanaryAt::Percent(percent) => {
                let count = (connected.len() * usize::from(*percent)).div_ceil(100);
                Ok(connected.iter().take(count).copied().collect())
            }
        }
    }
}

/// A policy took the place of another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reloaded {
    /// How the trial went, all shards together.
    pub trial: Trial,
    /// The time from the beginning of the trial until every shard that confirmed it decided by the new policy.
    pub took: Duration,
    /// Whether all switches confirmed the new rules.
    pub is_settled: bool,
    /// A shard that did not confirm in time that it adopted the policy. The policy runs nevertheless: each shard decides
    /// by the old one until it goes on, and then by the new one.
    pub unconfirmed: Option<LateShard>,
}

/// Why the policy that runs stays.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReloadError {
    /// The new policy failed on too many packets.
    #[error("the policy stays as it was: the new one fails on {} of {} packets that the network has decided about{}",
        .0.failed, .0.leaves, listed(&.0.errors))]
    Failed(Trial),
    /// A shard did not answer in time.
    #[error("the policy stays as it was, and the new one was not tried on all packets: {0}")]
    Late(#[from] LateShard),
    /// The rows of a table cannot be brought to the new policy's version of it.
    #[error("the policy stays as it was: {0}")]
    Version(#[from] VersionError),
    /// The rules of a switch are not known, because it was asked for them just now.
    #[error("the rules of switch {0} are being read: try again in a moment")]
    Unread(Dpid),
}

fn listed(errors: &BTreeMap<Arc<str>, usize>) -> String {
    errors.iter().map(|(error, leaves)| format!("\n{}: {error}", counted(leaves, "time"))).collect()
}

/// What the program is asked to do about its policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReloadTask {
    /// Load a policy, and run it instead of the one that runs.
    Reload {
        /// The policy, as for `maple run`; `None` loads the one that runs again.
        policy: Option<String>,
        /// On how many packets it may fail.
        tolerate: Tolerance,
    },
    /// Say what that would change.
    Plan {
        /// The policy, likewise.
        policy: Option<String>,
    },
    /// Do what a plan says, and nothing else.
    Apply {
        /// The plan's policy.
        policy: String,
        /// What the plan says about the policy's files.
        sources: Fingerprint,
        /// What the plan says about the changes.
        changes: Fingerprint,
        /// What the plan decides, as [`Plan::decided`] says.
        decided: Option<Vec<String>>,
        /// Where packets enter that the policy decides first; `None`: everywhere.
        canary: Option<CanaryAt>,
    },
    /// Let a policy that decides at some switches decide everywhere.
    Rest,
    /// Run the policy again that ran before the last reload.
    Rollback,
}

/// What came of a [`ReloadTask`].
#[derive(Debug)]
pub enum ReloadAnswer {
    /// Another policy runs.
    Reloaded {
        /// How that went.
        reloaded: Reloaded,
        /// Warnings about the policy, and about the configuration that was read again with it.
        warnings: Vec<String>,
        /// The keys of that configuration that changed and need a restart.
        restart: Vec<String>,
    },
    /// What would change.
    Planned(Box<Plan>),
}

/// A request to the program.
#[derive(Debug)]
pub struct ReloadRequest {
    /// What it is asked for.
    pub task: ReloadTask,
    answer: Sender<Result<ReloadAnswer, String>>,
}

impl ReloadRequest {
    /// Answers the request: what came of it, or why nothing did.
    pub fn answer(self, outcome: Result<ReloadAnswer, String>) {
        // The other thread may have stopped waiting.
        drop(self.answer.send(outcome));
    }
}

/// The requests that wait, and the reloads so far.
#[derive(Debug)]
pub(crate) struct Reloads {
    queue: (Sender<ReloadRequest>, Receiver<ReloadRequest>),
    /// Whether the program serves requests.
    is_served: AtomicBool,
    /// The number of the last candidate. Locked during a reload.
    last: Mutex<u64>,
}

impl Default for Reloads {
    fn default() -> Reloads {
        Reloads { queue: bounded(MAX_WAITING), is_served: AtomicBool::new(false), last: Mutex::new(0) }
    }
}

impl Handle {
    /// Tries a policy on the witness packets of all leaves. If it fails on no more than `tolerate`, it takes the place of
    /// the one that runs: leaves for which it says the same stay as they are, and no packet is lost. Reloads come one
    /// after the other.
    ///
    /// What the controller was started with besides the policy stays: tables and variables, what listeners hear, whether
    /// hosts are tracked.
    ///
    /// # Errors
    /// [`ReloadError`]; the policy that runs stays.
    pub fn reload(&self, policy: Arc<dyn Policy>, tolerate: Tolerance) -> Result<Reloaded, ReloadError> {
        self.reload_if(policy, tolerate, || {
            self.committed(self.shared.store.adopt_versions(true)?);
            Ok(())
        })
    }

    /// The same, but the versions of tables in use stay: this policy is one that ran before, or decides at some switches
    /// only.
    ///
    /// # Errors
    /// As [`Handle::reload`].
    pub fn reload_in_part(&self, policy: Arc<dyn Policy>, tolerate: Tolerance) -> Result<Reloaded, ReloadError> {
        self.reload_if(policy, tolerate, || Ok(()))
    }

    fn reload_if(
        &self,
        policy: Arc<dyn Policy>,
        tolerate: Tolerance,
        prepare: impl FnOnce() -> Result<(), VersionError>,
    ) -> Result<Reloaded, ReloadError> {
        let mut last = self.shared.reloads.last.lock().unwrap_or_else(PoisonError::into_inner);
        *last += 1;
        let loaded = SystemTime::now();
        let (began, candidate) = (Instant::now(), Candidate { number: *last, policy });
        if let Some(recording) = self.recording() {
            recording.note_candidate(candidate.number, &candidate.policy);
        }
        let trials = self.ask_all(|to| ShardQuery::Try(candidate.clone(), to));
        let trials = trials.inspect_err(|_| self.abandon(&candidate))?;
        let trial = trials.into_iter().fold(Trial::default(), |mut all, trial| {
            all += trial;
            all
        });
        let (failed, leaves) = (trial.failed as u64, trial.leaves as u64);
        let is_tolerated = match tolerate {
            Tolerance::Count(count) => failed <= count,
            Tolerance::Percent(percent) => failed * 100 <= leaves * u64::from(percent),
        };
        if !is_tolerated {
            self.abandon(&candidate);
            return Err(ReloadError::Failed(trial));
        }
        if let Err(error) = prepare() {
            self.abandon(&candidate);
            return Err(error.into());
        }
        // From here on nothing leads back: the shards have it in their mailboxes.
        let unconfirmed = self.ask_all(|to| ShardQuery::Adopt(candidate.clone(), to)).err();
        self.shared.about.set_policy_loaded(loaded);
        let took = began.elapsed();
        let is_settled = unconfirmed.is_none() && self.settled(SETTLE);
        Ok(Reloaded { trial, took, is_settled, unconfirmed })
    }

    /// What is declared from now on is of a policy that is to be tried.
    pub fn begin_versions(&self) {
        self.shared.store.begin_versions();
    }

    /// Makes the rows of the versions of tables that the policy which is to be tried has declared.
    ///
    /// # Errors
    /// [`VersionError`]; the policy can't be tried then.
    pub fn migrate(&self) -> Result<(), VersionError> {
        self.committed(self.shared.store.migrate()?);
        Ok(())
    }

    /// The policy that was to be tried does not run. The rows that were made for it are gone.
    pub fn refuse_versions(&self) {
        self.committed(self.shared.store.refuse_versions());
    }

    /// The policy that ran before runs again, with its versions of tables and the rows that they had.
    pub fn roll_back_versions(&self) {
        self.committed(self.shared.store.roll_back_versions());
    }

    /// Copies of the engines, in which a policy can be tried and adopted without any consequence. The policy is to be
    /// loaded while what its file writes goes to the copies' store ([`Rehearsal::store`]).
    ///
    /// # Errors
    /// [`ReloadError::Late`], or [`ReloadError::Unread`].
    pub fn rehearsal(&self) -> Result<Rehearsal, ReloadError> {
        let copies = self.ask_all(ShardQuery::Copy)?;
        Rehearsal::new(copies).map_err(ReloadError::Unread)
    }

    /// What would change if this policy, which has these files, took the place of the one that runs.
    ///
    /// # Errors
    /// [`LateShard`].
    pub fn plan(
        &self,
        rehearsal: Rehearsal,
        policy: (String, Arc<dyn Policy>),
        sources: Fingerprint,
    ) -> Result<Plan, LateShard> {
        let versions = self.switches()?.into_iter().map(|switch| (switch.dpid, switch.version)).collect();
        Ok(Plan::rehearse(rehearsal, policy, sources, versions))
    }

    /// Keeps the label ids of a plan for its labels, until the next plan. To be called just before the policy is reloaded.
    pub fn reserve(&self, rehearsed: &Rehearsed) {
        rehearsed.reserve(&self.shared.store);
    }

    fn abandon(&self, candidate: &Candidate) {
        for mailbox in &self.shared.mailboxes {
            mailbox.send(ShardMessage::Event(Box::new(Event::Abandon(candidate.number))));
        }
    }

    /// Asks the program to do something about its policy, and returns what came of it.
    ///
    /// # Errors
    /// What is wrong, as text. The policy that runs stays.
    pub fn ask_for_reload(&self, task: ReloadTask) -> Result<ReloadAnswer, String> {
        let reloads = &self.shared.reloads;
        if !reloads.is_served.load(Ordering::Acquire) {
            return Err("this program's policy can't be reloaded: start the program again".into());
        }
        let (answer, answered) = bounded(1);
        let request = ReloadRequest { task, answer };
        reloads.queue.0.try_send(request).map_err(|_| "other reloads are waiting: try again later")?;
        let late = |_| Err("the policy was not loaded in time".into());
        answered.recv_timeout(LOAD + 3 * self.shared.deadlines.reload + SETTLE).unwrap_or_else(late)
    }

    /// The requests of [`Handle::ask_for_reload`], for the program that answers them.
    pub fn serve_reloads(&self) -> Receiver<ReloadRequest> {
        self.shared.reloads.is_served.store(true, Ordering::Release);
        self.shared.reloads.queue.1.clone()
    }

    /// Sends every shard a query that may take as long as a reload. Returns the answers in the shards' order.
    fn ask_all<T>(&self, query: impl Fn(Sender<T>) -> ShardQuery) -> Result<Vec<T>, LateShard> {
        self.query_all_within(self.shared.deadlines.reload, query)
    }
}
