//! Keys, from the bytes that a terminal sends for them.

/// A key that the editor knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    Char(char),
    Enter,
    Tab,
    Backspace,
    Delete,
    Left,
    Right,
    WordLeft,
    WordRight,
    Home,
    End,
    Up,
    Down,
    /// Deletes the text after the cursor.
    KillRest,
    /// Deletes the text before the cursor.
    KillStart,
    KillWord,
    /// Clears the screen.
    Clear,
    /// Ctrl-C.
    Interrupt,
    /// Ctrl-D: ends the input on an empty line, and deletes a character elsewhere.
    EndOrDelete,
}

/// The maximum length of an escape sequence, in bytes. Chosen: those of keys with modifiers have about ten; longer ones
/// are nonsense.
const MAX_ESCAPE_BYTES: usize = 32;

/// Assembles keys from bytes.
#[derive(Debug, Default)]
pub struct Keys {
    /// The beginning of a key: an escape sequence, or a character of several bytes.
    begun: Vec<u8>,
}

impl Keys {
    /// Takes in a byte. Returns the key that ends with it, if one does. Unknown keys are ignored.
    pub fn take_in(&mut self, byte: u8) -> Option<Key> {
        self.begun.push(byte);
        let key = match self.begun.as_slice() {
            [0x1b] | [0x1b, b'[' | b'O'] => return None,
            [0x1b, b'[', .., last] if !(0x40..=0x7e).contains(last) && self.begun.len() < MAX_ESCAPE_BYTES => {
                return None;
            }
            [0x1b, rest @ ..] => of_sequence(rest),
            [byte @ (..0x20 | 0x7f)] => of_control(*byte),
            bytes => match std::str::from_utf8(bytes) {
                Ok(text) => text.chars().next().filter(|c| !c.is_control()).map(Key::Char),
                Err(error) if error.error_len().is_none() => return None,
                Err(_) => None,
            },
        };
        self.begun.clear();
        key
    }
}

/// Returns the key of a control character, as in readline.
fn of_control(byte: u8) -> Option<Key> {
    Some(match byte {
        b'\r' | b'\n' => Key::Enter,
        b'\t' => Key::Tab,
        0x7f | 0x08 => Key::Backspace,
        0x01 => Key::Home,
        0x02 => Key::Left,
        0x03 => Key::Interrupt,
        0x04 => Key::EndOrDelete,
        0x05 => Key::End,
        0x06 => Key::Right,
        0x0b => Key::KillRest,
        0x0c => Key::Clear,
        0x0e => Key::Down,
        0x10 => Key::Up,
        0x15 => Key::KillStart,
        0x17 => Key::KillWord,
        _ => return None,
    })
}

/// Returns the key of an escape sequence (ECMA-48, and xterm's for keys), without the escape character.
fn of_sequence(sequence: &[u8]) -> Option<Key> {
    Some(match sequence {
        b"[A" | b"OA" => Key::Up,
        b"[B" | b"OB" => Key::Down,
        b"[C" | b"OC" => Key::Right,
        b"[D" | b"OD" => Key::Left,
        b"[H" | b"OH" | b"[1~" | b"[7~" => Key::Home,
        b"[F" | b"OF" | b"[4~" | b"[8~" => Key::End,
        b"[3~" => Key::Delete,
        b"[1;5C" | b"[1;3C" | b"f" => Key::WordRight,
        b"[1;5D" | b"[1;3D" | b"b" => Key::WordLeft,
        b"\x7f" => Key::KillWord,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(bytes: &[u8]) -> Vec<Key> {
        let mut keys = Keys::default();
        bytes.iter().filter_map(|byte| keys.take_in(*byte)).collect()
    }

    #[test]
    fn bytes_are_keys() {
        assert_eq!(keys("aé✓".as_bytes()), ['a', 'é', '✓'].map(Key::Char));
        assert_eq!(
            keys(b"\x1b[A\x1bOB\x1b[3~\x1b[1;5D\x1bf"),
            [Key::Up, Key::Down, Key::Delete, Key::WordLeft, Key::WordRight]
        );
        assert_eq!(
            keys(b"\r\n\t\x7f\x03\x04"),
            [Key::Enter, Key::Enter, Key::Tab, Key::Backspace, Key::Interrupt, Key::EndOrDelete]
        );
    }

    #[test]
    fn unknown_byte_sequences_are_skipped() {
        assert_eq!(keys(b"\x1b[200~a\x1b[201~\x00\x1b[15;2~b"), ['a', 'b'].map(Key::Char));
        assert_eq!(keys(b"\xff\xc3(a"), ['a'].map(Key::Char));
        let endless = [&b"\x1b["[..], &[b'1'; 40], b"a"].concat();
        assert_eq!(keys(&endless).last(), Some(&Key::Char('a')));
    }

    #[test]
    fn any_two_bytes_leave_little_behind() {
        for (a, b) in (0..=255).flat_map(|a| (0..=255).map(move |b| (a, b))) {
            let mut keys = Keys::default();
            for byte in [0x1b, b'['].into_iter().chain([a, b].into_iter().cycle().take(100)) {
                keys.take_in(byte);
                assert!(keys.begun.len() <= MAX_ESCAPE_BYTES, "{a} {b}");
            }
        }
    }
}
