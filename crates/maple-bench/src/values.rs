//! Values of options: times.

use std::time::Duration;

/// Parses a time such as `20s`, `500ms` or `2m`, longer than zero.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    match maple_emulator::quantity::time(text)? {
        0 => Err(format!("{text:?} is not longer than zero")),
        nanoseconds => Ok(Duration::from_nanos(nanoseconds)),
    }
}
