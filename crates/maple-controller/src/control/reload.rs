//! Reload: another policy takes the place of the one that runs.
//!
//! [`Handle::reload`] tries a policy on the witness packets of all leaves, and adopts it if that went well. Only the
//! program can load a policy by its name. So a request on the control socket waits in a queue
//! ([`Operations::ask_for_reload`]) until the program, which serves it ([`Operations::serve_reloads`]), has answered.
//!
//! [`Operations::rehearsal`] copies the engines. A [`Plan`] says what a policy would change there.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use crossbeam_channel::{Receiver, Sender, bounded};
use maple_core::engine::{Candidate, Event, Rehearsal, Rehearsed, Trial};
use maple_core::policy::Policy;
use maple_core::state::VersionError;
use maple_wire::{Dpid, counted};
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::plan::{Fingerprint, Plan};
use super::queries::LateShard;
use super::schema::{percent, some};
use super::{Handle, Operations};
use crate::names::Names;
use crate::shard::mailbox::{ShardMessage, ShardQuery};
use crate::storage::history::Changer;

/// The time that the switches may take to confirm the new rules. Chosen: people wait for it, and a switch that takes
/// longer is named as not settled.
const SETTLE: Duration = Duration::from_secs(10);
/// The time that the program may take to load a policy. Chosen: Python modules with large lists take many seconds; a
/// module that never returns must not keep the next reload waiting for ever.
const LOAD: Duration = Duration::from_secs(60);
/// The maximum number of requests that wait. Chosen: people do not reload more often, and a program that does hears
/// to try again later.
const MAX_WAITING: usize = 4;

/// The number of packets on which a policy may fail in its trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum Tolerance {
    /// The maximum number of packets.
    Count(u64),
    /// The maximum share of the packets, in per cent.
    Percent(
        #[serde(deserialize_with = "percent::<0, _>")]
        #[schemars(range(max = 100))]
        u8,
    ),
}

/// The ingress switches where a new policy decides first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum CanaryAt {
    /// The listed switches (hex digits).
    Switches(
        #[serde(deserialize_with = "some")]
        #[schemars(length(min = 1))]
        Vec<String>,
    ),
    /// A share of the connected switches, in per cent; at least one switch.
    Percent(
        #[serde(deserialize_with = "percent::<1, _>")]
        #[schemars(range(min = 1, max = 100))]
        u8,
    ),
}

impl CanaryAt {
    /// Returns the switches.
    ///
    /// # Errors
    /// A text that says which switch is unknown or not connected.
    pub fn chosen_from(&self, connected: &[Dpid], names: &Names) -> Result<Vec<Dpid>, String> {
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

/// The result of a reload: the new policy runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reloaded {
    /// The trial's result, all shards together.
    pub trial: Trial,
    /// The time from the beginning of the trial until every shard that confirmed it decided by the new policy.
    pub took: Duration,
    /// Whether all switches confirmed the new rules.
    pub is_settled: bool,
    /// The shard that did not confirm in time that it adopted the policy. The policy runs nevertheless: such a shard
    /// decides by the old one until it gets on with its turns, and then by the new one.
    pub unconfirmed: Option<LateShard>,
}

/// The reason why the running policy stays.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReloadError {
    /// The new policy failed on too many packets.
    #[error("the policy stays as it was: the new one fails on {} of {} packets that the network has decided about{}",
        .0.failed, .0.leaves, errors_text(&.0.errors))]
    Failed(Trial),
    /// A shard did not answer in time.
    #[error("the policy stays as it was, and the new one was not tried on all packets: {0}")]
    Late(#[from] LateShard),
    /// The rows of a table cannot be brought to the new policy's version of it.
    #[error("the policy stays as it was: {0}")]
    Version(#[from] VersionError),
    /// The rules of a switch are not known yet, because they are being read from it.
    #[error("the rules of switch {0} are being read: try again in a moment")]
    Unread(Dpid),
}

fn errors_text(errors: &BTreeMap<Arc<str>, usize>) -> String {
    errors.iter().map(|(error, leaves)| format!("\n{}: {error}", counted(leaves, "time"))).collect()
}

/// A task for the program about its policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReloadTask {
    /// Loads a policy, and runs it in the place of the running one.
    Reload {
        /// The policy, as for `maple run`; `None` loads the running policy again.
        policy: Option<String>,
        /// The number of packets, or their share, on which the policy may fail.
        tolerate: Tolerance,
    },
    /// Finds what a policy would change.
    Plan {
        /// The policy, as for `maple run`; `None` means the running policy, loaded again.
        policy: Option<String>,
    },
    /// Makes the changes of a plan, and no others.
    Apply {
        /// The plan's policy.
        policy: String,
        /// The plan's fingerprint of the policy's files.
        sources: Fingerprint,
        /// The plan's fingerprint of the changes.
        changes: Fingerprint,
        /// The plan's decisions ([`Plan::decided`]).
        decided: Option<Vec<String>>,
        /// The ingress switches where the policy decides first; `None`: at all of them.
        canary: Option<CanaryAt>,
    },
    /// Lets a policy that decides at some switches decide everywhere.
    Promote,
    /// Runs the policy again that ran before the last reload.
    Rollback,
}

