//! `maple explain --dropped`: a table of recent drops, by source line and host.

use maple_controller::control::socket::{Reach, Request, Show, ask};
use maple_controller::names::Names;
use serde_json::Value;

use crate::output::{json_text, print_text};
use crate::show::{hint, names};
use maple_wire::counted;

/// Queries the drops of this many minutes, and prints them.
///
/// # Errors
/// If the controller does not answer, or if standard output can't be written.
pub fn main(controller: &dyn Reach, minutes: u64, as_json: bool) -> anyhow::Result<u8> {
    let answer = ask(controller, &Request::Show(Show::Dropped(minutes))).map_err(hint)?;
    let text = if as_json { json_text(&answer) + "\n" } else { table(&answer, minutes, &names(controller)) };
    print_text(&text)?;
    Ok(0)
}

/// Writes the drops as a table for people, those with the most packets first.
fn table(answer: &Value, minutes: u64, names: &Names) -> String {
    let drops = answer.as_array().map_or(&[][..], Vec::as_slice);
    let span = if minutes == 1 { "this minute".to_owned() } else { format!("the last {minutes} minutes") };
    if drops.is_empty() {
        return format!("nothing was dropped in {span}, as far as the switches have said\n");
    }
    let head = ["packets", "latest", "line", "host", "such as"].map(str::to_owned);
    let rows: Vec<[String; 5]> = drops.iter().map(|one| row(one, names)).collect();
    let width = |column: usize| {
        let cells = rows.iter().chain([&head]).map(|row| row[column].chars().count());
        cells.max().unwrap_or_default()
    };
    let widths: [usize; 5] = std::array::from_fn(width);
    let line = |[packets, latest, line, host, example]: &[String; 5]| {
        let [a, b, c, d, _] = widths;
        format!("{packets:>a$}  {latest:>b$}  {line:<c$}  {host:<d$}  {example}").trim_end().to_owned() + "\n"
    };
    let mut text = line(&head);
    for (one, row) in drops.iter().zip(&rows) {
        text.push_str(&line(row));
        text.push_str(&format!("{:indent$}{}\n", "", names.in_text(&reason(one)), indent = widths[0] + widths[1] + 4));
    }
    let sum: u64 = drops.iter().filter_map(|one| one["packets"].as_u64()).sum();
    let of_lines = drops.iter().filter(|one| one["line"].is_string());
    let attributed: u64 = of_lines.filter_map(|one| one["packets"].as_u64()).sum();
    let were = if sum == 1 { "was" } else { "were" };
    let sum = counted(sum, "packet");
    text + &format!("{sum} {were} dropped in {span}, {attributed} of them by a line of the policy\n")
}

fn row(one: &Value, names: &Names) -> [String; 5] {
    let text = |name: &str| one[name].as_str().map(str::to_owned);
    let number = |name: &str| one[name].as_u64().unwrap_or_default().to_string();
    let line = text("line").unwrap_or_else(|| "no source line".to_owned());
    [number("packets"), number("latest"), line, sender(one, names), text("example").unwrap_or_else(|| "-".to_owned())]
}

/// Describes the sender of the packets, as far as the rule that dropped them distinguishes hosts.
pub fn sender(one: &Value, names: &Names) -> String {
    let place = |at: &Value| short(&names.in_text(&crate::show::location(at)));
    let switch = || format!("switch {}", short(&names.in_text(one["switch"].as_str().unwrap_or_default())));
    match (one["host"].as_str(), one["at"].is_object()) {
        (Some(mac), true) => match names.in_text(mac) {
            name if name == mac => format!("{mac} at {}", place(&one["at"])),
            name => format!("{name} ({mac}) at {}", place(&one["at"])),
        },
        (Some(mac), false) => format!("{} at {}", names.in_text(mac), switch()),
        (None, true) => format!("several hosts at {}", place(&one["at"])),
        (None, false) => format!("several hosts at {}", switch()),
    }
}

/// Removes the leading zeros of the datapath id in a switch or a place.
fn short(text: &str) -> String {
    text.trim_start_matches('0').to_owned()
}

/// Returns the reason, with the text of the line.
pub fn reason(one: &Value) -> String {
    let why = one["why"].as_str().unwrap_or_default();
    match one["text"].as_str() {
        Some(text) => format!("{why}: {text}"),
        None => why.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use maple_controller::names::Named;
    use maple_core::Mac;
    use serde_json::json;

    use super::*;

    fn names_with_h1() -> Names {
        let mut names = Names::new();
        names.add("h1", Named::Host(Mac([0, 0, 0, 0, 0, 1]))).expect("a name");
        names
    }

    #[test]
    fn a_row_has_line_host_and_example_and_below_it_the_reason() {
        let at = json!({ "switch": "0000000000000001", "port": 3 });
        let drops = json!([
            { "packets": 1234, "latest": 20, "switch": "1", "at": at, "host": "00:00:00:00:00:01", "host_at": at,
              "line": "policy.py:12", "text": "return drop()", "constraint": null, "why": "the policy drops it",
              "elsewhere": null, "example": "tcp 10.0.0.1:40000 > 10.0.0.2:80" },
            { "packets": 7, "latest": 0, "switch": "1", "at": null, "host": null, "host_at": null,
              "line": "policy.py:9", "text": null, "constraint": null, "why": "the policy drops it",
              "elsewhere": null, "example": null },
            { "packets": 3, "latest": 3, "switch": "2", "at": { "switch": "2", "port": 1 }, "host": "00:00:00:00:00:07",
              "host_at": at, "line": null, "text": null, "constraint": null,
              "why": "the host is at another port (1:3)", "elsewhere": at, "example": "arp op 1" },
        ]);
        let text = table(&drops, 5, &names_with_h1());
        let expected = "\
packets  latest  line            host                           such as
   1234      20  policy.py:12    h1 (00:00:00:00:00:01) at 1:3  tcp 10.0.0.1:40000 > 10.0.0.2:80
                 the policy drops it: return drop()
      7       0  policy.py:9     several hosts at switch 1      -
                 the policy drops it
      3       3  no source line  00:00:00:00:00:07 at 2:1       arp op 1
                 the host is at another port (1:3)
1244 packets were dropped in the last 5 minutes, 1241 of them by a line of the policy
";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_report_without_drops_states_its_limits() {
        let text = table(&json!([]), 1, &Names::new());
        assert_eq!(text, "nothing was dropped in this minute, as far as the switches have said\n");
    }
}
