//! Explanations in the contract: they agree with f and with the rules, their alternatives are true, and they change
//! nothing.

use maple_core::engine::Engines;
use maple_core::explain::{Alternative, EnteringPacket, PacketFate, explain};
use maple_core::network::{Location, Mac};
use maple_core::state::Cell;
use maple_sim::Delivery;
use maple_wire::eth_type::value::ARP;
use maple_wire::icmpv6_type::value::{NEIGHBOR_ADVERT, NEIGHBOR_SOLICIT};
use maple_wire::{Field, Packet};

use super::play::{Play, Sent};

/// The number of packets that are explained at each rest.
const EXPLAINED: usize = 3;

impl Play<'_> {
    /// Explains some of the packets that were sent, at rest.
    pub(super) fn check_explained(&mut self, sent: &[Sent]) -> Result<(), String> {
        // Explanations are about whole packets. A fourth of the cases is enough.
        if self.case.shape.capture.is_some() || !self.case.seed.is_multiple_of(4) {
            return Ok(());
        }
        let stats: Vec<_> = self.sim.engines().iter().map(|engine| engine.view().stats()).collect();
        for packet in sent.iter().rev().take(EXPLAINED) {
            self.check_explanation(packet)?;
        }
        let after: Vec<_> = self.sim.engines().iter().map(|engine| engine.view().stats()).collect();
        if stats == after { Ok(()) } else { Err("an explanation changed counts".into()) }
    }

    fn check_explanation(&mut self, packet: &Sent) -> Result<(), String> {
        let store = self.sim.store.clone();
        let (state, conditions) = (store.snapshot(), self.sim.engines()[0].view().conditions());
        let entering = EnteringPacket { at: packet.at, frame: packet.frame[..].into() };
        let reported = explain(&mut Engines(self.sim.engines().iter().collect()), &store, &conditions, entering);
        let error = |what: &str| Err(format!("{what}: {reported:#?}"));
        let Ok(decision) = &reported.decision else {
            return Ok(());
        };
        // The state in which f runs here lacks what is learned from the packet: of a new host, or of a new address.
        let is_host_known = |frame: &[u8], at: Location| {
            let mac = Mac::from_bits(source(frame));
            !conditions.track_hosts || state.host(mac).is_some_and(|host| host.location == at)
        };
        let is_known = is_host_known(&packet.frame, packet.at);
        let is_known = is_known && (!may_announce(&packet.frame) || !decision.reads.iter().any(is_address));
        let wanted = self.wanted_now(&packet.frame, packet.at, packet);
        let copies: Vec<Delivery> = decision.copies.iter().flatten().map(|(at, frame)| delivery(*at, frame)).collect();
        if is_known && copies != wanted {
            return error(&format!("f says {wanted:?}"));
        }
        // A full switch may have lost rules without warning.
        if reported.agrees() == Some(false) && !self.shrunk {
            return error("the switches do something else");
        }
        self.tally.explained += 1;
        self.tally.agreed += u64::from(reported.agrees() == Some(true));
        for other in &reported.alternatives {
            self.tally.alternatives += 1;
            let Alternative { packet: Some(changed), fate, .. } = other else { continue };
            // Nor does it have what is learned from another packet.
            if may_announce(&changed.frame) || !is_host_known(&changed.frame, changed.at) {
                continue;
            }
            let comes_out = !self.wanted_now(&changed.frame, changed.at, packet).is_empty();
            if comes_out != (*fate == PacketFate::Forwarded) && is_known {
                return error(&format!("not so: {other:?}"));
            }
        }
        Ok(())
    }

    /// Returns where f sends a packet in the newest state.
    fn wanted_now(&self, frame: &[u8], at: Location, like: &Sent) -> Vec<Delivery> {
        let packet = Sent { frame: frame.to_vec(), at, ..*like };
        self.expected(&*self.policy, &packet, frame.len(), &self.sim.store.snapshot()).0
    }
}

fn delivery(at: Location, frame: &[u8]) -> Delivery {
    Delivery { at, frame: frame.to_vec() }
}

/// Reports whether a frame may announce an address of its sender.
fn may_announce(frame: &[u8]) -> bool {
    let packet = Packet::new(frame, 0);
    let is = |field, value| packet.switch_value(field) == Some(value);
    is(Field::EthType, ARP)
        || [NEIGHBOR_SOLICIT, NEIGHBOR_ADVERT].into_iter().any(|kind| is(Field::Icmpv6Type, kind))
        || is(Field::UdpSrc, 68)
}

fn is_address(cell: &Cell) -> bool {
    matches!(cell, Cell::HostByIp(_))
}

fn source(frame: &[u8]) -> u128 {
    Packet::new(frame, 0).switch_value(Field::EthSrc).unwrap_or_default()
}
