//! Expectations of a transaction of another program about the state before it writes.

use maple_core::state::{Name, Snapshot, Value as Stored};
use serde_json::Value;

use super::Handle;
use super::request::{RefusalKind, RequestError};
use super::rows::{value_of, var_of};
use super::state::{StatePlace, Target, is_known, target, unknown};
use crate::storage::to_json;

/// The values that places have to hold.
#[derive(Default)]
pub(super) struct Expected(Vec<ExpectedPlace>);

struct ExpectedPlace {
    /// The member of the request.
    at: String,
    place: Target,
    value: Option<Stored>,
    /// The value that a variable has until it is written.
    initial: Option<Stored>,
}

impl Expected {
    /// Reads what a request expects.
    ///
    /// # Errors
    /// [`RequestError`] if a place is not known, or cannot hold such a value.
    pub fn all(handle: &Handle, expect: &[(StatePlace, Value)]) -> Result<Expected, RequestError> {
        let one = |(number, (place, value)): (usize, &(StatePlace, Value))| {
            let at = format!("state.load.expect[{number}]");
            if !is_known(handle, &place.in_use(handle)) {
                return Err(RequestError::at(&at, unknown(handle, place)));
            }
            let place = target(handle, place, &at)?;
            let read = |name: &Name, is_var: bool| {
                let (store, names) = (handle.store(), handle.names());
                let read =
                    if is_var { var_of(store, &names, name, value) } else { value_of(store, &names, name, value) };
                read.map_err(|error| RequestError::at(&at, error))
            };
            let (stored, initial) = match &place {
                _ if value.is_null() => (None, None),
                Target::Var(name) => (Some(read(name, true)?), handle.store().initial(name)),
                Target::Key(table, _) => (Some(read(table, false)?), None),
            };
            Ok(ExpectedPlace { at, place, value: stored, initial })
        };
        expect.iter().enumerate().map(one).collect::<Result<Vec<_>, _>>().map(Expected)
    }

    /// Checks that all places hold what is expected.
    ///
    /// # Errors
    /// [`RequestError`] for the first one that does not, with what it holds.
    pub fn check(&self, state: &Snapshot) -> Result<(), RequestError> {
        self.0.iter().try_for_each(|one| {
            let held = match &one.place {
                Target::Var(name) => state.var(name),
                Target::Key(table, key) => state.table(table).and_then(|rows| rows.get(key)),
            };
            let held = held.or(one.initial.as_ref());
            if held == one.value.as_ref() {
                return Ok(());
            }
            let text = match held {
                Some(held) => format!("it holds {}, so nothing is written", to_json(held)),
                None => "it holds nothing, so nothing is written".to_owned(),
            };
            Err(RequestError::at(&one.at, text).of_kind(RefusalKind::Conflict))
        })
    }
}
