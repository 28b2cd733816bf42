//! Makes text of peers safe to print. A switch may choose any name for itself and its ports.

/// Escapes characters that could control a terminal: control characters, and characters without width or that change
/// the direction of text.
pub(crate) fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if is_printable(c) { out.push(c) } else { out.extend(c.escape_default()) }
    }
    out
}

/// Reports whether a character can't control a terminal.
pub(crate) fn is_printable(c: char) -> bool {
    !c.is_control() && !is_format(c)
}

fn is_format(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped_and_other_text_is_kept() {
        assert_eq!(printable("Zürich 東京 \\ 'x' \"y\""), "Zürich 東京 \\ 'x' \"y\"");
        assert_eq!(
            printable("\0\u{1b}]0;t\u{7}\r\n\t\u{9b}1m\u{200b}"),
            "\\u{0}\\u{1b}]0;t\\u{7}\\r\\n\\t\\u{9b}1m\\u{200b}"
        );
    }
}
