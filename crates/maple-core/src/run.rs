//! One run of f: its packet under tracing, its state in a transaction, and the handles f holds on both.
//!
//! Handles are owned and cheap to clone, so that a binding can wrap them in its language's objects. They end with the
//! run: [`Run::finish`] takes packet and state away, and a handle that f kept panics when used afterwards (bindings
//! ask [`PacketHandle::is_live`] first), because what is not recorded must not be observable.

use std::cell::{RefCell, RefMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::panic::Location as Caller;
use std::rc::Rc;
use std::sync::Arc;

use maple_wire::{Dpid, Field, Packet, PortNo};

use crate::network::{LinkName, Location, Mac, OwnFrame};
use crate::policy_error::PolicyError;
use crate::route::{Goal, Looked, Resolved, Route};
use crate::state::{Access, Cell, CellValue, Kind, Name, Read, Savepoint, Selection, Stop, Txn, Types, Value, Write};
use crate::trace::{Cond, Fields, Recorder, Source, Trace, caller};

/// One run of f.
#[derive(Clone)]
pub struct Run {
    state: Rc<RefCell<Option<RunState>>>,
}

/// f's view of its packet. Every method records what it answers.
#[derive(Clone)]
pub struct PacketHandle(Run);

/// f's view of everything else. Every read is a dependency of the run.
#[derive(Clone)]
pub struct Net(Run);

/// Questions to a packet with the source line that each comes from: for bindings, which know lines that Rust does not.
pub trait Observe {
    /// The field's value under a mask, or `None` if the packet has no such field.
    fn read(&self, field: Field, mask: u128, source: Option<Source>) -> Option<u128>;

    /// Whether the packet has the field and it has this value under the mask.
    fn equals(&self, field: Field, value: u128, mask: u128, source: Option<Source>) -> bool;

    /// Whether the packet has the field and it lies between these values, both included.
    fn in_range(&self, field: Field, lo: u128, hi: u128, source: Option<Source>) -> bool;

    /// Whether the packet has the field.
    fn present(&self, field: Field, source: Option<Source>) -> bool;

    /// Whether the packet has all fields of a condition and they are as it says, as one test.
    fn fits(&self, cond: &Cond, source: Option<Source>) -> bool;
}

struct RunState {
    subject: Subject,
    ingress: Location,
    track_hosts: bool,
    recorder: Recorder,
    txn: Txn,
    error: Option<PolicyError>,
    read_switch: bool,
    /// Where f first wrote.
    wrote_at: Option<Source>,
    /// The route goes nowhere but back: the place that says so.
    goes_back: Option<Arc<str>>,
    /// Whether every packet that this trace matches must come to the controller.
    each: bool,
    /// Which handlers hear of the packet, a bit for each.
    heard: u64,
    /// The paths that f requested, each with what f read of the result.
    paths: Vec<(Cell, Arc<Looked>)>,
}

/// What one run of f decides.
enum Subject {
    Frame { bytes: Arc<[u8]>, total_len: usize },
    Headers(Rc<dyn Fields>),
}

/// Headers without any field.
struct NoFields;

/// The bit of a MAC address that marks a group address.
const GROUP: u128 = 1 << 40;

/// The fields of a subject.
enum View<'a> {
    Packet(Packet<'a>),
    Headers(&'a dyn Fields),
}

/// The result of a run.
pub struct Finished {
    /// What f observed of its packet.
    pub trace: Trace,
    /// The cells that f read and wrote.
    pub txn: Txn,
    /// The first error that f received. It makes f's route invalid.
    pub error: Option<PolicyError>,
    /// Where f first wrote, if it did and that is known.
    pub wrote_at: Option<Source>,
    /// The place that made the route, if its only port is the one where the packet came in: a switch sends nothing there.
    pub goes_back: Option<Arc<str>>,
    /// Which handlers hear of the packet, a bit for each of [`crate::engine::Options::listener_filters`].
    pub heard: u64,
}

impl Run {
    /// A run over `frame` (of which `total_len` bytes were on the wire) that entered at `ingress`.
    pub fn new(frame: Arc<[u8]>, total_len: usize, ingress: Location, txn: Txn, track_hosts: bool) -> Run {
        let subject = Subject::Frame { bytes: frame, total_len };
        Run::on(subject, ingress, txn, track_hosts, Recorder::new())
    }

    /// A run over abstract headers, which have their fields by themselves: no frame, and no place where it entered.
    pub fn of_headers(headers: Rc<dyn Fields>, txn: Txn) -> Run {
        let nowhere = Location::new(Dpid(0), PortNo(0));
        Run::on(Subject::Headers(headers), nowhere, txn, false, Recorder::of_headers())
    }

    /// A run of a query: state, and a packet that has no fields.
    pub(crate) fn of_state(txn: Txn, track_hosts: bool) -> Run {
        let nowhere = Location::new(Dpid(0), PortNo(0));
        Run::on(Subject::Headers(Rc::new(NoFields)), nowhere, txn, track_hosts, Recorder::of_headers())
    }

    fn on(subject: Subject, ingress: Location, txn: Txn, track_hosts: bool, recorder: Recorder) -> Run {
        let (error, read_switch, wrote_at, paths) = (None, false, None, Vec::new());
        let state = RunState {
            subject,
            ingress,
            track_hosts,
            recorder,
            txn,
            error,
            read_switch,
            wrote_at,
            goes_back: None,
            each: false,
            heard: 0,
            paths,
        };
        Run { state: Rc::new(RefCell::new(Some(state))) }
    }

    /// The handle through which f observes the packet.
    pub fn packet(&self) -> PacketHandle {
        PacketHandle(self.clone())
    }

    /// The handle through which f reads and writes the network's state.
    pub fn net(&self) -> Net {
        Net(self.clone())
    }

    /// Asks of the packet what a switch without a second table must match besides f's trace: where it comes from, and
    /// its VLAN id, where a label takes the place of that (`vlan`).
    pub(crate) fn read_location(&self, vlan: bool) {
        let mut state = self.state();
        let RunState { subject, ingress, recorder, txn, track_hosts, .. } = &mut *state;
        let packet = subject.view(*ingress);
        recorder.read(&packet, Field::InPort, Field::InPort.full_mask(), None);
        txn.read(Cell::Port(*ingress));
        if *track_hosts && let Some(source) = recorder.read(&packet, Field::EthSrc, Field::EthSrc.full_mask(), None) {
            txn.read(Cell::HostAt(Mac::from_bits(source)));
        }
        if vlan {
            recorder.read(&packet, Field::VlanVid, Field::VlanVid.full_mask(), None);
        }
    }

    /// Asks of the packet which of these conditions it fits: whoever hears of such packets hears of each of them.
    pub(crate) fn hear(&self, wanted: &[Cond]) {
        let mut state = self.state();
        let RunState { subject, ingress, recorder, .. } = &mut *state;
        let packet = subject.view(*ingress);
        let mut heard = 0;
        for (number, cond) in wanted.iter().enumerate() {
            heard |= u64::from(recorder.matches(&packet, cond, None)) << number;
        }
        state.heard = heard;
        state.each |= heard != 0;
    }

    /// Checks f's answer against packet and network: where the packet goes, and what of that lasts. What that looks at belongs
    /// to the trace, and but for a plan to the dependencies.
    pub(crate) fn resolve(&self, route: &Route) -> Result<(Goal, Arc<Resolved>), PolicyError> {
        let mut state = self.state();
        let RunState { subject, ingress, recorder, txn, .. } = &mut *state;
        let packet = subject.view(*ingress);
        // Reads, not tests: a rule that rewrites a field must state the field's prerequisites in its match (1.3 §7.2.5), and
        // that they follow from failed tests is no statement.
        let mut ask = |field, value, mask| recorder.read(&packet, field, mask, None) == Some(value & mask);
        let resolved = route.goal(ingress.switch, txn, &mut ask);
        if resolved.as_ref().is_ok_and(|(_, resolved)| route.goes_back(resolved, *ingress)) {
            let place = route.made_at().map_or_else(|| "in the policy".into(), ToString::to_string);
            state.goes_back = Some(place.into());
        }
        let resolved = resolved.and_then(|planned| {
            let own = route.own_frames(state.ingress, &state.txn)?;
            if own.is_empty() {
                return Ok(planned);
            }
            state.each = true;
            let resolved = Arc::new(Resolved { own, ..(*planned.1).clone() });
            Ok((Goal::Fixed(Arc::clone(&resolved)), resolved))
        });
        resolved.map_err(|error| PolicyError::Route { error, made_at: route.made_at().cloned() })
    }

    /// Where the packet goes by f's answer, as [`Policy`](crate::policy::Policy) gives it.
    ///
    /// # Errors
    /// [`PolicyError::Route`]: why it can't go there.
    pub fn resolved(&self, route: &Route) -> Result<Arc<Resolved>, PolicyError> {
        Ok(self.resolve(route)?.1)
    }

    /// Ends the run. Returns `None` if the run has already ended.
    pub fn finish(&self) -> Option<Finished> {
        let mut state = self.state.borrow_mut().take()?;
        for cell in state.paths.iter().filter_map(|(path, looked)| looked.at(path)) {
            state.txn.read(cell);
        }
        let mut trace = state.recorder.finish();
        trace.read_switch |= state.read_switch;
        trace.each = state.each;
        Some(Finished {
            trace,
            txn: state.txn,
            error: state.error,
            wrote_at: state.wrote_at,
            goes_back: state.goes_back,
            heard: state.heard,
        })
    }

    fn state(&self) -> RefMut<'_, RunState> {
        RefMut::map(self.state.borrow_mut(), |state| state.as_mut().expect("a handle was used after its run"))
    }
}

impl Subject {
    fn view(&self, ingress: Location) -> View<'_> {
        match self {
            Subject::Frame { bytes, total_len } => {
                View::Packet(Packet::with_wire_len(bytes, ingress.port.0, *total_len))
            }
            Subject::Headers(headers) => View::Headers(&**headers),
        }
    }
}

