//! The handle through which f reads the network, and sends frames of its own.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::panic::Location as Caller;

use maple_wire::{Dpid, PortNo};

use super::open_paths::{OpenEnd, RequestedPath};
use super::{AccountItem, HostLocation, Run, slice};
use crate::network::{Location, Mac, OwnFrame};
use crate::policy_error::PolicyError;
use crate::route::Route;
use crate::state::{Cell, CellValue, Name};
use crate::trace::caller;

/// f's view of everything but its packet. Every read is a dependency of the run.
#[derive(Clone)]
pub struct Net(pub(super) Run);

/// Records nothing, so it shows nothing that f could observe.
impl fmt::Debug for Net {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Net").finish_non_exhaustive()
    }
}

impl Net {
    /// Returns the handle of a run.
    pub(super) fn for_run(run: &Run) -> Net {
        Net(run.clone())
    }

    /// Reports whether the run is still in progress. The other methods panic after it has ended.
    pub fn is_live(&self) -> bool {
        self.0.state.borrow().is_some()
    }

    /// Notes that f writes output, such as a line on the screen, and reports whether it has to be kept back: the run's
    /// packet is made up, and people read output as a packet's doing.
    pub fn keeps_output_back(&self) -> bool {
        let mut state = self.0.state();
        state.result.has_output = true;
        state.is_made_up
    }

    /// Returns the location of a host, or `None` if it is unknown. The run fails if host tracking is off.
    #[track_caller]
    pub fn locate(&self, mac: Mac) -> Option<Location> {
        self.try_locate(mac).ok().flatten()
    }

    /// Returns the location that [`Net::locate`] returns, or the error that makes the run fail.
    ///
    /// # Errors
    /// [`PolicyError::HostsNotTracked`] without host tracking; the run fails then, whatever f does with the error.
    #[track_caller]
    pub fn try_locate(&self, mac: Mac) -> Result<Option<Location>, PolicyError> {
        self.need_hosts(mac)?;
        Ok(match self.read(Cell::HostAt(mac)) {
            CellValue::Location(at) => at,
            _ => None,
        })
    }

    /// Returns the host that uses an IP address, and its location.
    #[track_caller]
    pub fn locate_ip(&self, ip: IpAddr) -> Option<(Mac, Location)> {
        match self.read(Cell::HostByIp(ip)) {
            CellValue::Host(host) => host,
            _ => None,
        }
    }

    /// Reports whether an IP address is that of the host with this hardware address: no host has announced it since
    /// that one did. The run depends on whose address it is.
    #[track_caller]
    pub fn is_bound(&self, mac: Mac, ip: IpAddr) -> bool {
        self.locate_ip(ip).is_some_and(|(owner, _)| owner == mac)
    }

    /// Returns the IP addresses that a host announced most recently, or `None` for an unknown host.
    #[track_caller]
    pub fn host_addresses(&self, mac: Mac) -> Option<(Vec<Ipv4Addr>, Vec<Ipv6Addr>)> {
        match self.read(Cell::HostAddresses(mac)) {
            CellValue::Addresses(addresses) => addresses,
            _ => None,
        }
    }

    /// Returns all hosts and their locations, by address.
    #[track_caller]
    pub fn hosts(&self) -> Vec<(Mac, Location)> {
        match self.read(Cell::Hosts) {
            CellValue::Hosts(hosts) => hosts,
            _ => Vec::new(),
        }
    }

    /// Returns all switches, by datapath id.
    #[track_caller]
    pub fn switches(&self) -> Vec<Dpid> {
        match self.read(Cell::Switches) {
            CellValue::Switches(switches) => switches,
            _ => Vec::new(),
        }
    }

    /// Returns all links, each once, lower end first.
    #[track_caller]
    pub fn links(&self) -> Vec<(Location, Location)> {
        match self.read(Cell::Links) {
            CellValue::Links(links) => links,
            _ => Vec::new(),
        }
    }

    /// Returns the edge ports of a switch that are up, in order.
    #[track_caller]
    pub fn edge_ports(&self, switch: Dpid) -> Vec<PortNo> {
        match self.read(Cell::EdgePorts(switch)) {
            CellValue::Ports(ports) => ports,
            _ => Vec::new(),
        }
    }

    /// Reports whether packets can pass a port: its switch says that link and port are up, and the port is neither new
    /// (for a moment after it came up) nor shut. A port that does not exist is not up. The ports of an unreachable
    /// switch keep their last state.
    #[track_caller]
    pub fn is_up(&self, at: Location) -> bool {
        self.read(Cell::IsUp(at)) == CellValue::Exists(true)
    }

