//! Queries: memoised functions of state (design §4).
//!
//! # What
//!
//! A [`Query`] is a function of the state and of an argument that people write, as a path is one that Maple has. Its answer
//! is a [`Cell`]: who reads it depends on the *answer*, not on what the function looked at. Where a write may change
//! the answer it is asked again, once, and only if it differs are its readers withdrawn (cut off when equal).
//!
//! # Why it is correct
//!
//! The function sees nothing but its argument and the cells that it reads, noted by a transaction of its own over one
//! snapshot. So in any other snapshot in which all these cells are equal its answer is the same, and that is when an
//! answer is taken from the [`Memo`]. Whoever is subscribed to an answer is subscribed, through
//! [`super::readers::Readers`], to what it was made of. An answer is never more than a function of a snapshot:
//! transactions need know nothing of queries.
//!
//! # Cost
//!
//! An answer of the same snapshot costs a look-up by hash; of another one besides a comparison a cell that it read. Where a
//! query has subscribers and what it read changes, its function runs within the commit, while others' commits wait: a
//! query should be quick. Failures are never remembered.
//!
//! The memo belongs to a store, and is emptied where it would grow beyond [`Memo::MOST`].

use std::cell::RefCell;
use std::cmp::Ordering as Order;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use rustc_hash::FxHashMap;

use super::typed::{Stored, WrongType};
use super::{Cell, CellValue, Name, Read, Snapshot, Txn, Value, sync};
use crate::policy::panic_text;
use crate::run::{Net, Run};

/// A memoised function of state, with an argument (`()` where there is none).
#[derive(Debug)]
pub struct Query<A, V> {
    function: Function,
    types: PhantomData<fn(A) -> V>,
}

/// A memoised function of state without its types, for bindings to other languages. Clones are the same function.
#[derive(Clone)]
pub struct Function(Arc<Definition>);

/// A function of the state and of an argument.
type Ask = dyn Fn(&Net, &Value) -> Answer + Send + Sync;

/// What a query's function may say.
pub type Answer = Result<Value, Arc<str>>;

struct Definition {
    /// No other definition of this process has it.
    id: u64,
    name: Name,
    ask: Box<Ask>,
}

/// A function with its argument.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Question {
    function: Function,
    argument: Value,
}

/// A query has no answer of the type that was asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueryError {
    /// Its function failed.
    #[error("the query {query} failed: {error}")]
    Failed {
        /// The query with its argument.
        query: String,
        /// Why.
        error: Arc<str>,
    },
    /// It answered with something else.
    #[error(transparent)]
    WrongType(#[from] WrongType),
}

/// Answers that were found, by question.
#[derive(Debug, Default)]
pub(super) struct Memo {
    answers: Mutex<FxHashMap<Question, Vec<Remembered>>>,
    /// Whether nobody notes where hosts are, so that asking for it is an error, as it is in f.
    no_hosts: AtomicBool,
}

/// The cells that an answer rests on, with the values that they had.
pub(super) type Reads = Arc<[(Cell, CellValue)]>;

#[derive(Clone, Debug)]
struct Remembered {
    /// A snapshot in which it is known to hold, if that was a published one.
    version: Option<u64>,
    answer: Value,
    reads: Reads,
}

thread_local! {
    /// What this thread is in the middle of answering.
    static ASKING: RefCell<Vec<Question>> = const { RefCell::new(Vec::new()) };
}

impl<A: Stored, V: Stored> Query<A, V> {
    /// The query that `f` answers. It may read all that policies may, and must write nothing.
    pub fn new(name: &str, f: impl Fn(&Net, A) -> V + Send + Sync + 'static) -> Query<A, V> {
        let ask = move |net: &Net, argument: &Value| match A::from_value(argument) {
            Some(argument) => Ok(f(net, argument).to_value()),
            None => Err(format!("{argument} is no {}", std::any::type_name::<A>()).into()),
        };
        Query::of(Function::new(name, ask))
    }

    /// The query that this function answers, whose arguments and answers had better be of these types.
    pub fn of(function: Function) -> Query<A, V> {
        Query { function, types: PhantomData }
    }

    /// Its function, without types.
    pub fn function(&self) -> &Function {
        &self.function
    }

    /// Its answer in this state.
    ///
    /// # Panics
    /// If there is none; in a policy that is an error of this packet. [`Query::try_get`] does without.
    pub fn get(&self, state: &impl Read, argument: &A) -> V {
        self.try_get(state, argument).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Its answer in this state.
    ///
    /// # Errors
    /// [`QueryError`] if its function panics, asks for what is not there, writes, waits, or asks itself.
    pub fn try_get(&self, state: &impl Read, argument: &A) -> Result<V, QueryError> {
        let question = Question { function: self.function.clone(), argument: argument.to_value() };
        let place = question.to_string();
        match state.cell(Cell::Query(question)) {
            CellValue::Answer(Ok(value)) => {
                let wanted = std::any::type_name::<V>();
                Ok(V::from_value(&value).ok_or(WrongType { place, value, wanted })?)
            }
            CellValue::Answer(Err(error)) => Err(QueryError::Failed { query: place, error }),
            other => Err(QueryError::Failed { query: place, error: format!("{other:?} is no answer").into() }),
        }
    }
}

impl<A, V> Clone for Query<A, V> {
    fn clone(&self) -> Query<A, V> {
        Query { function: self.function.clone(), types: PhantomData }
    }
}

impl Function {
    /// The function that `ask` is.
    pub fn new(name: &str, ask: impl Fn(&Net, &Value) -> Answer + Send + Sync + 'static) -> Function {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Function(Arc::new(Definition {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            name: name.into(),
            ask: Box::new(ask),
        }))
    }

    /// The cell that its answer to `argument` is.
    pub fn cell(&self, argument: Value) -> Cell {
        Cell::Query(Question { function: self.clone(), argument })
    }
}

