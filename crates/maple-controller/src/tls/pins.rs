//! The lines that trust on first use adds to the file of switches.
//!
//! A shard never waits for a disk: a certificate that is trusted is bound in memory at once, and a thread adds its line
//! to the file. A write that the disk refuses is tried again. A part of a line that did not fit is cut off, because a
//! file with such a line is not read. A file that was deleted is written anew, so that no other certificate becomes the
//! first. To forget certificates, delete their lines from the file and let it be read again.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::kept_files::{KeptFile, KeptFiles};

/// The time between two checks that the file is there, and before a write that failed is tried again. Chosen: somebody
/// who deletes it is warned at once, and a check costs a look.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// The maximum number of lines that wait while the file can't be written. Chosen: more than new switches connect while
/// somebody mends the disk, and a bound on memory.
const MAX_WAITING: usize = 4096;

/// The file of switches, to which certificates are added.
#[derive(Debug)]
pub(super) struct Pins {
    path: PathBuf,
    state: Mutex<PinState>,
    changed: Condvar,
    files: OnceLock<KeptFiles>,
}

#[derive(Debug, Default)]
struct PinState {
    /// The text of the file, as it was read and added to.
    text: String,
    /// Lines that the file lacks.
    waiting: Vec<String>,
    /// The length of the file before a write that failed, in bytes.
    whole: Option<u64>,
    ending: bool,
}

/// The thread that writes. Dropping it ends it.
#[derive(Debug)]
pub(super) struct PinsWriter {
    pins: Arc<Pins>,
    thread: Option<JoinHandle<()>>,
}

impl Pins {
    pub fn new(path: &Path) -> Arc<Pins> {
        let (state, changed) = (Mutex::default(), Condvar::new());
        Arc::new(Pins { path: path.to_owned(), state, changed, files: OnceLock::new() })
    }

    /// Starts the thread that writes.
    pub fn start(self: &Arc<Pins>) -> io::Result<PinsWriter> {
        let pins = Arc::clone(self);
        let thread = std::thread::Builder::new().name("switches".into()).spawn(move || pins.run())?;
        Ok(PinsWriter { pins: Arc::clone(self), thread: Some(thread) })
    }

    /// Starts to report to `files` whether the file can be written.
    pub fn report_to(&self, files: &KeptFiles) {
        files.keep(KeptFile::Switches, &self.path);
        // There is one controller.
        let _ = self.files.set(files.clone());
    }

    /// Reads the file, and creates it if it is missing. Lines that are added later begin on a line of their own.
    /// Returns the text with all lines that wait.
    ///
    /// # Errors
    /// The system's error if the file can't be read or written.
    pub fn read(&self) -> io::Result<String> {
        let mut state = self.lock();
        let mut text = match std::fs::read_to_string(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            text => text?,
        };
        let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
        append_to(&self.path)?.write_all(end.as_bytes())?;
        text.push_str(end);
        state.text.clone_from(&text);
        Ok(text + &state.waiting.concat())
    }

    /// Adds a line, which is written soon.
    ///
    /// # Errors
    /// A text if too many lines wait.
    pub fn add(&self, line: String) -> Result<(), String> {
        let mut state = self.lock();
        if state.waiting.len() >= MAX_WAITING {
            return Err(format!("{MAX_WAITING} others wait until the file can be written"));
        }
        state.waiting.push(line);
        self.changed.notify_all();
        Ok(())
    }

    fn run(&self) {
        let mut has_failed = false;
        loop {
            let is_idle = |state: &mut PinState| !state.ending && (state.waiting.is_empty() || has_failed);
            let mut state = self.lock();
            self.changed.wait_while_for(&mut state, is_idle, CHECK_INTERVAL);
            let is_last = state.ending;
            drop(state);
            let done = self.write();
            has_failed = done.is_err();
            match (&done, self.files.get()) {
                (Ok(how), Some(files)) => files.mended(KeptFile::Switches, how),
                (Err(error), Some(files)) => files.fails(KeptFile::Switches, &self.path, error.to_string()),
                (Err(error), None) => tracing::error!("the file of switches {}: {error}", self.path.display()),
                (Ok(_), None) => {}
            }
            if is_last {
                return;
            }
        }
    }

    /// Writes the lines that wait, and the whole text if the file is missing. Returns further news for people.
    ///
    /// # Errors
    /// The system's error. The lines still wait then.
    pub fn write(&self) -> io::Result<&'static str> {
        let (lines, text, whole) = {
            let state = self.lock();
            (state.waiting.clone(), state.text.clone(), state.whole)
        };
        let added = lines.concat();
        let is_missing = !self.path.try_exists()?;
        match is_missing {
            true => self.write_anew(&(text + &added))?,
            false if lines.is_empty() && whole.is_none() => return Ok(""),
            false => self.append(&added, whole)?,
        }
        let mut state = self.lock();
        state.waiting.drain(..lines.len());
        state.text.push_str(&added);
        state.whole = None;
        if is_missing && let Some(files) = self.files.get() {
            drop(state);
            files.fails(KeptFile::Switches, &self.path, "it was deleted");
            return Ok("; it was made anew: to forget certificates, delete their lines and have it read again");
        }
        Ok("")
    }

    /// Appends to the file. After a write that failed, only its first `whole` bytes are kept.
    fn append(&self, text: &str, whole: Option<u64>) -> io::Result<()> {
        let mut file = append_to(&self.path)?;
        let length = file.metadata()?.len();
        // Somebody may have made it shorter meanwhile.
        let before = whole.map_or(length, |whole| whole.min(length));
        if before < length {
            file.set_len(before)?;
        }
        let done = file.write_all(text.as_bytes()).and_then(|()| file.sync_data());
        if done.is_err() {
            self.lock().whole = Some(before);
            // If this fails too, it is tried again.
            if let Err(error) = file.set_len(before) {
                tracing::debug!(path = %self.path.display(), %error, "can't cut off a part of a line");
            }
        }
        done
    }

    fn write_anew(&self, text: &str) -> io::Result<()> {
        let mut beside = self.path.as_os_str().to_owned();
        beside.push(format!(".{}.new", std::process::id()));
        let beside = PathBuf::from(beside);
        let written = File::create(&beside).and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.sync_data()
        });
        let placed = written.and_then(|()| std::fs::rename(&beside, &self.path));
        if placed.is_err()
            && let Err(error) = std::fs::remove_file(&beside)
        {
            tracing::debug!(path = %beside.display(), %error, "can't remove a part of a file");
        }
        placed
    }

    fn lock(&self) -> MutexGuard<'_, PinState> {
        self.state.lock()
    }
}

impl Drop for PinsWriter {
    /// Returns after a last attempt to write everything.
    fn drop(&mut self) {
        self.pins.lock().ending = true;
        self.pins.changed.notify_all();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that writes the file of switches panicked");
        }
    }
}

fn append_to(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}
