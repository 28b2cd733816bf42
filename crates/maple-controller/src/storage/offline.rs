//! A network as a state file remembers it, for plans without a controller ([`RememberedNetwork::read`]).

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use maple_core::engine::{Options, Rehearsal};
use maple_core::memory::{Surroundings, Witness};
use maple_core::policy::Policy;
use maple_core::state::Store;
use maple_wire::{Dpid, Version};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::random::random;
use crate::storage::known_switches::Departed;
use crate::storage::persistence::{PersistenceError, read_copy};

/// The surroundings of a network, and the packets that it had decided about.
#[derive(Debug)]
pub struct RememberedNetwork {
    surroundings: Surroundings,
    witnesses: BTreeMap<Dpid, Vec<Witness>>,
}

/// A copy of a file, deleted with it.
struct FileCopy(PathBuf);

impl Drop for FileCopy {
    fn drop(&mut self) {
        // It may never have been made.
        let _ = std::fs::remove_file(&self.0);
    }
}

impl RememberedNetwork {
    /// Reads a state file, which stays as it is. The tables and variables in it go into the store, in which the policy
    /// has declared them.
    ///
    /// # Errors
    /// [`PersistenceError`] if the file can't be read, does not fit the declared types, or is used by a controller.
    pub fn read(path: &Path, store: &Store) -> Result<RememberedNetwork, PersistenceError> {
        let failed = |error| PersistenceError::Read { path: path.to_owned(), error };
        let file = File::open(path).map_err(failed)?;
        // A controller holds this lock on its file.
        match flock(&file, FlockOperation::NonBlockingLockShared) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Err(PersistenceError::InUse(path.to_owned())),
            Err(error) => return Err(failed(error.into())),
        }
        // Opening the file itself might change it.
        let number = u64::from_ne_bytes(random().map_err(failed)?);
        let copy = FileCopy(std::env::temp_dir().join(format!("maple-state-{number:016x}")));
        let mut to = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&copy.0).map_err(failed)?;
        std::io::copy(&mut &file, &mut to).map_err(failed)?;
        let switches = read_copy(&copy.0, path, store)?;
        let mut network = RememberedNetwork { surroundings: Surroundings::default(), witnesses: BTreeMap::new() };
        for (dpid, Departed { leaves, surroundings, .. }) in switches {
            network.surroundings.extend(&surroundings);
            network.witnesses.insert(dpid, leaves);
        }
        Ok(network)
    }

    /// Returns the number of packets that it had decided about.
    pub fn packets(&self) -> usize {
        self.witnesses.values().map(Vec::len).sum()
    }

    /// Returns the switches, with the OpenFlow versions of their sessions; 1.3 if that is not known.
    pub fn versions(&self) -> BTreeMap<Dpid, Version> {
        let known = self.surroundings.models.iter().map(|(dpid, model)| (*dpid, model.version));
        let all = self.witnesses.keys().map(|dpid| (*dpid, Version::Of13));
        all.chain(known).collect()
    }

    /// Creates a rehearsal of the network under this policy, which decides all these packets again.
    pub fn under(self, policy: Arc<dyn Policy>, store: Arc<Store>, options: Options) -> Rehearsal {
        Rehearsal::of_remembered(policy, store, options, self.surroundings, self.witnesses)
    }
}
