//! Reloads: on request, on SIGHUP, and when the policy's files or the configuration have changed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{anyhow, bail};
use crossbeam_channel::Receiver;
use maple_controller::control::plan::{Fingerprint, Plan};
use maple_controller::control::reload::{ReloadAnswer, ReloadRequest, ReloadTask, Reloaded};
use maple_controller::control::socket::{CanaryAt, Tolerance};
use maple_controller::history::{Changer, PolicyAct};
use maple_controller::policy_record::{BroughtBy, PolicyIdentity};
use maple_controller::snoop::Snooping;
use maple_controller::{ControllerOptions, Handle, check_versions};
use maple_core::compose::Canary;
use maple_core::engine::Trial;
use maple_core::policy::Policy;
use maple_core::state::Write;
use maple_wire::{Dpid, counted};

use super::progress::Lines;
use super::reconfigure::{Reconfigured, Reconfiguring};
use super::start_policy::{StartPolicy, identity_or_none};
use crate::builtin;
use crate::options::{RunArgs, RunOptions};
use crate::policy::{Loaded, PolicyLoader, PolicyName, load_again, load_aside, newest, source, sources, suspicions};
use crate::{service, signal};

/// The minimum time between two checks whether files have changed. Chosen: a person who saves a file sees it loaded at
/// once, and a policy may have many files.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// The parameters for loading the policy of `maple run` again.
pub struct ReloadSettings<'a> {
    policy: String,
    /// The policy that the command line and the configuration named when it was loaded last.
    configured: String,
    start_policy: StartPolicy,
    limit: Duration,
    loader: Option<&'a dyn PolicyLoader>,
    /// Whether changed files are detected.
    watches: bool,
}

/// The state of reloads: how to load the policy, which one runs, and which ran before.
pub struct ReloadState<'a> {
    settings: ReloadSettings<'a>,
    options: &'a RunOptions,
    // A setting that only a restart can change.
    track_hosts: bool,
    snooping: Snooping,
    /// The configuration, if there is one.
    reconfiguring: Option<Reconfiguring>,
    /// Whether a SIGHUP has come.
    hangup: Arc<AtomicBool>,
    /// The latest change of the policy's files when it was loaded.
    newest: Option<SystemTime>,
    /// The running policy.
    current: Arc<dyn Policy>,
    /// The policy that ran before, with its name.
    former: Option<(String, Arc<dyn Policy>, PolicyIdentity)>,
    /// A policy that decides at some switches only, with the tolerance for failing packets.
    canary: Option<(Arc<dyn Policy>, Tolerance, PolicyIdentity)>,
}

/// Serves reloads of a running controller.
pub struct ReloadService<'a> {
    state: ReloadState<'a>,
    handle: Handle,
    requests: Receiver<ReloadRequest>,
    /// The one who asks for the reload in progress.
    by: Changer,
    looked: Instant,
}

impl<'a> ReloadSettings<'a> {
    /// Creates the parameters for `policy`. `named`: the policy that the start names.
    pub fn new(
        policy: &str,
        named: &str,
        start_policy: StartPolicy,
        args: &RunArgs,
        loader: Option<&'a dyn PolicyLoader>,
    ) -> ReloadSettings<'a> {
        let (policy, configured) = (policy.to_owned(), named.to_owned());
        ReloadSettings { policy, configured, start_policy, limit: args.policy_time_limit, loader, watches: args.watch }
    }

    /// Returns the policy's name.
    pub fn policy(&self) -> &str {
        &self.policy
    }

    /// Prepares reloads of a controller with these options.
    ///
    /// # Errors
    /// If the signal handler can't be installed.
    pub fn under(
        self,
        options: &'a RunOptions,
        chosen: &ControllerOptions,
        reconfiguring: Option<Reconfiguring>,
    ) -> anyhow::Result<ReloadState<'a>> {
        let (track_hosts, snooping) = (chosen.engine.track_hosts, chosen.snooping.clone());
        let (hangup, newest) = (signal::hangup_flag()?, newest(&self.policy));
        let current = Arc::clone(&chosen.policy);
        Ok(ReloadState {
            settings: self,
            options,
            track_hosts,
            snooping,
            reconfiguring,
            hangup,
            newest,
            current,
            former: None,
            canary: None,
        })
    }
}

impl<'a> ReloadState<'a> {
    /// Serves reloads of a running controller.
    pub fn serve(self, handle: &Handle) -> ReloadService<'a> {
        ReloadService {
            state: self,
            handle: handle.clone(),
            requests: handle.operations().serve_reloads(),
            by: Changer::Start,
            looked: Instant::now(),
        }
    }
}

