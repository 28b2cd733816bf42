//! State that policies and programs share: a policy that read it decides again when it changes.

mod query;
mod tracked;

pub use query::Query;
pub use tracked::Tracked;

/// A map from keys to values that policies read and write.
///
/// ```
/// use maple::testing::*;
///
/// let blocked = Table::<Mac, bool>::new("blocked");
/// Bench::new().run(|pkt, net| {
///     blocked.set(net, &pkt.eth_src().get(), &true);
///     assert_eq!(blocked.get(net, &Mac([0, 0, 0, 0, 0, 1])), Some(true));
///     assert_eq!((blocked.len(net), blocked.entries(net).len()), (1, 1));
///     blocked.delete(net, &pkt.eth_src().get());
///     assert!(!blocked.contains(net, &pkt.eth_src().get()));
/// });
/// ```
#[doc(inline)]
pub use maple_core::state::Table;

/// One value that policies read and write.
///
/// ```
/// use maple::testing::Bench;
/// use maple::state::Var;
///
/// let open = Var::new("open", false);
/// Bench::new().run(|_, net| {
///     assert!(!open.get(net));
///     open.set(net, &true);
///     assert!(open.get(net));
/// });
/// ```
#[doc(inline)]
pub use maple_core::state::Var;

/// A number that policies add to without reading it.
///
/// ```
/// use maple::testing::Bench;
/// use maple::state::Counter;
///
/// let packets = Counter::new("packets");
/// Bench::new().run(|_, net| {
///     packets.add(net, 2);
///     assert_eq!(packets.get(net), 2);
/// });
/// ```
#[doc(inline)]
pub use maple_core::state::Counter;

/// A type that tables and variables can hold.
///
/// ```
/// use maple::net::Mac;
/// use maple::state::Stored;
///
/// let pair = (Mac([2, 0, 0, 0, 0, 1]), vec![80_u32, 443]);
/// assert_eq!(<(Mac, Vec<u32>)>::from_value(&pair.to_value()), Some(pair));
/// ```
#[doc(inline)]
pub use maple_core::state::Stored;

/// Any value that tables and variables can hold, for those of several types.
///
/// ```
/// use maple::net::Mac;
/// use maple::state::{Table, Value};
///
/// // A table whose values are of several types.
/// let notes = Table::<Mac, Value>::new("notes");
/// assert_eq!(Value::from("printer"), Value::Str("printer".into()));
/// ```
#[doc(inline)]
pub use maple_core::state::Value;

/// A state that tables and variables are read from.
///
/// ```
/// use maple::state::{Read, Table};
///
/// /// How many hosts are blocked: in a run, in a transaction, or as the store is now.
/// fn blocked(table: &Table<maple::net::Mac, bool>, state: &impl Read) -> usize {
///     table.len(state)
/// }
/// assert_eq!(blocked(&Table::new("blocked"), &maple::state::Store::new().view()), 0);
/// ```
#[doc(inline)]
pub use maple_core::state::Read;

/// A transaction that tables and variables are read and written in.
///
/// ```
/// use maple::testing::*;
///
/// /// Counts, in a policy or in a transaction of a thread.
/// fn count(packets: &Counter, state: &impl Access) {
///     packets.add(state, 1);
/// }
///
/// let packets = Counter::new("packets");
/// Bench::new().with_state(|tx| count(&packets, tx)).run(|_, net| {
///     count(&packets, net);
///     assert_eq!(packets.get(net), 2);
/// });
/// ```
#[doc(inline)]
pub use maple_core::state::Access;

/// The reason why a transaction ends without effect.
///
/// ```
/// use maple::state::Stop;
///
/// let take = |free: i64| {
///     Stop::unless(free > 0)?;
///     Ok(free - 1)
/// };
/// assert_eq!((take(1), take(0)), (Ok(0), Err(Stop::Retry)));
/// ```
#[doc(inline)]
pub use maple_core::state::Stop;

