//! An editor of a line with a history. It draws them as text, and needs no terminal.

use std::fmt::Write as _;

use unicode_width::UnicodeWidthChar as _;

use super::keys::Key;

/// The maximum number of earlier lines that are kept. Chosen: as many as shells keep by default, or more.
const MAX_HISTORY_LINES: usize = 1000;
/// The maximum length of a line, in characters. Chosen: no command is nearly as long, and a paste by mistake is
/// bounded.
const MAX_LINE_CHARS: usize = 10_000;

/// A line, with the cursor before one of its characters or at its end.
#[derive(Debug)]
pub struct Editor {
    prompt: &'static str,
    line: Vec<char>,
    cursor: usize,
    history: Vec<String>,
    /// The place in the history; its end stands for the new line.
    at: usize,
    /// The new line while an earlier one is shown.
    new: Vec<char>,
    /// The row of the cursor below the start of the prompt, as last drawn.
    row: usize,
}

/// The effect of a key.
#[derive(Debug, PartialEq, Eq)]
pub enum KeyEffect {
    /// The line is still edited.
    Edited,
    /// A word must be completed.
    Completes,
    /// The screen must be cleared.
    Cleared,
    /// The line is complete.
    Line(String),
    /// Ctrl-C: the line is discarded.
    Interrupted,
    /// Ctrl-D: the input ends.
    End,
}

impl Editor {
    /// Creates an editor with an empty line.
    pub fn new(prompt: &'static str) -> Editor {
        let (line, history, new) = (Vec::new(), Vec::new(), Vec::new());
        Editor { prompt, line, cursor: 0, history, at: 0, new, row: 0 }
    }

    /// Returns the text before the cursor.
    pub fn before_cursor(&self) -> String {
        self.line[..self.cursor].iter().collect()
    }

    /// Handles a key. After a complete line, call [`Editor::begin`] for the next one.
    pub fn press(&mut self, key: Key) -> KeyEffect {
        match key {
            Key::Enter => return self.accept(),
            Key::Tab => return KeyEffect::Completes,
            Key::Clear => return KeyEffect::Cleared,
            Key::Interrupt => return KeyEffect::Interrupted,
            Key::EndOrDelete if self.line.is_empty() => return KeyEffect::End,
            Key::EndOrDelete | Key::Delete => self.delete(self.cursor, (self.cursor + 1).min(self.line.len())),
            Key::Backspace => self.delete(self.cursor.saturating_sub(1), self.cursor),
            Key::KillRest => self.delete(self.cursor, self.line.len()),
            Key::KillStart => self.delete(0, self.cursor),
            Key::KillWord => self.delete(self.word_left(), self.cursor),
            Key::Char(c) => self.insert(&[c]),
            Key::Left => self.cursor = self.cursor.saturating_sub(1),
            Key::Right => self.cursor = (self.cursor + 1).min(self.line.len()),
            Key::WordLeft => self.cursor = self.word_left(),
            Key::WordRight => self.cursor = self.word_right(),
            Key::Home => self.cursor = 0,
            Key::End => self.cursor = self.line.len(),
            Key::Up => self.recall(self.at.saturating_sub(1)),
            Key::Down => self.recall((self.at + 1).min(self.history.len())),
        }
        KeyEffect::Edited
    }

    /// Inserts the common start of `words`, the possible completions of the word that begins at the byte `start` and
    /// ends at the cursor. Reports whether that inserted nothing.
    pub fn complete(&mut self, start: usize, words: &[String]) -> bool {
        let Some(first) = words.first() else { return false };
        let common = words.iter().fold(first.as_str(), |common, word| {
            let same = common.char_indices().zip(word.chars()).take_while(|((_, a), b)| a == b);
            &common[..same.map(|((at, c), _)| at + c.len_utf8()).last().unwrap_or_default()]
        });
        let begun = self.before_cursor().len() - start;
        let more: Vec<char> = common.get(begun..).unwrap_or_default().chars().collect();
        self.insert(&more);
        more.is_empty()
    }

