//! Assertions about all packets.

use std::collections::BTreeSet;
use std::fmt;

use maple::Policy;
use maple_core::check::{Claim, Counterexample, Examined, Host, Open, PacketScope, ScopedClaim};
use maple_core::state::Store;
use maple_wire::packet::text::summary;

use crate::test_network::{TestNetwork, engine};

/// The number of packets that an exploration tries. Chosen: more would find rarer cases, and take a test longer.
const PACKETS: u64 = 5_000;

/// The result of an exploration whose claim no packet contradicts.
///
/// ```
/// use maple::prelude::*;
/// use maple_lab::TestNetwork;
///
/// let net = TestNetwork::new("linear:2", |_: &Packet, _: &Net| Route::drop());
/// let explored = net.assert_isolated(&["h1"], &["h2"]);
/// assert!(explored.is_proved());
/// assert_eq!(explored.to_string(), "proved for all packets");
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Explored {
    packets: u64,
    open: Option<Open>,
}

impl Explored {
    /// Reports whether the claim holds for all packets, in the network and the state as they were.
    ///
    /// ```
    /// # use maple::prelude::*;
    /// let net = maple_lab::TestNetwork::new("linear:2", |_: &Packet, _: &Net| Route::drop());
    /// assert!(net.assert_no_loops().is_proved());
    /// ```
    pub fn is_proved(&self) -> bool {
        self.open.is_none()
    }
}

impl fmt::Display for Explored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.open {
            None => f.write_str("proved for all packets"),
            Some(open) => write!(f, "no packet of {} contradicts it, which is not a proof: {open}", self.packets),
        }
    }
}

impl TestNetwork {
    /// Asserts that no packet of `hosts` reaches `others`. A packet of a host enters at its port with its hardware
    /// address; all other fields may have any value.
    ///
    /// ```
    /// # use maple::prelude::*;
    /// # let net = maple_lab::TestNetwork::new("linear:3", |_: &Packet, _: &Net| Route::drop());
    /// assert!(net.assert_isolated(&["h1", "h2"], &["h3"]).is_proved());
    /// ```
    ///
    /// # Panics
    /// If one does, naming the packet and the policy's decision.
    #[track_caller]
    pub fn assert_isolated(&self, hosts: &[&str], others: &[&str]) -> Explored {
        let at: BTreeSet<_> = self.known(others).into_iter().map(|(_, info)| info.location).collect();
        self.examine(self.known(hosts), None, Claim::NeverAt(at), None)
    }

    /// Asserts that all packets from each of `hosts` to each of `others` arrive if they have the hosts' own addresses.
    ///
    /// ```
    /// # use maple::prelude::*;
    /// let net = maple_lab::TestNetwork::new("linear:2", |_: &Packet, net: &Net| net.flood());
    /// assert!(net.assert_reachable(&["h1"], &["h2"]).is_proved());
    /// ```
    ///
    /// # Panics
    /// If one does not, naming the packet and the policy's decision.
    #[track_caller]
    pub fn assert_reachable(&self, hosts: &[&str], others: &[&str]) -> Explored {
        self.examine(self.known(hosts), Some(self.known(others)), Claim::Arrives, None)
    }

    /// Asserts that no route passes a switch twice.
    ///
    /// ```
    /// # use maple::prelude::*;
    /// # let net = maple_lab::TestNetwork::new("ring:4", |_: &Packet, net: &Net| net.flood());
    /// assert!(net.assert_no_loops().is_proved());
    /// ```
    ///
    /// # Panics
    /// If one does, naming the packet and the policy's decision.
    #[track_caller]
    pub fn assert_no_loops(&self) -> Explored {
        self.examine(self.everyone(), None, Claim::NoLoops, None)
    }

    /// Asserts that another policy gives the same routes to all packets, in the present state.
    ///
    /// ```
    /// # use maple::prelude::*;
    /// # let net = maple_lab::TestNetwork::new("ring:4", |_: &Packet, net: &Net| net.flood());
    /// let other = |pkt: &Packet, net: &Net| if pkt.tcp_dst() == 22 { net.flood() } else { net.flood() };
    /// assert!(net.assert_same_as(other).is_proved());
    /// ```
    ///
    /// # Panics
    /// If it does not, naming the packet and both policies' decisions.
    #[track_caller]
    pub fn assert_same_as(&self, policy: impl Policy + 'static) -> Explored {
        let store = Store::new();
        self.examine(self.everyone(), None, Claim::SameAs(engine(policy)), Some(&store))
    }

    #[track_caller]
    fn examine(
        &self,
        senders: Vec<Host>,
        receivers: Option<Vec<Host>>,
        claim: Claim,
        other: Option<&Store>,
    ) -> Explored {
        let destinations = self.everyone().into_iter().map(|(mac, _)| mac).collect();
        let is_addressed = receivers.is_some();
        let by_address = self.laboratory.tracks_hosts();
        let scope =
            PacketScope { senders, receivers, is_addressed, by_address, destinations, ..PacketScope::default() };
        let state = other.map(Store::snapshot);
        let examined = self.laboratory.examine(ScopedClaim { scope, claim }, state.as_deref(), PACKETS);
        let Examined { counterexample, coverage, open } = examined.unwrap_or_else(|error| panic!("{error}"));
        if let Some(Counterexample { sample, why, lines, other, .. }) = counterexample {
            let mut reported = vec![why, format!("packet  {} at {}", summary(&sample.packet()), sample.at)];
            reported.extend(lines.into_iter().map(|line| format!("policy  {line}")));
            reported.extend(other.into_iter().map(|line| format!("other   {line}")));
            panic!("{}", reported.join("\n    "));
        }
        Explored { packets: coverage.packets, open }
    }

    fn everyone(&self) -> Vec<Host> {
        let hosts = self.laboratory.hosts().unwrap_or_else(|error| panic!("{error}"));
        hosts.into_iter().map(|(_, host)| host).collect()
    }

    #[track_caller]
    fn known(&self, names: &[&str]) -> Vec<Host> {
        assert!(!names.is_empty(), "at least one host is needed");
        names.iter().for_each(|name| drop(self.host(name)));
        let hosts = self.laboratory.hosts().unwrap_or_else(|error| panic!("{error}"));
        hosts.into_iter().filter(|(name, _)| names.contains(&name.as_str())).map(|(_, host)| host).collect()
    }
}
