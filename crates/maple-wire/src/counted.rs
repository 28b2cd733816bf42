//! Counts with their nouns, for people.

use std::fmt::Display;

/// Returns a count with its noun: `1 packet`, `2 packets`, `3 switches`, `4 entries`.
///
/// ```
/// use maple_wire::counted;
///
/// assert_eq!(counted(1, "switch"), "1 switch");
/// assert_eq!(counted(0, "entry"), "0 entries");
/// assert_eq!(counted(2, "key"), "2 keys");
/// ```
pub fn counted(count: impl Display, what: &str) -> String {
    let count = count.to_string();
    let many = match what.strip_suffix('y') {
        _ if count == "1" => what.to_owned(),
        Some(stem) if !stem.ends_with(['a', 'e', 'o']) => format!("{stem}ies"),
        _ if what.ends_with("ch") => format!("{what}es"),
        _ => format!("{what}s"),
    };
    format!("{count} {many}")
}
