//! A terminal at which a line is edited while the program prints: printed text appears above the line, which stays.
//!
//! Standard output and standard error are a pipe while it is open, so all output is caught, including what a policy in
//! Python prints. A thread copies the pipe to the terminal. Every writer to the terminal holds the lock, so the line on
//! it is always the one that was drawn last. Marks in the pipe show that all output before them is on the terminal.

use std::fs::File;
use std::io::{self, IsTerminal as _, PipeReader, PipeWriter, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};
use rustix::stdio::{dup2_stderr, dup2_stdout};
use rustix::termios::{
    InputModes, LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetwinsize, tcsetattr,
};

use super::editor::{Editor, KeyEffect};
use super::keys::Key;

/// The byte that marks the end of the output up to a moment. Text never contains it.
const MARK: u8 = 0;
/// The maximum number of completions that are listed. Chosen: they fit a screen; the number of the others follows.
const MAX_LISTED: usize = 100;
/// The maximum length of a line that is printed whole while another is edited, in bytes. Chosen: it bounds memory, and
/// lines of the log are far shorter.
const MAX_HELD_LINE: usize = 1 << 16;
/// The maximum time that the prompt waits for earlier output. Chosen: output through a pipe of the same process takes
/// far less; a terminal that hangs must not hold the prompt for ever.
const SETTLE: Duration = Duration::from_secs(1);
/// Clears the screen and moves the cursor to its upper left corner (ECMA-48, ED and CUP).
const CLEARED: &str = "\x1b[2J\x1b[H";
/// The number of columns of a terminal that does not report it: those of a VT100.
const COLUMNS: u16 = 80;

/// An open terminal. Dropping it restores the terminal and the program's output.
pub struct Screen {
    shared: Arc<Shared>,
    pipe: PipeWriter,
    thread: Option<JoinHandle<()>>,
    output: OwnedFd,
    /// The original standard error, if it was a terminal.
    errors: Option<OwnedFd>,
    modes: Termios,
}

struct Shared {
    state: Mutex<ScreenState>,
    passed: Condvar,
}

struct ScreenState {
    terminal: File,
    editor: Editor,
    is_edited: bool,
    /// The beginning of a line that is printed while another one is edited.
    begun: Vec<u8>,
    /// Whether the terminal's cursor is in the middle of a printed line.
    is_begun: bool,
    marks: u64,
    is_over: bool,
}

impl Screen {
    /// Redirects the program's output to the terminal that standard output is.
    ///
    /// # Errors
    /// If the terminal or the pipe refuses.
    pub fn open(editor: Editor) -> io::Result<Screen> {
        io::stdout().flush()?;
        let (modes, terminal) = (tcgetattr(io::stdin())?, File::from(io::stdout().as_fd().try_clone_to_owned()?));
        let (reader, pipe) = io::pipe()?;
        let output = terminal.as_fd().try_clone_to_owned()?;
        let errors = io::stderr().is_terminal().then(|| io::stderr().as_fd().try_clone_to_owned()).transpose()?;
        let (begun, is_edited, is_begun, is_over) = (Vec::new(), false, false, false);
        let state = ScreenState { terminal, editor, is_edited, begun, is_begun, marks: 0, is_over };
        let shared = Arc::new(Shared { state: Mutex::new(state), passed: Condvar::new() });
        let of_thread = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("console".into()).spawn(move || pump(reader, &of_thread))?;
        dup2_stdout(&pipe)?;
        let screen = Screen { shared, pipe, thread: Some(thread), output, errors, modes };
        if screen.errors.is_some() {
            dup2_stderr(&screen.pipe)?;
        }
        Ok(screen)
    }

    /// Starts editing a line, below all earlier output.
    ///
    /// # Errors
    /// If the terminal refuses.
    pub fn begin_editing(&self) -> io::Result<()> {
        self.settle()?;
        let mut state = self.shared.lock();
        tcsetattr(io::stdin(), OptionalActions::Drain, &raw(&self.modes))?;
        let start = if std::mem::take(&mut state.is_begun) { "\r\n" } else { "" };
        state.editor.begin();
        state.is_edited = true;
        state.draw(start.into())
    }

    /// Handles a key. `complete` returns the possible completions of the text before the cursor, as in `complete.rs`.
    /// Returns the typed line when it is complete.
    ///
    /// # Errors
    /// If the terminal refuses.
    pub fn press(&self, key: Key, complete: impl Fn(&str) -> (usize, Vec<String>)) -> io::Result<KeyEffect> {
        let mut state = self.shared.lock();
        match state.editor.press(key) {
            KeyEffect::Completes => {
                let before = state.editor.before_cursor();
                let (start, words) = complete(&before);
                let is_known = state.editor.complete(start, &words);
                let erased = state.editor.erased();
                let shown = if is_known && words.len() > 1 { join_words(&words) } else { String::new() };
                state.draw(erased + &shown)?;
                Ok(KeyEffect::Edited)
            }
            KeyEffect::Edited => {
                let erased = state.editor.erased();
                state.draw(erased)?;
                Ok(KeyEffect::Edited)
            }
            KeyEffect::Cleared => {
                state.editor.erased();
                state.draw(CLEARED.into())?;
                Ok(KeyEffect::Edited)
            }
            done => {
                self.end_editing(&mut state)?;
                Ok(done)
            }
        }
    }

