//! One run of f: its packet under tracing, its state in a transaction, and f's handles on both.
//!
//! Handles are owned and cheap to clone, so that a binding can wrap them in its language's objects. They end with the
//! run: [`Run::finish`] takes packet and state away, and a handle that f kept panics when used afterwards (bindings
//! ask [`PacketHandle::is_live`] first), because what is not recorded must not be observable.

use std::cell::{RefCell, RefMut};
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use maple_wire::{Dpid, Field, Packet, PortNo};

use crate::ids::{Name, Time};
use crate::look_ups::{LookUp, SharedRegisters, lock};
use crate::network::{Location, Mac, Scope};
use crate::policy_error::PolicyError;
use crate::route::{Goal, OmittedPlace, OpenGoal, Resolved, Route, RouteError, RouteView};
use crate::state::{Cell, Snapshot, Txn};
use crate::trace::{Cond, Fields, ReadMetadata, Recorder, Source, Trace};

mod account;
mod changes;
mod guarded;
mod host_location;
mod look_up;
mod net;
mod open_paths;
mod own_state;
mod packet_handle;
mod slice;

#[cfg(test)]
mod tests;

pub use account::{AccountItem, AccountStep, MAX_STEPS};
pub(crate) use changes::FieldChanges;
pub use guarded::Violation;
pub use host_location::HostLocation;
pub(crate) use look_up::FixedValue;
pub use net::Net;
use open_paths::RequestedPath;
pub use packet_handle::{Observe, PacketHandle};

/// One run of f.
#[derive(Clone)]
pub struct Run {
    state: Rc<RefCell<Option<RunState>>>,
    /// The clock by which the run notes how long f takes, if it does.
    stopwatch: Option<fn() -> Time>,
}

impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run").finish_non_exhaustive()
    }
}

struct RunState {
    subject: RunSubject,
    ingress: Location,
    track_hosts: bool,
    /// Whether nobody has sent the packet.
    is_made_up: bool,
    recorder: Recorder,
    look_ups: SwitchLookUps,
    /// The bits of the metadata that the packet is assumed to have, whatever the tables say of it. `None`: the answer
    /// is about this packet only, and no leaf is made of it.
    assumed_metadata: Option<ReadMetadata>,
    /// The fields that earlier policies of a composition wrote into the packet.
    changes: FieldChanges,
    /// The tier of a composition that is running.
    tier: Option<Name>,
    /// The slice that is running.
    slice: Option<Scope>,
    read_switch: bool,
    /// Whether every packet that this trace matches must come to the controller.
    needs_controller: bool,
    routes: RunRoutes,
    /// The account of all that the run observes, if it keeps one.
    account: Option<Box<account::Account>>,
    /// The result so far. Its trace and its account come when the run ends.
    result: RunResult,
}

/// The routes that f requested, and what constraints make of the one that it returns.
#[derive(Default)]
struct RunRoutes {
    /// The paths that f requested.
    paths: Vec<RequestedPath>,
    /// Whether a constraint has judged the hops. The leaf then keeps exactly these.
    is_judged: bool,
    /// Whether a constraint demands that the packet passes the switches of its route.
    must_follow_hops: bool,
    /// The route that a user's constraint judges at the moment.
    view: Option<Arc<RouteView>>,
}

/// A frame's captured bytes, its length on the wire, and where it came in.
pub(crate) type ReceivedFrame = (Arc<[u8]>, usize, Location);

/// The subject of one run of f: what it decides about.
enum RunSubject {
    Frame { bytes: Arc<[u8]>, total_len: usize },
    Headers(Rc<dyn Fields>),
}

/// Headers without any field.
struct NoFields;

