//! One port continuously sends from new addresses: measures the controller's memory and another port's flows.

use std::time::{Duration, Instant};

use maple_load::LoadError;
use maple_load::flows::{FlowNetwork, Pair, Spread, line, pairs};
use maple_wire::Version;

use super::super::FlowsArgs;
use super::super::bed::Bed;
use super::super::targets::TargetResult;
use super::Answer;
use crate::report::Progress;

/// The target: growth of the memory by the flood, in MB.
const MEMORY_TARGET: f64 = 20.0;
/// The target: the share of their rate that flows of another port keep.
const RATE_TARGET: f64 = 0.8;
/// The number of ports of the switch. The last one floods.
const PORTS: u32 = 16;
/// The number of hosts at the switch.
const HOSTS: u32 = 512;
/// The maximum time for counting flows, with the flood and without it: long beside the pauses of a busy machine.
const MAX_TIME: Duration = Duration::from_secs(5);
/// The interval in which the flood sends. A longer one would send bursts, which overflow queues at a low rate too.
const TICK: Duration = Duration::from_millis(1);
/// The time that the controller gets to handle everything, so that its queues are empty.
const SETTLE_TIME: Duration = Duration::from_secs(5);

/// Measures a flood from this many addresses.
///
/// # Errors
/// If the controller or the network can't be started, or fails.
pub fn answer(args: &FlowsArgs, addresses: u32) -> anyhow::Result<Answer> {
    let version = args.of.first().copied().unwrap_or(Version::Of13);
    let name = args.first("")?.name;
    let question =
        format!("{name}, OpenFlow {version}: one port sends from {addresses} addresses, {} a second", args.flood_rate);
    let mut answer = Answer::new(question);
    let progress = Progress::new(2);
    progress.set_message("the flood alone".to_owned());
    let more = memory(args, version, addresses, &mut answer)?;
    progress.step();
    progress.set_message("beside another port".to_owned());
    let share = neighbour(args, version, addresses, &mut answer)?;
    answer.targets.push(TargetResult::bound("memory that the flood costs, MB", MEMORY_TARGET, more, 1));
    answer.targets.push(TargetResult::floor(
        "percent of their rate that another port's flows keep",
        RATE_TARGET * 100.0,
        share * 100.0,
    ));
    Ok(answer)
}

/// Starts a test bed of one switch, whose hosts are known.
fn bed(args: &FlowsArgs, version: Version, answer: &mut Answer) -> anyhow::Result<Bed> {
    let mut network = line(1, PORTS, HOSTS, Spread::All);
    // The port that floods has no other host.
    network.hosts.retain(|host| host.port != PORTS);
    let mut bed = Bed::start(args, &args.first("")?, None, network, version, PORTS)?;
    let unknown = bed.acquaint(args.settle)?;
    if unknown > 0 {
        answer.doubts.push(format!("{unknown} hosts could not make themselves known"));
    }
    Ok(bed)
}

/// The treatment of packets for which the switch's queue has no room.
#[derive(Clone, Copy, PartialEq)]
enum Surplus {
    /// Packets are lost, as in a real switch.
    Lost,
    /// Packets are sent later, so that all addresses are used.
    Waits,
}

/// A flood, which sends the packets that are due.
struct Flood {
    began: Instant,
    per_second: f64,
    addresses: u32,
    surplus: Surplus,
    /// Addresses used so far.
    due: u32,
    /// Addresses that the switch's queue had room for.
    sent: u32,
}

impl Flood {
    fn new(args: &FlowsArgs, addresses: u32, surplus: Surplus) -> Flood {
        let per_second = args.flood_rate.into();
        Flood { began: Instant::now(), per_second, addresses, surplus, due: 0, sent: 0 }
    }

    /// Sends the packets that are due. Returns whether all addresses are used.
    fn send_due(&mut self, flow_network: &mut FlowNetwork) -> anyhow::Result<bool> {
        let due = (self.began.elapsed().as_secs_f64() * self.per_second) as u32;
        let due = due.min(self.addresses);
        let sent = flow_network.flood((0, PORTS), 0, self.due, due - self.due)?;
        self.sent += sent;
        self.due = if self.surplus == Surplus::Lost { due } else { self.due + sent };
        Ok(self.due == self.addresses)
    }
}

