//! Queries: memoised functions of state that users write.
//!
//! # What
//!
//! A [`Query`] is a function of the state and of an argument; paths are built-in ones. Its answer is a [`Cell`]:
//! whatever reads it depends on the *answer*, not on what the function read. When a write may change the answer, the
//! function runs again, once. Only if the answer differs are its dependents invalidated.
//!
//! # Why it is correct
//!
//! The function sees nothing but its argument and the cells that it reads, which its own transaction records over one
//! snapshot. In any other snapshot in which all these cells are equal, its answer is the same, and only then does the
//! store take an answer from its memo. A subscription to an answer also subscribes to the cells that it was made of. An
//! answer depends only on its snapshot, so transactions need not know of queries.
//!
//! # Cost
//!
//! In the same snapshot, an answer costs a look-up by hash; in another snapshot, also a comparison for each cell that
//! it read. When a query has subscribers and what it read changes, its function runs within the commit, while other
//! commits wait. So a query should be quick. Failures are never remembered.

use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::policy_error::panic_text;
use crate::run::{Net, Run};
use crate::state::{Cell, CellValue, Function, QueryAnswer, QueryCall, Read, Stored, Value, WrongType};

/// A memoised function of state, with an argument (`()` if there is none).
#[derive(Debug)]
pub struct Query<A, V> {
    function: Function,
    types: PhantomData<fn(A) -> V>,
}

/// The reason why a query has no answer of the requested type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QueryError {
    /// The query's function failed.
    #[error("the query {query} failed: {error}")]
    Failed {
        /// The query with its argument.
        query: String,
        /// The error of the function.
        error: Arc<str>,
    },
    /// The query answered with a value of another type.
    #[error(transparent)]
    WrongType(#[from] WrongType),
}

impl<A: Stored, V: Stored> Query<A, V> {
    /// Creates the query that `f` answers. `f` may read everything that policies may, and must write nothing.
    pub fn new(name: &str, f: impl Fn(&Net, A) -> V + Send + Sync + 'static) -> Query<A, V> {
        let ask = move |net: &Net, argument: &Value| match A::from_value(argument) {
            Some(argument) => Ok(f(net, argument).to_value()),
            None => Err(format!("{argument} is not of type {}", std::any::type_name::<A>()).into()),
        };
        Query::from_function(Function::new(name, ask))
    }

    /// Creates a typed query from a function, whose arguments and answers should be of these types.
    #[must_use]
    pub fn from_function(function: Function) -> Query<A, V> {
        Query { function, types: PhantomData }
    }

    /// Returns the query's function, without types.
    #[must_use]
    pub fn function(&self) -> &Function {
        &self.function
    }

    /// Returns the answer in a state.
    ///
    /// # Panics
    /// If there is no answer; in a policy that is an error of this packet. [`Query::try_get`] returns an error instead.
    pub fn get(&self, state: &impl Read, argument: &A) -> V {
        self.try_get(state, argument).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Returns the answer in a state.
    ///
    /// # Errors
    /// [`QueryError`] if the function panics, asks for what is not there, writes, waits, asks itself, or answers with a
    /// value of another type.
    pub fn try_get(&self, state: &impl Read, argument: &A) -> Result<V, QueryError> {
        let question = QueryCall::new(self.function.clone(), argument.to_value());
        let place = question.to_string();
        match state.cell(Cell::Query(question)) {
            CellValue::Answer(Ok(value)) => {
                let wanted = std::any::type_name::<V>();
                Ok(V::from_value(&value).ok_or(WrongType { place, value, wanted })?)
            }
            CellValue::Answer(Err(error)) => Err(QueryError::Failed { query: place, error }),
            other => Err(QueryError::Failed { query: place, error: format!("{other:?} is not an answer").into() }),
        }
    }
}

impl<A, V> Clone for Query<A, V> {
    fn clone(&self) -> Query<A, V> {
        Query { function: self.function.clone(), types: PhantomData }
    }
}

impl Function {
    /// Creates the query that `ask`, a function of state and argument, answers.
    pub fn new(name: &str, ask: impl Fn(&Net, &Value) -> QueryAnswer + Send + Sync + 'static) -> Function {
        Function::asking(name, move |txn, argument, hosts_tracked, within| {
            let run = Run::of_state(txn, hosts_tracked);
            run.net().set_slice(within.cloned());
            let asked = catch_unwind(AssertUnwindSafe(|| ask(&run.net(), argument)));
            let answer = asked.unwrap_or_else(|panic| Err(panic_text("the query", &*panic)));
            let finished = run.finish().expect("nothing else ends this run");
            let answer = match (finished.error, finished.txn.wrote()) {
                (Some(error), _) => Err(error.to_string().into()),
                (None, true) => Err("it writes, and queries only read".into()),
                (None, false) => answer,
            };
            (answer, finished.txn)
        })
    }
}

#[cfg(test)]
mod tests;
