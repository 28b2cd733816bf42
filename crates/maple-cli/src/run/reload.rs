//! Reload: on request, on SIGHUP, and when the policy's file has changed.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{anyhow, bail};
use crossbeam_channel::Receiver;
use maple_controller::control::reload::{ReloadRequest, Reloaded};
use maple_controller::control::socket::Tolerance;
use maple_controller::snoop::Snooping;
use maple_controller::{ControllerOptions, Handle};
use maple_core::policy::Policy;
use maple_core::state::Write;

use super::progress::Lines;
use crate::builtin;
use crate::options::{RunArgs, RunOptions};
use crate::policy::{Loaded, PolicyLoader, PolicyName, load_again};
use crate::signal;

/// The interval of looking whether files have changed.
const LOOK: Duration = Duration::from_millis(500);
/// What can be part of a policy.
const SUFFIXES: [&str; 3] = ["py", "yaml", "yml"];

/// How the policy of `maple run` is loaded again.
pub struct Reloading<'a> {
    policy: String,
    limit: Duration,
    loader: Option<&'a dyn PolicyLoader>,
    /// Whether to look for changed files.
    watches: bool,
}

/// The same for a controller with these options.
pub struct Unserved<'a> {
    reloading: Reloading<'a>,
    options: &'a RunOptions,
    // What only a new start can change.
    track_hosts: bool,
    snooping: Snooping,
    /// Whether a SIGHUP came.
    hangup: Arc<AtomicBool>,
    /// The newest file of the policy when it was loaded.
    newest: Option<SystemTime>,
}

/// The same, while the controller runs.
pub struct Reloads<'a> {
    of: Unserved<'a>,
    handle: Handle,
    requests: Receiver<ReloadRequest>,
    looked: Instant,
}

impl<'a> Reloading<'a> {
    /// For these arguments.
    pub fn new(args: &RunArgs, loader: Option<&'a dyn PolicyLoader>) -> Reloading<'a> {
        Reloading { policy: args.policy.clone(), limit: args.policy_time_limit, loader, watches: args.watch }
    }

    /// For a controller with these options.
    pub fn under(self, options: &'a RunOptions, chosen: &ControllerOptions) -> anyhow::Result<Unserved<'a>> {
        let (track_hosts, snooping) = (chosen.engine.track_hosts, chosen.snooping.clone());
        let (hangup, newest) = (signal::hangup_flag()?, newest(&self.policy));
        Ok(Unserved { reloading: self, options, track_hosts, snooping, hangup, newest })
    }
}

impl<'a> Unserved<'a> {
    /// From now on reloads of this controller are served.
    pub fn serve(self, handle: &Handle) -> Reloads<'a> {
        Reloads { of: self, handle: handle.clone(), requests: handle.serve_reloads(), looked: Instant::now() }
    }
}

impl Reloads<'_> {
    /// Reloads if that is asked for, or due.
    pub fn look(&mut self, lines: &mut Lines) {
        while let Ok(request) = self.requests.try_recv() {
            let outcome = self.reload(request.policy.clone(), request.tolerate, lines);
            request.answer(outcome);
        }
        let has_changed = self.of.reloading.watches && self.has_changed();
        if self.of.hangup.swap(false, Ordering::SeqCst) || has_changed {
            // What came of it was printed.
            drop(self.reload(None, Tolerance::Count(0), lines));
        }
    }

    fn has_changed(&mut self) -> bool {
        if self.looked.elapsed() < LOOK {
            return false;
        }
        self.looked = Instant::now();
        let newest = newest(&self.of.reloading.policy);
        // A file that is being replaced may be missing for a moment.
        newest.is_some() && newest != self.of.newest
    }

    fn reload(
        &mut self,
        policy: Option<String>,
        tolerate: Tolerance,
        lines: &mut Lines,
    ) -> Result<(Reloaded, Vec<String>), String> {
        let name = policy.unwrap_or_else(|| self.of.reloading.policy.clone());
        self.of.newest = newest(&name);
        let outcome = self.try_to(&name, tolerate).map_err(|error| format!("{error:#}"));
        match &outcome {
            Ok((Reloaded { trial, .. }, _)) => {
                lines.print_event(&format!(
                    "policy {name} reloaded: {} of {} packets are decided as before, {} fail",
                    trial.same, trial.leaves, trial.failed
                ));
                self.of.reloading.policy = name;
            }
            Err(error) => lines.print_event(&format!("warning: policy {name} not reloaded: {error}")),
        }
        outcome
    }

    fn try_to(&self, name: &str, tolerate: Tolerance) -> anyhow::Result<(Reloaded, Vec<String>)> {
        let Reloading { limit, loader, .. } = self.of.reloading;
        let warnings = self.suspicions(name);
        let loaded = load_again(name, limit, loader)?;
        let reloaded = self.fitting(loaded).and_then(|policy| {
            if matches!(PolicyName::parse(name), PolicyName::Builtin(_)) {
                self.handle.change(vec![Write::Weight(builtin::WEIGHT.into())])?;
            }
            Ok(self.handle.reload(policy, tolerate)?)
        });
        match (&reloaded, loader) {
            (Ok(_), Some(loader)) => loader.adopted(),
            (Err(_), Some(loader)) => loader.refused(),
            (_, None) => {}
        }
        Ok((reloaded?, warnings))
    }

    /// The policy, if it needs nothing that only a new start can change.
    fn fitting(&self, loaded: Loaded) -> anyhow::Result<Arc<dyn Policy>> {
        let Loaded::Policy(loaded) = loaded else { bail!("handlers can't take the place of a policy") };
        if self.of.options.track_hosts.is_none() && loaded.engine.track_hosts != self.of.track_hosts {
            bail!(
                "it was made for {}, which needs a new start",
                match loaded.engine.track_hosts {
                    true => "a network whose hosts are tracked",
                    false => "track_hosts=False",
                }
            );
        }
        let RunOptions { snoop, dhcp_server, querier, .. } = self.of.options;
        let snooping = loaded.snooping.with(snoop, dhcp_server, *querier).map_err(|error| anyhow!("{error}"))?;
        if snooping != self.of.snooping {
            bail!("it snoops on other packets than the policy that runs, which needs a new start");
        }
        Ok(loaded.policy)
    }

    /// What `maple check` says at a glance.
    fn suspicions(&self, name: &str) -> Vec<String> {
        let parsed = PolicyName::parse(name);
        let (Some((file, inner)), Some(loader)) = (parsed.program(), self.of.reloading.loader) else {
            return Vec::new();
        };
        // What is wrong with the file is said when it is loaded.
        let found = loader.inspect(file, inner).unwrap_or_default();
        found.iter().map(|found| format!("{}:{}: {}", found.file, found.line, found.text)).collect()
    }
}

/// When a file of the policy was last changed: its own, or one beside it.
fn newest(policy: &str) -> Option<SystemTime> {
    let PolicyName::File { file, .. } = PolicyName::parse(policy) else { return None };
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let is_part = |path: &PathBuf| path.extension().is_some_and(|suffix| SUFFIXES.iter().any(|known| suffix == *known));
    let files = std::fs::read_dir(folder).ok()?.filter_map(|entry| Some(entry.ok()?.path())).filter(is_part);
    files.filter_map(|path| std::fs::metadata(path).and_then(|about| about.modified()).ok()).max()
}
