//! Topologies: switches, hosts and links, from a short text such as `ring:4` or from a JSON file.
//!
//! | text | network |
//! | --- | --- |
//! | `single:N` | one switch with N hosts |
//! | `linear:N` or `linear:N,HOSTS` | a chain of N switches with one host each, or HOSTS |
//! | `ring:N` | a ring of N ≥ 3 switches with one host each; the link that closes it has `secure` = N, the others 1 |
//! | `tree:DEPTH,FANOUT` | a tree of switches, FANOUT hosts under each lowest one |
//! | `fattree:K` | K even: (K/2)² core switches, K pods of K/2 aggregation and K/2 edge switches, K³/4 hosts |
//! | `FILE.json` | what the file says, see [`file`](mod@file) |
//!
//! After the numbers, all links of a shape can be given a delay, a share of frames that they lose, and a rate:
//! `ring:4,delay=5ms,loss=1%,rate=10mbit`. There are at most 20,000 hosts.
//!
//! Names and addresses are Mininet's: switches `s1`, `s2`, … with datapath ids 1, 2, …; host `hN` has MAC N and
//! IPv4 10.0.0.0 + N, and in IPv6 the link-local address of its MAC and `fd00::N`.
//!
//! Ports are numbered from 1 on each switch: its hosts first, in order, then its links, in order. Every link has
//! an attribute `secure` (1 unless said otherwise), which policies can use as a path's cost.

pub mod file;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, Ipv6Addr};

use maple_switch::QueueRates;
use maple_switch::time::{MICROSECOND, Nanoseconds};
use maple_wire::{Dpid, PortNo};

use crate::quantity;

/// The default delay of a link, in nanoseconds: that of two kilometres of fibre.
pub const DEFAULT_DELAY: Nanoseconds = 10 * MICROSECOND;

/// The maximum number of hosts of a shape. Chosen: it bounds memory and the time to build it.
const MAX_HOSTS: u32 = 20_000;

/// The reason why a topology could not be made.
#[derive(Debug, thiserror::Error)]
pub enum TopologyError {
    /// The text is neither a known shape nor a JSON file's name.
    #[error(
        "topology {text:?}: {why} (expected single:N, linear:N[,HOSTS], ring:N, tree:DEPTH,FANOUT, fattree:K or FILE.json)"
    )]
    Spec {
        /// The text.
        text: String,
        /// The problem.
        why: String,
    },
    /// The file could not be read.
    #[error("{file}: {error}")]
    Read {
        /// The file.
        file: String,
        /// The system's error.
        error: std::io::Error,
    },
    /// The file is not JSON of the right form; the error names line and column.
    #[error("{file}: {error}")]
    Json {
        /// The file.
        file: String,
        /// The problem.
        error: serde_json::Error,
    },
    /// A value in the file is invalid.
    #[error("{file}: {field}: {why}")]
    Field {
        /// The file.
        file: String,
        /// The place in it, such as `links[2].a`.
        field: String,
        /// The problem.
        why: String,
    },
}

/// A switch of a topology.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwitchSpec {
    /// Its name, such as `s1`.
    pub name: String,
    /// Its datapath id.
    pub dpid: Dpid,
}

/// A host of a topology, and its port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostSpec {
    /// Its name, such as `h1`.
    pub name: String,
    /// Its hardware address.
    pub mac: [u8; 6],
    /// Its IPv4 address; the network is 10.0.0.0/8, and all hosts are on the link.
    pub ipv4: Ipv4Addr,
    /// Its IPv6 address; all hosts are on the link.
    pub ipv6: Ipv6Addr,
    /// The switch.
    pub switch: Dpid,
    /// The port of the switch.
    pub port: PortNo,
}

/// A link between two switches.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkSpec {
    /// One end: switch and port.
    pub a: (Dpid, PortNo),
    /// The other end.
    pub b: (Dpid, PortNo),
    /// The delay of a frame, in nanoseconds.
    pub delay: Nanoseconds,
    /// The share of frames that it loses at random, 0.0 to 1.0.
    pub loss: f64,
    /// The maximum rate in each direction, in bits a second; `None`: no maximum.
    pub rate: Option<u64>,
    /// Numbers by name, such as `secure`, which policies can use as costs of paths.
    pub attributes: BTreeMap<String, f64>,
}

/// A queue of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueSpec {
    /// The switch.
    pub switch: Dpid,
    /// The port of the switch.
    pub port: PortNo,
    /// The queue's number.
    pub queue: u32,
    /// Its rates.
    pub rates: QueueRates,
}

