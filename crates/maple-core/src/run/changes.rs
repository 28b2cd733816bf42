//! Fields that earlier policies of a composition wrote into the packet, and later policies' questions about it.
//!
//! A field that was written has the written value in every packet, so a question about it records nothing. Every other
//! field has the value with which the packet came in, and a question about it records what it records without a
//! composition. So traces are about the packet as it came in: they match at the ingress switch, and they are no
//! narrower than need be.
//!
//! Writes do not change whether a field is there, with one exception: `vlan_vid` makes or removes a tag, and `vlan_pcp`
//! goes with the tag. A frame with two tags that loses one still has no inner tag for later policies.

use std::collections::BTreeMap;
use std::sync::Arc;

use maple_wire::field::VLAN_PRESENT;
use maple_wire::{Field, Version};

use super::{Net, PacketHandle, RunState, SubjectView};
use crate::ids::Name;
use crate::policy_error::PolicyError;
use crate::route::{Route, rewritten};
use crate::route_plan::{RouteError, Treatment, is_settable};
use crate::trace::{Cond, CondList, Recorder, Source};

/// The fields that earlier policies wrote.
#[derive(Clone, Debug, Default)]
pub(crate) struct FieldChanges {
    /// The written fields, as in a route: `vlan_vid` is an id, or 0 for no tag.
    written: Treatment,
    /// Whether the packet came in with a VLAN tag; known only if `vlan_vid` was written.
    was_tagged: bool,
}

/// A field as a later policy sees it.
enum LaterField {
    /// The field has the value that was written.
    Value(u128),
    /// The field is gone.
    Absent,
    /// The priority of the tag that the packet came in with.
    PriorityOfTag,
    /// The field is as it came in.
    AsEntered,
}

impl FieldChanges {
    /// Returns the whole frame with the changes; `None` if they don't fit it.
    pub fn frame(&self, bytes: &Arc<[u8]>) -> Option<Arc<[u8]>> {
        if self.written.rewrites.is_empty() {
            Some(Arc::clone(bytes))
        } else {
            rewritten(bytes, &self.written.rewrites, self.was_tagged).map(Arc::from)
        }
    }

    /// Returns a route of the packet with these changes as a route of the packet as it came in.
    pub(super) fn passed_on(&self, route: &Route) -> Route {
        route.clone().after(Route::pass_with(self.written.clone()))
    }

    /// Reports whether a field is as the packet came in.
    pub(super) fn is_as_entered(&self, field: Field) -> bool {
        matches!(self.seen(field), LaterField::AsEntered)
    }

    fn seen(&self, field: Field) -> LaterField {
        let vid = self.written.rewrites.get(&Field::VlanVid);
        match (field, vid, self.written.rewrites.get(&field)) {
            (Field::VlanVid, Some(0), _) => LaterField::Value(0),
            (Field::VlanVid, Some(vid), _) => LaterField::Value(VLAN_PRESENT | vid),
            (Field::VlanPcp, Some(0), _) => LaterField::Absent,
            (_, _, Some(value)) => LaterField::Value(*value),
            (Field::VlanPcp, Some(_), None) if self.was_tagged => LaterField::PriorityOfTag,
            (Field::VlanPcp, Some(_), None) => LaterField::Value(0),
            _ => LaterField::AsEntered,
        }
    }
}

/// A packet with its changes, for one question.
pub(super) struct ChangedPacket<'a> {
    pub changes: &'a FieldChanges,
    pub recorder: &'a mut Recorder,
    pub packet: &'a SubjectView<'a>,
    pub source: Option<Source>,
}

impl ChangedPacket<'_> {
    /// Returns the field's value under a mask, or `None` if it is not there.
    pub fn read(&mut self, field: Field, mask: u128) -> Option<u128> {
        match self.changes.seen(field) {
            LaterField::Value(value) => Some(value & mask),
            LaterField::Absent => None,
            LaterField::PriorityOfTag | LaterField::AsEntered => {
                self.recorder.read(self.packet, field, mask, self.source.clone())
            }
        }
    }

    /// Reports whether the field is there and has this value under the mask.
    pub fn equals(&mut self, field: Field, value: u128, mask: u128) -> bool {
        match self.changes.seen(field) {
            LaterField::Value(written) => value & !field.full_mask() == 0 && written & mask == value & mask,
            LaterField::Absent => false,
            LaterField::PriorityOfTag | LaterField::AsEntered => {
                self.recorder.equals(self.packet, field, value, mask, self.source.clone())
            }
        }
    }

    /// Reports whether the field is there, between these values.
    pub fn in_range(&mut self, field: Field, lo: u128, hi: u128) -> bool {
        match self.changes.seen(field) {
            LaterField::Value(written) => lo <= written && written <= hi,
            LaterField::Absent => false,
            LaterField::PriorityOfTag | LaterField::AsEntered => {
                self.recorder.in_range(self.packet, field, lo, hi, self.source.clone())
            }
        }
    }

    /// Reports whether the field is there.
    pub fn present(&mut self, field: Field) -> bool {
        match self.changes.seen(field) {
            LaterField::Value(_) | LaterField::PriorityOfTag => true,
            LaterField::Absent => false,
            LaterField::AsEntered => self.recorder.present(self.packet, field, self.source.clone()),
        }
    }

    /// Returns the place of the first condition of a list that the packet fits. If earlier policies wrote a field that
    /// the list asks for, the conditions are asked one by one.
    pub fn first_of(&mut self, list: &Arc<CondList>, source: impl Fn(usize) -> Option<Source>) -> Option<usize> {
        let written = &self.changes.written.rewrites;
        if written.keys().all(|field| !list.fields().contains(*field)) && !self.writes_tag(list) {
            return self.recorder.first_of(self.packet, list, source);
        }
        list.conds().iter().enumerate().position(|(index, cond)| {
            self.source = source(index);
            self.matches(cond)
        })
    }

    /// Reports whether a tag came or went, and the list asks for its priority.
    fn writes_tag(&self, list: &CondList) -> bool {
        self.changes.written.rewrites.contains_key(&Field::VlanVid) && list.fields().contains(Field::VlanPcp)
    }

    /// Reports whether the packet fits the condition. The written values answer the parts about written fields; the
    /// rest is one test of the packet as it came in.
    pub fn matches(&mut self, cond: &Cond) -> bool {
        if self.changes.written.rewrites.is_empty() {
            return self.recorder.matches(self.packet, cond, self.source.clone());
        }
        let mut rest = Cond::default();
        for constraint in &cond.constraints {
            match self.changes.seen(constraint.field) {
                LaterField::AsEntered | LaterField::PriorityOfTag => rest.constraints.push(*constraint),
                _ if self.equals(constraint.field, constraint.value, constraint.mask) => {}
                _ => return false,
            }
        }
        for range in &cond.ranges {
            match self.changes.seen(range.field) {
                LaterField::AsEntered | LaterField::PriorityOfTag => rest.ranges.push(*range),
                _ if self.in_range(range.field, range.lo, range.hi) => {}
                _ => return false,
            }
        }
        rest.is_always() || self.recorder.matches(self.packet, &rest, self.source.clone())
    }
}

