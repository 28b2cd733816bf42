//! The findings and the coverage of a check, as text or JSON.

use std::cmp::Reverse;
use std::io::Write;

use maple_core::check::{Check, Counted, Coverage, Finding, MadeLookUp, OneSided, Per, Sample, Wide};
use maple_core::trace::Source;
use maple_wire::Field;
use maple_wire::counted;
use maple_wire::packet::text::summary;
use serde_json::{Value, json};

use super::constraints::{self, ConstraintResult};
use crate::options::CheckOptions;
use crate::output::{json_text, print_text, text_out};
use crate::policy::Suspicion;

/// The maximum number of branches that are listed. Chosen: they fit a screen; the number of the others follows.
const LISTED: usize = 20;
/// The maximum number of failures that are shown. Chosen: each takes several lines, and the most frequent ones come
/// first.
const FAILURES: usize = 5;

/// The network for which rules are counted.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    pub hosts: u64,
    pub switches: u64,
}

/// Prints the findings and the coverage. The exit status is 1 if something was found.
///
/// # Errors
/// If standard output can't be written.
pub fn print(check: &Check, suspicions: &[Suspicion], size: Size, options: &CheckOptions) -> std::io::Result<u8> {
    let coverage = check.coverage();
    let reads = suspicions.iter().any(|suspicion| suspicion.is_untracked);
    let depends = reads || check.faults().findings().next().is_some();
    let fails = check.faults().failures().next().is_some();
    let verdicts = if options.constraints { constraints::verdicts(check, reads) } else { Vec::new() };
    let is_violated = verdicts.iter().any(ConstraintResult::is_violated);
    let found = Found { check, suspicions, size, verdicts: &verdicts, coverage: &coverage };
    if options.json {
        print_text(&(json_text(&found.json(options.constraints)) + "\n"))?;
    } else {
        let mut out = text_out();
        found.write(&mut out, depends)?;
        out.flush()?;
    }
    Ok(u8::from(depends || !suspicions.is_empty() || fails || is_violated))
}

/// All that a check has found.
struct Found<'a> {
    check: &'a Check,
    suspicions: &'a [Suspicion],
    size: Size,
    verdicts: &'a [ConstraintResult],
    coverage: &'a Coverage,
}

impl Found<'_> {
    fn json(&self, with_constraints: bool) -> Value {
        let Found { check, suspicions, size, verdicts, coverage } = *self;
        let mut reported = json!({
            "source": suspicions.iter().map(suspicion_json).collect::<Vec<_>>(),
            "runs": check.faults().findings().map(finding_json).collect::<Vec<_>>(),
            "failures": check.faults().failures().map(|(error, counted)| counted_json("error", error, counted)).collect::<Vec<_>>(),
            "routes_back": check.faults().routes_back().map(|(place, counted)| counted_json("at", place, counted)).collect::<Vec<_>>(),
            "writes_each": check.faults().writes_each().map(|(place, counted)| counted_json("at", place, counted)).collect::<Vec<_>>(),
            "slow_ms": check.slow().map(|each| each.as_secs_f64() * 1000.0),
            "rules": check.costs().map(|wide| cost_json(wide, size)).collect::<Vec<_>>(),
            "look_ups": check.look_ups().map(look_up_json).collect::<Vec<_>>(),
            "gave_up": check.gave_up(),
            "coverage": coverage_json(coverage),
        });
        if with_constraints {
            reported["constraints"] = verdicts.iter().map(ConstraintResult::json).collect();
        }
        reported
    }

    /// Writes the findings for people. `depends`: whether the policy depends on untracked state.
    fn write(&self, out: &mut dyn Write, depends: bool) -> std::io::Result<()> {
        let Found { check, suspicions, size, verdicts, coverage } = *self;
        for Suspicion { file, line, text, .. } in suspicions {
            writeln!(out, "{file}:{line}: {text}")?;
        }
        check.faults().findings().try_for_each(|finding| write_finding(out, finding))?;
        write_failures(out, check)?;
        check.faults().routes_back().try_for_each(|(place, counted)| write_route_back(out, place, counted))?;
        check.faults().writes_each().try_for_each(|(place, counted)| write_writes_each(out, place, counted))?;
        write_slow(out, check)?;
        check.costs().filter(|wide| warns(wide)).try_for_each(|wide| write_warning(out, wide, size))?;
        write_coverage(out, coverage)?;
        verdicts.iter().try_for_each(|verdict| verdict.write(out, coverage.packets))?;
        write_rules(out, check, size)?;
        write_look_ups(out, check)?;
        let untracked = match (depends, suspicions.is_empty()) {
            (true, _) => "the policy depends on untracked state",
            (false, true) => "no untracked state was seen",
            (false, false) => "no untracked state was seen, but the policy waits",
        };
        if check.faults().failures().next().is_none() {
            return writeln!(out, "{untracked}");
        }
        let packets = counted(coverage.packets, "packet");
        writeln!(out, "the policy fails on {} of {packets}; {untracked}", coverage.failed)
    }
}

