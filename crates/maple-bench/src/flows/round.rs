//! One round on a line of switches.

use std::time::Instant;

use maple_load::flows::{FlowNetwork, Spread, line, pairs};
use maple_wire::Version;
use serde::Serialize;

use super::bed::{Bed, Moment};
use super::{FlowsArgs, socket};
use crate::controllers::Contender;
use crate::report::Progress;

/// The default number of hosts: enough for 100,000 pairs between both ends.
const HOSTS: u32 = 512;
/// The minimum number of flows of a measurement: with fewer it would end within milliseconds, and one pause would count
/// for much.
const FLOWS: usize = 2000;
/// The maximum share of its core that the network may use. Beyond it the network limits the result.
const BUSY: f64 = 0.9;
/// The maximum share of time that the network may wait for its core.
const STARVED: f64 = 0.1;

/// The parameters of a row, which all its rounds share.
#[derive(Clone, Debug, Serialize)]
pub struct Setting {
    /// Switches of the line.
    pub line: u32,
    /// The placement of the hosts.
    #[serde(skip)]
    pub spread: Spread,
    /// Ports of a switch for hosts.
    pub ports: u32,
    /// The number of all hosts.
    pub hosts: u32,
    /// OpenFlow version.
    #[serde(skip)]
    pub version: Version,
    /// The numbers of leaves at which to measure, ascending, each with a number of flows.
    #[serde(skip)]
    pub marks: Vec<(usize, usize)>,
}

/// The measurement of one round at a number of leaves.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Point {
    pub leaves: usize,
    /// Completed flows per second of wall-clock time.
    pub flows: f64,
    /// The controller's processor time for each flow, in microseconds.
    pub cpu_us: f64,
    /// Flows per second that the network could generate with its whole core.
    pub ceiling: f64,
    /// Microseconds from the first packet to the end of a flow: the median and the 99th percentile.
    pub p50: f64,
    pub p99: f64,
    /// Messages to switches for each flow.
    pub flow_mods: f64,
    pub to_controller: f64,
    pub group_mods: f64,
    pub barriers: f64,
    pub packet_ins: f64,
    /// Rules of the busiest switch with hosts, and of the busiest without hosts.
    pub edge_rules: usize,
    pub core_rules: Option<usize>,
    /// Resident bytes for each leaf since the hosts are known.
    pub bytes: f64,
    /// The reasons why the result is invalid, if it is.
    pub doubts: Vec<String>,
}

impl Setting {
    pub fn from_args(args: &FlowsArgs, version: Version, line: u32, ports: u32) -> Setting {
        let mut leaves = args.leaves.clone();
        leaves.sort_unstable();
        let flows = |leaves: usize| args.flows.map_or((leaves / 5).max(FLOWS), |flows| flows as usize);
        let marks = leaves.into_iter().map(|leaves| (leaves, flows(leaves))).collect();
        Setting { line, spread: args.hosts_at.into(), ports, hosts: args.hosts.unwrap_or(HOSTS), version, marks }
    }
}

/// Starts a test bed. Returns it with the number of hosts that did not become known.
fn bed(args: &FlowsArgs, contender: &Contender, setting: &Setting, heap: bool) -> anyhow::Result<(Bed, usize)> {
    let network = line(setting.line, setting.ports, setting.hosts, setting.spread);
    let (contender, socket) = if heap {
        let socket = socket();
        let more = format!(" --control {} --count-heap", socket.display());
        (
            Contender {
                command: format!("{}{more}", contender.command.replace(" --control none", "")),
                ..contender.clone()
            },
            Some(socket),
        )
    } else {
        (contender.clone(), None)
    };
    let mut bed = Bed::start(args, &contender, socket, network, setting.version, setting.ports)?;
    let unknown = bed.acquaint(args.settle)?;
    Ok((bed, unknown))
}

