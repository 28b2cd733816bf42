//! The history of changes: which policies came to run, and what was written into tables and variables, with who and
//! when.
//!
//! # What
//!
//! The log has lines for people, and the store knows the last writer of each place. This has the changes themselves.
//! Each has a number that no later one has, also after a restart: the microseconds since 1970, or one more than the
//! number before.
//!
//! # Bounds
//!
//! Changes that packets cause (writes of the policy and of snooping) have a ring of their own, so they push out nothing
//! that a person did. Each ring has a maximum number of changes, and of bytes. A key or a value that is long is left out
//! of its change, which says so.
//!
//! # Cost
//!
//! A write copies its place and both values, which are pointers mostly, under the lock that its commit holds anyway.
//! What is read becomes JSON only then.
//!
//! # Over a restart
//!
//! The thread that writes leaves into the state file (`remember/writer.rs`) writes the new changes too, and reads those of
//! earlier runs when the file is open.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use maple_core::state::{Name, StateChange, Value as Stored, WriteLog, Writer};
use serde_json::{Value, json};

use super::state_json::to_json;
use crate::policy_record::PolicyIdentity;

/// The maximum number of changes that people and programs made.
const MAX_OF_PEOPLE: usize = 4096;
/// The maximum number of changes that packets caused.
const MAX_OF_PACKETS: usize = 1024;
/// The maximum size of all changes in a ring, in bytes.
const MAX_BYTES: usize = 2 << 20;
/// The maximum size of a key or a value, in bytes.
const MAX_VALUE: usize = 256;
/// The size of a change besides names and values.
const BASE: usize = size_of::<PastChange>();

/// The one who made another policy run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Changer {
    /// A client of the HTTP API, by the name of its token.
    Client(Arc<str>),
    /// A process that asked on the control socket.
    Process {
        /// Its id; 0 if the controller cannot see it.
        pid: u32,
        /// The id of its user.
        user: u32,
    },
    /// The signal SIGHUP.
    Signal,
    /// A file that has changed.
    Files,
    /// The start of the program.
    Start,
}

/// How another policy came to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyAct {
    /// The controller started with it.
    Start,
    /// The controller started with the policy that had run before.
    Resumption,
    /// It was loaded.
    Reload,
    /// A plan was applied.
    Apply,
    /// A plan was applied at some switches first.
    Canary,
    /// A policy that decided at some switches decides everywhere.
    Rest,
    /// The policy before runs again.
    Rollback,
}

/// The history of a controller.
#[derive(Debug, Default)]
pub(crate) struct ChangeHistory {
    rings: Mutex<Rings>,
}

#[derive(Debug, Default)]
struct Rings {
    of_people: ChangeRing,
    of_packets: ChangeRing,
    last: u64,
}

#[derive(Debug, Default)]
struct ChangeRing {
    changes: VecDeque<PastChange>,
    bytes: usize,
}

#[derive(Clone, Debug)]
struct PastChange {
    number: u64,
    at: SystemTime,
    what: WhatChanged,
    bytes: usize,
}

#[derive(Clone, Debug)]
enum WhatChanged {
    Write {
        by: Writer,
        version: u64,
        name: Name,
        /// `None` for a variable.
        key: Option<ShortValue>,
        old: ShortValue,
        new: ShortValue,
    },
    Policy {
        by: Changer,
        act: PolicyAct,
        policy: PolicyIdentity,
        version: u64,
    },
    /// A change of an earlier run, as JSON.
    Earlier(Value),
}

/// A value of a change, unless it is long.
#[derive(Clone, Debug)]
enum ShortValue {
    Nothing,
    Value(Stored),
    Long,
}

/// Changes that are not in the file yet, and which of those in the file stay.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Unwritten {
    /// The number of the newest change.
    pub last: u64,
    /// Changes by their rows.
    pub rows: Vec<(u64, String)>,
    /// The first rows that stay: of people, and of packets.
    pub first: [u64; 2],
}

/// The bit of a row in the file that says that packets caused the change.
pub(super) const OF_PACKETS: u64 = 1 << 63;

impl PolicyAct {
    /// Returns the name.
    pub fn name(self) -> &'static str {
        match self {
            PolicyAct::Start => "start",
            PolicyAct::Resumption => "resumption",
            PolicyAct::Reload => "reload",
            PolicyAct::Apply => "apply",
            PolicyAct::Canary => "canary",
            PolicyAct::Rest => "rest",
            PolicyAct::Rollback => "rollback",
        }
    }

    /// Returns the command that asks for it.
    fn command(self) -> &'static str {
        match self {
            PolicyAct::Start | PolicyAct::Resumption => "maple run",
            PolicyAct::Reload => "maple reload",
            PolicyAct::Apply => "maple apply",
            PolicyAct::Canary => "maple apply --canary",
            PolicyAct::Rest => "maple apply --rest",
            PolicyAct::Rollback => "maple rollback",
        }
    }
}

