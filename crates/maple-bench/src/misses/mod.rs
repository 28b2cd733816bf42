//! `maple-bench misses`: the share of a switch's packets that go to the controller (paper §6.2, Figure 6a).
//!
//! Each pair of 10 clients and 20 servers has 4 TCP sessions. A session has two flows, one for each direction, of F
//! packets. One run uses `mt-route`, which decides by the two /24 prefixes; every host has its own subnet and tenant.
//! The other run uses a policy that reads every field, so that each rule matches one flow. The engine is the product's,
//! and time is simulated, so a seed determines the results.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use maple_core::{Net, Observe as _, PacketHandle, Policy, Route};
use maple_emulator::Random;
use maple_wire::packet::build::Frame;
use maple_wire::{Field, Packet, PortNo};
use serde::Serialize;

use crate::error::BenchError;
use crate::output::{Output, with_note};
use crate::report::{Chart, Progress, Series, TextTable};

mod miss_network;

use miss_network::MissNetwork;

/// `maple-bench misses`.
#[derive(Debug, Args)]
pub struct MissesArgs {
    /// Packets of a flow; several values, separated by commas
    #[arg(long, value_name = "F,…", value_delimiter = ',', default_value = "4,8,12,16,20,30,40,60,80",
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub packets: Vec<u32>,
    /// Number of clients
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub clients: u32,
    /// Number of servers
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub servers: u32,
    /// Mean time between packets of a session, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 50)]
    pub gap_ms: u32,
    /// Time within which the sessions begin, in seconds
    #[arg(long, value_name = "S", default_value_t = 60)]
    pub window_s: u32,
    /// Delay of a message between switch and controller, in microseconds
    #[arg(long, value_name = "US", default_value_t = 1000)]
    pub delay_us: u32,
    /// Seed for the times of packets
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// The form of the results.
    #[command(flatten)]
    pub output: Output,
}

/// The results for one length of flows. The fields are the keys in JSON, in this order.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct MissesResult {
    /// Packets of a flow: F.
    pub packets_per_flow: u32,
    /// The total number of packets.
    pub packets: u64,
    /// Packets that went to the controller under `mt-route`, in percent.
    pub maple_percent: f64,
    /// Packets that went to the controller under the policy that reads every field, in percent.
    pub exact_percent: f64,
    /// The upper bound for `mt-route`: 1/(4F) + 0.5 %.
    pub bound_percent: f64,
    /// Rules of the switch under `mt-route` at the end.
    pub maple_rules: usize,
    /// Rules of the switch under the other policy at the end.
    pub exact_rules: usize,
}

/// TCP sessions between a client and a server.
const SESSIONS: u32 = 4;

/// The paper's results by packets of a flow: for Maple and for exact matches, in percent.
const PUBLISHED: [(u32, f64, f64); 2] = [(4, 6.7, 25.5), (8, 4.1, 12.8)];

/// Runs the benchmark.
pub(crate) fn main(args: &MissesArgs) -> Result<(), BenchError> {
    let progress = Progress::new(2 * args.packets.len() as u64);
    let mut results = Vec::new();
    for packets in &args.packets {
        results.push(measure(args, *packets, &progress)?);
    }
    drop(progress);
    let note = "misses in percent of all packets; bound: 1/(4F) + 0.5 %";
    args.output.print(&results, || with_note(&table(&results), note), || vec![chart(&results)])
}

fn measure(args: &MissesArgs, packets_per_flow: u32, progress: &Progress) -> Result<MissesResult, BenchError> {
    let play_policy = |name: &str, policy: Arc<dyn Policy>| {
        progress.set_message(format!("{packets_per_flow} packets a flow, {name}"));
        let played = play(args, packets_per_flow, policy);
        progress.step();
        played
    };
    let (packets, maple, maple_rules) = play_policy("mt-route", Arc::new(mt_route))?;
    let (_, exact, exact_rules) = play_policy("exact match", Arc::new(exact_match))?;
    let percent = |misses: u64| 100.0 * misses as f64 / packets as f64;
    Ok(MissesResult {
        packets_per_flow,
        packets,
        maple_percent: percent(maple),
        exact_percent: percent(exact),
        bound_percent: 100.0 / f64::from(SESSIONS * packets_per_flow) + 0.5,
        maple_rules,
        exact_rules,
    })
}

