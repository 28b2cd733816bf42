//! Addresses: sets of IPv4, IPv6 and Ethernet addresses, and their groups by name.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

use maple_core::Mac;
use rustc_hash::FxHashMap;

use crate::cube::blocks;
use crate::error::{Fault, did_you_mean};
use crate::yaml::{YamlKey, YamlNode, YamlValue};

/// The maximum nesting depth of groups. Resolving them recurses, so this bounds the stack.
const MAX_DEPTH: usize = 64;

/// The maximum number of addresses of a block that counts as hosts. Chosen: a group of hosts with adjacent addresses is
/// one of hosts, and a subnet is not.
const MAX_HOSTS: u128 = 16;

/// The kind of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AddressKind {
    V4,
    V6,
    Mac,
}

/// A set of addresses: disjoint intervals in ascending order, which are not adjacent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Addresses(Vec<(AddressKind, u128, u128)>);

/// A set of addresses, in two parts: hosts one by one, and larger blocks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostsAndBlocks {
    /// The addresses of hosts, ascending.
    pub hosts: BTreeMap<AddressKind, Vec<u128>>,
    /// The number of blocks that these addresses form.
    pub host_blocks: usize,
    /// The larger blocks.
    pub blocks: Vec<(AddressKind, u128, u128)>,
}

/// The groups of a file.
#[derive(Debug, Default)]
pub struct Groups<'a> {
    written: FxHashMap<&'a str, &'a YamlNode>,
    known: FxHashMap<&'a str, Addresses>,
}

impl Addresses {
    /// Sorts collected intervals, and joins those that are adjacent or overlap.
    fn merge(&mut self) {
        self.0.sort_unstable();
        let mut merged: Vec<(AddressKind, u128, u128)> = Vec::with_capacity(self.0.len());
        for &(kind, lo, hi) in &self.0 {
            match merged.last_mut() {
                Some(last) if last.0 == kind && lo <= last.2.saturating_add(1) => last.2 = last.2.max(hi),
                _ => merged.push((kind, lo, hi)),
            }
        }
        self.0 = merged;
    }

    fn remove(&mut self, other: &Addresses) {
        for &(kind, out_lo, out_hi) in &other.0 {
            let cut = |&(there, lo, hi): &(AddressKind, u128, u128)| {
                if there != kind || hi < out_lo || out_hi < lo {
                    return [Some((there, lo, hi)), None];
                }
                [(lo < out_lo).then(|| (there, lo, out_lo - 1)), (out_hi < hi).then(|| (there, out_hi + 1, hi))]
            };
            self.0 = self.0.iter().flat_map(cut).flatten().collect();
        }
    }

    /// Returns the set as prefixes: aligned blocks, as few as possible.
    pub fn blocks(&self) -> Vec<(AddressKind, u128, u128)> {
        let all = self.0.iter().flat_map(|&(kind, lo, hi)| blocks(lo, hi).map(move |(lo, hi)| (kind, lo, hi)));
        all.collect()
    }

    /// Divides the set into hosts and larger blocks.
    pub fn hosts_and_blocks(&self) -> HostsAndBlocks {
        let mut all = HostsAndBlocks::default();
        for (kind, lo, hi) in self.blocks() {
            if hi - lo < MAX_HOSTS {
                all.hosts.entry(kind).or_default().extend(lo..=hi);
                all.host_blocks += 1;
            } else {
                all.blocks.push((kind, lo, hi));
            }
        }
        all
    }
}

impl HostsAndBlocks {
    /// Returns the number of hosts.
    pub fn count(&self) -> usize {
        self.hosts.values().map(Vec::len).sum()
    }
}

