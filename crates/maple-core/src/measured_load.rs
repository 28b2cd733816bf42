//! The load that f may ask for: of ports, of links, and of the traffic between hosts.
//!
//! Every answer is a step of a scale with hysteresis ([`Scale`]), and a cell. So a leaf is decided again when the
//! answer changes, not after each measurement. A rate is measured from the first question on, for as long as a leaf, a
//! waiting transaction or a query depends on it. Before the second measurement every rate is 0.

use std::fmt;

use maple_wire::Dpid;

use crate::network::{Gauge, Location, Mac, PortInfo, PortKind, Scale};
use crate::policy_error::PolicyError;
use crate::run::Net;
use crate::state::{Cell, CellValue};

/// The number of bits in a megabit.
const MEGABIT: f64 = 1e6;

/// A measured rate, or the greatest of several (of parallel links). It is valid for one run, like [`Net`]: its
/// methods panic after that.
///
/// ```
/// use maple_core::policy::{Net, PacketHandle};
/// use maple_core::route::Route;
/// use maple_wire::Dpid;
///
/// fn decide(pkt: &PacketHandle, net: &Net) -> Route {
///     let (Some(src), Some(dst)) = (net.locate(pkt.eth_src()), net.locate(pkt.eth_dst())) else { return Route::flood() };
///     // Large flows leave the shortest path: from more than 50 Mbit/s on, until they are at 20 or below.
///     if net.traffic(pkt.eth_src(), pkt.eth_dst()).is_above_mbps(50.0, 20.0) {
///         return net.path(src, dst, "distance");
///     }
///     net.shortest_path(src, dst)
/// }
/// ```
#[derive(Clone)]
pub struct Load {
    net: Net,
    gauges: Vec<Gauge>,
    /// The capacity in bit/s; `None` for the speed that the switches report.
    capacity: Option<u64>,
}

impl fmt::Debug for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Load").field("gauges", &self.gauges).field("capacity", &self.capacity).finish_non_exhaustive()
    }
}

impl Net {
    /// Returns the load of what a port sends. [`Load::received`] turns it into what the port receives.
    #[must_use]
    pub fn port_load(&self, at: Location) -> Load {
        self.load(vec![Gauge::Sent(at)])
    }

    /// Returns the load of what one switch sends to another over the link between them. If there are several links, the
    /// busiest counts. Without a link the load is 0.
    #[must_use]
    pub fn link_load(&self, from: Dpid, to: Dpid) -> Load {
        let ports = match self.read(Cell::LinkPorts(from, to)) {
            CellValue::Ports(ports) => ports,
            _ => Vec::new(),
        };
        self.load(ports.into_iter().map(|port| Gauge::Sent(Location::new(from, port))).collect())
    }

    /// Returns the load of the link between two ports, from the first to the second. Without such a link the load is 0.
    #[must_use]
    pub fn link_load_at(&self, from: Location, to: Location) -> Load {
        match self.read(Cell::Port(from)) {
            CellValue::Port(Some(PortInfo { up: true, kind: PortKind::Link(peer) })) if peer == to => {
                self.port_load(from)
            }
            _ => self.no_load(),
        }
    }

    /// Returns the load of the traffic from one host to another. Only rules at the first host's switch that name both
    /// hosts, by hardware or by IP addresses, count it. Policies that read both addresses of their packets have such
    /// rules. Packets that the controller forwards before there is a rule are not counted. Without host tracking the
    /// run fails.
    #[must_use]
    pub fn traffic(&self, from: Mac, to: Mac) -> Load {
        self.try_traffic(from, to).unwrap_or_else(|_| self.no_load())
    }

    /// Returns the load that [`Net::traffic`] returns, or the error that makes the run fail.
    ///
    /// # Errors
    /// [`PolicyError::HostsNotTracked`] without host tracking. The run then fails, whatever f does with the error.
    pub fn try_traffic(&self, from: Mac, to: Mac) -> Result<Load, PolicyError> {
        self.need_hosts(from)?;
        Ok(self.load(vec![Gauge::Traffic { from, to }]))
    }

    /// Returns the load of these gauges: the greatest of them. For bindings.
    #[must_use]
    pub fn load(&self, gauges: Vec<Gauge>) -> Load {
        Load { net: self.clone(), gauges, capacity: None }
    }

