//! Text of others, fit to be printed: a switch may name itself and its ports as it likes.

/// The text with what would steer a terminal as escapes: control characters, and those that turn the direction of text or
/// have no width.
pub(crate) fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() || is_format(c) { out.extend(c.escape_default()) } else { out.push(c) }
    }
    out
}

fn is_format(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_steers_a_terminal_is_escaped_and_all_else_stays() {
        assert_eq!(printable("Zürich 東京 \\ 'x' \"y\""), "Zürich 東京 \\ 'x' \"y\"");
        assert_eq!(
            printable("\0\u{1b}]0;t\u{7}\r\n\t\u{9b}1m\u{200b}"),
            "\\u{0}\\u{1b}]0;t\\u{7}\\r\\n\\t\\u{9b}1m\\u{200b}"
        );
    }
}
