//! Applies the options of the command line and of the configuration to those of a program or policy, over which they
//! take precedence.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::anyhow;
use maple_controller::control::{HttpDeadlines, HttpOptions};
use maple_controller::log::Level;
use maple_controller::record::{PolicySource, RecordOptions};
use maple_controller::tls::{Tls, TlsFiles};
use maple_controller::{ControllerOptions, file_limit};
use maple_core::state::{Writer, Written};
use maple_emulator::Topology;
use maple_lab::{costs_of, with_names_of};

use super::reloads::ReloadSettings;
use super::tls;
use crate::declared::{DeclaredNetwork, FileLine};
use crate::logging::print_plain;
use crate::options::{EXPLORED, RunOptions, control_of_controller};
use crate::policy::source;
use crate::replay::COMPILER;
use crate::usage_error::{OrUsageError as _, usage_error};
use crate::values::{OnOff, Pause, Unreachable};
use crate::{link_costs, service};

/// The default number of leaves that are checked each second. Chosen: a check is a run of f, so it takes little of a
/// shard, and thousands of leaves are checked in an hour.
const CHECK_RATE: u32 = 2;
/// The default time between two comparisons of a switch's rules with the intended ones. Chosen: a rule that somebody
/// changed stays for a minute at most, and reading a table once a minute is little for a switch.
const AUDIT: Duration = Duration::from_secs(60);
/// The default bound of all recordings together, in bytes. Chosen: it fits any disk, and holds hours of a busy network.
const RECORD_LIMIT: u64 = 1 << 30;

/// Applies the options for a policy, on the emulated network `topology` or a real one. `reloading`: how the policy is
/// loaded again, if it can be.
///
/// # Errors
/// If options are wrong or don't fit together, or a file that they name is wrong.
pub fn for_policy(
    options: &RunOptions,
    mut loaded: ControllerOptions,
    topology: Option<&Topology>,
    reloading: Option<&ReloadSettings<'_>>,
) -> anyhow::Result<ControllerOptions> {
    if let Some(topology) = topology {
        let costs = costs_of(topology, &loaded.store.snapshot());
        loaded.store.update(|_| costs);
    }
    if let Some(path) = &options.costs {
        let costs = link_costs::read(path)?;
        loaded.store.update(|_| costs);
    }
    let servers = options.dhcp_servers()?;
    loaded.snooping = loaded.snooping.with_names(&options.snoop, &servers, options.querier).or_usage_error()?;
    let mut chosen = with_policy_options(options, loaded)?;
    if let Some(topology) = topology {
        chosen.names = Arc::new(with_names_of(topology, options.network.names.clone()));
    }
    chosen.memory.record = recorded(options, reloading)?;
    Ok(chosen)
}

/// Returns the options of the recording, if there is one.
fn recorded(options: &RunOptions, of: Option<&ReloadSettings<'_>>) -> anyhow::Result<Option<RecordOptions>> {
    let Some(folder) = options.record.clone() else { return Ok(None) };
    let policy = of.map(|of| source(of.policy())).transpose()?.unwrap_or(PolicySource::Program);
    let limit = options.record_limit.unwrap_or(RECORD_LIMIT);
    Ok(Some(RecordOptions { folder, limit, policy, compiler: COMPILER.to_owned() }))
}

/// Applies the options that only policies have, and those of [`with_common`].
fn with_policy_options(options: &RunOptions, mut chosen: ControllerOptions) -> anyhow::Result<ControllerOptions> {
    if let Some(wish) = options.track_hosts {
        chosen.engine.track_hosts = wish == OnOff::On;
    }
    chosen.engine.max_rules = options.max_rules.map(|count| count as usize).or(chosen.engine.max_rules);
    chosen.engine.max_traces = options.max_traces.map(|count| count as usize).or(chosen.engine.max_traces);
    chosen.engine.look_up_tables = options.look_ups.unwrap_or(chosen.engine.look_up_tables);
    chosen.engine.open_routes |= options.open_routes;
    chosen.engine.explored_leaves = options.explore.unwrap_or(EXPLORED) as usize;
    let or = |chosen: Option<u32>, default: usize| chosen.map_or(default, |count| count as usize);
    chosen.engine.max_hosts_per_port = or(options.max_hosts_per_port, chosen.engine.max_hosts_per_port);
    chosen.engine.max_hosts = or(options.max_hosts, chosen.engine.max_hosts);
    if let Some(seconds) = options.host_timeout {
        chosen.engine.host_timeout = Duration::from_secs(seconds.into());
    }
    chosen.openflow.forget_switch_after = match (options.unreachable, options.forget_switch_after) {
        (Some(Unreachable::Forget), _) => Some(Duration::ZERO),
        (_, Some(Pause(Duration::ZERO))) => None,
        (_, Some(Pause(wait))) => Some(wait),
        (_, None) => chosen.openflow.forget_switch_after,
    };
    chosen.engine.middleboxes.extend(options.middleboxes()?);
    declare(&options.network, &mut chosen)?;
    chosen.engine.poll = options.poll.map_or(chosen.engine.poll, |Pause(poll)| poll);
    chosen.engine.flow_mod_rate = options.flow_mod_rate;
    chosen.engine.audit = options.audit.map_or(AUDIT, |Pause(audit)| audit);
    chosen.engine.check_rate = options.check_rate.unwrap_or(CHECK_RATE);
    chosen.engine.labels = options.labels.unwrap_or(chosen.engine.labels);
    with_common(options, chosen)
}

