//! The controller's account of itself: which process it is, where it listens, which files it uses, and how its clocks
//! go.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::discovery::Key;
use crate::endpoint::Endpoint;
use crate::policy_record::PolicyRecord;
use crate::tls::Tls;

/// The controller's account of itself, from its start on.
pub(crate) struct About {
    listening: Vec<Endpoint>,
    tls: Option<Arc<Tls>>,
    /// The certificate of the HTTP API, if that has TLS.
    http_tls: Option<Arc<Tls>>,
    state_file: Option<PathBuf>,
    /// The key that signs its probes. Only a process that takes over receives it.
    probe_key: Key,
    /// The moment of the start by two clocks: one that nobody sets, and the one that people read.
    started: (Instant, SystemTime),
    /// The time at which the running policy was loaded.
    policy_loaded: Mutex<SystemTime>,
    /// The running policy, if the program has reported it.
    policy: Mutex<Option<PolicyRecord>>,
}

impl About {
    /// Describes a controller that starts at this moment, with the certificates of its listeners and of its HTTP API.
    pub fn new(
        listening: Vec<Endpoint>,
        tls: Option<Arc<Tls>>,
        http_tls: Option<Arc<Tls>>,
        state_file: Option<PathBuf>,
        probe_key: Key,
    ) -> About {
        // A client may run in another folder.
        let state_file = state_file.map(|file| std::path::absolute(&file).unwrap_or(file));
        let now = SystemTime::now();
        let (started, policy_loaded, policy) = ((Instant::now(), now), Mutex::new(now), Mutex::default());
        About { listening, tls, http_tls, state_file, probe_key, started, policy_loaded, policy }
    }

    /// Reports whether there are certificates for TLS.
    pub fn has_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Returns the time at which the running policy was loaded.
    pub fn policy_loaded(&self) -> SystemTime {
        *self.policy_loaded.lock()
    }

    /// Records that another policy runs, which was loaded at this time.
    pub fn set_policy_loaded(&self, at: SystemTime) {
        *self.policy_loaded.lock() = at;
    }

    /// Returns the running policy, if the program has reported it.
    fn policy(&self) -> Option<PolicyRecord> {
        self.policy.lock().clone()
    }

    /// Returns the name of the running policy, if the program has reported it.
    pub fn policy_name(&self) -> Option<String> {
        self.policy().map(|record| record.policy.name)
    }

    /// Records which policy runs.
    pub fn set_policy(&self, policy: PolicyRecord) {
        *self.policy.lock() = Some(policy);
    }

    /// Returns the addresses that it listens on.
    pub fn listening(&self) -> &[Endpoint] {
        &self.listening
    }

    /// Returns the key that signs its probes.
    pub fn probe_key(&self) -> Key {
        self.probe_key
    }

    /// Returns the path of the state file, if there is one.
    pub fn state_file(&self) -> Option<&Path> {
        self.state_file.as_deref()
    }

    /// Encodes the account of a controller with this number of shards.
    pub fn to_json(&self, shards: usize) -> Value {
        let (begun, started) = self.started;
        let listening = self.listening.iter();
        let listening: Value =
            listening.map(|one| json!({ "address": one.address.to_string(), "tls": one.has_tls })).collect();
        let expires = |tls: &Option<Arc<Tls>>| tls.as_ref().map(|tls| seconds_since_1970(tls.expires()));
        json!({
            "version": env!("CARGO_PKG_VERSION"),
            "pid": std::process::id(),
            "shards": shards,
            "listening": listening,
            "policy": self.policy(),
            "state_file": self.state_file,
            "certificate_expires": expires(&self.tls),
            "http_certificate_expires": expires(&self.http_tls),
            "started": seconds_since_1970(started),
            "clock_stepped": stepped(started, begun.elapsed(), SystemTime::now()),
        })
    }
}

fn seconds_since_1970(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Returns by how many seconds the clock that people read was set forward since it showed `started`, which was
/// `elapsed` ago. Both clocks run at the same rate, so what remains are steps.
fn stepped(started: SystemTime, elapsed: Duration, now: SystemTime) -> f64 {
    let shown = match now.duration_since(started) {
        Ok(since) => since.as_secs_f64(),
        Err(error) => -error.duration().as_secs_f64(),
    };
    let stepped = ((shown - elapsed.as_secs_f64()) * 1000.0).round() / 1000.0;
    // No step is 0, and not -0.
    stepped + 0.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_what_one_clock_has_more_than_the_other() {
        let (started, hour) = (UNIX_EPOCH + Duration::from_secs(1_000_000), Duration::from_secs(3600));
        assert_eq!(stepped(started, hour, started + hour), 0.0);
        let less = started + hour - Duration::from_micros(10);
        assert_eq!(stepped(started, hour, less).to_string(), "0");
        assert_eq!(stepped(started, hour, started + 2 * hour), 3600.0);
        assert_eq!(stepped(started, hour, started - hour), -7200.0);
    }
}
