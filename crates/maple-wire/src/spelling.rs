//! What a misspelt name is meant to be.

/// The known name that is nearest to `name`, if one is near.
///
/// A name is near if it needs few changes for its length, or if only the ends differ. Changes are letters that are
/// inserted, removed, replaced or swapped with their neighbours (optimal string alignment). Names of one or two
/// letters, such as `h1`, have no near ones.
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

/// Whether four letters or more are the same, and all that `name` has besides is one letter at its end.
fn only_ends_differ(name: &str, other: &str) -> bool {
    let same = name.chars().zip(other.chars()).take_while(|(a, b)| a == b).count();
    same >= 4 && name.chars().count() <= same + 1
}
