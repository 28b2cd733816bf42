//! Guesses the name that a misspelt name means.

/// Returns the known name that is nearest to `name`, if one is near.
///
/// A name is near if it needs few changes for its length, or if only the ends differ. Changes are letters that are
/// inserted, removed, replaced or swapped with their neighbours (optimal string alignment). A name of one or two
/// letters, such as `h1`, has no near name.
///
/// ```
/// use maple_wire::nearest;
///
/// assert_eq!(nearest("blokced", ["allowed", "blocked"]), Some("blocked"));
/// assert_eq!(nearest("reply", ["service", "replies"]), Some("replies"));
/// assert_eq!(nearest("hosts", ["weights"]), None);
/// assert_eq!(nearest("h9", ["h1", "h2"]), None);
/// ```
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let length = name.chars().count();
    let (changes, near) = known.into_iter().map(|known| (strsim::osa_distance(name, known), known)).min()?;
    let needs_few = length > 2 && changes <= 1 + length / 4 && 2 * changes <= length;
    (needs_few || only_ends_differ(name, near)).then_some(near)
}

/// Reports whether at least the first four letters agree, and `name` has at most one letter after the common part.
fn only_ends_differ(name: &str, other: &str) -> bool {
    let same = name.chars().zip(other.chars()).take_while(|(a, b)| a == b).count();
    same >= 4 && name.chars().count() <= same + 1
}