impl Fields for NoFields {
    fn value(&self, _: Field) -> Option<u128> {
        None
    }

    fn is_captured(&self, _: Field) -> bool {
        true
    }
}

impl Fields for View<'_> {
    fn value(&self, field: Field) -> Option<u128> {
        match self {
            View::Packet(packet) => Fields::value(packet, field),
            View::Headers(headers) => headers.value(field),
        }
    }

    fn is_captured(&self, field: Field) -> bool {
        match self {
            View::Packet(packet) => Fields::is_captured(packet, field),
            View::Headers(headers) => headers.is_captured(field),
        }
    }
}

impl PacketHandle {
    /// Whether the run is still in progress. The other methods panic after it has ended.
    pub fn is_live(&self) -> bool {
        self.0.state.borrow().is_some()
    }

    /// The switch where the packet entered the network.
    pub fn switch(&self) -> Dpid {
        let mut state = self.0.state();
        state.read_switch = true;
        state.ingress.switch
    }

    /// The value of a field, or `None` where the packet has no such field.
    #[track_caller]
    pub fn get(&self, field: Field) -> Option<u128> {
        self.read(field, field.full_mask(), caller(Caller::caller()))
    }

    /// Whether the packet has the field with this value.
    #[track_caller]
    pub fn is(&self, field: Field, value: u128) -> bool {
        self.equals(field, value, field.full_mask(), caller(Caller::caller()))
    }

