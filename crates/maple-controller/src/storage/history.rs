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
//! There are three rings, so that what programs do again and again pushes out nothing that a person did: which policies
//! came to run; writes of people (requests on the socket and over HTTP); and writes of the rest, which are the policy,
//! snooping, threads and files. Each ring has a maximum number of changes, and of bytes. A key or a value that is long
//! is left out of its change, which says so.
//!
//! # Cost
//!
//! A write copies its place and both values, which are pointers mostly, under the lock that its commit holds anyway.
//! A reader takes pointers to the changes under that lock. What is read becomes JSON only then.
//!
//! # Over a restart
//!
//! The thread that writes leaves into the state file (`remember/writer.rs`) writes the new changes too, and reads those
//! of earlier runs when the file is open. They stay the text that the file has. Own changes from before that moment get
//! other numbers if the clock stands before an earlier change. If the file's changes can't be read, none is written in
//! that run, since the first one would delete all.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use maple_core::state::{Name, StateChange, Value as Stored, WriteLog, Writer, version_of, version_var};
use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};

use super::state_json::to_json;
use crate::policy_record::PolicyIdentity;

/// The maximum number of writes by people. Chosen: months of changes by hand; what people did must outlast what
/// programs did.
const MAX_OF_PEOPLE: usize = 4096;
/// The maximum number of policies that came to run. Chosen: more than a year of reloads, one or two a day.
const MAX_OF_POLICIES: usize = 512;
/// The maximum number of writes by the rest. Chosen: programs may write all the time, so only the newest are of
/// interest.
const MAX_OF_PROGRAMS: usize = 1024;
/// The maximum size of all changes in a ring, in bytes. Chosen: 512 bytes for each of the 4096 changes of the
/// longest ring, and a bound on memory if values are long.
const MAX_BYTES: usize = 2 << 20;
/// The maximum size of a key or a value, in bytes. Chosen: longer ones are not read in a list of changes; that one was
/// long is said.
const MAX_VALUE: usize = 256;
/// The size of a change besides names and values, in bytes.
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

/// The way in which another policy came to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyAct {
    /// The controller started with it.
    Start,
    /// The controller started with the policy that had run before.
    Resumption,
    /// The policy was loaded.
    Reload,
    /// A plan was applied.
    Apply,
    /// A plan was applied at some switches first.
    Canary,
    /// A policy that decided at some switches decides everywhere.
    Promote,
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
    /// The rings, by [`RingKind`].
    rings: [ChangeRing; 3],
    last: u64,
}

/// The kind of changes in a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RingKind {
    /// Writes by people.
    People,
    /// Policies that came to run.
    Policies,
    /// Writes by the policy, snooping, threads and files.
    Programs,
}

#[derive(Debug, Default)]
struct ChangeRing {
    changes: VecDeque<Arc<PastChange>>,
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
    /// A change of an earlier run: JSON that has been read once.
    Earlier(Arc<str>),
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
    /// The rows of each ring that are older than what stays.
    pub old: [Range<u64>; 3],
}

/// The bits of a row in the file that say in which ring the change is.
const BITS: u64 = 0b11 << 62;

impl RingKind {
    const ALL: [RingKind; 3] = [RingKind::People, RingKind::Policies, RingKind::Programs];

    /// Returns the bits of its rows in the file.
    fn bits(self) -> u64 {
        match self {
            RingKind::People => 0,
            RingKind::Policies => 1 << 62,
            RingKind::Programs => 1 << 63,
        }
    }

    /// Returns the maximum number of changes.
    fn most(self) -> usize {
        match self {
            RingKind::People => MAX_OF_PEOPLE,
            RingKind::Policies => MAX_OF_POLICIES,
            RingKind::Programs => MAX_OF_PROGRAMS,
        }
    }
}

