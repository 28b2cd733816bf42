//! `maple run builtin:learning-switch`, `builtin:hub`, and handlers in Python: a program for each switch, not a policy.

use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{anyhow, bail};
use maple_controller::{Controller, ControllerOptions};

use super::progress::Lines;
use super::tls::Renewal;
use super::{Started, TURN, joined, placed, tell_metrics};
use crate::options::RunOptions;
use crate::service::{self, Watchdog};
use crate::signal;
use crate::usage_error::usage_error;
use maple_wire::counted;

/// Serves switches until it is asked to stop.
///
/// # Errors
/// If options do not apply to handlers, or if the controller can't start.
pub fn run(options: &RunOptions, chosen: ControllerOptions, started: Started<'_>) -> anyhow::Result<u8> {
    for (given, option) in [
        (options.emulate.is_some(), "--emulate"),
        (options.emulation.traffic.is_some(), "--traffic"),
        (options.weights.is_some(), "--weights"),
        (options.track_hosts.is_some(), "--track-hosts"),
        (!options.middlebox.is_empty(), "--middlebox"),
        (options.labels.is_some(), "--labels"),
        (options.max_rules.is_some(), "--max-rules"),
        (options.max_traces.is_some(), "--max-traces"),
        (options.max_hosts_per_port.is_some(), "--max-hosts-per-port"),
        (options.max_hosts.is_some(), "--max-hosts"),
        (options.host_timeout.is_some(), "--host-timeout"),
        (options.unreachable.is_some(), "--unreachable"),
        (options.forget_switch_after.is_some(), "--forget-switch-after"),
        (options.poll.is_some(), "--poll"),
        (options.audit.is_some(), "--audit"),
        (options.takeover, "--takeover"),
        (options.record.is_some(), "--record"),
        (options.flow_mod_rate.is_some(), "--flow-mod-rate"),
        (!options.snoop.is_empty(), "--snoop"),
        (!options.dhcp_server.is_empty(), "--dhcp-server"),
        (options.querier, "--querier"),
        (options.check_rate.is_some(), "--check-rate"),
        (options.network.has_facts(), "what the configuration says of ports, hosts, costs and tables"),
    ] {
        if given {
            return Err(usage_error(anyhow!(
                "{option} is for policies, and this is a handler: `maple emulate` in another terminal gives it switches"
            )));
        }
    }
    options.logging().install();
    let stop = signal::stop_flag()?;
    let inherited = service::listeners()?;
    let chosen = placed(options, chosen)?;
    let mut renewal = Renewal::of(&chosen)?;
    let controller = Controller::start_on(chosen, inherited)?;
    let handle = controller.handle();
    started(controller.handle());
    let mut lines = Lines::new(handle.names(), options.logging());
    lines.report_to(handle.files());
    lines.print_line(&format!("listening on {}", joined(handle.addresses())));
    tell_metrics(&handle, &mut lines);
    service::tell(&format!("READY=1\nSTATUS=listening on {}", joined(handle.addresses())));
    let _watchdog = Watchdog::start(&handle);
    while !stop.load(Ordering::SeqCst) && handle.failure().is_none() {
        lines.follow(&handle, TURN);
        if let Some(renewal) = &mut renewal {
            renewal.look(&mut lines);
        }
    }
    service::tell("STOPPING=1");
    lines.follow(&handle, Duration::ZERO);
    match handle.stats().map(|stats| stats.total.counters) {
        Ok(counters) => lines.print_line(&format!(
            "{} packet-ins, {} flow-mods, {} packet-outs",
            counters.of_packet_ins, counters.of_flow_mods, counters.of_packet_outs
        )),
        Err(late) => lines.print_line(&format!("no summary: {late}")),
    }
    let failures = handle.handler_failures();
    if failures > 0 {
        lines.print_line(&format!("handlers failed {}, see above", counted(failures, "time")));
    }
    if let Some(failure) = handle.failure() {
        bail!("{failure}");
    }
    controller.stop();
    Ok(0)
}
