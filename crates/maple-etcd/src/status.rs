//! What one server says about itself.

use serde::Deserialize;
use serde_json::json;

use crate::address::Endpoint;
use crate::client::Client;
use crate::error::Failure;
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
    /// What is wrong, in its own words, such as an alarm.
    pub errors: Vec<String>,
}

impl Client {
    /// Asks each server how it is, in the order of the configuration. This takes no leader.
    pub async fn statuses(&self) -> Vec<(Endpoint, Result<Status, Failure>)> {
        let mut all = Vec::new();
        for at in 0..self.endpoints().len() {
            let status = self.ask_one(at, "/v3/maintenance/status", &json!({})).await;
            all.push((self.endpoints()[at].clone(), status));
        }
        all
    }
}
