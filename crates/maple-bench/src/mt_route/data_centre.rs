//! A data centre: racks under a fat tree, tenants, and the policy `mt-route` on it (paper §6.1).
//!
//! Every rack is a /24 subnet of one tenant, and each tenant has its own link weights. Within a tenant a packet takes
//! the tenant's shortest path. Between tenants it takes the destination's shortest path through the tenant's first
//! rack, where its firewall is. If the two tenants may not communicate, the packet is dropped.

use maple_emulator::Random;
use maple_wire::Field;

/// A port of a switch, numbered over the whole network.
pub(super) type Port = u32;

/// The mask of a rack's subnet.
pub(super) const RACK_MASK: u32 = 0xffff_ff00;

/// The first address of the first rack: 10.0.0.0.
const FIRST: u32 = 0x0a00_0000;

/// The weight of a link or a path. The small type makes f's data fit the cache.
type Weight = u16;

/// The maximum weight of a link.
const HEAVIEST: u64 = 100;

/// The number of circles of tenants; a tenant's circle is its number's remainder by this. A third of the pairs of
/// tenants in different circles may not communicate: those whose numbers sum to a multiple of this.
const CIRCLES: usize = 3;

/// The network with its tenants.
pub(super) struct DataCentre {
    /// Half the number of ports of a switch; there are `half * half * 2` racks.
    half: usize,
    tenants: usize,
    /// The weights of each tenant's links from a rack to the aggregation switches of its pod: `racks * half`.
    up: Vec<Vec<Weight>>,
    /// The lightest path over a core switch, and that switch, for each tenant, two pods and aggregation switch: `pods *
    /// pods * half`. A controller can compute it as soon as it knows the weights.
    over: Vec<Vec<(Weight, u16)>>,
}

/// The decision of `mt-route`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Route {
    /// The ports by which the packet leaves switches, in order; none if it is dropped.
    pub(super) ports: Vec<Port>,
}

impl DataCentre {
    /// Creates a fat tree of switches with `ports` ports (even), with weights from a seed.
    pub(super) fn new(ports: usize, tenants: usize, seed: u64) -> DataCentre {
        let half = ports / 2;
        let (up, core) = weights(half, tenants, seed);
        let over = core.iter().map(|core| lightest_over(half, core)).collect();
        DataCentre { half, tenants, up, over }
    }

    /// Returns the number of racks.
    pub(super) fn racks(&self) -> usize {
        2 * self.half * self.half
    }

    /// Returns the address of a host, 0 to 255, in a rack.
    pub(super) fn address(&self, rack: usize, host: u32) -> u32 {
        FIRST + rack as u32 * 256 + host
    }

    /// Decides as `mt-route`: reads the two /24 prefixes of a packet and decides only by them.
    pub(super) fn decide(&self, mut read: impl FnMut(Field, u128) -> u128) -> Route {
        let mut subnet = |field| read(field, RACK_MASK.into()) as u32;
        let (src, dst) = (subnet(Field::Ipv4Src), subnet(Field::Ipv4Dst));
        match (self.rack(src), self.rack(dst)) {
            (Some(src), Some(dst)) => self.route(src, dst),
            _ => Route { ports: Vec::new() },
        }
    }

    fn rack(&self, address: u32) -> Option<usize> {
        let rack = address.checked_sub(FIRST)? as usize / 256;
        (rack < self.racks()).then_some(rack)
    }

    fn route(&self, src: usize, dst: usize) -> Route {
        let (from, to) = (src % self.tenants, dst % self.tenants);
        let mut ports = Vec::with_capacity(12);
        if from == to {
            self.path(to, src, dst, &mut ports);
        } else if from % CIRCLES == to % CIRCLES || (from + to) % CIRCLES != 0 {
            // The tenant's first rack has the number of the tenant.
            self.path(to, src, to, &mut ports);
            self.path(to, to, dst, &mut ports);
        }
        Route { ports }
    }

    /// Appends the ports of the tenant's shortest path. All paths between two racks have equally many links, so the
    /// lightest one goes through an aggregation switch and its best core switch.
    fn path(&self, tenant: usize, src: usize, dst: usize, ports: &mut Vec<Port>) {
        let half = self.half;
        let up = &self.up[tenant];
        let (from, to) = (src / half, dst / half);
        let (up_src, up_dst) = (&up[src * half..][..half], &up[dst * half..][..half]);
        let ends = |aggregation: usize| up_src[aggregation] + up_dst[aggregation];
        let switch = |pod: usize, aggregation: usize| pod * half + aggregation;
        if src != dst && from == to {
            let best = (0..half).min_by_key(|a| ends(*a)).unwrap_or(0);
            ports.push(self.port(src, half + best));
            ports.push(self.port(self.racks() + switch(from, best), dst % half));
        } else if from != to {
            let over = &self.over[tenant][(from * 2 * half + to) * half..][..half];
            let a = (0..half).min_by_key(|a| ends(*a) + over[*a].0).unwrap_or(0);
            let c = over[a].1 as usize;
            ports.push(self.port(src, half + a));
            ports.push(self.port(self.racks() + switch(from, a), half + c));
            ports.push(self.port(2 * self.racks() + a * half + c, to));
            ports.push(self.port(self.racks() + switch(to, a), dst % half));
        }
        ports.push(self.port(dst, 0));
    }