impl ShortValue {
    fn of(value: Option<&Stored>) -> ShortValue {
        match value {
            None => ShortValue::Nothing,
            Some(value) if value.fits(MAX_VALUE) => ShortValue::Value(value.clone()),
            Some(_) => ShortValue::Long,
        }
    }

    fn to_json(&self) -> Value {
        match self {
            ShortValue::Nothing => Value::Null,
            ShortValue::Value(value) => to_json(value),
            ShortValue::Long => json!({ "long": true }),
        }
    }
}

impl ChangeRing {
    fn push(&mut self, change: PastChange, most: usize) {
        self.bytes += change.bytes;
        self.changes.push_back(change);
        while self.changes.len() > most || self.bytes > MAX_BYTES {
            let Some(oldest) = self.changes.pop_front() else { return };
            self.bytes -= oldest.bytes;
        }
    }

    /// Adds changes of earlier runs before all others.
    fn put_before(&mut self, mut earlier: Vec<PastChange>, most: usize) {
        let own = std::mem::take(self);
        earlier.sort_by_key(|change| change.number);
        earlier.into_iter().chain(own.changes).for_each(|change| self.push(change, most));
    }

    fn first(&self) -> u64 {
        self.changes.front().map_or(!OF_PACKETS, |change| change.number)
    }

    fn after(&self, number: u64) -> impl Iterator<Item = &PastChange> {
        self.changes.iter().filter(move |change| change.number > number)
    }
}

impl PastChange {
    fn to_json(&self) -> Value {
        let mut all = match &self.what {
            WhatChanged::Earlier(all) => return all.clone(),
            WhatChanged::Write { by, version, name, key, old, new } => {
                let (table, var) = if key.is_some() { (Some(&**name), None) } else { (None, Some(&**name)) };
                let what = if matches!(new, ShortValue::Nothing) { "delete" } else { "set" };
                json!({
                    "what": what, "version": version, "table": table, "var": var,
                    "key": key.as_ref().map(ShortValue::to_json), "old": old.to_json(), "new": new.to_json(),
                    "policy": null, "hash": null, "by": by.to_string(), "pid": null, "user": null,
                    "kind": kind_of(by), "who": who_is(by),
                })
            }
            WhatChanged::Policy { by, act, policy, version } => {
                let (kind, who) = match by {
                    Changer::Client(name) => ("client", Some(&**name)),
                    Changer::Process { .. } => ("process", None),
                    Changer::Signal => ("signal", Some("SIGHUP")),
                    Changer::Files => ("file", Some("a file that has changed")),
                    Changer::Start => ("start", Some("the start")),
                };
                let text = match by {
                    Changer::Client(name) => format!("{name} over HTTP"),
                    Changer::Process { pid, .. } => format!("`{}` (pid {pid})", act.command()),
                    _ => who.unwrap_or_default().to_owned(),
                };
                json!({
                    "what": act.name(), "version": version, "table": null, "var": null, "key": null, "old": null,
                    "new": null, "policy": policy.name, "hash": policy.hash, "by": text, "pid": null, "user": null,
                    "kind": kind, "who": who,
                })
            }
        };
        if let Some((pid, user)) = self.process() {
            (all["pid"], all["user"]) = (pid.into(), user.into());
        }
        all["number"] = self.number.into();
        all["time"] = (self.at.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64).into();
        all
    }

    /// Returns the process that asked on the control socket, and its user.
    fn process(&self) -> Option<(u32, u32)> {
        match &self.what {
            WhatChanged::Write { by: Writer::Command { pid, user, .. }, .. } => Some((*pid, *user)),
            WhatChanged::Policy { by: Changer::Process { pid, user }, .. } => Some((*pid, *user)),
            _ => None,
        }
    }
}

/// Returns what kind of writer it is.
fn kind_of(by: &Writer) -> &'static str {
    match by {
        Writer::Policy(_) => "policy",
        Writer::Thread { .. } => "thread",
        Writer::Command { .. } => "process",
        Writer::Client(_) => "client",
        Writer::Snooping => "snooping",
        Writer::File(_) => "file",
        Writer::TakeOver | Writer::Measuring => "controller",
    }
}