    /// Ends editing a line.
    fn end_editing(&self, state: &mut ScreenState) -> io::Result<()> {
        state.is_edited = false;
        let columns = state.columns();
        let end = state.editor.left(columns);
        tcsetattr(io::stdin(), OptionalActions::Drain, &self.modes)?;
        let begun = std::mem::take(&mut state.begun);
        state.terminal.write_all(end.as_bytes())?;
        state.print(&begun)
    }

    /// Waits until all earlier output is on the terminal.
    fn settle(&self) -> io::Result<()> {
        let before = self.shared.lock().marks;
        io::stdout().flush()?;
        (&self.pipe).write_all(&[MARK])?;
        self.shared.passed.wait_while_for(&mut self.shared.lock(), |state| state.marks == before, SETTLE);
        Ok(())
    }

    fn close(&self) -> io::Result<()> {
        let mut state = self.shared.lock();
        state.is_over = true;
        let restored = if state.is_edited { self.end_editing(&mut state) } else { Ok(()) };
        drop(state);
        let flushed = io::stdout().flush();
        dup2_stdout(&self.output)?;
        if let Some(errors) = &self.errors {
            dup2_stderr(errors)?;
        }
        (&self.pipe).write_all(&[MARK])?;
        restored.and(flushed)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        if let Err(error) = self.close() {
            tracing::debug!(%error, "the terminal is gone");
        }
        if let Some(Err(_)) = self.thread.take().map(JoinHandle::join) {
            tracing::error!("the thread that prints at the console panicked");
        }
    }
}

/// Lists words in a line, the first ones if there are many.
fn join_words(words: &[String]) -> String {
    let more = match words.len().saturating_sub(MAX_LISTED) {
        0 => String::new(),
        more => format!("  and {more} more"),
    };
    format!("{}{more}\n", words[..words.len().min(MAX_LISTED)].join("  "))
}

/// Returns modes in which keys arrive one at a time, are not echoed, and raise no signals. Output modes stay the same.
fn raw(modes: &Termios) -> Termios {
    let mut raw = modes.clone();
    raw.input_modes &=
        !(InputModes::BRKINT | InputModes::ICRNL | InputModes::INPCK | InputModes::ISTRIP | InputModes::IXON);
    raw.local_modes &= !(LocalModes::ECHO | LocalModes::ICANON | LocalModes::IEXTEN | LocalModes::ISIG);
    raw.special_codes[SpecialCodeIndex::VMIN] = 1;
    raw.special_codes[SpecialCodeIndex::VTIME] = 0;
    raw
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, ScreenState> {
        self.state.lock()
    }
}

impl ScreenState {
    fn columns(&self) -> usize {
        let columns = tcgetwinsize(&self.terminal).map_or(0, |size| size.ws_col);
        usize::from(if columns == 0 { COLUMNS } else { columns })
    }

    /// Writes a text, and the line after it.
    fn draw(&mut self, mut text: String) -> io::Result<()> {
        text += &self.editor.drawn(self.columns());
        self.terminal.write_all(text.as_bytes())
    }

    /// Prints output of the program.
    fn print(&mut self, text: &[u8]) -> io::Result<()> {
        if !self.is_edited {
            self.is_begun = text.last().map_or(self.is_begun, |last| *last != b'\n');
            return self.terminal.write_all(text);
        }
        self.begun.extend_from_slice(text);
        if self.begun.len() > MAX_HELD_LINE {
            self.begun.push(b'\n');
        }
        let Some(end) = self.begun.iter().rposition(|byte| *byte == b'\n') else { return Ok(()) };
        let rest = self.begun.split_off(end + 1);
        let lines = std::mem::replace(&mut self.begun, rest);
        let erased = self.editor.erased();
        self.terminal.write_all(&[erased.as_bytes(), &lines].concat())?;
        self.draw(String::new())
    }
}

/// Copies the pipe to the terminal, up to the last mark.
fn pump(mut pipe: PipeReader, shared: &Shared) {
    let mut bytes = [0; 4096];
    loop {
        let count = match pipe.read(&mut bytes) {
            Ok(0) => return,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => return,
        };
        for part in bytes[..count].split_inclusive(|byte| *byte == MARK) {
            let text = part.strip_suffix(&[MARK]).unwrap_or(part);
            let mut state = shared.lock();
            // A failure means that the terminal was closed, and there is nobody to report it to.
            let _ = state.print(text);
            if text.len() < part.len() {
                state.marks += 1;
                shared.passed.notify_all();
                if state.is_over {
                    return;
                }
            }
        }
    }
}