/// Measures the growth of the controller's memory by the flood, in MB.
fn memory(args: &FlowsArgs, version: Version, addresses: u32, answer: &mut Answer) -> anyhow::Result<f64> {
    let mut bed = bed(args, version, answer)?;
    let before = bed.moment()?;
    let mut flood = Flood::new(args, addresses, Surplus::Waits);
    let whole = pour(&mut bed.flow_network, &mut flood, args.limit);
    let flooded = bed.moment()?;
    match whole {
        Ok(()) => bed.flow_network.wait(SETTLE_TIME.min(args.limit))?,
        Err(error) if matches!(error.downcast_ref(), Some(LoadError::Closed { .. })) => {
            answer.doubts.push(format!("under the flood {error}"));
        }
        Err(error) => return Err(error),
    }
    if flood.sent < addresses {
        answer.doubts.push(format!("{} of {addresses} addresses came within {:?}", flood.sent, args.limit));
    }
    let after = bed.moment()?;
    let counted = after.counters - before.counters;
    let more = after.more_memory(&before) / 1e6;
    answer.figure("addresses that came within the limit", flood.sent);
    answer.figure("percent of a core that the controller used", {
        format!("{:.0}", flooded.controller_seconds(&before) / flooded.seconds(&before) * 100.0)
    });
    answer.figure("memory before and after, MB", {
        format!("{:.1}, {:.1}", before.controller.resident as f64 / 1e6, after.controller.resident as f64 / 1e6)
    });
    answer.figure("rules before and after", {
        format!("{}, {}", bed.flow_network.rules(0) as i64 - counted.adds as i64, bed.flow_network.rules(0))
    });
    Ok(more)
}

/// Sends the whole flood, or as much as the time limit allows.
fn pour(flow_network: &mut FlowNetwork, flood: &mut Flood, limit: Duration) -> anyhow::Result<()> {
    while !flood.send_due(flow_network)? && flood.began.elapsed() < limit {
        flow_network.wait(TICK)?;
    }
    Ok(())
}

/// Measures the share of their rate that another port's flows keep.
fn neighbour(args: &FlowsArgs, version: Version, addresses: u32, answer: &mut Answer) -> anyhow::Result<f64> {
    let mut bed = bed(args, version, answer)?;
    let hosts = bed.flow_network.network().hosts.clone();
    let of_one_port = |pair: &Pair| hosts[pair.0 as usize].port == 1;
    let mut order: Vec<Pair> = pairs(&bed.flow_network, false).into_iter().filter(of_one_port).collect();
    let with = order.split_off(order.len() / 2);
    let time = MAX_TIME.min(args.limit);
    let calm = rate(&mut bed, time, &order, None)?;
    bed.flow_network.drain(SETTLE_TIME)?;
    let mut flood = Flood::new(args, addresses, Surplus::Lost);
    let flooded = rate(&mut bed, time, &with, Some(&mut flood))?;
    answer.figure("new flows a second of another port, without the flood", format!("{calm:.0}"));
    answer.figure("with it", format!("{flooded:.0}"));
    answer.figure(
        "packets of the flood that the switch had room for meanwhile",
        format!("{} of {}", flood.sent, flood.due),
    );
    Ok(flooded / calm.max(1.0))
}

/// Measures new flows per second over these pairs, until time or pairs run out.
fn rate(bed: &mut Bed, time: Duration, order: &[Pair], mut flood: Option<&mut Flood>) -> anyhow::Result<f64> {
    let mut order = order.iter().copied();
    let (before, began) = (bed.moment()?, Instant::now());
    while began.elapsed() < time {
        if let Some(flood) = flood.as_deref_mut() {
            flood.send_due(&mut bed.flow_network)?;
        }
        let ended = bed.flow_network.ended().len();
        let slice = Instant::now() + TICK;
        if !bed.flow_network.flows(&mut order, ended + 1_000_000, slice)? && Instant::now() < slice {
            break;
        }
    }
    let after = bed.moment()?;
    Ok((after.counters - before.counters).ended as f64 / after.seconds(&before))
}
