//! Standard output and standard error, and the exit status: the one door for all that the command prints.
//!
//! Who chose a text does not matter here: a switch its description, a client a key, a file its name. Whatever could
//! control a terminal, or reverse the direction of what is read, leaves escaped ([`printable_lines`]). So no caller has
//! to remember it. JSON has such characters as JSON escapes them ([`json_line`], [`json_text`]), and programs read what
//! was there.
//!
//! Colours and the clearing of the screen are this module's own ([`Painted`], [`redraw`]). What draws on a terminal of
//! its own, as the console and `maple top` do, is not printed here.

use std::fmt;
use std::io::{self, ErrorKind, IsTerminal as _, Write};
use std::sync::OnceLock;

use maple_controller::log::{is_printable, printable_lines};
use serde_json::Value;

use crate::usage_error::UsageError;

/// Whether the compiler optimised this build. Optimised profiles leave out everything that only debugging needs.
pub const IS_OPTIMISED: bool = !cfg!(debug_assertions);

/// Clears the screen and moves the cursor to its upper left corner (ECMA-48, ED and CUP).
const CLEAR_SCREEN: &str = "\x1b[2J\x1b[H";
/// Clears the line of the cursor, from its beginning (ECMA-48, EL).
const CLEAR_LINE: &str = "\r\x1b[K";

/// The reason why a line could not be printed, the first time.
static FAILED: OnceLock<String> = OnceLock::new();

/// Prints a line on standard output. If a reader such as `head` has closed it, nothing happens; any other failure makes
/// the command fail ([`exit_status`]).
pub fn print_line(line: impl fmt::Display) {
    if let Err(error) = try_to_print_line(line) {
        FAILED.get_or_init(|| error.to_string());
    }
}

/// Prints a line on standard output. If a reader such as `head` has closed it, nothing happens.
///
/// # Errors
/// If standard output can't be written for another reason.
pub fn try_to_print_line(line: impl fmt::Display) -> io::Result<()> {
    match print_text(&format!("{line}\n")) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        done => done,
    }
}

/// Prints a text, with the ends of its lines, on standard output.
///
/// # Errors
/// If standard output can't be written.
pub fn print_text(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(printable_lines(text).as_bytes())?;
    out.flush()
}

/// Prints a text of Maple's own on standard output, as it is.
///
/// # Errors
/// If standard output can't be written.
pub fn print_own(text: &[u8]) -> io::Result<()> {
    io::stdout().write_all(text)
}

/// Prints a text in colours on standard output.
///
/// # Errors
/// If standard output can't be written.
pub fn print_painted(text: &Painted) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_str().as_bytes())?;
    out.flush()
}

/// Prints a text at the upper left corner of a terminal that is cleared before.
///
/// # Errors
/// If standard output can't be written.
pub fn redraw(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    write!(out, "{CLEAR_SCREEN}{}", printable_lines(text))?;
    out.flush()
}

/// Prints the beginning of a line that the user goes on with.
///
/// # Errors
/// If standard output can't be written.
pub fn prompt(text: &str) -> io::Result<()> {
    print_text(text)
}

/// Prints a line on standard error. No error is reported if nobody reads it.
pub fn print_error_line(line: impl fmt::Display) {
    let _ = try_to_print_error_line(line);
}

/// Prints a line on standard error.
///
/// # Errors
/// If standard error can't be written.
pub fn try_to_print_error_line(line: impl fmt::Display) -> io::Result<()> {
    io::stderr().lock().write_all(format!("{}\n", printable_lines(&line.to_string())).as_bytes())
}

/// Shows how far something is in the last line of standard error, in place of what this showed before. Without a text
/// the line is empty again.
pub fn show_progress(text: Option<&str>) {
    // It is only for those who look.
    let _ = match text {
        Some(text) => write!(io::stderr(), "\r{}", printable_lines(text)),
        None => write!(io::stderr(), "{CLEAR_LINE}"),
    };
}

/// Prints help, the version, or an error of the command line. Returns the exit status.
pub fn print_usage(error: &clap::Error) -> u8 {
    // If printing fails, the terminal is closed and needs no text.
    let _ = error.print();
    error.exit_code() as u8
}

/// Prints the error of a command, if it failed. Returns the exit status.
pub fn exit_status(result: anyhow::Result<u8>) -> u8 {
    match result {
        Ok(status) => FAILED.get().map_or(status, |why| {
            print_error_line(format_args!("maple: can't write to standard output: {why}"));
            1
        }),
        Err(error) if is_closed_pipe(&error) => 0,
        Err(error) => {
            print_error_line(format_args!("maple: {error:#}"));
            if error.is::<UsageError>() { 2 } else { 1 }
        }
    }
}

/// Reports whether writing failed because a reader such as `head` has closed the pipe.
fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == ErrorKind::BrokenPipe)
}

/// Reports whether somebody looks at standard output.
pub fn is_watched() -> bool {
    io::stdout().is_terminal()
}

/// Reports whether somebody looks at standard error.
pub fn are_errors_watched() -> bool {
    io::stderr().is_terminal()
}