/// Switches, hosts and links, with all port numbers.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Topology {
    /// The switches, in order of their names' numbers.
    pub switches: Vec<SwitchSpec>,
    /// The hosts, in order of their names' numbers.
    pub hosts: Vec<HostSpec>,
    /// The links, in order of construction.
    pub links: Vec<LinkSpec>,
    /// The queues of ports.
    pub queues: Vec<QueueSpec>,
}

impl Topology {
    /// Parses a topology: one of the shapes above, or the name of a JSON file.
    ///
    /// # Errors
    /// [`TopologyError`], naming the text, or the file and the field.
    pub fn parse(text: &str) -> Result<Topology, TopologyError> {
        if text.ends_with(".json") {
            return file::read(text);
        }
        let wrong = |why: String| TopologyError::Spec { text: text.to_string(), why };
        let (shape, items) = text.split_once(':').map_or((text, Vec::new()), |(a, b)| (a, b.split(',').collect()));
        let (settings, numbers): (Vec<&str>, Vec<&str>) = items.into_iter().partition(|item| item.contains('='));
        let numbers = numbers
            .into_iter()
            .map(|n| n.trim().parse::<u32>().map_err(|_| wrong(format!("{n:?} is not a whole number"))))
            .collect::<Result<Vec<u32>, _>>()?;
        let mut topology = Topology::shape(shape, &numbers).map_err(wrong)?;
        for setting in settings {
            topology.set_links(setting).map_err(wrong)?;
        }
        Ok(topology)
    }

    fn shape(shape: &str, numbers: &[u32]) -> Result<Topology, String> {
        let wrong = |why: &str| why.to_string();
        match (shape, numbers) {
            ("single", &[n]) if (1..=20_000).contains(&n) => Ok(Topology::chain(1, n)),
            ("single", &[_]) => Err(wrong("N must be 1 to 20000")),
            ("linear", &[n]) if (1..=10_000).contains(&n) => Ok(Topology::linear(n)),
            ("linear", &[n, hosts]) if (1..=10_000).contains(&n) && n.saturating_mul(hosts) <= MAX_HOSTS => {
                Ok(Topology::chain(n, hosts))
            }
            ("linear", &[n, _]) if (1..=10_000).contains(&n) => Err(wrong("more than 20000 hosts")),
            ("linear", &[_] | &[_, _]) => Err(wrong("N must be 1 to 10000")),
            ("ring", &[n]) if (3..=10_000).contains(&n) => Ok(Topology::ring(n)),
            ("ring", &[_]) => Err(wrong("N must be 3 to 10000")),
            ("tree", &[depth, fanout]) if (1..=8).contains(&depth) && (1..=64).contains(&fanout) => {
                if (u64::from(fanout)).pow(depth) > u64::from(MAX_HOSTS) {
                    return Err(wrong("more than 20000 hosts"));
                }
                Ok(Topology::tree(depth, fanout))
            }
            ("tree", &[_, _]) => Err(wrong("DEPTH must be 1 to 8 and FANOUT 1 to 64")),
            ("fattree", &[k]) if k % 2 == 0 && (2..=32).contains(&k) => Ok(Topology::fattree(k)),
            ("fattree", &[_]) => Err(wrong("K must be even, 2 to 32")),
            ("linear", _) => Err(wrong("one number or two expected, as in linear:4 or linear:4,2")),
            ("single" | "ring" | "fattree", _) => Err(format!("one number expected, as in {shape}:4")),
            ("tree", _) => Err(wrong("two numbers expected, as in tree:2,3")),
            _ => Err(wrong("no shape of that name; there are single, linear, ring, tree and fattree, as in ring:4")),
        }
    }

    /// Sets one attribute of all links: `delay=TIME`, `loss=SHARE` or `rate=RATE`.
    fn set_links(&mut self, setting: &str) -> Result<(), String> {
        let (name, value) = setting.split_once('=').unwrap_or((setting, ""));
        let (name, value) = (name.trim(), value.trim());
        match name {
            "delay" => {
                let delay = quantity::time(value)?;
                self.links.iter_mut().for_each(|link| link.delay = delay);
            }
            "loss" => {
                let loss = quantity::share(value)?;
                self.links.iter_mut().for_each(|link| link.loss = loss);
            }
            "rate" => {
                let rate = quantity::rate(value)?;
                self.links.iter_mut().for_each(|link| link.rate = Some(rate));
            }
            _ => return Err(format!("links have no {name:?}; they have delay=TIME, loss=PERCENT% and rate=RATE")),
        }
        Ok(())
    }

    /// Builds a chain of `n` switches with one host each.
    pub fn linear(n: u32) -> Topology {
        Topology::chain(n, 1)
    }