impl PolicyAct {
    /// Returns the name.
    pub fn name(self) -> &'static str {
        match self {
            PolicyAct::Start => "start",
            PolicyAct::Resumption => "resumption",
            PolicyAct::Reload => "reload",
            PolicyAct::Apply => "apply",
            PolicyAct::Canary => "canary",
            PolicyAct::Promote => "promote",
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
            PolicyAct::Promote => "maple apply --promote",
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
    fn push(&mut self, change: Arc<PastChange>, most: usize) {
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
        earlier.into_iter().map(Arc::new).chain(own.changes).for_each(|change| self.push(change, most));
    }

    fn first(&self) -> u64 {
        self.changes.front().map_or(!BITS, |change| change.number)
    }
}

impl Rings {
    /// Makes all numbers greater than this one, in their order.
    fn number_after(&mut self, newest: u64) {
        let oldest = self.rings.iter().map(ChangeRing::first).min().unwrap_or(!BITS);
        let shift = (newest + 1).saturating_sub(oldest);
        if shift > 0 {
            let changes = self.rings.iter_mut().flat_map(|ring| &mut ring.changes);
            changes.for_each(|change| Arc::make_mut(change).number += shift);
            self.last += shift;
        }
        self.last = self.last.max(newest);
    }
}

impl PastChange {
    fn to_json(&self) -> Value {
        let mut all = match &self.what {
            // It was JSON when it was read.
            WhatChanged::Earlier(text) => return serde_json::from_str(text).unwrap_or_default(),
            WhatChanged::Write { by, version, name, key, old, new } => {
                let (table, var) = if key.is_some() { (Some(version_of(name).0), None) } else { (None, Some(&**name)) };
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

    /// Returns the JSON as text.
    fn to_text(&self) -> String {
        match &self.what {
            WhatChanged::Earlier(text) => text.to_string(),
            WhatChanged::Write { .. } | WhatChanged::Policy { .. } => self.to_json().to_string(),
        }
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
        Writer::TakeOver | Writer::Cluster | Writer::Measuring => "controller",
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
        Writer::Cluster => Some("the cluster"),
    }
}

impl ChangeHistory {
    /// Notes that another policy runs, with the version of the state at that moment.
    pub fn note_policy(&self, act: PolicyAct, by: Changer, policy: PolicyIdentity, version: u64) {
        let bytes = BASE + policy.name.len();
        self.add(SystemTime::now(), WhatChanged::Policy { by, act, policy, version }, bytes, RingKind::Policies);
    }

    fn add(&self, at: SystemTime, what: WhatChanged, bytes: usize, kind: RingKind) {
        let mut rings = self.lock();
        let micros = at.duration_since(UNIX_EPOCH).unwrap_or_default().as_micros() as u64;
        rings.last = micros.max(rings.last + 1);
        let change = Arc::new(PastChange { number: rings.last, at, what, bytes });
        rings.rings[kind as usize].push(change, kind.most());
    }

    /// Returns all changes as JSON, in no order. What has a process as `who` has `null` there, and the user's id under
    /// `user`.
    pub fn to_json(&self) -> Vec<Value> {
        let all: Vec<Arc<PastChange>> = {
            let rings = self.lock();
            rings.rings.iter().flat_map(|ring| &ring.changes).cloned().collect()
        };
        all.iter().map(|change| change.to_json()).collect()
    }

    /// Returns the number of the newest change.
    pub(super) fn last(&self) -> u64 {
        self.lock().last
    }

    /// Returns the changes after this number.
    pub(super) fn unwritten(&self, after: u64) -> Unwritten {
        let (last, old, new) = {
            let rings = self.lock();
            let ring = |kind: RingKind| &rings.rings[kind as usize];
            let old = RingKind::ALL.map(|kind| kind.bits()..kind.bits() | ring(kind).first());
            let new = RingKind::ALL.map(|kind| {
                let new = ring(kind).changes.iter().filter(|change| change.number > after);
                new.map(|change| (change.number | kind.bits(), Arc::clone(change))).collect::<Vec<_>>()
            });
            (rings.last, old, new)
        };
        let rows = new.into_iter().flatten().map(|(row, change)| (row, change.to_text())).collect();
        Unwritten { last, rows, old }
    }

    /// Adds the changes of earlier runs, by their rows in the file. Returns the newest number of them, and how many are
    /// damaged.
    pub(super) fn put_before(&self, rows: Vec<(u64, String)>) -> (u64, usize) {
        let (mut earlier, mut newest, mut damaged) = ([const { Vec::new() }; 3], 0, 0);
        for (row, text) in rows {
            let (number, bits) = (row & !BITS, row & BITS);
            let kind = RingKind::ALL.into_iter().find(|kind| kind.bits() == bits);
            let (Some(kind), Some(at)) = (kind, time_of_earlier(number, &text)) else {
                damaged += 1;
                continue;
            };
            newest = newest.max(number);
            let bytes = BASE + text.len();
            earlier[kind as usize].push(PastChange { number, at, what: WhatChanged::Earlier(text.into()), bytes });
        }
        let mut rings = self.lock();
        rings.number_after(newest);
        for (kind, earlier) in RingKind::ALL.into_iter().zip(earlier) {
            rings.rings[kind as usize].put_before(earlier, kind.most());
        }
        (newest, damaged)
    }

    fn lock(&self) -> MutexGuard<'_, Rings> {
        self.rings.lock()
    }
}

/// Returns the time of a change of an earlier run, if it is one.
fn time_of_earlier(number: u64, text: &str) -> Option<SystemTime> {
    let all: Value = serde_json::from_str(text).ok()?;
    let time = all["time"].as_u64().filter(|_| all["number"] == number && all["what"].is_string())?;
    UNIX_EPOCH.checked_add(std::time::Duration::from_millis(time))
}

impl WriteLog for ChangeHistory {
    fn note(&self, change: &StateChange<'_>) {
        let StateChange { version, name, key, old, new, ref by, at } = *change;
        let kind = match by {
            Writer::Command { .. } | Writer::Client(_) => RingKind::People,
            Writer::Policy(_) | Writer::Snooping | Writer::Thread { .. } | Writer::File(_) | Writer::Cluster => {
                RingKind::Programs
            }
            // What another process handed over was written before. What is measured changes all the time.
            Writer::TakeOver | Writer::Measuring => return,
        };
        if key.is_none() && name.rsplit_once('#').is_some_and(|(table, _)| version_var(table) == *name) {
            // Which version of a table is in use.
            return;
        }
        let bytes = BASE + name.len() + [key, old, new].into_iter().flatten().map(size).sum::<usize>();
        let key = key.map(|key| ShortValue::of(Some(key)));
        let (old, new) = (ShortValue::of(old), ShortValue::of(new));
        self.add(at, WhatChanged::Write { by: by.clone(), version, name: name.clone(), key, old, new }, bytes, kind);
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
    use crate::fingerprint::Fingerprint;

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
    fn writes_push_out_no_policy_and_those_of_programs_none_of_people_and_all_are_bounded() {
        let history = Arc::<ChangeHistory>::default();
        let store = store(&history);
        set(&store, ann(), -1, 1i64);
        let file = Writer::File("/t.json".into());
        for number in 0..MAX_OF_PROGRAMS as i64 + 10 {
            set(&store, if number % 2 == 0 { Writer::Policy(None) } else { file.clone() }, number, number);
        }
        let all = history.to_json();
        assert_eq!((all.len(), &all[0]["who"]), (1 + MAX_OF_PROGRAMS, &json!("ann")));
        assert_eq!(all[1]["key"], 10, "the oldest of programs are gone");
        let policy = PolicyIdentity { name: "p.py".into(), hash: Fingerprint::from_parts(["x"]) };
        history.note_policy(PolicyAct::Apply, Changer::Client("ann".into()), policy, 1);
        for number in 0..MAX_OF_PEOPLE as i64 + 10 {
            set(&store, ann(), number, "x".repeat(250).as_str());
            set(&store, ann(), number, "y".repeat(250).as_str());
        }
        assert!(history.to_json().iter().any(|change| change["what"] == "apply"));
        let rings = history.lock();
        let people = &rings.rings[RingKind::People as usize];
        assert!(people.changes.len() <= MAX_OF_PEOPLE && people.bytes <= MAX_BYTES);
        assert_eq!(people.bytes, people.changes.iter().map(|change| change.bytes).sum::<usize>());
    }

    #[test]
    fn a_table_has_its_own_name_in_every_version() {
        let history = Arc::<ChangeHistory>::default();
        let store = store(&history);
        let write = vec![
            Write::Table { table: "t#2".into(), key: 1i64.into(), value: Some(true.into()) },
            Write::Var { name: "t#version".into(), value: Some(2i64.into()) },
            Write::Var { name: "colour#2".into(), value: Some(2i64.into()) },
        ];
        store.change_as(write, Written { by: ann(), at: UNIX_EPOCH }).expect("any type");
        let names: Vec<Value> =
            history.to_json().iter().map(|change| json!([change["table"], change["var"]])).collect();
        assert_eq!(names, [json!(["t", null]), json!([null, "colour#2"])]);
    }

    #[test]
    fn changes_read_from_the_file_come_before_new_ones() {
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
        written.rows.push((BITS | 8, r#"{"number":8,"time":1,"what":"set"}"#.into()));
        assert_eq!(second.put_before(written.rows), (written.last, 3), "three are damaged");
        assert_eq!(second.unwritten(written.last).rows.len(), 1, "what was read is in the file");
        let keys: Vec<Value> = second.to_json().iter().map(|change| change["key"].clone()).collect();
        assert_eq!(keys, [1, 3, 2], "of people, and then of programs");
        set(&store(&second), ann(), 4, 4i64);
        let numbers: Vec<u64> = second.to_json().iter().filter_map(|change| change["number"].as_u64()).collect();
        assert!(numbers[..3].is_sorted_by(|a, b| a < b) && numbers[1] > numbers[3], "{numbers:?}");
        let (all, texts) = (second.to_json(), second.unwritten(0).rows);
        let read = |(row, text): &(u64, String)| (row & !BITS, serde_json::from_str::<Value>(text).expect("JSON"));
        let expected: Vec<(u64, Value)> = numbers.into_iter().zip(all).collect();
        assert_eq!(texts.iter().map(read).collect::<Vec<_>>(), expected);
    }
}
