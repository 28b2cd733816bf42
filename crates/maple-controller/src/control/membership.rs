//! The cluster of this controller: what people see of it, who answers questions about the network, and stepping down.
//!
//! A standby knows nothing of the network: no switch of it is up. So it refuses what would have an empty or old answer,
//! and says who is master. Tables and variables it has as etcd has them, and answers questions about them.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use maple_cluster::StreamCopy;
use parking_lot::{Mutex, MutexGuard};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Handle;
use super::request::{RefusalKind, Reload, Request, RequestError, Show};
use super::state::StateRequest;
use crate::session::ClusterRole;
use crate::shard::mailbox::ShardMessage;
use crate::storage::Adopted;

/// The reason why nothing is written without a cluster that was joined.
pub(crate) const NOT_JOINED: &str = "this controller has not joined its cluster, so nothing keeps what it writes";
/// The time that a request to step down waits until that has happened. Chosen: etcd and the switches answer within a
/// second or two; after that the answer says that it is not confirmed.
const STEP_DOWN: Duration = Duration::from_secs(5);
/// The time between two looks whether it has happened. Chosen: a person does not notice it.
const LOOK: Duration = Duration::from_millis(20);

/// A change of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "cluster")]
pub enum ClusterRequest {
    /// Lets another controller become master. Only the master does this, and only if another one is there.
    StepDown,
}

/// The knowledge of a member about its cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterStatus {
    /// The role of the controller.
    pub role: ClusterRole,
    /// The generation in which it was elected. It leads once it has the tracked state.
    pub elected: Option<u64>,
    /// The reason why tables and variables can't be written here; `None` if they can be.
    pub closed: Option<String>,
    /// The name of the master, if there is one.
    pub master: Option<String>,
    /// The names of the members that are there, in order.
    pub members: Vec<String>,
    /// The last failure of etcd, until it has renewed the lease.
    pub trouble: Option<String>,
    /// The reason why etcd did not take what was written, until it does.
    pub write_trouble: Option<String>,
}

impl ClusterStatus {
    /// Returns what is wrong with etcd, if something is.
    pub fn any_trouble(&self) -> Option<&String> {
        self.trouble.as_ref().or(self.write_trouble.as_ref())
    }
}

/// The cluster that a controller has joined.
pub(crate) struct JoinedCluster {
    /// The cluster's name.
    pub cluster: String,
    /// The controller's name in it.
    pub name: String,
    /// The servers of etcd, as people write them.
    pub etcd: Vec<String>,
    /// The member's knowledge of the cluster.
    pub status: Arc<Mutex<ClusterStatus>>,
    /// Lets another member become master.
    pub step_down: Box<dyn Fn() + Send + Sync>,
    /// Describes the copy of what the master has decided; `null` if there is none by the options.
    pub copy: Box<dyn Fn() -> Value + Send + Sync>,
}

impl fmt::Debug for JoinedCluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let JoinedCluster { cluster, name, .. } = self;
        f.debug_struct("JoinedCluster").field("cluster", cluster).field("name", name).finish_non_exhaustive()
    }
}

impl JoinedCluster {
    /// Returns what is known of the cluster.
    fn status(&self) -> MutexGuard<'_, ClusterStatus> {
        self.status.lock()
    }
}

impl Handle {
    /// Records the cluster that the controller has joined. It joins one at most.
    pub(crate) fn try_join(&self, cluster: JoinedCluster) -> bool {
        self.shared.succession.cluster.set(cluster).is_ok()
    }

    fn cluster(&self) -> Option<&JoinedCluster> {
        self.shared.succession.cluster.get()
    }

    /// Goes on with a copy of what a former master had decided. What this controller knows of switches from a
    /// mastership before that is forgotten. It does not lead meanwhile.
    pub(crate) fn adopt(&self, copy: StreamCopy) -> Option<Adopted> {
        let rows = self.shared.succession.shared_rows.as_ref()?;
        let timeout = self.shared.deadlines.query;
        let is_forgotten = self.wait_for_all(ShardMessage::AwaitTurnEnd, timeout)
            && self.shared.mailboxes.iter().all(|mailbox| mailbox.send(ShardMessage::ForgetUnreachable))
            && self.wait_for_all(ShardMessage::AwaitTurnEnd, timeout);
        if !is_forgotten {
            tracing::warn!("a shard is late, so what was known before the former master is decided again too");
        }
        Some(rows.adopt(copy, |dpid| self.shared.registry.has_connection(dpid)))
    }
}

