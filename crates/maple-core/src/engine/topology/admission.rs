//! Whether a packet may enter the network, asked for an explanation.

use std::collections::BTreeSet;

use maple_wire::{Field, Packet};

use super::Topology;
use super::host_actions::with_addresses;
use super::hosts::{announcement, is_announcement};
use crate::engine::fabric::Fabric;
use crate::explain::{Admission, EnteringPacket};
use crate::network::own_frames::{is_discovery_frame, is_the_controllers};
use crate::network::{HostInfo, Mac, PROBE_MAC, PortKind, PortRole};
use crate::state::Snapshot;

impl Topology {
    /// Returns the admission of a packet that enters: the writes that it causes before f decides about it, or the
    /// reason why f does not.
    pub fn admit(&self, fabric: &Fabric, packet: &EnteringPacket) -> Admission {
        let state = fabric.ctx.store.snapshot();
        let at = packet.at;
        let refusal = |why: &str| Admission::Refused(why.to_owned());
        let headers = || Packet::with_wire_len(&packet.frame, at.port.0, packet.frame.len());
        let role = state.facts().role(at);
        match state.port(at).map(|port| (port.up, port.kind)) {
            None => refusal("the switch has no such port"),
            Some((false, _)) => refusal("the port is down"),
            Some((_, PortKind::New)) if role == PortRole::Closed => refusal("the port is declared closed"),
            Some((_, PortKind::New)) => refusal("the port came up just now: packets wait until its kind is known"),
            Some((_, PortKind::Link(to))) => {
                Admission::Refused(format!("the port leads to the switch at {to}: no packet enters the network there"))
            }
            Some((_, PortKind::Shut { with, .. })) => {
                Admission::Refused(format!("the port is shut: the hosts of its segment enter at {with}"))
            }
            Some(_) if is_discovery_frame(&headers()) => {
                refusal("it is of a type that only link discovery uses, so it ends at the controller")
            }
            Some(_) if is_the_controllers(&headers(), fabric.ctx.options.track_hosts) => {
                refusal("it is for the address from which the controller asks hosts whether they are still there")
            }
            Some((_, PortKind::Middlebox)) => Admission::Decided(Vec::new()),
            Some((_, PortKind::Edge)) if !fabric.ctx.options.track_hosts => Admission::Decided(Vec::new()),
            Some((_, PortKind::Edge)) => self.admit_sender(&state, packet),
        }
    }

    /// Checks the sender of a packet at an edge port, as the last part of [`Topology::admit`].
    fn admit_sender(&self, state: &Snapshot, packet: &EnteringPacket) -> Admission {
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