/// Returns the writer in a word or two. Of a process, the reader finds the name of its user.
fn who_is(by: &Writer) -> Option<&str> {
    match by {
        Writer::Policy(_) => Some("policy"),
        Writer::Thread { name, .. } => Some(name),
        Writer::Command { .. } => None,
        Writer::Client(name) => Some(name),
        Writer::Snooping => Some("snooping"),
        Writer::File(name) => Some(name),
        Writer::TakeOver | Writer::Measuring => Some("the controller"),
    }
}

impl ChangeHistory {
    /// Notes that another policy runs, with the version of the state at that moment.
    pub fn note_policy(&self, act: PolicyAct, by: Changer, policy: PolicyIdentity, version: u64) {
        let bytes = BASE + policy.name.len();
        self.add(SystemTime::now(), WhatChanged::Policy { by, act, policy, version }, bytes, false);
    }

    fn add(&self, at: SystemTime, what: WhatChanged, bytes: usize, of_packets: bool) {
        let mut rings = self.lock();
        let micros = at.duration_since(UNIX_EPOCH).unwrap_or_default().as_micros() as u64;
        rings.last = micros.max(rings.last + 1);
        let change = PastChange { number: rings.last, at, what, bytes };
        if of_packets {
            rings.of_packets.push(change, MAX_OF_PACKETS);
        } else {
            rings.of_people.push(change, MAX_OF_PEOPLE);
        }
    }

    /// Returns all changes as JSON, in no order. What has a process as `who` has `null` there, and the user's id under
    /// `user`.
    pub fn to_json(&self) -> Vec<Value> {
        let all: Vec<PastChange> = {
            let rings = self.lock();
            rings.of_people.changes.iter().chain(&rings.of_packets.changes).cloned().collect()
        };
        all.iter().map(PastChange::to_json).collect()
    }

    /// Returns the number of the newest change.
    pub(super) fn last(&self) -> u64 {
        self.lock().last
    }

    /// Returns the changes after this number.
    pub(super) fn unwritten(&self, after: u64) -> Unwritten {
        let (last, first, people, packets) = {
            let rings = self.lock();
            let new = |ring: &ChangeRing| ring.after(after).cloned().collect::<Vec<PastChange>>();
            let first = [rings.of_people.first(), rings.of_packets.first() | OF_PACKETS];
            (rings.last, first, new(&rings.of_people), new(&rings.of_packets))
        };
        let row = |bit: u64| move |change: &PastChange| (change.number | bit, change.to_json().to_string());
        let rows = people.iter().map(row(0)).chain(packets.iter().map(row(OF_PACKETS))).collect();
        Unwritten { last, rows, first }
    }

    /// Adds the changes of earlier runs, by their rows in the file. Returns the number of those that are damaged.
    pub(super) fn put_before(&self, rows: Vec<(u64, String)>) -> usize {
        let (mut people, mut packets, mut damaged) = (Vec::new(), Vec::new(), 0);
        for (row, text) in rows {
            let number = row & !OF_PACKETS;
            let Some((all, at)) = earlier(number, &text) else {
                damaged += 1;
                continue;
            };
            let change = PastChange { number, at, what: WhatChanged::Earlier(all), bytes: BASE + text.len() };
            if row & OF_PACKETS == 0 { people.push(change) } else { packets.push(change) }
        }
        let mut rings = self.lock();
        let newest = people.iter().chain(&packets).map(|change| change.number).max().unwrap_or_default();
        rings.last = rings.last.max(newest);
        rings.of_people.put_before(people, MAX_OF_PEOPLE);
        rings.of_packets.put_before(packets, MAX_OF_PACKETS);
        damaged
    }