impl Question {
    /// The answer in `state`.
    pub(super) fn answer(&self, state: &Snapshot) -> Answer {
        self.answer_with_reads(state).0
    }

    /// The answer in `state`, and what it rests on.
    pub(super) fn answer_with_reads(&self, state: &Snapshot) -> (Answer, Reads) {
        let known = state.memo.of(self);
        let here = known.iter().find(|one| one.version.is_some() && one.version == state.published());
        if let Some(one) = here {
            return (Ok(one.answer.clone()), one.reads.clone());
        }
        let holds = |one: &&Remembered| one.reads.iter().all(|(cell, seen)| cell.still(seen, one.version, state));
        if let Some(one) = known.iter().find(holds) {
            state.memo.remember(self, Remembered { version: state.published(), ..one.clone() });
            return (Ok(one.answer.clone()), one.reads.clone());
        }
        let (answer, reads) = self.ask(state);
        if let Ok(answer) = &answer {
            let (version, answer, reads) = (state.published(), answer.clone(), reads.clone());
            state.memo.remember(self, Remembered { version, answer, reads });
        }
        (answer, reads)
    }

    /// Runs the function.
    fn ask(&self, state: &Snapshot) -> (Answer, Reads) {
        let Some(_asking) = Asking::enter(self) else {
            return (Err("it asks itself".into()), Arc::new([]));
        };
        let tracked = !state.memo.no_hosts.load(Ordering::Relaxed);
        let run = Run::of_state(Txn::new(Arc::new(state.clone())), tracked);
        let asked = catch_unwind(AssertUnwindSafe(|| (self.function.0.ask)(&run.net(), &self.argument)));
        let answer = asked.unwrap_or_else(|panic| Err(panic_text("the query", &*panic)));
        let Some(finished) = run.finish() else { return (Err("its run was ended".into()), Arc::new([])) };
        let reads = finished.txn.reads().map(|(cell, value)| (cell.clone(), value.clone())).collect();
        let answer = match (finished.error, finished.txn.wrote()) {
            (Some(error), _) => Err(error.to_string().into()),
            (None, true) => Err("it writes, and queries only read".into()),
            (None, false) => answer,
        };
        (answer, reads)
    }
}

/// While this lives, the thread is in the middle of a question.
struct Asking;

impl Asking {
    /// `None` if it is in the middle of this very question already.
    fn enter(question: &Question) -> Option<Asking> {
        ASKING.with_borrow_mut(|asking| {
            let is_new = !asking.contains(question);
            is_new.then(|| asking.push(question.clone())).map(|()| Asking)
        })
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        ASKING.with_borrow_mut(Vec::pop);
    }
}

impl Memo {
    /// Questions that are remembered, at most.
    const MOST: usize = 1 << 17;
    /// Answers to one question that are remembered: that of the newest state, and that of runs that began before.
    const DEPTH: usize = 2;

    /// From now on queries that ask for hosts fail.
    pub fn know_no_hosts(&self) {
        self.no_hosts.store(true, Ordering::Relaxed);
        sync::lock(&self.answers).clear();
    }

    fn of(&self, question: &Question) -> Vec<Remembered> {
        sync::lock(&self.answers).get(question).cloned().unwrap_or_default()
    }

    /// Puts an answer in front, in place of the one that rests on the same.
    fn remember(&self, question: &Question, new: Remembered) {
        let mut memo = sync::lock(&self.answers);
        if memo.len() >= Memo::MOST && !memo.contains_key(question) {
            memo.clear();
        }
        let all = memo.entry(question.clone()).or_default();
        all.retain(|old| old.reads != new.reads);
        all.insert(0, new);
        all.truncate(Memo::DEPTH);
    }
}

impl fmt::Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.argument {
            Value::None => write!(f, "{}()", self.function.0.name),
            Value::Tuple(_) => write!(f, "{}{}", self.function.0.name, self.argument),
            argument => write!(f, "{}({argument})", self.function.0.name),
        }
    }
}

impl fmt::Debug for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.name)
    }
}

impl PartialEq for Function {
    fn eq(&self, other: &Function) -> bool {
        self.0.id == other.0.id
    }
}

impl Eq for Function {}

impl PartialOrd for Function {
    fn partial_cmp(&self, other: &Function) -> Option<Order> {
        Some(self.cmp(other))
    }
}

impl Ord for Function {
    fn cmp(&self, other: &Function) -> Order {
        self.0.id.cmp(&other.0.id)
    }
}

impl Hash for Function {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.id.hash(state);
    }
}
