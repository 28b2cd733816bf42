//! `maple run`: a policy as a controller for real switches, or on an emulated network.

mod emulated;
pub(crate) mod handlers;

mod check;
mod costs;
mod history;
mod progress;
mod reconfigure;
mod reload;
mod rules;
mod succession;
mod summary;
pub mod tls;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context as _, anyhow, bail};
use maple_controller::record::{PolicySource, RecordOptions};
use maple_controller::takeover::{Successor, Takeover};
use maple_controller::{Controller, ControllerOptions, Handle, priority};
use maple_core::state::{Writer, Written};
use maple_emulator::Topology;
use maple_handlers::Handlers;
use maple_lab::{costs_of, with_names_of};

use crate::declared::{DeclaredNetwork, FileLine};
use crate::options::{RunArgs, RunOptions, control_of_controller};
use crate::output::IS_OPTIMISED;
use crate::policy::{Loaded, PolicyLoader, load, source};
use crate::replay::COMPILER;
use crate::service::{self, Watchdog};
use crate::usage_error::{OrUsageError as _, usage_error};
use crate::values::{OnOff, Pause, Unreachable};
use crate::{builtin, signal, weights};
use maple_wire::counted;
use progress::Lines;
use reconfigure::Reconfiguring;
use reload::{Hangup, Reloading};
use succession::Succession;
use tls::Renewal;

/// The next number of packets with a failing policy that is reported: ten, a hundred, and so on.
struct Failures {
    next: u64,
    asked: Instant,
}

impl Failures {
    fn new() -> Failures {
        Failures { next: 10, asked: Instant::now() }
    }

    fn tell(&mut self, handle: &Handle, lines: &mut Lines) {
        if self.asked.elapsed() < Duration::from_secs(1) {
            return;
        }
        self.asked = Instant::now();
        // A shard that is late is reported in the next second.
        let Ok(errors) = handle.stats().map(|stats| stats.total.engine.policy_errors) else { return };
        if errors >= self.next {
            lines.print_event(&format!("warning: the policy failed on {errors} packets so far; they were dropped"));
            while self.next <= errors {
                self.next *= 10;
            }
        }
    }
}

/// The action to take when the controller runs.
pub type Started<'a> = Box<dyn FnOnce(Handle) + 'a>;

/// The default number of leaves that are checked each second.
const CHECK_RATE: u32 = 2;
/// The default interval of comparing a switch's rules with the intended ones.
const AUDIT: Duration = Duration::from_secs(60);
/// The default bound of all recordings together, in bytes.
const RECORD_LIMIT: u64 = 1 << 30;
/// The interval of checking for notices.
const TURN: Duration = Duration::from_millis(50);

/// Runs `maple run POLICY`.
///
/// # Errors
/// If the policy can't be loaded, the options are wrong, or the controller can't start; on an emulated network also if
/// the run failed.
pub fn main(args: RunArgs, loader: Option<&dyn PolicyLoader>) -> anyhow::Result<u8> {
    let named = args.policy.clone().unwrap_or_default();
    if let Some(factory) = named.strip_prefix("builtin:").and_then(builtin::handlers) {
        return handlers::run(
            &args.options,
            ControllerOptions::for_programs(Arc::new(Handlers::from(factory))),
            Box::new(|_| {}),
        );
    }
    if args.options.takeover {
        // The other controller serves its switches until this one is ready, perhaps on the same cores.
        priority::lower();
    }
    let run = loader.map(Announced::new);
    let started = |controller: Handle| {
        if let Some(Announced(loader)) = &run {
            loader.started(controller);
        }
    };
    let succession = Succession::of(&named, &args)?;
    let policy = if succession.is_resumption() { succession.name().to_owned() } else { named.clone() };
    let loaded = load(&policy, args.policy_time_limit, loader)?;
    let reloading = Reloading::new((&policy, &named), succession, &args, loader);
    let loaded = match loaded {
        Loaded::Policy(loaded) => loaded,
        Loaded::Handlers(handlers) => return handlers::run(&args.options, handlers, Box::new(started)),
    };
    with(args.options, loaded, Box::new(started), Some(reloading))
}

/// A run that was announced to a loader. Dropping it announces the end.
struct Announced<'a>(&'a dyn PolicyLoader);

impl<'a> Announced<'a> {
    fn new(loader: &'a dyn PolicyLoader) -> Announced<'a> {
        loader.starting();
        Announced(loader)
    }
}

impl Drop for Announced<'_> {
    fn drop(&mut self) {
        self.0.ended();
    }
}

