//! Bytes written as hex text.

use anyhow::bail;

/// Whether the text holds nothing but hex digits (at least two), separators and `0x`.
pub(super) fn is_hex(text: &[u8]) -> bool {
    text.iter().filter(|byte| byte.is_ascii_hexdigit()).count() >= 2 && parse(text).is_ok()
}

/// The bytes of the text: pairs of hex digits, with any white space, commas and colons between them,
/// and words that start with `0x`.
pub(super) fn parse(text: &[u8]) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 2);
    for (number, line) in text.split(|byte| *byte == b'\n').enumerate() {
        parse_line(line, number + 1, &mut bytes)?;
    }
    Ok(bytes)
}

fn parse_line(line: &[u8], number: usize, bytes: &mut Vec<u8>) -> anyhow::Result<()> {
    let mut high: Option<u8> = None;
    let mut at = 0;
    while at < line.len() {
        let byte = line[at];
        let starts_word = at == 0 || is_separator(line[at - 1]);
        if starts_word && matches!(line[at..], [b'0', b'x' | b'X', ..]) {
            at += 2;
            continue;
        }
        match char::from(byte).to_digit(16) {
            Some(digit) => match high.take() {
                None => high = Some(digit as u8),
                Some(high) => bytes.push(high << 4 | digit as u8),
            },
            None if !is_separator(byte) => {
                bail!("line {number}, column {}: {:?} is no hex digit", at + 1, char::from(byte));
            }
            None if high.is_some() => bail!("line {number}, column {at}: a single hex digit; bytes have two"),
            None => {}
        }
        at += 1;
    }
    if high.is_some() {
        bail!("line {number}, column {at}: a single hex digit; bytes have two");
    }
    Ok(())
}

fn is_separator(byte: u8) -> bool {
    byte.is_ascii_whitespace() || matches!(byte, b',' | b':')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn white_space_separators_and_prefixes_do_not_count() {
        for text in ["0400 0008\n", "0x04000008", "04:00:00:08", "0x04, 0x00, 0x00,0x08", " 04\t00\r\n00 08"] {
            assert_eq!(parse(text.as_bytes()).unwrap(), [4, 0, 0, 8], "{text}");
        }
    }

    #[test]
    fn what_is_no_hex_is_named_with_its_place() {
        let error = |text: &str| parse(text.as_bytes()).unwrap_err().to_string();
        assert_eq!(error("0400\n00 0g"), "line 2, column 5: 'g' is no hex digit");
        assert_eq!(error("040"), "line 1, column 3: a single hex digit; bytes have two");
        assert_eq!(error("4 00"), "line 1, column 1: a single hex digit; bytes have two");
    }

    #[test]
    fn bytes_are_not_taken_for_text() {
        assert!(!is_hex(&[4, 0, 0, 8, 0, 0, 0, 1]));
        assert!(!is_hex(b""));
        assert!(is_hex(b"0400 0008"));
    }
}
