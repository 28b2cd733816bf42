//! What a misspelt name is meant to be.

/// How alike two names must be, from 0 to 1.
const ALIKE: f64 = 0.8;

/// The name that is most like `name`, if one is close.
///
/// ```
/// use maple_controller::spelling::nearest;
///
/// assert_eq!(nearest("blokced", ["allowed", "blocked"]), Some("blocked"));
/// assert_eq!(nearest("hosts", ["weights"]), None);
/// ```
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let scored = known.into_iter().map(|known| (strsim::jaro_winkler(name, known), known));
    scored.filter(|(score, _)| *score >= ALIKE).max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, known)| known)
}
