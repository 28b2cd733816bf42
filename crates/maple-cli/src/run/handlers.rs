//! `maple run builtin:learning-switch`, `builtin:hub`, and handlers in Python: a program for each switch, not a policy.

use std::sync::atomic::Ordering;

use anyhow::{anyhow, bail};
use maple_controller::{Controller, ControllerOptions};

use super::progress::Lines;
use super::{Started, TURN, joined, log_to_stderr, placed, tell_metrics};
use crate::options::RunOptions;
use crate::output::print_line;
use crate::signal;
use crate::usage_error::usage_error;

/// Serves switches until it is asked to stop.
pub fn run(options: &RunOptions, chosen: ControllerOptions, started: Started<'_>) -> anyhow::Result<u8> {
    for (given, option) in [
        (options.emulate.is_some(), "--emulate"),
        (options.emulation.traffic.is_some(), "--traffic"),
        (options.weights.is_some(), "--weights"),
        (options.track_hosts.is_some(), "--track-hosts"),
        (!options.middlebox.is_empty(), "--middlebox"),
        (options.labels.is_some(), "--labels"),
        (options.compiler.is_some(), "--compiler"),
        (options.max_rules.is_some(), "--max-rules"),
        (options.max_traces.is_some(), "--max-traces"),
        (options.max_hosts_per_port.is_some(), "--max-hosts-per-port"),
        (options.max_hosts.is_some(), "--max-hosts"),
        (options.host_timeout.is_some(), "--host-timeout"),
        (options.poll.is_some(), "--poll"),
        (options.audit.is_some(), "--audit"),
        (options.takeover, "--takeover"),
        (options.flow_mod_rate.is_some(), "--flow-mod-rate"),
        (!options.snoop.is_empty(), "--snoop"),
        (!options.dhcp_server.is_empty(), "--dhcp-server"),
        (options.querier, "--querier"),
        (options.check_rate.is_some(), "--check-rate"),
    ] {
        if given {
            return Err(usage_error(anyhow!(
                "{option} is for policies, and this is a handler: `maple emulate` in another terminal gives it switches"
            )));
        }
    }
    log_to_stderr(options.verbose);
    let stop = signal::stop_flag()?;
    let controller = Controller::start(placed(options, chosen))?;
    let handle = controller.handle();
    started(controller.handle());
    let mut lines = Lines::new();
    lines.print_line(&format!("listening on {}", joined(handle.addresses())));
    tell_metrics(&handle, &mut lines);
    while !stop.load(Ordering::SeqCst) && handle.failure().is_none() {
        if let Ok(notice) = handle.notices().recv_timeout(TURN) {
            lines.notice(&notice);
        }
    }
    let counters = handle.stats().total.counters;
    print_line(format_args!(
        "{} packet-ins, {} flow-mods, {} packet-outs",
        counters.of_packet_ins, counters.of_flow_mods, counters.of_packet_outs
    ));
    let failures = handle.handler_failures();
    if failures > 0 {
        print_line(format_args!("handlers failed {failures} times, see above"));
    }
    if let Some(failure) = handle.failure() {
        bail!("{failure}");
    }
    controller.stop();
    Ok(0)
}
