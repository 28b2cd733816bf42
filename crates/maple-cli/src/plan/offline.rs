//! A plan without a controller, for the network that a state file remembers.

use std::path::Path;
use std::time::Duration;

use anyhow::bail;
use maple_controller::control::plan::Plan;
use maple_controller::offline::RememberedNetwork;
use serde_json::Value;

use crate::policy::{Loaded, PolicyLoader, load, load_aside, sources, suspicions};

/// The maximum time of a policy's run. It must be the default of `--policy-time-limit`.
const LIMIT: Duration = Duration::from_secs(1);

/// Returns the changes that the policy `name` would make in the network of a state file, in which the policy `from`
/// ran.
///
/// # Errors
/// If the state file can't be read or remembers no packets, or if a policy can't be loaded.
pub fn plan(state: &Path, from: &str, name: &str, loader: Option<&dyn PolicyLoader>) -> anyhow::Result<Value> {
    let Loaded::Policy(old) = load(from, LIMIT, loader)? else { bail!("{from} is not a policy, but a handler") };
    let network = RememberedNetwork::read(state, &old.store)?;
    if network.packets() == 0 {
        bail!(
            "the state file {} remembers no packets that a policy has decided about: there is nothing to plan for",
            state.display()
        );
    }
    // No leaf depends on the store yet.
    drop(old.store.adopt_versions(false)?);
    let (versions, sources) = (network.versions(), sources(name)?);
    let tracks_hosts = old.engine.track_hosts;
    let rehearsal = network.under(old.policy, old.store, old.engine);
    let Loaded::Policy(new) = load_aside(rehearsal.store(), name, LIMIT, loader)? else {
        bail!("{name} is not a policy, but a handler");
    };
    let made = || -> anyhow::Result<Value> {
        if new.engine.track_hosts != tracks_hosts {
            bail!("one of {from} and {name} was made for a network whose hosts are tracked, and the other was not");
        }
        drop(rehearsal.store().migrate()?);
        let plan = Plan::rehearse(rehearsal, name.to_owned(), new.policy, sources, versions);
        Ok(plan.with_warnings(suspicions(name, loader)).to_json())
    };
    let plan = made();
    if let Some(loader) = loader {
        loader.refused();
    }
    plan
}
