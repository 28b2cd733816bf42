//! `maple emulate`: emulates switches and hosts for any OpenFlow controller.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use maple_emulator::commands::{CommandError, CommandRunner, Live};
use maple_emulator::driver::{Stats, SwitchStats};
use maple_emulator::traffic::TrafficOptions;
use maple_emulator::{Emulation, EmulationOptions, Topology};

use crate::options::{EmulateArgs, EmulationArgs};
use crate::output::print_line;
use crate::usage_error::OrUsageError as _;
use crate::{console, signal};
use maple_wire::counted;

/// The time between two lines about the state. Chosen: a person reads along.
const PRINT_INTERVAL: Duration = Duration::from_secs(1);
/// The time between two checks of the network. Chosen: a person does not notice it, and a check asks the network's
/// thread.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);
/// The time for which all switches must be connected before commands begin, so that the controller can discover the
/// links. Chosen: most controllers need a round of probes, about a second.
const SETTLE: Duration = Duration::from_secs(2);
/// The maximum number of switches that an error names. Chosen: they fit a line; the number of the others follows.
const NAMED: usize = 5;
/// The maximum time that a script waits for the controller. Chosen: controllers on a loaded machine take many seconds
/// to start, and a test must fail in the end.
const CONTROLLER_TIMEOUT: Duration = Duration::from_secs(60);
/// The number of ended connections after which the controller counts as refusing a switch. Chosen: one or two end while
/// a controller starts.
const SENT_AWAY: u64 = 3;

/// Emulates until it is stopped, or until the traffic or the script ends. The exit status is 1 if flows failed.
///
/// # Errors
/// If the topology is invalid, the controller does not accept the switches, or a command of a script fails.
pub fn main(args: EmulateArgs) -> anyhow::Result<u8> {
    let stop = signal::stop_flag()?;
    let topology = Topology::parse(&args.topology).or_usage_error()?;
    print_line(format_args!(
        "{}: {} (OpenFlow {}), {}, towards {}",
        args.topology,
        counted(topology.switches.len(), "switch"),
        args.emulation.version(),
        counted(topology.hosts.len(), "host"),
        addresses_text(&args.controllers)
    ));
    let [first, others @ ..] = &args.controllers[..] else { anyhow::bail!("an emulated network needs a controller") };
    let mut options = options(topology.clone(), *first, &args.emulation);
    options.controllers.extend(others);
    options.traffic = args.emulation.traffic.map(|duration| traffic(&args.emulation, duration));
    let emulation = Emulation::start(options)?;
    let mut report = ConnectionReport::new(&args.controllers);
    let done = if args.emulation.has_commands() {
        commands(&args.emulation, topology, &emulation, &mut report, &stop)
    } else {
        watch(&emulation, &mut report, &stop)
    };
    let stats = emulation.stop()?;
    done?;
    print_line(status(&stats));
    Ok(u8::from(stats.total.failed > 0))
}

/// Prints the state until the traffic ends.
fn watch(emulation: &Emulation, report: &mut ConnectionReport, stop: &AtomicBool) -> anyhow::Result<()> {
    let mut last = String::new();
    let mut next = Instant::now() + PRINT_INTERVAL;
    while !stop.load(Ordering::SeqCst) {
        let stats = emulation.snapshot()?;
        if stats.traffic_over {
            break;
        }
        report.update(&stats);
        if Instant::now() >= next {
            next = Instant::now() + PRINT_INTERVAL;
            let line = status(&stats);
            if line != last && stats.trouble.is_none() {
                print_line(&line);
                last = line;
            }
        }
        std::thread::sleep(CHECK_INTERVAL);
    }
    Ok(())
}

/// Runs commands once all switches are connected. A console does not wait for the controller.
fn commands(
    args: &EmulationArgs,
    topology: Topology,
    emulation: &Emulation,
    report: &mut ConnectionReport,
    stop: &AtomicBool,
) -> anyhow::Result<()> {
    let mut connected = None;
    let (began, mut is_reported) = (Instant::now(), false);
    while !stop.load(Ordering::SeqCst) {
        let stats = emulation.snapshot()?;
        report.update(&stats);
        let all = stats.switches.iter().all(|switch| switch.connected);
        connected = if all { connected.or_else(|| Some(Instant::now())) } else { None };
        if connected.is_some_and(|since| since.elapsed() >= SETTLE) || args.console && stats.trouble.is_some() {
            break;
        }
        if !is_reported && stats.switches.iter().any(|switch| !switch.connected && switch.connections >= SENT_AWAY) {
            print_line(format_args!("waiting: {}", missing(&stats.switches)));
            is_reported = true;
        }
        if began.elapsed() > CONTROLLER_TIMEOUT {
            anyhow::bail!("{} after {CONTROLLER_TIMEOUT:?}", missing(&stats.switches));
        }
        std::thread::sleep(CHECK_INTERVAL);
    }
    let mut look = Instant::now();
    let meanwhile = || {
        if look.elapsed() > CHECK_INTERVAL {
            look = Instant::now();
            report.update(&emulation.snapshot().map_err(CommandError::from)?);
        }
        Ok(())
    };
    console::run(&CommandRunner::new(topology), &mut Live::new(emulation, stop, meanwhile), args, None)
}

