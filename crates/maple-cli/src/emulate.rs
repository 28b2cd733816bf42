//! `maple emulate`: switches and hosts towards any OpenFlow controller.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use maple_emulator::driver::Stats;
use maple_emulator::traffic::TrafficOptions;
use maple_emulator::{Emulation, EmulationOptions, Topology};

use crate::args::{EmulateArgs, EmulationArgs};
use crate::wrong::OrWrong as _;
use crate::{say, signal};

/// How often it tells what happens.
const TURN: Duration = Duration::from_secs(1);

/// Emulates until it is told to stop, or until the traffic is over. The exit status is 1 if flows did not end well.
pub fn main(args: EmulateArgs) -> anyhow::Result<u8> {
    let stop = signal::stop_flag()?;
    let topology = Topology::parse(&args.topology).or_wrong()?;
    say(format_args!(
        "{}: {} switches (OpenFlow {}), {} hosts, towards {}",
        args.topology,
        topology.switches.len(),
        args.emulation.version(),
        topology.hosts.len(),
        args.controller
    ));
    let mut options = options(topology, args.controller, &args.emulation);
    options.traffic = args.emulation.traffic.map(|duration| traffic(&args.emulation, duration));
    let emulation = Emulation::start(options)?;
    let mut last = String::new();
    let mut next = Instant::now();
    while !stop.load(Ordering::SeqCst) {
        let stats = emulation.snapshot()?;
        if stats.traffic_over {
            break;
        }
        if Instant::now() >= next {
            next = Instant::now() + TURN;
            let line = status(&stats);
            if line != last {
                say(&line);
                last = line;
            }
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let stats = emulation.stop()?;
    say(status(&stats));
    Ok(u8::from(stats.total.failed > 0))
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
