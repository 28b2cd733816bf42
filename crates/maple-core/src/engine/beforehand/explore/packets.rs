//! Packets that known hosts could send and that give f certain answers.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use maple_wire::{Constraint, Field, PortNo};

use crate::check::{Headers, Sample, failing, fitting};
use crate::engine::messages::received_packet::ReceivedPacket;
use crate::engine::one_switch::Switch;
use crate::engine::one_switch::look_up_tables::WithMetadata;
use crate::look_ups::{KeyBits, KeyRules, SOURCE_IS_HERE};
use crate::network::{Location, Mac, PortKind};
use crate::state::Snapshot;
use crate::trace::{Cond, Fields, Item};

/// The number of changes of a packet that are tried for an answer, and of values that no key has. Chosen: each costs a
/// walk through the tree, and they are made for the answer, so few are needed.
const MAX_TRIES: usize = 8;
/// A hardware address, an IPv4 and an IPv6 address that are for documentation (RFC 7042 §2.1.2, RFC 5737, RFC 3849).
const SPARE_MAC: u128 = 0x0000_5e00_5300;
const SPARE_IPV4: u128 = 0xc633_6401;
const SPARE_IPV6: u128 = 0x2001_0db8 << 96 | 1;

/// The packets that can enter at a switch.
pub(super) struct Packets<'a> {
    switch: &'a Switch,
    state: &'a Snapshot,
    tracks_hosts: bool,
    /// The ports by which they enter: where hosts are, if these are tracked.
    ports: BTreeSet<PortNo>,
    /// The classes that were asked for, by the bits of the metadata.
    classes: RefCell<BTreeMap<u64, Rc<ClassKeys>>>,
}

/// ClassKeys of a look-up, each with keys that have it: by the bits of the metadata that all look-ups of the same
/// fields write for a key, the first one.
type ClassKeys = BTreeMap<u64, BTreeMap<u64, KeyBits>>;

