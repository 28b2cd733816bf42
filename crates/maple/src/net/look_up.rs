//! Look-ups: what a table has at a field of the packet.

use maple_core::look_ups::{KeyField, KeyForm, LookUp};
use maple_core::state::{Kind, Stored, Table, WrongType};
use maple_core::trace::Source;
use maple_wire::Field;

use super::Net;
use crate::field::{FieldValue, PacketField};

impl Net {
    /// Returns the value that a table has at a field of the packet. `None` if the table lacks the key, or the packet
    /// the field.
    ///
    /// The run observes the value and not the field, so packets that find equal values share a rule. That takes a
    /// switch with a table for the look-up (`maple run --look-ups`). Elsewhere this is a read of the field, as
    /// [`Table::get`] with the field's value is everywhere. It also is one for `vlan_vid`, for a field that the run has
    /// read, and after the run has written to state.
    ///
    /// ```
    /// use maple::testing::*;
    ///
    /// fn by_group(groups: &Table<Mac, i64>, pkt: &Packet, net: &Net) -> Route {
    ///     match net.look_up(groups, pkt.eth_src()) {
    ///         Some(port @ 1..=4) => Route::to([PortNo(port as u32)]),
    ///         _ => Route::drop(),
    ///     }
    /// }
    ///
    /// let groups = Table::<Mac, i64>::new("groups");
    /// let bench = Bench::new().switch(1, 1..=2);
    /// let policy = move |pkt: &Packet, net: &Net| by_group(&groups, pkt, net);
    /// assert!(bench.decide(&policy, &tcp(1024, 80), bench.port(1, 1)).exits().is_empty());
    /// ```
    ///
    /// # Panics
    /// If the value is not a `V`: others can write tables too. In a policy a panic is an error of this packet.
    #[track_caller]
    #[must_use]
    pub fn look_up<K: Stored, V: Stored, F: FieldValue + Into<K>>(
        &self,
        table: &Table<K, V>,
        key: PacketField<'_, F>,
    ) -> Option<V> {
        let Some(look_up) = of_field::<K>(table.name(), key.field()) else {
            return table.get(self, &key.value()?.into());
        };
        let value = self.0.look_up(&look_up, Some(Source::here()))?;
        let wrong = || {
            let (place, value, wanted) = (look_up.to_string(), value.clone(), std::any::type_name::<V>());
            panic!("{}", WrongType { place, value, wanted })
        };
        Some(V::from_value(&value).unwrap_or_else(wrong))
    }

    /// Reports whether a table has the key that a field of the packet is. The run observes no more than that, as for
    /// [`Net::look_up`].
    ///
    /// ```
    /// use maple::testing::*;
    ///
    /// let blocked = Table::<Mac, bool>::new("blocked");
    /// let policy = move |pkt: &Packet, net: &Net| {
    ///     if net.has_key(&blocked, pkt.eth_src()) { Route::drop() } else { net.flood() }
    /// };
    /// let bench = Bench::new().switch(1, 1..=2);
    /// assert_eq!(bench.decide(&policy, &tcp(1024, 80), bench.port(1, 1)).exits(), [bench.port(1, 2)]);
    /// ```
    #[track_caller]
    #[must_use]
    pub fn has_key<K: Stored, V: Stored, F: FieldValue + Into<K>>(
        &self,
        table: &Table<K, V>,
        key: PacketField<'_, F>,
    ) -> bool {
        match of_field::<K>(table.name(), key.field()) {
            Some(look_up) => self.0.has_key(&look_up, Some(Source::here())),
            None => key.value().is_some_and(|key| table.contains(self, &key.into())),
        }
    }
}

/// Returns the look-up of a table with keys of a type at a field. `None` if a switch can't do it.
fn of_field<K: Stored>(table: &str, field: Field) -> Option<LookUp> {
    let form = match K::kind() {
        Kind::Int => KeyForm::Int,
        Kind::Mac => KeyForm::Mac,
        Kind::Ipv4 => KeyForm::Ipv4,
        Kind::Ipv6 => KeyForm::Ipv6,
        _ => return None,
    };
    (field != Field::VlanVid).then(|| LookUp::by(table, KeyField { field, form }))
}
