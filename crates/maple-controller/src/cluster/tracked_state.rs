//! The tracked state of a controller in a cluster: the store, as the copy of it in etcd wants it.
//!
//! The thread of the cluster calls this. The store's gate is open only at a master that has all that was written
//! before, and while etcd takes what it writes.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use maple_cluster::{ChangedRows, CommitRows, Gate, MemberHandle, StateNews, StateOwner, StreamCopy};
use maple_core::state::{Snapshot, Write, Writer, Written};
use parking_lot::Mutex;

use super::peers::Peers;
use crate::control::Handle;
use crate::control::membership::ClusterStatus;
use crate::notice::{ClusterNews, Notice};
use crate::storage::Adopted;
use crate::storage::cluster_writes::{ClusterWrites, all_rows, difference, write_of};

/// The state of a controller, for the task that follows etcd.
pub(super) struct TrackedState {
    pub controller: Handle,
    pub writes: Arc<ClusterWrites>,
    pub status: Arc<Mutex<ClusterStatus>>,
    /// The member, once it runs.
    pub member: Arc<OnceLock<MemberHandle>>,
    /// The copy of what the master has decided, if there is to be one.
    pub peers: Option<Arc<Peers>>,
    /// The latest generation in which this controller has led.
    pub led: Option<u64>,
}

impl TrackedState {
    /// Has the store follow what is in etcd.
    fn follow(&self, decide: impl FnOnce(&Snapshot) -> Result<Vec<Write>, String>) -> Result<(), String> {
        let written = Written { by: Writer::Cluster, at: SystemTime::now() };
        let mut outcome = Ok(());
        let commit = self.controller.store().follow(written, |state| {
            decide(state).unwrap_or_else(|why| {
                outcome = Err(why);
                Vec::new()
            })
        });
        // A controller that has ended needs to know nothing.
        drop(self.controller.operations().committed(commit));
        outcome
    }

    fn report(&self, news: ClusterNews) {
        self.controller.shared().notices.publish(Notice::Cluster(news));
    }

    fn on_ready(&mut self, generation: u64) {
        // Another one may be master by now.
        if self.status.lock().elected != Some(generation) {
            return;
        }
        let copy = self.peers.as_ref().and_then(|peers| peers.take_copy(self.led));
        if let Some(copy) = copy {
            self.adopt(copy);
        }
        self.led = Some(generation);
        let mut status = self.status.lock();
        status.role.own_generation = Some(generation);
        let role = status.role;
        drop(status);
        self.report(ClusterNews::Leads(generation));
        // A controller that has ended needs no role.
        drop(self.controller.operations().set_role(role));
        self.peers.iter().for_each(|peers| peers.on_role());
    }

    /// Goes on with what a former master had decided.
    fn adopt(&self, copy: StreamCopy) {
        let generation = copy.generation;
        let Some(Adopted { leaves, hosts, damaged }) = self.controller.adopt(copy) else { return };
        self.report(ClusterNews::Adopts { generation, leaves, hosts });
        if damaged > 0 {
            tracing::warn!("{damaged} rows of the former master can't be read, and are made anew");
        }
    }

    fn on_gate(&self, gate: Gate) {
        let store = self.controller.store();
        let why = match gate {
            Gate::Open => None,
            Gate::NotMaster => Some(NOT_MASTER),
            Gate::TakesOver => Some("this controller is about to become master, and reads the state"),
            Gate::StoreAway => Some("etcd takes no writes now, so no other controller would know of it"),
        };
        match why {
            None => store.open(self.writes.limits()),
            Some(why) => store.close(why),
        }
        self.writes.set_open(why.is_none());
        let mut status = self.status.lock();
        status.closed = why.map(str::to_owned);
        let is_mended = why.is_none() && status.write_trouble.take().is_some();
        drop(status);
        if is_mended {
            self.report(ClusterNews::EtcdBack);
        }
    }

    fn on_failed(&self, error: String) {
        let mut status = self.status.lock();
        // Renewing the lease says nothing of writes, which may fail for want of space.
        let trouble = if status.elected.is_some() { &mut status.write_trouble } else { &mut status.trouble };
        let is_known = trouble.replace(error.clone()).is_some();
        drop(status);
        if !is_known {
            self.report(ClusterNews::EtcdFailed(error));
        }
    }

    fn on_unreadable(&self, why: String) {
        self.controller.store().close(&why);
        self.status.lock().closed = Some(why.clone());
        self.report(ClusterNews::StateUnreadable(why));
        if let Some(member) = self.member.get().cloned() {
            // It does nothing if this member is not master.
            tokio::spawn(async move { member.step_down().await });
        }
    }
}

/// The reason why a standby writes nothing.
pub(super) const NOT_MASTER: &str =
    "only the master of the cluster writes, and this controller is not (`maple show cluster` says who is)";

impl StateOwner for TrackedState {
    fn commits(&mut self) -> Vec<CommitRows> {
        self.writes.take()
    }

    fn replace(&mut self, rows: BTreeMap<Vec<u8>, Vec<u8>>) -> Result<(), String> {
        self.follow(|state| difference(&rows, state))
    }

    fn apply(&mut self, rows: ChangedRows) -> Result<(), String> {
        self.follow(|state| rows.iter().map(|(key, value)| write_of(key, value.as_deref(), state)).collect())
    }

    fn contents(&mut self) -> BTreeMap<Vec<u8>, Vec<u8>> {
        all_rows(&self.controller.snapshot())
    }

    fn on_news(&mut self, news: StateNews) {
        match news {
            StateNews::Ready(generation) => self.on_ready(generation),
            StateNews::Confirmed(version) => self.writes.confirm(version),
            StateNews::Lost(version) => self.writes.lose(version),
            StateNews::Gate(gate) => self.on_gate(gate),
            StateNews::Unreadable(why) => self.on_unreadable(why),
            StateNews::Failed(error) => self.on_failed(error.to_string()),
        }
    }
}
