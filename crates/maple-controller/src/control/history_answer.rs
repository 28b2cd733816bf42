//! The answer about the history of changes: who changed the policy or tracked state, and when.

use std::collections::BTreeMap;

use nix::unistd::{Uid, User};
use serde_json::Value;

use super::{Handle, Operations};
use crate::policy_record::PolicyIdentity;
use crate::storage::history::{Changer, PolicyAct};

impl Operations<'_> {
    /// Notes in the history that another policy runs.
    pub fn note_policy(&self, act: PolicyAct, by: Changer, policy: PolicyIdentity) {
        self.handle.shared.kept.history.note_policy(act, by, policy, self.handle.snapshot().version());
    }
}

/// Answers with all changes that are kept, by their numbers.
pub(super) fn answer(handle: &Handle) -> Value {
    let mut all = handle.shared().kept.history.to_json();
    all.sort_by_key(|change| change["number"].as_u64());
    let mut users = BTreeMap::new();
    for change in all.iter_mut().filter(|change| change["who"].is_null()) {
        let Some(user) = change["user"].as_u64().and_then(|user| u32::try_from(user).ok()) else { continue };
        change["who"] = users.entry(user).or_insert_with(|| name_of(user)).as_str().into();
    }
    all.into()
}

/// Returns the name of a user of this machine.
fn name_of(user: u32) -> String {
    match User::from_uid(Uid::from_raw(user)) {
        Ok(Some(user)) => user.name,
        // A user of a container, or one that was deleted.
        Ok(None) | Err(_) => format!("user {user}"),
    }
}
