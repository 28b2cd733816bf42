//! Declarations about hosts: a fixed place, and addresses of their own.
//!
//! A packet with the source of a host that has a fixed place is dropped wherever else it comes from, whatever is known
//! of the host: there is no search, and no move. An announcement of a declared address by another host is ignored. Both
//! are reported, for a bounded number of senders of a port.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use maple_wire::Dpid;

use super::{HostAction, Hosts, Sender};
use crate::network::{Facts, Location, Mac};
use crate::report::Report;
use crate::state::Snapshot;

/// The maximum number of reports of each kind about a port. Chosen: a few names show what happens there, and a forger
/// can fill no log.
const MAX_REPORTED: usize = 8;

/// The senders that were reported, by port.
#[derive(Debug, Default)]
pub(super) struct ReportedSenders(BTreeSet<(Location, Mac)>);

impl ReportedSenders {
    /// Notes a sender at a port. Returns whether to report it.
    fn note(&mut self, at: Location, mac: Mac) -> bool {
        let of_port = (at, Mac([0; 6]))..=(at, Mac([0xff; 6]));
        !self.0.contains(&(at, mac)) && self.0.range(of_port).count() < MAX_REPORTED && self.0.insert((at, mac))
    }

    pub fn forget_port(&mut self, at: Location) {
        self.0.retain(|(of, _)| *of != at);
    }

    pub fn forget_switch(&mut self, dpid: Dpid) {
        self.0.retain(|(of, _)| of.switch != dpid);
    }

    pub fn size(&self) -> usize {
        self.0.len()
    }
}

impl Hosts {
    /// Reports a sender whose host has a fixed place elsewhere, at most once for each sender and port. Returns whether
    /// it has.
    pub(super) fn report_if_misplaced(&mut self, sender: Sender, out: &mut Vec<HostAction>) -> bool {
        let Sender { mac, at: seen, .. } = sender;
        let Some(at) = self.facts.place(mac).filter(|place| *place != seen) else { return false };
        if self.misplaced.note(seen, mac) {
            out.push(HostAction::Report(Report::HostMisplaced { mac, at, seen }));
        }
        true
    }

    /// Reports whether the sender's host is declared to be where it is.
    pub(super) fn is_in_fixed_place(&self, mac: Mac, at: Location) -> bool {
        self.facts.place(mac) == Some(at)
    }

    /// Returns the sender without the address that it announces, if that is declared as another host's.
    pub(super) fn without_foreign_address(&mut self, sender: Sender, out: &mut Vec<HostAction>) -> Sender {
        let Sender { mac, at, announces } = sender;
        let foreign = |ip: IpAddr| Some((ip, self.facts.owner(ip).filter(|owner| *owner != mac)?));
        let Some((ip, owner)) = announces.and_then(foreign) else { return sender };
        if self.foreign.note(at, mac) {
            out.push(HostAction::Report(Report::AddressOfAnother { mac, at, ip, owner }));
        }
        Sender { announces: None, ..sender }
    }

    /// Applies changed declarations, which the state has already. Returns the hosts that were forgotten because there
    /// are too many.
    pub fn declare(&mut self, state: &Snapshot, facts: &Arc<Facts>, out: &mut Vec<HostAction>) -> Vec<(Location, Mac)> {
        let before = std::mem::replace(&mut self.facts, Arc::clone(facts));
        (self.misplaced, self.foreign) = Default::default();
        // The messages that report these departures may come later.
        let is_gone = |(at, mac): &&(Location, Mac)| state.host(*mac).is_none_or(|host| host.location != *at);
        let gone: Vec<(Location, Mac)> = self.known.keys().filter(is_gone).copied().collect();
        gone.into_iter().for_each(|(at, mac)| self.on_departure(mac, at));
        for ((at, mac), known) in &mut self.known {
            let (at, mac) = (*at, *mac);
            known.announced.retain(|(ip, _)| facts.owner(*ip).is_none_or(|owner| owner == mac));
            // An address that only was declared goes. One that the host has announced ages as any other.
            let announced = |ip: &IpAddr| known.announced.iter().any(|(own, _)| own == ip);
            let undeclared = before.addresses(mac).filter(|ip| facts.owner(*ip) != Some(mac) && !announced(ip));
            out.extend(undeclared.map(|ip| HostAction::Unbind { mac, at, ip }));
        }
        self.apply_maxima(out)
    }

    /// Returns the maximum number of hosts at a port.
    pub(super) fn most_at(&self, at: Location) -> usize {
        self.facts.max_hosts(at).unwrap_or(self.limits.per_port)
    }
}
