//! One rule of a document: what it does, and to which packets.

use maple_core::Location;
use maple_core::access::AccessAction;
use maple_wire::eth_type::value::{ARP, IPV4, IPV6};
use maple_wire::field::VLAN_PRESENT;
use maple_wire::packet::text::parse_vlan_id;
use maple_wire::parse_number;

use super::fields::{Fields, scalar, scalars};
use super::packets::{Constraints, Cubes, Side, SwitchOrPort};
use super::{ACTIONS, MAX_ENTRIES, Names, Rule};
use crate::address::Addresses;
use crate::classes::saves;
use crate::error::{Fault, FilePlace, did_you_mean};
use crate::service::{Service, ports};
use crate::yaml::{YamlNode, YamlValue};

/// Reads what a rule does with its packets.
pub(super) fn read_rule(fields: &Fields<'_>) -> Result<Rule, Fault> {
    let Some(action) = fields.choice("action", &ACTIONS)? else {
        return Err(Fault::new(fields.place, "a rule needs an `action`: allow, deny or pass"));
    };
    for key in ["mirror", "queue"] {
        if let (AccessAction::Deny, Some(node)) = (action, fields.get(key)) {
            return Err(Fault::new(node.place, format!("a rule that denies can't have a `{key}`")));
        }
    }
    let mirror = match fields.get("mirror") {
        None => None,
        Some(node) => match SwitchOrPort::parse(scalar(node, "mirror")?) {
            Some(SwitchOrPort { switch, port: Some(port) }) => Some(Location { switch, port }),
            _ => return Err(Fault::new(node.place, "`mirror` is a switch and a port, such as \"2:3\"")),
        },
    };
    let queue = match fields.get("queue") {
        None => None,
        Some(node) => {
            let number = scalar(node, "queue")?.parse::<u32>();
            Some(number.map_err(|_| Fault::new(node.place, "`queue` is the number of a queue, from 0"))?)
        }
    };
    Ok(Rule {
        place: fields.place,
        action,
        name: fields.text("name")?.map(str::to_owned),
        comment: fields.text("comment")?.map(str::to_owned),
        log: fields.choice("log", &[("true", true), ("false", false)])?.unwrap_or(false),
        mirror,
        queue,
    })
}

impl<'a> Names<'a> {
    /// Returns the packets of a rule.
    pub fn cubes(&mut self, rule: &Fields<'a>) -> Result<Cubes, Fault> {
        let mut side = |key| match rule.get(key) {
            Some(node) => self.groups.resolve(node),
            None => Ok(None),
        };
        let (from, to) = (side("from")?, side("to")?);
        let constraints = self.constraints(rule)?;
        if constraints.max_cubes(from.as_ref(), to.as_ref()).is_none_or(|max| max > MAX_ENTRIES) {
            return Err(Fault::new(rule.place, format!("this rule alone has more than {MAX_ENTRIES} entries")));
        }
        let (from, to) = self.sides(rule, from.as_ref(), to.as_ref());
        let cubes = constraints.cubes(&from, &to);
        if cubes.once.is_empty() && cubes.replies.is_empty() {
            let what = "the rule fits no packet: its addresses, services and types contradict each other";
            return Err(Fault::new(rule.place, what));
        }
        Ok(cubes)
    }

    /// Returns the choices of both sides of a rule: with groups if these have much fewer hosts than pairs of them.
    fn sides(&self, rule: &Fields<'a>, from: Option<&Addresses>, to: Option<&Addresses>) -> (Vec<Side>, Vec<Side>) {
        if let (Some(sources), Some(targets)) = (from, to) {
            let (sources, targets) = (sources.hosts_and_blocks(), targets.hosts_and_blocks());
            let pairs = sources.host_blocks * targets.host_blocks;
            if saves(pairs, sources.count() + targets.count(), self.min_saved) {
                let name = |key| match rule.get(key).map(|node| &node.value) {
                    Some(YamlValue::Scalar(text)) => text.clone(),
                    _ => format!("{key} of line {}", rule.place.line),
                };
                return (Side::grouped(sources, &name("from")), Side::grouped(targets, &name("to")));
            }
        }
        (Side::all(from), Side::all(to))
    }