/// Runs a policy until it is asked to stop, or until the traffic of the emulated network is over. On real networks
/// `reloading`, if given, serves reloads.
///
/// # Errors
/// If the options are wrong, or if the controller can't start; on an emulated network also if the run failed.
pub fn with(
    options: RunOptions,
    mut loaded: ControllerOptions,
    started: Started<'_>,
    reloading: Option<Reloading<'_>>,
) -> anyhow::Result<u8> {
    options.logging().install();
    if !IS_OPTIMISED {
        eprintln!(
            "note: this build is not optimised, which is slow in a large network: `make build` makes the fast one"
        );
    }
    let stop = signal::stop_flag()?;
    let topology = options.emulate.as_deref().map(Topology::parse).transpose().or_usage_error()?;
    if let Some(topology) = &topology {
        let costs = costs_of(topology, &loaded.store.snapshot());
        loaded.store.update(|_| costs);
    }
    if let Some(path) = &options.weights {
        let costs = weights::read(path)?;
        loaded.store.update(|_| costs);
    }
    let servers = options.dhcp_servers()?;
    loaded.snooping = loaded.snooping.with(&options.snoop, &servers, options.querier).or_usage_error()?;
    let mut chosen = chosen(&options, loaded)?;
    if let Some(topology) = &topology {
        chosen.names = Arc::new(with_names_of(topology, options.network.names.clone()));
    }
    let (policy, track_hosts) = (Arc::clone(&chosen.policy), chosen.engine.track_hosts);
    chosen.record = recorded(&options, reloading.as_ref())?;
    let reconfiguring =
        if topology.is_none() { Reconfiguring::of(&options, &chosen, reloading.is_some())? } else { None };
    let mut reconfigures = None;
    let serve = match reloading.filter(|_| topology.is_none()) {
        Some(reloading) => Some(reloading.under(&options, &chosen, reconfiguring)?),
        None => {
            reconfigures = reconfiguring.map(Hangup::new).transpose()?;
            None
        }
    };
    let takes_over = options.takeover;
    let mut renewal = Renewal::of(&chosen)?;
    // The sockets are taken before another controller ends in favour of this one.
    let inherited = if topology.is_none() { service::listeners()? } else { Vec::new() };
    let controller = match takes_over {
        true => {
            let takeover = take_over(&chosen)?;
            Controller::take_over(chosen, takeover)?
        }
        false => Controller::start_on(chosen, inherited)?,
    };
    let handle = controller.handle();
    started(handle.clone());
    if let Some(recording) = handle.recording() {
        eprintln!("recording into {}", recording.folder().display());
    }
    let mut reloads = serve.map(|reloading| reloading.serve(&handle));
    match topology {
        Some(topology) => {
            let network = emulated::Emulated { topology, options: &options, policy, track_hosts };
            network.run(&handle, &stop)?;
        }
        None => {
            let mut lines = Lines::new(handle.names(), options.logging());
            lines.report_to(handle.files());
            lines.print_line(&format!("listening on {}", joined(handle.addresses())));
            tell_metrics(&handle, &mut lines);
            if let Some(reloads) = &reloads {
                reloads.tell_policy(&mut lines);
            }
            if takes_over {
                lines.print_line(&format!("took over {}", counted(controller.taken(), "connection")));
            }
            handle.serve_successors();
            service::tell(&format!("READY=1\nSTATUS=listening on {}", joined(handle.addresses())));
            let _watchdog = Watchdog::start(&handle);
            let mut failures = Failures::new();
            while !stop.load(Ordering::SeqCst) && handle.failure().is_none() {
                lines.follow(&handle, TURN);
                failures.tell(&handle, &mut lines);
                if let Some(renewal) = &mut renewal {
                    renewal.look(&mut lines);
                }
                if let Some(reloads) = &mut reloads {
                    reloads.look(&mut lines);
                }
                if let Some(reconfigures) = &mut reconfigures {
                    reconfigures.look(&handle, &mut lines);
                }
                if let Some(successor) = handle.successor() {
                    return hand_over(controller, successor, &mut lines);
                }
            }
            service::tell("STOPPING=1");
            if let Some(reloads) = &mut reloads {
                reloads.end();
            }
            lines.follow(&handle, Duration::ZERO);
            summary::of_controller(&handle, &mut lines);
        }
    }
    if let Some(failure) = handle.failure() {
        bail!("{failure}");
    }
    controller.stop();
    Ok(0)
}

/// Returns the options of the recording, if there is one.
fn recorded(options: &RunOptions, of: Option<&Reloading<'_>>) -> anyhow::Result<Option<RecordOptions>> {
    let Some(folder) = options.record.clone() else { return Ok(None) };
    let policy = of.map(|of| source(of.policy())).transpose()?.unwrap_or(PolicySource::Program);
    let limit = options.record_limit.unwrap_or(RECORD_LIMIT);
    Ok(Some(RecordOptions { folder, limit, policy, compiler: COMPILER.to_owned() }))
}

