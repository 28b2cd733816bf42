//! The packets of switches: from many addresses, from a trace, or requests between the hosts of a network.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::str::FromStr;
use std::sync::Arc;

use maple_emulator::Topology;
use maple_emulator::topology::HostSpec;
use maple_wire::ip_proto;
use maple_wire::packet::build::Frame;
use maple_wire::{Dpid, PortNo, Version};

use crate::error::LoadError;
use crate::packets::{FAR, NEAR, Template, announcement, packet_in, teaching};

/// The packets of switches.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Workload {
    /// Each switch teaches the controller one destination, and then sends packets to it from many source addresses in
    /// turn.
    #[default]
    Addresses,
    /// Each switch sends these frames repeatedly, each switch from another position. Frames enter by the port that
    /// their source address has (1 to 4); the destinations are taught before.
    Frames(Arc<Vec<Vec<u8>>>),
    /// The switches are those of a network, and hosts send requests to other hosts, pair by pair at random.
    Network(Arc<Wiring>),
}

/// Switches, the links between them, and the hosts at them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Wiring {
    /// The switches' datapath ids.
    pub switches: Vec<u64>,
    /// The hosts.
    pub hosts: Vec<NetworkHost>,
    /// The links: both ends, each a switch's place in the list and a port.
    pub links: Vec<[(usize, u32); 2]>,
}

/// A host.
#[derive(Clone, Debug, PartialEq)]
pub struct NetworkHost {
    /// The index of its switch.
    pub switch: usize,
    /// Its port.
    pub port: u32,
    /// Its hardware address.
    pub mac: [u8; 6],
    /// Its IPv4 address.
    pub ip: Ipv4Addr,
}

impl From<&Topology> for Wiring {
    fn from(topology: &Topology) -> Wiring {
        let places: BTreeMap<_, _> =
            topology.switches.iter().enumerate().map(|(place, switch)| (switch.dpid, place)).collect();
        let host = |host: &HostSpec| NetworkHost {
            switch: places[&host.switch],
            port: host.port.0,
            mac: host.mac,
            ip: host.ipv4,
        };
        let end = |(dpid, port): (Dpid, PortNo)| (places[&dpid], port.0);
        Wiring {
            switches: topology.switches.iter().map(|switch| switch.dpid.0).collect(),
            hosts: topology.hosts.iter().map(host).collect(),
            links: topology.links.iter().map(|link| [link.a, link.b].map(end)).collect(),
        }
    }
}

/// The maximum number of hosts of a network. Chosen: the packets of all pairs are built in advance, and take memory.
const MAX_HOSTS: usize = 512;
/// The number of ports of a switch outside a [`Wiring`]. It must be at least that of the destination, [`FAR`].
const PORTS: u32 = 4;
const _: () = assert!(NEAR <= PORTS && FAR <= PORTS);
/// The group bit of an address's first byte (IEEE 802, §8.2).
const GROUP: u8 = 1;
/// The beginning of a request's payload. The switch and the buffer id of the request follow it.
pub(crate) const MARK: [u8; 4] = *b"mpld";
/// The offset of a request's payload in its frame, in bytes: after the headers of Ethernet, IPv4 and UDP.
pub(crate) const PAYLOAD: usize = 14 + 20 + 8;

/// One switch and its packets.
pub(crate) struct SwitchPackets {
    pub dpid: u64,
    pub ports: Vec<u32>,
    pub tables: u8,
    pub source: Source,
    /// The packet-ins that teach the controller where destinations are.
    pub teaching: Vec<u8>,
    /// Whether frames that it puts out cross links.
    pub has_links: bool,
}

/// The source of packet-ins. All have the same positions of transaction id and buffer id.
pub(crate) enum Source {
    /// A template, and the number of source addresses, which take turns.
    Addresses(Template, u32),
    /// Whole packet-ins, in turn.
    List { packet_ins: Arc<Vec<Vec<u8>>>, next: usize },
    /// Whole packet-ins of requests, chosen one at a time.
    Requests(Vec<Vec<u8>>),
}

impl Workload {
    /// Makes the packets of all switches. `switches` and `macs` apply where the workload does not determine the
    /// numbers.
    ///
    /// # Errors
    /// [`LoadError::Wrong`] if the workload has nothing to send.
    pub(crate) fn switch_packets(
        &self,
        version: Version,
        switches: u32,
        macs: u32,
    ) -> Result<Vec<SwitchPackets>, LoadError> {
        match self {
            Workload::Addresses => Ok((1..=switches).map(|id| by_address(version, id.into(), macs)).collect()),
            Workload::Frames(frames) => of_trace(version, switches, frames),
            Workload::Network(network) => of_network(version, network),
        }
    }
}

