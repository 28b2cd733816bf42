//! `maple show log`: the latest lines of a controller's log, and with `--follow` the following ones.

use std::time::{Duration, SystemTime};

use maple_controller::control::socket::{AskError, Reach, Request, Show, follow as ask_for_all};
use maple_controller::timestamp;
use serde_json::Value;

use super::{hint, plain};
use crate::output::{json_line, print_text};

/// Writes an entry as a line: time, level and area, text.
pub fn line(entry: &Value) -> String {
    let time = SystemTime::UNIX_EPOCH + Duration::from_millis(entry["time"].as_u64().unwrap_or_default());
    let (level, area, text) = (plain(&entry["level"]), plain(&entry["area"]), plain(&entry["text"]));
    format!("{} {level:<7} {area:<8} {text}\n", timestamp(time))
}

/// Prints lines as they come, until the controller ends.
///
/// # Errors
/// If the controller does not answer, or if standard output can't be written.
pub fn follow(controller: &dyn Reach, as_json: bool) -> anyhow::Result<u8> {
    let mut written = Ok(());
    let print = |entry: Value| {
        written = print_text(&if as_json { json_line(&entry) + "\n" } else { line(&entry) });
        written.is_ok()
    };
    match ask_for_all(controller, &Request::Show(Show::Log(true)), print) {
        // The end of the controller is the end of its log.
        Ok(()) | Err(AskError::Closed) => {}
        Err(error) => return Err(hint(error)),
    }
    written?;
    Ok(0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_line_has_time_level_area_and_text() {
        let entry = json!({ "number": 3, "time": 1500, "level": "warning", "area": "hosts", "text": "one" });
        assert_eq!(line(&entry), "1970-01-01T00:00:01.500Z warning hosts    one\n");
    }
}
