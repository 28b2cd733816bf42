//! The terminal: its own screen while `maple top` runs, and as it was on every way out.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ratatui::crossterm::event::{self, Event, KeyEvent, KeyEventKind};
use ratatui::{DefaultTerminal, Frame};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

/// The maximum time of a wait for a key. Chosen: new figures are drawn, and signals seen, without noticeable delay.
const WAIT: Duration = Duration::from_millis(100);

/// An open screen. Dropping it restores the terminal, and so does a panic before its text is printed.
pub struct TopScreen {
    terminal: DefaultTerminal,
    /// The signal that asks the program to end; 0 if none has come.
    signal: Arc<AtomicUsize>,
}

/// The event that has come.
pub enum Happening {
    Key(KeyEvent),
    Resized,
    /// This signal asks the program to end.
    Signal(u8),
    Nothing,
}

impl TopScreen {
    /// Takes the terminal.
    ///
    /// # Errors
    /// The system's error if a signal can't be caught or the terminal can't be changed.
    pub fn open() -> io::Result<TopScreen> {
        let signal = Arc::<AtomicUsize>::default();
        for number in [SIGHUP, SIGINT, SIGTERM] {
            flag::register_usize(number, Arc::clone(&signal), number as usize)?;
        }
        match ratatui::try_init() {
            Ok(terminal) => Ok(TopScreen { terminal, signal }),
            Err(error) => {
                // A part of it may have been done.
                restore();
                Err(error)
            }
        }
    }

    /// Draws.
    ///
    /// # Errors
    /// The system's error if the terminal can't be written.
    pub fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        self.terminal.draw(draw)?;
        Ok(())
    }

    /// Waits a short time for what comes.
    ///
    /// # Errors
    /// The system's error if the terminal can't be read.
    pub fn wait(&self) -> io::Result<Happening> {
        let is_there = match event::poll(WAIT) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
            polled => polled.unwrap_or(false),
        };
        let signal = self.signal.load(Ordering::Relaxed);
        if signal != 0 {
            return Ok(Happening::Signal(signal as u8));
        }
        if !is_there {
            return Ok(Happening::Nothing);
        }
        Ok(match event::read()? {
            Event::Key(key) if key.kind != KeyEventKind::Release => Happening::Key(key),
            Event::Resize(..) => Happening::Resized,
            _ => Happening::Nothing,
        })
    }
}

impl Drop for TopScreen {
    fn drop(&mut self) {
        restore();
    }
}

/// Restores the terminal. It may be gone: then there is nobody to report to.
fn restore() {
    if let Err(error) = ratatui::try_restore() {
        tracing::debug!(%error, "the terminal can't be restored");
    }
}
