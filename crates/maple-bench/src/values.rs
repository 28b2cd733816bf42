//! Values of options: times, versions of OpenFlow.

use std::time::Duration;

use maple_wire::Version;

/// Parses a time such as `20s`, `500ms` or `2m`, longer than zero.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    match maple_emulator::quantity::time(text)? {
        0 => Err(format!("{text:?} is not longer than zero")),
        nanoseconds => Ok(Duration::from_nanos(nanoseconds)),
    }
}

/// Parses an OpenFlow version, 1.0 or 1.3.
pub(crate) fn version(text: &str) -> Result<Version, String> {
    match text {
        "1.0" => Ok(Version::Of10),
        "1.3" => Ok(Version::Of13),
        _ => Err(format!("OpenFlow {text} is not supported; 1.0 and 1.3 are")),
    }
}