/// The transaction of a thread, which reads and writes at one moment.
///
/// ```
/// use std::time::Duration;
///
/// use maple::{App, Net, Packet};
/// use maple::controller::{ChangeError, Handle};
/// use maple::state::{Stop, Tx, Var};
///
/// /// Takes one of what is free, and waits until something is.
/// fn take(controller: &Handle, free: &Var<i64>) -> Result<(), ChangeError> {
///     controller.atomically(Some(Duration::from_secs(1)), |tx: &Tx| {
///         let left = free.get(tx);
///         Stop::unless(left > 0)?;
///         Ok(free.set(tx, &(left - 1)))
///     })
/// }
///
/// let app = App::new(|_: &Packet, net: &Net| net.flood()).listen(([127, 0, 0, 1], 0)).workers(1);
/// let controller = app.start()?;
/// let free = Var::new("free", 3);
/// take(&controller.handle(), &free)?;
/// assert_eq!(free.get(&controller.handle().store().view()), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(inline)]
pub use maple_core::state::Tx;

/// The tracked state of a controller.
///
/// ```
/// use maple::handlers::SwitchInfo;
/// use maple::App;
/// use maple::state::{Store, Table};
/// # use maple::handlers::{Handler, Replies};
/// # struct Deaf;
/// # impl Handler for Deaf {
/// #     fn packet_in(&mut self, _: &maple::wire::msg::PacketInView<'_>, _: &mut Replies) {}
/// # }
///
/// // What all handlers share.
/// let store = Store::new();
/// let blocked = Table::<maple::net::Mac, bool>::new("blocked");
/// assert!(blocked.is_empty(&store.view()));
/// let app = App::handlers(|_: &SwitchInfo| Deaf).store(store);
/// ```
#[doc(inline)]
pub use maple_core::state::Store;

/// The result of one try of a transaction.
///
/// ```
/// use maple::state::{Attempt, Store, Var};
///
/// let (store, open) = (Store::new(), Var::new("open", false));
/// let attempt = store.attempt(|tx| Ok(open.set(tx, &true)));
/// assert!(matches!(attempt, Attempt::Done((), _)));
/// ```
#[doc(inline)]
pub use maple_core::state::Attempt;

/// The keys of a table with their values.
///
/// ```
/// use maple::prelude::*;
/// use maple::state::{RowMap, Value};
///
/// /// Makes the rows of version 2 of a table, whose values are texts, from those of version 1.
/// fn migrate(_from: u32, rows: RowMap) -> Result<RowMap, String> {
///     Ok(rows.into_iter().map(|(key, value)| (key, Value::from(value.to_string()))).collect())
/// }
///
/// let rows = RowMap::from([(Value::from("a"), Value::from(true))]);
/// assert_eq!(migrate(1, rows), Ok(RowMap::from([(Value::from("a"), Value::from("true"))])));
/// ```
#[doc(inline)]
pub use maple_core::state::RowMap;

/// The reason why [`Query::try_get`] has no answer.
///
/// ```
/// use maple::testing::Bench;
/// use maple::Net;
/// use maple::state::{Query, QueryError};
///
/// let broken = Query::new("broken", |_: &Net, (): ()| -> bool { panic!("no idea") });
/// Bench::new().run(|_, net| assert!(matches!(broken.try_get(net, &()), Err(QueryError::Failed { .. }))));
/// ```
#[doc(inline)]
pub use maple_core::query::QueryError;

/// The types that a declaration gives to a table or a variable.
///
/// ```
/// use maple::net::Mac;
/// use maple::state::{Kind, Stored, Table, Types};
///
/// let types: Types = Table::<Mac, bool>::types();
/// assert_eq!((types.to_string().as_str(), bool::kind()), ("Mac -> bool", Kind::Bool));
/// ```
#[doc(inline)]
pub use maple_core::state::{Kind, Types};

/// The error for a value, a type or a version that does not fit the state that is there.
///
/// ```
/// use maple::state::{DeclareError, Mismatch, VersionError, WrongType};
///
/// /// What is wrong with a table's rows, in words.
/// fn text(error: Result<(), WrongType>) -> String {
///     error.map_or_else(|error| error.to_string(), |()| "nothing".into())
/// }
/// assert_eq!(text(Ok(())), "nothing");
/// ```
#[doc(inline)]
pub use maple_core::state::{DeclareError, Mismatch, VersionError, WrongType};

/// The tracked state at one moment.
///
/// ```
/// use maple::state::{Snapshot, Store};
///
/// let state: std::sync::Arc<Snapshot> = Store::new().snapshot();
/// assert!(!state.has_costs("secure"));
/// ```
#[doc(inline)]
pub use maple_core::state::Snapshot;
