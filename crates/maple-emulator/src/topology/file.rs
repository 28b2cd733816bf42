//! Topologies in JSON.
//!
//! ```json
//! {
//!   "switches": [{"name": "s1"}, {"name": "s2", "dpid": "00000000000000a2"}],
//!   "hosts": [
//!     {"name": "h1", "switch": "s1"},
//!     {"name": "h2", "switch": "s2", "port": 7,
//!      "mac": "00:00:00:00:00:02", "ipv4": "10.0.0.2", "ipv6": "fd00::2"}
//!   ],
//!   "links": [{"a": "s1", "b": "s2", "a_port": 2, "b_port": 3, "delay_us": 10, "loss_percent": 0.5,
//!              "rate_mbit": 100, "attributes": {"secure": 3}}],
//!   "queues": [{"switch": "s1", "port": 2, "queue": 1, "min_mbit": 2, "max_mbit": 10}]
//! }
//! ```
//!
//! * `switches[].name` (must), `.dpid`: hex digits, not 0; without it the switch's place in the list, from 1.
//! * `hosts[].name`, `.switch` (must); `.port`: 1 to 65279; `.mac`, `.ipv4`, `.ipv6`: without them those of host
//!   number N, N being the host's place in the list from 1.
//! * `links[].a`, `.b` (must): names of different switches; `.a_port`, `.b_port`; `.delay_us`: microseconds, at most 10
//!   seconds, 10 without it; `.loss_percent`: the share of frames that it loses, 0 without it; `.rate_mbit`: what each
//!   direction carries, no bound without it; `.attributes`: numbers by name. `secure` is 1 where it is not given.
//!
//! * `queues[].switch`, `.port`, `.queue` (must): a port that the file gives to a host or a link by its number, or that
//!   follows from the rule below; `.min_mbit`, `.max_mbit`: what the queue gets at least and at most.
//!
//! Ports that are not given are the lowest free ones of their switch, hosts first, then links, in order. `hosts`,
//! `links` and `queues` may be left out. Unknown fields are errors, as are names, ids, addresses and ports used twice.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, Ipv6Addr};

use maple_switch::QueueRates;
use maple_switch::time::MICROSECOND;
use maple_wire::packet::text::parse_mac;
use maple_wire::{Dpid, PortNo};
use serde::Deserialize;

use super::{DEFAULT_DELAY, HostSpec, LinkSpec, QueueSpec, SwitchSpec, Topology, TopologyError, addresses};