/// Describes the switches that the controller does not have, the first few by name, and how often it closed their
/// connections.
fn missing(switches: &[SwitchStats]) -> String {
    let missing: Vec<&SwitchStats> = switches.iter().filter(|switch| !switch.connected).collect();
    let of_one = |switch: &&SwitchStats| match switch.connections {
        0 => format!("{} ({}) had no connection", switch.name, switch.dpid),
        1 => format!("{} ({}) had 1 connection, which the controller did not accept", switch.name, switch.dpid),
        n => format!("{} ({}) had {n} connections, which the controller closed", switch.name, switch.dpid),
    };
    let named: Vec<String> = missing.iter().take(NAMED).map(of_one).collect();
    let more = match missing.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    let count = switches.len() - missing.len();
    format!("{count} of {} switches were connected: {}{more}", switches.len(), named.join(", "))
}

/// Reports once that the controller is missing, and when it connects.
struct ConnectionReport {
    controllers: String,
    is_reported: bool,
}

impl ConnectionReport {
    fn new(controllers: &[SocketAddr]) -> ConnectionReport {
        ConnectionReport { controllers: addresses_text(controllers), is_reported: false }
    }

    fn update(&mut self, stats: &Stats) {
        match &stats.trouble {
            Some(why) if !self.is_reported => {
                print_line(format_args!("controller {}: {why}; trying again until it is there", self.controllers));
                self.is_reported = true;
            }
            None if self.is_reported && stats.switches.iter().any(|switch| switch.connected) => {
                print_line(format_args!("controller {}: connected", self.controllers));
                self.is_reported = false;
            }
            _ => {}
        }
    }
}

/// Returns the addresses of controllers, for people.
fn addresses_text(controllers: &[SocketAddr]) -> String {
    controllers.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// Returns the options of the network.
pub fn options(topology: Topology, controller: SocketAddr, args: &EmulationArgs) -> EmulationOptions {
    let mut options = EmulationOptions::new(topology, controller, args.version());
    options.network.seed = args.seed();
    if let Some(tables) = args.flow_tables {
        options.network.switch.n_tables = tables;
    }
    options
}

/// Returns the options of its hosts' traffic.
pub fn traffic(args: &EmulationArgs, duration: Duration) -> TrafficOptions {
    TrafficOptions {
        flows_per_second: args.rate(),
        duration: duration.as_nanos() as u64,
        seed: args.seed(),
        ..TrafficOptions::default()
    }
}

fn status(stats: &Stats) -> String {
    let sum = |count: fn(&maple_emulator::driver::SwitchStats) -> u64| stats.switches.iter().map(count).sum::<u64>();
    format!(
        "{} of {} switches connected; {} packet-ins, {} flow-mods, {} rules, {} errors; {} flows, {} ended well, {} failed",
        stats.switches.iter().filter(|switch| switch.connected).count(),
        stats.switches.len(),
        sum(|switch| switch.packet_ins),
        sum(|switch| switch.flow_mods),
        sum(|switch| switch.rules as u64),
        sum(|switch| switch.errors),
        stats.total.opened,
        stats.total.done,
        stats.total.failed,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use maple_wire::Dpid;

    fn switch(number: u64, connected: bool, connections: u64) -> SwitchStats {
        SwitchStats {
            name: format!("s{number}"),
            dpid: Dpid(number),
            connected,
            connections,
            rules: 0,
            packet_ins: 0,
            packet_outs: 0,
            flow_mods: 0,
            errors: 0,
            ambiguous_matches: 0,
        }
    }

    #[test]
    fn switches_that_the_controller_refuses_are_named() {
        let switches = [switch(1, true, 1), switch(2, false, 7), switch(3, false, 1), switch(4, false, 0)];
        let expected = "1 of 4 switches were connected: s2 (0000000000000002) had 7 connections, which the controller \
                        closed, s3 (0000000000000003) had 1 connection, which the controller did not accept, \
                        s4 (0000000000000004) had no connection";
        assert_eq!(missing(&switches), expected);
        let many: Vec<SwitchStats> = (1..=20).map(|number| switch(number, false, 0)).collect();
        assert!(missing(&many).ends_with("s5 (0000000000000005) had no connection, and 15 more"));
    }
}