    /// Returns the load of something that does not exist: 0.
    #[must_use]
    pub fn no_load(&self) -> Load {
        self.load(Vec::new())
    }
}

impl Load {
    /// Turns what a port sends into what it receives, and back. Traffic from one host to another has no other
    /// direction, and stays.
    #[must_use]
    pub fn received(mut self) -> Load {
        for gauge in &mut self.gauges {
            *gauge = match *gauge {
                Gauge::Sent(at) => Gauge::Received(at),
                Gauge::Received(at) => Gauge::Sent(at),
                traffic @ Gauge::Traffic { .. } => traffic,
            };
        }
        self
    }

    /// Sets the capacity, in Mbit/s, with which [`Load::utilisation`] and [`Load::is_above_share`] compare the load.
    /// Otherwise they compare it with the speed of the port that the switch reports.
    #[must_use]
    pub fn relative_to(mut self, mbps: f64) -> Load {
        self.capacity = Some(bits(mbps));
        self
    }

    /// Reports whether the load has exceeded `mbps` Mbit/s, and has not been `until` Mbit/s or less since.
    ///
    /// # Panics
    /// If `until` is more than `mbps`, or if one of them is negative or not a number. In a policy that is an error of
    /// this packet.
    #[must_use]
    pub fn is_above_mbps(&self, mbps: f64, until: f64) -> bool {
        assert!(
            0.0 <= until && until <= mbps,
            "a load that is high above {mbps} Mbit/s until it is at most {until}: no such loads"
        );
        let (from, until) = (bits(mbps), bits(until));
        self.gauges.iter().any(|gauge| self.step(gauge, Scale::Above { from, until }) > 0)
    }

    /// Reports whether the load has exceeded the share `from` of what the port can send (1.0: all), and has not been at
    /// the share `until` or less since. Returns `false` if the capacity of the port is not known.
    ///
    /// # Panics
    /// If `until` is more than `from`, or if one of them is negative or not a number. In a policy that is an error of
    /// this packet.
    #[must_use]
    pub fn is_above_share(&self, from: f64, until: f64) -> bool {
        assert!(
            0.0 <= until && until <= from,
            "a load that is high above {from} until it is at most {until}: no such shares"
        );
        self.gauges.iter().any(|gauge| {
            let share = |of: u64, share: f64| (of as f64 * share) as u64;
            let scale = |whole| Scale::Above { from: share(whole, from), until: share(whole, until) };
            self.whole(gauge).is_some_and(|whole| self.step(gauge, scale(whole)) > 0)
        })
    }

    /// Returns the used share of what the port can send: 0.0, 0.1 … 1.0. The value rises when the load reaches the next
    /// tenth, and falls when the load is half a tenth below the current one. It is 0.0 if the capacity of the port is
    /// not known.
    #[must_use]
    pub fn utilisation(&self) -> f64 {
        let tenths = |gauge| self.whole(gauge).map_or(0, |whole| self.step(gauge, Scale::TenthsOf(whole)));
        f64::from(self.gauges.iter().map(tenths).max().unwrap_or(0)) / 10.0
    }

    /// Returns the capacity of the port, in Mbit/s; `None` if neither the switch nor the policy states it.
    #[must_use]
    pub fn capacity(&self) -> Option<f64> {
        let least = self.gauges.iter().filter_map(|gauge| self.whole(gauge)).min();
        least.map(|bits| bits as f64 / MEGABIT)
    }

    /// Returns the gauges that the load is the greatest of.
    #[must_use]
    pub fn gauges(&self) -> &[Gauge] {
        &self.gauges
    }

    fn step(&self, gauge: &Gauge, scale: Scale) -> u8 {
        match self.net.read(Cell::Rate(*gauge, scale)) {
            CellValue::Step(step) => step,
            _ => 0,
        }
    }

    fn whole(&self, gauge: &Gauge) -> Option<u64> {
        let (Gauge::Sent(at) | Gauge::Received(at)) = *gauge else { return self.capacity };
        self.capacity.or_else(|| match self.net.read(Cell::Speed(at)) {
            CellValue::Speed(speed) => speed,
            _ => None,
        })
    }
}

/// Converts Mbit/s to bit/s.
fn bits(mbps: f64) -> u64 {
    (mbps * MEGABIT).round() as u64
}
