//! The keys of a cluster in the store, and what is written there.

use std::str;

/// The keys of one cluster: `NAME/members/MEMBER` and `NAME/master`, which end with their member's lease, and the
/// tracked state: `NAME/state/head` and `NAME/state/rows/ROW`, which stay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterKeys {
    prefix: String,
}

impl ClusterKeys {
    /// Creates the keys of a cluster.
    pub fn new(cluster: &str) -> ClusterKeys {
        ClusterKeys { prefix: format!("{cluster}/") }
    }

    /// Returns the prefix of the keys of members and of mastership, which those of the tracked state do not have.
    pub fn of_members(&self) -> Vec<u8> {
        format!("{}m", self.prefix).into_bytes()
    }

    /// Returns the prefix of the keys of the tracked state.
    pub fn state(&self) -> Vec<u8> {
        format!("{}state/", self.prefix).into_bytes()
    }

    /// Returns the key that says which batch of the tracked state was written last.
    pub fn head(&self) -> Vec<u8> {
        format!("{}state/head", self.prefix).into_bytes()
    }

    /// Returns the prefix of the keys of rows.
    pub fn rows(&self) -> Vec<u8> {
        format!("{}state/rows/", self.prefix).into_bytes()
    }

    /// Returns the key of mastership.
    pub fn master(&self) -> Vec<u8> {
        format!("{}master", self.prefix).into_bytes()
    }

    /// Returns the key of a member.
    pub fn member(&self, name: &str) -> Vec<u8> {
        format!("{}members/{name}", self.prefix).into_bytes()
    }

    /// Returns what a key is of; nothing, if it is not of this cluster or of a later version of Maple.
    pub(crate) fn subject<'a>(&self, key: &'a [u8]) -> Option<Subject<'a>> {
        match str::from_utf8(key).ok()?.strip_prefix(&self.prefix)? {
            "master" => Some(Subject::Master),
            other => other.strip_prefix("members/").map(Subject::Member),
        }
    }
}

/// The subject of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject<'a> {
    Master,
    Member(&'a str),
}

/// A key with its value, as it is in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The key.
    pub key: Vec<u8>,
    /// The value: in the keys of members and of mastership the name of the member that wrote it. In that of a member
    /// its address for the others follows after a line break, if it has one.
    pub value: Vec<u8>,
    /// The revision of the last write.
    pub revision: u64,
    /// The lease that the key ends with.
    pub lease: i64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_say_what_they_are_of() {
        let keys = ClusterKeys::new("campus");
        assert_eq!(keys.subject(&keys.master()), Some(Subject::Master));
        assert_eq!(keys.subject(&keys.member("n1")), Some(Subject::Member("n1")));
        for key in [keys.master(), keys.member("n1")] {
            assert!(key.starts_with(&keys.of_members()) && !key.starts_with(&keys.state()));
        }
        for key in [keys.head(), keys.rows()] {
            assert!(key.starts_with(&keys.state()) && !key.starts_with(&keys.of_members()));
            assert_eq!(keys.subject(&key), None);
        }
        for other in [&b"campus2/master"[..], b"campus/", b"campus/later/x", b"\xff", b""] {
            assert_eq!(keys.subject(other), None);
        }
    }
}
