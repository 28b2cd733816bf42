//! A link with many flows fails: measures the controller's work until all flows are delivered again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use maple_load::flows::{FlowNetwork, NetworkPort, Pair, pairs};
use maple_wire::Version;

use super::super::FlowsArgs;
use super::super::bed::Bed;
use super::super::targets::TargetResult;
use super::{Answer, network};
use crate::report::Progress;

/// The default number of hosts for each host of the topology: with `fattree:8`, 64 at a switch's four ports.
const HOSTS: u32 = 16;
/// The target: the controller's time until all flows are rerouted, in milliseconds.
const TIME_TARGET: f64 = 200.0;
/// The target: messages for each route over the link.
const MESSAGES_TARGET: f64 = 2.0;
/// The maximum time for rerouting: far above the target, so that a slow controller still gets a figure.
const REROUTE_TIMEOUT: Duration = Duration::from_secs(60);
/// The number of flows that are opened between two counts of flows over the link: fewer would count
/// more often, and more would open flows in vain.
const STEP: usize = 1000;
/// The interval of checks for rerouted flows, and so the error of the measured time: small beside the target.
const CHECK_INTERVAL: Duration = Duration::from_millis(1);
/// The maximum time that open flows get before the link fails: longer than all repetitions of a host's packet.
const DRAIN: Duration = Duration::from_secs(10);
/// The time without a message after which a controller that uses less than [`IDLE_LOAD`] of a core is at rest.
const QUIET_TIME: Duration = Duration::from_millis(200);
/// The share of a core below which a controller may be at rest. It is twice the target for discovery at rest.
const IDLE_LOAD: f64 = 0.2;
/// The time to wait for messages after the last flow was rerouted.
const LATE_MESSAGES_TIME: Duration = Duration::from_secs(2);

/// A link by its ends, and the flows over it with their routes.
type Loaded = ([NetworkPort; 2], Vec<(Pair, Route)>);

/// A route: the ports by which it leaves switches, including the one to the host.
type Route = Vec<NetworkPort>;

/// Measures the failure of a loaded link in a topology.
///
/// # Errors
/// If the topology is invalid, or if the controller or the network can't be started, or fails.
pub fn answer(args: &FlowsArgs, topology: &str) -> anyhow::Result<Answer> {
    let progress = Progress::new(2);
    let version = args.of.first().copied().unwrap_or(Version::Of13);
    let contender = args.first("")?;
    let network = network(topology, args.hosts.unwrap_or(HOSTS))?;
    progress.set_message(format!("{topology}: discovery"));
    let mut bed = Bed::start(args, &contender, None, network, version, 0)?;
    let unknown = bed.acquaint(args.settle)?;
    let wanted = args.leaves.iter().copied().max().unwrap_or(1);
    let question = format!("{}, {topology}, OpenFlow {version}: a link fails under {wanted} leaves", contender.name);
    let mut answer = Answer::new(question);
    progress.set_message("opening flows".to_owned());
    let mut order = order(&bed.flow_network).into_iter();
    let Some((link, over)) = fill(&mut bed.flow_network, &mut order, wanted, Instant::now() + args.limit)? else {
        answer.doubts.push(format!("no flow leads over a link ({unknown} hosts could not make themselves known)"));
        return Ok(answer);
    };
    if over.len() < wanted {
        answer.doubts.push(format!("{} flows lead over the link, not {wanted}", over.len()));
    }
    answer.figure("flows that ended", bed.flow_network.ended().len());
    progress.step();
    progress.set_message("rerouting".to_owned());
    fail(&mut bed, (link, over), &mut answer)?;
    Ok(answer)
}

