//! Lines of switches with hosts, and the order in which pairs of hosts talk.

use crate::flows::{FlowNetwork, Pair};
use crate::workload::{NetworkHost, Wiring};

/// The switches of a line that have hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    /// The first and the last switch; flows go from one to the other.
    Ends,
    /// All switches; every host talks to every other.
    All,
}

/// Builds a line of switches, each with ports from 1 to `ports` for hosts, over which the hosts are spread evenly. The
/// next two ports lead to the previous and the next switch.
pub fn line(switches: u32, ports: u32, hosts: u32, spread: Spread) -> Wiring {
    let at: Vec<u32> = match spread {
        Spread::Ends if switches > 1 => vec![0, switches - 1],
        Spread::Ends | Spread::All => (0..switches).collect(),
    };
    let places = at.len() as u32;
    let host = |n: u32| {
        let [a, b, c, d] = (n + 1).to_be_bytes();
        NetworkHost {
            switch: at[(n % places) as usize] as usize,
            port: n / places % ports + 1,
            mac: [2, 0, a, b, c, d],
            ip: [10, b, c, d].into(),
        }
    };
    let link = |n: u32| [(n as usize, ports + 2), (n as usize + 1, ports + 1)];
    Wiring {
        switches: (1..=u64::from(switches)).collect(),
        hosts: (0..hosts).map(host).collect(),
        links: (0..switches.saturating_sub(1)).map(link).collect(),
    }
}

/// Returns all pairs of hosts that make new flows, each once, in an order without pattern. `crossing` selects those of
/// hosts at different switches.
pub fn pairs(flow_network: &FlowNetwork, crossing: bool) -> Vec<Pair> {
    let hosts = &flow_network.network().hosts;
    let count = hosts.len() as u64;
    let all = count * count;
    // A step that is coprime to the number of pairs visits each pair once.
    let step = (all * 5 / 13..).find(|step| gcd(*step, all) == 1).unwrap_or(1);
    let pair = |n: u64| (n * step) % all;
    let fits = |(src, dst): &Pair| !crossing || hosts[*src as usize].switch != hosts[*dst as usize].switch;
    let pairs = (0..all).map(pair).map(|n| ((n / count) as u32, (n % count) as u32));
    pairs.filter(fits).filter(|pair| flow_network.is_new(*pair)).collect()
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_spread_evenly_over_the_ports_of_their_switches() {
        let network = line(4, 3, 12, Spread::Ends);
        let at = |switch: usize, port: u32| {
            network.hosts.iter().filter(|host| (host.switch, host.port) == (switch, port)).count()
        };
        assert!((1..=3).all(|port| at(0, port) == 2 && at(3, port) == 2));
        assert_eq!(network.links, [[(0, 5), (1, 4)], [(1, 5), (2, 4)], [(2, 5), (3, 4)]]);
        let all = line(4, 3, 12, Spread::All);
        assert!((0..4).all(|switch| all.hosts.iter().filter(|host| host.switch == switch).count() == 3));
        assert!(line(1, 8, 4, Spread::Ends).links.is_empty());
    }
}
