//! All pairs of hosts communicate: counts rules, packet-ins, leaves and memory.

use std::time::{Duration, Instant};

use maple_controller::control::socket::Show;
use maple_load::flows::{FlowNetwork, pairs};
use maple_wire::Version;

use super::super::bed::Bed;
use super::super::round::busiest;
use super::super::targets::TargetResult;
use super::super::{FlowsArgs, socket};
use super::{Answer, network};
use crate::report::Progress;

/// The number of rules of a core switch that do not depend on the number of hosts.
const CONSTANT: f64 = 64.0;
/// The time between two questions whether the controller still explores.
const EXPLORATION_INTERVAL: Duration = Duration::from_secs(1);

/// Measures the scenario on a topology.
///
/// # Errors
/// If the topology is invalid, or if the controller or the network can't be started, or fails.
pub fn answer(args: &FlowsArgs, topology: &str) -> anyhow::Result<Answer> {
    let progress = Progress::new(1);
    progress.set_message(format!("{topology}: all pairs"));
    let version = args.of.first().copied().unwrap_or(Version::Of13);
    let socket = socket();
    let contender = args.first(&format!(" --control {} --count-heap", socket.display()))?;
    let network = network(topology, args.hosts.unwrap_or(1))?;
    let mut bed = Bed::start(args, &contender, Some(socket), network, version, 0)?;
    let mut answer = Answer::new(format!("{}, {topology}, OpenFlow {version}: all pairs of hosts", contender.name));
    let unknown = bed.acquaint(args.settle)?;
    let is_explored = explore(&mut bed, Instant::now() + args.limit)?;
    let (before, heap_before) = (bed.moment()?, bed.heap()?);
    let order = pairs(&bed.flow_network, false);
    let whole = bed.flow_network.flows(&mut order.iter().copied(), order.len(), Instant::now() + args.limit)?;
    let (after, heap_after) = (bed.moment()?, bed.heap()?);
    let hosts = bed.flow_network.network().hosts.len();
    let (edge, core) = busiest(&bed.flow_network);
    answer.figure("hosts", hosts);
    answer.figure("pairs", order.len());
    answer.figure("flows that ended", bed.flow_network.ended().len());
    answer.figure("flows a second", format!("{:.0}", bed.flow_network.ended().len() as f64 / after.seconds(&before)));
    answer.figure("packet-ins of these flows", after.counters.packet_ins - before.counters.packet_ins);
    answer.figure("flow-mods in all", after.counters.flow_mods);
    answer.figure("leaves", leaves(&bed)?);
    if let (Some(before), Some(after)) = (heap_before, heap_after) {
        answer.figure("heap of the controller before these flows (MB)", megabytes(before as f64));
        answer.figure("heap that these flows take (MB)", megabytes(after as f64 - before as f64));
    }
    answer.figure("rules of the busiest switch with hosts", edge);
    answer.figure("rules of the busiest switch without", core.map_or("none".into(), |rules| rules.to_string()));
    let switches = 0..bed.flow_network.network().switches.len();
    let all: usize = switches.clone().map(|switch| bed.flow_network.rules(switch)).sum();
    answer.figure("rules of all switches", all);
    if let Some(switch) = switches.max_by_key(|switch| bed.flow_network.rules(*switch)) {
        answer.figure("rules of the busiest switch, by table", by_table(&bed.flow_network, switch));
    }
    if !is_explored {
        answer.doubts.push("the controller still explored when the flows began".to_owned());
    }
    if !whole || unknown > 0 {
        let missing = order.len() - bed.flow_network.ended().len();
        answer.doubts.push(format!("{missing} flows did not end, {unknown} hosts could not make themselves known"));
    }
    if let Some(core) = core {
        answer.targets.push(TargetResult::bound("rules of a core switch", hosts as f64 + CONSTANT, core as f64, 0));
    }
    Ok(answer)
}

/// Waits until the controller has tried the policy on all packets that known hosts could send. Returns whether it has.
fn explore(bed: &mut Bed, deadline: Instant) -> anyhow::Result<bool> {
    loop {
        let trees = bed.show(Show::Tree(None))?;
        let explorations = trees.as_array().into_iter().flatten().map(|switch| &switch["exploration"]);
        let is_done = explorations.into_iter().all(|exploration| exploration["current"].as_bool() != Some(false));
        if is_done || Instant::now() > deadline {
            return Ok(is_done);
        }
        bed.flow_network.wait(EXPLORATION_INTERVAL)?;
    }
}

/// Returns the number of leaves of all switches: those that were installed, without those that were withdrawn.
fn leaves(bed: &Bed) -> anyhow::Result<u64> {
    let engine = &bed.show(Show::Stats)?["engine"];
    let count = |name: &str| engine[name].as_u64().unwrap_or_default();
    Ok(count("leaves_installed").saturating_sub(count("leaves_withdrawn")))
}

fn megabytes(bytes: f64) -> String {
    format!("{:.1}", bytes / 1e6)
}

/// Returns the numbers of rules of a switch: `0: 51, 1: 200`.
fn by_table(flow_network: &FlowNetwork, switch: usize) -> String {
    let tables = flow_network.rules_by_table(switch).enumerate().filter(|(_, rules)| *rules > 0);
    tables.map(|(table, rules)| format!("{table}: {rules}")).collect::<Vec<_>>().join(", ")
}
