//! The label ids of a switch: which are free, in use, or at rest.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use maple_wire::{Dpid, PortNo};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use super::LabelKey;
use crate::ids::Time;

/// The VLAN ids that labels may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "RangeInclusive<u16>", into = "RangeInclusive<u16>")]
pub struct LabelRange {
    first: u16,
    last: u16,
}

/// The error for a range that can't be a [`LabelRange`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{first} to {last} are no VLAN ids for labels: they lie within 1 to 4094, the first not above the last")]
pub struct LabelRangeError {
    first: u16,
    last: u16,
}

impl TryFrom<RangeInclusive<u16>> for LabelRange {
    type Error = LabelRangeError;

    fn try_from(ids: RangeInclusive<u16>) -> Result<LabelRange, LabelRangeError> {
        LabelRange::new(ids)
    }
}

impl From<LabelRange> for RangeInclusive<u16> {
    fn from(range: LabelRange) -> RangeInclusive<u16> {
        range.ids()
    }
}

impl LabelRange {
    /// All ids that IEEE 802.1Q allows for networks: 0 marks a tag with a priority only, and 4095 is reserved (§9.6
    /// there).
    pub const ALL: LabelRange = LabelRange { first: 1, last: 4094 };

    /// Creates the range of ids from the first to the last, both included.
    ///
    /// # Errors
    /// [`LabelRangeError`] if the ids are not within 1 to 4094, or if the range is empty.
    ///
    /// ```
    /// use maple_core::engine::LabelRange;
    /// assert!(LabelRange::new(100..=199).is_ok());
    /// assert!(LabelRange::new(0..=199).is_err());
    /// ```
    pub fn new(ids: RangeInclusive<u16>) -> Result<LabelRange, LabelRangeError> {
        let (first, last) = (*ids.start(), *ids.end());
        let fits = first >= 1 && last <= 4094 && first <= last;
        if fits { Ok(LabelRange { first, last }) } else { Err(LabelRangeError { first, last }) }
    }

    /// Returns the ids of the range.
    pub fn ids(self) -> RangeInclusive<u16> {
        self.first..=self.last
    }

    /// Returns the ids for labels of this scope. Labels of one arrival port take the last quarter of the range, and
    /// other labels the rest, so that a packet never matches both. With `only_scoped`, labels of one arrival port take
    /// the whole range.
    fn of_scope(self, scope: Option<PortNo>, only_scoped: bool) -> RangeInclusive<u16> {
        let scoped = (self.last - self.first + 1) / 4;
        match scope {
            Some(_) if only_scoped => self.ids(),
            Some(_) => self.last + 1 - scoped..=self.last,
            None => self.first..=self.last - scoped,
        }
    }
}

/// The label ids of one switch.
///
/// An id that was given back rests until no packet can carry it any more. The search for the next id starts after the
/// last one that was taken, so that each id rests for as long as possible.
///
/// A packet under an id can match the rule for all arrival ports and the one for its port. Where the ranges keep these
/// scopes apart, the rules don't meet. A switch that comes back in another version may have other ranges. So an id of
/// one scope is not free while the other scope has it.
///
/// After a restart of the controller, switches have rules for labels of the earlier run, and other switches send
/// packets under them. Those ids are *reserved*: they rest. Until that rest is over, only a label with the same meaning
/// may have one.
#[derive(Clone, Debug, Default)]
pub(crate) struct LabelIds {
    /// The time until which an id that is not free rests; `None` while it is in use.
    taken: BTreeMap<LabelKey, Option<Time>>,
    /// The ports of all labels of one arrival port, past and present.
    ports: BTreeSet<PortNo>,
    /// The meanings of the ids in use.
    meanings: BTreeMap<LabelKey, u64>,
    /// The ids that rest because the switch has rules of an earlier run for them.
    reserved: BTreeSet<LabelKey>,
    /// The ids of an earlier run, by scope and meaning.
    earlier: BTreeMap<(Option<PortNo>, u64), u16>,
    /// The id that was taken last, by scope.
    last: BTreeMap<Option<PortNo>, u16>,
    serial: u64,
    /// The ids and serial numbers of labels that a rehearsal made, by scope and meaning.
    rehearsed: FxHashMap<(Option<PortNo>, u64), (u16, u64)>,
}

