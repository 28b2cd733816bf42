//! f's look-ups: what tables hold at fields of the packet ([`crate::look_ups`]).

use maple_wire::Field;

use super::{AccountItem, HostLocation, Net, Observe, PacketHandle, RunState, SwitchLookUps};
use crate::look_ups::{Classified, Component, KeyBits, KeyField, LookUp, LookUpTable, SOURCE_IS_HERE, lock};
use crate::network::{Location, Mac, PortKind};
use crate::policy_error::PolicyError;
use crate::state::{Cell, CellValue, Value};
use crate::trace::Source;

impl Net {
    /// Returns the value that a table has at fields of the packet. Returns `None` if the table lacks the key, or the
    /// packet one of the fields.
    ///
    /// The run observes the value, not the fields: packets with other keys and the same value have the same leaf. That
    /// takes a switch with a table for the look-up. Elsewhere this is a read of the fields and of the table's key.
    pub fn look_up(&self, of: &LookUp, source: Option<Source>) -> Option<Value> {
        self.find(of, Component::Value, source)
    }

    /// Reports whether the switch has tables for look-ups. If not, they are reads of their fields.
    pub fn can_look_up(&self) -> bool {
        self.0.state().look_ups.registers().is_some()
    }

    /// Notes a look-up that is read in another way, because the switch has no tables for look-ups
    /// ([`Net::can_look_up`]).
    pub fn note_without_tables(&self, of: &LookUp) {
        self.0.state().note_without_tables(of);
    }

    /// Reports whether a table has the key that fields of the packet are. The run observes no more than that, as for
    /// [`Net::look_up`].
    pub fn has_key(&self, of: &LookUp, source: Option<Source>) -> bool {
        self.find(of, Component::Presence, source).is_some()
    }

    /// Reports whether the packet's source is known to be where the packet came in, and f can learn that without its
    /// address: the run observes no more. `false` says nothing about the source.
    pub fn is_source_here(&self, source: Option<Source>) -> bool {
        self.0.state().ask_source_here(source)
    }

    /// Returns where the host is whose hardware address a field of the packet has, as [`Net::locate`] does. The run
    /// observes the location, not the address, as for [`Net::look_up`]. Of a source that is where the packet came in,
    /// it observes no more than that. Returns `None` for an unknown host, or if the packet lacks the field.
    ///
    /// # Errors
    /// [`PolicyError::HostsNotTracked`] without host tracking; the run fails then, whatever f does with the error.
    pub fn locate_by(&self, field: Field, source: Option<Source>) -> Result<Option<HostLocation<'_>>, PolicyError> {
        let tracks_hosts = self.0.state().track_hosts;
        if tracks_hosts {
            return Ok(self.place_by(field, source));
        }
        match self.0.packet().read(field, field.full_mask(), source) {
            Some(address) => Ok(self.try_locate(Mac::from_bits(address))?.map(HostLocation::from)),
            None => Ok(None),
        }
    }

    fn place_by(&self, field: Field, source: Option<Source>) -> Option<HostLocation<'_>> {
        if field == Field::EthSrc && self.0.state().ask_source_here(source.clone()) {
            return Some(HostLocation::where_entered(self));
        }
        let opened = self.0.state().find_open(field, source.as_ref());
        if let Some(found) = opened {
            return found.map(|at| HostLocation::found(self, field, at));
        }
        match self.find(&LookUp::of_host(field), Component::Value, source) {
            Some(Value::Location(at)) => Some(at.into()),
            _ => None,
        }
    }

    /// Reports whether the IP address in one field is that of the host whose hardware address another has, as
    /// [`Net::is_bound`] does. The run observes no more than that, as for [`Net::look_up`]. `false` if the packet lacks
    /// a field, or if they have no such addresses.
    pub fn is_bound_by(&self, mac: Field, ip: Field, source: Option<Source>) -> bool {
        LookUp::of_binding(mac, ip).is_some_and(|of| self.has_key(&of, source))
    }

    /// Reads the field of a key. `None` if the packet lacks it.
    pub(crate) fn read_key(&self, KeyField { field, form }: KeyField, source: Option<Source>) -> Option<Value> {
        self.0.packet().read(field, field.full_mask(), source).map(|bits| form.value(bits))
    }

    /// Returns a component of what a look-up finds for the packet, as an observation. `None` if the packet lacks a
    /// field of the key.
    pub(crate) fn find(&self, of: &LookUp, component: Component, source: Option<Source>) -> Option<Value> {
        let packet = self.0.packet();
        if self.can_look_up() && !of.fields().all(|field| packet.present(field, source.clone())) {
            return None;
        }
        let looked_up = self.0.state().look_up(of, component, source.clone());
        let (cell, value) = match looked_up {
            Some(found) => found,
            None => {
                let read = |field: Field| packet.read(field, field.full_mask(), source.clone());
                let key: KeyBits = of.fields().map(read).collect::<Option<_>>()?;
                let mut state = self.0.state();
                let value = of.find(&key, |cell| match cell {
                    Cell::Table(..) if of.is_of_network() => state.result.txn.read(cell),
                    cell => state.read(cell),
                });
                (of.cell(&key), value)
            }
        };
        let mut state = self.0.state();
        if state.account.is_some() {
            // The account says whose address it is. A slice may not have that host.
            let is_evaluated = of.is_of_pairs() && state.slice.is_none();
            let noted = if is_evaluated { cell.evaluate(state.result.txn.peek()) } else { value.clone() };
            state.note(source.as_ref(), || AccountItem::Cell(cell, noted));
        }
        LookUp::value(value)
    }
}

