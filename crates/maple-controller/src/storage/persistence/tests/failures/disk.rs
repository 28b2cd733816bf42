//! A disk that fails as a test wants.

use std::io;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex, MutexGuard};
use redb::StorageBackend;
use redb::backends::FileBackend;

/// A disk whose failures the tests control.
#[derive(Debug, Default)]
pub(super) struct Disk {
    state: Mutex<DiskState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
pub(super) struct DiskState {
    /// The number of accesses that write after which all fail.
    pub good: Option<u64>,
    /// The number of accesses that write after which one fails.
    pub bad: Option<u64>,
    pub kind: Option<io::ErrorKind>,
    /// Whether accesses that write wait.
    pub is_stuck: bool,
    /// Whether one of them has begun to wait.
    pub waits: bool,
}

/// A file on the disk.
#[derive(Debug)]
pub(super) struct OnDisk {
    pub file: FileBackend,
    pub disk: Arc<Disk>,
}

impl Disk {
    pub fn lock(&self) -> MutexGuard<'_, DiskState> {
        self.state.lock()
    }

    pub fn set(&self, change: impl FnOnce(&mut DiskState)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }

    pub fn fails(&self, kind: io::ErrorKind) {
        self.set(|state| (state.good, state.kind) = (Some(0), Some(kind)));
    }

    pub fn heals(&self) {
        self.set(|state| *state = DiskState::default());
    }

    /// Waits while the disk is stuck. Then returns whether an access that writes is successful.
    fn access(&self) -> io::Result<()> {
        let mut state = self.lock();
        while state.is_stuck {
            state.waits = true;
            self.changed.wait(&mut state);
        }
        let kind = state.kind.unwrap_or(io::ErrorKind::StorageFull);
        let is_bad = match &mut state.bad {
            Some(0) => state.bad.take().is_some(),
            Some(left) => {
                *left -= 1;
                false
            }
            None => false,
        };
        match &mut state.good {
            Some(0) => Err(kind.into()),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None if is_bad => Err(kind.into()),
            None => Ok(()),
        }
    }
}

impl StorageBackend for OnDisk {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read(&self, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        self.file.read(offset, length)
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.disk.access()?;
        self.file.set_len(length)
    }

    fn sync_data(&self, eventual: bool) -> io::Result<()> {
        self.disk.access()?;
        self.file.sync_data(eventual)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        if let Err(error) = self.disk.access() {
            // A part of it is written.
            self.file.write(offset, &data[..data.len() / 2])?;
            return Err(error);
        }
        self.file.write(offset, data)
    }
}
