//! `maple explain --live`: prints real packets of one kind as they enter the network.

use std::time::{Duration, SystemTime};

use anyhow::bail;
use maple_controller::control::socket::{AskError, Live, Reach, Request, Show, follow};
use maple_controller::names::Names;
use serde_json::Value;

use crate::output::{json_line, print_text};
use crate::show::{hint, location, names};
use maple_controller::timestamp;

/// Prints packets until the controller ends, or refuses to watch them.
///
/// # Errors
/// If the controller does not answer or refuses, or if standard output can't be written.
pub fn main(controller: &dyn Reach, question: Live, as_json: bool) -> anyhow::Result<u8> {
    let names = names(controller);
    let (mut written, mut refused) = (Ok(()), None);
    let print = |news: Value| {
        if news["news"] == "refused" {
            refused = news["why"].as_str().map(str::to_owned);
        }
        written = print_text(&if as_json { json_line(&news) + "\n" } else { line(&news, &names) });
        written.is_ok() && refused.is_none()
    };
    match follow(controller, &Request::Show(Show::Live(question)), print) {
        Ok(()) | Err(AskError::Closed) => {}
        Err(error) => return Err(hint(error)),
    }
    written?;
    if let Some(why) = refused {
        bail!("these packets can't be watched: {why}");
    }
    Ok(0)
}

/// Writes a piece of news as a line.
fn line(news: &Value, names: &Names) -> String {
    let text = |name: &str| news[name].as_str().unwrap_or_default();
    let time = SystemTime::UNIX_EPOCH + Duration::from_millis(news["time"].as_u64().unwrap_or_default());
    let at = || names.in_text(&location(&news["at"])).trim_start_matches('0').to_owned();
    let what = match text("news") {
        "packet" => format!("{} at {}  {}", names.in_text(text("packet")), at(), verdict(news)),
        "watching" => format!("watching packets that enter at {}", at()),
        "too many" => text("why").to_owned(),
        other => format!("{other}: {}", text("why")),
    };
    format!("{} {what}\n", timestamp(time))
}

fn verdict(news: &Value) -> String {
    let by = match (news["line"].as_str(), news["constraint"].as_str()) {
        (Some(line), Some(constraint)) => format!(" by the constraint {constraint}, for the route of {line}"),
        (Some(line), None) => format!(" by {line}"),
        (None, Some(constraint)) => format!(" by the constraint {constraint}"),
        (None, None) => String::new(),
    };
    match news["verdict"].as_str() {
        Some("undecided") | None => "the controller is asked".to_owned(),
        Some(verdict) => format!("{verdict}{by}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_packet_has_time_summary_place_and_verdict() {
        let at = json!({ "switch": "0000000000000001", "port": 3 });
        let packet = |verdict: &str, line: Option<&str>, constraint: Option<&str>| {
            let news = json!({ "time": 1500, "news": "packet", "at": at, "packet": "tcp 10.0.0.1:1 > 10.0.0.2:80",
                "bytes": 60, "verdict": verdict, "line": line, "constraint": constraint });
            line_of(&news)
        };
        let start = "1970-01-01T00:00:01.500Z tcp 10.0.0.1:1 > 10.0.0.2:80 at 1:3  ";
        assert_eq!(packet("dropped", Some("policy.py:12"), None), format!("{start}dropped by policy.py:12\n"));
        let refused = "dropped by the constraint never(80), for the route of policy.py:9";
        assert_eq!(packet("dropped", Some("policy.py:9"), Some("never(80)")), format!("{start}{refused}\n"));
        assert_eq!(packet("undecided", None, None), format!("{start}the controller is asked\n"));
        let news = json!({ "time": 0, "news": "not now", "why": "the switch is not connected" });
        assert_eq!(line_of(&news), "1970-01-01T00:00:00.000Z not now: the switch is not connected\n");
    }

    fn line_of(news: &Value) -> String {
        line(news, &Names::new())
    }
}