    /// Whether the packet has the field, between these values, both included.
    #[track_caller]
    pub fn within(&self, field: Field, lo: u128, hi: u128) -> bool {
        self.in_range(field, lo, hi, caller(Caller::caller()))
    }

    /// Whether the packet has all fields of a condition and they are as it says: several conditions asked as one test.
    /// The condition need not state the fields' prerequisites.
    #[track_caller]
    pub fn matches(&self, cond: &Cond) -> bool {
        self.fits(cond, caller(Caller::caller()))
    }

    /// Whether the packet is for a group of hosts, or for all: the group bit of `eth_dst`. A test of that bit, so all such
    /// packets can have one rule, whoever sends them.
    #[track_caller]
    pub fn is_multicast(&self) -> bool {
        self.equals(Field::EthDst, GROUP, GROUP, caller(Caller::caller()))
    }

    /// The source MAC address.
    #[track_caller]
    pub fn eth_src(&self) -> Mac {
        Mac::from_bits(self.get(Field::EthSrc).unwrap_or_default())
    }

    /// The destination MAC address.
    #[track_caller]
    pub fn eth_dst(&self) -> Mac {
        Mac::from_bits(self.get(Field::EthDst).unwrap_or_default())
    }

    /// The port by which the packet entered.
    #[track_caller]
    pub fn in_port(&self) -> PortNo {
        PortNo(self.get(Field::InPort).unwrap_or_default() as u32)
    }

