//! The last writer of each cell, and the time: for people who ask why the network does what it does.
//!
//! # What
//!
//! A writer that says who it is leaves its name at each key, variable and link cost that it writes. The last name is
//! remembered. The time is the wall clock's, as the writer passes it in: core reads no clock.
//!
//! # Bounds
//!
//! At most [`MAX_PLACES`] places are remembered. A further one replaces the one whose last write is the oldest. A key
//! of more than [`MAX_KEY_BYTES`] bytes is not remembered. So all of it takes a few megabytes. The writer of a place
//! that is not remembered is unknown. A writer that does not say who it is makes the writer of the place unknown too,
//! so the memory is never wrong.
//!
//! # Cost
//!
//! A write looks for its place in a hash map and moves it to the end of a linked list, under the lock that a commit
//! holds anyway. The list is in one vector, which only grows. So no write pays for many forgotten ones.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use foldhash::quality::RandomState;

use super::{Cell, Name, Store, Value, Write};
use crate::network::LinkName;
use crate::trace::Source;

/// The maximum number of places whose last writers are remembered, so that these take a few megabytes.
const MAX_PLACES: usize = 1 << 14;
/// The maximum size of a remembered key, in bytes, so that all keys take a few megabytes.
const MAX_KEY_BYTES: usize = 256;

/// A writer of tracked state.
///
/// ```
/// use maple_core::Source;
/// use maple_core::state::Writer;
///
/// let policy = Writer::Policy(Some(Source::new("policy.py", 12)));
/// assert_eq!(policy.to_string(), "the policy at policy.py:12");
/// let command = Writer::Command { verb: "set", pid: 4211, user: 0 };
/// assert_eq!(command.to_string(), "`maple state set` (pid 4211)");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Writer {
    /// A run of f, at this line if it is known.
    Policy(Option<Source>),
    /// A thread of a program besides the policy, or the policy's file while it is loaded.
    Thread {
        /// The thread's name.
        name: Arc<str>,
        /// The line that wrote.
        line: Option<Source>,
    },
    /// A request on the control socket.
    Command {
        /// The kind of request: `set` or `delete`.
        verb: &'static str,
        /// The id of the process that asked; 0 if the controller cannot see it.
        pid: u32,
        /// The id of its user.
        user: u32,
    },
    /// A client of the HTTP API, by the name of its token.
    Client(Arc<str>),
    /// The snooper of multicast groups and DHCP leases.
    Snooping,
    /// A file: the state file, or a configuration.
    File(Arc<str>),
    /// The controller that this one took over from.
    TakeOver,
    /// Another controller of the cluster, or this one before etcd was read again.
    Cluster,
    /// The controller itself, which measures the utilisation of links.
    Measuring,
}

/// The last write to a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// The writer.
    pub by: Writer,
    /// The time of the write, by the writer's wall clock.
    pub at: SystemTime,
}

impl Writer {
    /// Returns this writer at a line, if it has lines.
    pub(super) fn at_line(&self, line: Option<&Source>) -> Writer {
        match (self, line) {
            (Writer::Policy(_), Some(line)) => Writer::Policy(Some(line.clone())),
            (Writer::Thread { name, .. }, Some(line)) => {
                Writer::Thread { name: Arc::clone(name), line: Some(line.clone()) }
            }
            _ => self.clone(),
        }
    }
}

impl fmt::Display for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Writer::Policy(None) => f.write_str("the policy"),
            Writer::Policy(Some(line)) => write!(f, "the policy at {line}"),
            Writer::Thread { name, line: None } => write!(f, "the thread {name}"),
            Writer::Thread { name, line: Some(line) } => write!(f, "the thread {name} at {line}"),
            Writer::Command { verb, pid: 0, .. } => {
                write!(f, "`maple state {verb}` (a process that is not visible to the controller)")
            }
            Writer::Command { verb, pid, .. } => write!(f, "`maple state {verb}` (pid {pid})"),
            Writer::Client(name) => write!(f, "{name} over HTTP"),
            Writer::Snooping => f.write_str("snooping"),
            Writer::File(name) => write!(f, "the file {name}"),
            Writer::TakeOver => f.write_str("the controller that ran before"),
            Writer::Cluster => f.write_str("the cluster"),
            Writer::Measuring => f.write_str("the controller, which measured it"),
        }
    }
}