impl ReloadService<'_> {
    /// Reloads if that is requested or due.
    pub fn look(&mut self, lines: &mut Lines) {
        while let Ok(request) = self.requests.try_recv() {
            self.by = request.by.clone();
            let outcome = match request.task.clone() {
                ReloadTask::Reload { policy, tolerate } => self.reload_all(policy, tolerate, lines),
                ReloadTask::Plan { policy } => {
                    let name = policy.unwrap_or_else(|| self.state.settings.policy.clone());
                    let plan =
                        self.plan(&name).map(|plan| plan.with_warnings(suspicions(&name, self.state.settings.loader)));
                    plan.map(|plan| ReloadAnswer::Planned(Box::new(plan))).map_err(|error| format!("{error:#}"))
                }
                ReloadTask::Apply { policy, sources, changes, decided, canary } => {
                    let applied = self.apply(policy, &sources, &changes, decided.as_deref(), canary.as_ref(), lines);
                    applied.map_err(|error| format!("{error:#}"))
                }
                ReloadTask::Promote => self.promote(lines),
                ReloadTask::Rollback => self.roll_back(lines),
            };
            request.answer(outcome);
        }
        self.state.settings.start_policy.look(&self.handle, false);
        let has_changed = self.state.settings.watches && self.has_changed();
        let is_signalled = self.state.hangup.swap(false, Ordering::SeqCst);
        if is_signalled || has_changed {
            self.by = if is_signalled { Changer::Signal } else { Changer::Files };
            service::notify("RELOADING=1");
            // `reload_all` has printed the outcome.
            drop(self.reload_all(None, Tolerance::Count(0), lines));
            service::notify("READY=1");
        }
    }

    /// Prints which policy runs.
    pub fn report_policy(&self, lines: &mut Lines) {
        self.state.settings.start_policy.report(&self.handle, lines);
    }

    /// Records that the controller ends in order.
    pub fn end(&mut self) {
        self.state.settings.start_policy.look(&self.handle, true);
    }

    /// Records that this policy runs.
    fn runs(&mut self, policy: PolicyIdentity, by: BroughtBy, act: PolicyAct) {
        self.handle.operations().note_policy(act, self.by.clone(), policy.clone());
        let ReloadSettings { configured, start_policy, .. } = &mut self.state.settings;
        start_policy.change(&self.handle, policy, by, configured);
    }

    fn has_changed(&mut self) -> bool {
        if self.looked.elapsed() < CHECK_INTERVAL {
            return false;
        }
        self.looked = Instant::now();
        let newest = newest(&self.state.settings.policy);
        // A file that is being replaced may be missing for a moment.
        newest.is_some() && newest != self.state.newest
            || self.state.reconfiguring.as_ref().is_some_and(Reconfiguring::has_changed)
    }

    /// Reads the configuration again, and then the policy, unless something is wrong with the configuration.
    fn reload_all(
        &mut self,
        policy: Option<String>,
        tolerate: Tolerance,
        lines: &mut Lines,
    ) -> Result<ReloadAnswer, String> {
        let is_canary = self.state.canary.is_some();
        let Some(reconfiguring) = self.state.reconfiguring.as_mut().filter(|_| !is_canary) else {
            return self.reload(policy, tolerate, None, BroughtBy::Reload, lines);
        };
        let Reconfigured { args, restart, warnings } = match reconfiguring.apply(&self.handle, lines) {
            Ok(configured) => configured,
            Err(error) => {
                self.state.newest = newest(&self.state.settings.policy);
                return Err(not_read_again(&error, lines));
            }
        };
        (self.state.settings.limit, self.state.settings.watches) = (args.policy_time_limit, args.watch);
        let named = args.policy.unwrap_or_default();
        // Another policy than the configuration's may run until the configuration names another one.
        let policy = policy.or_else(|| (named != self.state.settings.configured).then(|| named.clone()));
        // From this moment a start would name the new policy.
        let configured = std::mem::replace(&mut self.state.settings.configured, named);
        let mut answer = self.reload(policy, tolerate, None, BroughtBy::Reload, lines).inspect_err(|_| {
            // A policy that was not loaded is not watched.
            self.state.newest = newest(&self.state.settings.policy);
            self.state.settings.configured = configured;
        })?;
        if let ReloadAnswer::Reloaded { warnings: all, restart: keys, .. } = &mut answer {
            all.splice(0..0, warnings);
            *keys = restart;
        }
        Ok(answer)
    }

    fn reload(
        &mut self,
        policy: Option<String>,
        tolerate: Tolerance,
        canary: Option<&[Dpid]>,
        by: BroughtBy,
        lines: &mut Lines,
    ) -> Result<ReloadAnswer, String> {
        let name = policy.unwrap_or_else(|| self.state.settings.policy.clone());
        self.state.newest = newest(&name);
        let (warnings, identity) = (suspicions(&name, self.state.settings.loader), identity_or_none(&name));
        let outcome = self.try_reload(&name, &identity, tolerate, canary).map_err(|error| format!("{error:#}"));
        match &outcome {
            Ok(reloaded) => {
                let at =
                    canary.map(|switches| format!(" for {}", counted(switches.len(), "switch"))).unwrap_or_default();
                report(&format!("policy {name} reloaded{at}"), reloaded, lines);
                match canary {
                    None => {
                        let act = if by == BroughtBy::Apply { PolicyAct::Apply } else { PolicyAct::Reload };
                        self.runs(identity, by, act);
                    }
                    Some(_) => {
                        self.handle.operations().note_policy(PolicyAct::Canary, self.by.clone(), identity.clone());
                        self.state.settings.start_policy.set_canary(&self.handle, Some(identity.name));
                    }
                }
                self.state.settings.policy = name;
            }
            Err(error) => lines.print_event(&format!("warning: policy {name} not reloaded: {error}")),
        }
        outcome.map(|reloaded| answer_of(reloaded, warnings))
    }

    fn try_reload(
        &mut self,
        name: &str,
        identity: &PolicyIdentity,
        tolerate: Tolerance,
        canary: Option<&[Dpid]>,
    ) -> anyhow::Result<Reloaded> {
        self.check_no_canary()?;
        self.check_for_cluster(name)?;
        let ReloadSettings { limit, loader, .. } = self.state.settings;
        self.handle.operations().begin_versions();
        let loaded = load_again(name, limit, loader).inspect_err(|_| self.handle.operations().refuse_versions())?;
        let reloaded = self.fitting(loaded).and_then(|policy| {
            self.handle.operations().migrate()?;
            if matches!(PolicyName::parse(name), PolicyName::Builtin(_)) {
                self.handle.change(vec![Write::CostName(builtin::COSTS.into())])?;
            }
            let runs: Arc<dyn Policy> = match canary {
                None => Arc::clone(&policy),
                Some(switches) => {
                    let old = Arc::clone(&self.state.current);
                    Arc::new(Canary::new(old, Arc::clone(&policy), switches.iter().copied()))
                }
            };
            self.note_source(name, &policy, canary.map(|switches| (&runs, switches)));
            let reloaded = match canary {
                None => self.handle.reload(Arc::clone(&runs), tolerate)?,
                Some(_) => self.handle.operations().reload_in_part(Arc::clone(&runs), tolerate)?,
            };
            Ok((reloaded, policy, runs))
        });
        match (&reloaded, loader) {
            (Ok(_), Some(loader)) => loader.adopted(),
            (Err(_), Some(loader)) => loader.refused(),
            (_, None) => {}
        }
        if reloaded.is_err() {
            self.handle.operations().refuse_versions();
        }
        let (reloaded, policy, runs) = reloaded?;
        let former = std::mem::replace(&mut self.state.current, runs);
        let ran = self.state.settings.start_policy.policy().clone();
        self.state.former = Some((self.state.settings.policy.clone(), former, ran));
        self.state.canary = canary.map(|_| (policy, tolerate, identity.clone()));
        Ok(reloaded)
    }

    fn check_no_canary(&self) -> anyhow::Result<()> {
        match self.state.canary {
            None => Ok(()),
            Some(_) => {
                bail!("another policy decides at some switches: `maple apply --promote` or `maple rollback` come first")
            }
        }
    }

    /// Checks that a controller of a cluster can run a policy: one without versions of tables. It is loaded aside for
    /// that, since what a policy declares stays declared.
    fn check_for_cluster(&self, name: &str) -> anyhow::Result<()> {
        if self.handle.role().is_none() {
            return Ok(());
        }
        let ReloadSettings { limit, loader, .. } = self.state.settings;
        let aside = self.handle.store().copy();
        drop(load_aside(&aside, name, limit, loader)?);
        loader.into_iter().for_each(PolicyLoader::refused);
        Ok(check_versions(&aside)?)
    }

    /// Plans the changes that a policy would make. Writes that its file makes while it is loaded stay in the rehearsal.
    fn plan(&self, name: &str) -> anyhow::Result<Plan> {
        let ReloadSettings { limit, loader, .. } = self.state.settings;
        // Files that change meanwhile are detected when the plan is applied.
        let (sources, rehearsal) = (sources(name)?, self.handle.operations().rehearsal()?);
        let loaded = load_aside(rehearsal.store(), name, limit, loader)?;
        let policy = self.fitting(loaded).and_then(|policy| {
            if self.handle.role().is_some() {
                check_versions(rehearsal.store())?;
            }
            // No leaf depends on rows of another version.
            drop(rehearsal.store().migrate()?);
            Ok(policy)
        });
        let plan =
            policy.and_then(|policy| Ok(self.handle.operations().plan(rehearsal, name.to_owned(), policy, sources)?));
        loader.into_iter().for_each(PolicyLoader::refused);
        plan
    }

    /// Applies a plan, identified by its files, changes and decisions, unless a later change matters for it; with
    /// `canary` at some switches only, for the time being.
    fn apply(
        &mut self,
        name: String,
        files: &Fingerprint,
        changes: &Fingerprint,
        decided: Option<&[String]>,
        canary: Option<&CanaryAt>,
        lines: &mut Lines,
    ) -> anyhow::Result<ReloadAnswer> {
        self.check_no_canary()?;
        let connected: Vec<Dpid> = self.handle.switches()?.iter().map(|switch| switch.dpid).collect();
        let canary = canary
            .map(|canary| canary.chosen_from(&connected, &self.handle.names()))
            .transpose()
            .map_err(|error| anyhow!(error))?;
        let plan = self.plan(&name)?;
        if plan.sources() != files {
            bail!("not applied: {name}, or a file beside it, has changed since the plan was made; plan again");
        }
        let mut since = Vec::new();
        if plan.changes() != *changes {
            const MOVED_ON: &str = "not applied: the network has changed since the plan was made";
            let Some(decided) = decided else {
                bail!("{MOVED_ON}, and the plan does not say what it decides; plan again")
            };
            since = plan.goes_beyond(decided).map_err(|what| anyhow!("{MOVED_ON}: {what}; plan again"))?;
        }
        self.handle.operations().reserve(plan.rehearsed());
        // The plan states the number of packets on which it fails.
        let failed = Tolerance::Count(plan.rehearsed().trial.failed as u64);
        let applied = self.reload(Some(name), failed, canary.as_deref(), BroughtBy::Apply, lines);
        applied.map(|answer| with_packets_since(answer, &since)).map_err(|error| anyhow!(error))
    }

    /// Records in the recording, if there is one, the source of a policy that is about to run, everywhere or at some
    /// switches.
    fn note_source(&self, name: &str, policy: &Arc<dyn Policy>, canary: Option<(&Arc<dyn Policy>, &[Dpid])>) {
        let Some(recording) = self.handle.operations().recording() else { return };
        let named = source(name).and_then(|source| Ok(recording.name_policy(policy, &source)?));
        if let Err(error) = named {
            return recording.fail(&format!("the files of {name}: {error:#}"));
        }
        if let Some((runs, switches)) = canary {
            recording.name_canary(runs, (&self.state.current, policy), switches);
        }
    }

    /// Lets the policy that decides at some switches decide everywhere. A rollback still returns to the policy before
    /// it.
    fn promote(&mut self, lines: &mut Lines) -> Result<ReloadAnswer, String> {
        let Some((policy, tolerate, identity)) = self.state.canary.clone() else {
            return Err("there is nothing to promote: no policy was applied with --canary or --percent".into());
        };
        let reloaded = self.handle.reload(Arc::clone(&policy), tolerate).map_err(|error| error.to_string())?;
        report(&format!("policy {} runs everywhere", self.state.settings.policy), &reloaded, lines);
        (self.state.current, self.state.canary) = (policy, None);
        self.runs(identity, BroughtBy::Apply, PolicyAct::Promote);
        Ok(answer_of(reloaded, Vec::new()))
    }

    /// Runs the policy before the last reload again, however many packets it fails on.
    fn roll_back(&mut self, lines: &mut Lines) -> Result<ReloadAnswer, String> {
        let Some((name, former, identity)) = self.state.former.clone() else {
            return Err("there is nothing to roll back: one step back is kept, and either it was taken, or no policy took the place of \
                 another since the start".into());
        };
        let reloaded = self
            .handle
            .operations()
            .reload_in_part(Arc::clone(&former), Tolerance::Percent(100))
            .map_err(|error| error.to_string())?;
        match self.state.canary {
            Some(_) => self.handle.operations().refuse_versions(),
            None => self.handle.operations().roll_back_versions(),
        }
        self.state.settings.loader.into_iter().for_each(PolicyLoader::rolled_back);
        report(&format!("policy {name} runs again"), &reloaded, lines);
        (self.state.current, self.state.former, self.state.canary) = (former, None, None);
        self.state.newest = newest(&name);
        self.state.settings.policy = name;
        self.runs(identity, BroughtBy::Rollback, PolicyAct::Rollback);
        Ok(answer_of(reloaded, Vec::new()))
    }

    /// Returns the policy, unless it needs something that only a restart can change.
    fn fitting(&self, loaded: Loaded) -> anyhow::Result<Arc<dyn Policy>> {
        let Loaded::Policy(loaded) = loaded else { bail!("handlers can't take the place of a policy") };
        if self.state.options.track_hosts.is_none() && loaded.engine.track_hosts != self.state.track_hosts {
            bail!(
                "it was made for {}, which needs a new start",
                if loaded.engine.track_hosts { "a network whose hosts are tracked" } else { "track_hosts=False" }
            );
        }
        let RunOptions { snoop, querier, .. } = self.state.options;
        let servers = self.state.options.dhcp_servers()?;
        let snooping = loaded.snooping.with_names(snoop, &servers, *querier).map_err(|error| anyhow!("{error}"))?;
        if snooping != self.state.snooping {
            bail!("it snoops on other packets than the policy that runs, which needs a new start");
        }
        Ok(loaded.policy)
    }
}