    /// Returns the text that erases the line as it was drawn.
    pub fn erased(&mut self) -> String {
        let up = std::mem::take(&mut self.row);
        let up = if up > 0 { format!("\x1b[{up}A") } else { String::new() };
        format!("{up}\r\x1b[J")
    }

    /// Returns the text that draws the line at the beginning of a row of a terminal with this many columns.
    pub fn drawn(&mut self, columns: usize) -> String {
        let mut text: String = self.prompt.chars().chain(self.line.iter().copied()).collect();
        let before = self.prompt.chars().chain(self.line[..self.cursor].iter().copied());
        let ((row, column), (end, end_column)) = (place(before, columns), place(text.chars(), columns));
        if end_column == 0 && end > 0 {
            // The cursor of a terminal stays in the last column until another character is printed.
            text.push_str("\r\n");
        }
        // Writing to a string does not fail.
        if end > row {
            let _ = write!(text, "\x1b[{}A", end - row);
        }
        text.push('\r');
        if column > 0 {
            let _ = write!(text, "\x1b[{column}C");
        }
        self.row = row;
        text
    }

    /// Returns the text that draws the complete line and moves to the row below it.
    pub fn left(&mut self, columns: usize) -> String {
        self.cursor = self.line.len();
        let text = self.erased() + &self.drawn(columns) + "\r\n";
        self.row = 0;
        text
    }

    /// Starts a new line.
    pub fn begin(&mut self) {
        self.line.clear();
        self.new.clear();
        (self.cursor, self.at) = (0, self.history.len());
    }

    fn accept(&mut self) -> KeyEffect {
        let line: String = self.line.iter().collect();
        if !line.trim().is_empty() && self.history.last() != Some(&line) {
            self.history.push(line.clone());
            let surplus = self.history.len().saturating_sub(MAX_HISTORY_LINES);
            self.history.drain(..surplus);
        }
        KeyEffect::Line(line)
    }

    /// Shows another line of the history.
    fn recall(&mut self, at: usize) {
        if at == self.at {
            return;
        }
        if self.at == self.history.len() {
            self.new = std::mem::take(&mut self.line);
        }
        self.line = self.history.get(at).map_or_else(|| self.new.clone(), |line| line.chars().collect());
        (self.at, self.cursor) = (at, self.line.len());
    }

    fn insert(&mut self, chars: &[char]) {
        if self.line.len() + chars.len() <= MAX_LINE_CHARS {
            self.line.splice(self.cursor..self.cursor, chars.iter().copied());
            self.cursor += chars.len();
        }
    }

    fn delete(&mut self, from: usize, to: usize) {
        self.line.drain(from..to);
        self.cursor = from;
    }

    fn word_left(&self) -> usize {
        let before = &self.line[..self.cursor];
        let end = before.iter().rposition(|c| !c.is_whitespace()).map_or(0, |at| at + 1);
        before[..end].iter().rposition(|c| c.is_whitespace()).map_or(0, |at| at + 1)
    }

    fn word_right(&self) -> usize {
        let after = &self.line[self.cursor..];
        let begin = after.iter().position(|c| !c.is_whitespace()).unwrap_or(after.len());
        let length = after[begin..].iter().position(|c| c.is_whitespace()).unwrap_or(after.len() - begin);
        self.cursor + begin + length
    }
}

/// Returns the row and column after these characters. A wide character is not split.
fn place(text: impl Iterator<Item = char>, columns: usize) -> (usize, usize) {
    let columns = columns.max(2);
    text.fold((0, 0), |(row, column), c| {
        let width = c.width().unwrap_or_default();
        let (row, column) = if column + width > columns { (row + 1, width) } else { (row, column + width) };
        if column == columns { (row + 1, 0) } else { (row, column) }
    })
}

#[cfg(test)]
mod tests {
    use super::super::keys::Keys;
    use super::*;

    /// Presses keys, and returns the effect of the last one.
    fn press(editor: &mut Editor, bytes: &str) -> KeyEffect {
        let mut keys = Keys::default();
        let pressed = bytes.bytes().filter_map(|byte| keys.take_in(byte)).map(|key| editor.press(key));
        pressed.last().expect("a key")
    }