/// The author of a transaction's writes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Author {
    /// No one said who writes.
    #[default]
    Unknown,
    /// The writes put the same values in another form, so the earlier author remains.
    AsBefore,
    /// The writer, with the lines that made the first writes of the transaction.
    Known(Box<Written>, Vec<Option<Source>>),
}

/// A place that has a last writer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum WrittenPlace {
    Key(Name, Value),
    Var(Name),
    Cost(Name, LinkName),
}

impl WrittenPlace {
    fn from_write(write: &Write) -> Option<WrittenPlace> {
        match write {
            Write::Table { table, key, .. } => {
                key.fits(MAX_KEY_BYTES).then(|| WrittenPlace::Key(table.clone(), key.clone()))
            }
            Write::Var { name, .. } | Write::Add { name, .. } => Some(WrittenPlace::Var(name.clone())),
            Write::Cost { name, link, .. } => Some(WrittenPlace::Cost(name.clone(), *link)),
            _ => None,
        }
    }
}

/// The number that stands for no slot. It exceeds [`MAX_PLACES`].
const NONE: u32 = u32::MAX;

/// A place with its last write; `None` if that is not known. Slots form a list in the order of these writes.
#[derive(Debug)]
struct WriteSlot {
    place: WrittenPlace,
    last: Option<Written>,
    newer: u32,
    older: u32,
}

/// The last writes to places.
#[derive(Debug)]
pub(super) struct LastWrites {
    slots: Vec<WriteSlot>,
    by_place: HashMap<WrittenPlace, u32, RandomState>,
    newest: u32,
    oldest: u32,
}

impl Default for LastWrites {
    fn default() -> LastWrites {
        LastWrites { slots: Vec::new(), by_place: HashMap::default(), newest: NONE, oldest: NONE }
    }
}

impl LastWrites {
    /// Notes the writes of a commit.
    pub fn note(&mut self, writes: &[Write], author: &Author) {
        match author {
            Author::AsBefore => {}
            Author::Unknown if self.slots.is_empty() => {}
            Author::Unknown => writes.iter().filter_map(WrittenPlace::from_write).for_each(|place| self.forget(&place)),
            Author::Known(written, lines) => {
                for (position, write) in writes.iter().enumerate() {
                    let Some(place) = WrittenPlace::from_write(write) else { continue };
                    let line = lines.get(position).and_then(Option::as_ref);
                    self.put(place, Written { by: written.by.at_line(line), at: written.at });
                }
            }
        }
    }

    fn put(&mut self, place: WrittenPlace, written: Written) {
        let slot = match self.by_place.get(&place) {
            Some(slot) => *slot,
            None => self.new_slot(place),
        };
        self.slots[slot as usize].last = Some(written);
        if self.newest != slot {
            self.unlink(slot);
            self.link_newest(slot);
        }
    }

    /// Adds an unwritten slot at the newest end of the list.
    fn new_slot(&mut self, place: WrittenPlace) -> u32 {
        let slot = if self.slots.len() < MAX_PLACES {
            self.slots.push(WriteSlot { place: place.clone(), last: None, newer: NONE, older: NONE });
            self.slots.len() as u32 - 1
        } else {
            let slot = self.oldest;
            self.unlink(slot);
            let former = std::mem::replace(&mut self.slots[slot as usize].place, place.clone());
            self.by_place.remove(&former);
            slot
        };
        self.by_place.insert(place, slot);
        self.link_newest(slot);
        slot
    }