/// Writes the errors of the policy, the most frequent first.
fn write_failures(out: &mut dyn Write, check: &Check) -> std::io::Result<()> {
    let mut all: Vec<(&str, &Counted)> = check.faults().failures().collect();
    all.sort_by_key(|(_, counted)| Reverse(counted.count));
    for (error, counted) in all.iter().take(FAILURES) {
        writeln!(out, "the policy fails on {}:", packets(counted.count))?;
        error.lines().try_for_each(|line| writeln!(out, "    {line}"))?;
        writeln!(out, "    packet  {}", shown(counted))?;
    }
    if let Some(more) = all.len().checked_sub(FAILURES).filter(|more| *more > 0) {
        writeln!(out, "and in {more} more ways")?;
    }
    if check.gave_up() && check.slow().is_none() {
        writeln!(out, "no more packets were tried, as it does not come to an end")?;
    }
    Ok(())
}

fn write_writes_each(out: &mut dyn Write, place: &str, counted: &Counted) -> std::io::Result<()> {
    writeln!(
        out,
        "{place}: warning: the policy writes here for {}, and again for the next one: such packets have no rules, and each \
         comes to the controller. Write only what is not there yet (if key not in table), and count with net.traffic or in \
         a thread",
        packets(counted.count)
    )?;
    writeln!(out, "    packet  {}", shown(counted))
}

fn write_slow(out: &mut dyn Write, check: &Check) -> std::io::Result<()> {
    let Some(each) = check.slow() else { return Ok(()) };
    let end = if check.gave_up() { "; no more packets were tried" } else { "" };
    writeln!(
        out,
        "warning: the policy takes {} ms for a packet, and nothing else is decided meanwhile: ask and compute in a thread, \
         and leave the answer in a Table{end}",
        each.as_millis()
    )
}

fn write_route_back(out: &mut dyn Write, place: &str, counted: &Counted) -> std::io::Result<()> {
    writeln!(
        out,
        "{place}: the route of {} has no port but the one where the packet came in, and a switch sends nothing back there; \
         to(IN_PORT) does",
        packets(counted.count)
    )?;
    writeln!(out, "    packet  {}", shown(counted))
}

/// Reports whether the number of rules multiplies by fields that policies should not read.
fn warns(wide: &Wide) -> bool {
    wide.per == Per::Connection || wide.floods && matches!(wide.per, Per::Source | Per::Pair)
}

fn write_warning(out: &mut dyn Write, wide: &Wide, size: Size) -> std::io::Result<()> {
    let reads = reads(wide);
    let rules = wide.per.rules(size.hosts, size.switches).map(|rules| format!(", {rules} for {} hosts", size.hosts));
    let rules = rules.unwrap_or_default();
    match (wide.floods, wide.per) {
        (true, Per::Connection) => {
            writeln!(out, "warning: a flood rule for each connection, as the policy has read {reads}")?
        }
        (true, per) => writeln!(
            out,
            "warning: a flood rule for each {}{rules}, as the policy has read {reads}; ask for what floods first \
             (pkt.eth_dst.is_multicast), and for the source last",
            if per == Per::Pair { "pair of hosts" } else { "source" }
        )?,
        (false, _) => {
            writeln!(out, "warning: a rule for each connection, as the policy reads {reads}; a test makes one for all")?
        }
    }
    writeln!(out, "    packet  {} at {}", summary(&wide.sample.packet()), wide.sample.at)
}

/// Writes the fields that multiply rules most.
fn write_rules(out: &mut dyn Write, check: &Check, size: Size) -> std::io::Result<()> {
    let Some(widest) = check.costs().filter(|wide| wide.per != Per::Connection).last() else { return Ok(()) };
    let rules = widest.per.rules(size.hosts, size.switches).unwrap_or_default();
    let name = format!("rules for {} hosts", size.hosts);
    writeln!(out, "{name:<22} {rules:>8}   (at most: one for each {}; {})", each(widest.per), reads(widest))
}

/// Writes the look-ups, with their lines.
fn write_look_ups(out: &mut dyn Write, check: &Check) -> std::io::Result<()> {
    let look_up = |(text, at): &MadeLookUp| match at {
        Some(at) => format!("{text} ({at})"),
        None => text.clone(),
    };
    let all: Vec<String> = check.look_ups().map(look_up).collect();
    if all.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "look-ups               {:>8}   (a rule for each key, none for each pair; {})",
        all.len(),
        all.join(", ")
    )
}

