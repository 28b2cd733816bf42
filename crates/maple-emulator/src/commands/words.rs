//! Divides a line into words.

/// Splits a line into words, up to a comment, which begins with `#`. Quotes of both kinds keep words together.
///
/// # Errors
/// If a quotation does not end.
pub fn words(line: &str) -> Result<Vec<String>, String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for c in line.chars() {
        match (quote, c) {
            (Some(begun), c) if begun == c => quote = None,
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, '#') => break,
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    match quote {
        Some(quote) => Err(format!("a quotation begins with {quote} and does not end")),
        None => Ok(words),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_keep_words_together_and_comments_are_none() {
        let said = |line: &str| words(line).map(|words| words.join("|"));
        assert_eq!(said("  h1  ping h2 # once"), Ok("h1|ping|h2".into()));
        assert_eq!(said("state set t 'a # b' \"[1, 2]\" ''"), Ok("state|set|t|a # b|[1, 2]|".into()));
        assert_eq!(said("a'b'c"), Ok("abc".into()));
        assert_eq!(said("# all"), Ok(String::new()));
        assert!(said("state set t 'a").is_err());
    }
}