/// Plays all sessions. Returns the numbers of packets and misses, and of rules at the end. Every packet must be
/// delivered once, at its destination's port.
fn play(args: &MissesArgs, packets_per_flow: u32, policy: Arc<dyn Policy>) -> Result<(u64, u64, usize), BenchError> {
    let mut world = MissNetwork::new(policy, args.clients + args.servers, Duration::from_micros(args.delay_us.into()))?;
    world.left.clear();
    let before = world.misses();
    let mut random = Random::new(args.seed);
    let mut packets = 0;
    for session in 0..args.clients * args.servers * SESSIONS {
        let (client, server) =
            (host(session % args.clients), host(args.clients + session / args.clients % args.servers));
        let there = frame(client, server, (1024 + session) as u16, 80);
        let back = frame(server, client, 80, (1024 + session) as u16);
        let mut at = Duration::from_secs(args.window_s.into()).mul_f64(unit(&mut random));
        for packet in 0..2 * packets_per_flow {
            let (from, frame) = if packet % 2 == 0 { (client, &there) } else { (server, &back) };
            world.send(at, from.port, frame.clone());
            at += Duration::from_millis(args.gap_ms.into()).mul_f64(-unit(&mut random).ln());
            packets += 1;
        }
    }
    world.run()?;
    check(&world, packets)?;
    Ok((packets, world.misses() - before, world.rules()))
}

fn check(world: &MissNetwork, packets: u64) -> Result<(), BenchError> {
    let mut arrived = 0;
    for (port, frames) in &world.left {
        for frame in frames {
            let to = Packet::new(frame, 0).get(Field::Ipv4Dst).and_then(|address| port_of(address as u32));
            if to != Some(*port) {
                return Err(BenchError::WrongResult(format!("a packet was delivered at port {port}, not at {to:?}")));
            }
            arrived += 1;
        }
    }
    let wrong = format!("{arrived} of {packets} packets were delivered");
    if arrived == packets { Ok(()) } else { Err(BenchError::WrongResult(wrong)) }
}

/// A client or a server.
#[derive(Clone, Copy)]
struct Host {
    port: PortNo,
    address: Ipv4Addr,
    mac: [u8; 6],
}

/// Returns the host with this number: clients come first, then servers. Each has a /24 subnet.
fn host(number: u32) -> Host {
    let port = number + 1;
    Host { port: PortNo(port), address: Ipv4Addr::new(10, 0, port as u8, 1), mac: [2, 0, 0, 0, 0, port as u8] }
}

fn frame(src: Host, dst: Host, src_port: u16, dst_port: u16) -> Vec<u8> {
    Frame::ethernet(dst.mac, src.mac).ipv4(src.address.octets(), dst.address.octets()).tcp(src_port, dst_port).build()
}

/// Returns the port of an address's subnet.
fn port_of(address: u32) -> Option<PortNo> {
    let [a, b, subnet, _] = address.to_be_bytes();
    ((a, b) == (10, 0) && subnet > 0).then(|| PortNo(subnet.into()))
}

/// Returns a random number greater than 0 and at most 1.
fn unit(random: &mut Random) -> f64 {
    (random.below(1 << 32) + 1) as f64 / (1u64 << 32) as f64
}

/// Decides as `mt-route` does on one switch: every subnet is a tenant, all tenants may communicate, and all paths have
/// one hop.
fn mt_route(pkt: &PacketHandle, _: &Net) -> Route {
    let tenant = |field| port_of(pkt.read(field, 0xffff_ff00, None)? as u32);
    match (tenant(Field::Ipv4Src), tenant(Field::Ipv4Dst)) {
        (Some(_), Some(port)) => Route::to([port]),
        _ => Route::drop(),
    }
}