    /// Builds a chain of `n` switches with this many hosts each.
    pub fn chain(n: u32, hosts: u32) -> Topology {
        let mut plan = Plan::default();
        let switches: Vec<Dpid> = (0..n).map(|_| plan.switch()).collect();
        switches.iter().for_each(|s| (0..hosts).for_each(|_| plan.host(*s)));
        switches.windows(2).for_each(|pair| plan.link(pair[0], pair[1], 1.0));
        plan.build()
    }

    /// Builds a ring of `n` switches with one host each. The link from the last to the first is the short path between
    /// them, and the insecure one: its `secure` cost is `n`.
    pub fn ring(n: u32) -> Topology {
        let mut plan = Plan::default();
        let switches: Vec<Dpid> = (0..n).map(|_| plan.switch()).collect();
        switches.iter().for_each(|s| plan.host(*s));
        switches.windows(2).for_each(|pair| plan.link(pair[0], pair[1], 1.0));
        plan.link(switches[switches.len() - 1], switches[0], f64::from(n));
        plan.build()
    }

    /// Builds a tree of switches, numbered in depth-first order as Mininet does, with `fanout` hosts under each lowest
    /// one.
    pub fn tree(depth: u32, fanout: u32) -> Topology {
        fn grow(plan: &mut Plan, depth: u32, fanout: u32) -> Dpid {
            let switch = plan.switch();
            for _ in 0..fanout {
                if depth == 1 {
                    plan.host(switch);
                } else {
                    let child = grow(plan, depth - 1, fanout);
                    plan.link(switch, child, 1.0);
                }
            }
            switch
        }
        let mut plan = Plan::default();
        grow(&mut plan, depth, fanout);
        plan.build()
    }

    /// Builds a fat tree of `k`-port switches: cores first, then each pod's aggregation and edge switches.
    pub fn fattree(k: u32) -> Topology {
        let half = (k / 2) as usize;
        let mut plan = Plan::default();
        let cores: Vec<Dpid> = (0..half * half).map(|_| plan.switch()).collect();
        for _pod in 0..k {
            let aggregation: Vec<Dpid> = (0..half).map(|_| plan.switch()).collect();
            let edge: Vec<Dpid> = (0..half).map(|_| plan.switch()).collect();
            for (i, a) in aggregation.iter().enumerate() {
                cores[i * half..(i + 1) * half].iter().for_each(|core| plan.link(*core, *a, 1.0));
                edge.iter().for_each(|e| plan.link(*a, *e, 1.0));
            }
            edge.iter().for_each(|e| (0..half).for_each(|_| plan.host(*e)));
        }
        plan.build()
    }

    /// Returns the ports of a switch that hosts or links use, in ascending order.
    pub fn ports(&self, switch: Dpid) -> BTreeSet<PortNo> {
        let hosts = self.hosts.iter().map(|h| (h.switch, h.port));
        let links = self.links.iter().flat_map(|l| [l.a, l.b]);
        hosts.chain(links).filter(|(dpid, _)| *dpid == switch).map(|(_, port)| port).collect()
    }

    /// Returns the ports that hosts or links use, in ascending order, by switch.
    pub fn all_ports(&self) -> BTreeMap<Dpid, BTreeSet<PortNo>> {
        let mut ports = BTreeMap::<Dpid, BTreeSet<PortNo>>::new();
        let hosts = self.hosts.iter().map(|h| (h.switch, h.port));
        for (dpid, port) in hosts.chain(self.links.iter().flat_map(|l| [l.a, l.b])) {
            ports.entry(dpid).or_default().insert(port);
        }
        ports
    }

    /// Returns the host of this name.
    pub fn host(&self, name: &str) -> Option<&HostSpec> {
        self.hosts.iter().find(|h| h.name == name)
    }

    /// Returns the switch of this name.
    pub fn switch(&self, name: &str) -> Option<&SwitchSpec> {
        self.switches.iter().find(|s| s.name == name)
    }
}

/// Returns the hardware address, IPv4 and IPv6 address of host number `n` (from 1).
pub fn addresses(n: u32) -> ([u8; 6], Ipv4Addr, Ipv6Addr) {
    let bytes = n.to_be_bytes();
    let mac = [0, 0, bytes[0], bytes[1], bytes[2], bytes[3]];
    let ipv6 = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, (n >> 16) as u16, n as u16);
    (mac, Ipv4Addr::from(u32::from(Ipv4Addr::new(10, 0, 0, 0)) + n), ipv6)
}

/// A topology under construction, before its ports are numbered.
#[derive(Default)]
struct Plan {
    switches: u64,
    hosts: Vec<Dpid>,
    links: Vec<(Dpid, Dpid, f64)>,
}

impl Plan {
    fn switch(&mut self) -> Dpid {
        self.switches += 1;
        Dpid(self.switches)
    }