/// The knowledge of a run about what a table that never changes has for its packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FixedValue {
    /// The value; `None` if the table lacks the key, or the packet the field.
    Known(Option<Value>),
    /// The switch can't look that up, so the run has not asked.
    Unknown,
}

impl PacketHandle {
    /// Returns what a table that never changes has at a field of the packet, as [`Net::look_up`] does. If the switch
    /// can't look that up and a leaf may be made, the run does not read the field in its place: there f has another
    /// question.
    pub(crate) fn find_fixed(&self, of: &LookUp, source: Option<Source>) -> FixedValue {
        let makes_leaf = self.0.state().assumed_metadata.is_some();
        if makes_leaf && self.0.state().look_ups.registers().is_none() {
            self.0.state().note_without_tables(of);
            return FixedValue::Unknown;
        }
        if !of.fields().all(|field| self.present(field, source.clone())) {
            return FixedValue::Known(None);
        }
        let looked_up = self.0.state().look_up(of, Component::Value, source.clone());
        let (cell, value) = match looked_up {
            Some(found) => found,
            None if makes_leaf => return FixedValue::Unknown,
            None => {
                let read = |field: Field| self.read(field, field.full_mask(), source.clone());
                let Some(key) = of.fields().map(read).collect::<Option<KeyBits>>() else {
                    return FixedValue::Known(None);
                };
                (of.cell(&key), of.find(&key, |_| CellValue::Value(None)))
            }
        };
        self.note(source.as_ref(), || AccountItem::Cell(cell, value.clone()));
        FixedValue::Known(LookUp::value(value))
    }
}