impl<'a> Groups<'a> {
    /// Reads a `groups:` section.
    ///
    /// # Errors
    /// [`Fault`] if a group's name is an address, `any` or starts with `!`, or if a group does not resolve.
    pub fn from_section(section: &'a [(YamlKey, YamlNode)]) -> Result<Groups<'a>, Fault> {
        for (key, _) in section {
            if parse_address(&key.name).is_some() || key.name == "any" || key.name.starts_with('!') {
                return Err(Fault::new(key.place, format!("a group can't be called `{}`", key.name)));
            }
        }
        let written = section.iter().map(|(key, node)| (&*key.name, node)).collect();
        let mut groups = Groups { written, known: FxHashMap::default() };
        for (key, node) in section {
            let addresses = groups.within(node, &mut vec![&key.name])?;
            groups.known.insert(&key.name, addresses);
        }
        Ok(groups)
    }

    /// Returns the addresses that a value names; `None` if it is `any`.
    ///
    /// # Errors
    /// [`Fault`] if the value names an unknown group or no address, or if groups contain themselves.
    pub fn resolve(&mut self, node: &'a YamlNode) -> Result<Option<Addresses>, Fault> {
        if matches!(&node.value, YamlValue::Scalar(text) if text == "any") {
            return Ok(None);
        }
        self.within(node, &mut Vec::new()).map(Some)
    }

    /// Returns the addresses of a word, which is a group's name or an address.
    ///
    /// # Errors
    /// A text that says what is wrong if the word is neither, or an invalid address.
    pub fn word(&self, text: &str) -> Result<Addresses, String> {
        match (parse_address(text), self.known.get(text)) {
            (Some(parsed), _) => parsed,
            (None, Some(known)) => Ok(known.clone()),
            (None, None) => Err(self.unknown(text)),
        }
    }

    fn unknown(&self, text: &str) -> String {
        if text == "any" {
            return "`any` stands alone; among other addresses write 0.0.0.0/0 and ::/0".to_owned();
        }
        format!("`{text}` is neither an address nor a group{}", did_you_mean(text, self.written.keys().copied()))
    }

    fn within(&mut self, node: &'a YamlNode, inside: &mut Vec<&'a str>) -> Result<Addresses, Fault> {
        let members = match &node.value {
            YamlValue::List(list) => list.iter().collect(),
            YamlValue::Scalar(_) => vec![node],
            YamlValue::Map(_) => return Err(Fault::new(node.place, "addresses are a list or one address, not a map")),
        };
        let (mut all, mut out) = (Addresses::default(), Addresses::default());
        for member in members {
            let YamlValue::Scalar(text) = &member.value else {
                return Err(Fault::new(member.place, "an address is plain text, such as `10.0.0.0/8`"));
            };
            match text.strip_prefix('!') {
                Some(text) => out.0.extend(self.member(text.trim(), member, inside)?.0),
                None => all.0.extend(self.member(text, member, inside)?.0),
            }
        }
        all.merge();
        out.merge();
        all.remove(&out);
        match (all.0.is_empty(), out.0.is_empty()) {
            (true, true) => Err(Fault::new(node.place, "this names no address at all")),
            (true, false) => {
                let what = "this names no address at all: `!x` takes x out of the others, such as [0.0.0.0/0, '!x']";
                Err(Fault::new(node.place, what))
            }
            (false, _) => Ok(all),
        }
    }

    fn member(&mut self, text: &'a str, node: &YamlNode, inside: &mut Vec<&'a str>) -> Result<Addresses, Fault> {
        if let Some(parsed) = parse_address(text) {
            return parsed.map_err(|what| Fault::new(node.place, what));
        }
        if let Some(known) = self.known.get(text) {
            return Ok(known.clone());
        }
        let Some(written) = self.written.get(text).copied() else {
            return Err(Fault::new(node.place, self.unknown(text)));
        };
        if inside.len() >= MAX_DEPTH {
            return Err(Fault::new(node.place, format!("groups are nested more than {MAX_DEPTH} deep")));
        }
        if inside.contains(&text) {
            return Err(Fault::new(
                node.place,
                format!("group `{text}` contains itself: {} → {text}", inside.join(" → ")),
            ));
        }
        inside.push(text);
        let addresses = self.within(written, inside)?;
        inside.pop();
        self.known.insert(text, addresses.clone());
        Ok(addresses)
    }
}

/// Parses an address, a prefix, or a range `A-B`. `None` if the text looks like none of them.
fn parse_address(text: &str) -> Option<Result<Addresses, String>> {
    let one = |kind, lo, hi| Addresses(vec![(kind, lo, hi)]);
    if let Ok(mac) = text.parse::<Mac>() {
        return Some(Ok(one(AddressKind::Mac, mac.bits(), mac.bits())));
    }
    if let Some((lo, hi)) = text.split_once('-')
        && let (Some(lo), Some(hi)) = (ip(lo.trim()), ip(hi.trim()))
    {
        return Some(if lo.0 == hi.0 && lo.1 <= hi.1 {
            Ok(one(lo.0, lo.1, hi.1))
        } else {
            Err(format!("`{text}` is not a range of addresses: the first must not be above the last"))
        });
    }
    let Some((address, length)) = text.split_once('/') else {
        return ip(text).map(|(kind, value)| Ok(one(kind, value, value)));
    };
    let (kind, value) = ip(address)?;
    let bits = if kind == AddressKind::V4 { 32 } else { 128 };
    let Some(length) = length.parse::<u32>().ok().filter(|length| *length <= bits) else {
        return Some(Err(format!("`{text}` must end with a length from /0 to /{bits}")));
    };
    let all = if bits == 128 { u128::MAX } else { u128::from(u32::MAX) };
    let host = all.checked_shr(length).unwrap_or(0);
    let first = value & !host & all;
    if first != value {
        return Some(Err(format!(
            "`{text}` has bits after its length; did you mean `{}/{length}`?",
            show(kind, first)
        )));
    }
    Some(Ok(one(kind, value, value | host)))
}

fn ip(text: &str) -> Option<(AddressKind, u128)> {
    let v4 = text.parse::<Ipv4Addr>().map(|ip| (AddressKind::V4, u128::from(u32::from(ip))));
    v4.or_else(|_| text.parse::<Ipv6Addr>().map(|ip| (AddressKind::V6, u128::from(ip)))).ok()
}

fn show(kind: AddressKind, value: u128) -> String {
    match kind {
        AddressKind::V4 => Ipv4Addr::from(value as u32).to_string(),
        AddressKind::V6 => Ipv6Addr::from(value).to_string(),
        AddressKind::Mac => Mac::from_bits(value).to_string(),
    }
}

impl fmt::Display for Addresses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let one = |&(kind, lo, hi): &(AddressKind, u128, u128)| {
            if lo == hi { show(kind, lo) } else { format!("{}-{}", show(kind, lo), show(kind, hi)) }
        };
        f.write_str(&self.0.iter().map(one).collect::<Vec<_>>().join(", "))
    }
}
