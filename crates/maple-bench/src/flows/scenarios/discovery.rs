//! Discovery in a ring and a tree of switches: the time until all links are known, and the cost of probing them later.

use std::time::Duration;

use maple_controller::control::socket::Show;
use maple_load::Wiring;
use maple_wire::Version;

use super::super::FlowsArgs;
use super::super::bed::Bed;
use super::super::{socket, targets::TargetResult};
use super::Answer;
use crate::report::Progress;

/// The target for the time until all links are known, in seconds.
const TIME_TARGET: f64 = 2.0;
/// The target for the load afterwards, in percent of a core.
const LOAD_TARGET: f64 = 10.0;
/// The maximum time to wait for the links: far above the target, so that a slow controller still gets a figure.
const LINKS_TIMEOUT: Duration = Duration::from_secs(60);
/// The interval of queries: a hundredth of the target for the time. Each query costs the controller a little.
const QUERY_INTERVAL: Duration = Duration::from_millis(20);
/// The time for which the idle network is measured, from `--settle` after the links are known: three rounds of probes,
/// so that it does not matter where in a round it begins.
const RESTING: Duration = Duration::from_secs(15);
/// The default number of a switch's ports without a link. They are probed as well.
const PORTS: u32 = 24;
/// The fan-out of the tree.
const FANOUT: usize = 4;

/// Measures discovery in networks of this many switches.
///
/// # Errors
/// If the controller or the network can't be started, or fails.
pub fn answer(args: &FlowsArgs, switches: u32) -> anyhow::Result<Answer> {
    let version = args.of.first().copied().unwrap_or(Version::Of13);
    let name = args.first("")?.name;
    let mut answer = Answer::new(format!("{name}, OpenFlow {version}: discovery of {switches} switches"));
    let ports = args.ports(PORTS)[0];
    answer.figure("ports of a switch without a link", ports);
    let shapes = [("ring", ring(switches as usize, ports)), ("tree", tree(switches as usize, ports))];
    let progress = Progress::new(2);
    for (shape, network) in shapes {
        progress.set_message(shape);
        measure(args, version, ports, shape, network, &mut answer)?;
        progress.step();
    }
    Ok(answer)
}

/// Builds a ring; its links are at the ports after the first `ports`.
fn ring(switches: usize, ports: u32) -> Wiring {
    let links = (0..switches).map(|n| [(n, ports + 1), ((n + 1) % switches, ports + 2)]);
    Wiring { switches: (1..=switches as u64).collect(), hosts: Vec::new(), links: links.collect() }
}

/// Builds a tree, numbered level by level. Its links are at the ports after the first `ports`; the first one leads
/// upwards.
fn tree(switches: usize, ports: u32) -> Wiring {
    let below = |n: usize| ports + 2 + ((n - 1) % FANOUT) as u32;
    let links = (1..switches).map(|n| [((n - 1) / FANOUT, below(n)), (n, ports + 1)]);
    Wiring { switches: (1..=switches as u64).collect(), hosts: Vec::new(), links: links.collect() }
}

fn measure(
    args: &FlowsArgs,
    version: Version,
    ports: u32,
    shape: &str,
    network: Wiring,
    answer: &mut Answer,
) -> anyhow::Result<()> {
    let links = network.links.len();
    let socket = socket();
    let contender = args.first(&format!(" --control {}", socket.display()))?;
    // Handshakes count: a controller with slow handshakes knows the links later.
    let mut bed = Bed::start(args, &contender, Some(socket), network, version, ports)?;
    let connected = bed.moment()?;
    let mut known = 0;
    while known < links && connected.at.elapsed() < LINKS_TIMEOUT {
        bed.flow_network.wait(QUERY_INTERVAL)?;
        known = bed.show(Show::Links)?.as_array().map_or(0, Vec::len);
    }
    let found = bed.moment()?;
    let seconds = found.seconds(&connected);
    answer.figure(&format!("{shape}: links known"), format!("{known} of {links}"));
    answer.figure(&format!("{shape}: seconds from the last features request"), format!("{seconds:.2}"));
    answer.figure(
        &format!("{shape}: controller time until then, s"),
        format!("{:.2}", found.controller_seconds(&connected)),
    );
    if known == links {
        answer.targets.push(TargetResult::bound(
            format!("{shape}: seconds until all links are known"),
            TIME_TARGET,
            seconds,
            2,
        ));
    } else {
        let what = format!("{shape}: seconds until all links are known");
        answer.targets.push(TargetResult::missed(
            what,
            format!("≤ {TIME_TARGET:.2}"),
            format!("{known} of {links} links"),
        ));
    }
    bed.flow_network.wait(args.settle)?;
    let before = bed.moment()?;
    bed.flow_network.wait(RESTING.min(args.limit))?;
    let after = bed.moment()?;
    let percent = after.controller_seconds(&before) / after.seconds(&before) * 100.0;
    let probes = (after.counters - before.counters).packet_outs as f64 / after.seconds(&before);
    answer.figure(&format!("{shape}: packet-outs a second at rest"), format!("{probes:.0}"));
    answer.targets.push(TargetResult::bound(format!("{shape}: percent of a core at rest"), LOAD_TARGET, percent, 1));
    Ok(())
}
