//! The place of the state file, and whether the file there is still the one that was opened.
//!
//! Others may delete it, put another file in its place, or write into it: a backup that is restored, a program that
//! tidies up. The system reports none of that. So [`StateFile::check`] tests three things: the file at the path is the
//! same one, it is not shorter than it was made, and it has what was written last. It compares the database's header,
//! which each commit changes, and the beginnings of some pages: somebody may write between two commits, and the next
//! commit writes the header again.

#![allow(clippy::result_large_err, reason = "redb's errors are large, and an error here is rare")]

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use redb::backends::{FileBackend, InMemoryBackend};
use redb::{Database, DatabaseError, StorageBackend};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

/// A function that makes the backend for an open file. Tests use one that fails.
pub(super) type MakeBackend = Arc<dyn Fn(File) -> Result<Box<dyn StorageBackend>, DatabaseError> + Send + Sync>;

/// The maximum number of files that are set aside. Chosen: names with one digit; more of them fill the disk, and
/// somebody should look.
const MAX_SET_ASIDE: usize = 9;
/// The maximum number of pages that are compared. Chosen: the pages that were written last say whose file it is, and
/// the comparison must not read the whole file.
const PAGES: usize = 64;
/// The number of bytes of each page that are compared. Chosen: the head of a page with its checksums; two files hardly
/// ever agree in it on all pages.
const PAGE_BYTES: usize = 32;

/// The place of the state file.
#[derive(Clone)]
pub(super) struct StateFile {
    path: PathBuf,
    make: MakeBackend,
    /// The file that was opened last.
    opened: Arc<Mutex<Option<Arc<OpenFileWatch>>>>,
}

/// The reason why the file at the path is not the one that was opened.
#[derive(Debug, thiserror::Error)]
pub(super) enum Estranged {
    #[error("it was deleted")]
    Deleted,
    #[error("another file is in its place")]
    Replaced,
    #[error("another program has written into it")]
    Overwritten,
    #[error("can't look at it: {0}")]
    Unknown(#[from] io::Error),
}

/// The identity and contents of an open file.
#[derive(Debug)]
struct OpenFileWatch {
    device: u64,
    inode: u64,
    contents: Mutex<OpenContents>,
}

#[derive(Debug, Default)]
struct OpenContents {
    length: u64,
    /// The header, if it was written.
    header: Option<Vec<u8>>,
    /// The offsets of other writes, and how their data begins. The newest is at the end.
    pages: VecDeque<(u64, Vec<u8>)>,
}

/// A backend that notes what [`StateFile::check`] compares.
#[derive(Debug)]
struct WatchedBackend {
    backend: Box<dyn StorageBackend>,
    watch: Arc<OpenFileWatch>,
}

impl StateFile {
    pub fn new(path: &Path) -> StateFile {
        StateFile::with(path, Arc::new(|file| Ok(Box::new(FileBackend::new(file)?))))
    }

    /// Creates a place whose databases use another backend.
    pub fn with(path: &Path, make: MakeBackend) -> StateFile {
        // A file that is made anew goes where the link leads.
        let real = std::fs::symlink_metadata(path).ok().filter(std::fs::Metadata::is_symlink);
        let path = real.and_then(|_| path.canonicalize().ok()).unwrap_or_else(|| path.to_owned());
        StateFile { path, make, opened: Arc::default() }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens the database at the path.
    pub fn open(&self) -> Result<Database, redb::Error> {
        let file = OpenOptions::new().read(true).write(true).open(&self.path)?;
        // An empty file is somebody else's, so no database is made of it.
        if file.metadata()?.len() == 0 {
            return Err(io::Error::from(io::ErrorKind::InvalidData).into());
        }
        self.database(file)
    }

    /// Creates a database in a new file, which is at another path until [`StateFile::put`] moves it here.
    pub fn create_aside(&self) -> Result<(Database, Unfinished), redb::Error> {
        let unfinished = Unfinished(self.beside(&format!(".{}.new", std::process::id())));
        unfinished.remove()?;
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(&unfinished.0)?;
        Ok((self.database(file)?, unfinished))
    }

    fn database(&self, file: File) -> Result<Database, redb::Error> {
        let found = file.metadata()?;
        let contents = OpenContents { length: found.len(), ..OpenContents::default() };
        let watch = Arc::new(OpenFileWatch { device: found.dev(), inode: found.ino(), contents: Mutex::new(contents) });
        let backend = WatchedBackend { backend: (self.make)(file)?, watch: Arc::clone(&watch) };
        let database = Database::builder().create_with_backend(backend)?;
        *self.opened.lock() = Some(watch);
        Ok(database)
    }

    /// Puts a finished file at the path, unless there is one.
    pub fn put_new(&self, unfinished: &Unfinished) -> io::Result<()> {
        // A link, unlike a rename, never replaces a file that another process has created meanwhile.
        match std::fs::hard_link(&unfinished.0, &self.path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        unfinished.remove()?;
        self.sync_folder()
    }

    /// Puts a finished file at the path. Returns the new path of the file that was there, if there was one.
    ///
    /// # Errors
    /// The system's error, also if the file there is not a regular one, or another process uses it.
    pub fn put(&self, unfinished: &Unfinished) -> io::Result<Option<PathBuf>> {
        let aside = self.set_aside()?;
        match aside {
            Some(_) => std::fs::rename(&unfinished.0, &self.path)?,
            // Another process may have made one meanwhile: a link does not replace it.
            None => std::fs::hard_link(&unfinished.0, &self.path)?,
        }
        self.sync_folder()?;
        Ok(aside)
    }

    /// Gives the file at the path a second name, unless another process uses it.
    fn set_aside(&self) -> io::Result<Option<PathBuf>> {
        let found = match std::fs::symlink_metadata(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            found => found?,
        };
        if !found.is_file() {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, "what is there now is not a file"));
        }
        if flock(&File::open(&self.path)?, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
            return Err(io::Error::new(io::ErrorKind::ResourceBusy, "another process uses the file that is there now"));
        }
        for number in 1..=MAX_SET_ASIDE {
            let number = if number == 1 { String::new() } else { format!("-{number}") };
            let aside = self.beside(&format!(".aside{number}"));
            match std::fs::hard_link(&self.path, &aside) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                linked => return linked.map(|()| Some(aside)),
            }
        }
        let why = format!("there is another file, and {MAX_SET_ASIDE} were set aside already: delete some");
        Err(io::Error::new(io::ErrorKind::AlreadyExists, why))
    }