    fn unlink(&mut self, slot: u32) {
        let WriteSlot { newer, older, .. } = self.slots[slot as usize];
        match self.slots.get_mut(newer as usize) {
            Some(next) => next.older = older,
            None => self.newest = older,
        }
        match self.slots.get_mut(older as usize) {
            Some(before) => before.newer = newer,
            None => self.oldest = newer,
        }
    }

    fn link_newest(&mut self, slot: u32) {
        let older = std::mem::replace(&mut self.newest, slot);
        match self.slots.get_mut(older as usize) {
            Some(before) => before.newer = slot,
            None => self.oldest = slot,
        }
        let linked = &mut self.slots[slot as usize];
        (linked.newer, linked.older) = (NONE, older);
    }

    fn forget(&mut self, place: &WrittenPlace) {
        if let Some(slot) = self.by_place.get(place) {
            self.slots[*slot as usize].last = None;
        }
    }

    fn at(&self, place: &WrittenPlace) -> Option<&Written> {
        self.slots[*self.by_place.get(place)? as usize].last.as_ref()
    }

    /// Returns the slots, the most recently written first.
    fn newest_first(&self) -> impl Iterator<Item = &WriteSlot> {
        let slot = |at: u32| self.slots.get(at as usize);
        std::iter::successors(slot(self.newest), move |before| slot(before.older))
    }

    /// Returns the newest write to one of these places. `None` if a newer one may have been forgotten.
    fn newest_of(&self, is_meant: impl Fn(&WrittenPlace) -> bool) -> Option<&Written> {
        self.newest_first().find(|slot| is_meant(&slot.place))?.last.as_ref()
    }
}

