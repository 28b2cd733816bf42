//! Answers of queries, which are functions of state that users write, and the cells that these answers rest on.
//!
//! An answer is a [`Cell`] like any other. The query's function comes from above (`crate::query`); here it is something
//! that reads through a transaction. An answer is remembered with the cells that it was made of, so it holds in every
//! snapshot in which these are equal. The memo belongs to a store, and is emptied before it grows beyond
//! [`AnswerMemo::MAX_QUESTIONS`].

use std::cell::RefCell;
use std::cmp::Ordering as Order;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use rustc_hash::FxHashMap;

use super::{Cell, CellValue, Name, Snapshot, Txn, Value, sync};
use crate::network::Scope;

/// A memoised function of state without its types, for bindings to other languages. Clones are the same function.
#[derive(Clone)]
pub struct Function(Arc<Definition>);

/// The evaluation of a function at its argument. It reads what it needs through the transaction, and returns that with
/// the answer. If hosts are not tracked (`false`), a query that asks for them fails. The slice that asks is given last.
type Ask = dyn Fn(Txn, &Value, bool, Option<&Scope>) -> (QueryAnswer, Txn) + Send + Sync;

/// The result of a query's function: a value, or the text of an error.
pub type QueryAnswer = Result<Value, Arc<str>>;

struct Definition {
    /// A number that no other definition of this process has.
    id: u64,
    name: Name,
    ask: Box<Ask>,
}

/// A function with its argument.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueryCall {
    function: Function,
    argument: Value,
    /// The slice that asks.
    within: Option<Scope>,
}

/// The remembered answers, by question.
#[derive(Debug, Default)]
pub(super) struct AnswerMemo {
    answers: Mutex<FxHashMap<QueryCall, Vec<RememberedAnswer>>>,
    /// Whether host locations are not tracked, so that asking for them is an error, as it is in f.
    no_hosts: AtomicBool,
}

/// The cells that an answer rests on, with the values that they had.
pub(super) type Reads = Arc<[(Cell, CellValue)]>;

#[derive(Clone, Debug)]
struct RememberedAnswer {
    /// The version of a published snapshot in which the answer is known to hold, if there is one.
    version: Option<u64>,
    answer: Value,
    reads: Reads,
}

thread_local! {
    /// The questions that this thread is in the middle of answering.
    static ASKING: RefCell<Vec<QueryCall>> = const { RefCell::new(Vec::new()) };
}

impl Function {
    /// Creates a function of this name that `ask` evaluates.
    pub(crate) fn asking(
        name: &str,
        ask: impl Fn(Txn, &Value, bool, Option<&Scope>) -> (QueryAnswer, Txn) + Send + Sync + 'static,
    ) -> Function {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        Function(Arc::new(Definition { id, name: name.into(), ask: Box::new(ask) }))
    }

    /// Returns the cell that holds the function's answer to `argument`.
    pub fn cell(&self, argument: Value) -> Cell {
        Cell::Query(QueryCall::new(self.clone(), argument))
    }
}

impl QueryCall {
    pub(crate) fn new(function: Function, argument: Value) -> QueryCall {
        QueryCall { function, argument, within: None }
    }

    /// Returns the question as asked in a slice.
    pub(crate) fn in_slice(self, scope: &Scope) -> QueryCall {
        QueryCall { within: Some(scope.clone()), ..self }
    }

    /// Returns the answer in `state`.
    pub(super) fn answer(&self, state: &Snapshot) -> QueryAnswer {
        self.answer_with_reads(state).0
    }

    /// Returns the answer in `state`, and the cells that it rests on.
    pub(super) fn answer_with_reads(&self, state: &Snapshot) -> (QueryAnswer, Reads) {
        let known = state.memo.remembered_for(self);
        let here = known.iter().find(|one| one.version.is_some() && one.version == state.published());
        if let Some(one) = here {
            return (Ok(one.answer.clone()), one.reads.clone());
        }
        let holds = |one: &&RememberedAnswer| one.reads.iter().all(|(cell, seen)| cell.still(seen, one.version, state));
        if let Some(one) = known.iter().find(holds) {
            state.memo.remember(self, RememberedAnswer { version: state.published(), ..one.clone() });
            return (Ok(one.answer.clone()), one.reads.clone());
        }
        let (answer, reads) = self.ask(state);
        if let Ok(answer) = &answer {
            let (version, answer, reads) = (state.published(), answer.clone(), reads.clone());
            state.memo.remember(self, RememberedAnswer { version, answer, reads });
        }
        (answer, reads)
    }

    /// Runs the function.
    fn ask(&self, state: &Snapshot) -> (QueryAnswer, Reads) {
        let Some(_asking) = Asking::enter(self) else {
            return (Err("it asks itself".into()), Arc::new([]));
        };
        let hosts_tracked = !state.memo.no_hosts.load(Ordering::Relaxed);
        let txn = Txn::new(Arc::new(state.clone()));
        let (answer, txn) = (self.function.0.ask)(txn, &self.argument, hosts_tracked, self.within.as_ref());
        let reads = txn.reads().map(|(cell, value)| (cell.clone(), value.clone())).collect();
        (answer, reads)
    }
}

/// A mark that the thread is in the middle of a question while it lives.
struct Asking;

impl Asking {
    /// Begins a question; `None` if the thread is in the middle of this very question already.
    fn enter(question: &QueryCall) -> Option<Asking> {
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

impl AnswerMemo {
    /// The maximum number of questions that are remembered. Chosen: a bound on memory. Beyond it all are forgotten, and
    /// asked again.
    const MAX_QUESTIONS: usize = 1 << 17;
    /// The maximum number of answers remembered for one question: one for the newest state, and one for runs that began
    /// before.
    const DEPTH: usize = 2;

    /// Makes queries that ask for hosts fail, and empties the memo.
    pub fn know_no_hosts(&self) {
        self.no_hosts.store(true, Ordering::Relaxed);
        sync::lock(&self.answers).clear();
    }

    fn remembered_for(&self, question: &QueryCall) -> Vec<RememberedAnswer> {
        sync::lock(&self.answers).get(question).cloned().unwrap_or_default()
    }

    /// Puts an answer first, in place of one that rests on the same reads.
    fn remember(&self, question: &QueryCall, new: RememberedAnswer) {
        let mut memo = sync::lock(&self.answers);
        if memo.len() >= AnswerMemo::MAX_QUESTIONS && !memo.contains_key(question) {
            memo.clear();
        }
        let all = memo.entry(question.clone()).or_default();
        all.retain(|old| old.reads != new.reads);
        all.insert(0, new);
        all.truncate(AnswerMemo::DEPTH);
    }
}

impl fmt::Display for QueryCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.argument {
            Value::None => write!(f, "{}()", self.function.0.name),
            Value::Tuple(_) => write!(f, "{}{}", self.function.0.name, self.argument),
            argument => write!(f, "{}({argument})", self.function.0.name),
        }
    }
}

impl fmt::Debug for QueryCall {
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
