//! Leases: keys that end unless their owner asks in time that they go on.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Deserializer};
use serde_json::json;

use crate::client::{Client, Effect};
use crate::error::{EtcdError, Refusal};
use crate::json::number;

/// The number of a lease.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LeaseId(pub i64);

impl LeaseId {
    /// No lease: a key that stays.
    pub const NONE: LeaseId = LeaseId(0);
}

impl fmt::Display for LeaseId {
    /// Formats it as `etcdctl` does.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}", self.0)
    }
}

impl<'de> Deserialize<'de> for LeaseId {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<LeaseId, D::Error> {
        number(from).map(LeaseId)
    }
}

/// A lease with the time that it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseTime {
    /// The lease.
    pub lease: LeaseId,
    /// How long it is good for from when the server answered, in whole seconds. A server may grant more than was asked.
    pub left: Duration,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct LeaseBody {
    #[serde(rename = "ID")]
    lease: LeaseId,
    #[serde(rename = "TTL", deserialize_with = "number")]
    seconds: i64,
}

impl LeaseBody {
    /// Returns the time that is left. A lease that has ended has none, or −1.
    fn time(&self) -> Option<LeaseTime> {
        let seconds = u64::try_from(self.seconds).ok().filter(|seconds| *seconds > 0)?;
        Some(LeaseTime { lease: self.lease, left: Duration::from_secs(seconds) })
    }
}

impl Client {
    /// Creates a lease. The server chooses its number. The time is in seconds, at least 1; etcd grants at least one and
    /// a half times the time in which it elects a leader, which is 2 s by default.
    ///
    /// # Errors
    /// [`EtcdError`]. A lease that was created all the same (after [`EtcdError::Uncertain`]) ends by itself.
    pub async fn grant(&self, seconds: u32) -> Result<LeaseTime, EtcdError> {
        let body: LeaseBody =
            self.call("/v3/lease/grant", &json!({ "TTL": seconds.to_string() }), Effect::Write).await?;
        // A lease without time is one that has ended.
        Ok(body.time().unwrap_or(LeaseTime { lease: body.lease, left: Duration::ZERO }))
    }

    /// Renews a lease. Returns nothing if it has ended.
    ///
    /// # Errors
    /// [`EtcdError`], but not [`EtcdError::Uncertain`].
    pub async fn keep_alive(&self, lease: LeaseId) -> Result<Option<LeaseTime>, EtcdError> {
        let request = json!({ "ID": lease.0.to_string() });
        let body: LeaseBody = self.call_stream("/v3/lease/keepalive", &request).await?;
        Ok(body.time())
    }

    /// Returns how much time a lease has; nothing if it has ended. Does not renew it.
    ///
    /// # Errors
    /// [`EtcdError`], but not [`EtcdError::Uncertain`].
    pub async fn time_to_live(&self, lease: LeaseId) -> Result<Option<LeaseTime>, EtcdError> {
        let request = json!({ "ID": lease.0.to_string() });
        let body: LeaseBody = self.call("/v3/lease/timetolive", &request, Effect::Read).await?;
        Ok(body.time())
    }

    /// Ends a lease, and with it its keys. Returns whether it was there.
    ///
    /// # Errors
    /// [`EtcdError`].
    pub async fn revoke(&self, lease: LeaseId) -> Result<bool, EtcdError> {
        let request = json!({ "ID": lease.0.to_string() });
        match self.call::<serde::de::IgnoredAny>("/v3/lease/revoke", &request, Effect::Write).await {
            Ok(_) => Ok(true),
            Err(error) if error.refusal() == Some(Refusal::NoSuchLease) => Ok(false),
            Err(error) => Err(error),
        }
    }
}