impl RunState {
    /// Asks whether the packet's source is where the packet came in, if the switch can tell that too.
    fn ask_source_here(&mut self, source: Option<Source>) -> bool {
        let field = Field::EthSrc;
        let is_asked_already = self.recorder.known(field).is_some();
        let Some(registers) = self.look_ups.registers().cloned().filter(|_| self.track_hosts) else { return false };
        // Where the slice has neither the port nor all hosts, it may lack the source though that is here.
        let has_sources = self.slice.as_ref().is_none_or(|slice| slice.has_all_hosts() && slice.has_port(self.ingress));
        if !has_sources || is_asked_already || self.result.txn.wrote() || !self.changes.is_as_entered(field) {
            return false;
        }
        let packet = self.subject.view(self.ingress);
        let mac = Mac::from_bits(self.recorder.peek(&packet, field));
        let cell = Cell::HostAt(mac);
        let assumed = self.assumed_metadata.unwrap_or_default();
        let is_here = if assumed.mask & SOURCE_IS_HERE == 0 {
            let is_edge = self.result.txn.peek().port(self.ingress).is_some_and(|port| port.kind == PortKind::Edge);
            self.result.txn.look_up(cell.clone()) == CellValue::Location(Some(self.ingress)) && is_edge
        } else {
            assumed.value & SOURCE_IS_HERE != 0
        };
        let Classified::As(class) = lock(&registers).source(is_here) else { return false };
        if is_here {
            let at = CellValue::Location(Some(self.ingress));
            self.note(source.as_ref(), || AccountItem::Cell(cell, at));
        }
        let source = self.in_tier(source);
        self.recorder.read_class(class, source);
        is_here
    }

    /// Looks up whether there is a host whose address a field has, and observes no more. `None` if that takes more:
    /// the field is not the destination, or the switch can't do it. Within that, `None` if there is no host, and its
    /// location, if it is known.
    fn find_open(&mut self, field: Field, source: Option<&Source>) -> Option<Option<Option<Location>>> {
        let registers =
            self.look_ups.registers().cloned().filter(|_| field == Field::EthDst && self.slice.is_none())?;
        if !lock(&registers).may_open() {
            return None;
        }
        let look_up = LookUp::of_host(field);
        let (cell, found) = self.look_up(&look_up, Component::Presence, source.cloned())?;
        self.note(source, || AccountItem::Cell(cell.clone(), found.clone()));
        if LookUp::value(found).is_none() {
            return Some(None);
        }
        let of_packet = |run: &mut RunState| LookUp::value(run.result.txn.look_up(cell));
        Some(Some(self.value_of(&look_up, of_packet).flatten().and_then(place_of)))
    }

    /// Observes the location of the host whose address `field` has. `before`: its location when the run learned that
    /// there is such a host. Returns the location; `None` if the packet stands for others and its own host has gone.
    pub(super) fn read_found(
        &mut self,
        field: Field,
        before: Option<Location>,
        source: Option<Source>,
    ) -> Option<Location> {
        let found = self.read_place(field, source);
        // f may have used the place before, and the trace does not say that one.
        self.needs_controller |= found.is_none() || found != before;
        found
    }

    /// Observes where the host is whose address a field has, and returns it.
    pub(super) fn read_place(&mut self, field: Field, source: Option<Source>) -> Option<Location> {
        let look_up = LookUp::of_host(field);
        let found = match self.look_up(&look_up, Component::Value, source.clone()) {
            Some((cell, value)) => {
                self.note(source.as_ref(), || AccountItem::Cell(cell, value.clone()));
                value
            }
            None => {
                let packet = self.subject.view(self.ingress);
                let address = self.recorder.read(&packet, field, field.full_mask(), source.clone())?;
                self.read(look_up.cell(&[address]))
            }
        };
        LookUp::value(found).and_then(place_of)
    }

    /// Returns what a look-up finds for the packets of the run, in the form of [`LookUp::value`]: what they are assumed
    /// to find, or what its own packet finds. `None` if nothing agrees with what is assumed: they find a value, but it
    /// is not said which, and its own packet finds none. All that a run learns from a look-up follows from this.
    /// `of_packet` looks up what its own packet finds.
    fn value_of(
        &mut self,
        look_up: &LookUp,
        of_packet: impl FnOnce(&mut RunState) -> Option<Value>,
    ) -> Option<Option<Value>> {
        let assumed = |of| {
            let registers = self.look_ups.registers()?;
            lock(registers).found(look_up, of, self.assumed_metadata?)
        };
        match (assumed(Component::Value), assumed(Component::Presence)) {
            (Some(value), None) => Some(value),
            (Some(value), Some(present)) => (value.is_some() == present.is_some()).then_some(value),
            (None, Some(None)) => Some(None),
            (None, Some(Some(_))) => of_packet(self).map(Some),
            (None, None) => Some(of_packet(self)),
        }
    }

