//! Bytes written as hex text: digits alone, [dumps](super::dump), or what `tshark` [follows](super::follow).

use anyhow::bail;

use super::{dump, follow};

/// The content of a text in hex.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Hex {
    /// Consecutive bytes.
    Bytes(Vec<u8>),
    /// Several dumps.
    Dumps(Vec<Vec<u8>>),
    /// Streams of consecutive bytes.
    Streams(Vec<Vec<u8>>),
}

/// Reads a text in hex.
///
/// # Errors
/// The place where the text is not hex.
pub(super) fn read(text: &[u8]) -> anyhow::Result<Hex> {
    if let Some(streams) = follow::read(text)? {
        return Ok(Hex::Streams(streams));
    }
    let digits = parse(text);
    if digits.is_ok() && !dump::is_first_line(text) {
        return digits.map(Hex::Bytes);
    }
    let mut dumps = dump::all(text)?;
    match dumps.len() {
        0 => digits.map(Hex::Bytes),
        1 => Ok(Hex::Bytes(dumps.remove(0))),
        _ => Ok(Hex::Dumps(dumps)),
    }
}

/// Reports whether the text is hex with at least two digits.
pub(super) fn is_hex(text: &[u8]) -> bool {
    text.iter().filter(|byte| byte.is_ascii_hexdigit()).count() >= 2 && read(text).is_ok()
}

/// Parses pairs of hex digits, with any white space, commas and colons between them, and words that start with `0x`. A
/// single digit after `0x` is a byte (`0x4 0xa`, as Python's `hex` writes them).
pub(super) fn parse(text: &[u8]) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 2);
    for (number, line) in text.split(|byte| *byte == b'\n').enumerate() {
        parse_line(line, number + 1, &mut bytes)?;
    }
    Ok(bytes)
}

/// Appends the bytes of a line.
///
/// # Errors
/// The place where the line is not hex.
pub(super) fn parse_line(line: &[u8], number: usize, bytes: &mut Vec<u8>) -> anyhow::Result<()> {
    let mut at = 0;
    while at < line.len() {
        if is_separator(line[at]) {
            at += 1;
            continue;
        }
        let end = line[at..].iter().position(|byte| is_separator(*byte)).map_or(line.len(), |length| at + length);
        let digits = match line[at..end] {
            [b'0', b'x' | b'X', digit] if digit.is_ascii_hexdigit() => {
                bytes.push(value(digit));
                at = end;
                continue;
            }
            [b'0', b'x' | b'X', ..] => at + 2,
            _ => at,
        };
        let word = &line[digits..end];
        if let Some(wrong) = word.iter().position(|byte| !byte.is_ascii_hexdigit()) {
            let column = digits + wrong + 1;
            let rest = String::from_utf8_lossy(&word[wrong..]);
            bail!("line {number}, column {column}: {:?} is not a hex digit", rest.chars().next().unwrap_or_default());
        }
        if !word.len().is_multiple_of(2) {
            bail!("line {number}, column {end}: a single hex digit; bytes have two");
        }
        bytes.extend(word.chunks(2).map(|pair| value(pair[0]) << 4 | value(pair[1])));
        at = end;
    }
    Ok(())
}

/// Returns the value of a hex digit.
pub(super) fn value(digit: u8) -> u8 {
    char::from(digit).to_digit(16).unwrap_or_default() as u8
}

fn is_separator(byte: u8) -> bool {
    byte.is_ascii_whitespace() || matches!(byte, b',' | b':')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn white_space_separators_and_prefixes_do_not_count() {
        let texts = [
            "0400 0008\n",
            "0x04000008",
            "04:00:00:08",
            "0x04, 0x00, 0x00,0x08",
            " 04\t00\r\n00 08",
            "0x4 0x0 0x0 0x8",
            "0X4,0x00 0x0008",
            "0400\n0008\n",
        ];
        for text in texts {
            assert_eq!(read(text.as_bytes()).unwrap(), Hex::Bytes(vec![4, 0, 0, 8]), "{text}");
        }
        assert_eq!(parse(b"0x4 0xa 0xFF").unwrap(), [4, 10, 255], "as Ryu logs a message");
        assert_eq!(read(b"0400 0008\n0000 0001\n").unwrap(), Hex::Bytes(vec![4, 0, 0, 8, 0, 0, 0, 1]), "no dump");
    }

    #[test]
    fn invalid_hex_is_reported_with_line_and_column() {
        let error = |text: &str| parse(text.as_bytes()).unwrap_err().to_string();
        assert_eq!(error("0400\n00 0g"), "line 2, column 5: 'g' is not a hex digit");
        assert_eq!(error("040"), "line 1, column 3: a single hex digit; bytes have two");
        assert_eq!(error("0x040"), "line 1, column 5: a single hex digit; bytes have two");
        assert_eq!(error("4 00"), "line 1, column 1: a single hex digit; bytes have two");
        assert_eq!(error("00 é"), "line 1, column 4: 'é' is not a hex digit");
    }

    #[test]
    fn bytes_are_not_taken_for_text() {
        assert!(!is_hex(&[4, 0, 0, 8, 0, 0, 0, 1]));
        assert!(!is_hex(b""));
        assert!(is_hex(b"0400 0008"));
    }
}