/// The outcome of a [`ReloadTask`].
#[derive(Debug)]
pub enum ReloadAnswer {
    /// Another policy runs.
    Reloaded {
        /// The result of the reload.
        reloaded: Reloaded,
        /// Warnings about the policy, and about the configuration that was read again with it.
        warnings: Vec<String>,
        /// The keys of that configuration that changed and need a restart.
        restart: Vec<String>,
    },
    /// The plan of a policy that was not adopted.
    Planned(Box<Plan>),
}

/// A request for the program.
#[derive(Debug)]
pub struct ReloadRequest {
    /// The task that the program is to do.
    pub task: ReloadTask,
    /// The one who asks for it.
    pub by: Changer,
    answer: Sender<Result<ReloadAnswer, String>>,
}

impl ReloadRequest {
    /// Answers the request with its outcome, or with the reason why there is none.
    pub fn answer(self, outcome: Result<ReloadAnswer, String>) {
        // The other thread may have stopped waiting.
        drop(self.answer.send(outcome));
    }
}

/// The requests that wait, and the reloads so far.
#[derive(Debug)]
pub(crate) struct ReloadQueue {
    queue: (Sender<ReloadRequest>, Receiver<ReloadRequest>),
    /// Whether the program serves requests.
    is_served: AtomicBool,
    /// The number of the last candidate. Locked during a reload.
    last: Mutex<u64>,
}

impl Default for ReloadQueue {
    fn default() -> ReloadQueue {
        ReloadQueue { queue: bounded(MAX_WAITING), is_served: AtomicBool::new(false), last: Mutex::new(0) }
    }
}

impl Handle {
    /// Tries a policy on the witness packets of all leaves. If it fails on at most `tolerate` of them, it takes the
    /// place of the running one. Leaves on which both policies agree stay as they are, and no packet is lost. Reloads
    /// run one after another.
    ///
    /// The other options that the controller was started with stay: tables and variables, what listeners hear, whether
    /// hosts are tracked.
    ///
    /// # Errors
    /// [`ReloadError`]; the running policy then stays.
    pub fn reload(&self, policy: Arc<dyn Policy>, tolerate: Tolerance) -> Result<Reloaded, ReloadError> {
        self.reload_if(policy, tolerate, || {
            self.distribute(self.shared.store.adopt_versions(true)?);
            Ok(())
        })
    }

    fn reload_if(
        &self,
        policy: Arc<dyn Policy>,
        tolerate: Tolerance,
        prepare: impl FnOnce() -> Result<(), VersionError>,
    ) -> Result<Reloaded, ReloadError> {
        let mut last = self.shared.reloads.last.lock();
        *last += 1;
        let loaded = SystemTime::now();
        let (began, candidate) = (Instant::now(), Candidate { number: *last, policy });
        if let Some(recording) = self.operations().recording() {
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
        let is_settled = unconfirmed.is_none() && self.wait_until_settled(SETTLE).is_ok();
        Ok(Reloaded { trial, took, is_settled, unconfirmed })
    }

    fn abandon(&self, candidate: &Candidate) {
        for mailbox in &self.shared.mailboxes {
            mailbox.send(ShardMessage::Event(Box::new(Event::Abandon(candidate.number))));
        }
    }

    /// Sends every shard a query that may take as long as a reload. Returns the answers in the shards' order.
    fn ask_all<T>(&self, query: impl Fn(Sender<T>) -> ShardQuery) -> Result<Vec<T>, LateShard> {
        self.query_all_within(self.shared.deadlines.reload, query)
    }
}

impl Operations<'_> {
    /// Reloads as [`Handle::reload`] does, but keeps the versions of tables in use. This is for a policy that ran
    /// before, or that decides at some switches only.
    ///
    /// # Errors
    /// [`ReloadError`]; the running policy then stays.
    pub fn reload_in_part(&self, policy: Arc<dyn Policy>, tolerate: Tolerance) -> Result<Reloaded, ReloadError> {
        self.handle.reload_if(policy, tolerate, || Ok(()))
    }