    fn host(&mut self, switch: Dpid) {
        self.hosts.push(switch);
    }

    fn link(&mut self, a: Dpid, b: Dpid, secure: f64) {
        self.links.push((a, b, secure));
    }

    fn build(self) -> Topology {
        let mut used = BTreeMap::<Dpid, u32>::new();
        let mut next_port = |switch: Dpid| {
            let last = used.entry(switch).or_default();
            *last += 1;
            PortNo(*last)
        };
        let switches = (1..=self.switches).map(|n| SwitchSpec { name: format!("s{n}"), dpid: Dpid(n) }).collect();
        let hosts = (1..)
            .zip(self.hosts)
            .map(|(n, switch)| {
                let (mac, ipv4, ipv6) = addresses(n);
                HostSpec { name: format!("h{n}"), mac, ipv4, ipv6, switch, port: next_port(switch) }
            })
            .collect();
        let links = self
            .links
            .into_iter()
            .map(|(a, b, secure)| LinkSpec {
                a: (a, next_port(a)),
                b: (b, next_port(b)),
                delay: DEFAULT_DELAY,
                loss: 0.0,
                rate: None,
                attributes: BTreeMap::from([("secure".to_string(), secure)]),
            })
            .collect();
        Topology { switches, hosts, links, queues: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(text: &str) -> (usize, usize, usize) {
        let topology = Topology::parse(text).unwrap();
        (topology.switches.len(), topology.hosts.len(), topology.links.len())
    }

    #[test]
    fn shapes_have_the_counts_of_their_formulas() {
        assert_eq!(counts("linear:3"), (3, 3, 2));
        assert_eq!(counts("linear:1"), (1, 1, 0));
        assert_eq!(counts("single:10000"), (1, 10_000, 0));
        assert_eq!(counts("linear:3,40"), (3, 120, 2));
        assert_eq!(counts("ring:4"), (4, 4, 4));
        assert_eq!(counts("tree:2,3"), (4, 9, 3));
        assert_eq!(counts("tree:3,2"), (7, 8, 6));
        assert_eq!(counts("fattree:4"), (20, 16, 32));
    }

    #[test]
    fn hosts_get_the_first_ports_and_links_the_next() {
        let ring = Topology::ring(4);
        assert!(ring.hosts.iter().all(|h| h.port == PortNo(1)));
        assert_eq!(ring.links[0].a, (Dpid(1), PortNo(2)));
        assert_eq!(ring.links[0].b, (Dpid(2), PortNo(2)));
        assert_eq!(ring.links[3].a, (Dpid(4), PortNo(3)));
        assert_eq!(ring.links[3].b, (Dpid(1), PortNo(3)));
        assert_eq!(ring.links[3].attributes["secure"], 4.0);
        assert_eq!(ring.ports(Dpid(1)).len(), 3);
    }

    #[test]
    fn links_of_a_shape_can_be_slow_lossy_and_narrow() {
        let ring = Topology::parse("ring:4,delay=5ms,loss=1%,rate=10mbit").unwrap();
        let all = |link: &LinkSpec| (link.delay, link.loss, link.rate) == (5_000_000, 0.01, Some(10_000_000));
        assert!(ring.links.len() == 4 && ring.links.iter().all(all));
    }

    #[test]
    fn every_port_of_a_fat_tree_is_used_once() {
        let topology = Topology::fattree(4);
        for switch in &topology.switches {
            assert_eq!(topology.ports(switch.dpid).len(), 4, "{}", switch.name);
        }
    }

    #[test]
    fn addresses_are_those_of_mininet() {
        let h = &Topology::linear(300).hosts[299];
        assert_eq!((h.name.as_str(), h.mac, h.ipv4), ("h300", [0, 0, 0, 0, 1, 44], Ipv4Addr::new(10, 0, 1, 44)));
        assert_eq!(h.ipv6.to_string(), "fd00::12c");
    }

    #[test]
    fn a_text_that_is_no_topology_is_refused_with_a_reason() {
        for (text, why) in [
            ("star:3", "no shape"),
            ("ring", "as in ring:4"),
            ("star", "no shape"),
            ("ring:2", "3 to 10000"),
            ("ring:x", "\"x\" is not a whole number"),
            ("tree:2", "two numbers"),
            ("fattree:3", "even"),
            ("tree:8,64", "more than 20000"),
            ("linear:1000,30", "more than 20000"),
            ("ring:4,los=1%", "links have no \"los\""),
            ("ring:4,loss=1", "\"1\" is not a share"),
        ] {
            let error = Topology::parse(text).unwrap_err().to_string();
            assert!(error.contains(why) && error.contains(text), "{error}");
        }
    }
}