    fn beside(&self, suffix: &str) -> PathBuf {
        let mut path = self.path.as_os_str().to_owned();
        path.push(suffix);
        path.into()
    }

    /// Makes the folder's entry durable.
    fn sync_folder(&self) -> io::Result<()> {
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(folder)?.sync_all()
    }

    /// Copies the file at the path into memory, for a file that can be read and not written.
    ///
    /// # Errors
    /// `DatabaseAlreadyOpen` if another process uses the file, else the system's error.
    pub fn copy(&self) -> Result<MemoryFile, redb::Error> {
        let file = File::open(&self.path)?;
        if flock(&file, FlockOperation::NonBlockingLockShared) == Err(Errno::WOULDBLOCK) {
            return Err(redb::Error::DatabaseAlreadyOpen);
        }
        let length = file.metadata()?.len();
        let mut bytes = vec![0; usize::try_from(length).map_err(io::Error::other)?];
        file.read_exact_at(&mut bytes, 0)?;
        let memory = InMemoryBackend::new();
        memory.set_len(length)?;
        memory.write(0, &bytes)?;
        Ok(MemoryFile(Arc::new(memory)))
    }

    /// Checks that the file at the path is the one that was opened last, as it was written.
    ///
    /// # Errors
    /// [`Estranged`], which says what has become of it.
    pub fn check(&self) -> Result<(), Estranged> {
        let file = match File::open(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(Estranged::Deleted),
            file => file?,
        };
        let opened = self.opened.lock().clone();
        let Some(watch) = opened else { return Ok(()) };
        let found = file.metadata()?;
        if (found.dev(), found.ino()) != (watch.device, watch.inode) {
            return Err(Estranged::Replaced);
        }
        // Nothing is written meanwhile.
        let contents = watch.contents();
        if file.metadata()?.len() < contents.length {
            return Err(Estranged::Overwritten);
        }
        let header = contents.header.iter().map(|header| (0, header));
        for (offset, expected) in header.chain(contents.pages.iter().map(|(offset, page)| (*offset, page))) {
            let mut found = vec![0; expected.len()];
            match file.read_exact_at(&mut found, offset) {
                Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => return Err(error.into()),
                Ok(()) if found == *expected => {}
                _ => return Err(Estranged::Overwritten),
            }
        }
        Ok(())
    }
}

/// A file that is not finished. Dropping this removes it from its temporary path.
pub(super) struct Unfinished(PathBuf);

impl Unfinished {
    fn remove(&self) -> io::Result<()> {
        match std::fs::remove_file(&self.0) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if let Err(error) = self.remove() {
            tracing::debug!(path = %self.0.display(), %error, "can't remove an unfinished state file");
        }
    }
}

impl OpenFileWatch {
    fn contents(&self) -> MutexGuard<'_, OpenContents> {
        self.contents.lock()
    }
}

impl StorageBackend for WatchedBackend {
    fn len(&self) -> io::Result<u64> {
        self.backend.len()
    }

    fn read(&self, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        self.backend.read(offset, length)
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        let mut contents = self.watch.contents();
        // If it fails, either length may be right.
        contents.length = contents.length.min(length);
        contents.pages.retain(|(offset, page)| offset + page.len() as u64 <= length);
        self.backend.set_len(length)?;
        contents.length = length;
        Ok(())
    }

    fn sync_data(&self, eventual: bool) -> io::Result<()> {
        self.backend.sync_data(eventual)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut contents = self.watch.contents();
        // If it fails, nobody knows what is there.
        if offset == 0 {
            contents.header = None;
        }
        let end = offset + data.len() as u64;
        contents.pages.retain(|(page, bytes)| page + bytes.len() as u64 <= offset || *page >= end);
        self.backend.write(offset, data)?;
        match offset {
            0 => contents.header = Some(data.to_vec()),
            _ => {
                if contents.pages.len() >= PAGES {
                    contents.pages.pop_front();
                }
                contents.pages.push_back((offset, data[..data.len().min(PAGE_BYTES)].to_vec()));
            }
        }
        Ok(())
    }
}

/// A copy of a file in memory. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct MemoryFile(Arc<InMemoryBackend>);

impl StorageBackend for MemoryFile {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn read(&self, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        self.0.read(offset, length)
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.0.set_len(length)
    }

    fn sync_data(&self, eventual: bool) -> io::Result<()> {
        self.0.sync_data(eventual)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write(offset, data)
    }
}
