//! Prometheus's older text format, 0.0.4, from OpenMetrics 1.0: for `promtool check metrics`, `curl` and old
//! collectors.
//!
//! Lines of values are as in OpenMetrics. The older format has no units and no end, and neither information nor unknown
//! as a type. It describes a counter by the name of its values (`_total`), which OpenMetrics does not.

use std::borrow::Cow;

/// The content type of the older format.
pub(super) const CLASSIC: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Converts a text of OpenMetrics to the older format.
pub(super) fn classic(openmetrics: &str) -> String {
    let mut text = String::with_capacity(openmetrics.len());
    let mut lines = openmetrics.lines().peekable();
    while let Some(line) = lines.next() {
        let line = match line.strip_prefix("# ").map(|rest| rest.splitn(3, ' ').collect::<Vec<_>>()).as_deref() {
            // The next line has the type.
            Some(["HELP", name, help]) => {
                let kind = lines.peek().and_then(|next| next.rsplit(' ').next()).unwrap_or_default();
                Cow::Owned(format!("# HELP {} {}", described(name, kind), help.replace("\\\"", "\"")))
            }
            Some(["TYPE", name, kind]) => Cow::Owned(format!("# TYPE {} {}", described(name, kind), known(kind))),
            Some(_) => continue,
            None => Cow::Borrowed(line),
        };
        text.push_str(&line);
        text.push('\n');
    }
    text
}

/// Returns the name by which the older format describes a family.
fn described(name: &str, kind: &str) -> String {
    match kind {
        "counter" => format!("{name}_total"),
        "info" => format!("{name}_info"),
        _ => name.to_owned(),
    }
}

/// Returns the nearest type that the older format has.
fn known(kind: &str) -> &str {
    match kind {
        "info" => "gauge",
        "unknown" => "untyped",
        kind => kind,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stay_and_descriptions_are_those_of_the_older_format() {
        let text = "# HELP hits Hits of \"x\\\".\n# TYPE hits counter\nhits_total{a=\"b # c\"} 7\n\
                    # HELP build Built.\n# TYPE build info\nbuild_info{version=\"1\"} 1\n\
                    # HELP age Age.\n# TYPE age gauge\n# UNIT age seconds\nage 1.5\n# EOF\n";
        let older = "# HELP hits_total Hits of \"x\".\n# TYPE hits_total counter\nhits_total{a=\"b # c\"} 7\n\
                     # HELP build_info Built.\n# TYPE build_info gauge\nbuild_info{version=\"1\"} 1\n\
                     # HELP age Age.\n# TYPE age gauge\nage 1.5\n";
        assert_eq!(classic(text), older);
    }
}
