//! f's look-ups: what tables hold at fields of the packet ([`crate::look_ups`]).

use std::panic::Location as Caller;

use maple_wire::Field;

use super::{AccountItem, Net, Observe, RunState};
use crate::look_ups::{Classified, Component, KeyBits, LookUp, lock};
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

    fn find(&self, of: &LookUp, component: Component, source: Option<Source>) -> Option<Value> {
        let packet = self.0.packet();
        if !of.fields().all(|field| packet.present(field, source.clone())) {
            return None;
        }
        let looked_up = self.0.state().look_up(of, component, source.clone());
        let (cell, value) = looked_up.unwrap_or_else(|| {
            let read = |field: Field| packet.read(field, field.full_mask(), source.clone()).unwrap_or_default();
            let key: KeyBits = of.fields().map(read).collect();
            let cell = of.cell(&key);
            (cell.clone(), self.0.state().read(cell))
        });
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
        let packet = self.subject.view(self.ingress);
        let key: KeyBits = of.fields().map(|field| self.recorder.peek(&packet, field)).collect();
        let own = of.of_table(self.own(of.table()));
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