    fn lock(&self) -> MutexGuard<'_, Rings> {
        self.rings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads a change of an earlier run, with its time.
fn earlier(number: u64, text: &str) -> Option<(Value, SystemTime)> {
    let all: Value = serde_json::from_str(text).ok()?;
    let time = all["time"].as_u64().filter(|_| all["number"] == number && all["what"].is_string())?;
    Some((all, UNIX_EPOCH + std::time::Duration::from_millis(time)))
}

impl WriteLog for ChangeHistory {
    fn note(&self, change: &StateChange<'_>) {
        let StateChange { version, name, key, old, new, ref by, at } = *change;
        let of_packets = match by {
            Writer::Policy(_) | Writer::Snooping => true,
            // What another process handed over was written before. What is measured changes all the time.
            Writer::TakeOver | Writer::Measuring => return,
            _ => false,
        };
        let bytes = BASE + name.len() + [key, old, new].into_iter().flatten().map(size).sum::<usize>();
        let key = key.map(|key| ShortValue::of(Some(key)));
        let (old, new) = (ShortValue::of(old), ShortValue::of(new));
        self.add(
            at,
            WhatChanged::Write { by: by.clone(), version, name: name.clone(), key, old, new },
            bytes,
            of_packets,
        );
    }
}

/// Returns what a value counts for: nearly what it takes if it is short.
fn size(value: &Stored) -> usize {
    match value {
        Stored::Str(text) => text.len().min(MAX_VALUE),
        Stored::Bytes(bytes) => bytes.len().min(MAX_VALUE),
        Stored::Tuple(_) | Stored::Map(_) => MAX_VALUE,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use maple_core::state::{Store, Write, Written};

    use super::*;

    fn store(history: &Arc<ChangeHistory>) -> Arc<Store> {
        let store = Store::new();
        store.log_writes_to(Arc::clone(history) as Arc<dyn WriteLog>);
        store
    }

    fn set(store: &Store, by: Writer, key: i64, value: impl Into<Stored>) {
        let at = UNIX_EPOCH + Duration::from_secs(7);
        let write = Write::Table { table: "t".into(), key: key.into(), value: Some(value.into()) };
        store.change_as(vec![write], Written { by, at }).expect("any type");
    }

    fn ann() -> Writer {
        Writer::Client("ann".into())
    }

    #[test]
    fn a_change_has_who_when_and_what_was_there_before() {
        let history = Arc::<ChangeHistory>::default();
        let store = store(&history);
        set(&store, ann(), 1, true);
        set(&store, Writer::Command { verb: "set", pid: 42, user: 1000 }, 1, "x".repeat(300).as_str());
        let all = history.to_json();
        let expected = json!({
            "number": 7_000_000, "time": 7000, "kind": "client", "who": "ann", "by": "ann over HTTP", "pid": null,
            "user": null, "what": "set", "version": 1, "table": "t", "var": null, "key": 1, "old": null, "new": true,
            "policy": null, "hash": null,
        });
        assert_eq!(all[0], expected);
        let second = &all[1];
        assert_eq!(
            (&second["number"], &second["old"], &second["new"]),
            (&json!(7_000_001), &json!(true), &json!({ "long": true }))
        );
        assert_eq!((&second["who"], &second["pid"], &second["user"]), (&Value::Null, &json!(42), &json!(1000)));
    }

    #[test]
    fn packets_push_out_nothing_that_people_did_and_both_are_bounded() {
        let history = Arc::<ChangeHistory>::default();
        let store = store(&history);
        set(&store, ann(), -1, 1i64);
        for number in 0..MAX_OF_PACKETS as i64 + 10 {
            set(&store, Writer::Policy(None), number, number);
        }
        let all = history.to_json();
        assert_eq!((all.len(), &all[0]["who"]), (1 + MAX_OF_PACKETS, &json!("ann")));
        assert_eq!(all[1]["key"], 10, "the oldest of packets are gone");
        for number in 0..MAX_OF_PEOPLE as i64 + 10 {
            set(&store, ann(), number, "x".repeat(250).as_str());
            set(&store, ann(), number, "y".repeat(250).as_str());
        }
        let rings = history.lock();
        assert!(rings.of_people.changes.len() <= MAX_OF_PEOPLE && rings.of_people.bytes <= MAX_BYTES);
        assert_eq!(rings.of_people.bytes, rings.of_people.changes.iter().map(|change| change.bytes).sum::<usize>());
    }

    #[test]
    fn what_is_written_and_read_again_comes_before_what_is_new() {
        let first = Arc::<ChangeHistory>::default();
        let own = store(&first);
        set(&own, ann(), 1, 1i64);
        set(&own, Writer::Policy(None), 2, 2i64);
        let mut written = first.unwritten(0);
        assert_eq!(first.unwritten(written.last), Unwritten { rows: Vec::new(), ..first.unwritten(0) });
        written.rows.push((9, "{".into()));
        written.rows.push((9, r#"{"number":8,"time":1,"what":"set"}"#.into()));
        let second = Arc::<ChangeHistory>::default();
        set(&store(&second), ann(), 3, 3i64);
        assert_eq!(second.put_before(written.rows), 2, "two are damaged");
        let keys: Vec<Value> = second.to_json().iter().map(|change| change["key"].clone()).collect();
        assert_eq!(keys, [1, 3, 2], "of people, and then of packets");
        set(&store(&second), ann(), 4, 4i64);
        let numbers: Vec<u64> = second.to_json().iter().filter_map(|change| change["number"].as_u64()).collect();
        assert!(numbers[..3].is_sorted_by(|a, b| a <= b) && numbers[2] > numbers[3], "{numbers:?}");
    }
}