    fn constraints(&self, rule: &Fields<'a>) -> Result<Constraints, Fault> {
        let services = rule.get("service").map(|node| self.services.resolve(node)).transpose()?;
        let source_ports = match rule.get("source_ports") {
            None => Vec::new(),
            Some(node) => source_ports(node, services.as_deref())?,
        };
        let ethertype = rule.get("ethertype").map(ethertype).transpose()?;
        if services.is_some() && ethertype.is_some_and(|kind| kind != IPV4 && kind != IPV6) {
            let place = rule.get("ethertype").map_or(rule.place, |node| node.place);
            return Err(Fault::new(place, "a `service` has packets of `ethertype` ipv4 or ipv6 only"));
        }
        let vlans = each(rule, "vlan", vlan)?;
        let at = each(rule, "at", place)?;
        let replies = rule.choice("replies", &[("true", true), ("false", false)])?.unwrap_or(false);
        if let (true, Some(node)) = (replies, rule.get("at")) {
            return Err(Fault::new(node.place, "replies enter elsewhere: write a rule of its own for them"));
        }
        Ok(Constraints { services, source_ports, ethertype, vlans, at, replies })
    }
}

/// Reads each value of a key. If it is not there, `None` stands for all values.
fn each<T>(
    rule: &Fields<'_>,
    key: &str,
    read: impl Fn(FilePlace, &str) -> Result<T, Fault>,
) -> Result<Vec<Option<T>>, Fault> {
    match rule.get(key) {
        None => Ok(vec![None]),
        Some(node) => scalars(node, key)?.into_iter().map(|(place, text)| read(place, text).map(Some)).collect(),
    }
}

fn source_ports(node: &YamlNode, services: Option<&[Service]>) -> Result<Vec<(u16, u16)>, Fault> {
    let have_ports = |all: &[Service]| all.iter().all(|one| matches!(one, Service::Ports(..)));
    if !services.is_some_and(have_ports) {
        return Err(Fault::new(node.place, "`source_ports` needs a `service` of tcp, udp or sctp"));
    }
    let range = |(place, text)| ports(text).map_err(|what| Fault::new(place, what));
    scalars(node, "source_ports")?.into_iter().map(range).collect()
}

fn ethertype(node: &YamlNode) -> Result<u128, Fault> {
    let text = scalar(node, "ethertype")?;
    match text {
        "ipv4" => Ok(IPV4),
        "ipv6" => Ok(IPV6),
        "arp" => Ok(ARP),
        _ => parse_number(text).filter(|number| (0x600..=0xffff).contains(number)).ok_or_else(|| {
            let hint = did_you_mean(text, ["ipv4", "ipv6", "arp"]);
            Fault::new(node.place, format!("`ethertype` is ipv4, ipv6, arp or a number from 0x600 to 0xffff{hint}"))
        }),
    }
}

/// Reads the values of `vlan_vid`, from the first to the last.
fn vlan(place: FilePlace, text: &str) -> Result<(u128, u128), Fault> {
    match (text, parse_vlan_id(text)) {
        ("none", _) => Ok((0, 0)),
        (_, Some(id @ 1..=4094)) => Ok((VLAN_PRESENT | u128::from(id), VLAN_PRESENT | u128::from(id))),
        _ => Err(Fault::new(place, format!("`vlan` is a number from 1 to 4094 or `none`, not `{text}`"))),
    }
}

fn place(place: FilePlace, text: &str) -> Result<SwitchOrPort, Fault> {
    let what = || format!("`{text}` is not a place, such as \"1:2\" (switch and port) or \"1\"");
    SwitchOrPort::parse(text).ok_or_else(|| Fault::new(place, what()))
}