impl<'a> Packets<'a> {
    /// Creates the packets that known hosts can send at a switch; without host tracking, those that any edge port can
    /// get.
    pub fn new(switch: &'a Switch, state: &'a Snapshot, tracks_hosts: bool) -> Packets<'a> {
        let is_edge = |at: Location| state.port(at).is_some_and(|port| port.up && port.kind == PortKind::Edge);
        let with_hosts = switch.ports.host_rules.present().map(|(port, _)| port);
        let all = state.ports_of(switch.dpid()).map(|(port, _)| port);
        let ports: BTreeSet<PortNo> = if tracks_hosts { with_hosts.collect() } else { all.collect() };
        let ports = ports.into_iter().filter(|port| is_edge(Location::new(switch.dpid(), *port))).collect();
        Packets { switch, state, tracks_hosts, ports, classes: RefCell::default() }
    }

    /// Returns the ports by which packets enter.
    pub fn ports(&self) -> &BTreeSet<PortNo> {
        &self.ports
    }

    /// Returns the packet with which the exploration of an empty tree begins.
    pub fn first(&self) -> Option<Sample> {
        let port = *self.ports.first()?;
        let headers = Headers::from([(Field::EthType, 0x800), (Field::EthDst, SPARE_MAC), (Field::IpProto, 6)]);
        let frame = maple_wire::packet::build::frame_of(&headers).into();
        self.enter(Sample { at: Location::new(self.switch.dpid(), port), frame }, &Headers::new())
    }

    /// Reports whether a packet of a known host may fit a condition, as far as its source and port say.
    pub fn may_fit(&self, cond: &Cond) -> bool {
        let exact = |field| cond.constraints.iter().find(|of| of.field == field && of.is_exact()).map(|of| of.value);
        let is_here = |mac: u128| {
            let host = self.state.host(Mac::from_bits(mac));
            host.is_some_and(|host| host.location.switch == self.switch.dpid())
        };
        let may_come_in = exact(Field::InPort).is_none_or(|port| self.ports.contains(&PortNo(port as u32)));
        may_come_in && (!self.tracks_hosts || exact(Field::EthSrc).is_none_or(is_here))
    }

    /// Changes a packet until it gives these answers, and is one that can enter. `None` if that is not found.
    pub fn fit(&self, packet: Sample, items: &[Item]) -> Option<Sample> {
        let mut packet = self.enter(packet, &Headers::new())?;
        for (index, item) in items.iter().enumerate() {
            if self.gives(&packet, std::slice::from_ref(item)) {
                continue;
            }
            let changed = self.changes(&packet, &items[..index], item).into_iter();
            let changed = changed.filter_map(|changes| self.enter(packet.with(&changes), &changes));
            packet = changed.take(MAX_TRIES).find(|packet| self.gives(packet, &items[..=index]))?;
        }
        Some(packet)
    }

    /// Reports whether a packet gives these answers.
    fn gives(&self, packet: &Sample, items: &[Item]) -> bool {
        let fields = packet.packet();
        let Some(metadata) = self.metadata(packet) else { return false };
        let with_metadata = WithMetadata { packet: &fields, metadata };
        items.iter().all(|item| item.holds(&with_metadata))
    }

    /// Returns what look-ups find for a packet.
    fn metadata(&self, packet: &Sample) -> Option<u64> {
        let is_here = self.switch.ports.host_rules.is_present(packet.at.port, source(packet));
        self.switch.ingress.look_ups.metadata(&packet.packet(), is_here)
    }

    /// Returns changes of a packet each of which may make it give an answer, besides those that it gives already.
    fn changes(&self, packet: &Sample, given: &[Item], item: &Item) -> Vec<Headers> {
        match item {
            Item::Test { cond, outcome: true } => fitting(cond, &packet.headers()),
            Item::Test { cond, outcome: false } => failing(cond, &packet.headers()),
            Item::Read(Constraint { field: Field::Metadata, value, mask }) => {
                self.keys(given, *mask as u64, *value as u64)
            }
            Item::Read(Constraint { field, value, mask }) => {
                let old = packet.packet().get(*field).unwrap_or_default();
                vec![Headers::from([(*field, old & !mask | value)])]
            }
        }
    }

    /// Reports whether a packet that has given these answers may have a class, as far as what it has found by the same
    /// look-up says: a key that is there has a value.
    pub fn may_also_have(&self, given: &[Item], mask: u64, class: u64) -> bool {
        let Some(rules) = self.look_up(mask) else { return true };
        let of_look_up = |item: &Item| match item {
            Item::Read(Constraint { field: Field::Metadata, value, mask }) => {
                Some((*mask as u64, *value as u64)).filter(|(mask, _)| mask & rules.mask() != 0)
            }
            _ => None,
        };
        let found: Vec<(u64, u64)> = given.iter().filter_map(of_look_up).chain([(mask, class)]).collect();
        let fits = |bits: u64| found.iter().all(|(mask, value)| bits & mask == *value);
        found.len() == 1 || fits(0) || rules.classes().any(fits)
    }

    /// Returns the fields of keys that have a class, and of other look-ups of the same fields those that were given.
    fn keys(&self, given: &[Item], mask: u64, class: u64) -> Vec<Headers> {
        let Some(rules) = self.look_up(mask) else { return Vec::new() };
        let of_same_fields = self.of_same_fields(rules).fold(0, |all, of| all | of.mask());
        let is_given = |bits: u64| {
            given.iter().all(|item| match item {
                Item::Read(Constraint { field: Field::Metadata, value, mask }) => {
                    (bits ^ *value as u64) & *mask as u64 & of_same_fields == 0
                }
                _ => true,
            })
        };
        let classes = self.classes(rules, mask);
        let keys = classes.get(&class).into_iter().flatten().filter(|(bits, _)| is_given(**bits)).map(|(_, key)| key);
        let absent = if class == 0 { self.absent(rules) } else { Vec::new() };
        let fields = |key: &KeyBits| rules.look_up().fields().zip(key.iter().copied()).collect();
        keys.chain(&absent).map(fields).collect()
    }

    /// Returns the look-ups that have the same keys' fields as one, and that one.
    fn of_same_fields(&self, rules: &KeyRules) -> impl Iterator<Item = &'a KeyRules> {
        let is_same = move |other: &&KeyRules| other.look_up().fields().eq(rules.look_up().fields());
        self.switch.ingress.look_ups.key_rules().filter(is_same)
    }

    /// Returns the look-up that writes these bits of the metadata.
    fn look_up(&self, mask: u64) -> Option<&'a KeyRules> {
        self.switch.ingress.look_ups.key_rules().find(|rules| rules.mask() & mask == mask)
    }

    /// Returns the classes that packets can have in these bits of the metadata. That no key is there is among them
    /// unless the packet's source and port decide it, and all of these are keys.
    pub fn possible_classes(&self, mask: u64) -> Vec<u64> {
        if mask == SOURCE_IS_HERE {
            return if self.tracks_hosts && !self.ports.is_empty() { vec![mask] } else { Vec::new() };
        }
        let Some(rules) = self.look_up(mask) else { return Vec::new() };
        let is_of_source = rules.look_up().fields().all(|field| matches!(field, Field::EthSrc | Field::InPort));
        let may_be_absent = !(is_of_source && self.tracks_hosts && self.absent(rules).is_empty());
        let absent = Some(0).filter(|_| may_be_absent);
        absent.into_iter().chain(self.classes(rules, mask).keys().copied().filter(|class| *class != 0)).collect()
    }

    /// Returns the classes of keys that packets can have.
    fn classes(&self, rules: &KeyRules, mask: u64) -> Rc<ClassKeys> {
        Rc::clone(self.classes.borrow_mut().entry(mask).or_insert_with(|| Rc::new(self.find_classes(rules, mask))))
    }

    fn find_classes(&self, rules: &KeyRules, mask: u64) -> ClassKeys {
        let same: Vec<&KeyRules> = self.of_same_fields(rules).collect();
        let mut all = ClassKeys::new();
        for (key, _) in same.iter().flat_map(|of| of.classified()).filter(|(key, _)| self.can_have(rules, key)) {
            // While the controller decides about packets with a key, they have no class.
            let Some(bits) = same.iter().try_fold(0, |all, of| Some(all | of.class_of(key)?)) else { continue };
            let first = all.entry(bits & mask).or_default().entry(bits).or_insert_with(|| key.clone());
            if key < first {
                first.clone_from(key);
            }
        }
        all
    }

    /// Reports whether a packet that enters can have a key: if the key has the packet's source, that host is here.
    fn can_have(&self, rules: &KeyRules, key: &KeyBits) -> bool {
        rules.look_up().fields().zip(key.iter()).all(|(field, bits)| match field {
            Field::EthSrc if self.tracks_hosts => {
                self.state.host(Mac::from_bits(*bits)).is_some_and(|host| host.location.switch == self.switch.dpid())
            }
            Field::InPort => self.ports.contains(&PortNo(*bits as u32)),
            _ => true,
        })
    }

    /// Returns a key that packets can have and the table has not, if one is found.
    fn absent(&self, rules: &KeyRules) -> Vec<KeyBits> {
        let is_of_source = rules.look_up().fields().any(|field| matches!(field, Field::EthSrc | Field::InPort));
        let sources: Vec<(u128, u128)> = if self.tracks_hosts {
            let present = self.switch.ports.host_rules.present();
            present.map(|(port, mac)| (u128::from(port.0), mac.bits())).collect()
        } else {
            self.ports.iter().enumerate().map(|(at, port)| (u128::from(port.0), SPARE_MAC + at as u128)).collect()
        };
        let tries = if is_of_source { sources.len() } else { MAX_TRIES };
        let part = |number: usize| {
            let sources = &sources;
            move |field: Field| match field {
                Field::InPort => sources.get(number).map(|(port, _)| *port),
                Field::EthSrc => sources.get(number).map(|(_, mac)| *mac),
                Field::EthDst | Field::ArpSha | Field::ArpTha => Some(SPARE_MAC + (number % MAX_TRIES) as u128),
                Field::Ipv4Src | Field::Ipv4Dst | Field::ArpSpa | Field::ArpTpa => {
                    Some(SPARE_IPV4 + (number % MAX_TRIES) as u128)
                }
                Field::Ipv6Src | Field::Ipv6Dst | Field::Ipv6NdTarget => {
                    Some(SPARE_IPV6 + (number % MAX_TRIES) as u128)
                }
                other => other.full_mask().checked_sub((number % MAX_TRIES) as u128),
            }
        };
        let key = |number| rules.look_up().fields().map(part(number)).collect::<Option<KeyBits>>();
        (0..tries).filter_map(key).find(|key| !rules.has(key)).into_iter().collect()
    }

    /// Lets a packet enter where its source is, after these fields were changed. If its port was changed, its source
    /// becomes a host there. `None` if there is no such port or host.
    fn enter(&self, packet: Sample, changed: &Headers) -> Option<Sample> {
        let at = Location::new(self.switch.dpid(), packet.at.port);
        let packet = Sample { at, ..packet };
        let is_port = |port: &PortNo| self.ports.contains(port);
        if !self.tracks_hosts {
            let port = if is_port(&at.port) { at.port } else { self.ports.first().copied()? };
            let is_wanted = port == at.port || !changed.contains_key(&Field::InPort);
            return is_wanted.then_some(Sample { at: Location::new(at.switch, port), ..packet });
        }
        let hosts = &self.switch.ports.host_rules;
        if is_port(&at.port) && hosts.is_present(at.port, source(&packet)) {
            return Some(packet);
        }
        let place = self.state.host(source(&packet)).map(|host| host.location);
        let place = place.filter(|place| place.switch == at.switch && is_port(&place.port));
        if let Some(place) = place.filter(|_| !changed.contains_key(&Field::InPort)) {
            return Some(Sample { at: place, ..packet });
        }
        if changed.contains_key(&Field::EthSrc) {
            return None;
        }
        let wanted = changed.contains_key(&Field::InPort).then_some(at.port);
        let (port, host) =
            hosts.present().find(|(port, _)| wanted.is_none_or(|wanted| wanted == *port) && is_port(port))?;
        let packet = packet.with(&Headers::from([(Field::EthSrc, host.bits())]));
        Some(Sample { at: Location::new(at.switch, port), ..packet })
    }
}

/// Returns the packet as if a switch had sent it.
pub(super) fn received(packet: Sample) -> ReceivedPacket {
    ReceivedPacket::made_up(&packet.frame, packet.at)
}

fn source(packet: &Sample) -> Mac {
    Mac::from_bits(packet.packet().value(Field::EthSrc).unwrap_or_default())
}
