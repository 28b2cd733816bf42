//! The network in which a policy is checked: a topology's switches, links and hosts, and the hosts of captures.

use std::collections::BTreeSet;

use maple_core::ShardId;
use maple_core::check::{Host, Sample};
use maple_core::network::{HostInfo, Location, Mac, PortInfo, PortKind};
use maple_core::state::{SwitchInfo, Write};
use maple_emulator::Topology;
use maple_wire::{Dpid, Field, Packet, PortNo, Version};

/// Returns the topology's switches and links as writes to the store.
pub fn writes(topology: &Topology) -> Vec<Write> {
    let info = SwitchInfo { shard: ShardId(0), version: Version::Of13 };
    let port = |at, kind| Write::Port { at, info: Some(PortInfo { up: true, kind }) };
    let switches = topology.switches.iter().map(|switch| Write::Switch { dpid: switch.dpid, info: Some(info) });
    let place = |(dpid, port): (Dpid, PortNo)| Location::new(dpid, port);
    let links = topology.links.iter().flat_map(|link| {
        let (a, b) = (place(link.a), place(link.b));
        [port(a, PortKind::Link(b)), port(b, PortKind::Link(a))]
    });
    let edges = topology.hosts.iter().map(|host| port(Location::new(host.switch, host.port), PortKind::Edge));
    switches.chain(links).chain(edges).collect()
}

/// Returns the topology's hosts, and the sources of these frames, which are put at the ports of the topology's hosts in
/// turn.
pub fn hosts(topology: &Topology, frames: &[Vec<u8>]) -> Vec<Host> {
    let ports: Vec<Location> = topology.hosts.iter().map(|host| Location::new(host.switch, host.port)).collect();
    let mut hosts: Vec<Host> = topology
        .hosts
        .iter()
        .zip(&ports)
        .map(|(host, at)| {
            (Mac(host.mac), HostInfo { location: *at, ipv4: [host.ipv4].into(), ipv6: [host.ipv6].into() })
        })
        .collect();
    let mut known: BTreeSet<Mac> = hosts.iter().map(|(mac, _)| *mac).collect();
    let mut places = ports.into_iter().cycle();
    for frame in frames {
        let packet = Packet::new(frame, 0);
        let Some(mac) = packet.get(Field::EthSrc).map(Mac::from_bits).filter(|mac| mac.is_host()) else { continue };
        if known.insert(mac)
            && let Some(location) = places.next()
        {
            let ipv4 = packet.get(Field::Ipv4Src).or_else(|| packet.get(Field::ArpSpa));
            let ipv4 = ipv4.map(|ip| (ip as u32).into()).into_iter().collect();
            let ipv6 = packet.get(Field::Ipv6Src).map(Into::into).into_iter().collect();
            hosts.push((mac, HostInfo { location, ipv4, ipv6 }));
        }
    }
    hosts
}

/// Returns each frame with the port of its source. Leaves out frames without a valid source.
pub fn samples(hosts: &[Host], frames: Vec<Vec<u8>>) -> Vec<Sample> {
    let place = |frame: &[u8]| {
        let source = Packet::new(frame, 0).get(Field::EthSrc).map(Mac::from_bits);
        hosts.iter().find(|(mac, _)| Some(*mac) == source).map(|(_, info)| info.location)
    };
    let sample = |frame: Vec<u8>| place(&frame).map(|at| Sample { at, frame: frame.into() });
    frames.into_iter().filter_map(sample).collect()
}

#[cfg(test)]
mod tests {
    use maple_core::state::Store;
    use maple_wire::packet::build::Frame;

    use super::*;

    #[test]
    fn the_network_has_its_links_and_hosts_of_captures_find_a_port() -> anyhow::Result<()> {
        let topology = Topology::parse("ring:4")?;
        let store = Store::new();
        store.update(|_| writes(&topology));
        let state = store.snapshot();
        assert_eq!((state.switches().count(), state.links().count()), (4, 4));
        let stranger = Frame::ethernet([0xff; 6], [2, 0, 0, 0, 0, 7]).arp_request([10, 9, 9, 9], [10, 0, 0, 1]);
        let nobody = Frame::ethernet([0xff; 6], [0xff; 6]).raw(0x88b5, b"");
        let frames = vec![stranger, nobody];
        let hosts = hosts(&topology, &frames);
        assert_eq!(hosts.len(), 5);
        assert!(hosts[4].1.ipv4.contains(&[10, 9, 9, 9].into()));
        assert!(hosts.iter().all(|(_, info)| state.port(info.location).is_some_and(|p| p.kind == PortKind::Edge)));
        assert_eq!(samples(&hosts, frames).len(), 1);
        Ok(())
    }
}