/// The highest serial number of a label: cookies have 32 bits for it.
pub(super) const MAX_SERIAL: u64 = 0xffff_ffff;

/// The label ids of all switches.
#[derive(Clone, Debug, Default)]
pub(crate) struct AllLabelIds {
    by_switch: BTreeMap<Dpid, LabelIds>,
    /// The highest serial number among the switches that were forgotten.
    forgotten: u64,
}

impl AllLabelIds {
    /// Returns the ids of a switch. A switch that was forgotten goes on with serial numbers that it has not had.
    pub fn for_switch(&mut self, dpid: Dpid) -> &mut LabelIds {
        let serial = self.forgotten;
        self.by_switch.entry(dpid).or_insert_with(|| LabelIds { serial, ..LabelIds::default() })
    }

    /// Returns the ids of each switch.
    pub fn iter(&self) -> impl Iterator<Item = (Dpid, &LabelIds)> {
        self.by_switch.iter().map(|(dpid, ids)| (*dpid, ids))
    }

    /// Returns the number of switches.
    pub fn len(&self) -> usize {
        self.by_switch.len()
    }

    /// Forgets the switches for which `is_here` is false and that have no id in use or at rest.
    pub fn forget_unused(&mut self, now: Time, is_here: impl Fn(Dpid) -> bool) {
        let stays = |dpid: Dpid, ids: &LabelIds| is_here(dpid) || !ids.are_all_free(now);
        let forgotten = self.iter().filter(|(dpid, ids)| !stays(*dpid, ids)).map(|(_, ids)| ids.serial).max();
        self.forgotten = self.forgotten.max(forgotten.unwrap_or_default());
        self.by_switch.retain(|dpid, ids| stays(*dpid, ids));
    }

    /// Passes the labels of a rehearsal to all switches ([`LabelIds::rehearse`]). A switch without labels here has none
    /// that were rehearsed.
    pub fn rehearse(&mut self, labels: &BTreeMap<Dpid, Vec<RehearsedLabel>>) {
        self.by_switch.values_mut().for_each(|ids| ids.rehearse(&[]));
        labels.iter().for_each(|(dpid, labels)| self.for_switch(*dpid).rehearse(labels));
    }
}

/// A label that a rehearsal made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RehearsedLabel {
    pub key: LabelKey,
    pub meaning: u64,
    pub serial: u64,
}

impl LabelIds {
    /// Takes an id for a label with this meaning, with a serial number that no other label of this switch has had. With
    /// `only_scoped`, all labels of the switch are for one arrival port each. Returns `None` if no id is free, or if
    /// the serial numbers are used up; then the switch gets no labels until the controller starts again.
    pub fn take(
        &mut self,
        now: Time,
        range: LabelRange,
        scope: Option<PortNo>,
        only_scoped: bool,
        meaning: u64,
    ) -> Option<(LabelKey, u64)> {
        let serial = self.serial.checked_add(1).filter(|serial| *serial <= MAX_SERIAL)?;
        let ids = range.of_scope(scope, only_scoped);
        let last = self.last.get(&scope).copied().unwrap_or_default().clamp(ids.start().saturating_sub(1), *ids.end());
        let key = |id| LabelKey { port: scope, id };
        let is_free = |id: &u16| self.is_free(now, key(*id));
        let earlier = self.earlier.get(&(scope, meaning)).copied();
        let earlier = earlier.filter(|id| ids.contains(id) && self.is_free_for(now, key(*id), meaning));
        let next = || (last + 1..=*ids.end()).chain(*ids.start()..=last).find(is_free);
        let id = match earlier {
            Some(id) => id,
            None => {
                let id = next()?;
                self.last.insert(scope, id);
                id
            }
        };
        self.set_taken(key(id), meaning);
        self.serial = serial;
        Some((key(id), serial))
    }

