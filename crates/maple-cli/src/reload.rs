//! `maple reload`: a running controller loads a policy, and runs it instead of the one that it has.

use maple_controller::control::socket::{Reload, Request, ask};
use serde_json::Value;

use crate::options::{ReloadArgs, default_control};
use crate::output::print_line;
use crate::policy::PolicyName;
use crate::show::hint;

/// Prints how it went.
pub fn main(args: &ReloadArgs) -> anyhow::Result<u8> {
    let control = args.control.clone().unwrap_or_else(default_control);
    let name = args.policy.as_deref().map(absolute).transpose()?;
    let request = Request::Reload(Reload::Policy { name, tolerate: args.tolerate });
    let answer = ask(&control, &request).map_err(hint)?;
    if args.json {
        print_line(format_args!("{}", serde_json::to_string_pretty(&answer)?));
        return Ok(0);
    }
    for warning in answer["warnings"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        eprintln!("warning: {warning}");
    }
    print_line(format_args!("reloaded: {}", text(&answer)));
    for error in answer["errors"].as_array().into_iter().flatten() {
        print_line(format_args!("fails {} times: {}", error["packets"], error["text"].as_str().unwrap_or_default()));
    }
    if answer["settled"] != true {
        eprintln!("warning: not all switches have confirmed their new rules yet");
    }
    Ok(0)
}

/// How a reload went, in a line.
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

/// The policy's name for a controller that runs in another folder.
fn absolute(policy: &str) -> anyhow::Result<String> {
    Ok(match PolicyName::parse(policy) {
        PolicyName::Builtin(_) => policy.to_owned(),
        PolicyName::File { file, name } => {
            let file = std::path::absolute(file)?.display().to_string();
            name.map_or(file.clone(), |name| format!("{file}:{name}"))
        }
    })
}
