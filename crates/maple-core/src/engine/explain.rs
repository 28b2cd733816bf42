//! Answers the questions of explanations (`crate::explain`). Nothing here changes the engine: no message is sent, no
//! leaf is used, and no count grows.

use std::collections::BTreeSet;
use std::sync::Arc;

use maple_wire::{Dpid, Field, Packet, Version};

use super::classifier::{is_discovery_frame, is_the_controllers};
use super::decisions::Decisions;
use super::fabric::Fabric;
use super::host_actions::with_addresses;
use super::hosts::{PROBE_MAC, announcement, is_announcement};
use super::leaf::{Leaf, LeafState};
use super::received_packet::ReceivedPacket;
use super::switch::Switch;
use super::topology::Topology;
use super::{Engine, TableRule};
use crate::explain::{Admission, Entering, LeafView, Network, Passage, PassedRule, TableRules};
use crate::ids::LeafId;
use crate::network::{HostInfo, Location, Mac, PortKind, PortRole};
use crate::policy::Policy;
use crate::rule::Rule;
use crate::state::Snapshot;
use crate::trace::show;

impl Topology {
    /// Returns whether f decides about a packet that enters: either the writes that the packet causes first, or the
    /// reason why not.
    pub(super) fn admit(&self, fabric: &Fabric, packet: &Entering) -> Admission {
        let (state, at) = (fabric.ctx.store.snapshot(), packet.at);
        let refused = |why: &str| Admission::Refused(why.to_owned());
        let headers = || Packet::with_wire_len(&packet.frame, at.port.0, packet.frame.len());
        let role = state.facts().role(at);
        match state.port(at).map(|port| (port.up, port.kind)) {
            None => refused("the switch has no such port"),
            Some((false, _)) => refused("the port is down"),
            Some((_, PortKind::New)) if role == PortRole::Closed => refused("the port is declared closed"),
            Some((_, PortKind::New)) => refused("the port came up just now: packets wait until its kind is known"),
            Some((_, PortKind::Link(to))) => {
                Admission::Refused(format!("the port leads to the switch at {to}: no packet enters the network there"))
            }
            Some((_, PortKind::Shared { with, .. })) => {
                Admission::Refused(format!("the port is shut: the hosts of its segment enter at {with}"))
            }
            Some(_) if is_discovery_frame(&headers()) => {
                refused("it is of a type that only link discovery uses, so it ends at the controller")
            }
            Some(_) if is_the_controllers(&headers(), fabric.ctx.options.track_hosts) => {
                refused("it is for the address from which the controller asks hosts whether they are still there")
            }
            Some((_, PortKind::Middlebox)) => Admission::Decided(Vec::new()),
            Some((_, PortKind::Edge)) if !fabric.ctx.options.track_hosts => Admission::Decided(Vec::new()),
            Some((_, PortKind::Edge)) => self.admit_sender(&state, packet),
        }
    }

    /// Checks the sender of a packet at an edge port, as the last part of [`Topology::admit`].
    fn admit_sender(&self, state: &Snapshot, packet: &Entering) -> Admission {
        let at = packet.at;
        let headers = Packet::with_wire_len(&packet.frame, at.port.0, packet.frame.len());
        let mac = Mac::from_bits(headers.switch_value(Field::EthSrc).unwrap_or_default());
        if mac == PROBE_MAC {
            return Admission::Refused("it has the address that the controller uses to look for hosts".into());
        }
        if !mac.is_host() {
            return Admission::Decided(Vec::new());
        }
        let facts = state.facts();
        if let Some(place) = facts.place(mac).filter(|place| *place != at) {
            return Admission::Refused(format!("{mac} is declared to be at {place}, and is accepted nowhere else"));
        }
        let announced = if is_announcement(&headers) { announcement(&headers) } else { None };
        let announced = announced.filter(|ip| facts.owner(*ip).is_none_or(|owner| owner == mac));
        match state.host(mac) {
            Some(host) if host.location != at => Admission::Refused(format!(
                "{mac} is at {}: its packets are dropped here unless it has moved, which the controller finds out",
                host.location
            )),
            Some(host) => {
                let news = announced.filter(|ip| state.host_by_ip(*ip) != Some(mac));
                let learned = news.map(|ip| with_addresses(state, mac, host.clone(), &[ip]));
                Admission::Decided(learned.unwrap_or_default())
            }
            None if !self.hosts.has_room(mac, at) => {
                Admission::Refused("too many hosts are at the port or at the switch".into())
            }
            None => {
                let info = HostInfo { location: at, ipv4: BTreeSet::new(), ipv6: BTreeSet::new() };
                let addresses: Vec<_> = announced.into_iter().chain(facts.addresses(mac)).collect();
                Admission::Decided(with_addresses(state, mac, info, &addresses))
            }
        }
    }
}