/// The highest port number that both OpenFlow versions have: below `OFPP_MAX` of 1.0, 0xff00 (§5.2.1), and what Open
/// vSwitch has.
const MAX_PORT: u32 = 0xfeff;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    switches: Vec<FileSwitch>,
    #[serde(default)]
    hosts: Vec<FileHost>,
    #[serde(default)]
    links: Vec<FileLink>,
    #[serde(default)]
    queues: Vec<FileQueue>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileSwitch {
    name: String,
    dpid: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileHost {
    name: String,
    switch: String,
    port: Option<u32>,
    mac: Option<String>,
    ipv4: Option<Ipv4Addr>,
    ipv6: Option<Ipv6Addr>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileLink {
    a: String,
    b: String,
    a_port: Option<u32>,
    b_port: Option<u32>,
    delay_us: Option<f64>,
    loss_percent: Option<f64>,
    rate_mbit: Option<f64>,
    #[serde(default)]
    attributes: BTreeMap<String, f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileQueue {
    switch: String,
    port: u32,
    queue: u32,
    min_mbit: Option<f64>,
    max_mbit: Option<f64>,
}

/// Reads the topology in the file of this name.
///
/// # Errors
/// [`TopologyError`], which names the file and the problem.
pub fn read(file: &str) -> Result<Topology, TopologyError> {
    let text = std::fs::read_to_string(file).map_err(|error| TopologyError::Read { file: file.to_string(), error })?;
    parse(file, &text)
}

/// Parses a topology. Errors name `file`.
///
/// # Errors
/// [`TopologyError`], which names the file and the problem.
pub fn parse(file: &str, text: &str) -> Result<Topology, TopologyError> {
    let content: File =
        serde_json::from_str(text).map_err(|error| TopologyError::Json { file: file.to_string(), error })?;
    Reader { file, ports: Ports::default() }.topology(content)
}

struct Reader<'a> {
    file: &'a str,
    ports: Ports,
}

/// Ports in use, by switch.
#[derive(Default)]
struct Ports(BTreeMap<Dpid, BTreeSet<u32>>);

impl Ports {
    fn claim(&mut self, switch: Dpid, port: u32) -> bool {
        self.0.entry(switch).or_default().insert(port)
    }

    fn is_used(&self, switch: Dpid, port: u32) -> bool {
        self.0.get(&switch).is_some_and(|used| used.contains(&port))
    }

    fn lowest_free(&mut self, switch: Dpid) -> u32 {
        let used = self.0.entry(switch).or_default();
        let free = (1..).find(|n| !used.contains(n)).expect("a set of ports is finite");
        used.insert(free);
        free
    }
}

impl Reader<'_> {
    fn wrong(&self, field: String, why: impl Into<String>) -> TopologyError {
        TopologyError::Field { file: self.file.to_string(), field, why: why.into() }
    }

    fn topology(mut self, content: File) -> Result<Topology, TopologyError> {
        let switches = self.switches(&content.switches)?;
        let by_name: BTreeMap<&str, Dpid> = switches.iter().map(|s| (s.name.as_str(), s.dpid)).collect();
        self.claim_given_ports(&content, &by_name)?;
        let hosts = self.hosts(&content.hosts, &by_name)?;
        let links = self.links(&content.links, &by_name)?;
        let queues = self.queues(&content.queues, &by_name)?;
        Ok(Topology { switches, hosts, links, queues })
    }

    fn switches(&self, given: &[FileSwitch]) -> Result<Vec<SwitchSpec>, TopologyError> {
        let mut switches = Vec::<SwitchSpec>::new();
        for (i, switch) in given.iter().enumerate() {
            let dpid = match &switch.dpid {
                None => Dpid(i as u64 + 1),
                Some(text) => text.parse::<Dpid>().ok().filter(|d| d.0 != 0).ok_or_else(|| {
                    self.wrong(format!("switches[{i}].dpid"), format!("{text:?} is not a datapath id other than 0"))
                })?,
            };
            if switches.iter().any(|s| s.name == switch.name) {
                return Err(self.wrong(format!("switches[{i}].name"), format!("{:?} stands twice", switch.name)));
            }
            if switches.iter().any(|s| s.dpid == dpid) {
                return Err(self.wrong(format!("switches[{i}].dpid"), format!("{dpid} stands twice")));
            }
            switches.push(SwitchSpec { name: switch.name.clone(), dpid });
        }
        if switches.is_empty() {
            return Err(self.wrong("switches".into(), "there must be at least one"));
        }
        Ok(switches)
    }

    /// Takes the ports that the file names, before the others get numbers.
    fn claim_given_ports(&mut self, content: &File, by_name: &BTreeMap<&str, Dpid>) -> Result<(), TopologyError> {
        let hosts =
            content.hosts.iter().enumerate().map(|(i, h)| (format!("hosts[{i}]."), "switch", &h.switch, h.port));
        let links = content.links.iter().enumerate().flat_map(|(i, l)| {
            [(format!("links[{i}]."), "a", &l.a, l.a_port), (format!("links[{i}]."), "b", &l.b, l.b_port)]
        });
        for (place, end, switch, port) in hosts.chain(links) {
            let dpid = by_name
                .get(switch.as_str())
                .ok_or_else(|| self.wrong(format!("{place}{end}"), format!("no switch is named {switch:?}")))?;
            let Some(port) = port else { continue };
            let field = if end == "switch" { format!("{place}port") } else { format!("{place}{end}_port") };
            if !(1..=MAX_PORT).contains(&port) {
                return Err(self.wrong(field, format!("{port} is not a port number (1 to {MAX_PORT})")));
            }
            if !self.ports.claim(*dpid, port) {
                return Err(self.wrong(field, format!("port {port} of {switch} is used twice")));
            }
        }
        Ok(())
    }

    fn hosts(&mut self, given: &[FileHost], by_name: &BTreeMap<&str, Dpid>) -> Result<Vec<HostSpec>, TopologyError> {
        let mut hosts = Vec::<HostSpec>::new();
        for (i, host) in given.iter().enumerate() {
            let (mac, ipv4, ipv6) = addresses(i as u32 + 1);
            let mac = match &host.mac {
                None => mac,
                Some(text) => parse_unicast(text).ok_or_else(|| {
                    self.wrong(format!("hosts[{i}].mac"), format!("{text:?} is not a unicast hardware address"))
                })?,
            };
            let switch = by_name[host.switch.as_str()];
            let port = PortNo(host.port.unwrap_or_else(|| self.ports.lowest_free(switch)));
            let (ipv4, ipv6) = (host.ipv4.unwrap_or(ipv4), host.ipv6.unwrap_or(ipv6));
            let new = HostSpec { name: host.name.clone(), mac, ipv4, ipv6, switch, port };
            let twice = |what: &str| self.wrong(format!("hosts[{i}].{what}"), "the same as an earlier host's");
            for old in &hosts {
                if old.name == new.name {
                    return Err(twice("name"));
                } else if old.mac == new.mac {
                    return Err(twice("mac"));
                } else if old.ipv4 == new.ipv4 {
                    return Err(twice("ipv4"));
                } else if old.ipv6 == new.ipv6 {
                    return Err(twice("ipv6"));
                }
            }
            hosts.push(new);
        }
        Ok(hosts)
    }

    fn links(&mut self, given: &[FileLink], by_name: &BTreeMap<&str, Dpid>) -> Result<Vec<LinkSpec>, TopologyError> {
        let mut links = Vec::new();
        for (i, link) in given.iter().enumerate() {
            if link.a == link.b {
                return Err(self.wrong(format!("links[{i}].b"), format!("{:?} is linked to itself", link.b)));
            }
            let delay = match link.delay_us {
                None => DEFAULT_DELAY,
                Some(us) if (0.0..=10_000_000.0).contains(&us) => (us * MICROSECOND as f64) as u64,
                Some(us) => {
                    return Err(self.wrong(format!("links[{i}].delay_us"), format!("{us} is not 0 to 10000000")));
                }
            };
            let (a, b) = (by_name[link.a.as_str()], by_name[link.b.as_str()]);
            let a_port = PortNo(link.a_port.unwrap_or_else(|| self.ports.lowest_free(a)));
            let b_port = PortNo(link.b_port.unwrap_or_else(|| self.ports.lowest_free(b)));
            let mut attributes = link.attributes.clone();
            attributes.entry("secure".to_string()).or_insert(1.0);
            let loss = match link.loss_percent.unwrap_or(0.0) {
                percent if (0.0..=100.0).contains(&percent) => percent / 100.0,
                percent => {
                    return Err(self.wrong(format!("links[{i}].loss_percent"), format!("{percent} is not 0 to 100")));
                }
            };
            let rate = self.rate(format!("links[{i}].rate_mbit"), link.rate_mbit)?;
            links.push(LinkSpec { a: (a, a_port), b: (b, b_port), delay, loss, rate, attributes });
        }
        Ok(links)
    }
}

impl Reader<'_> {
    fn queues(&self, given: &[FileQueue], by_name: &BTreeMap<&str, Dpid>) -> Result<Vec<QueueSpec>, TopologyError> {
        let mut queues = Vec::<QueueSpec>::new();
        for (i, queue) in given.iter().enumerate() {
            let (name, port) = (&queue.switch, PortNo(queue.port));
            let switch = *by_name
                .get(name.as_str())
                .ok_or_else(|| self.wrong(format!("queues[{i}].switch"), format!("no switch is named {name:?}")))?;
            if !self.ports.is_used(switch, queue.port) {
                return Err(self.wrong(format!("queues[{i}].port"), format!("{name} has no port {port}")));
            }
            if queues.iter().any(|old| (old.switch, old.port, old.queue) == (switch, port, queue.queue)) {
                return Err(self.wrong(format!("queues[{i}].queue"), "the same as an earlier queue of the port"));
            }
            let rates = QueueRates {
                min: self.rate(format!("queues[{i}].min_mbit"), queue.min_mbit)?,
                max: self.rate(format!("queues[{i}].max_mbit"), queue.max_mbit)?,
            };
            queues.push(QueueSpec { switch, port, queue: queue.queue, rates });
        }
        Ok(queues)
    }

    /// Converts a rate to bits a second.
    fn rate(&self, field: String, mbit: Option<f64>) -> Result<Option<u64>, TopologyError> {
        match mbit {
            None => Ok(None),
            Some(mbit) if (0.000_001..=1_000_000.0).contains(&mbit) => Ok(Some((mbit * 1e6) as u64)),
            Some(mbit) => Err(self.wrong(field, format!("{mbit} is not 0.000001 to 1000000"))),
        }
    }
}