    /// Notes a look-up that the switch has no table for, unless the run has read all fields of its key before or is to
    /// read the packet as it has changed.
    fn note_without_tables(&self, of: &LookUp) {
        let SwitchLookUps::NotedReads(registers) = &self.look_ups else { return };
        let is_known = || of.fields().all(|field| self.recorder.known(field).is_some());
        if !self.result.txn.wrote() && of.fields().all(|field| self.changes.is_as_entered(field)) && !is_known() {
            lock(registers).note_without_tables(of);
        }
    }

    fn in_tier(&self, source: Option<Source>) -> Option<Source> {
        match &self.tier {
            Some(tier) => source.map(|source| source.in_tier(tier)),
            None => source,
        }
    }

    /// Looks up what the packet's fields have in a table, if the switch can do that too. The packet has the fields.
    fn look_up(&mut self, of: &LookUp, component: Component, source: Option<Source>) -> Option<(Cell, CellValue)> {
        let Some(registers) = self.look_ups.registers().cloned() else {
            self.note_without_tables(of);
            return None;
        };
        let is_known = || of.fields().all(|field| self.recorder.known(field).is_some());
        if self.result.txn.wrote() || !of.fields().all(|field| self.changes.is_as_entered(field)) || is_known() {
            return None;
        }
        // A slice has the host of the packet if that is where the packet came in. So it sees whose its address is.
        let has_pairs = of.is_of_pairs()
            && (self.slice.is_none()
                || of.fields().next() == Some(Field::EthSrc) && self.ask_source_here(source.clone()));
        let (own, component) = match (of.table(), &self.slice) {
            (LookUpTable::Named(table), _) => (of.of_table(self.own(table)), component),
            (LookUpTable::Hosts, None) => (of.clone(), component),
            // Whether a slice has a host follows from where the host is, unless it has only some hosts of its ports.
            (LookUpTable::Hosts, Some(slice)) if slice.has_all_hosts() => (of.clone(), Component::Value),
            (LookUpTable::Bindings | LookUpTable::Leased, _) if has_pairs => (of.clone(), component),
            (LookUpTable::Learned(_) | LookUpTable::Fixed(_), _) => (of.clone(), component),
            (LookUpTable::Hosts | LookUpTable::Bindings | LookUpTable::Leased, _) => return None,
        };
        let packet = self.subject.view(self.ingress);
        let key: KeyBits = of.fields().map(|field| self.recorder.peek(&packet, field)).collect();
        let of_packet = |run: &mut RunState| LookUp::value(own.find(&key, |cell| run.result.txn.look_up(cell)));
        let found = self.value_of(&own, of_packet);
        let value = match (found, component, own.table()) {
            (Some(found), ..) => own.cell_value(found),
            (None, Component::Presence, LookUpTable::Hosts) => CellValue::Location(Some(self.ingress)),
            (None, Component::Presence, _) => CellValue::Value(Some(Value::None)),
            (None, Component::Value, _) => {
                // No answer agrees with what is known of the packets, so this one is for none of them.
                self.needs_controller = true;
                own.cell_value(None)
            }
        };
        if self.is_made_up && !lock(&registers).may_foresee(&own, component) {
            self.result.asks_first = true;
            return None;
        }
        let class = lock(&registers).classify(&own, component, LookUp::value(value.clone()).as_ref());
        match class {
            Classified::Lowered => return None,
            Classified::As(class) => {
                let source = self.in_tier(source);
                self.recorder.read_class(class, source);
            }
            Classified::TooMany => self.needs_controller = true,
        }
        let value = match (&self.slice, value) {
            (Some(slice), CellValue::Location(at)) => CellValue::Location(at.filter(|at| slice.has_port(*at))),
            (_, value) => value,
        };
        Some((of.cell(&key), value))
    }
}

/// Returns the place that a value is.
fn place_of(value: Value) -> Option<Location> {
    if let Value::Location(at) = value { Some(at) } else { None }
}
