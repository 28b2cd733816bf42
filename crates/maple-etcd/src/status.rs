//! The status of one server, by its own account.

use serde::Deserialize;
use serde_json::json;
use tokio::task::JoinSet;

use crate::address::Endpoint;
use crate::client::{Attempt, Client, Question};
use crate::error::{Failure, FailureReason};
use crate::json::number;

/// A server's state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Status {
    /// The version, such as `3.6.14`.
    pub version: String,
    /// The bytes of the store's file.
    #[serde(rename = "dbSize", deserialize_with = "number")]
    pub size: u64,
    /// The member that leads; 0 if this server knows none.
    #[serde(deserialize_with = "number")]
    pub leader: u64,
    /// Whether this server only listens, and has no vote.
    #[serde(rename = "isLearner")]
    pub is_learner: bool,
    /// The faults that it reports, such as an alarm.
    pub errors: Vec<String>,
}

impl Client {
    /// Asks all servers at the same time how they are. The answers are in the order of the configuration. This takes no
    /// leader; only if etcd wants to know who asks, and the client has no token yet, does it.
    pub async fn statuses(&self) -> Vec<(Endpoint, Result<Status, Failure>)> {
        let mut asked = JoinSet::new();
        for at in 0..self.endpoints().len() {
            let client = self.clone();
            asked.spawn(async move { (at, client.status(at).await) });
        }
        let mut all = asked.join_all().await;
        all.sort_by_key(|(at, _)| *at);
        all.into_iter().map(|(at, status)| (self.endpoints()[at].clone(), status)).collect()
    }

    async fn status(&self, at: usize) -> Result<Status, Failure> {
        let question = Question::without_leader("/v3/maintenance/status", &json!({}));
        let check = |status: &Status| if status.version.is_empty() { Err("it has no version") } else { Ok(()) };
        self.ask_at(at, &question, &check).await.map_err(|attempt| match attempt {
            Attempt::NotBegun(reason) | Attempt::Lost(reason) => self.failure(at, reason),
            Attempt::Refused(_, message) => self.failure(at, FailureReason::Unavailable(message)),
        })
    }
}
