//! First-match access control. The lines of a file are tested in order until one matches the packet. Packets that
//! may pass take the shortest path.
//!
//! The file is `acl.txt` in this folder, or the one in the environment variable `MAPLE_ACL`. Each line becomes a few
//! tests. So a trace records only which lines do not match and which one does.

use std::net::Ipv4Addr;
use std::ops::RangeInclusive;
use std::process::ExitCode;

use maple::field::PrefixError;
use maple::prelude::*;

const ARP: u16 = 0x0806;
const TCP: u8 = 6;

/// One line of the file. `None` stands for anything.
struct Line {
    permits: bool,
    is_arp: bool,
    protocol: Option<u8>,
    source: Option<Prefix<Ipv4Addr>>,
    destination: Option<Prefix<Ipv4Addr>>,
    ports: Option<RangeInclusive<u16>>,
}

impl Line {
    fn parse(text: &str) -> Result<Line, String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let word = |index: usize| words.get(index).copied().filter(|word| *word != "any");
        let permits = match words.first() {
            Some(&"permit") => true,
            Some(&"deny") => false,
            _ => return Err("the action is permit or deny".into()),
        };
        let protocol = match words.get(1) {
            Some(&"icmp") => Some(1),
            Some(&"tcp") => Some(TCP),
            Some(&"udp") => Some(17),
            Some(&("arp" | "ip")) => None,
            _ => return Err("the protocol is arp, ip, icmp, tcp or udp".into()),
        };
        if words.len() > 5 || word(4).is_some() && !matches!(words[1], "tcp" | "udp") {
            return Err("too many words".into());
        }
        Ok(Line {
            permits,
            is_arp: words[1] == "arp",
            protocol,
            source: word(2).map(prefix).transpose()?,
            destination: word(3).map(prefix).transpose()?,
            ports: word(4).map(ports).transpose()?,
        })
    }

    /// Reports whether the line matches this packet.
    fn fits(&self, pkt: &Packet) -> bool {
        if self.is_arp {
            return pkt.eth_type() == ARP;
        }
        let port = if self.protocol == Some(TCP) { pkt.tcp_dst() } else { pkt.udp_dst() };
        self.protocol.is_none_or(|protocol| pkt.ip_proto() == protocol)
            && self.source.is_none_or(|prefix| pkt.ipv4_src().within(prefix))
            && self.destination.is_none_or(|prefix| pkt.ipv4_dst().within(prefix))
            && self.ports.as_ref().is_none_or(|ports| port.in_range(ports.clone()))
    }
}

fn prefix(text: &str) -> Result<Prefix<Ipv4Addr>, String> {
    text.parse().map_err(|error: PrefixError| error.to_string())
}

/// Reads `22` or `1024-2047`.
fn ports(text: &str) -> Result<RangeInclusive<u16>, String> {
    let (low, high) = text.split_once('-').unwrap_or((text, text));
    let port = |text: &str| text.parse::<u16>().map_err(|_| format!("{text:?} is not a port"));
    Ok(port(low)?..=port(high)?)
}

/// Returns the lines of a file. Errors name the line.
fn parse(text: &str, name: &str) -> Result<Vec<Line>, String> {
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    lines
        .enumerate()
        .filter(|(_, line)| !line.is_empty())
        .map(|(index, line)| Line::parse(line).map_err(|error| format!("{name}:{}: {line:?}: {error}", index + 1)))
        .collect()
}

fn deliver(pkt: &Packet, net: &Net) -> Route {
    if pkt.is_multicast() {
        return net.flood();
    }
    match (net.locate(pkt.eth_dst()), net.locate(pkt.eth_src())) {
        (Some(dst), Some(src)) => net.shortest_path(src, dst),
        _ => net.flood(),
    }
}

fn main() -> ExitCode {
    let name = std::env::var("MAPLE_ACL").unwrap_or_else(|_| "examples/acl.txt".into());
    let text = std::fs::read_to_string(&name).map_err(|error| format!("{name}: {error}"));
    let lines = match text.and_then(|text| parse(&text, &name)) {
        Ok(lines) => lines,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    let policy = move |pkt: &Packet, net: &Net| match lines.iter().find(|line| line.fits(pkt)) {
        Some(line) if line.permits => deliver(pkt, net),
        _ => Route::drop(),
    };
    maple_cli::run(App::new(policy))
}