/// Returns the route of [`mt_route`], after reading every field of a TCP packet.
fn exact_match(pkt: &PacketHandle, net: &Net) -> Route {
    use Field::*;
    for field in
        [InPort, EthDst, EthSrc, EthType, VlanVid, VlanPcp, IpDscp, IpEcn, IpProto, Ipv4Src, Ipv4Dst, TcpSrc, TcpDst]
    {
        pkt.read(field, field.full_mask(), None);
    }
    mt_route(pkt, net)
}

fn table(results: &[MissesResult]) -> TextTable {
    let mut table = TextTable::new([
        "packets a flow",
        "packets",
        "mt-route",
        "bound",
        "exact match",
        "ratio",
        "paper: maple",
        "paper: exact",
        "rules",
        "exact rules",
    ]);
    for m in results {
        let percent = |share: f64| format!("{share:.2}");
        let published = PUBLISHED.iter().find(|row| row.0 == m.packets_per_flow);
        let published =
            published.map_or_else(Default::default, |row| [format!("{:.1}", row.1), format!("{:.1}", row.2)]);
        let mut cells = vec![m.packets_per_flow.to_string(), m.packets.to_string()];
        cells.extend([m.maple_percent, m.bound_percent, m.exact_percent].map(percent));
        cells.push(format!("{:.1}", m.exact_percent / m.maple_percent));
        cells.extend(published);
        cells.extend([m.maple_rules, m.exact_rules].map(|rules| rules.to_string()));
        table.row(cells);
    }
    table
}

fn chart(results: &[MissesResult]) -> Chart {
    let line = |name: &str, value: fn(&MissesResult) -> f64| Series {
        name: name.into(),
        points: results.iter().map(|m| (f64::from(m.packets_per_flow), value(m))).collect(),
    };
    let published = |name: &str, value: fn(&(u32, f64, f64)) -> f64| Series {
        name: name.into(),
        points: PUBLISHED.iter().map(|row| (f64::from(row.0), value(row))).collect(),
    };
    Chart {
        title: "Flow table misses".into(),
        x: "packets of a flow".into(),
        y: "packets that go to the controller (%)".into(),
        log_x: false,
        log_y: false,
        labels: Vec::new(),
        series: vec![
            line("mt-route", |m| m.maple_percent),
            line("exact match", |m| m.exact_percent),
            line("bound of mt-route", |m| m.bound_percent),
            published("the paper: Maple", |row| row.1),
            published("the paper: exact match", |row| row.2),
        ],
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: MissesArgs,
    }

    fn args() -> MissesArgs {
        Line::parse_from(["misses", "--clients", "3", "--servers", "5"]).args
    }

    #[test]
    fn a_pair_misses_once_a_direction_and_a_flow_under_exact_matches_once() {
        let measured = measure(&args(), 4, &Progress::hidden()).unwrap();
        assert_eq!(measured.packets, 2 * 60 * 4);
        assert!((6.25..=6.7).contains(&measured.maple_percent), "{measured:?}");
        assert!((25.0..=26.0).contains(&measured.exact_percent), "{measured:?}");
        assert!(measured.maple_percent <= measured.bound_percent);
        assert_eq!(measured.exact_rules - measured.maple_rules, 120 - 30, "{measured:?}");
    }

    #[test]
    fn a_slow_controller_sees_more_packets_and_none_is_lost() {
        let slow = MissesArgs { delay_us: 40_000, gap_ms: 5, window_s: 5, ..args() };
        let (slow, quick) =
            (play(&slow, 4, Arc::new(mt_route)).unwrap(), play(&args(), 4, Arc::new(mt_route)).unwrap());
        assert!(slow.1 > quick.1, "{slow:?} {quick:?}");
    }
}