/// Runs one round. Returns a point for each mark that it reached.
///
/// # Errors
/// If the controller or the network can't be started, or fails.
pub fn round(
    args: &FlowsArgs,
    contender: &Contender,
    setting: &Setting,
    progress: &Progress,
) -> anyhow::Result<Vec<Point>> {
    let what =
        format!("{}, line:{}, {} ports, OpenFlow {}", contender.name, setting.line, setting.ports, setting.version);
    progress.set_message(format!("{what}: discovery"));
    let (mut bed, unknown) = bed(args, contender, setting, false)?;
    let start = bed.moment()?;
    let deadline = Instant::now() + args.limit;
    let mut order = pairs(&bed.flow_network, crosses(setting)).into_iter();
    let mut points = Vec::new();
    for (leaves, flows) in &setting.marks {
        progress.set_message(format!("{what}: {leaves} leaves"));
        if !bed.flow_network.flows(&mut order, *leaves, deadline)? {
            break;
        }
        bed.flow_network.take_latency();
        let before = bed.moment()?;
        let is_whole = bed.flow_network.flows(&mut order, leaves + flows, deadline)?;
        let after = bed.moment()?;
        let mut point = point(&mut bed, [&start, &before, &after]);
        point.leaves = *leaves;
        if unknown > 0 {
            point.doubts.push(format!("{unknown} hosts could not make themselves known"));
        }
        points.push(point);
        if !is_whole {
            break;
        }
    }
    Ok(points)
}

/// Measures the bytes on the controller's heap for each leaf, at each mark that the round reached.
///
/// # Errors
/// If the controller or the network can't be started, or fails.
pub fn heap(
    args: &FlowsArgs,
    contender: &Contender,
    setting: &Setting,
    progress: &Progress,
) -> anyhow::Result<Vec<(usize, f64)>> {
    progress.set_message(format!("{}, line:{}: heap", contender.name, setting.line));
    let mut bytes = Vec::new();
    if contender.command.contains(" --control none") {
        let (mut bed, _) = bed(args, contender, setting, true)?;
        let Some(before) = bed.heap()? else { return Ok(bytes) };
        let deadline = Instant::now() + args.limit;
        let mut order = pairs(&bed.flow_network, crosses(setting)).into_iter();
        for (leaves, flows) in &setting.marks {
            if !bed.flow_network.flows(&mut order, leaves + flows, deadline)? {
                break;
            }
            let more = bed.heap()?.unwrap_or(before) as f64 - before as f64;
            bytes.push((*leaves, more / bed.flow_network.ended().len() as f64));
        }
    }
    progress.step();
    Ok(bytes)
}

/// Reports whether flows go only from one end to the other.
fn crosses(setting: &Setting) -> bool {
    setting.spread == Spread::Ends && setting.line > 1
}

fn point(bed: &mut Bed, [start, before, after]: [&Moment; 3]) -> Point {
    let counted = after.counters - before.counters;
    let (seconds, ended) = (after.seconds(before), counted.ended as f64);
    let each = |count: u64| count as f64 / ended.max(1.0);
    let (p50, p99) = bed.flow_network.take_latency();
    let (edge_rules, core_rules) = busiest(&bed.flow_network);
    let ours = after.ours.since(before.ours);
    let mut doubts = Vec::new();
    let share = |nanoseconds: u64| nanoseconds as f64 / 1e9 / seconds;
    if share(ours.ran) > BUSY {
        doubts.push(format!("the network used {:.0} % of its core", share(ours.ran) * 100.0));
    }
    if share(ours.waited) > STARVED {
        doubts.push(format!("the network waited {:.0} % of the time for its core", share(ours.waited) * 100.0));
    }
    if counted.ended == 0 {
        doubts.push("no flow ended while it was measured".to_owned());
    }
    if counted.failed > 0 {
        doubts
            .push(format!("{} flows did not end, {} of them for want of rules", counted.failed, counted.without_rules));
    }
    Point {
        leaves: 0,
        flows: ended / seconds,
        cpu_us: after.controller_seconds(before) * 1e6 / ended.max(1.0),
        ceiling: ended * 1e9 / (ours.ran as f64).max(1.0),
        p50,
        p99,
        flow_mods: each(counted.flow_mods),
        to_controller: each(counted.adds_to_controller),
        group_mods: each(counted.group_mods),
        barriers: each(counted.barriers),
        packet_ins: each(counted.packet_ins),
        edge_rules,
        core_rules,
        bytes: after.more_memory(start) / bed.flow_network.ended().len().max(1) as f64,
        doubts,
    }
}

/// Returns the maximum number of rules of a switch with hosts, and of a switch without.
pub fn busiest(flow_network: &FlowNetwork) -> (usize, Option<usize>) {
    let network = flow_network.network();
    let has_hosts = |switch: &usize| network.hosts.iter().any(|host| host.switch == *switch);
    let (edge, core): (Vec<usize>, Vec<usize>) = (0..network.switches.len()).partition(has_hosts);
    let most = |switches: Vec<usize>| switches.into_iter().map(|switch| flow_network.rules(switch)).max();
    (most(edge).unwrap_or(0), most(core))
}
