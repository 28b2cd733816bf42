//! The handle through which f observes its packet.

use std::fmt;
use std::panic::Location as Caller;
use std::sync::Arc;

use maple_wire::{Constraint, Dpid, Field, PortNo};

use super::changes::ChangedPacket;
use super::{AccountItem, Run, RunState, RunSubject};
use crate::network::{Mac, RESERVED};
use crate::route::{Route, choose_by};
use crate::trace::{Cond, CondList, ListAnswer, Range, Source, caller};

/// f's view of its packet. Every method records its answer.
#[derive(Clone)]
pub struct PacketHandle(pub(super) Run);

/// Records nothing, so it shows nothing that f could observe.
impl fmt::Debug for PacketHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PacketHandle").finish_non_exhaustive()
    }
}

/// Questions to a packet, each with its source line: for bindings, which know lines that Rust does not.
pub trait Observe {
    /// Returns the field's value under a mask, or `None` if the packet has no such field.
    fn read(&self, field: Field, mask: u128, source: Option<Source>) -> Option<u128>;

    /// Reports whether the packet has the field and it has this value under the mask.
    fn equals(&self, field: Field, value: u128, mask: u128, source: Option<Source>) -> bool;

    /// Reports whether the packet has the field and it lies between these values, both included.
    fn in_range(&self, field: Field, lo: u128, hi: u128, source: Option<Source>) -> bool;

    /// Reports whether the packet has the field.
    fn present(&self, field: Field, source: Option<Source>) -> bool;

    /// Reports whether the packet fits a condition: it has all fields of the condition, and each fits. This is recorded
    /// as one test.
    fn fits(&self, cond: &Cond, source: Option<Source>) -> bool;
}

/// The bit of a MAC address that marks a group address.
const GROUP: u128 = 1 << 40;

impl PacketHandle {
    /// Returns the handle of a run.
    pub(super) fn for_run(run: &Run) -> PacketHandle {
        PacketHandle(run.clone())
    }

    /// Reports whether the run is still in progress. The other methods panic after it has ended.
    pub fn is_live(&self) -> bool {
        self.0.state.borrow().is_some()
    }

    /// Returns the switch where the packet entered the network.
    #[track_caller]
    pub fn switch(&self) -> Dpid {
        let mut state = self.0.state();
        state.read_switch = true;
        let switch = state.ingress.switch;
        state.note_state(Caller::caller(), || AccountItem::Switch(switch));
        switch
    }

    /// Returns the switch where the packet entered, without recording a question: the parts of a composition may not
    /// have asked for it.
    pub(crate) fn ingress(&self) -> Dpid {
        self.0.state().ingress.switch
    }

    /// Returns the value of a field, or `None` if the packet has no such field.
    #[track_caller]
    pub fn get(&self, field: Field) -> Option<u128> {
        self.read(field, field.full_mask(), caller(Caller::caller()))
    }

    /// Reports whether the packet has the field with this value.
    #[track_caller]
    pub fn is(&self, field: Field, value: u128) -> bool {
        self.equals(field, value, field.full_mask(), caller(Caller::caller()))
    }

    /// Reports whether the packet has the field and it lies between these values, both included.
    #[track_caller]
    pub fn within(&self, field: Field, lo: u128, hi: u128) -> bool {
        self.in_range(field, lo, hi, caller(Caller::caller()))
    }

    /// Reports whether the packet fits a condition: it has all fields of the condition, and each fits. Several
    /// conditions on fields are asked as one test. The condition need not state the fields' prerequisites.
    #[track_caller]
    pub fn matches(&self, cond: &Cond) -> bool {
        self.fits(cond, caller(Caller::caller()))
    }

    /// Returns the place of the first condition of a list that the packet fits, as one question. `source` returns the
    /// line of a place; it is called with the list's length if the packet fits none.
    pub fn first_of(&self, list: &Arc<CondList>, source: impl Fn(usize) -> Option<Source>) -> Option<usize> {
        let mut state = self.0.state();
        let RunState { subject, ingress, recorder, changes, tier, .. } = &mut *state;
        let tier = tier.clone();
        let named = |place| match &tier {
            Some(tier) => source(place).map(|source| source.in_tier(tier)),
            None => source(place),
        };
        let packet = subject.view(*ingress);
        let first = ChangedPacket { changes, recorder, packet: &packet, source: None }.first_of(list, named);
        if state.account.is_some() {
            let place = first.unwrap_or(list.conds().len());
            let (list, source) = (Arc::clone(list), source(place));
            state.note(source.as_ref(), || {
                AccountItem::List(ListAnswer { after: 0, list, first: place, source: source.clone() })
            });
        }
        first
    }

    /// Reports whether the packet is for a group of hosts, or for all: the group bit of `eth_dst`. This is a test of
    /// that bit, so all such packets can have one rule, whatever their source.
    #[track_caller]
    pub fn is_multicast(&self) -> bool {
        self.equals(Field::EthDst, GROUP, GROUP, caller(Caller::caller()))
    }

    /// Reports whether the packet is for an address that bridges never forward ([`RESERVED`]). This is a test for each
    /// mask, unless earlier questions have answered it.
    #[track_caller]
    pub fn is_reserved(&self) -> bool {
        let source = caller(Caller::caller());
        RESERVED.iter().any(|(value, mask)| self.equals(Field::EthDst, *value, *mask, source.clone()))
    }

