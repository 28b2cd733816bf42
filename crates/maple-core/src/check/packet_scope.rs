//! The packets that a question is about, and a policy that decides only those.
//!
//! # What
//!
//! A [`PacketScope`] defines the senders, the receivers and the headers. A [`Scoped`] policy first asks the packet, by
//! tests, whether it belongs to the scope, and drops all others. So the tree of traces begins with these tests. If the
//! tree is complete, the observations hold for all packets of the scope.
//!
//! The receivers' addresses are tested one by one before the policy runs. Where such a test holds, the address is
//! known, and a policy that reads the whole address learns nothing new. So its read leaves no value untried.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use maple_wire::eth_type::value::{ARP, IPV4, IPV6};
use maple_wire::{Constraint, Dpid, Field};

use super::Host;
use super::sample_packets::Sample;
use crate::network::Mac;
use crate::policy::{Net, PacketHandle, Policy, PolicyError};
use crate::route::Route;
use crate::run::Observe;
use crate::trace::Cond;

/// The packets that a question is about.
#[derive(Clone, Debug, Default)]
pub struct PacketScope {
    /// The senders: packets enter at these hosts' ports. See `by_address` for their source addresses.
    pub senders: Vec<Host>,
    /// Whether packets must also have their sender's hardware address.
    pub by_address: bool,
    /// The hosts to whose hardware addresses packets go; `None` for all packets.
    pub receivers: Option<Vec<Host>>,
    /// Whether packets with IP addresses have those of their sender and receiver.
    pub is_addressed: bool,
    /// The condition that packets fit.
    pub only: Cond,
    /// The conditions that packets do not fit.
    pub except: Vec<Cond>,
    /// The hardware addresses that are asked for before the policy runs.
    pub destinations: Vec<Mac>,
}

/// A packet that the scope tests: in a run, which records the tests, or by itself.
trait Asked {
    /// Returns the switch where the packet enters. This is not a question, because it is the same for all packets of a
    /// tree.
    fn switch(&self) -> Dpid;
    fn fits(&self, cond: &Cond) -> bool;
}

impl Asked for PacketHandle {
    fn switch(&self) -> Dpid {
        self.ingress()
    }

    fn fits(&self, cond: &Cond) -> bool {
        cond.is_always() || Observe::fits(self, cond, None)
    }
}

impl Asked for Sample {
    fn switch(&self) -> Dpid {
        self.at.switch
    }

    fn fits(&self, cond: &Cond) -> bool {
        cond.holds(&self.packet())
    }
}

fn exact(field: Field, value: u128) -> Cond {
    Cond::default().and(Constraint::exact(field, value))
}

impl PacketScope {
    /// Reports whether a packet belongs to the scope.
    pub fn holds(&self, sample: &Sample) -> bool {
        self.asks(sample)
    }

    /// Returns the last test for a sender at each switch: a packet that fails it is out of the scope.
    pub(super) fn last_tests(&self) -> BTreeSet<(Dpid, Cond)> {
        let tests = self.senders.iter().map(|host| (host.1.location.switch, self.sends(host)));
        tests.collect::<BTreeMap<Dpid, Cond>>().into_iter().collect()
    }

    /// Returns the receiver that the packet's destination address names.
    pub fn receiver(&self, sample: &Sample) -> Option<&Host> {
        let dst = sample.packet().get(Field::EthDst).map(Mac::from_bits);
        self.receivers.iter().flatten().find(|(mac, _)| Some(*mac) == dst)
    }

    /// Returns the host that sends the packet.
    pub fn sender(&self, sample: &Sample) -> Option<&Host> {
        let src = sample.packet().get(Field::EthSrc).map(Mac::from_bits);
        let sends = |(mac, info): &&Host| info.location == sample.at && (!self.by_address || Some(*mac) == src);
        self.senders.iter().find(sends)
    }

    fn asks(&self, packet: &impl Asked) -> bool {
        let switch = packet.switch();
        let here = self.senders.iter().filter(|(_, info)| info.location.switch == switch);
        let Some(sender) = here.into_iter().find(|host| packet.fits(&self.sends(host))) else { return false };
        if !packet.fits(&self.only) || self.except.iter().any(|cond| packet.fits(cond)) {
            return false;
        }
        match &self.receivers {
            Some(receivers) => {
                let receiver = receivers.iter().find(|(mac, _)| packet.fits(&exact(Field::EthDst, mac.bits())));
                receiver.is_some_and(|receiver| !self.is_addressed || is_addressed(packet, sender, receiver))
            }
            None => {
                let mut known = self.destinations.iter();
                known.any(|mac| packet.fits(&exact(Field::EthDst, mac.bits())));
                true
            }
        }
    }

    fn sends(&self, (mac, info): &Host) -> Cond {
        let at_port = exact(Field::InPort, u128::from(info.location.port.0));
        if self.by_address { at_port.and(Constraint::exact(Field::EthSrc, mac.bits())) } else { at_port }
    }
}

/// Reports whether the packet has no IP addresses, or those of these hosts.
fn is_addressed(packet: &impl Asked, (_, src): &Host, (_, dst): &Host) -> bool {
    let v4 = |ip: &std::net::Ipv4Addr| u128::from(u32::from(*ip));
    for (eth_type, from, to) in [(IPV4, Field::Ipv4Src, Field::Ipv4Dst), (ARP, Field::ArpSpa, Field::ArpTpa)] {
        if packet.fits(&exact(Field::EthType, eth_type)) {
            return src.ipv4.iter().any(|ip| packet.fits(&exact(from, v4(ip))))
                && dst.ipv4.iter().any(|ip| packet.fits(&exact(to, v4(ip))));
        }
    }
    if packet.fits(&exact(Field::EthType, IPV6)) {
        return src.ipv6.iter().any(|ip| packet.fits(&exact(Field::Ipv6Src, u128::from(*ip))))
            && dst.ipv6.iter().any(|ip| packet.fits(&exact(Field::Ipv6Dst, u128::from(*ip))));
    }
    true
}

/// A policy that drops packets outside of a scope. Another one may run after it, in the same run, so that the trace
/// holds the observations of both. The route is that of the first.
pub(super) struct Scoped {
    pub scope: Arc<PacketScope>,
    pub policy: Arc<dyn Policy>,
    pub other: Option<Arc<dyn Policy>>,
}

impl Policy for Scoped {
    fn decide(&self, pkt: &PacketHandle, net: &Net) -> Result<Route, PolicyError> {
        if !self.scope.asks(pkt) {
            return Ok(Route::drop());
        }
        let route = self.policy.decide(pkt, net)?;
        if let Some(other) = &self.other {
            drop(other.decide(pkt, net)?);
        }
        Ok(route)
    }

    fn wrapped(&self) -> Option<&dyn Policy> {
        Some(&*self.policy)
    }
}