    /// The whole frame, from the Ethernet header on, without its check sequence. No rule can look at it, so each packet of
    /// the kind comes to the controller. `None` if the switch sent only its beginning, or there is no frame.
    pub fn frame(&self) -> Option<Arc<[u8]>> {
        let mut state = self.0.state();
        state.each = true;
        match &state.subject {
            Subject::Frame { bytes, total_len } if bytes.len() >= *total_len => Some(Arc::clone(bytes)),
            _ => None,
        }
    }

    /// The source line of the latest recorded observation, if it is known.
    pub fn last_source(&self) -> Option<Source> {
        self.0.state().recorder.last_source()
    }

    fn ask<T>(&self, question: impl FnOnce(&mut Recorder, &View<'_>) -> T) -> T {
        let mut state = self.0.state();
        let RunState { subject, ingress, recorder, .. } = &mut *state;
        question(recorder, &subject.view(*ingress))
    }
}

impl Observe for PacketHandle {
    fn read(&self, field: Field, mask: u128, source: Option<Source>) -> Option<u128> {
        self.ask(|recorder, packet| recorder.read(packet, field, mask, source))
    }

    fn equals(&self, field: Field, value: u128, mask: u128, source: Option<Source>) -> bool {
        self.ask(|recorder, packet| recorder.equals(packet, field, value, mask, source))
    }

    fn in_range(&self, field: Field, lo: u128, hi: u128, source: Option<Source>) -> bool {
        self.ask(|recorder, packet| recorder.in_range(packet, field, lo, hi, source))
    }

    fn present(&self, field: Field, source: Option<Source>) -> bool {
        self.ask(|recorder, packet| recorder.present(packet, field, source))
    }