impl Decisions {
    /// The leaf that answers a packet, if there is one.
    pub(super) fn leaf_view(&self, fabric: &Fabric, packet: &Entering) -> Option<LeafView> {
        let Entering { at, frame } = packet;
        let received = ReceivedPacket {
            frame: Arc::clone(frame),
            total_len: frame.len(),
            buffer_id: maple_wire::msg::NO_BUFFER,
            at: *at,
        };
        let id = fabric.switches.lookup(&received)?;
        let leaf = self.leaves.get(&id)?;
        let specialised_to = leaf.specialisation.iter().map(show).collect();
        Some(LeafView { id, under_way: self.under_way(fabric, id, leaf), specialised_to })
    }

    /// The progress of a leaf's installation, in words. `None` if the switch has confirmed it.
    fn under_way(&self, fabric: &Fabric, id: LeafId, leaf: &Leaf) -> Option<String> {
        if !fabric.ctx.store.is_current(id) {
            return Some("something that it depends on has changed, and it is being decided again".into());
        }
        let text = match &leaf.state {
            LeafState::Waiting { by_controller: false, .. } => "the rules of its route are being installed",
            LeafState::Waiting { by_controller: true, .. } => {
                "the rules of its route are being installed; the controller forwards its packets meanwhile"
            }
            LeafState::Rerouting(_) => "its route is changing to another one",
            LeafState::NoCapacity { .. } => {
                "the switch has no room for its rule, so the controller answers its packets"
            }
            LeafState::ByController => "no rule can do that, so the controller answers its packets",
            LeafState::Active => {
                let switch = fabric.switches.get(&leaf.ingress())?;
                if switch.tables.has_confirmed_all() && !fabric.ctx.dirty.contains(&switch.dpid) {
                    return None;
                }
                "the switch has not confirmed its latest changes"
            }
        };
        Some(text.to_owned())
    }

    /// The witness packet of a leaf: f ran on it.
    pub(super) fn witness(&self, leaf: LeafId) -> Option<Entering> {
        let witness = &self.leaves.get(&leaf)?.witness;
        Some(Entering { at: witness.at, frame: Arc::clone(&witness.frame) })
    }

    /// Passes a frame that comes in by a port through the rules that the switch has. `None` if this shard does not
    /// serve the switch.
    pub(super) fn passage(&self, fabric: &Fabric, at: Location, frame: &[u8]) -> Option<Passage> {
        let switch = fabric.switches.get(&at.switch)?;
        Some(Passage::through(&SwitchRules { decisions: self, fabric, switch }, at.port, frame))
    }
}

/// The rules of a switch: ours, and the foreign ones that the last audit saw.
struct SwitchRules<'a> {
    decisions: &'a Decisions,
    fabric: &'a Fabric,
    switch: &'a Switch,
}

impl TableRules for SwitchRules<'_> {
    fn version(&self) -> Version {
        self.switch.version()
    }

    fn find(&self, table: u8, value: &dyn Fn(Field) -> Option<u128>) -> Option<PassedRule> {
        let ours = self.switch.tables.find(table, value);
        let foreign = self
            .switch
            .counters
            .audits
            .foreign()
            .iter()
            .filter(|(of, rule)| *of == table && rule.matching.holds(value));
        let foreign = foreign.map(|(_, rule)| rule).max_by_key(|rule| rule.priority);
        let is_higher = |foreign: &&Rule| ours.as_ref().is_none_or(|ours| foreign.priority >= ours.priority);
        if let Some(rule) = foreign.filter(is_higher) {
            let why = "a rule of others".to_owned();
            return Some(PassedRule { table, rule: rule.clone(), why, leaf: None, is_foreign: true });
        }
        let TableRule { rule, leaf, why, .. } = self.decisions.table_rule(self.fabric, self.switch, table, ours?);
        Some(PassedRule { table, rule, why, leaf, is_foreign: false })
    }
}

/// All engines of a controller at rest, as a network that packets enter.
pub struct Engines<'a>(pub Vec<&'a Engine>);

impl Engines<'_> {
    fn of(&self, dpid: Dpid) -> Option<&Engine> {
        self.0.iter().copied().find(|engine| engine.fabric.switches.contains_key(&dpid))
    }
}

impl Network for Engines<'_> {
    fn policy(&mut self, at: Location) -> Option<Arc<dyn Policy>> {
        self.of(at.switch).map(|engine| Arc::clone(&engine.decisions.policy))
    }

    fn admit(&mut self, packet: &Entering) -> Admission {
        let refused = || Admission::Refused("the switch is not connected".into());
        self.of(packet.at.switch).map_or_else(refused, |engine| engine.admit(packet))
    }

    fn leaf(&mut self, packet: &Entering) -> Option<LeafView> {
        self.of(packet.at.switch)?.leaf_view(packet)
    }

    fn pass(&mut self, at: Location, frame: &[u8]) -> Option<Passage> {
        self.of(at.switch)?.passage(at, frame)
    }
}
