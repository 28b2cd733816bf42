//! What a test needs and does not find: elsewhere it is skipped aloud, in CI it fails. Test crates include this file.

/// Says that a test, or a part of it, is skipped because `what` is missing. Panics where `CI=true`.
pub fn missing(what: &str) {
    assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "missing, and nothing may be skipped in CI: {what}");
    eprintln!("SKIPPED, as it is missing: {what}");
}