    fn fits(&self, cond: &Cond, source: Option<Source>) -> bool {
        self.ask(|recorder, packet| recorder.matches(packet, cond, source))
    }
}

impl Route {
    /// One of several routes, the same for packets that agree in these fields: to spread flows over several ways. Routes
    /// without a way don't count; give one twice for twice its share.
    ///
    /// Some of the lower bits of the fields choose, at most [`SPREAD_BITS`](crate::route::SPREAD_BITS) in all, so that a few rules do for all flows. Who gets
    /// which is the same in every process, and when a way fails only its packets change.
    ///
    /// ```
    /// use maple_core::{Net, PacketHandle, Route};
    /// use maple_wire::Field;
    ///
    /// fn f(pkt: &PacketHandle, net: &Net) -> Route {
    ///     let (Some(src), Some(dst)) = (net.locate(pkt.eth_src()), net.locate(pkt.eth_dst())) else { return net.flood() };
    ///     let ways = ["upper", "lower"].map(|weight| net.path(src, dst, weight));
    ///     Route::one_of(ways, pkt, &[Field::Ipv4Src, Field::TcpSrc])
    /// }
    /// ```
    #[track_caller]
    pub fn one_of(routes: impl IntoIterator<Item = Route>, pkt: &impl Observe, by: &[Field]) -> Route {
        let at = caller(Caller::caller());
        Route::one_by(routes, |field, mask| pkt.read(field, mask, at.clone()), by).from_line(at.clone())
    }
}

impl Net {
    /// Whether the run is still in progress. The other methods panic after it has ended.
    pub fn is_live(&self) -> bool {
        self.0.state.borrow().is_some()
    }

    /// The location of a host, or `None` if it is unknown. The run fails if host tracking is off.
    pub fn locate(&self, mac: Mac) -> Option<Location> {
        self.try_locate(mac).ok().flatten()
    }

    /// Where a host is, if it was seen.
    ///
    /// # Errors
    /// [`PolicyError::HostsNotTracked`] without host tracking; the run fails then, whatever f does with the error.
    pub fn try_locate(&self, mac: Mac) -> Result<Option<Location>, PolicyError> {
        self.need_hosts(mac)?;
        Ok(match self.read(Cell::HostAt(mac)) {
            CellValue::Location(at) => at,
            _ => None,
        })
    }

    /// The host that uses an IP address, and where it is.
    pub fn locate_ip(&self, ip: IpAddr) -> Option<(Mac, Location)> {
        match self.read(Cell::HostByIp(ip)) {
            CellValue::Host(host) => host,
            _ => None,
        }
    }

    /// The IP addresses that a host announced most recently, or `None` for an unknown host.
    pub fn host_addresses(&self, mac: Mac) -> Option<(Vec<Ipv4Addr>, Vec<Ipv6Addr>)> {
        match self.read(Cell::HostAddresses(mac)) {
            CellValue::Addresses(addresses) => addresses,
            _ => None,
        }
    }

    /// All hosts and where they are, by address.
    pub fn hosts(&self) -> Vec<(Mac, Location)> {
        match self.read(Cell::Hosts) {
            CellValue::Hosts(hosts) => hosts,
            _ => Vec::new(),
        }
    }

    /// All switches, by datapath id.
    pub fn switches(&self) -> Vec<Dpid> {
        match self.read(Cell::Switches) {
            CellValue::Switches(switches) => switches,
            _ => Vec::new(),
        }
    }

    /// All links, each once, lower end first.
    pub fn links(&self) -> Vec<(Location, Location)> {
        match self.read(Cell::Links) {
            CellValue::Links(links) => links,
            _ => Vec::new(),
        }
    }

    /// The edge ports of a switch that are up, in order.
    pub fn edge_ports(&self, switch: Dpid) -> Vec<PortNo> {
        match self.read(Cell::EdgePorts(switch)) {
            CellValue::Ports(ports) => ports,
            _ => Vec::new(),
        }
    }

    /// The path with the fewest hops from `a`'s switch out of `b`, or an unreachable route.
    #[track_caller]
    pub fn shortest_path(&self, a: Location, b: Location) -> Route {
        let at = caller(Caller::caller());
        self.path_to(a.switch, b, None).unwrap_or_else(Route::unreachable).from_line(at)
    }

    /// The path of least cost from `a`'s switch out of `b`, or an unreachable route. `weight` names the link attribute
    /// that says what a link costs (1 where it says nothing); [`UTILISATION`](crate::network::UTILISATION) is one that Maple
    /// measures. Without costs of that name this makes the run fail.
    #[track_caller]
    pub fn path(&self, a: Location, b: Location, weight: &str) -> Route {
        let at = caller(Caller::caller());
        self.try_path(a, b, weight)
            .unwrap_or_else(|error| {
                let error = match &at {
                    Some(line) => PolicyError::Exception(format!("{line}: {error}").into()),
                    None => error,
                };
                self.0.state().error.get_or_insert(error);
                Route::unreachable()
            })
            .from_line(at)
    }

