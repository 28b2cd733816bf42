//! `maple run`: a policy as a controller for real switches, or on an emulated network.

mod controller_options;
mod emulated;
pub(crate) mod handlers;
mod real_network;
mod serve;

mod check_deliveries;
mod costs;
mod flow_rules;
mod past_states;
mod progress;
mod reconfigure;
mod reloads;
mod start_policy;
mod summary;
pub mod tls;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::bail;
use maple_controller::log::Level;
use maple_controller::{Controller, ControllerOptions, Handle, priority};
use maple_emulator::Topology;
use maple_handlers::Handlers;

use crate::logging::print_plain;
use crate::options::{RunArgs, RunOptions};
use crate::output::IS_OPTIMISED;
use crate::policy::{Loaded, PolicyLoader, load};
use crate::usage_error::OrUsageError as _;
use crate::{builtin, signal};
use reloads::ReloadSettings;
use start_policy::StartPolicy;

/// The action to take when the controller runs.
pub type OnStart<'a> = Box<dyn FnOnce(Handle) + 'a>;

/// The time between two looks for notices. Chosen: a person does not notice it, and a signal to stop is seen as soon.
const NOTICE_INTERVAL: Duration = Duration::from_millis(50);

/// Runs `maple run POLICY`.
///
/// # Errors
/// If the policy can't be loaded, the options are wrong, or the controller can't start; on an emulated network also if
/// the run failed.
pub fn main(args: RunArgs, loader: Option<&dyn PolicyLoader>) -> anyhow::Result<u8> {
    args.options.logging().install();
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
    let start_policy = StartPolicy::for_start(&named, &args)?;
    let policy = if start_policy.is_resumption() { start_policy.name().to_owned() } else { named.clone() };
    let loaded = load(&policy, args.policy_time_limit, loader)?;
    let reloading = ReloadSettings::new(&policy, &named, start_policy, &args, loader);
    let loaded = match loaded {
        Loaded::Policy(loaded) => loaded,
        Loaded::Handlers(handlers) => return handlers::run(&args.options, handlers, Box::new(started)),
    };
    run_policy(args.options, loaded, Box::new(started), Some(reloading))
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
pub fn run_policy(
    options: RunOptions,
    loaded: ControllerOptions,
    started: OnStart<'_>,
    reloading: Option<ReloadSettings<'_>>,
) -> anyhow::Result<u8> {
    options.logging().install();
    if !IS_OPTIMISED {
        print_plain(
            Level::Info,
            "note: this build is not optimised, which is slow in a large network: `make build` makes the fast one",
        );
    }
    let stop = signal::stop_flag()?;
    let topology = options.emulate.as_deref().map(Topology::parse).transpose().or_usage_error()?;
    let chosen = controller_options::for_policy(&options, loaded, topology.as_ref(), reloading.as_ref())?;
    match topology {
        Some(topology) => run_on_emulated_network(&options, topology, chosen, started, &stop),
        None => serve::serve_real_network(&options, chosen, started, reloading, &stop),
    }
}

fn run_on_emulated_network(
    options: &RunOptions,
    topology: Topology,
    chosen: ControllerOptions,
    started: OnStart<'_>,
    stop: &AtomicBool,
) -> anyhow::Result<u8> {
    let (policy, track_hosts) = (Arc::clone(&chosen.policy), chosen.engine.track_hosts);
    let controller = Controller::start(chosen)?;
    let handle = controller.handle();
    started(handle.clone());
    print_recording(&handle);
    real_network::http_lines(&handle).iter().for_each(|line| print_plain(Level::Info, line));
    emulated::Emulated { topology, options, policy, track_hosts }.run(&handle, stop)?;
    stop_unless_failed(controller)
}

/// Prints where the run is recorded, if it is.
fn print_recording(handle: &Handle) {
    if let Some(recording) = handle.operations().recording() {
        print_plain(Level::Info, &format!("recording into {}", recording.folder().display()));
    }
}

/// Stops a controller at the end of its run.
///
/// # Errors
/// If the controller has failed before.
fn stop_unless_failed(controller: Controller) -> anyhow::Result<u8> {
    if let Some(failure) = controller.handle().failure() {
        bail!("{failure}");
    }
    controller.stop();
    Ok(0)
}