    /// Starts collecting the versions of tables that a candidate policy declares.
    pub fn begin_versions(&self) {
        self.handle.shared.store.begin_versions();
    }

    /// Builds the rows of the table versions that the candidate policy has declared.
    ///
    /// # Errors
    /// [`VersionError`] if rows can't be converted; the policy can't be tried then.
    pub fn migrate(&self) -> Result<(), VersionError> {
        self.handle.distribute(self.handle.shared.store.migrate()?);
        Ok(())
    }

    /// Drops the candidate policy's versions of tables, with the rows that were made for them.
    pub fn refuse_versions(&self) {
        self.handle.distribute(self.handle.shared.store.refuse_versions());
    }

    /// Restores the versions of tables of the policy that ran before, with the rows that they had.
    pub fn roll_back_versions(&self) {
        self.handle.distribute(self.handle.shared.store.roll_back_versions());
    }

    /// Copies the engines, so that a policy can be tried and adopted in the copies without any consequence. Load the
    /// policy in such a way that the writes of its file go to the copies' store ([`Rehearsal::store`]).
    ///
    /// # Errors
    /// [`ReloadError::Late`] if a shard does not answer in time, or [`ReloadError::Unread`] if the rules of a switch
    /// are being read.
    pub fn rehearsal(&self) -> Result<Rehearsal, ReloadError> {
        let copies = self.handle.ask_all(ShardQuery::Copy)?;
        Rehearsal::new(copies).map_err(ReloadError::Unread)
    }

    /// Finds what would change if this policy, which has this name and these files, took the place of the running one.
    ///
    /// # Errors
    /// [`LateShard`] if a shard does not answer in time.
    pub fn plan(
        &self,
        rehearsal: Rehearsal,
        name: String,
        policy: Arc<dyn Policy>,
        sources: Fingerprint,
    ) -> Result<Plan, LateShard> {
        let versions = self.handle.switches()?.into_iter().map(|switch| (switch.dpid, switch.version)).collect();
        Ok(Plan::rehearse(rehearsal, name, policy, sources, versions))
    }

    /// Keeps the label ids of a plan for its labels, until the next plan. Call this just before the policy is reloaded.
    pub fn reserve(&self, rehearsed: &Rehearsed) {
        rehearsed.reserve(&self.handle.shared.store);
    }

    /// Asks the program for a task about its policy, and returns the outcome.
    ///
    /// # Errors
    /// A text that says what is wrong. The running policy then stays.
    pub fn ask_for_reload(&self, task: ReloadTask, by: Changer) -> Result<ReloadAnswer, String> {
        let reloads = &self.handle.shared.reloads;
        if !reloads.is_served.load(Ordering::Acquire) {
            return Err("this program's policy can't be reloaded: start the program again".into());
        }
        let (answer, answered) = bounded(1);
        let request = ReloadRequest { task, by, answer };
        reloads.queue.0.try_send(request).map_err(|_| "other reloads are waiting: try again later")?;
        let late = |_| Err("the policy was not loaded in time".into());
        answered.recv_timeout(LOAD + 3 * self.handle.shared.deadlines.reload + SETTLE).unwrap_or_else(late)
    }

    /// Returns the requests of [`Operations::ask_for_reload`], and enables them. The program answers them.
    pub fn serve_reloads(&self) -> Receiver<ReloadRequest> {
        self.handle.shared.reloads.is_served.store(true, Ordering::Release);
        self.handle.shared.reloads.queue.1.clone()
    }
}