    /// The same as [`Net::path`], for callers that have an answer to a name that is not there.
    ///
    /// # Errors
    /// [`PolicyError::NoSuchWeight`] if links have no costs by that name. That is a dependency like any answer, and the
    /// run may go on.
    pub fn try_path(&self, a: Location, b: Location, weight: &str) -> Result<Route, PolicyError> {
        let route = self.path_to(a.switch, b, Some(weight.into()));
        route.ok_or_else(|| PolicyError::NoSuchWeight { name: weight.into(), known: self.weights() })
    }

    /// The names that links have costs by, in order.
    pub fn weights(&self) -> Vec<Name> {
        match self.read(Cell::Weights) {
            CellValue::Names(names) => names,
            _ => Vec::new(),
        }
    }

    /// The network's spanning tree and all edge ports.
    #[track_caller]
    pub fn flood(&self) -> Route {
        Route::flood()
    }

    /// Sends a frame of f's own out of an edge port when the run commits, beside whatever the route says of the packet. Each
    /// packet of the kind comes to the controller then. [`Route::answer`] is for where the packet came from.
    pub fn send(&self, at: Location, frame: Vec<u8>) {
        self.0.state().txn.send(OwnFrame { at, bytes: frame.into() });
    }

    /// Sends a frame of f's own to where the packet came from when the run commits, beside whatever the route says.
    pub fn reply(&self, frame: Vec<u8>) {
        let mut state = self.0.state();
        let at = state.ingress;
        state.txn.send(OwnFrame { at, bytes: frame.into() });
    }

    /// The value at a table's key.
    pub fn get(&self, table: &str, key: &Value) -> Option<Value> {
        self.value(Cell::Table(table.into(), key.clone()))
    }

    /// Whether a table has a key. A dependency on the key's value.
    pub fn contains(&self, table: &str, key: &Value) -> bool {
        self.get(table, key).is_some()
    }

    /// The number of keys in a table.
    pub fn len(&self, table: &str) -> usize {
        match self.read(Cell::TableLen(table.into())) {
            CellValue::Len(len) => len,
            _ => 0,
        }
    }

    /// All keys and values of a table, by key. A dependency on the whole table.
    pub fn entries(&self, table: &str) -> Vec<(Value, Value)> {
        match self.read(Cell::TableAll(table.into())) {
            CellValue::Table(all) => all.iter().map(|(k, v)| (k.clone(), v.clone())).collect(),
            _ => Vec::new(),
        }
    }

    /// A variable's value.
    pub fn var(&self, name: &str) -> Option<Value> {
        self.value(Cell::Var(name.into()))
    }

    /// Puts a value at a table's key.
    #[track_caller]
    pub fn set(&self, table: &str, key: Value, value: Value) {
        self.write(Write::Table { table: table.into(), key, value: Some(value) }, caller(Caller::caller()));
    }

    /// Removes a key from a table.
    #[track_caller]
    pub fn delete(&self, table: &str, key: Value) {
        self.write(Write::Table { table: table.into(), key, value: None }, caller(Caller::caller()));
    }

    /// Sets a variable.
    #[track_caller]
    pub fn set_var(&self, name: &str, value: Value) {
        self.write(Write::Var { name: name.into(), value: Some(value) }, caller(Caller::caller()));
    }

    /// Sets what a link costs by an attribute.
    #[track_caller]
    pub fn set_cost(&self, weight: &str, link: LinkName, cost: u64) {
        self.write(Write::Cost { name: weight.into(), link, cost: Some(cost) }, caller(Caller::caller()));
    }