fn look_up_json((text, at): &MadeLookUp) -> Value {
    json!({"look_up": text, "at": source_json(at.as_ref())})
}

fn each(per: Per) -> &'static str {
    match per {
        Per::Destination => "destination on each switch",
        Per::Source => "source",
        Per::Pair => "pair that talks",
        Per::Connection => "connection",
    }
}

/// Lists the fields that were read, with their lines: `eth_src (a.py:7), eth_dst (a.py:5)`.
fn reads(wide: &Wide) -> String {
    let read = |(field, at): &(Field, Option<Source>)| match at {
        Some(at) => format!("{field} ({at})"),
        None => field.to_string(),
    };
    wide.reads.iter().map(read).collect::<Vec<_>>().join(", ")
}

fn cost_json(wide: &Wide, size: Size) -> Value {
    let read = |(field, at): &(Field, Option<Source>)| json!({"field": field.name(), "at": source_json(at.as_ref())});
    json!({
        "per": each(wide.per),
        "floods": wide.floods,
        "hosts": size.hosts,
        "rules": wide.per.rules(size.hosts, size.switches),
        "reads": wide.reads.iter().map(read).collect::<Vec<_>>(),
        "packet": sample_json(&wide.sample),
    })
}

pub(super) fn packets(count: u64) -> String {
    if count == 1 { "a packet".to_owned() } else { format!("{count} packets") }
}

pub(super) fn shown(counted: &Counted) -> String {
    format!("{} at {}", summary(&counted.sample.packet()), counted.sample.at)
}

fn write_finding(out: &mut dyn Write, finding: &Finding) -> std::io::Result<()> {
    let Finding { difference, sample, count } = finding;
    let at = place(difference.at.as_ref());
    let after = difference.after.as_ref().filter(|after| difference.at.as_ref() != Some(after));
    let after = after.map(|after| format!(" (after line {})", after.line)).unwrap_or_default();
    writeln!(
        out,
        "{at}: two runs on the same packet and state differ here{after}: the policy looks at something untracked"
    )?;
    writeln!(out, "    first   {}", difference.first)?;
    writeln!(out, "    then    {}", difference.second)?;
    let times = if *count == 1 { String::new() } else { format!(", and {} more times", count - 1) };
    writeln!(out, "    packet  {} at {}{times}", summary(&sample.packet()), sample.at)
}

fn write_coverage(out: &mut dyn Write, coverage: &Coverage) -> std::io::Result<()> {
    let Coverage { packets, made, runs, failed, waiting, traces, branches, unexplored, one_sided } = coverage;
    writeln!(out, "packets                {packets:>8}   ({} given, {made} made)", packets - made)?;
    writeln!(out, "runs of the policy     {runs:>8}")?;
    if *failed > 0 {
        writeln!(out, "  packets it failed on {failed:>8}")?;
    }
    if *waiting > 0 {
        writeln!(out, "  packets that wait    {waiting:>8}")?;
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
    json!({
        "file": suspicion.file,
        "line": suspicion.line,
        "text": suspicion.text,
        "is_untracked": suspicion.is_untracked,
    })
}

fn source_json(source: Option<&Source>) -> Value {
    source.map_or(Value::Null, |source| json!({"file": &*source.file, "line": source.line}))
}

fn finding_json(finding: &Finding) -> Value {
    json!({
        "at": source_json(finding.difference.at.as_ref()),
        "after": source_json(finding.difference.after.as_ref()),
        "first": finding.difference.first,
        "then": finding.difference.second,
        "packet": sample_json(&finding.sample),
        "count": finding.count,
    })
}

fn counted_json(name: &str, what: &str, counted: &Counted) -> Value {
    json!({name: what, "packet": sample_json(&counted.sample), "count": counted.count})
}

pub(super) fn sample_json(sample: &Sample) -> Value {
    json!({"frame": hex::encode(&sample.frame), "switch": sample.at.switch.to_string(), "port": sample.at.port.0})
}

fn coverage_json(coverage: &Coverage) -> Value {
    let one_sided = |one: &OneSided| json!({"at": source_json(one.at.as_ref()), "question": one.question, "answer": one.answer, "asked": one.asked});
    json!({
        "packets": coverage.packets,
        "made": coverage.made,
        "runs": coverage.runs,
        "failed": coverage.failed,
        "waiting": coverage.waiting,
        "traces": coverage.traces,
        "branches": coverage.branches,
        "unexplored": coverage.unexplored,
        "one_sided": coverage.one_sided.iter().map(one_sided).collect::<Vec<_>>(),
    })
}
