//! `maple run builtin:learning-switch`, `builtin:hub`, and handlers in Python: a program for each switch, not a policy.

use anyhow::anyhow;
use maple_controller::{Controller, ControllerOptions, Handle};

use super::controller_options::with_common;
use super::progress::Lines;
use super::real_network::RealNetwork;
use super::tls::Renewal;
use super::{OnStart, stop_unless_failed};
use crate::options::RunOptions;
use crate::usage_error::usage_error;
use crate::{service, signal};
use maple_wire::counted;

/// Serves switches until it is asked to stop.
///
/// # Errors
/// If options do not apply to handlers, or if the controller can't start.
pub fn run(options: &RunOptions, chosen: ControllerOptions, started: OnStart<'_>) -> anyhow::Result<u8> {
    refuse_options_of_policies(options)?;
    options.logging().install();
    let stop = signal::stop_flag()?;
    let inherited = service::listeners()?;
    let chosen = with_common(options, chosen)?;
    let renewal = Renewal::from_options(&chosen)?;
    let controller = Controller::start_on(chosen, inherited)?;
    let handle = controller.handle();
    started(controller.handle());
    let mut network = RealNetwork::new(&handle, options.logging(), renewal);
    network.serve(&stop, |_| None);
    network.print_rest();
    print_summary(&handle, &mut network.lines);
    stop_unless_failed(controller)
}

/// Refuses options that have no effect on handlers.
fn refuse_options_of_policies(options: &RunOptions) -> anyhow::Result<()> {
    for (given, option) in [
        (options.emulate.is_some(), "--emulate"),
        (options.emulation.traffic.is_some(), "--traffic"),
        (options.costs.is_some(), "--costs"),
        (options.track_hosts.is_some(), "--track-hosts"),
        (!options.middlebox.is_empty(), "--middlebox"),
        (options.labels.is_some(), "--labels"),
        (options.max_rules.is_some(), "--max-rules"),
        (options.max_traces.is_some(), "--max-traces"),
        (options.look_ups.is_some(), "--look-ups"),
        (options.open_routes, "--open-routes"),
        (options.explore.is_some(), "--explore"),
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
    Ok(())
}

fn print_summary(handle: &Handle, lines: &mut Lines) {
    match handle.stats().map(|stats| stats.total.counters) {
        Ok(counters) => lines.print_line(&format!(
            "{} packet-ins, {} flow-mods, {} packet-outs",
            counters.of_packet_ins, counters.of_flow_mods, counters.of_packet_outs
        )),
        Err(late) => lines.print_line(&format!("no summary: {late}")),
    }
    let failures = handle.operations().handler_failures();
    if failures > 0 {
        lines.print_line(&format!("handlers failed {}, see above", counted(failures, "time")));
    }
}
