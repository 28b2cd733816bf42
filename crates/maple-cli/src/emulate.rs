//! `maple emulate`: switches and hosts towards any OpenFlow controller.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use maple_emulator::driver::Stats;
use maple_emulator::lab::{Lab, LabError, Live};
use maple_emulator::traffic::TrafficOptions;
use maple_emulator::{Emulation, EmulationOptions, Topology};

use crate::options::{EmulateArgs, EmulationArgs};
use crate::output::print_line;
use crate::usage_error::OrUsageError as _;
use crate::{console, signal};

/// How often it tells what happens.
const TURN: Duration = Duration::from_secs(1);
/// How often it looks.
const LOOK: Duration = Duration::from_millis(50);
/// How long all switches must have been connected before commands begin: a controller needs time to find the links.
const SETTLE: Duration = Duration::from_secs(2);
/// How long a script waits for the controller.
const PATIENCE: Duration = Duration::from_secs(60);

/// Emulates until it is told to stop, or until the traffic or the script is over. The exit status is 1 if flows did not end
/// well.
pub fn main(args: EmulateArgs) -> anyhow::Result<u8> {
    let stop = signal::stop_flag()?;
    let topology = Topology::parse(&args.topology).or_usage_error()?;
    print_line(format_args!(
        "{}: {} switches (OpenFlow {}), {} hosts, towards {}",
        args.topology,
        topology.switches.len(),
        args.emulation.version(),
        topology.hosts.len(),
        args.controller
    ));
    let mut options = options(topology.clone(), args.controller, &args.emulation);
    options.traffic = args.emulation.traffic.map(|duration| traffic(&args.emulation, duration));
    let emulation = Emulation::start(options)?;
    let mut trouble = Trouble::new(args.controller);
    let done = if args.emulation.has_commands() {
        commands(&args.emulation, topology, &emulation, &mut trouble, &stop)
    } else {
        watch(&emulation, &mut trouble, &stop)
    };
    let stats = emulation.stop()?;
    done?;
    print_line(status(&stats));
    Ok(u8::from(stats.total.failed > 0))
}

/// Tells what happens until the traffic is over.
fn watch(emulation: &Emulation, trouble: &mut Trouble, stop: &AtomicBool) -> anyhow::Result<()> {
    let mut last = String::new();
    let mut next = Instant::now() + TURN;
    while !stop.load(Ordering::SeqCst) {
        let stats = emulation.snapshot()?;
        if stats.traffic_over {
            break;
        }
        trouble.tell(&stats);
        if Instant::now() >= next {
            next = Instant::now() + TURN;
            let line = status(&stats);
            if line != last && stats.trouble.is_none() {
                print_line(&line);
                last = line;
            }
        }
        std::thread::sleep(LOOK);
    }
    Ok(())
}

/// Does commands once all switches are connected. Who types need not wait for a controller that does not come.
fn commands(
    args: &EmulationArgs,
    topology: Topology,
    emulation: &Emulation,
    trouble: &mut Trouble,
    stop: &AtomicBool,
) -> anyhow::Result<()> {
    let mut connected = None;
    let began = Instant::now();
    while !stop.load(Ordering::SeqCst) {
        let stats = emulation.snapshot()?;
        trouble.tell(&stats);
        let all = stats.switches.iter().all(|switch| switch.connected);
        connected = if all { connected.or_else(|| Some(Instant::now())) } else { None };
        if connected.is_some_and(|since| since.elapsed() >= SETTLE) || args.console && stats.trouble.is_some() {
            break;
        }
        if began.elapsed() > PATIENCE {
            let count = stats.switches.iter().filter(|switch| switch.connected).count();
            anyhow::bail!("{count} of {} switches were connected after {PATIENCE:?}", stats.switches.len());
        }
        std::thread::sleep(LOOK);
    }
    let mut look = Instant::now();
    let meanwhile = || {
        if look.elapsed() > LOOK {
            look = Instant::now();
            trouble.tell(&emulation.snapshot().map_err(LabError::from)?);
        }
        Ok(())
    };
    console::run(&Lab::new(topology), &mut Live::new(emulation, stop, meanwhile), args)
}

/// Tells once that the controller is not there, and when it is.
struct Trouble {
    controller: SocketAddr,
    is_told: bool,
}

impl Trouble {
    fn new(controller: SocketAddr) -> Trouble {
        Trouble { controller, is_told: false }
    }

    fn tell(&mut self, stats: &Stats) {
        match &stats.trouble {
            Some(why) if !self.is_told => {
                print_line(format_args!("controller {}: {why}; trying again until it is there", self.controller));
                self.is_told = true;
            }
            None if self.is_told && stats.switches.iter().any(|switch| switch.connected) => {
                print_line(format_args!("controller {}: connected", self.controller));
                self.is_told = false;
            }
            _ => {}
        }
    }
}

/// How the network behaves.
pub fn options(topology: Topology, controller: SocketAddr, args: &EmulationArgs) -> EmulationOptions {
    let mut options = EmulationOptions::new(topology, controller, args.version());
    options.network.seed = args.seed();
    options
}
/// What its hosts talk about.
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
