//! First-match access control: the lines of a file, tested in order until one fits; what passes takes the shortest path.
//!
//! The file is `acl.txt` beside this one, or what the environment variable `MAPLE_ACL` names. Each line becomes tests,
//! so a packet learns no more than which lines don't fit it and which one does.

use std::net::Ipv4Addr;
use std::process::ExitCode;

use maple::Observe as _;
use maple::{App, Field, Net, PacketHandle, Route};

const ARP: u128 = 0x0806;
const TCP: u128 = 6;

/// One line of the file. `None` stands for anything.
struct Line {
    permits: bool,
    is_arp: bool,
    protocol: Option<u128>,
    source: Option<Prefix>,
    destination: Option<Prefix>,
    ports: Option<(u128, u128)>,
}

/// An IPv4 prefix: value and mask.
#[derive(Clone, Copy)]
struct Prefix(u128, u128);

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
            source: word(2).map(Prefix::parse).transpose()?,
            destination: word(3).map(Prefix::parse).transpose()?,
            ports: word(4).map(ports).transpose()?,
        })
    }

    /// Whether the line is about this packet.
    fn fits(&self, pkt: &PacketHandle) -> bool {
        if self.is_arp {
            return pkt.is(Field::EthType, ARP);
        }
        let port = if self.protocol == Some(TCP) { Field::TcpDst } else { Field::UdpDst };
        let within = |field, prefix: Option<Prefix>| prefix.is_none_or(|p| pkt.equals(field, p.0, p.1, None));
        self.protocol.is_none_or(|protocol| pkt.is(Field::IpProto, protocol))
            && within(Field::Ipv4Src, self.source)
            && within(Field::Ipv4Dst, self.destination)
            && self.ports.is_none_or(|(low, high)| pkt.within(port, low, high))
    }
}

impl Prefix {
    fn parse(text: &str) -> Result<Prefix, String> {
        let wrong = || format!("{text:?} is no IPv4 prefix");
        let (address, length) = text.split_once('/').unwrap_or((text, "32"));
        let address: Ipv4Addr = address.parse().map_err(|_| wrong())?;
        let length: u32 = length.parse().ok().filter(|length| *length <= 32).ok_or_else(wrong)?;
        let mask = u32::MAX.checked_shl(32 - length).unwrap_or(0);
        Ok(Prefix(u128::from(u32::from(address) & mask), u128::from(mask)))
    }
}

/// `22` or `1024-2047`.
fn ports(text: &str) -> Result<(u128, u128), String> {
    let (low, high) = text.split_once('-').unwrap_or((text, text));
    let port = |text: &str| text.parse::<u16>().map(u128::from).map_err(|_| format!("{text:?} is no port"));
    Ok((port(low)?, port(high)?))
}

/// The lines of a file; an error names the line.
fn parse(text: &str, name: &str) -> Result<Vec<Line>, String> {
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    lines
        .enumerate()
        .filter(|(_, line)| !line.is_empty())
        .map(|(index, line)| Line::parse(line).map_err(|error| format!("{name}:{}: {line:?}: {error}", index + 1)))
        .collect()
}

fn deliver(pkt: &PacketHandle, net: &Net) -> Route {
    if pkt.is_multicast() {
        return Route::flood();
    }
    let Some(dst) = net.locate(pkt.eth_dst()) else { return Route::flood() };
    net.locate(pkt.eth_src()).map_or_else(Route::flood, |src| net.shortest_path(src, dst))
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
    let policy = move |pkt: &PacketHandle, net: &Net| match lines.iter().find(|line| line.fits(pkt)) {
        Some(line) if line.permits => deliver(pkt, net),
        _ => Route::drop(),
    };
    maple_cli::run(App::new(policy))
}
