//! The lines that a user types at a terminal, or that come from a pipe.

use std::io::{self, BufRead as _, IsTerminal as _};
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};

use maple_emulator::commands::{CommandError, CommandRunner, Ground};

use super::IDLE;
use super::terminal::Terminal;
use crate::output::prompt;

/// The prompt for a command.
pub const PROMPT: &str = "maple> ";

/// The source of lines.
pub enum CommandLines {
    /// A terminal, with an editor.
    Edited(Box<Terminal>),
    /// Another source, such as a pipe, or a terminal that can't move its cursor.
    Plain {
        lines: Receiver<io::Result<String>>,
        /// Whether a prompt is printed.
        prompts: bool,
    },
}

/// The result of typing.
pub enum Line {
    Text(String),
    /// Ctrl-C: the line is discarded.
    Interrupted,
    End,
}

impl CommandLines {
    /// Opens standard input. `asks`: whether there is a controller to query.
    ///
    /// # Errors
    /// If the terminal can't be opened, or if the system refuses a thread.
    pub fn open(runner: &CommandRunner, asks: bool) -> anyhow::Result<CommandLines> {
        Ok(match Terminal::open(runner, asks)? {
            Some(terminal) => CommandLines::Edited(Box::new(terminal)),
            None => CommandLines::Plain { lines: plain()?, prompts: io::stdin().is_terminal() },
        })
    }

    /// Returns the next line that the user types. `None` at the end, or when the program is stopped.
    ///
    /// # Errors
    /// If standard input or the network fails.
    pub fn next(&mut self, ground: &mut impl Ground) -> anyhow::Result<Option<String>> {
        loop {
            let line = match self {
                CommandLines::Edited(terminal) => terminal.next(ground)?,
                CommandLines::Plain { lines, prompts } => {
                    if *prompts {
                        prompt(PROMPT)?;
                    }
                    next(lines, ground)?
                }
            };
            match line {
                Line::Text(text) => return Ok(Some(text)),
                Line::Interrupted => {}
                Line::End => return Ok(None),
            }
        }
    }
}

/// Returns the next line, while the network continues. A stop counts as the end.
fn next(lines: &Receiver<io::Result<String>>, ground: &mut impl Ground) -> anyhow::Result<Line> {
    loop {
        match lines.try_recv() {
            Ok(line) => return Ok(Line::Text(line?)),
            Err(TryRecvError::Disconnected) => return Ok(Line::End),
            Err(TryRecvError::Empty) => match ground.pass(IDLE.as_nanos() as u64) {
                Ok(()) => {}
                Err(CommandError::Stopped) => return Ok(Line::End),
                Err(error) => return Err(error.into()),
            },
        }
    }
}

/// Reads lines without an editor. The reading thread blocks in the kernel, and ends with the program.
fn plain() -> io::Result<Receiver<io::Result<String>>> {
    let (sender, lines) = sync_channel(16);
    std::thread::Builder::new().name("console".into()).spawn(move || {
        for line in io::stdin().lock().lines() {
            let is_last = line.is_err();
            if sender.send(line).is_err() || is_last {
                return;
            }
        }
    })?;
    Ok(lines)
}