    /// Returns the path with the fewest hops from `a`'s switch out of `b`, or an unreachable route. The route is also
    /// unreachable if `b` is absent: its switch is not there or has no such port, or the port leads to another switch.
    /// The run fails if f nevertheless returns that route, unless it is part of a [`Route::multicast`].
    #[track_caller]
    pub fn shortest_path<'n>(&self, a: Location, b: impl Into<HostLocation<'n>>) -> Route {
        let at = caller(Caller::caller());
        self.path_to(a.switch, b.into(), None).unwrap_or_else(Route::unreachable).from_line(at)
    }

    /// Returns the route of [`Net::shortest_path`] if `b` is absent, for callers that find paths by themselves. The run
    /// depends on whether `b` is absent.
    #[track_caller]
    pub fn path_to_absent(&self, a: Location, b: Location) -> Option<Route> {
        (self.read(Cell::IsPlace(b)) == CellValue::Exists(false)).then(|| self.shortest_path(a, b))
    }

    /// Returns the path of least cost from `a`'s switch out of `b`, or an unreachable route, as of
    /// [`Net::shortest_path`]. `costs` names the link attribute that holds the cost of a link (1 if the link has no
    /// such cost); [`UTILISATION`](crate::network::UTILISATION) is one that Maple measures. Without costs of that name
    /// this makes the run fail.
    #[track_caller]
    pub fn path<'n>(&self, a: Location, b: impl Into<HostLocation<'n>>, costs: &str) -> Route {
        let at = caller(Caller::caller());
        self.try_path(a, b, costs)
            .unwrap_or_else(|error| {
                let error = match &at {
                    Some(line) => PolicyError::Exception(format!("{line}: {error}").into()),
                    None => error,
                };
                self.0.state().result.error.get_or_insert(error);
                Route::unreachable()
            })
            .from_line(at)
    }

    /// Returns the path that [`Net::path`] returns, for callers that can handle an unknown name.
    ///
    /// # Errors
    /// [`PolicyError::NoSuchCosts`] if links have no costs of that name. The run depends on that as on any answer, and
    /// may go on.
    #[track_caller]
    pub fn try_path<'n>(&self, a: Location, b: impl Into<HostLocation<'n>>, costs: &str) -> Result<Route, PolicyError> {
        let route = self.path_to(a.switch, b.into(), Some(costs.into()));
        route.ok_or_else(|| PolicyError::NoSuchCosts { name: costs.into(), known: self.cost_names() })
    }

    /// Returns the names of the costs that links have, in order.
    #[track_caller]
    pub fn cost_names(&self) -> Vec<Name> {
        match self.read(Cell::CostNames) {
            CellValue::Names(names) => names,
            _ => Vec::new(),
        }
    }

    /// Returns a flood: the network's spanning tree and all edge ports ([`Route::flood`]).
    #[track_caller]
    pub fn flood(&self) -> Route {
        Route::flood()
    }

    /// Sends a frame of f's own out of an edge port when the run commits, in addition to the packet's route. Each
    /// packet of this kind then comes to the controller. [`Route::answer`] sends to where the packet came from.
    /// The run fails if the port is absent, or not a port of the slice that f runs in.
    #[track_caller]
    pub fn send(&self, frame: Vec<u8>, at: Location) {
        if let Err(error) = self.try_send(frame, at) {
            let error = match error {
                PolicyError::Route { error, .. } => PolicyError::Route { error, made_at: caller(Caller::caller()) },
                error => error,
            };
            self.0.state().result.error.get_or_insert(error);
        }
    }

    /// Sends a frame as [`Net::send`] does, or returns an error instead of making the run fail.
    ///
    /// # Errors
    /// [`PolicyError::Route`] if f runs in a slice that does not have the port. Nothing is sent there.
    pub fn try_send(&self, frame: Vec<u8>, at: Location) -> Result<(), PolicyError> {
        self.check_place(at)?;
        self.0.state().result.txn.send(OwnFrame { at, bytes: frame.into() });
        Ok(())
    }

    /// Sends a frame of f's own to where the packet came from when the run commits, in addition to the packet's route.
    pub fn reply(&self, frame: Vec<u8>) {
        let mut state = self.0.state();
        let at = state.ingress;
        state.result.txn.send(OwnFrame { at, bytes: frame.into() });
    }

    /// Reads any cell. The named methods are easier to use. In a slice, names are those of the slice's own state, and
    /// the network is the slice's part of it.
    #[track_caller]
    pub fn read(&self, cell: Cell) -> CellValue {
        let mut state = self.0.state();
        if state.account.is_none() {
            return state.read(cell);
        }
        let value = state.read(cell.clone());
        state.note_state(Caller::caller(), || AccountItem::Cell(cell, value.clone()));
        value
    }

    /// Returns the best path, before f has read it. Returns `None` if no link cost has that name. If a look-up found
    /// its end, the run does not observe the end before f reads the path.
    #[track_caller]
    fn path_to(&self, from: Dpid, to: HostLocation<'_>, costs: Option<Name>) -> Option<Route> {
        let found = to.as_found().filter(|_| self.0.state().slice.is_none());
        let to = match found {
            Some((_, at)) => at.unwrap_or(Location::new(from, PortNo(0))),
            None => to.location(),
        };
        let open_end = found.map(|(field, place)| OpenEnd { field, place });
        let mut state = self.0.state();
        let path = Cell::Path { from, to: to.switch, costs, within: None };
        for cell in slice::paths(state.slice.as_ref(), path) {
            if let CellValue::Hops(found) = cell.evaluate(state.result.txn.peek()) {
                let is_there = found.is_some().then(|| state.is_there(to));
                let (route, reads) = Route::path(&cell, to, found, is_there);
                state.note_state(Caller::caller(), || AccountItem::Path(cell.clone(), is_there == Some(true)));
                state.routes.paths.push(RequestedPath { cell, reads, open_end });
                return Some(route);
            }
            state.result.txn.read(cell);
        }
        None
    }

    /// Checks that hosts are tracked. If they are not, the run fails.
    pub(crate) fn need_hosts(&self, mac: Mac) -> Result<(), PolicyError> {
        let mut state = self.0.state();
        if state.track_hosts {
            return Ok(());
        }
        let error = PolicyError::HostsNotTracked(mac);
        state.result.error.get_or_insert_with(|| error.clone());
        Err(error)
    }
}
