//! `maple reload` and `maple rollback`: change the policy of a running controller.

use std::path::Path;

use maple_controller::control::socket::{Reload, Request, ask};
use serde_json::Value;

use crate::options::{ReloadArgs, RollbackArgs, default_control};
use crate::output::{json_text, print_error_line, print_line};
use crate::policy::absolute;
use crate::show::{hint, names};

/// Runs `maple reload`.
///
/// # Errors
/// If the controller does not answer, or refuses the policy.
pub fn main(args: &ReloadArgs) -> anyhow::Result<u8> {
    let name = args.policy.as_deref().map(absolute).transpose()?;
    let request = Reload::Policy { name, tolerate: args.tolerate };
    reported("reloaded", request, args.control.as_deref(), args.json)
}

/// Runs `maple rollback`.
///
/// # Errors
/// If the controller does not answer, or has nothing to roll back.
pub fn rollback(args: &RollbackArgs) -> anyhow::Result<u8> {
    reported("rolled back", Reload::Rollback, args.control.as_deref(), args.json)
}

/// Sends a request, and prints its outcome.
///
/// # Errors
/// If the controller does not answer, or refuses the request.
pub fn reported(what: &str, request: Reload, control: Option<&Path>, json: bool) -> anyhow::Result<u8> {
    let control = control.map_or_else(default_control, Path::to_owned);
    let answer = ask(&control, &Request::Reload(request)).map_err(hint)?;
    if json {
        print_line(json_text(&answer));
        return Ok(0);
    }
    let names = names(&control);
    warn(&answer);
    print_line(format_args!("{what}: {}", text(&answer)));
    for error in answer["errors"].as_array().into_iter().flatten() {
        print_line(format_args!(
            "fails {} times: {}",
            error["packets"],
            names.in_text(error["text"].as_str().unwrap_or_default())
        ));
    }
    if let Some(missing) = unconfirmed(&answer) {
        print_error_line(format_args!("warning: {missing}"));
    }
    Ok(0)
}

/// Says what has not confirmed yet that it follows the policy, which is adopted whatever comes.
fn unconfirmed(answer: &Value) -> Option<String> {
    match answer["unconfirmed"].as_str() {
        Some(late) => Some(format!("{late}, and decides by that policy as soon as it goes on")),
        None if answer["settled"] == true => None,
        None => Some("not all switches have confirmed their new rules yet".into()),
    }
}

/// Prints the warnings about a policy.
pub fn warn(answer: &Value) {
    for warning in answer["warnings"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        print_error_line(format_args!("warning: {warning}"));
    }
}

/// Describes the outcome of a reload in a line.
fn text(answer: &Value) -> String {
    let number = |name: &str| answer[name].as_u64().unwrap_or_default();
    let (packets, same, failed) = (number("packets"), number("same"), number("failed"));
    let changed = packets.saturating_sub(same + failed);
    format!(
        "of {packets} packets that the network has decided about, {same} are decided as before, {changed} otherwise, and \
         {failed} fail; {} s",
        answer["seconds"]
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::unconfirmed;

    #[test]
    fn a_policy_that_a_late_worker_has_not_confirmed_is_the_one_that_runs() {
        let late = "worker 1 did not answer within 60 s";
        let answer =
            |late: Option<&str>, settled: bool| unconfirmed(&json!({ "unconfirmed": late, "settled": settled }));
        assert_eq!(
            answer(Some(late), false),
            Some(format!("{late}, and decides by that policy as soon as it goes on"))
        );
        assert_eq!(answer(None, false).as_deref(), Some("not all switches have confirmed their new rules yet"));
        assert_eq!(answer(None, true), None);
    }
}