    /// Returns the number of a switch's port. The racks' switches come first, then aggregation, then core switches.
    fn port(&self, switch: usize, port: usize) -> Port {
        (switch * 2 * self.half + port) as Port
    }
}

/// Draws, for each tenant, the weight of each link from a rack to the aggregation switches of its pod, and of each link
/// from an aggregation switch to its core switches: `pods * half * half` each.
fn weights(half: usize, tenants: usize, seed: u64) -> (Vec<Vec<Weight>>, Vec<Vec<Weight>>) {
    let mut random = Random::new(seed);
    let mut draw = || -> Vec<Vec<Weight>> {
        let mut one = || (0..2 * half * half * half).map(|_| 1 + random.below(HEAVIEST) as Weight).collect();
        (0..tenants).map(|_| one()).collect()
    };
    (draw(), draw())
}

/// Returns the lightest path over a core switch between two pods, for each aggregation switch, given the weights of a
/// tenant.
fn lightest_over(half: usize, core: &[Weight]) -> Vec<(Weight, u16)> {
    let pods = 2 * half;
    let links = |pod: usize, aggregation: usize| &core[(pod * half + aggregation) * half..][..half];
    let lightest = |from: usize, to: usize, aggregation: usize| {
        let ways = links(from, aggregation).iter().zip(links(to, aggregation)).map(|(up, down)| up + down);
        ways.zip(0..).min().unwrap_or((0, 0))
    };
    let pairs = (0..pods).flat_map(|from| (0..pods).map(move |to| (from, to)));
    pairs.flat_map(|(from, to)| (0..half).map(move |a| lightest(from, to, a))).collect()
}

#[cfg(test)]
mod tests {
    use maple_core::{Fields, Recorder};

    use super::*;
    use crate::headers::FiveTuple;

    fn header(src: u32, dst: u32) -> FiveTuple {
        FiveTuple { src, dst, src_port: 1, dst_port: 2, proto: 6 }
    }

    #[test]
    fn a_path_goes_up_and_down_once_and_is_its_tenants_lightest() {
        let centre = DataCentre::new(4, 1, 1);
        let mut ports = Vec::new();
        centre.path(0, 0, 7, &mut ports);
        let switches: Vec<u32> = ports.iter().map(|port| port / 4).collect();
        assert_eq!(switches.len(), 5, "rack, aggregation, core, aggregation, rack");
        assert!(switches[0] == 0 && switches[4] == 7 && (16..20).contains(&switches[2]));
        let (_, core) = weights(2, 1, 1);
        let weight = |a: usize, c: usize| {
            let ends = centre.up[0][a] + centre.up[0][7 * 2 + a];
            ends + core[0][a * 2 + c] + core[0][(3 * 2 + a) * 2 + c]
        };
        let taken = (switches[1] as usize - 8, (switches[2] as usize - 16) % 2);
        let lightest = (0..2).flat_map(|a| (0..2).map(move |c| (a, c))).map(|(a, c)| weight(a, c)).min();
        assert_eq!(Some(weight(taken.0, taken.1)), lightest);
    }

    #[test]
    fn the_policy_looks_at_two_prefixes_and_nothing_else() {
        let centre = DataCentre::new(4, 3, 1);
        let mut recorder = Recorder::new();
        let packet = header(centre.address(0, 9), centre.address(3, 200));
        let route = centre.decide(|field, mask| recorder.read_there(&packet, field, mask, None));
        assert!(!route.ports.is_empty(), "racks 0 and 3 belong to one tenant");
        let items: Vec<String> = recorder.finish().items.iter().map(ToString::to_string).collect();
        assert_eq!(items, ["read ipv4_src=10.0.0.0/24", "read ipv4_dst=10.0.3.0/24"]);
        let elsewhere = header(0x0b00_0000, packet.dst);
        assert!(centre.decide(|field, mask| elsewhere.value(field).unwrap_or(0) & mask).ports.is_empty());
    }
}