    /// Returns the route with its floods as they are for this packet, as changed so far. A flood leaves out packets for
    /// reserved addresses, so the trace must record whether this is one. A second call asks nothing.
    pub(crate) fn with_floods(&self, route: Route) -> Route {
        if !route.floods_unless_reserved() {
            return route;
        }
        let source = route.made_at().cloned();
        let asked = || self.0.state().recorder.items().len();
        let fits = |(value, mask): &(u128, u128)| {
            let before = asked();
            let answer = self.ask(source.clone(), |packet| packet.equals(Field::EthDst, *value, *mask));
            if answer || asked() > before {
                let cond = || Cond::default().and(Constraint::masked(Field::EthDst, *value, *mask));
                self.note(source.as_ref(), || AccountItem::Test(cond(), answer));
            }
            answer
        };
        let is_reserved = RESERVED.iter().any(fits);
        route.decide_floods(is_reserved)
    }

    /// Returns the source MAC address.
    #[track_caller]
    pub fn eth_src(&self) -> Mac {
        Mac::from_bits(self.get(Field::EthSrc).unwrap_or_default())
    }

    /// Returns the destination MAC address.
    #[track_caller]
    pub fn eth_dst(&self) -> Mac {
        Mac::from_bits(self.get(Field::EthDst).unwrap_or_default())
    }

    /// Returns the port by which the packet entered.
    #[track_caller]
    pub fn in_port(&self) -> PortNo {
        PortNo(self.get(Field::InPort).unwrap_or_default() as u32)
    }

    /// Returns the whole frame, from the Ethernet header on, without its check sequence. No rule can match on it, so
    /// each packet of this kind comes to the controller. Returns `None` if the switch sent only the beginning of the
    /// frame, or if there is no frame.
    #[track_caller]
    pub fn frame(&self) -> Option<Arc<[u8]>> {
        let mut state = self.0.state();
        state.needs_controller = true;
        state.note_state(Caller::caller(), || AccountItem::Frame);
        match &state.subject {
            RunSubject::Frame { bytes, total_len } if bytes.len() >= *total_len => state.changes.frame(bytes),
            _ => None,
        }
    }

    /// Records the action of a rule of an access list that logs. It is reported if the run is committed. Each packet of
    /// this kind comes to the controller.
    pub(crate) fn log(&self, action: impl fmt::Display, rule: Option<&Source>) {
        let mut state = self.0.state();
        state.needs_controller = true;
        let rule = rule.map_or_else(|| "a rule".to_owned(), ToString::to_string);
        state.result.logged.push(format!("{action} by {rule}").into());
    }

    /// Returns the source line of the latest recorded observation whose line is known.
    pub fn last_source(&self) -> Option<Source> {
        self.0.state().recorder.last_source()
    }

    /// Asks the packet as earlier policies of a composition have changed it.
    fn ask<T>(&self, source: Option<Source>, question: impl FnOnce(&mut ChangedPacket<'_>) -> T) -> T {
        let mut state = self.0.state();
        let RunState { subject, ingress, recorder, changes, tier, .. } = &mut *state;
        let source = match tier {
            Some(tier) => source.map(|source| source.in_tier(tier)),
            None => source,
        };
        let packet = subject.view(*ingress);
        question(&mut ChangedPacket { changes, recorder, packet: &packet, source })
    }
}

impl Observe for PacketHandle {
    fn read(&self, field: Field, mask: u128, source: Option<Source>) -> Option<u128> {
        let value = self.ask(source.clone(), |packet| packet.read(field, mask));
        self.note(source.as_ref(), || AccountItem::Field(field, mask, value));
        value
    }

    fn equals(&self, field: Field, value: u128, mask: u128, source: Option<Source>) -> bool {
        let answer = self.ask(source.clone(), |packet| packet.equals(field, value, mask));
        let cond = || Cond::default().and(Constraint::masked(field, value, mask));
        self.note(source.as_ref(), || AccountItem::Test(cond(), answer));
        answer
    }

    fn in_range(&self, field: Field, lo: u128, hi: u128, source: Option<Source>) -> bool {
        let answer = self.ask(source.clone(), |packet| packet.in_range(field, lo, hi));
        let cond = || Cond::default().within(Range { field, lo, hi });
        self.note(source.as_ref(), || AccountItem::Test(cond(), answer));
        answer
    }

    fn present(&self, field: Field, source: Option<Source>) -> bool {
        let answer = self.ask(source.clone(), |packet| packet.present(field));
        self.note(source.as_ref(), || AccountItem::Present(field, answer));
        answer
    }

    fn fits(&self, cond: &Cond, source: Option<Source>) -> bool {
        let answer = self.ask(source.clone(), |packet| packet.matches(cond));
        self.note(source.as_ref(), || AccountItem::Test(cond.clone(), answer));
        answer
    }
}

impl Route {
    /// Chooses one of several routes, the same for packets that agree in these fields: spreads flows over several
    /// paths. Unreachable routes don't count; give a route twice for twice its share.
    ///
    /// Some of the lower bits of the fields choose, at most [`SPREAD_BITS`](crate::route::SPREAD_BITS) in all, so that
    /// a few rules suffice for all flows. The choice is the same in every process. When a path fails, only its packets
    /// change.
    ///
    /// ```
    /// use maple_core::{Net, PacketHandle, Route};
    /// use maple_wire::Field;
    ///
    /// fn f(pkt: &PacketHandle, net: &Net) -> Route {
    ///     let (Some(src), Some(dst)) = (net.locate(pkt.eth_src()), net.locate(pkt.eth_dst())) else { return net.flood() };
    ///     let ways = ["upper", "lower"].map(|costs| net.path(src, dst, costs));
    ///     Route::ecmp(ways, pkt, &[Field::Ipv4Src, Field::TcpSrc])
    /// }
    /// ```
    #[track_caller]
    pub fn ecmp(routes: impl IntoIterator<Item = Route>, pkt: &impl Observe, by: &[Field]) -> Route {
        let at = caller(Caller::caller());
        choose_by(routes, |field, mask| pkt.read(field, mask, at.clone()), by).from_line(at.clone())
    }
}
