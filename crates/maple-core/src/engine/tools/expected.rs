//! The claim that something is there.

/// Claims that an option has a value, because something ends with it or the dispatcher looked before.
///
/// A claim that is wrong is a fault of the engine, and stops a build with debug assertions. Any other build goes on
/// without the value.
pub(in crate::engine) trait Expected: Sized {
    /// Returns the option as it is.
    #[track_caller]
    fn expected(self) -> Self;
}

impl<T> Expected for Option<T> {
    #[track_caller]
    fn expected(self) -> Option<T> {
        debug_assert!(self.is_some(), "this is always there");
        self
    }
}