/// Prints the outcome of a reload.
fn report(what: &str, Reloaded { trial, unconfirmed, .. }: &Reloaded, lines: &mut Lines) {
    let Trial { same, leaves, failed, .. } = trial;
    lines.print_event(&format!("{what}: {same} of {leaves} packets are decided as before, {failed} fail"));
    if let Some(late) = unconfirmed {
        lines.print_event(&format!("warning: {late}, and decides by that policy as soon as it goes on"));
    }
}

fn answer_of(reloaded: Reloaded, warnings: Vec<String>) -> ReloadAnswer {
    ReloadAnswer::Reloaded { reloaded, warnings, restart: Vec::new() }
}

/// Adds warnings about packets that came since the plan was made, and whose decisions change too.
fn with_packets_since(mut answer: ReloadAnswer, since: &[String]) -> ReloadAnswer {
    /// The maximum number of packets that a warning names. Chosen: they fit a screen; the number of the others follows.
    const MAX_LISTED: usize = 10;
    if let ReloadAnswer::Reloaded { warnings, .. } = &mut answer {
        warnings.extend(since.iter().take(MAX_LISTED).map(|what| format!("a packet that came since: {what}")));
        let more = since.len().saturating_sub(MAX_LISTED);
        warnings.extend((more > 0).then(|| format!("and {more} more packets that came since")));
    }
    answer
}

/// Reports why a configuration changes nothing. Returns the reason as an answer.
fn not_read_again(error: &anyhow::Error, lines: &mut Lines) -> String {
    let text = format!("nothing is changed, since something is wrong in the configuration: {error:#}");
    lines.print_event(&format!("warning: {}", text.replace("\nmaple: ", "; ")));
    text
}

/// Reads the configuration of a program on SIGHUP. The program's policy can't be loaded again.
pub struct Hangup {
    reconfiguring: Reconfiguring,
    hangup: Arc<AtomicBool>,
}

impl Hangup {
    /// Installs the handler of the signal to load this configuration again.
    ///
    /// # Errors
    /// If the signal handler can't be installed.
    pub fn new(reconfiguring: Reconfiguring) -> anyhow::Result<Hangup> {
        Ok(Hangup { reconfiguring, hangup: signal::hangup_flag()? })
    }

    /// Reads the configuration again if a SIGHUP has come.
    pub fn look(&mut self, handle: &Handle, lines: &mut Lines) {
        if self.hangup.swap(false, Ordering::SeqCst)
            && let Err(error) = self.reconfiguring.apply(handle, lines)
        {
            drop(not_read_again(&error, lines));
        }
    }
}