/// Applies the configuration's declarations about the network.
fn declare(network: &DeclaredNetwork, chosen: &mut ControllerOptions) -> anyhow::Result<()> {
    let DeclaredNetwork { facts, names, costs, rows, .. } = network;
    if facts.has_places() && !chosen.engine.track_hosts {
        return Err(usage_error(anyhow!("hosts with a fixed place need host tracking, and that is off")));
    }
    chosen.engine.facts = Arc::new(facts.clone());
    let written = |place: &FileLine| {
        let by = Writer::File(place.to_string().into());
        Written { by, at: SystemTime::now() }
    };
    let mut writes: Vec<_> = costs.iter().map(|cost| (written(&cost.at), cost.writes.clone())).collect();
    for (place, row) in rows {
        if !row.is_declared(&chosen.store) {
            let kind = if row.key.is_some() { "table" } else { "variable" };
            let text = format!("{place}: the policy has not declared the {kind} {}", row.name);
            print_plain(Level::Warning, &text);
        }
        let write = row.write(&chosen.store, names).map_err(|error| anyhow!("{place}: {error}")).or_usage_error()?;
        writes.push((written(place), vec![write]));
    }
    for (written, writes) in writes {
        chosen.store.update_as(written, |_| writes);
    }
    Ok(())
}

/// Returns the options of the HTTP API, if it is to be served.
fn http(options: &RunOptions) -> anyhow::Result<Option<HttpOptions>> {
    let Some(address) = options.http else {
        // The configuration may have the address, so the command line alone can't tell.
        let is_useless = options.ryu_rest.then(|| usage_error(anyhow!("--ryu-rest needs --http ADDR")));
        return is_useless.map_or(Ok(None), Err);
    };
    let files = options.http_cert.as_ref().zip(options.http_key.as_ref());
    let tls = files.map(|(certificate, key)| Tls::open(TlsFiles::new(certificate, key)).map(Arc::new));
    let (tls, tokens) = (tls.transpose().or_usage_error()?, options.http_tokens.clone());
    Ok(Some(HttpOptions { address, tls, tokens, deadlines: HttpDeadlines::default(), ryu: options.ryu_rest }))
}

/// Applies the options that policies and handlers have: the listening addresses, the cores and the control socket.
/// Raises the system's limit of descriptors, which limits the number of switches.
///
/// # Errors
/// If options don't fit together, or a file of TLS is wrong.
pub fn with_common(options: &RunOptions, mut chosen: ControllerOptions) -> anyhow::Result<ControllerOptions> {
    file_limit::raise();
    if !options.cores.is_empty() {
        chosen.workers.count = options.cores.len();
        chosen.workers.cores.clone_from(&options.cores);
    }
    chosen.workers.count = options.workers.map_or(chosen.workers.count, usize::from);
    chosen.openflow.write_each = options.batch == Some(OnOff::Off);
    chosen.control.heap_bytes = Some(maple_heap::held);
    chosen.names = Arc::new(options.network.names.clone());
    chosen.control.metrics = options.metrics.or(chosen.control.metrics);
    chosen.control.http = http(options)?.or(chosen.control.http);
    if options.listen.is_empty() && options.emulate.is_some() {
        chosen.openflow.listen = vec![SocketAddr::from((Ipv4Addr::LOCALHOST, 0))];
        chosen.workers.pin = false;
    }
    tls::apply(&options.tls, &options.listen, &options.network, &mut chosen)?;
    chosen.openflow.in_cluster |= options.cluster.cluster.is_some();
    chosen.memory.for_standbys |= options.cluster.cluster_listen.is_some();
    // A controller of a cluster has no state file, also where the service manager has a folder for one.
    let has_one = options.emulate.is_none() && !chosen.openflow.in_cluster;
    let service = || service::state_file().filter(|_| has_one);
    chosen.memory.state_file = options.state.clone().or(chosen.memory.state_file).or_else(service);
    chosen.memory.remember = options.emulate.is_none();
    chosen.control.socket = match &options.control {
        Some(path) if path == Path::new("none") => None,
        Some(path) => Some(path.clone()),
        None => chosen.control.socket.or_else(|| options.emulate.is_none().then(control_of_controller)),
    };
    Ok(chosen)
}