    /// Assigns these ids and serial numbers to the next labels with these meanings. They replace those of an earlier
    /// rehearsal. Another label may still take one of the ids, but not the serial number.
    pub fn rehearse(&mut self, labels: &[RehearsedLabel]) {
        let rehearsed = |label: &RehearsedLabel| ((label.key.port, label.meaning), (label.key.id, label.serial));
        self.rehearsed = labels.iter().map(rehearsed).collect();
        self.serial = labels.iter().map(|label| label.serial).fold(self.serial, u64::max);
    }

    /// Takes the id that a rehearsal gave to a label for packets that arrive by this port. Returns `None` if the id is
    /// not free, or if such a label can't have it (`only_scoped` as in [`LabelIds::take`]).
    pub fn take_rehearsed(
        &mut self,
        now: Time,
        range: LabelRange,
        port: PortNo,
        only_scoped: bool,
        meaning: u64,
    ) -> Option<(LabelKey, u64)> {
        let scopes = [None, Some(port)];
        let rehearsed = |scope| Some((scope, self.rehearsed.get(&(scope, meaning))?));
        let (scope, &(id, serial)) = scopes.into_iter().find_map(rehearsed)?;
        self.rehearsed.remove(&(scope, meaning));
        let key = LabelKey { port: scope, id };
        let is_possible = range.of_scope(scope, only_scoped).contains(&id) && (scope.is_some() || !only_scoped);
        if !is_possible || !self.is_free_for(now, key, meaning) {
            return None;
        }
        self.last.insert(scope, id);
        self.set_taken(key, meaning);
        Some((key, serial))
    }

    fn set_taken(&mut self, key: LabelKey, meaning: u64) {
        self.earlier.remove(&(key.port, meaning));
        self.reserved.remove(&key);
        self.ports.extend(key.port);
        self.taken.insert(key, None);
        self.meanings.insert(key, meaning);
    }

    /// Reports whether no id is in use or rests.
    fn are_all_free(&self, now: Time) -> bool {
        self.taken.values().all(|rests| rests.is_some_and(|until| until <= now))
    }

    /// Returns the serial number of the newest label.
    pub fn newest(&self) -> u64 {
        self.serial
    }

    fn is_free(&self, now: Time, key: LabelKey) -> bool {
        let is_taken = |rests: Option<Time>| rests.is_none_or(|until| until > now);
        !self.taken.get(&key).copied().is_some_and(is_taken) && !self.other_scopes(key).any(is_taken)
    }

    /// Returns the times until which the id rests in each other scope that its packets could match; `None` while it is
    /// in use.
    fn other_scopes(&self, LabelKey { port, id }: LabelKey) -> impl Iterator<Item = Option<Time>> {
        let of_ports = self.ports.iter().filter(move |_| port.is_none()).map(|port| Some(*port));
        let scopes = of_ports.chain(port.map(|_| None));
        scopes.filter_map(move |port| self.taken.get(&LabelKey { port, id }).copied())
    }

    /// Reports whether an id is free, or belonged to a label with this meaning in an earlier run.
    fn is_free_for(&self, now: Time, key: LabelKey, meaning: u64) -> bool {
        let was_its_own = self.reserved.contains(&key) && self.earlier.get(&(key.port, meaning)) == Some(&key.id);
        // The scope of an id under which another switch sends was not known, so the id rests in both scopes.
        was_its_own && self.other_scopes(key).all(|rests| rests.is_some()) || self.is_free(now, key)
    }

    /// Gives an id back. It is free again at the time `until`.
    pub fn give_back(&mut self, key: LabelKey, until: Time) {
        self.taken.insert(key, Some(until));
        self.meanings.remove(&key);
    }

    /// Reserves the ids for which the switch has rules of an earlier run: unless they are in use, they rest.
    pub fn reserve(&mut self, keys: impl IntoIterator<Item = LabelKey>, until: Time) {
        for key in keys {
            if self.taken.get(&key).is_none_or(Option::is_some) {
                self.ports.extend(key.port);
                self.taken.insert(key, Some(until));
                self.reserved.insert(key);
            }
        }
    }

    /// Records that a label with this meaning had this id in an earlier run.
    pub fn prefer(&mut self, key: LabelKey, meaning: u64) {
        self.earlier.insert((key.port, meaning), key.id);
    }

    /// Forgets the meanings and the reservations of an earlier run.
    pub fn forget_earlier(&mut self) {
        self.earlier.clear();
        self.reserved.clear();
    }