/// Prints the address of metrics, if they are exported.
fn tell_metrics(handle: &Handle, lines: &mut Lines) {
    if let Some(address) = handle.metrics_address() {
        lines.print_line(&format!("metrics at http://{address}/metrics"));
    }
}

/// Requests a copy of its knowledge from the controller with the same control socket.
fn take_over(chosen: &ControllerOptions) -> anyhow::Result<Takeover> {
    let control = chosen.control.as_deref().context("--takeover needs a control socket")?;
    Takeover::ask(control, chosen.tls.is_some())
        .with_context(|| format!("can't take over from the controller at {}", control.display()))
}

/// Hands the connections over to another process, and ends.
fn hand_over(controller: Controller, successor: Successor, lines: &mut Lines) -> anyhow::Result<u8> {
    let connections = controller.hand_over(successor);
    let connections =
        connections.context("the process that was to take over is gone, and all connections are closed")?;
    lines.print_line(&format!("handed {} over to another process", counted(connections, "connection")));
    Ok(0)
}

/// Applies the options of the command line, which take precedence over the program.
fn chosen(options: &RunOptions, mut chosen: ControllerOptions) -> anyhow::Result<ControllerOptions> {
    if let Some(wish) = options.track_hosts {
        chosen.engine.track_hosts = wish == OnOff::On;
    }
    chosen.engine.max_rules = options.max_rules.map(|count| count as usize).or(chosen.engine.max_rules);
    chosen.engine.max_traces = options.max_traces.map(|count| count as usize).or(chosen.engine.max_traces);
    let or = |chosen: Option<u32>, default: usize| chosen.map_or(default, |count| count as usize);
    chosen.engine.max_hosts_per_port = or(options.max_hosts_per_port, chosen.engine.max_hosts_per_port);
    chosen.engine.max_hosts = or(options.max_hosts, chosen.engine.max_hosts);
    if let Some(seconds) = options.host_timeout {
        chosen.engine.host_timeout = Duration::from_secs(seconds.into());
    }
    chosen.forget_switch_after = match (options.unreachable, options.forget_switch_after) {
        (Some(Unreachable::Forget), _) => Some(Duration::ZERO),
        (_, Some(Pause(Duration::ZERO))) => None,
        (_, Some(Pause(wait))) => Some(wait),
        (_, None) => chosen.forget_switch_after,
    };
    chosen.engine.middleboxes.extend(options.middleboxes()?);
    declare(&options.network, &mut chosen)?;
    chosen.engine.poll = options.poll.map_or(chosen.engine.poll, |Pause(poll)| poll);
    chosen.engine.flow_mod_rate = options.flow_mod_rate;
    chosen.engine.audit = options.audit.map_or(AUDIT, |Pause(audit)| audit);
    chosen.engine.check_rate = options.check_rate.unwrap_or(CHECK_RATE);
    chosen.engine.labels = options.labels.unwrap_or(chosen.engine.labels);
    placed(options, chosen)
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
            eprintln!("warning: {place}: the policy has not declared the {kind} {}", row.name);
        }
        let write = row.write(&chosen.store, names).map_err(|error| anyhow!("{place}: {error}")).or_usage_error()?;
        writes.push((written(place), vec![write]));
    }
    for (written, writes) in writes {
        chosen.store.update_as(written, |_| writes);
    }
    Ok(())
}

/// Sets the listening addresses, the cores and the control socket. Raises the system's limit of descriptors, which
/// limits the number of switches.
fn placed(options: &RunOptions, mut chosen: ControllerOptions) -> anyhow::Result<ControllerOptions> {
    maple_load::descriptors::raise();
    if !options.cores.is_empty() {
        chosen.workers = options.cores.len();
        chosen.cores.clone_from(&options.cores);
    }
    chosen.workers = options.workers.map_or(chosen.workers, usize::from);
    chosen.write_each = options.batch == Some(OnOff::Off);
    chosen.heap_bytes = Some(maple_heap::held);
    chosen.names = Arc::new(options.network.names.clone());
    chosen.metrics = options.metrics.or(chosen.metrics);
    if options.listen.is_empty() && options.emulate.is_some() {
        chosen.listen = vec![SocketAddr::from((Ipv4Addr::LOCALHOST, 0))];
        chosen.pin = false;
    }
    tls::apply(&options.tls, &options.listen, &options.network, &mut chosen)?;
    let service = || service::state_file().filter(|_| options.emulate.is_none());
    chosen.state_file = options.state.clone().or(chosen.state_file).or_else(service);
    chosen.remember = options.emulate.is_none();
    chosen.control = match &options.control {
        Some(path) if path == Path::new("none") => None,
        Some(path) => Some(path.clone()),
        None => chosen.control.or_else(|| options.emulate.is_none().then(control_of_controller)),
    };
    Ok(chosen)
}

fn joined(addresses: &[SocketAddr]) -> String {
    addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