/// The view of a subject through which its fields are read.
enum SubjectView<'a> {
    Packet(Packet<'a>),
    Headers(&'a dyn Fields),
}

/// The result of a run.
#[derive(Debug)]
pub struct RunResult {
    /// The observations of the packet.
    pub trace: Trace,
    /// The cells that f read and wrote.
    pub txn: Txn,
    /// The first error that f received. It makes f's route invalid.
    pub error: Option<PolicyError>,
    /// The line where f first wrote, if it did and the line is known.
    pub wrote_at: Option<Source>,
    /// The line that made the route, if it is known and the run has a route.
    pub made_at: Option<Source>,
    /// The place in f that made the route, if the route's only port is the one where the packet came in: a switch sends
    /// nothing there.
    pub goes_back: Option<Arc<str>>,
    /// The places that the route leaves out because they are absent.
    pub left_out: Vec<OmittedPlace>,
    /// The listeners that receive the packet, a bit for each of [`crate::engine::Options::listener_filters`].
    pub listeners: u64,
    /// The routes that constraints refused; the packet takes another route, mostly a drop.
    pub violations: Vec<Violation>,
    /// The texts that rules of access lists report about the packet: `deny by acl.yaml:12`.
    pub logged: Vec<Arc<str>>,
    /// All that f observed, if the run kept an account ([`Run::with_account`]).
    pub account: Vec<AccountStep>,
    /// Whether f wrote output, such as a line on the screen, as far as its language reports
    /// ([`Net::keeps_output_back`]).
    pub has_output: bool,
    /// Whether the packet is made up, and f looks up what no packet has looked up yet, for which the last table is
    /// kept.
    pub asks_first: bool,
    /// The time that f took; zero if that was not noted ([`Run::decide_each`]).
    pub took: Duration,
}

impl RunResult {
    /// Creates the result of a run that has done nothing yet, in this transaction.
    fn new(txn: Txn) -> RunResult {
        RunResult {
            trace: Trace::default(),
            txn,
            error: None,
            wrote_at: None,
            made_at: None,
            goes_back: None,
            left_out: Vec::new(),
            listeners: 0,
            violations: Vec::new(),
            logged: Vec::new(),
            account: Vec::new(),
            has_output: false,
            asks_first: false,
            took: Duration::ZERO,
        }
    }

    /// Reports whether the answer holds for later packets too: the trace lasts, and the run wrote nothing.
    pub fn lasts(&self) -> bool {
        self.trace.lasts() && !self.txn.wrote()
    }
}

impl Run {
    /// Starts a run over `frame`, the captured bytes of a packet that had `total_len` bytes on the wire and entered at
    /// `ingress`.
    pub fn new(frame: Arc<[u8]>, total_len: usize, ingress: Location, txn: Txn, track_hosts: bool) -> Run {
        let subject = RunSubject::Frame { bytes: frame, total_len };
        Run::start(subject, ingress, txn, track_hosts, Recorder::new())
    }

    /// Starts a run over abstract headers, which hold field values themselves: there is no frame, and no place where it
    /// entered.
    pub fn of_headers(headers: Rc<dyn Fields>, txn: Txn) -> Run {
        let nowhere = Location::new(Dpid(0), PortNo(0));
        Run::start(RunSubject::Headers(headers), nowhere, txn, false, Recorder::of_headers())
    }

    /// Starts a run of a query, with state and a packet that has no fields.
    pub(crate) fn of_state(txn: Txn, track_hosts: bool) -> Run {
        let nowhere = Location::new(Dpid(0), PortNo(0));
        Run::start(RunSubject::Headers(Rc::new(NoFields)), nowhere, txn, track_hosts, Recorder::of_headers())
    }

    fn start(subject: RunSubject, ingress: Location, txn: Txn, track_hosts: bool, recorder: Recorder) -> Run {
        let state = RunState {
            subject,
            ingress,
            track_hosts,
            is_made_up: false,
            recorder,
            look_ups: SwitchLookUps::Reads,
            assumed_metadata: None,
            changes: FieldChanges::default(),
            tier: None,
            slice: None,
            read_switch: false,
            needs_controller: false,
            routes: RunRoutes::default(),
            account: None,
            result: RunResult::new(txn),
        };
        Run { state: Rc::new(RefCell::new(Some(state))), stopwatch: None }
    }

    /// Lets the run record look-ups, with the registers of its ingress switch.
    #[must_use]
    pub(crate) fn with_registers(self, registers: SharedRegisters) -> Run {
        self.state().look_ups = SwitchLookUps::Recorded(registers);
        self
    }

    /// Lets the run note the look-ups that it asks for, which its ingress switch has no tables for.
    #[must_use]
    pub(crate) fn without_tables(self, registers: SharedRegisters) -> Run {
        self.state().look_ups = SwitchLookUps::NotedReads(registers);
        self
    }

    /// Lets a leaf be made of the answer, for packets with these bits of the metadata: the run finds what they find,
    /// whatever the tables say of its own packet.
    #[must_use]
    pub(crate) fn for_leaf(self, metadata: ReadMetadata) -> Run {
        self.state().assumed_metadata = Some(metadata);
        self
    }

    /// Lets the run note by a clock how long f takes.
    #[must_use]
    pub(crate) fn timed_by(self, stopwatch: Option<fn() -> Time>) -> Run {
        Run { stopwatch, ..self }
    }

    /// Lets f decide each run of a batch, in order, and notes how long each takes: a policy that decides batches in its
    /// own way ([`Policy::decide_batch`](crate::policy::Policy::decide_batch)) does so by this.
    pub fn decide_each<T>(runs: &[Run], mut decide: impl FnMut(&Run) -> T) -> Vec<T> {
        let stopwatch = runs.first().and_then(|run| run.stopwatch);
        let mut before = stopwatch.map(|now| now());
        let decide_one = |run: &Run| {
            let answer = decide(run);
            if let (Some(began), Some(now)) = (before, stopwatch) {
                let ended = now();
                before = Some(ended);
                if let Some(state) = run.state.borrow_mut().as_mut() {
                    state.result.took = Duration::from_nanos(ended.0.saturating_sub(began.0));
                }
            }
            answer
        };
        runs.iter().map(decide_one).collect()
    }

    /// Returns how long f took; zero if that was not noted, or after [`Run::finish`].
    pub(crate) fn took(&self) -> Duration {
        self.state.borrow().as_ref().map(|state| state.result.took).unwrap_or_default()
    }

    /// Returns the line at which the run ended with f's answer: the one whose route a constraint refused, the one that
    /// made the route, or the last one that asked something. `None` if no line is known, or after [`Run::finish`].
    pub(crate) fn ended_at_line(&self, answer: &Result<Route, PolicyError>) -> Option<Source> {
        let state = self.state.borrow();
        let state = state.as_ref()?;
        let refused = state.result.violations.last().and_then(|violation| violation.place.as_ref());
        let made = match answer {
            Ok(route) => route.made_at(),
            Err(PolicyError::Route { made_at, .. }) => made_at.as_ref(),
            Err(_) => None,
        };
        refused.or(made).cloned().or_else(|| state.recorder.last_source())
    }

    /// Marks the packet as one that nobody has sent. Then the answer does not last if f prints, or if it is not
    /// allowed.
    pub(crate) fn made_up(self) -> Run {
        self.state().is_made_up = true;
        self
    }

    /// Reports whether nobody has sent the packet.
    pub(crate) fn is_made_up(&self) -> bool {
        self.state().is_made_up
    }

    /// Returns the packet as it was received, the state that the run began with, and whether hosts are tracked. Returns
    /// `None` if the run has ended, or is over abstract headers.
    pub(crate) fn subject(&self) -> Option<(ReceivedFrame, Arc<Snapshot>, bool)> {
        let state = self.state.borrow();
        let state = state.as_ref()?;
        let RunSubject::Frame { bytes, total_len } = &state.subject else { return None };
        let received = (Arc::clone(bytes), *total_len, state.ingress);
        Some((received, state.result.txn.base(), state.track_hosts))
    }

    /// Returns the handle through which f observes the packet.
    pub fn packet(&self) -> PacketHandle {
        PacketHandle::for_run(self)
    }

    /// Returns the handle through which f reads and writes the network's state.
    pub fn net(&self) -> Net {
        Net::for_run(self)
    }

    /// Reads the fields of the packet that a switch without a second table must match besides f's trace: its location,
    /// and, if a label replaces its VLAN id (`reads_vlan`), that id.
    pub(crate) fn read_location(&self, reads_vlan: bool) {
        let mut state = self.state();
        let RunState { subject, ingress, recorder, result: RunResult { txn, .. }, track_hosts, .. } = &mut *state;
        let packet = subject.view(*ingress);
        recorder.read(&packet, Field::InPort, Field::InPort.full_mask(), None);
        txn.read(Cell::Port(*ingress));
        if *track_hosts && let Some(source) = recorder.read(&packet, Field::EthSrc, Field::EthSrc.full_mask(), None) {
            txn.read(Cell::HostAt(Mac::from_bits(source)));
        }
        if reads_vlan {
            recorder.read(&packet, Field::VlanVid, Field::VlanVid.full_mask(), None);
        }
    }

    /// Asks the packet which of these conditions it fits. A listener that receives one such packet receives all of
    /// them.
    pub(crate) fn hear(&self, wanted: &[Cond]) {
        let mut state = self.state();
        let RunState { subject, ingress, recorder, .. } = &mut *state;
        let packet = subject.view(*ingress);
        let mut listeners = 0;
        for (number, cond) in wanted.iter().enumerate() {
            listeners |= u64::from(recorder.matches(&packet, cond, None)) << number;
        }
        state.result.listeners = listeners;
        state.needs_controller |= listeners != 0;
    }

    /// Checks f's answer against the packet and the network. Returns the part of this answer that lasts, and where the
    /// packet goes. Reads of the packet belong to the trace. Reads of the network are dependencies, except for a plan.
    ///
    /// # Errors
    /// [`PolicyError::Route`] if the route can't be followed, or if a frame of f's own can't be sent.
    pub(crate) fn resolve(&self, route: &Route) -> Result<(Goal, Arc<Resolved>), PolicyError> {
        let route = &self.with_floods(route);
        let mut state = self.state();
        state.result.made_at = route.made_at().cloned();
        if let Some(open) = state.open_goal(route) {
            return open.map_err(|error| PolicyError::Route { error, made_at: route.made_at().cloned() });
        }
        let RunState { subject, ingress, recorder, result: RunResult { txn, .. }, routes, .. } = &mut *state;
        let packet = subject.view(*ingress);
        // These are reads, not tests: a rule that rewrites a field must state the field's prerequisites in its match
        // (1.3 §7.2.5). It is not enough that they follow from failed tests.
        let mut ask = |field, value, mask| recorder.read(&packet, field, mask, None) == Some(value & mask);
        let resolved = route.goal(ingress.switch, routes.is_judged, txn, &mut ask);
        if resolved.as_ref().is_ok_and(|(_, resolved)| route.goes_back(resolved, *ingress)) {
            let place = route.made_at().map_or_else(|| "in the policy".into(), ToString::to_string);
            state.result.goes_back = Some(place.into());
        }
        let resolved = resolved.and_then(|planned| {
            let came_in = state.ingress;
            let own = route.own_frames(came_in, &mut state.result.txn)?;
            state.result.left_out = match &planned.0 {
                Goal::Plan(plan) => state.result.txn.peek().left_out(plan),
                Goal::Fixed(_) | Goal::Open(_) => route.left_out(came_in.switch, state.result.txn.peek()),
            };
            let must_follow_hops = state.routes.must_follow_hops && !planned.1.switches.is_empty();
            if own.is_empty() && !must_follow_hops {
                return Ok(planned);
            }
            state.needs_controller |= !own.is_empty();
            let resolved = Arc::new(Resolved { own, must_follow_hops, ..(*planned.1).clone() });
            Ok((Goal::Fixed(Arc::clone(&resolved)), resolved))
        });
        resolved.map_err(|error| PolicyError::Route { error, made_at: route.made_at().cloned() })
    }

    /// Returns f's answer with its floods as they are for this packet: a packet that bridges never forward is not
    /// flooded.
    pub fn with_floods(&self, route: &Route) -> Route {
        self.packet().with_floods(route.clone())
    }

    /// Returns where the packet goes by f's answer, as [`Policy`](crate::policy::Policy) gives it.
    ///
    /// # Errors
    /// [`PolicyError::Route`] says why the packet can't go there.
    pub fn resolved(&self, route: &Route) -> Result<Arc<Resolved>, PolicyError> {
        Ok(self.resolve(route)?.1)
    }

    /// Returns what f has observed of its packet so far; nothing if the run has ended.
    pub fn observed(&self) -> Trace {
        let mut state = self.state.borrow_mut();
        let observed = |state: &mut RunState| {
            state.observe_read_ends();
            state.recorder.so_far()
        };
        state.as_mut().map(observed).unwrap_or_default()
    }

    /// Ends the run. Returns `None` if the run has already ended.
    pub fn finish(&self) -> Option<RunResult> {
        let mut state = self.state.borrow_mut().take()?;
        state.observe_read_ends();
        for cell in state.routes.paths.iter().flat_map(RequestedPath::cells) {
            state.result.txn.read(cell);
        }
        let account = state.take_account();
        let mut trace = state.recorder.finish();
        trace.read_switch |= state.read_switch;
        // People would take output and violations of a made-up packet for those of a real one.
        let RunResult { has_output, violations, asks_first, .. } = &state.result;
        let is_for_people = *has_output || !violations.is_empty();
        trace.needs_controller = state.needs_controller || state.is_made_up && (is_for_people || *asks_first);
        Some(RunResult { trace, account, ..state.result })
    }

    /// Returns the state, for what f asks or does next. What f has read of paths is observed before.
    fn state(&self) -> RefMut<'_, RunState> {
        let state = self.state.borrow_mut();
        let mut state = RefMut::map(state, |state| state.as_mut().expect("a handle was used after its run"));
        state.observe_read_ends();
        state
    }
}