    fn line(editor: &mut Editor, bytes: &str) -> String {
        let KeyEffect::Line(line) = press(editor, &format!("{bytes}\r")) else { panic!("{bytes:?} is not a line") };
        editor.begin();
        line
    }

    #[test]
    fn a_line_is_edited_at_its_cursor() {
        let mut editor = Editor::new("> ");
        for (keys, wanted) in [
            ("h1 ping h2", "h1 ping h2"),
            ("h1 pnig h2\x1b[D\x1b[D\x1b[D\x1b[D\x1b[D\x7f\x1b[Cn", "h1 ping h2"),
            ("ping\x01h1 \x05 h2", "h1 ping h2"),
            ("abc\x02\x02\x04", "ac"),
            ("abc\x1b[H\x1b[3~", "bc"),
            ("one two  \x17x", "one x"),
            ("one two\x1bb\x0bx", "one x"),
            ("one two\x1bb\x15x", "xtwo"),
            ("one two\x01\x1bf,", "one, two"),
            ("é✓\x7fè", "éè"),
            ("\x7f\x1b[C\x1b[3~a", "a"),
        ] {
            assert_eq!(line(&mut editor, keys), wanted, "{keys:?}");
        }
    }

    #[test]
    fn earlier_lines_come_back_and_the_new_one_is_kept() {
        let mut editor = Editor::new("> ");
        for text in ["one", "two", "two", "  "] {
            line(&mut editor, text);
        }
        assert_eq!(line(&mut editor, "\x1b[A\x1b[A"), "one");
        assert_eq!(line(&mut editor, "ne\x1b[A\x1b[A\x1b[B\x1b[Bw"), "new");
        assert_eq!(line(&mut editor, "\x1b[A\x1b[A\x1b[A\x1b[A\x1b[A\x1b[A\x1b[A"), "one", "not before the first");
        assert_eq!(line(&mut editor, "x\x1b[B"), "x", "not after the last");
        assert_eq!(press(&mut editor, "x\x03"), KeyEffect::Interrupted);
        editor.begin();
        assert_eq!(line(&mut editor, "\x1b[A"), "x");
        for n in 0..2 * MAX_HISTORY_LINES {
            line(&mut editor, &n.to_string());
        }
        assert_eq!(editor.history.len(), MAX_HISTORY_LINES);
    }

    #[test]
    fn the_end_is_only_the_end_of_nothing() {
        let mut editor = Editor::new("> ");
        assert_eq!(press(&mut editor, "x\x04"), KeyEffect::Edited);
        assert_eq!(press(&mut editor, "\x7f\x04"), KeyEffect::End);
    }

    #[test]
    fn a_word_grows_by_what_its_completions_have_in_common() {
        let mut editor = Editor::new("> ");
        let words = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<_>>();
        press(&mut editor, "show li");
        assert!(!editor.complete(5, &words(&["links", "links-down"])));
        assert!(editor.complete(5, &words(&["links", "links-down"])), "nothing is in common beyond it");
        assert!(!editor.complete(5, &[]));
        assert_eq!(line(&mut editor, ""), "show links");
    }

    #[test]
    fn a_line_is_drawn_with_its_cursor_in_rows_of_the_terminals_width() {
        let mut editor = Editor::new("> ");
        press(&mut editor, "abc\x02");
        assert_eq!(editor.drawn(10), "> abc\r\x1b[4C");
        assert_eq!(editor.erased(), "\r\x1b[J");
        press(&mut editor, "\x05defgh");
        assert_eq!(editor.drawn(10), "> abcdefgh\r\n\r", "a full row, and the cursor below");
        assert_eq!(editor.erased(), "\x1b[1A\r\x1b[J");
        press(&mut editor, "ij\x01");
        assert_eq!(editor.drawn(10), "> abcdefghij\x1b[1A\r\x1b[2C");
        assert_eq!(editor.left(10), "\r\x1b[J> abcdefghij\r\x1b[2C\r\n");
        assert_eq!(place("123456789漢".chars(), 10), (1, 2));
        assert_eq!(place("12345678漢".chars(), 10), (1, 0));
    }
}