    /// Does what `f` does, or nothing of it. The run is one transaction anyway; this is for the part of it that may turn
    /// out to be impossible, and for code that serves background threads too.
    ///
    /// # Errors
    /// What `f` says. [`PolicyError::Retry`], or [`Net::retry`], then has the packet wait.
    pub fn atomically<T>(&self, f: impl FnOnce(&Net) -> Result<T, Stop>) -> Result<T, Stop> {
        let before = self.savepoint();
        let done = f(self);
        if done.is_err() {
            self.roll_back(before);
        }
        done
    }

    /// The answer that there is none now: the packet waits until something that the run read has changed, and the run
    /// has no effect.
    pub fn retry(&self) -> Route {
        self.0.state().error.get_or_insert(PolicyError::Retry);
        Route::unreachable()
    }

    /// Withdraws rules when the run commits (the paper's explicit API; tracked state needs none of it).
    pub fn invalidate(&self, selection: Selection) {
        self.0.state().txn.invalidate(selection);
    }

    /// Writes, for bindings that know their own source lines.
    pub fn write(&self, write: Write, source: Option<Source>) {
        let mut state = self.0.state();
        if state.wrote_at.is_none() {
            state.wrote_at = source;
        }
        state.txn.write(write);
    }

    /// The declared types of a table's keys and values, or `None` if none were declared.
    pub fn types(&self, table: &str) -> Option<Arc<Types>> {
        self.0.state().txn.types(table).cloned()
    }

    /// The declared type of a variable, or `None` if none was declared.
    pub fn kind(&self, var: &str) -> Option<Arc<Kind>> {
        self.0.state().txn.kind(var).cloned()
    }

    /// Reads any cell. The named methods are for people.
    pub fn read(&self, cell: Cell) -> CellValue {
        self.0.state().txn.read(cell)
    }

    fn value(&self, cell: Cell) -> Option<Value> {
        match self.read(cell) {
            CellValue::Value(value) => value,
            _ => None,
        }
    }

    /// The best path, of which f has read nothing yet. `None` if no link cost has that name.
    fn path_to(&self, from: Dpid, to: Location, weight: Option<Name>) -> Option<Route> {
        let cell = Cell::Path { from, to: to.switch, weight: weight.clone() };
        let mut state = self.0.state();
        let found = match cell.evaluate(state.txn.peek()) {
            CellValue::Hops(found) => found,
            _ => {
                state.txn.read(cell);
                return None;
            }
        };
        let (route, looked) = Route::path(from, to, weight, found);
        state.paths.push((cell, looked));
        Some(route)
    }

    /// That a table was declared, which never changes, so nothing depends on it; else the run fails with this.
    pub(crate) fn need_table(&self, table: &str, error: PolicyError) -> Result<(), PolicyError> {
        let mut state = self.0.state();
        if state.txn.types(table).is_some() {
            return Ok(());
        }
        state.error.get_or_insert_with(|| error.clone());
        Err(error)
    }

    pub(crate) fn need_hosts(&self, mac: Mac) -> Result<(), PolicyError> {
        let mut state = self.0.state();
        if state.track_hosts {
            return Ok(());
        }
        let error = PolicyError::HostsNotTracked(mac);
        state.error.get_or_insert_with(|| error.clone());
        Err(error)
    }
}

impl Read for Net {
    fn cell(&self, cell: Cell) -> CellValue {
        self.read(cell)
    }
}

impl Access for Net {
    #[track_caller]
    fn put(&self, write: Write) {
        self.write(write, caller(Caller::caller()));
    }

    fn savepoint(&self) -> Savepoint {
        self.0.state().txn.savepoint()
    }

    fn roll_back(&self, to: Savepoint) {
        let mut state = self.0.state();
        state.txn.roll_back(to);
        if !state.txn.wrote() {
            state.wrote_at = None;
        }
    }
}
