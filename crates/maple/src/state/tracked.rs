//! State with a name.

use maple_core::state::{Counter, Stored, Table, Var};

/// State that has a name: a [`Table`], a [`Var`] or a [`Counter`].
///
/// ```
/// use maple::state::{Counter, Tracked as _};
///
/// assert_eq!(Counter::new("packets").name(), "packets");
/// ```
pub trait Tracked {
    /// Returns the name by which people and other programs find this state.
    ///
    /// ```
    /// use maple::state::{Tracked, Var};
    ///
    /// assert_eq!(Tracked::name(&Var::new("open", false)), "open");
    /// ```
    fn name(&self) -> &str;
}

impl<K: Stored, V: Stored> Tracked for Table<K, V> {
    fn name(&self) -> &str {
        Table::name(self)
    }
}

impl<V: Stored + Clone> Tracked for Var<V> {
    fn name(&self) -> &str {
        Var::name(self)
    }
}

impl Tracked for Counter {
    fn name(&self) -> &str {
        Counter::name(self)
    }
}