impl RunState {
    /// Returns the goal of a route that is the best path to whatever a look-up finds, with the hops of this packet.
    /// `None` if the route is another one, or its switch has other open paths: then the run observes where all its
    /// paths end.
    fn open_goal(&mut self, route: &Route) -> Option<Result<(Goal, Arc<Resolved>), RouteError>> {
        let ingress = self.ingress.switch;
        let is_free = !self.routes.is_judged
            && !self.routes.must_follow_hops
            && self.slice.is_none()
            && self.result.txn.sends().is_empty();
        let registers = self.look_ups.registers().cloned().filter(|_| is_free);
        let open = registers
            .zip(self.open_path(route))
            .filter(|(registers, (paths, field))| lock(registers).claim_paths(&LookUp::of_host(*field), paths.clone()));
        let Some((_, (paths, _))) = open else {
            self.observe_ends();
            return None;
        };
        let (goal, state) = (OpenGoal { ingress, paths }, self.result.txn.peek());
        // Where a packet that stands for others would go says nothing of these.
        let is_for_others = self.assumed_metadata.is_some_and(|assumed| assumed.mask != 0);
        let resolved = match route.hops_of_packet(ingress, state) {
            Ok(resolved) => resolved,
            Err(_) if is_for_others => Arc::default(),
            Err(error) => return Some(Err(error)),
        };
        self.result.left_out = if is_for_others { Vec::new() } else { route.left_out(ingress, state) };
        Some(Ok((Goal::Open(goal), resolved)))
    }
}

