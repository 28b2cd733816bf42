//! A console at a terminal: lines can be edited, earlier ones can be recalled, and Tab completes words.

use std::collections::VecDeque;
use std::io::{self, IsTerminal as _};

use maple_emulator::commands::{CommandError, CommandRunner, Ground};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::IDLE;
use super::complete::complete;
use super::editor::{Editor, KeyEffect};
use super::keys::{Key, Keys};
use super::lines::{Line, PROMPT};
use super::screen::Screen;
use crate::output::is_watched;
use crate::signal::Interrupts;

/// An open console. Dropping it restores the terminal.
pub struct Terminal {
    runner: CommandRunner,
    /// Whether there is a controller to query.
    asks: bool,
    keys: Keys,
    /// Typed bytes that were not handled yet.
    typed: VecDeque<u8>,
    screen: Screen,
    _interrupts: Interrupts,
}

impl Terminal {
    /// Opens the console of this process. `None` if it has no terminal, or one that can't move its cursor. `asks`:
    /// whether there is a controller to query.
    ///
    /// # Errors
    /// If the terminal can't be redirected.
    pub fn open(runner: &CommandRunner, asks: bool) -> io::Result<Option<Terminal>> {
        let can_move = std::env::var_os("TERM").is_some_and(|term| term != "dumb");
        if !can_move || !io::stdin().is_terminal() || !is_watched() {
            return Ok(None);
        }
        let screen = Screen::open(Editor::new(PROMPT))?;
        let (keys, typed) = (Keys::default(), VecDeque::new());
        Ok(Some(Terminal { runner: runner.clone(), asks, keys, typed, screen, _interrupts: Interrupts::new() }))
    }

    /// Returns the next line, while the network continues. A stop counts as the end.
    ///
    /// # Errors
    /// If the terminal or the network fails.
    pub fn next(&mut self, ground: &mut impl Ground) -> anyhow::Result<Line> {
        self.screen.begin_editing()?;
        loop {
            let key = match ground.pass(0) {
                Ok(()) => self.next_key(),
                Err(CommandError::Interrupted) => Some(Key::Interrupt),
                Err(CommandError::Stopped) => return Ok(Line::End),
                Err(error) => return Err(error.into()),
            };
            match key.map(|key| self.press(key)).transpose()? {
                Some(KeyEffect::Line(line)) => return Ok(Line::Text(line)),
                Some(KeyEffect::Interrupted) => return Ok(Line::Interrupted),
                Some(KeyEffect::End) => return Ok(Line::End),
                Some(KeyEffect::Edited | KeyEffect::Completes | KeyEffect::Cleared) => {}
                None if self.read()? => {}
                None => return Ok(Line::End),
            }
        }
    }

    fn press(&self, key: Key) -> io::Result<KeyEffect> {
        self.screen.press(key, |before| complete(&self.runner, self.asks, before))
    }

    /// Returns the next key among the typed bytes.
    fn next_key(&mut self) -> Option<Key> {
        while let Some(byte) = self.typed.pop_front() {
            if let Some(key) = self.keys.take_in(byte) {
                return Some(key);
            }
        }
        None
    }

    /// Waits briefly for typed bytes. Reports whether the terminal still exists.
    fn read(&mut self) -> io::Result<bool> {
        let stdin = io::stdin();
        let mut ends = [PollFd::new(&stdin, PollFlags::IN)];
        let time = Timespec { tv_sec: 0, tv_nsec: IDLE.as_nanos() as i64 };
        match poll(&mut ends, Some(&time)) {
            Ok(0) | Err(Errno::INTR) => return Ok(true),
            done => done?,
        };
        let mut bytes = [0; 1024];
        match rustix::io::read(&stdin, &mut bytes) {
            // A terminal whose other end is closed ends in this way.
            Ok(0) | Err(Errno::IO) => Ok(false),
            Ok(count) => {
                self.typed.extend(&bytes[..count]);
                Ok(true)
            }
            Err(Errno::INTR) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }
}