impl Store {
    /// Returns the last writer of a cell, and the time. For a whole table it is that of the last write to any key, and
    /// for paths by a cost that of the last write to any link's cost. `None` if it is not known: some writers do not
    /// say who they are, and the oldest writes are forgotten. State that the network shows, such as the location of a
    /// host, has no writer.
    ///
    /// ```
    /// use std::time::SystemTime;
    /// use maple_core::Store;
    /// use maple_core::state::{Cell, Write, Writer, Written};
    ///
    /// let store = Store::new();
    /// let write = Write::Var { name: "mode".into(), value: Some("night".into()) };
    /// let by = Written { by: Writer::TakeOver, at: SystemTime::UNIX_EPOCH };
    /// store.change_as(vec![write.clone()], by.clone()).expect("any value is right");
    /// assert_eq!(store.last_write(&Cell::Var("mode".into())), Some(by));
    /// // One that does not say who it is.
    /// store.change(vec![write]).expect("any value is right");
    /// assert_eq!(store.last_write(&Cell::Var("mode".into())), None);
    /// ```
    pub fn last_write(&self, cell: &Cell) -> Option<Written> {
        let inner = self.lock();
        let last = &inner.last_writes;
        match cell {
            Cell::Table(table, key) => last.at(&WrittenPlace::Key(table.clone(), key.clone())),
            Cell::Var(name) => last.at(&WrittenPlace::Var(name.clone())),
            Cell::TableAll(table) | Cell::TableLen(table) => {
                last.newest_of(|place| matches!(place, WrittenPlace::Key(of, _) if of == table))
            }
            Cell::Path { costs: Some(name), .. } | Cell::HasPath { costs: Some(name), .. } => {
                last.newest_of(|place| matches!(place, WrittenPlace::Cost(of, _) if of == name))
            }
            _ => None,
        }
        .cloned()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn by(seconds: u64) -> Written {
        let at = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        Written { by: Writer::Command { verb: "set", pid: seconds as u32, user: 0 }, at }
    }

    fn key(key: i64) -> Write {
        Write::Table { table: "t".into(), key: key.into(), value: Some(1i64.into()) }
    }

    fn cell(key: i64) -> Cell {
        Cell::Table("t".into(), key.into())
    }

    #[test]
    fn the_last_writer_of_each_place_is_known_with_its_line() {
        let store = Store::new();
        let mut txn = store.begin();
        txn.write_at(key(1), Some(Source::new("policy.py", 3)));
        txn.write(key(2));
        txn.write_at(Write::Add { name: "sum".into(), amount: 1 }, Some(Source::new("policy.py", 5)));
        txn.sign(Written { by: Writer::Policy(None), at: SystemTime::UNIX_EPOCH });
        store.commit(txn, None).expect("nobody else");
        let text = |cell: Cell| store.last_write(&cell).map(|written| written.by.to_string());
        assert_eq!(text(cell(1)).as_deref(), Some("the policy at policy.py:3"));
        assert_eq!(text(cell(2)).as_deref(), Some("the policy"));
        assert_eq!(text(Cell::Var("sum".into())).as_deref(), Some("the policy at policy.py:5"));
        assert_eq!(text(Cell::TableAll("t".into())).as_deref(), Some("the policy"), "of key 2");
        assert_eq!(text(cell(3)), None);
        store.change_as(vec![key(1)], by(9)).expect("any type");
        assert_eq!(store.last_write(&cell(1)), Some(by(9)));
        assert_eq!(store.last_write(&Cell::TableLen("t".into())), Some(by(9)));
    }

    #[test]
    fn rolled_back_writes_have_no_writer() {
        let store = Store::new();
        let mut txn = store.begin();
        let before = txn.savepoint();
        txn.write_at(key(1), Some(Source::new("policy.py", 3)));
        txn.roll_back(before);
        txn.write_at(key(2), Some(Source::new("policy.py", 4)));
        txn.sign(Written { by: Writer::Policy(None), at: SystemTime::UNIX_EPOCH });
        store.commit(txn, None).expect("nobody else");
        assert_eq!(store.last_write(&cell(1)), None);
        let last = store.last_write(&cell(2)).map(|written| written.by.to_string());
        assert_eq!(last.as_deref(), Some("the policy at policy.py:4"));
    }

    #[test]
    fn an_unknown_writer_is_never_taken_for_the_one_before() {
        let store = Store::new();
        store.change_as(vec![key(1), key(2)], by(1)).expect("any type");
        store.update(|_| vec![key(1)]);
        assert_eq!(store.last_write(&cell(1)), None);
        assert_eq!(store.last_write(&cell(2)), Some(by(1)));
        let kind = super::super::Kind::Int;
        store.declare_types("t", super::super::Types { key: kind.clone(), value: kind }).expect("they are integers");
        assert_eq!(store.last_write(&cell(2)), Some(by(1)), "a declaration writes nothing new");
    }

    #[test]
    fn places_are_bounded_and_the_oldest_is_forgotten() {
        let store = Store::new();
        let most = MAX_PLACES as i64;
        for number in 0..most {
            store.change_as(vec![key(number)], by(1)).expect("any type");
        }
        store.change_as(vec![key(0)], by(2)).expect("any type");
        store.change_as((most..most + 10).map(key).collect(), by(3)).expect("any type");
        assert_eq!(store.last_write(&cell(0)), Some(by(2)), "it was written again");
        assert!((1..=10).all(|number| store.last_write(&cell(number)).is_none()), "the oldest");
        assert!((11..most).all(|number| store.last_write(&cell(number)).is_some()));
        let inner = store.lock();
        let last = &inner.last_writes;
        assert_eq!(
            (last.slots.len(), last.by_place.len(), last.newest_first().count()),
            (MAX_PLACES, MAX_PLACES, MAX_PLACES)
        );
    }

    #[test]
    fn a_large_key_is_not_remembered() {
        let store = Store::new();
        let large = Value::from("x".repeat(MAX_KEY_BYTES + 1).as_str());
        let nested = Value::Tuple(vec![Value::Int(1); MAX_KEY_BYTES].into());
        for key in [large, nested] {
            let write = Write::Table { table: "t".into(), key: key.clone(), value: Some(1i64.into()) };
            store.change_as(vec![write], by(1)).expect("any type");
            assert_eq!(store.last_write(&Cell::Table("t".into(), key)), None);
        }
    }
}