/// What becomes of f's look-ups at the ingress switch.
enum SwitchLookUps {
    /// They are reads of their keys' fields.
    Reads,
    /// They are reads, because the switch has no tables for them. Its registers note which.
    NotedReads(SharedRegisters),
    /// They are recorded, with the registers of the switch.
    Recorded(SharedRegisters),
}

impl SwitchLookUps {
    /// Returns the registers with which look-ups are recorded.
    fn registers(&self) -> Option<&SharedRegisters> {
        if let SwitchLookUps::Recorded(registers) = self { Some(registers) } else { None }
    }
}

impl RunSubject {
    fn view(&self, ingress: Location) -> SubjectView<'_> {
        match self {
            RunSubject::Frame { bytes, total_len } => {
                SubjectView::Packet(Packet::with_wire_len(bytes, ingress.port.0, *total_len))
            }
            RunSubject::Headers(headers) => SubjectView::Headers(&**headers),
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

impl Fields for SubjectView<'_> {
    fn value(&self, field: Field) -> Option<u128> {
        match self {
            SubjectView::Packet(packet) => Fields::value(packet, field),
            SubjectView::Headers(headers) => headers.value(field),
        }
    }

    fn is_captured(&self, field: Field) -> bool {
        match self {
            SubjectView::Packet(packet) => Fields::is_captured(packet, field),
            SubjectView::Headers(headers) => headers.is_captured(field),
        }
    }
}
