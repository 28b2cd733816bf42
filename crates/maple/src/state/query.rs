//! Queries: memoised functions of state.

use maple_core::query::{Query as CoreQuery, QueryError};
use maple_core::state::{Read, Stored};

use crate::net::Net;

/// A memoised function of state, with one argument (`()` if it needs none).
///
/// A reader depends on the answer, not on what the function read. When a write may change the answer, the function runs
/// again, once. The policy decides again only if the answer differs.
///
/// ```
/// use maple::testing::*;
///
/// # let bench = Bench::new().switch(1, 1..=2);
/// let at_switch = Query::new("at_switch", |net: &Net, switch: Dpid| {
///     net.hosts().iter().filter(|(_, at)| at.switch == switch).count() as u64
/// });
/// # let at = bench.port(1, 1);
/// # let bench = bench.host("00:00:00:00:00:01", at);
/// # bench.run(|pkt, net| {
/// assert_eq!(at_switch.get(net, &pkt.switch()), 1);
/// # });
/// ```
#[derive(Debug)]
pub struct Query<A, V>(CoreQuery<A, V>);

impl<A: Stored, V: Stored> Query<A, V> {
    /// Creates the query that `f` answers. `f` may read what policies may read, and must not write. Errors mention
    /// `name`.
    ///
    /// ```
    /// # use maple::testing::*;
    /// let hosts = Query::new("hosts", |net: &Net, (): ()| net.hosts().len() as u64);
    /// Bench::new().run(|_, net| assert_eq!(hosts.get(net, &()), 0));
    /// ```
    pub fn new(name: &str, f: impl Fn(&Net, A) -> V + Send + Sync + 'static) -> Query<A, V> {
        Query(CoreQuery::new(name, move |net, argument| f(&Net::from_handle(net), argument)))
    }

    /// Returns the answer in this state: the [`Net`] of a run, or the [`Tx`](crate::state::Tx) of a transaction.
    ///
    /// ```
    /// # use maple::testing::*;
    /// # let bench = Bench::new().switch(1, 1..=2);
    /// let hosts = Query::new("hosts", |net: &Net, (): ()| net.hosts().len() as u64);
    /// bench.run(|_, net| assert_eq!(hosts.get(net, &()), 0));
    /// ```
    ///
    /// # Panics
    /// If the query has no answer. In a policy that is an error of this packet. [`Query::try_get`] does not panic.
    pub fn get(&self, state: &impl Read, argument: &A) -> V {
        self.0.get(state, argument)
    }

    /// Returns the answer in this state, or why the query has none.
    ///
    /// ```
    /// # use maple::testing::*;
    /// # let bench = Bench::new().switch(1, 1..=2);
    /// let half = Query::new("half", |_: &Net, of: u64| of / if of % 2 == 0 { 2 } else { 0 });
    /// bench.run(|_, net| {
    ///     assert_eq!(half.try_get(net, &4).unwrap(), 2);
    ///     assert!(half.try_get(net, &5).is_err());
    /// });
    /// ```
    ///
    /// # Errors
    /// [`QueryError`] if the function panics, asks for something that does not exist, writes, waits, or asks this
    /// query.
    pub fn try_get(&self, state: &impl Read, argument: &A) -> Result<V, QueryError> {
        self.0.try_get(state, argument)
    }
}

impl<A, V> Clone for Query<A, V> {
    fn clone(&self) -> Query<A, V> {
        Query(self.0.clone())
    }
}
