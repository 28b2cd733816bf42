//! All pairs of hosts communicate: counts the rules of the busiest core switch.

use std::time::Instant;

use maple_load::flows::pairs;
use maple_wire::Version;

use super::super::FlowsArgs;
use super::super::bed::Bed;
use super::super::round::busiest;
use super::super::targets::TargetResult;
use super::{Answer, network};
use crate::report::Progress;

/// The number of rules of a core switch that do not depend on the number of hosts.
const CONSTANT: f64 = 64.0;

/// Measures the scenario on a topology.
///
/// # Errors
/// If the topology is invalid, or if the controller or the network can't be started, or fails.
pub fn answer(args: &FlowsArgs, topology: &str) -> anyhow::Result<Answer> {
    let progress = Progress::new(1);
    progress.set_message(format!("{topology}: all pairs"));
    let version = args.of.first().copied().unwrap_or(Version::Of13);
    let contender = args.first("")?;
    let network = network(topology, args.hosts.unwrap_or(1))?;
    let mut bed = Bed::start(args, &contender, None, network, version, 0)?;
    let mut answer = Answer::new(format!("{}, {topology}, OpenFlow {version}: all pairs of hosts", contender.name));
    let unknown = bed.acquaint(args.settle)?;
    let before = bed.moment()?;
    let order = pairs(&bed.flow_network, false);
    let whole = bed.flow_network.flows(&mut order.iter().copied(), order.len(), Instant::now() + args.limit)?;
    let after = bed.moment()?;
    let hosts = bed.flow_network.network().hosts.len();
    let (edge, core) = busiest(&bed.flow_network);
    answer.figure("hosts", hosts);
    answer.figure("pairs", order.len());
    answer.figure("flows that ended", bed.flow_network.ended().len());
    answer.figure("flows a second", format!("{:.0}", bed.flow_network.ended().len() as f64 / after.seconds(&before)));
    answer.figure("rules of the busiest switch with hosts", edge);
    answer.figure("rules of the busiest switch without", core.map_or("none".into(), |rules| rules.to_string()));
    let all: usize = (0..bed.flow_network.network().switches.len()).map(|switch| bed.flow_network.rules(switch)).sum();
    answer.figure("rules of all switches", all);
    if !whole || unknown > 0 {
        let missing = order.len() - bed.flow_network.ended().len();
        answer.doubts.push(format!("{missing} flows did not end, {unknown} hosts could not make themselves known"));
    }
    if let Some(core) = core {
        answer.targets.push(TargetResult::bound("rules of a core switch", hosts as f64 + CONSTANT, core as f64, 0));
    }
    Ok(answer)
}