/// The questions and changes of compositions.
impl PacketHandle {
    /// Returns the changes that were made so far.
    pub(crate) fn changes(&self) -> FieldChanges {
        self.0.state().changes.clone()
    }

    /// Replaces the changes that were made so far.
    pub(crate) fn set_changes(&self, changes: FieldChanges) {
        self.0.state().changes = changes;
    }

    /// Writes the fields that a route that passes rewrites. Later questions see them.
    ///
    /// # Errors
    /// [`RouteError`] if the packet lacks a field, if a value is too wide for its field, or if no switch can write a
    /// field.
    pub(crate) fn change(&self, by: &Treatment) -> Result<(), RouteError> {
        if by.rewrites.is_empty() {
            return Ok(());
        }
        self.check_rewrites(&by.rewrites)?;
        let mut state = self.0.state();
        let RunState { subject, ingress, recorder, changes, .. } = &mut *state;
        let packet = subject.view(*ingress);
        let was_tagged = if by.rewrites.contains_key(&Field::VlanVid) {
            recorder.read(&packet, Field::VlanVid, VLAN_PRESENT, None) == Some(VLAN_PRESENT)
        } else {
            changes.was_tagged
        };
        *changes = FieldChanges { written: changes.written.then(by), was_tagged };
        Ok(())
    }

    /// Checks that the packet, as changed so far, has these fields, and that some switch can write them.
    ///
    /// # Errors
    /// [`RouteError`] if the packet lacks a field, if a value is too wide for its field, or if no switch can write a
    /// field.
    pub(crate) fn check_rewrites(&self, rewrites: &BTreeMap<Field, u128>) -> Result<(), RouteError> {
        if rewrites.is_empty() {
            return Ok(());
        }
        let mut state = self.0.state();
        let RunState { subject, ingress, recorder, changes, .. } = &mut *state;
        let packet = subject.view(*ingress);
        ChangedPacket { changes, recorder, packet: &packet, source: None }.check(rewrites)
    }

    /// Reports whether the packet, as changed so far, can take a route. The run then depends on that. For a route that
    /// passes, this is about its copies.
    pub(crate) fn can_follow(&self, route: &Route) -> bool {
        let mut state = self.0.state();
        state.observe_ends();
        let RunState { subject, ingress, recorder, changes, result, .. } = &mut *state;
        let packet = subject.view(*ingress);
        let mut ask = |field, value, mask| recorder.read(&packet, field, mask, None) == Some(value & mask);
        changes.passed_on(route).can_follow(*ingress, &mut result.txn, &mut ask)
    }

    /// Makes this the running tier. Returns the one that ran before.
    pub(crate) fn enter_tier(&self, tier: Option<Name>) -> Option<Name> {
        std::mem::replace(&mut self.0.state().tier, tier)
    }
}

impl ChangedPacket<'_> {
    fn check(&mut self, rewrites: &BTreeMap<Field, u128>) -> Result<(), RouteError> {
        let makes_tag = rewrites.get(&Field::VlanVid).is_some_and(|vid| *vid != 0);
        for (&field, &value) in rewrites {
            if value & !field.full_mask() != 0 {
                return Err(RouteError::TooWide { field, value });
            }
            if !is_settable(field, Version::Of13) {
                return Err(RouteError::NotSettable { field });
            }
            // These are reads, not tests, because a rule that rewrites a field must state the field's prerequisites.
            let is_there = field == Field::VlanVid || field == Field::VlanPcp && makes_tag;
            if !is_there && self.read(field, 0).is_none() {
                return Err(RouteError::NoSuchField { field });
            }
        }
        Ok(())
    }
}

/// The errors of parts of a composition.
impl Net {
    /// Takes the error that the run has received so far, which its policy may have ignored.
    pub(crate) fn take_error(&self) -> Option<PolicyError> {
        self.0.state().result.error.take()
    }

    /// Sets the error of the run, for example to one that [`Net::take_error`] returned.
    pub(crate) fn set_error(&self, error: Option<PolicyError>) {
        self.0.state().result.error = error;
    }
}
