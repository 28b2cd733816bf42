//! Leases: keys that end unless their owner asks in time that they go on.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Deserializer};
use serde_json::json;
use tokio::time::Instant;

use crate::client::{Answered, Client, Effect, Question, is_acknowledged};
use crate::error::{EtcdError, Refusal};
use crate::json::{Answer, Header, number};

/// The number of a lease.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LeaseId(pub i64);

impl LeaseId {
    /// The absence of a lease: the key stays.
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
    /// The time for which the lease is good, in whole seconds. A server may grant more than was asked.
    pub left: Duration,
    /// The start of that time: before the request was sent. So the lease ends later.
    pub since: Instant,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct LeaseBody {
    header: Header,
    #[serde(rename = "ID")]
    lease: LeaseId,
    #[serde(rename = "TTL", deserialize_with = "number")]
    seconds: i64,
}

impl Answer for LeaseBody {
    fn revision(&self) -> u64 {
        self.header.revision
    }
}

impl Answered<LeaseBody> {
    /// Returns the lease with its time, of which a lease that has ended has a negative one.
    fn time(&self) -> Option<LeaseTime> {
        let left = Duration::from_secs(u64::try_from(self.answer.seconds).ok()?);
        Some(LeaseTime { lease: self.answer.lease, left, since: self.before })
    }
}

impl Client {
    /// Creates a lease. The server chooses its number. The time is in seconds, at least 1; etcd grants at least one and
    /// a half times the time in which it elects a leader, which is 2 s by default.
    ///
    /// # Errors
    /// [`EtcdError`]. A lease that was created all the same (after [`EtcdError::Uncertain`]) ends by itself.
    pub async fn grant(&self, seconds: u32) -> Result<LeaseTime, EtcdError> {
        let request = Question::new("/v3/lease/grant", &json!({ "TTL": seconds.to_string() }));
        let check = |body: &LeaseBody| match body.lease {
            LeaseId::NONE => Err("a lease without a number"),
            _ => is_acknowledged(body),
        };
        let granted = self.ask(&request, Effect::Write, &check).await?;
        let none = LeaseTime { lease: granted.answer.lease, left: Duration::ZERO, since: granted.before };
        Ok(granted.time().unwrap_or(none))
    }

    /// Renews a lease. Returns nothing if it has ended.
    ///
    /// # Errors
    /// [`EtcdError`], but not [`EtcdError::Uncertain`].
    pub async fn keep_alive(&self, lease: LeaseId) -> Result<Option<LeaseTime>, EtcdError> {
        let request = json!({ "ID": lease.0.to_string() });
        let kept = self.call_stream("/v3/lease/keepalive", &request).await?;
        // One that has ended has no time here, and −1 there.
        Ok(kept.time().filter(|kept| !kept.left.is_zero()))
    }

    /// Returns how much time a lease has; nothing if it has ended. Does not renew it. In its last second none is left,
    /// and its keys are still there.
    ///
    /// # Errors
    /// [`EtcdError`], but not [`EtcdError::Uncertain`].
    pub async fn time_to_live(&self, lease: LeaseId) -> Result<Option<LeaseTime>, EtcdError> {
        let request = json!({ "ID": lease.0.to_string() });
        Ok(self.call("/v3/lease/timetolive", &request, Effect::Read).await?.time())
    }

    /// Ends a lease, and with it its keys. Returns whether it was there.
    ///
    /// # Errors
    /// [`EtcdError`].
    pub async fn revoke(&self, lease: LeaseId) -> Result<bool, EtcdError> {
        let request = json!({ "ID": lease.0.to_string() });
        match self.call::<LeaseBody>("/v3/lease/revoke", &request, Effect::Write).await {
            Ok(_) => Ok(true),
            Err(error) if error.refusal() == Some(Refusal::NoSuchLease) => Ok(false),
            Err(error) => Err(error),
        }
    }
}
