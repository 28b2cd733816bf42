//! Bandwidth on demand: flows ask for capacity, wait until it is free, and return it at their end.
//!
//! An application asks for Mbit/s from one host to another, and deletes the request at the end of the flow:
//!
//! ```text
//! maple state set demands '["10.0.0.1", "10.0.0.3"]' 40
//! maple state delete demands '["10.0.0.1", "10.0.0.3"]'
//! ```
//!
//! A thread, the broker, reserves this bandwidth on all links of the path in one transaction, or waits until it is
//! free: McNettle's example of software transactional memory (Figure 1). Packets of a flow that asked and has no
//! reservation yet are dropped. All other flows are best effort.

use std::net::Ipv4Addr;
use std::process::ExitCode;
use std::sync::Arc;

use maple::prelude::*;

/// Source and destination.
type Flow = (String, String);
/// Links, each as the switch and port where it begins.
type Path = Vec<(u64, u32)>;

struct Broker {
    /// Mbit/s of each link, in each direction.
    capacity: i64,
    /// Mbit/s that applications ask for.
    demands: Table<Flow, i64>,
    /// Mbit/s that flows have, and on which links.
    granted: Table<Flow, (i64, Path)>,
    /// Mbit/s of each link that are in use.
    used: Table<(u64, u32), i64>,
    path: Query<Flow, Option<Path>>,
}

/// Returns the links of the shortest path. `None` if a host is not known.
fn path(net: &Net, flow: Flow) -> Option<Path> {
    let locate = |text: &str| net.locate_ip(text.parse::<Ipv4Addr>().ok()?).map(|(_, at)| at);
    let route = net.shortest_path(locate(&flow.0)?, locate(&flow.1)?);
    let mut hops: Path = route.explicit_hops().map(|hop| (hop.switch.0, hop.port.0)).collect();
    hops.pop(); // out of the network
    Some(hops)
}

impl Broker {
    fn new(capacity: i64) -> Broker {
        let (demands, granted, used) = (Table::new("demands"), Table::new("granted"), Table::new("used"));
        Broker { capacity, demands, granted, used, path: Query::new("path", path) }
    }

    fn decide(&self, pkt: &Packet, net: &Net) -> Route {
        if pkt.is_multicast() {
            return net.flood();
        }
        let Some(dst) = net.locate(pkt.eth_dst()) else { return net.flood() };
        if pkt.ipv4_src().is_present() {
            let flow = (pkt.ipv4_src().get().to_string(), pkt.ipv4_dst().get().to_string());
            if self.demands.contains(net, &flow) && !self.granted.contains(net, &flow) {
                return net.retry();
            }
        }
        match net.locate(pkt.eth_src()) {
            Some(src) => net.shortest_path(src, dst),
            None => net.flood(),
        }
    }

    fn reserve(&self, tx: &Tx, flow: &Flow, amount: i64) -> Result<(), Stop> {
        let links = self.path.get(tx, flow).ok_or(Stop::Retry)?;
        for link in &links {
            let total = self.used.get(tx, link).unwrap_or(0) + amount;
            Stop::unless(total <= self.capacity)?; // until a flow returns some
            self.used.set(tx, link, &total);
        }
        self.granted.set(tx, flow, &(amount, links));
        Ok(())
    }

    fn release(&self, tx: &Tx, flow: &Flow, amount: i64, links: &Path) {
        self.granted.delete(tx, flow);
        for link in links {
            let total = self.used.get(tx, link).unwrap_or(0);
            self.used.set(tx, link, &(total - amount));
        }
    }

    /// Reserves for the first of these flows that fits. Waits if none does.
    fn first_of(&self, tx: &Tx, waiting: &[(Flow, i64)]) -> Result<(), Stop> {
        let Some(((flow, amount), rest)) = waiting.split_first() else { return Err(Stop::Retry) };
        tx.or_else(|tx| self.reserve(tx, flow, *amount), |tx| self.first_of(tx, rest))
    }

    /// Returns what a flow no longer needs or has on an old path. Otherwise reserves for a flow.
    fn step(&self, tx: &Tx) -> Result<(), Stop> {
        for (flow, (amount, links)) in self.granted.entries(tx) {
            if self.demands.get(tx, &flow) != Some(amount) || self.path.get(tx, &flow).as_ref() != Some(&links) {
                self.release(tx, &flow, amount, &links);
                return Ok(());
            }
        }
        let mut waiting = self.demands.entries(tx);
        waiting.retain(|(flow, _)| !self.granted.contains(tx, flow));
        self.first_of(tx, &waiting)
    }
}

fn main() -> ExitCode {
    let capacity = std::env::var("MAPLE_CAPACITY").unwrap_or_else(|_| "100".into());
    let Ok(capacity) = capacity.parse() else {
        eprintln!("MAPLE_CAPACITY is a number of Mbit/s, not {capacity:?}");
        return ExitCode::FAILURE;
    };
    let broker = Arc::new(Broker::new(capacity));
    let policy = Arc::clone(&broker);
    let serve = move |controller: maple::controller::Handle| {
        std::thread::spawn(move || while controller.atomically(None, |tx| broker.step(tx)).is_ok() {});
    };
    maple_cli::run(App::new(move |pkt: &Packet, net: &Net| policy.decide(pkt, net)).on_start(serve))
}
