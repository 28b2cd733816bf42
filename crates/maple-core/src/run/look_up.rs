//! f's look-ups: what tables hold at fields of the packet ([`crate::look_ups`]).

use std::panic::Location as Caller;

use maple_wire::Field;

use super::{AccountItem, Net, Observe, RunState};
use crate::look_ups::{Classified, Component, KeyBits, LookUp, LookUpTable, lock};
use crate::network::{Location, Mac};
use crate::state::{Cell, CellValue, Value};
use crate::trace::{Source, caller};

impl Net {
    /// Returns the value that a table has at fields of the packet. Returns `None` if the table lacks the key, or the
    /// packet one of the fields.
    ///
    /// The run observes the value, not the fields: packets with other keys and the same value have the same leaf. That
    /// takes a switch with a table for the look-up. Elsewhere this is a read of the fields and of the table's key.
    #[track_caller]
    pub fn look_up(&self, of: &LookUp) -> Option<Value> {
        self.find(of, Component::Value, caller(Caller::caller()))
    }

    /// Reports whether a table has the key that fields of the packet are. The run observes no more than that, as for
    /// [`Net::look_up`].
    #[track_caller]
    pub fn has_key(&self, of: &LookUp) -> bool {
        self.find(of, Component::Presence, caller(Caller::caller())).is_some()
    }

    /// Returns where the host is whose hardware address a field of the packet has, as [`Net::locate`] does. The run
    /// observes the location, not the address, as for [`Net::look_up`]. Returns `None` for an unknown host, or if the
    /// packet lacks the field. The run fails if host tracking is off.
    #[track_caller]
    pub fn locate_by(&self, field: Field) -> Option<Location> {
        let source = caller(Caller::caller());
        if !self.0.state().track_hosts {
            let address = self.0.packet().read(field, field.full_mask(), source)?;
            return self.try_locate(Mac::from_bits(address)).ok().flatten();
        }
        match self.find(&LookUp::of_host(field), Component::Value, source) {
            Some(Value::Location(at)) => Some(at),
            _ => None,
        }
    }

    fn find(&self, of: &LookUp, component: Component, source: Option<Source>) -> Option<Value> {
        let packet = self.0.packet();
        let can_look_up = self.0.state().registers.is_some();
        if can_look_up && !of.fields().all(|field| packet.present(field, source.clone())) {
            return None;
        }
        let looked_up = self.0.state().look_up(of, component, source.clone());
        let (cell, value) = match looked_up {
            Some(found) => found,
            None => {
                let read = |field: Field| packet.read(field, field.full_mask(), source.clone());
                let key: KeyBits = of.fields().map(read).collect::<Option<_>>()?;
                let cell = of.cell(&key);
                (cell.clone(), self.0.state().read(cell))
            }
        };
        self.0.state().note(source.as_ref(), || AccountItem::Cell(cell, value.clone()));
        LookUp::value(value)
    }
}

impl RunState {
    /// Looks up what the packet's fields have in a table, if the switch can do that too. The packet has the fields.
    fn look_up(&mut self, of: &LookUp, component: Component, source: Option<Source>) -> Option<(Cell, CellValue)> {
        let registers = self.registers.clone()?;
        let is_known = || of.fields().all(|field| self.recorder.known(field).is_some());
        if self.result.txn.wrote() || !of.fields().all(|field| self.changes.is_as_entered(field)) || is_known() {
            return None;
        }
        let own = match of.table() {
            LookUpTable::Named(table) => of.of_table(self.own(table)),
            // A slice sees a part of the hosts.
            LookUpTable::Hosts if self.slice.is_some() => return None,
            LookUpTable::Hosts => of.clone(),
        };
        let packet = self.subject.view(self.ingress);
        let key: KeyBits = of.fields().map(|field| self.recorder.peek(&packet, field)).collect();
        let value = self.result.txn.look_up(own.cell(&key));
        let class = lock(&registers).classify(&own, component, LookUp::value(value.clone()).as_ref());
        match class {
            Classified::Lowered => return None,
            Classified::As(class) => {
                let source = match &self.tier {
                    Some(tier) => source.map(|source| source.in_tier(tier)),
                    None => source,
                };
                self.recorder.read_class(class, source);
            }
            Classified::TooMany => self.each = true,
        }
        Some((of.cell(&key), value))
    }
}