/// Fails the link, and measures until all its flows are delivered again.
fn fail(bed: &mut Bed, (link, over): Loaded, answer: &mut Answer) -> anyhow::Result<()> {
    // Nothing is in flight, so all later messages are because of the link.
    bed.flow_network.drain(DRAIN)?;
    let before = bed.moment()?;
    bed.flow_network.set_link(link, false)?;
    let asked = reroute(bed, over.iter().map(|(pair, _)| *pair).collect())?;
    let rerouted = bed.moment()?;
    bed.flow_network.wait(LATE_MESSAGES_TIME)?;
    let after = bed.moment()?;

    let counted = after.counters - before.counters;
    let routes = over.iter().map(|(_, route)| route).collect::<BTreeSet<_>>().len();
    let milliseconds = rerouted.controller_seconds(&before) * 1e3;
    let messages = (counted.flow_mods + counted.group_mods) as f64;
    answer.figure("flows over the link", over.len());
    answer.figure("routes over the link", routes);
    answer.figure("flows whose next packet went to the controller", asked);
    answer.figure("time until rerouted, ms", format!("{:.0}", rerouted.seconds(&before) * 1e3));
    answer.figure("controller time until then, ms", format!("{milliseconds:.0}"));
    let all = after.controller_seconds(&before) * 1e3;
    answer.figure("controller time with what came after, ms", format!("{all:.0}"));
    answer.figure("flow-mods", counted.flow_mods);
    answer.figure("group-mods", counted.group_mods);
    answer.figure("barriers", counted.barriers);
    answer.figure("packet-outs", counted.packet_outs);
    answer.figure("flow-mods and group-mods for each route", format!("{:.2}", messages / routes as f64));
    if counted.failed > 0 {
        answer.doubts.push(format!("{} flows do not come out any more", counted.failed));
    }
    answer.targets.push(TargetResult::bound("controller time until rerouted, ms", TIME_TARGET, milliseconds, 0));
    let most = MESSAGES_TARGET * routes as f64;
    answer.targets.push(TargetResult::bound("flow-mods and group-mods", most, messages, 0));
    Ok(())
}

/// Waits until a packet of each flow is delivered again. If the controller is at rest, and rules alone do not deliver
/// the packet, the flow's host sends its next packet. Returns the number of these hosts.
fn reroute(bed: &mut Bed, mut broken: Vec<Pair>) -> anyhow::Result<usize> {
    let deadline = Instant::now() + REROUTE_TIMEOUT;
    let mut since = bed.moment()?;
    while !broken.is_empty() && Instant::now() < deadline {
        bed.flow_network.wait(CHECK_INTERVAL)?;
        // While one flow is broken, it is too early to check the others.
        while let Some(pair) = broken.last()
            && bed.flow_network.path(*pair).is_some()
        {
            broken.pop();
        }
        if since.at.elapsed() < QUIET_TIME {
            continue;
        }
        let now = bed.moment()?;
        let is_silent = now.counters.messages() == since.counters.messages();
        if is_silent && now.controller_seconds(&since) < IDLE_LOAD * now.seconds(&since) {
            break;
        }
        since = now;
    }
    broken.retain(|pair| bed.flow_network.path(*pair).is_none());
    let until = bed.flow_network.ended().len() + broken.len();
    bed.flow_network.flows(&mut broken.iter().copied(), until, deadline)?;
    Ok(broken.len())
}

/// Returns the pairs of hosts. Those that begin at the first host's switch come first, because they share its links.
fn order(flow_network: &FlowNetwork) -> Vec<Pair> {
    let hosts = &flow_network.network().hosts;
    let mut order = pairs(flow_network, true);
    order.sort_by_key(|(src, _)| hosts[*src as usize].switch != hosts[0].switch);
    order
}

/// Opens flows until enough lead over one link, or until time or pairs run out. Returns the link and its flows with
/// their routes.
fn fill(
    flow_network: &mut FlowNetwork,
    order: &mut impl Iterator<Item = Pair>,
    wanted: usize,
    deadline: Instant,
) -> anyhow::Result<Option<Loaded>> {
    let ends: BTreeMap<NetworkPort, [NetworkPort; 2]> =
        flow_network.network().links.iter().flat_map(|[a, b]| [(*a, [*a, *b]), (*b, [*a, *b])]).collect();
    let mut over: BTreeMap<[NetworkPort; 2], Vec<(Pair, Route)>> = BTreeMap::new();
    let mut counted = 0;
    loop {
        let has_opened_all = flow_network.flows(order, counted + STEP, deadline)?;
        let fresh: Vec<Pair> = flow_network.ended()[counted..].to_vec();
        counted += fresh.len();
        for pair in fresh {
            let dst = &flow_network.network().hosts[pair.1 as usize];
            let last = (dst.switch, dst.port);
            let Some(crossed) = flow_network.path(pair).map(<[NetworkPort]>::to_vec) else { continue };
            let links: BTreeSet<[NetworkPort; 2]> = crossed.iter().filter_map(|port| ends.get(port).copied()).collect();
            let route: Route = crossed.into_iter().chain([last]).collect();
            for link in links {
                over.entry(link).or_default().push((pair, route.clone()));
            }
        }
        let most = over.values().map(Vec::len).max().unwrap_or(0);
        if !has_opened_all || most >= wanted {
            break;
        }
    }
    Ok(over.into_iter().max_by_key(|(_, flows)| flows.len()))
}
