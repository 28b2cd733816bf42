//! Services: a protocol, with ports or an ICMP type.

use std::fmt;

use maple_wire::Field;
use maple_wire::ip_proto::value as ip_proto;
use rustc_hash::FxHashMap;

use crate::address::AddressKind;
use crate::cube::Cube;
use crate::error::{Fault, did_you_mean};
use crate::yaml::{YamlKey, YamlNode, YamlValue};

/// The protocol of a packet, with the constraints of its ports or types.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Service {
    /// TCP, UDP or SCTP to ports from the first to the second, both included.
    Ports(Transport, u16, u16),
    /// ICMP, of a type and a code if they are given.
    Icmp(Option<u8>, Option<u8>),
    /// ICMPv6, of a type and a code if they are given.
    Icmp6(Option<u8>, Option<u8>),
    /// An IP protocol by its number.
    Proto(u8),
}

/// A protocol with ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Transport {
    Tcp,
    Udp,
    Sctp,
}

/// The services of a file. A service may name those that come before it.
#[derive(Debug)]
pub struct Services<'a> {
    section: &'a [(YamlKey, YamlNode)],
    known: FxHashMap<&'a str, Vec<Service>>,
}

const PROTOCOLS: [&str; 6] = ["tcp", "udp", "sctp", "icmp", "icmpv6", "ip"];

impl Transport {
    /// Returns the protocol number, and the fields of the source and destination ports.
    pub fn fields(self) -> (u128, Field, Field) {
        match self {
            Transport::Tcp => (ip_proto::TCP, Field::TcpSrc, Field::TcpDst),
            Transport::Udp => (ip_proto::UDP, Field::UdpSrc, Field::UdpDst),
            Transport::Sctp => (ip_proto::SCTP, Field::SctpSrc, Field::SctpDst),
        }
    }
}

impl Service {
    /// Returns the kind of IP addresses of the service's packets, if there is only one.
    pub fn kind(self) -> Option<AddressKind> {
        match self {
            Service::Icmp(..) => Some(AddressKind::V4),
            Service::Icmp6(..) => Some(AddressKind::V6),
            Service::Ports(..) | Service::Proto(_) => None,
        }
    }

    /// Restricts a cube of IP packets to this service, and to source ports within `from` if that is given.
    pub fn restrict(self, cube: Cube, from: Option<(u16, u16)>) -> Option<Cube> {
        let part = |cube: Cube, field, value: Option<u8>| match value {
            Some(value) => cube.is(field, value.into()),
            None => Some(cube),
        };
        match self {
            Service::Ports(transport, lo, hi) => {
                let (number, source, destination) = transport.fields();
                let with_ports = |cube: Cube, field, lo: u16, hi: u16| match (lo, hi) {
                    (0, u16::MAX) => Some(cube),
                    _ => cube.with(field, lo.into(), hi.into()),
                };
                let cube = with_ports(cube.is(Field::IpProto, number)?, destination, lo, hi)?;
                from.map_or(Some(cube.clone()), |(lo, hi)| with_ports(cube, source, lo, hi))
            }
            Service::Icmp(kind, code) => {
                let cube = part(cube.is(Field::IpProto, ip_proto::ICMP)?, Field::Icmpv4Type, kind)?;
                part(cube, Field::Icmpv4Code, code)
            }
            Service::Icmp6(kind, code) => {
                let cube = part(cube.is(Field::IpProto, ip_proto::ICMPV6)?, Field::Icmpv6Type, kind)?;
                part(cube, Field::Icmpv6Code, code)
            }
            Service::Proto(number) => cube.is(Field::IpProto, number.into()),
        }
    }

    /// Returns the service of packets that answer this one, with their source ports; `None` if nothing answers it.
    pub fn replies(self, from: (u16, u16)) -> Option<(Service, Option<(u16, u16)>)> {
        match self {
            Service::Ports(transport, lo, hi) => Some((Service::Ports(transport, from.0, from.1), Some((lo, hi)))),
            Service::Icmp(Some(8), code) => Some((Service::Icmp(Some(0), code), None)),
            Service::Icmp6(Some(128), code) => Some((Service::Icmp6(Some(129), code), None)),
            Service::Icmp(None, _) | Service::Icmp6(None, _) | Service::Proto(_) => Some((self, None)),
            Service::Icmp(..) | Service::Icmp6(..) => None,
        }
    }
}

