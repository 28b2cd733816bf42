//! Work that the program of a controller does for it: the command, a test, or a laboratory.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use maple_core::engine::Event;
use maple_core::state::Commit;

use super::{Handle, Stopped};
use crate::gauge::Gauge;
use crate::kept_files::KeptFiles;
use crate::log::LogEntry;
use crate::names::Names;
use crate::policy_record::PolicyRecord;
use crate::session::ClusterRole;
use crate::shard::mailbox::ShardMessage;
use crate::storage::record::Recording;

/// The operations of the program that runs a controller: its policy's versions and files, its place in a cluster, its
/// log and its successor. A program that uses a controller needs none of them.
#[derive(Clone, Copy, Debug)]
pub struct Operations<'a> {
    pub(super) handle: &'a Handle,
}

/// The reason why a controller does not take a role ([`Operations::set_role`]).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RoleError {
    /// The controller was not started as one of several.
    #[error("this controller is the only one, so it has no role")]
    Alone,
    /// The controller has stopped.
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

impl Handle {
    /// Returns what the program that runs the controller does for it.
    pub fn operations(&self) -> Operations<'_> {
        Operations { handle: self }
    }
}

impl<'a> Operations<'a> {
    /// Returns the record of the files that are kept, and of those that fail.
    pub fn files(&self) -> &'a KeptFiles {
        &self.handle.shared.kept.files
    }

    /// Returns the recording of this run, if there is one.
    pub fn recording(&self) -> Option<&'a Recording> {
        self.handle.shared.kept.recording.as_ref()
    }

    /// Records which policy runs: clients can ask for it, and the state file keeps it for the next start.
    pub fn set_policy(&self, policy: PolicyRecord) {
        if let Some(archive) = &self.handle.shared.kept.archive {
            archive.journal.note_policy(&policy);
        }
        self.handle.shared.about.set_policy(policy);
    }

    /// Returns the policy of the earlier run that the state file describes.
    pub fn policy_before(&self) -> Option<&'a PolicyRecord> {
        self.handle.shared.kept.policy_before.as_ref()
    }

    /// Tells a controller that is one of several ([`OpenFlowOptions::in_cluster`](crate::OpenFlowOptions::in_cluster))
    /// what it is. If it leads, it asks each switch to be its master, and decides for those that grant it. Otherwise it
    /// is a standby at once.
    ///
    /// # Errors
    /// [`RoleError`] if it is the only controller, or has stopped.
    pub fn set_role(&self, role: ClusterRole) -> Result<(), RoleError> {
        let known = self.handle.shared.succession.role.as_ref().ok_or(RoleError::Alone)?;
        // While this is locked, the shards get all roles in the same order.
        let mut known = known.lock();
        *known = (known.0 + 1, role);
        let number = known.0;
        // All get it, also if one has ended.
        let ended =
            self.handle.shared.mailboxes.iter().filter(|mailbox| !mailbox.send(ShardMessage::Role(number, role)));
        if ended.count() == 0 { Ok(()) } else { Err(self.handle.stopped().into()) }
    }

    /// Reports whether the controller runs: it has not failed, and was not stopped.
    pub fn is_running(&self) -> bool {
        self.handle.send_event(Event::Tick)
    }

    /// Reports whether a file keeps state over restarts.
    pub fn keeps_state(&self) -> bool {
        self.handle.shared.kept.pending_writes.is_some()
    }

    /// Replaces the names of switches and hosts.
    pub fn rename(&self, names: Names) {
        self.handle.shared.notices.rename(names);
    }

    /// Returns the lines of the log that are still kept, from this number on. Waits at most `timeout` for one.
    pub fn log_since(&self, number: u64, timeout: Duration) -> Vec<LogEntry> {
        self.handle.shared.notices.log().since(number, timeout)
    }

    /// Exports a gauge as a metric, if metrics are exported. It takes the place of one with the same name.
    pub fn register_gauge(&self, gauge: Gauge) {
        self.handle.shared.measures.gauges.add(gauge);
    }

    /// Returns the address where metrics are exported, if they are.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.handle.shared.endpoints.metrics.get().copied()
    }

    /// Returns the address of the HTTP API, if it is served.
    pub fn http_address(&self) -> Option<SocketAddr> {
        self.handle.shared.endpoints.http.get().map(|endpoint| endpoint.address)
    }

    /// Reports whether the HTTP API is served with TLS.
    pub fn http_has_tls(&self) -> bool {
        self.handle.shared.endpoints.http.get().is_some_and(|endpoint| endpoint.has_tls)
    }

    /// Sends the shards a commit to [`Handle::store`], without waiting.
    ///
    /// # Errors
    /// [`Stopped`] if a shard that the commit concerns has ended.
    pub fn committed(&self, commit: Commit) -> Result<(), Stopped> {
        if self.handle.distribute(commit) { Ok(()) } else { Err(self.handle.stopped()) }
    }

    /// Reports that a listener failed. The same error is reported the first, tenth, hundredth… time.
    pub fn listener_failed(&self, error: Arc<str>) {
        self.handle.shared.notices.listener_failed(error);
    }
}