fn one_switch(dpid: u64, ports: Vec<u32>, source: Source, teaching: Vec<u8>) -> SwitchPackets {
    SwitchPackets { dpid, ports, tables: 1, source, teaching, has_links: false }
}

fn by_address(version: Version, id: u64, macs: u32) -> SwitchPackets {
    let source = Source::Addresses(Template::new(version, id), macs);
    one_switch(id, (1..=PORTS).collect(), source, teaching(version, id))
}

/// Returns the port of an address.
fn port_of(mac: [u8; 6]) -> u32 {
    let sum: u32 = mac.iter().map(|byte| u32::from(*byte)).sum();
    1 + sum % PORTS
}

fn of_trace(version: Version, switches: u32, frames: &[Vec<u8>]) -> Result<Vec<SwitchPackets>, LoadError> {
    let addresses =
        |frame: &[u8]| -> Option<([u8; 6], [u8; 6])> { Some((*frame.first_chunk()?, *frame.get(6..)?.first_chunk()?)) };
    let mut packet_ins = Vec::new();
    let mut destinations = BTreeSet::new();
    for frame in frames {
        let Some((dst, src)) = addresses(frame) else { continue };
        packet_ins.push(packet_in(version, port_of(src), frame));
        if dst[0] & GROUP == 0 {
            destinations.insert(dst);
        }
    }
    if packet_ins.is_empty() {
        return Err(LoadError::Wrong("the trace has no frame with addresses"));
    }
    let teaching: Vec<u8> = destinations
        .iter()
        .flat_map(|mac| announcement(version, port_of(*mac), *mac, [10, mac[3], mac[4], mac[5]]))
        .collect();
    let packet_ins = Arc::new(packet_ins);
    let plan_of = |n: u32| {
        let next = n as usize * packet_ins.len() / switches as usize;
        let source = Source::List { packet_ins: Arc::clone(&packet_ins), next };
        one_switch(u64::from(n) + 1, (1..=PORTS).collect(), source, teaching.clone())
    };
    Ok((0..switches).map(plan_of).collect())
}

fn of_network(version: Version, network: &Wiring) -> Result<Vec<SwitchPackets>, LoadError> {
    if network.hosts.len() < 2 || network.hosts.len() > MAX_HOSTS {
        return Err(LoadError::Wrong("a network needs 2 to 512 hosts"));
    }
    let mut ports = BTreeMap::<usize, BTreeSet<u32>>::new();
    let ends = network.links.iter().flatten().copied().chain(network.hosts.iter().map(|host| (host.switch, host.port)));
    for (switch, port) in ends {
        ports.entry(switch).or_default().insert(port);
    }
    let plan_of = |(place, dpid): (usize, &u64)| {
        let hosts_here = || network.hosts.iter().filter(move |host| host.switch == place);
        let teaching =
            hosts_here().flat_map(|host| announcement(version, host.port, host.mac, host.ip.octets())).collect();
        let requests =
            hosts_here().flat_map(|src| others(network, src).map(|dst| request(version, src, dst))).collect();
        SwitchPackets {
            dpid: *dpid,
            ports: ports.get(&place).into_iter().flatten().copied().collect(),
            tables: u8::MAX - 1,
            source: Source::Requests(requests),
            teaching,
            has_links: true,
        }
    };
    Ok(network.switches.iter().enumerate().map(plan_of).collect())
}

fn others<'a>(network: &'a Wiring, src: &'a NetworkHost) -> impl Iterator<Item = &'a NetworkHost> {
    network.hosts.iter().filter(|host| host.mac != src.mac)
}

fn request(version: Version, src: &NetworkHost, dst: &NetworkHost) -> Vec<u8> {
    let frame = Frame::ethernet(dst.mac, src.mac).ipv4(src.ip.octets(), dst.ip.octets()).udp(31_256, 22_635);
    packet_in(version, src.port, &frame.payload(&[&MARK[..], &[0; 18]].concat()))
}

/// A packet header, as the source of frames: addresses, ports, protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Source address.
    pub src: Ipv4Addr,
    /// Destination address.
    pub dst: Ipv4Addr,
    /// Source port, of TCP and UDP.
    pub src_port: u16,
    /// Destination port, of TCP and UDP.
    pub dst_port: u16,
    /// Protocol.
    pub proto: u8,
}