impl<'a> Services<'a> {
    /// Reads a `services:` section.
    ///
    /// # Errors
    /// [`Fault`] if a service is named like one that is written out, or does not resolve.
    pub fn from_section(section: &'a [(YamlKey, YamlNode)]) -> Result<Services<'a>, Fault> {
        let mut services = Services { section, known: FxHashMap::default() };
        for (key, node) in section {
            if parse(&key.name).is_some() {
                return Err(Fault::new(key.place, format!("a service can't be called `{}`", key.name)));
            }
            let resolved = services.resolve(node)?;
            services.known.insert(&key.name, resolved);
        }
        Ok(services)
    }

    /// Returns the services that a value names, each once.
    ///
    /// # Errors
    /// [`Fault`] if the value is a map, names an unknown service, or names none.
    pub fn resolve(&self, node: &YamlNode) -> Result<Vec<Service>, Fault> {
        let members = match &node.value {
            YamlValue::List(list) => &list[..],
            YamlValue::Scalar(_) => std::slice::from_ref(node),
            YamlValue::Map(_) => return Err(Fault::new(node.place, "services are a list or one service, not a map")),
        };
        let mut all = Vec::new();
        for member in members {
            let YamlValue::Scalar(text) = &member.value else {
                return Err(Fault::new(member.place, "a service is plain text, such as `tcp/22`"));
            };
            let services = self.word(text).map_err(|what| Fault::new(member.place, what))?;
            services.into_iter().for_each(|service| {
                if !all.contains(&service) {
                    all.push(service)
                }
            });
        }
        if all.is_empty() { Err(Fault::new(node.place, "this names no service at all")) } else { Ok(all) }
    }

    /// Returns the services of a word, which is a name or a service written out.
    ///
    /// # Errors
    /// A text that says what is wrong if the word is neither.
    pub fn word(&self, text: &str) -> Result<Vec<Service>, String> {
        if let Some(known) = self.known.get(text) {
            return Ok(known.clone());
        }
        let unknown = || {
            if self.section.iter().any(|(key, _)| key.name == text) {
                return format!("`{text}` is defined only later: a service may name those that come before it");
            }
            let names = self.known.keys().map(|name| (*name).to_owned());
            let (protocol, rest) = text.split_at(text.find('/').unwrap_or(text.len()));
            let written_out =
                PROTOCOLS.into_iter().filter(|_| protocol.len() > 1).map(|known| format!("{known}{rest}"));
            let all: Vec<String> = names.chain(written_out).collect();
            format!(
                "`{text}` is neither a service of this file nor one written out, such as `tcp/22`{}",
                did_you_mean(text, all.iter().map(String::as_str))
            )
        };
        parse(text).unwrap_or_else(|| Err(unknown())).map(|service| vec![service])
    }
}

/// Parses a service that is written out; `None` if it does not begin with a protocol.
fn parse(text: &str) -> Option<Result<Service, String>> {
    let (protocol, rest) = text.split_once('/').map_or((text, None), |(protocol, rest)| (protocol, Some(rest)));
    let transport = match protocol {
        "tcp" => Some(Transport::Tcp),
        "udp" => Some(Transport::Udp),
        "sctp" => Some(Transport::Sctp),
        _ => None,
    };
    if let Some(transport) = transport {
        let ports = rest.map_or(Ok((0, u16::MAX)), ports);
        return Some(
            ports.map(|(lo, hi)| Service::Ports(transport, lo, hi)).map_err(|what| format!("`{text}`: {what}")),
        );
    }
    let icmp = |make: fn(Option<u8>, Option<u8>) -> Service| match rest {
        None => Ok(make(None, None)),
        Some(rest) => {
            let (kind, code) = rest.split_once('.').map_or((rest, None), |(kind, code)| (kind, Some(code)));
            let number = |text: &str| text.parse::<u8>().map_err(|_| format!("`{text}` is not a number from 0 to 255"));
            Ok(make(Some(number(kind)?), code.map(number).transpose()?))
        }
    };
    match protocol {
        "icmp" => Some(icmp(Service::Icmp)),
        "icmpv6" => Some(icmp(Service::Icmp6)),
        "ip" => Some(match rest.and_then(|rest| rest.parse().ok()) {
            Some(number) => Ok(Service::Proto(number)),
            None => Err(format!("`{text}` must be `ip/` and a protocol number from 0 to 255, such as `ip/47`")),
        }),
        _ => None,
    }
}

/// Parses a port or a range of ports.
///
/// # Errors
/// A text that says what is wrong if a port is not from 0 to 65535, or if the range is descending.
pub fn ports(text: &str) -> Result<(u16, u16), String> {
    let port = |text: &str| text.trim().parse::<u16>().map_err(|_| format!("`{text}` is not a port from 0 to 65535"));
    let (lo, hi) = text.split_once('-').unwrap_or((text, text));
    let (lo, hi) = (port(lo)?, port(hi)?);
    if lo <= hi { Ok((lo, hi)) } else { Err(format!("`{text}` is not a range: the first port is above the last")) }
}

impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let icmp = |f: &mut fmt::Formatter<'_>, name, kind: &Option<u8>, code: &Option<u8>| match (kind, code) {
            (Some(kind), Some(code)) => write!(f, "{name}/{kind}.{code}"),
            (Some(kind), None) => write!(f, "{name}/{kind}"),
            _ => write!(f, "{name}"),
        };
        match self {
            Service::Ports(transport, lo, hi) => {
                let name = format!("{transport:?}").to_lowercase();
                match (lo, hi) {
                    (0, &u16::MAX) => write!(f, "{name}"),
                    (lo, hi) if lo == hi => write!(f, "{name}/{lo}"),
                    (lo, hi) => write!(f, "{name}/{lo}-{hi}"),
                }
            }
            Service::Icmp(kind, code) => icmp(f, "icmp", kind, code),
            Service::Icmp6(kind, code) => icmp(f, "icmpv6", kind, code),
            Service::Proto(number) => write!(f, "ip/{number}"),
        }
    }
}