    /// Returns the ids in use, with their meanings.
    pub fn meanings(&self) -> impl Iterator<Item = (LabelKey, u64)> {
        self.meanings.iter().map(|(key, meaning)| (*key, *meaning))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(ids: &mut LabelIds, now: u64, range: LabelRange) -> Option<u16> {
        ids.take(Time(now), range, None, false, 0).map(|(key, _)| key.id)
    }

    #[test]
    fn an_id_is_used_again_when_all_others_were_and_it_has_rested() {
        let range = LabelRange::new(7..=9).expect("a range");
        let mut ids = LabelIds::default();
        let all: Vec<_> = (0..4).map(|_| take(&mut ids, 1, range)).collect();
        assert_eq!(all, [Some(7), Some(8), Some(9), None]);
        ids.give_back(LabelKey { port: None, id: 8 }, Time(5));
        assert_eq!((take(&mut ids, 4, range), take(&mut ids, 5, range)), (None, Some(8)));
        [7, 8, 9].into_iter().for_each(|id| ids.give_back(LabelKey { port: None, id }, Time(9)));
        assert_eq!((take(&mut ids, 8, range), take(&mut ids, 9, range)), (None, Some(9)));
    }

    #[test]
    fn a_rehearsed_id_is_that_of_its_label_unless_another_one_has_it() {
        let mut ids = LabelIds::default();
        let rehearsed =
            |meaning: u64, id: u16, serial: u64| RehearsedLabel { key: LabelKey { port: None, id }, meaning, serial };
        ids.rehearse(&[rehearsed(1, 2, 7), rehearsed(2, 1, 8)]);
        assert_eq!(ids.take_rehearsed(Time(1), LabelRange::ALL, PortNo(1), false, 3), None, "it was not rehearsed");
        assert_eq!(ids.take(Time(1), LabelRange::ALL, None, false, 0), Some((LabelKey { port: None, id: 1 }, 9)));
        assert_eq!(ids.take_rehearsed(Time(1), LabelRange::ALL, PortNo(1), false, 2), None, "another label has it");
        let taken = ids.take_rehearsed(Time(1), LabelRange::ALL, PortNo(1), false, 1);
        assert_eq!(taken, Some((LabelKey { port: None, id: 2 }, 7)));
        assert_eq!(ids.take_rehearsed(Time(1), LabelRange::ALL, PortNo(1), false, 1), None, "once");
        assert_eq!(ids.newest(), 9);
    }

    #[test]
    fn serial_numbers_end_where_cookies_have_no_room() {
        let mut ids = LabelIds { serial: MAX_SERIAL - 1, ..LabelIds::default() };
        let mut take = || ids.take(Time(1), LabelRange::ALL, None, false, 0).map(|(_, serial)| serial);
        assert_eq!([take(), take(), take()], [Some(MAX_SERIAL), None, None]);
    }

    #[test]
    fn switches_whose_ids_rest_stay_and_forgotten_ones_return_with_new_serial_numbers() {
        let mut all = AllLabelIds::default();
        for dpid in 1..=3 {
            for _ in 0..dpid {
                all.for_switch(Dpid(dpid)).take(Time(1), LabelRange::ALL, None, false, 0).expect("one is free");
            }
        }
        all.for_switch(Dpid(2)).give_back(LabelKey { port: None, id: 1 }, Time(5));
        all.for_switch(Dpid(2)).give_back(LabelKey { port: None, id: 2 }, Time(7));
        let dpids = |all: &AllLabelIds| all.iter().map(|(dpid, _)| dpid.0).collect::<Vec<_>>();
        all.forget_unused(Time(6), |dpid| dpid == Dpid(1));
        assert_eq!(dpids(&all), [1, 2, 3], "3 uses its ids, and one of 2 rests");
        all.forget_unused(Time(7), |dpid| dpid == Dpid(1));
        assert_eq!(dpids(&all), [1, 3]);
        assert_eq!([Dpid(2), Dpid(1)].map(|dpid| all.for_switch(dpid).newest()), [2, 1]);
    }

    #[test]
    fn ids_of_one_port_are_none_of_those_of_all_ports() {
        let range = LabelRange::new(1..=8).expect("a range");
        let mut ids = LabelIds::default();
        let all = |ids: &mut LabelIds, scope, only| {
            std::iter::from_fn(|| ids.take(Time(1), range, scope, only, 0).map(|(key, _)| key.id)).collect::<Vec<u16>>()
        };
        assert_eq!(all(&mut ids, None, false), (1..=6).collect::<Vec<_>>());
        for port in [1, 2] {
            assert_eq!(all(&mut ids, Some(PortNo(port)), false), [7, 8]);
        }
        assert_eq!(all(&mut LabelIds::default(), Some(PortNo(1)), true), (1..=8).collect::<Vec<_>>());
    }

    #[test]
    fn an_id_of_all_ports_is_none_of_one_port_when_the_switch_returns_with_one_table() {
        let range = LabelRange::new(1..=8).expect("a range");
        let key = |port: Option<u32>, id| LabelKey { port: port.map(PortNo), id };
        let mut ids = LabelIds::default();
        let take = |ids: &mut LabelIds, now, port: Option<u32>, only_scoped| {
            ids.take(Time(now), range, port.map(PortNo), only_scoped, 0).map(|(key, _)| key.id)
        };
        assert_eq!(take(&mut ids, 1, None, false), Some(1));
        assert_eq!(take(&mut ids, 1, None, false), Some(2));
        ids.give_back(key(None, 2), Time(5));
        // With one table, all labels are for one port each, and may have all ids.
        assert_eq!((take(&mut ids, 4, Some(3), true), take(&mut ids, 4, Some(4), true)), (Some(3), Some(3)));
        let rest: Vec<_> = std::iter::from_fn(|| take(&mut ids, 5, Some(3), true)).collect();
        assert_eq!(rest, [4, 5, 6, 7, 8, 2], "1 is in use, 2 has rested");
        // The switch has several tables again.
        assert_eq!((take(&mut ids, 5, None, false), take(&mut ids, 5, Some(3), false)), (None, None));
        [2, 3].into_iter().for_each(|id| ids.give_back(key(Some(3), id), Time(6)));
        assert_eq!((take(&mut ids, 6, None, false), take(&mut ids, 6, None, false)), (Some(2), None), "4:3 is in use");
        // An id that a rehearsal assigned with three tables is not possible with one.
        ids.rehearse(&[RehearsedLabel { key: key(None, 5), meaning: 7, serial: 70 }]);
        assert_eq!(ids.take_rehearsed(Time(9), range, PortNo(9), true, 7), None);
    }

    #[test]
    fn an_id_of_an_earlier_run_is_for_the_same_meaning_until_it_has_rested() {
        let range = LabelRange::new(7..=9).expect("a range");
        let key = |id| LabelKey { port: None, id };
        let mut ids = LabelIds::default();
        ids.prefer(key(8), 80);
        ids.prefer(key(9), 90);
        ids.reserve([7, 8, 9].map(key), Time(5));
        let mut take = |now, meaning| ids.take(Time(now), range, None, false, meaning).map(|(key, _)| key.id);
        assert_eq!([take(1, 70), take(1, 80), take(1, 80)], [None, Some(8), None]);
        assert_eq!([take(5, 70), take(5, 71), take(5, 90)], [Some(7), Some(9), None]);
        ids.give_back(key(9), Time(7));
        assert_eq!(ids.take(Time(6), range, None, false, 90), None, "nobody reserved it");
        assert_eq!(ids.meanings().collect::<Vec<_>>(), [(key(7), 70), (key(8), 80)]);
        ids.prefer(key(9), 91);
        ids.reserve([key(9)], Time(9));
        ids.forget_earlier();
        assert_eq!(ids.take(Time(8), range, None, false, 91), None);
    }

    #[test]
    fn a_range_lies_within_the_ids_that_networks_may_use() {
        for wrong in [0..=5, 5..=4095] {
            assert!(LabelRange::new(wrong).is_err());
        }
        let (first, last) = (5, 4);
        assert_eq!(LabelRange::new(first..=last), Err(LabelRangeError { first, last }));
    }
}