/// Parses a hardware address, not a group address and not all zero.
fn parse_unicast(text: &str) -> Option<[u8; 6]> {
    let [_, _, mac @ ..] = parse_mac(text)?.to_be_bytes();
    (mac[0] & 1 == 0 && mac != [0; 6]).then_some(mac)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_says_ports_addresses_and_attributes() {
        let text = r#"{
            "switches": [{"name": "s1"}, {"name": "east", "dpid": "00:00:00:00:00:00:00:a2"}],
            "hosts": [{"name": "h1", "switch": "s1"},
                      {"name": "web", "switch": "east", "port": 7, "mac": "02:00:00:00:00:07", "ipv4": "10.9.0.7"}],
            "links": [{"a": "s1", "b": "east", "a_port": 1, "delay_us": 2.5, "attributes": {"secure": 3, "mbps": 40}},
                      {"a": "east", "b": "s1", "loss_percent": 5, "rate_mbit": 1.5}],
            "queues": [{"switch": "east", "port": 7, "queue": 1, "max_mbit": 2}]
        }"#;
        let topology = parse("net.json", text).unwrap();
        assert_eq!(topology.switches[1], SwitchSpec { name: "east".into(), dpid: Dpid(0xa2) });
        assert_eq!(topology.hosts[0].port, PortNo(2), "port 1 is the link's by name");
        assert_eq!(topology.hosts[1].mac, [2, 0, 0, 0, 0, 7]);
        assert_eq!(topology.links[0].delay, 2_500);
        assert_eq!(topology.links[0].attributes["mbps"], 40.0);
        assert_eq!(topology.links[1].a, (Dpid(0xa2), PortNo(2)));
        assert_eq!(topology.links[1].attributes["secure"], 1.0);
        assert_eq!((topology.links[1].loss, topology.links[1].rate), (0.05, Some(1_500_000)));
        let rates = QueueRates { min: None, max: Some(2_000_000) };
        assert_eq!(topology.queues, [QueueSpec { switch: Dpid(0xa2), port: PortNo(7), queue: 1, rates }]);
    }

    #[test]
    fn errors_name_the_file_and_the_field() {
        for (text, say) in [
            (r#"{"switches": []}"#, "net.json: switches: there must be"),
            (r#"{"switches": [{"name": "a"}, {"name": "a"}]}"#, "switches[1].name"),
            (r#"{"switches": [{"name": "a", "dpid": "xyz"}]}"#, "switches[0].dpid"),
            (r#"{"switches": [{"name": "a"}], "hosts": [{"name": "h", "switch": "b"}]}"#, "hosts[0].switch"),
            (r#"{"switches": [{"name": "a"}], "hosts": [{"name": "h", "switch": "a", "port": 0}]}"#, "hosts[0].port"),
            (
                r#"{"switches": [{"name": "a"}], "hosts": [{"name": "h", "switch": "a", "mac": "01:0:0"}]}"#,
                "hosts[0].mac",
            ),
            (r#"{"switches": [{"name": "a"}], "links": [{"a": "a", "b": "a"}]}"#, "links[0].b"),
            (
                r#"{"switches": [{"name": "a"}], "queues": [{"switch": "a", "port": 1, "queue": 0}]}"#,
                "queues[0].port: a has no port 1",
            ),
            (r#"{"switches": [{"name": "a"}], "lonks": []}"#, "unknown field `lonks`"),
            (r#"{"switches": [{"name": 3}]}"#, "line 1 column"),
        ] {
            let error = parse("net.json", text).unwrap_err().to_string();
            assert!(error.contains("net.json") && error.contains(say), "{error}");
        }
    }
}
