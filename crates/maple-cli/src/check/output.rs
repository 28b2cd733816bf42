//! What a check found and covered, as text or JSON.

use std::io::Write;

use maple_core::check::{Check, Coverage, Finding, OneSided};
use maple_core::trace::Source;
use maple_wire::packet::text::summary;
use serde_json::{Value, json};

use crate::Suspicion;

/// Branches that are listed.
const LISTED: usize = 20;

/// Prints it; the exit status: 1 if something was found.
pub fn print(check: &Check, suspicions: &[Suspicion], as_json: bool) -> std::io::Result<u8> {
    let coverage = check.coverage();
    let found = !suspicions.is_empty() || check.findings().next().is_some();
    let out = &mut std::io::stdout().lock();
    if as_json {
        let told = json!({
            "source": suspicions.iter().map(suspicion_json).collect::<Vec<_>>(),
            "runs": check.findings().map(finding_json).collect::<Vec<_>>(),
            "coverage": coverage_json(&coverage),
        });
        writeln!(out, "{told:#}")?;
    } else {
        for Suspicion { file, line, text } in suspicions {
            writeln!(out, "{file}:{line}: {text}")?;
        }
        check.findings().try_for_each(|finding| write_finding(out, finding))?;
        write_coverage(out, &coverage)?;
        let verdict = if found { "the policy depends on untracked state" } else { "no untracked state was seen" };
        writeln!(out, "{verdict}")?;
    }
    Ok(u8::from(found))
}

fn write_finding(out: &mut dyn Write, finding: &Finding) -> std::io::Result<()> {
    let Finding { difference, sample, count } = finding;
    let at = place(difference.at.as_ref());
    let behind = difference.behind.as_ref().filter(|behind| difference.at.as_ref() != Some(behind));
    let behind = behind.map(|behind| format!(" (behind line {})", behind.line)).unwrap_or_default();
    writeln!(
        out,
        "{at}: two runs on the same packet and state differ here{behind}: the policy looks at something untracked"
    )?;
    writeln!(out, "    first   {}", difference.first)?;
    writeln!(out, "    then    {}", difference.second)?;
    let times = if *count == 1 { String::new() } else { format!(", and {} more times", count - 1) };
    writeln!(out, "    packet  {} at {}{times}", summary(&sample.packet()), sample.at)
}

fn write_coverage(out: &mut dyn Write, coverage: &Coverage) -> std::io::Result<()> {
    let Coverage { packets, made, runs, failed, traces, branches, unexplored, one_sided } = coverage;
    writeln!(out, "packets                {packets:>8}   ({} given, {made} made)", packets - made)?;
    writeln!(out, "runs of the policy     {runs:>8}")?;
    if *failed > 0 {
        writeln!(out, "  packets it failed on {failed:>8}")?;
    }
    writeln!(out, "distinct traces        {traces:>8}")?;
    writeln!(out, "branches never taken   {unexplored:>8}   (of {branches} in the tree of traces)")?;
    for OneSided { at, question, answer, asked } in one_sided.iter().take(LISTED) {
        let never = if *answer { "always yes" } else { "never yes" };
        writeln!(out, "  {}: {question}: {never} ({asked} times)", place(at.as_ref()))?;
    }
    if let Some(more) = one_sided.len().checked_sub(LISTED).filter(|more| *more > 0) {
        writeln!(out, "  and {more} more tests with one answer")?;
    }
    Ok(())
}

fn place(source: Option<&Source>) -> String {
    source.map_or_else(|| "in the policy".into(), ToString::to_string)
}

fn suspicion_json(suspicion: &Suspicion) -> Value {
    json!({"file": suspicion.file, "line": suspicion.line, "text": suspicion.text})
}

fn source_json(source: Option<&Source>) -> Value {
    source.map_or(Value::Null, |source| json!({"file": &*source.file, "line": source.line}))
}

fn finding_json(finding: &Finding) -> Value {
    let hex: String = finding.sample.frame.iter().map(|byte| format!("{byte:02x}")).collect();
    json!({
        "at": source_json(finding.difference.at.as_ref()),
        "behind": source_json(finding.difference.behind.as_ref()),
        "first": finding.difference.first,
        "then": finding.difference.second,
        "packet": {"frame": hex, "switch": finding.sample.at.switch.to_string(), "port": finding.sample.at.port.0},
        "count": finding.count,
    })
}

fn coverage_json(coverage: &Coverage) -> Value {
    let one_sided = |one: &OneSided| json!({"at": source_json(one.at.as_ref()), "question": one.question, "answer": one.answer, "asked": one.asked});
    json!({
        "packets": coverage.packets,
        "made": coverage.made,
        "runs": coverage.runs,
        "failed": coverage.failed,
        "traces": coverage.traces,
        "branches": coverage.branches,
        "unexplored": coverage.unexplored,
        "one_sided": coverage.one_sided.iter().map(one_sided).collect::<Vec<_>>(),
    })
}
