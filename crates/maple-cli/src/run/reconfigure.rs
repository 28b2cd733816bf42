//! Reads the configuration of a running controller again: on request, on SIGHUP, and when the file has changed.
//!
//! A file with any fault changes nothing. Otherwise these follow the file: names, declarations about ports and hosts,
//! certificates of switches, link costs and the log. Changed options that need a restart are reported.

use std::sync::Arc;
use std::time::SystemTime;

use anyhow::{anyhow, bail};
use maple_controller::tls::Tls;
use maple_controller::{ControllerOptions, Handle};
use maple_core::Location;
use maple_core::state::{Writer, Written};

use super::costs::Costs;
use super::progress::Lines;
use super::tls;
use crate::config::{RereadConfig, read_again};
use crate::declared::{Configured, DeclaredNetwork};
use crate::options::{RunArgs, RunOptions};

/// The ids of the options that are followed while the controller runs.
const FOLLOWED: [&str; 7] = ["policy", "policy_time_limit", "watch", "costs", "log", "log_format", "verbose"];

/// The configuration of a controller.
pub struct Reconfiguring {
    /// The file as it was when the controller started. Options that need a restart still have its values.
    started: Configured,
    /// Whether the file or the command line must name the policy. A program has its own.
    needs_policy: bool,
    /// The places that options named at the start.
    places: Places,
    /// The declarations in effect.
    network: DeclaredNetwork,
    costs: Costs,
    tls: Option<Arc<Tls>>,
    track_hosts: bool,
    /// The time of the file's last change.
    modified: Option<SystemTime>,
}

/// The ports that options name by names of switches.
#[derive(PartialEq, Eq)]
struct Places {
    middleboxes: Vec<Location>,
    dhcp_servers: Vec<Location>,
}

/// The outcome of reading a configuration again.
pub struct Reconfigured {
    /// The options with which a controller would start.
    pub args: RunArgs,
    /// The keys that changed and need a restart.
    pub restart: Vec<String>,
    /// Warnings.
    pub warnings: Vec<String>,
}

/// A configuration that can be applied.
struct Checked {
    again: RereadConfig,
    costs: Costs,
    restart: Vec<String>,
}

impl Reconfiguring {
    /// Starts to follow the configuration of a controller with these options; `None` if it has none. `needs_policy`:
    /// the configuration or the command line must name the policy.
    ///
    /// # Errors
    /// If the file of `--costs` is wrong.
    pub fn from_options(
        options: &RunOptions,
        chosen: &ControllerOptions,
        needs_policy: bool,
    ) -> anyhow::Result<Option<Reconfiguring>> {
        let Some(started) = options.configured.clone() else { return Ok(None) };
        Ok(Some(Reconfiguring {
            modified: modified(&started),
            needs_policy,
            started,
            places: Places::from_options(options)?,
            network: options.network.clone(),
            costs: Costs::from_options(options)?,
            tls: chosen.openflow.tls.clone(),
            track_hosts: chosen.engine.track_hosts,
        }))
    }

    /// Reports whether the file has changed since it was read.
    pub fn has_changed(&self) -> bool {
        let now = modified(&self.started);
        // A file that is being replaced may be missing for a moment.
        now.is_some() && now != self.modified
    }

    /// Reads the file again, and applies it.
    ///
    /// # Errors
    /// All faults of the file. Then nothing has changed.
    pub fn apply(&mut self, handle: &Handle, lines: &mut Lines) -> anyhow::Result<Reconfigured> {
        self.modified = modified(&self.started);
        let Checked { again, costs, restart } = self.check()?;
        let options = &again.args.options;
        let network = options.network.clone();
        // Nothing after this can fail.
        if let Some(tls) = self.tls.as_ref().filter(|_| network.certificates != self.network.certificates) {
            tls.bind(network.certificates.clone()).map_err(|error| anyhow!("{}: {error}", self.file()))?;
        }
        let mut unconfirmed = false;
        if network.names != self.network.names {
            handle.operations().rename(network.names.clone());
            lines.rename(handle.names());
        }
        if network.facts != self.network.facts {
            unconfirmed |= handle.operations().declare(Arc::new(network.facts.clone())).is_err();
        }
        for (by, writes) in costs.since(&self.costs, &Writer::File(self.file().into())) {
            unconfirmed |= handle.operations().change_as(writes, Written { by, at: SystemTime::now() }).is_err();
        }
        lines.log_as(options.logging());
        (self.network, self.costs) = (network, costs);
        let mut warnings = Vec::new();
        if unconfirmed {
            warnings.push(format!("{}: not all workers have confirmed in time that they go by it", self.file()));
        }
        if !restart.is_empty() {
            let keys = restart.join(", ");
            warnings.push(format!(
                "{keys}: changed in {}; a restart (or `maple run --takeover`) applies them",
                self.file()
            ));
        }
        lines.print_event(&format!("configuration {} read again", self.file()));
        warnings.iter().for_each(|warning| lines.print_event(&format!("warning: {warning}")));
        Ok(Reconfigured { args: again.args, restart, warnings })
    }

    /// Reads the file, and checks it as a start does.
    fn check(&self) -> anyhow::Result<Checked> {
        let again = read_again(&self.started)?;
        let (options, configured) = (&again.args.options, &again.configured);
        let network = &options.network;
        if self.needs_policy && again.args.policy.is_none() {
            bail!("{}: a policy is missing", self.file());
        }
        let placed = network.facts.hosts().find(|(_, host)| host.at.is_some());
        if let Some((mac, _)) = placed.filter(|_| !self.track_hosts) {
            let name = network.names.of_host(*mac).unwrap_or_default();
            let place = network.places.get(name).map(ToString::to_string).unwrap_or_default();
            bail!("{place}: hosts.{name}.at: hosts with a fixed place need host tracking, and that is off");
        }
        let files = tls::files(&options.tls, &options.listen, network);
        files.map_err(|error| anyhow!("{}: {error}", self.file()))?;
        let costs = Costs::from_options(options)
            .map_err(|error| anyhow!("{}: costs: {error:#}", configured.place_of("costs")))?;
        let places = Places::from_options(options).map_err(|error| {
            let option = if options.middleboxes().is_err() { "middlebox" } else { "dhcp_server" };
            anyhow!("{}: {}: {error}", configured.place_of(option), option.replace('_', "-"))
        })?;
        let mut changed = again.changed.clone();
        changed.retain(|id, _| !FOLLOWED.contains(&id.as_str()));
        // A name may mean another switch than before.
        if places.middleboxes != self.places.middleboxes {
            changed.insert("middlebox".into(), "middlebox".into());
        }
        if places.dhcp_servers != self.places.dhcp_servers {
            changed.insert("dhcp_server".into(), "dhcp-server".into());
        }
        let restart = changed.into_values().collect();
        Ok(Checked { again, costs, restart })
    }

    fn file(&self) -> String {
        self.started.file.display().to_string()
    }
}

impl Places {
    fn from_options(options: &RunOptions) -> anyhow::Result<Places> {
        Ok(Places { middleboxes: options.middleboxes()?, dhcp_servers: options.dhcp_servers()? })
    }
}

fn modified(configured: &Configured) -> Option<SystemTime> {
    std::fs::metadata(&configured.file).and_then(|about| about.modified()).ok()
}