/// Encodes what the controller knows of its cluster; `null` if it is the only controller.
pub(super) fn to_json(handle: &Handle) -> Value {
    let Some(role) = handle.role() else { return Value::Null };
    let joined = handle.cluster();
    // Without a cluster the program itself says who leads.
    let status = joined.map_or_else(|| ClusterStatus { role, ..ClusterStatus::default() }, |of| of.status().clone());
    let trouble = status.any_trouble().cloned();
    let ClusterStatus { role, master, members, closed, .. } = status;
    json!({
        "cluster": joined.map(|of| &of.cluster),
        "name": joined.map(|of| &of.name),
        "role": if role.own_generation.is_some() { "master" } else { "standby" },
        "master": master,
        "generation": role.latest,
        "members": members,
        "lease": role.has_lease,
        "etcd": joined.map_or(&[][..], |of| &of.etcd),
        "trouble": trouble,
        "closed": if joined.is_some() { closed } else { Some(NOT_JOINED.to_owned()) },
        "connections": handle.connections(),
        "copy": joined.map_or(Value::Null, |of| (of.copy)()),
    })
}

/// Carries out a change of the cluster, and waits until it has happened.
///
/// # Errors
/// [`RequestError`] if it can't be done, or has not happened in time.
pub(super) fn change(handle: &Handle, request: ClusterRequest) -> Result<Value, RequestError> {
    let ClusterRequest::StepDown = request;
    let outside = || conflict("this controller is in no cluster: it was not started with --cluster".into());
    let joined = handle.cluster().ok_or_else(outside)?;
    let before = {
        let status = joined.status();
        let Some(before) = status.role.own_generation else { return Err(conflict(only_master(&status))) };
        if let Some(trouble) = &status.trouble {
            let text = format!("another controller becomes master with etcd only, and that does not answer: {trouble}");
            return Err(conflict(text));
        }
        if status.members.iter().all(|member| *member == joined.name) {
            return Err(conflict("no other controller is there that could become master".into()));
        }
        before
    };
    (joined.step_down)();
    let end = Instant::now() + STEP_DOWN;
    loop {
        {
            let status = joined.status();
            let is_another = status.master.as_ref().is_some_and(|master| *master != joined.name);
            if status.role.own_generation != Some(before) && is_another {
                return Ok(json!({ "master": status.master }));
            }
        }
        if Instant::now() >= end {
            let text = "no other controller has become master yet; `maple show cluster` says who is";
            return Err(RequestError::at("", text.into()).of_kind(RefusalKind::Unconfirmed));
        }
        std::thread::sleep(LOOK);
    }
}

/// Checks that this controller can answer a request: it is the only one, or master, or the request is about itself.
///
/// # Errors
/// [`RequestError`], which says who is master.
pub(super) fn check_answers(handle: &Handle, request: &Request) -> Result<(), RequestError> {
    if is_about_itself(request) { Ok(()) } else { check_leads(handle) }
}

/// Checks that this controller knows the network: it is the only one, or master.
///
/// # Errors
/// [`RequestError`], which says who is master.
pub(super) fn check_leads(handle: &Handle) -> Result<(), RequestError> {
    if handle.role().is_none_or(|role| role.own_generation.is_some()) {
        return Ok(());
    }
    Err(conflict(match handle.cluster() {
        None => "this controller is a standby, and knows nothing of the network".into(),
        Some(joined) => {
            let who = asks(&joined.status());
            format!("controller {} is a standby of the cluster {}: {who}", joined.name, joined.cluster)
        }
    }))
}

/// Says whom to ask instead.
fn asks(status: &ClusterStatus) -> String {
    match &status.master {
        Some(master) => format!("{master} is master, and answers this"),
        None => "there is no master now, so nobody answers this".into(),
    }
}

fn only_master(status: &ClusterStatus) -> String {
    let who = status.master.as_deref().map_or_else(|| "there is none".into(), |master| format!("that is {master}"));
    format!("only the master steps down, and {who}")
}

fn conflict(text: String) -> RequestError {
    RequestError::at("", text).of_kind(RefusalKind::Conflict)
}

/// Reports whether a request is about what every controller of a cluster has: its process and the tracked state, and
/// not the network. Every member is given a new policy by itself; what that changes in the network, only the master
/// knows.
fn is_about_itself(request: &Request) -> bool {
    match request {
        Request::Show(what) => matches!(
            what,
            Show::Names
                | Show::Cluster
                | Show::Controller
                | Show::History
                | Show::Stats
                | Show::Errors
                | Show::Doctor
                | Show::Version
                | Show::Log(_)
        ),
        Request::Cluster(_) => true,
        Request::Reload(what) => matches!(what, Reload::Policy { .. } | Reload::Rollback),
        // It has what etcd has.
        Request::State(what) => matches!(
            what,
            StateRequest::List | StateRequest::Get(_) | StateRequest::Watch(_) | StateRequest::Written(_)
        ),
        Request::Invalidate(_) | Request::Explain(_) => false,
    }
}
