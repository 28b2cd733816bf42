//! An update as a bundle: the switch makes all its changes at once, or none.
//!
//! A bundle is *prepared* first: it is opened, gets its changes in their safe order, and a barrier request follows.
//! When that is confirmed, the bundle is committed. The wait is necessary: Open vSwitch (3.1) refuses a malformed rule
//! when it is added, leaves it out of the bundle, and would commit the rest. A rule that does not fit is refused when
//! the bundle is committed, by an error for that rule and one for the commit, and nothing was changed. By the time a
//! bundle is committed, whatever was sent before it is confirmed or refused. So no change in it relies on a rule that
//! the switch does not have.

use maple_wire::msg::bundle::{ATOMIC, ORDERED};
use maple_wire::msg::{BundleAdd, BundleControl, Message};

use super::deletions::ByCookie;
use super::{Requests, Tables, Unconfirmed};
use crate::ids::Time;
use crate::update::Change;

/// The maximum number of changes of a bundle. Larger updates are made in two steps, because the switch keeps a bundle
/// in memory, and makes its changes without doing anything else. Chosen: more than a table of most switches holds.
const MAX_CHANGES: usize = 1 << 18;

/// The flags of our bundles. Both are needed: an update is safe only as a whole, and its changes rely on their order.
const FLAGS: u16 = ATOMIC | ORDERED;

/// A bundle that the switch has, or is getting.
#[derive(Clone)]
pub(super) struct Bundle {
    number: u32,
    /// The changes in order, with the ids of the messages that added them, and their tables.
    changes: Vec<(u32, u8, Change)>,
}

impl Bundle {
    /// Returns the request to discard the bundle.
    pub fn discard(&self) -> Message {
        control(self.number, BundleControl::DISCARD)
    }
}

impl Tables {
    /// Reports whether these changes are to be made at once, if the switch can do that.
    ///
    /// Additions alone need no bundle: a full table refuses all that follow as well. Modifications alone need none,
    /// and deletions alone need none, unless an earlier addition may still be refused: then they may uncover what it
    /// was to shield. `relies_on_order`: between these changes a packet might get a wrong answer in any order.
    pub(super) fn needs_bundle<'a>(&self, relies_on_order: bool, changes: impl Iterator<Item = &'a Change>) -> bool {
        if !self.has_bundles {
            return false;
        }
        let (mut adds, mut modifies, mut deletes) = (0, 0, 0);
        for change in changes {
            match change {
                Change::Add(_) => adds += 1,
                Change::Modify(_) => modifies += 1,
                Change::Delete(_) => deletes += 1,
            }
        }
        let relies_on_others =
            relies_on_order || adds > 0 || modifies > 0 && deletes > 0 || self.has_unconfirmed_additions();
        modifies + deletes > 0 && relies_on_others && adds + modifies + deletes <= MAX_CHANGES
    }

    /// Sends a bundle with these changes, which are not made before [`Tables::commit`].
    pub(super) fn prepare(&mut self, changes: Vec<(u8, Change)>, out: &mut Requests) -> Bundle {
        // All changes of a bundle are made at once.
        let ByCookie { mut in_turn, at_last } = self.deletions_by_cookie(&changes);
        in_turn.extend(at_last);
        let number = self.send_control(None, BundleControl::OPEN, out);
        let mut sent = Vec::new();
        for (table, change) in changes {
            let xid = self.take_xid();
            let message = Box::new(Message::FlowMod(super::flow_mod(table, &change, &in_turn, &self.action_sets)));
            out.push((xid, Message::BundleAdd(BundleAdd { bundle: number, flags: FLAGS, message })));
            self.sent.unconfirmed.push_back((xid, Unconfirmed::FlowMod { table, change: change.clone() }));
            sent.push((xid, table, change));
        }
        Bundle { number, changes: sent }
    }

    /// Makes the switch carry out the changes of a bundle.
    pub(super) fn commit(&mut self, now: Time, bundle: Bundle, out: &mut Requests) {
        for (xid, table, change) in bundle.changes {
            self.note(now, xid, table, change);
        }
        self.send_control(Some(bundle.number), BundleControl::COMMIT, out);
    }

    /// Sends a request about this bundle, or about a new one. Returns the bundle's number.
    fn send_control(&mut self, bundle: Option<u32>, kind: u16, out: &mut Requests) -> u32 {
        let xid = self.take_xid();
        let number = bundle.unwrap_or(xid);
        self.sent.unconfirmed.push_back((xid, Unconfirmed::Bundle));
        out.push((xid, control(number, kind)));
        number
    }
}

fn control(bundle: u32, kind: u16) -> Message {
    Message::BundleControl(BundleControl { bundle, kind, flags: FLAGS })
}