/// Encodes a value as JSON in a line, without its end.
pub fn json_line(value: &Value) -> String {
    escape_json(&value.to_string())
}

/// Encodes a value as JSON for people, without the end of its last line.
pub fn json_text(value: &Value) -> String {
    escape_json(&format!("{value:#}"))
}

/// Escapes in JSON what could control a terminal. Such characters stand in texts only, but for ends of lines.
pub fn escape_json(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        if c == '\n' || is_printable(c) {
            text.push(c);
        } else {
            text.extend(c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")));
        }
    }
    text
}

/// A writer of text on standard output or standard error. Each line is written when it is whole, and the last one by
/// [`Write::flush`].
pub struct PrintableLines<W> {
    out: W,
    begun: Vec<u8>,
}

/// Returns a writer of text on standard output.
pub fn text_out() -> PrintableLines<io::StdoutLock<'static>> {
    PrintableLines { out: io::stdout().lock(), begun: Vec::new() }
}

/// Returns a writer of text on standard error.
pub fn text_notes() -> PrintableLines<io::StderrLock<'static>> {
    PrintableLines { out: io::stderr().lock(), begun: Vec::new() }
}

impl<W: Write> Write for PrintableLines<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.begun.extend_from_slice(bytes);
        if let Some(end) = self.begun.iter().rposition(|byte| *byte == b'\n') {
            let whole: Vec<u8> = self.begun.drain(..=end).collect();
            self.out.write_all(printable_lines(&String::from_utf8_lossy(&whole)).as_bytes())?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let rest = std::mem::take(&mut self.begun);
        self.out.write_all(printable_lines(&String::from_utf8_lossy(&rest)).as_bytes())?;
        self.out.flush()
    }
}

/// A colour of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    Red,
    Green,
    Yellow,
    Cyan,
}

/// Text in colours, if somebody looks at it and wants them (`NO_COLOR`). What is added has no other control characters
/// than ends of lines.
#[derive(Debug, PartialEq, Eq)]
pub struct Painted {
    text: String,
    has_colours: bool,
}

impl Painted {
    /// Creates an empty text, with or without colours.
    pub fn new(has_colours: bool) -> Painted {
        Painted { text: String::new(), has_colours }
    }

    /// Creates an empty text for who looks at standard output.
    pub fn for_terminal() -> Painted {
        Painted::new(is_watched() && std::env::var_os("NO_COLOR").is_none())
    }

    /// Adds text without a colour.
    pub fn push(&mut self, text: &str) {
        self.text.push_str(&printable_lines(text));
    }

    /// Adds text in a colour.
    pub fn push_in(&mut self, colour: Colour, text: &str) {
        let code = match colour {
            Colour::Red => 31,
            Colour::Green => 32,
            Colour::Yellow => 33,
            Colour::Cyan => 36,
        };
        let text = printable_lines(text);
        self.text += &if self.has_colours { format!("\x1b[{code}m{text}\x1b[0m") } else { text };
    }

    /// Returns the text as a terminal gets it.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A text that a peer may choose: an escape sequence, a line of its own, C1, text from right to left, no width.
    const HOSTILE: &str = "s1\u{1b}[2J\r\u{9b}31m\u{202e}txt\u{200b}\u{7f}";

    #[test]
    fn text_from_peers_cannot_control_the_terminal() {
        let shown = "s1\\u{1b}[2J\\r\\u{9b}31m\\u{202e}txt\\u{200b}\\u{7f}";
        let mut painted = Painted::new(true);
        painted.push(HOSTILE);
        painted.push_in(Colour::Red, HOSTILE);
        assert_eq!(painted.as_str(), format!("{shown}\x1b[31m{shown}\x1b[0m"));
        let mut lines = PrintableLines { out: Vec::new(), begun: Vec::new() };
        // Characters may come in parts.
        for byte in format!("{HOSTILE}\n{HOSTILE}").bytes() {
            assert_eq!(lines.write(&[byte]).expect("memory takes it"), 1);
        }
        assert_eq!(String::from_utf8_lossy(&lines.out), format!("{shown}\n"));
        lines.flush().expect("memory takes it");
        assert_eq!(String::from_utf8_lossy(&lines.out), format!("{shown}\n{shown}"));
    }

    #[test]
    fn json_keeps_what_was_there_in_printable_characters() {
        // All characters of the first plane, and the last one.
        let all: String = ('\0'..='\u{ffff}').chain(['\u{1f600}', char::MAX]).collect();
        let value = json!({ all.clone(): [all, HOSTILE] });
        for encoded in [json_line(&value), json_text(&value)] {
            let controls = encoded.chars().filter(|c| !is_printable(*c) && *c != '\n').count();
            assert_eq!(controls, 0);
            assert_eq!(serde_json::from_str::<Value>(&encoded).expect("it is JSON"), value);
            assert!(printable_lines(&encoded) == encoded, "the door changes nothing of it");
        }
        assert!(!json_line(&value).contains('\n'));
    }
}