impl Header {
    /// Builds a frame with this header. Hardware addresses are 02:00 followed by the four bytes of an address.
    pub fn frame(&self) -> Vec<u8> {
        let mac = |ip: Ipv4Addr| {
            let [a, b, c, d] = ip.octets();
            [2, 0, a, b, c, d]
        };
        let packet = Frame::ethernet(mac(self.dst), mac(self.src)).ipv4(self.src.octets(), self.dst.octets());
        match self.proto {
            ip_proto::TCP => packet.tcp(self.src_port, self.dst_port).build(),
            ip_proto::UDP => packet.udp(self.src_port, self.dst_port).build(),
            other => packet.proto(other).build(),
        }
    }
}

/// Parses a line of a header trace in the format of ClassBench: seven decimal numbers. The first five are source and
/// destination address, source and destination port, and protocol. Then follow a copy of a filter's flags and the
/// number of the filter that the header was generated from, from 0. Returns the header and the number.
///
/// # Errors
/// A text that says which number is wrong.
pub fn traced_header(line: &str) -> Result<(Header, u32), String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [src, dst, src_port, dst_port, proto, flags, made_from] = words[..] else {
        return Err(format!("a header has 7 numbers, not {}", words.len()));
    };
    let _: u32 = number(flags, "flags")?;
    let header = Header {
        src: number::<u32>(src, "a source address")?.into(),
        dst: number::<u32>(dst, "a destination address")?.into(),
        src_port: number(src_port, "a source port")?,
        dst_port: number(dst_port, "a destination port")?,
        proto: number(proto, "a protocol")?,
    };
    Ok((header, number(made_from, "the number of a filter")?))
}

fn number<T: FromStr>(text: &str, what: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{text:?} is not {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use maple_wire::{Field, Message, Packet};

    fn switch_packets(workload: Workload) -> Result<Vec<SwitchPackets>, LoadError> {
        workload.switch_packets(Version::Of10, 4, 100)
    }

    #[test]
    fn a_trace_begins_elsewhere_on_each_switch_and_its_destinations_are_taught() {
        let header = |n: u8| Header {
            src: [10, 0, 0, n].into(),
            dst: [10, 0, 1, n % 2].into(),
            src_port: n.into(),
            dst_port: 80,
            proto: [6, 17, 47][usize::from(n) % 3],
        };
        let frames = (0..8).map(|n| header(n).frame()).collect();
        let made = switch_packets(Workload::Frames(Arc::new(frames))).unwrap();
        let starts: Vec<usize> = made
            .iter()
            .map(|switch| match &switch.source {
                Source::List { next, packet_ins } => {
                    assert_eq!(packet_ins.len(), 8);
                    *next
                }
                _ => panic!("a list"),
            })
            .collect();
        assert_eq!(starts, [0, 2, 4, 6]);
        let (_, rest) = Message::decode(
            &made[0].teaching[..usize::from(u16::from_be_bytes([made[0].teaching[2], made[0].teaching[3]]))],
        )
        .unwrap();
        let Message::PacketIn(taught) = rest else { panic!("a packet-in") };
        assert_eq!(Packet::new(&taught.data, 1).get(Field::EthSrc), Some(0x0200_0a00_0100));
        assert_eq!(made[3].dpid, 4);
        assert!(matches!(switch_packets(Workload::Frames(Arc::default())), Err(LoadError::Wrong(_))));
    }

    #[test]
    fn a_network_has_a_request_for_each_pair_of_hosts_at_the_switch_of_the_first() {
        let host =
            |n: u8| NetworkHost { switch: usize::from(n), port: 1, mac: [2, 0, 0, 0, 0, n], ip: [10, 0, 0, n].into() };
        let network =
            Wiring { switches: vec![7, 8, 9], hosts: (0..3).map(host).collect(), links: vec![[(0, 2), (1, 3)]] };
        let made = switch_packets(Workload::Network(Arc::new(network))).unwrap();
        assert_eq!(made.iter().map(|switch| switch.dpid).collect::<Vec<_>>(), [7, 8, 9]);
        assert_eq!(made[1].ports, [1, 3]);
        for switch in &made {
            let Source::Requests(requests) = &switch.source else { panic!("requests") };
            assert_eq!(requests.len(), 2);
            assert!(requests.iter().all(|request| request.windows(4).any(|bytes| bytes == MARK)));
        }
        assert!(matches!(switch_packets(Workload::Network(Arc::default())), Err(LoadError::Wrong(_))));
    }

    #[test]
    fn a_topology_is_a_network() {
        let network = Wiring::from(&Topology::parse("ring:4").unwrap());
        assert_eq!((network.switches.len(), network.hosts.len(), network.links.len()), (4, 4, 4));
        assert!(network.hosts.iter().enumerate().all(|(place, host)| host.switch == place));
    }
}
