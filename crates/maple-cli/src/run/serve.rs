//! A policy on a real network: take-overs, reloads, and reports of its failures.

use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use maple_controller::cluster::ClusterMember;
use maple_controller::takeover::{Successor, Takeover};
use maple_controller::{Controller, ControllerOptions, Handle};

use super::progress::Lines;
use super::real_network::RealNetwork;
use super::reconfigure::Reconfiguring;
use super::reloads::{Hangup, ReloadService, ReloadSettings};
use super::tls::Renewal;
use super::{OnStart, print_recording, stop_unless_failed, summary};
use crate::options::RunOptions;
use crate::service;
use maple_wire::counted;

/// Runs a policy until `stop` is set or another process takes over. `reloading`, if given, serves reloads.
///
/// # Errors
/// If the controller can't start, or if it failed.
pub fn serve_real_network(
    options: &RunOptions,
    chosen: ControllerOptions,
    started: OnStart<'_>,
    reloading: Option<ReloadSettings<'_>>,
    stop: &AtomicBool,
) -> anyhow::Result<u8> {
    let reconfiguring = Reconfiguring::from_options(options, &chosen, reloading.is_some())?;
    let (reload_state, reconfigures) = match reloading {
        Some(reloading) => (Some(reloading.under(options, &chosen, reconfiguring)?), None),
        None => (None, reconfiguring.map(Hangup::new).transpose()?),
    };
    let renewal = Renewal::from_options(&chosen)?;
    let cluster = options.cluster.options()?;
    // The sockets are taken before another controller ends in favour of this one.
    let inherited = service::listeners()?;
    let controller = if options.takeover {
        let takeover = take_over(&chosen)?;
        Controller::take_over(chosen, takeover)?
    } else {
        Controller::start_on(chosen, inherited)?
    };
    let handle = controller.handle();
    started(handle.clone());
    print_recording(&handle);
    let reloads = reload_state.map(|reload_state| reload_state.serve(&handle));
    let mut network = RealNetwork::new(&handle, options.logging(), renewal);
    if let Some(reloads) = &reloads {
        reloads.report_policy(&mut network.lines);
    }
    if options.takeover {
        network.lines.print_line(&format!("took over {}", counted(controller.taken(), "connection")));
    }
    let member = match cluster {
        Some(cluster) => {
            network.lines.print_line(&format!("controller {} of the cluster {}", cluster.name, cluster.cluster));
            Some(ClusterMember::join(&handle, cluster)?)
        }
        None => {
            handle.operations().serve_successors();
            None
        }
    };
    let mut watch = PolicyWatch { failures: FailureThreshold::new(), reloads, reconfigures };
    let successor = network.serve(stop, |lines| {
        watch.look(&handle, lines);
        handle.operations().successor()
    });
    if let Some(successor) = successor {
        return hand_over(controller, successor, &mut network.lines);
    }
    // Another controller becomes master while this one ends.
    drop(member);
    if let Some(reloads) = &mut watch.reloads {
        reloads.end();
    }
    network.print_rest();
    summary::of_controller(&handle, &mut network.lines);
    stop_unless_failed(controller)
}

/// Everything that is looked at in each turn because a policy runs.
struct PolicyWatch<'a> {
    failures: FailureThreshold,
    reloads: Option<ReloadService<'a>>,
    reconfigures: Option<Hangup>,
}

impl PolicyWatch<'_> {
    fn look(&mut self, handle: &Handle, lines: &mut Lines) {
        self.failures.report(handle, lines);
        if let Some(reloads) = &mut self.reloads {
            reloads.look(lines);
        }
        if let Some(reconfigures) = &mut self.reconfigures {
            reconfigures.look(handle, lines);
        }
    }
}

/// The next number of packets with a failing policy that is reported: ten, a hundred, and so on.
struct FailureThreshold {
    next: u64,
    asked: Instant,
}

impl FailureThreshold {
    fn new() -> FailureThreshold {
        FailureThreshold { next: 10, asked: Instant::now() }
    }

    fn report(&mut self, handle: &Handle, lines: &mut Lines) {
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

/// Requests a copy of its knowledge from the controller with the same control socket.
fn take_over(chosen: &ControllerOptions) -> anyhow::Result<Takeover> {
    let control = chosen.control.socket.as_deref().context("--takeover needs a control socket")?;
    Takeover::ask(control, chosen.openflow.tls.is_some())
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
