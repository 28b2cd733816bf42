//! Keys with their values: reading, writing, deleting.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::client::{Client, Effect};
use crate::error::{EtcdError, Failure};
use crate::json::{Answer, Header, base64, bytes, number};
use crate::lease::LeaseId;

/// The number of keys that one request of [`Client::all`] asks for at most.
const PAGE: usize = 1000;

/// Which keys are meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Keys {
    /// This key.
    One(Vec<u8>),
    /// All keys that begin with these bytes; all keys, if there are none.
    Prefix(Vec<u8>),
}

impl Keys {
    /// Returns `key` and `range_end` as etcd takes them: the keys from the first up to, and without, the second. An end
    /// of one zero byte means that there is none.
    pub(crate) fn bounds(&self) -> (&[u8], Option<Vec<u8>>) {
        match self {
            Keys::One(key) => (key, None),
            Keys::Prefix(prefix) => {
                let first: &[u8] = if prefix.is_empty() { &[0] } else { prefix };
                let kept = prefix.iter().rposition(|byte| *byte != 0xff).map_or(0, |last| last + 1);
                let mut end = prefix[..kept].to_vec();
                match end.last_mut() {
                    Some(last) => *last += 1,
                    None => end.push(0),
                }
                (first, Some(end))
            }
        }
    }

    /// Writes the bounds into a request.
    pub(crate) fn write(&self, request: &mut Map<String, Value>) {
        let (key, end) = self.bounds();
        request.insert("key".into(), base64(key).into());
        request.extend(end.map(|end| ("range_end".into(), base64(&end).into())));
    }
}

/// A key with its value and history.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct KeyValue {
    /// The key.
    #[serde(deserialize_with = "bytes")]
    pub key: Vec<u8>,
    /// The value.
    #[serde(deserialize_with = "bytes")]
    pub value: Vec<u8>,
    /// The revision of the write that created the key.
    #[serde(deserialize_with = "number")]
    pub create_revision: u64,
    /// The revision of the last write.
    #[serde(deserialize_with = "number")]
    pub mod_revision: u64,
    /// The number of writes since the key was created; 0 for a key that was deleted.
    #[serde(deserialize_with = "number")]
    pub version: u64,
    /// The lease that the key ends with; [`LeaseId::NONE`] without one.
    pub lease: LeaseId,
}

/// The answer to a read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Range {
    /// The revision of the store when it was read.
    pub revision: u64,
    /// The keys in order.
    pub keys: Vec<KeyValue>,
    /// Whether there are more keys than were asked for.
    pub more: bool,
}

/// The answer to a write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// The revision that the write made.
    pub revision: u64,
}

/// The answer to a deletion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deleted {
    /// The revision of the store afterwards.
    pub revision: u64,
    /// The number of keys that were there.
    pub count: u64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct RangeBody {
    header: Header,
    kvs: Vec<KeyValue>,
    more: bool,
}

impl Answer for RangeBody {
    fn revision(&self) -> u64 {
        self.header.revision
    }
}

impl From<RangeBody> for Range {
    fn from(body: RangeBody) -> Range {
        Range { revision: body.header.revision, keys: body.kvs, more: body.more }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct WrittenBody {
    header: Header,
}

impl Answer for WrittenBody {
    fn revision(&self) -> u64 {
        self.header.revision
    }
}

impl From<WrittenBody> for Written {
    fn from(body: WrittenBody) -> Written {
        Written { revision: body.header.revision }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct DeletedBody {
    header: Header,
    #[serde(deserialize_with = "number")]
    deleted: u64,
}

impl Answer for DeletedBody {
    fn revision(&self) -> u64 {
        self.header.revision
    }
}

impl From<DeletedBody> for Deleted {
    fn from(body: DeletedBody) -> Deleted {
        Deleted { revision: body.header.revision, count: body.deleted }
    }
}

/// Returns a request for keys. A limit of 0 means none, a revision of 0 the latest one.
pub(crate) fn range_request(keys: &Keys, limit: usize, revision: u64) -> Value {
    let mut request = Map::new();
    keys.write(&mut request);
    if limit > 0 {
        request.insert("limit".into(), limit.to_string().into());
    }
    if revision > 0 {
        request.insert("revision".into(), revision.to_string().into());
    }
    request.into()
}

pub(crate) fn put_request(key: &[u8], value: &[u8], lease: LeaseId) -> Value {
    json!({ "key": base64(key), "value": base64(value), "lease": lease.0.to_string() })
}

pub(crate) fn delete_request(keys: &Keys) -> Value {
    let mut request = Map::new();
    keys.write(&mut request);
    request.into()
}

impl Client {
    /// Reads one key, as it is after all writes that were answered before.
    ///
    /// # Errors
    /// [`EtcdError`], but not [`EtcdError::Uncertain`].
    pub async fn get(&self, key: &[u8]) -> Result<Option<KeyValue>, EtcdError> {
        Ok(self.range(&Keys::One(key.to_vec()), 1).await?.keys.pop())
    }

    /// Reads the first `limit` keys; 0 means all, which [`crate::Limits::answer`] bounds.
    ///
    /// # Errors
    /// [`EtcdError`], but not [`EtcdError::Uncertain`].
    pub async fn range(&self, keys: &Keys, limit: usize) -> Result<Range, EtcdError> {
        let body: RangeBody = self.call("/v3/kv/range", &range_request(keys, limit, 0), Effect::Read).await?.answer;
        Ok(body.into())
    }

    /// Reads all keys with a prefix as they are at one revision, in as many requests as it takes.
    ///
    /// # Errors
    /// [`EtcdError::TooManyKeys`] if there are more than `at_most`, [`crate::Refusal::Compacted`] if the revision was
    /// compacted meanwhile; otherwise [`EtcdError`], but not [`EtcdError::Uncertain`].
    pub async fn all(&self, prefix: &[u8], at_most: usize) -> Result<Range, EtcdError> {
        let (mut all, mut page) = (Range { more: true, ..Range::default() }, PAGE);
        while all.more {
            let mut request = range_request(&Keys::Prefix(prefix.to_vec()), page, all.revision);
            if let Some(last) = all.keys.last() {
                request["key"] = base64(&[&last.key[..], &[0]].concat()).into();
            }
            let answered = match self.call::<RangeBody>("/v3/kv/range", &request, Effect::Read).await {
                // Large values: fewer of them fit into an answer.
                Err(EtcdError::Unreachable(failures)) if page > 1 && failures.iter().any(Failure::is_too_long) => {
                    page /= 2;
                    continue;
                }
                answered => answered?,
            };
            let body = answered.answer;
            all.revision = if all.revision == 0 { body.header.revision } else { all.revision };
            all.more = body.more && !body.kvs.is_empty();
            all.keys.extend(body.kvs);
            if all.keys.len() > at_most || (all.more && all.keys.len() == at_most) {
                let (endpoint, prefix) = (self.endpoints()[answered.at].clone(), prefix.to_vec());
                return Err(EtcdError::TooManyKeys { endpoint, prefix, at_most });
            }
        }
        Ok(all)
    }

    /// Writes a key, which ends with the lease if one is given.
    ///
    /// # Errors
    /// [`EtcdError`].
    pub async fn put(&self, key: &[u8], value: &[u8], lease: LeaseId) -> Result<Written, EtcdError> {
        let body: WrittenBody = self.call("/v3/kv/put", &put_request(key, value, lease), Effect::Write).await?.answer;
        Ok(body.into())
    }

    /// Deletes keys.
    ///
    /// # Errors
    /// [`EtcdError`].
    pub async fn delete(&self, keys: &Keys) -> Result<Deleted, EtcdError> {
        let body: DeletedBody = self.call("/v3/kv/deleterange", &delete_request(keys), Effect::Write).await?.answer;
        Ok(body.into())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// A key is between the bounds exactly if it begins with the prefix.
        #[test]
        fn the_bounds_of_a_prefix_hold_the_keys_that_begin_with_it(
            prefix in prop::collection::vec(prop_oneof![Just(0u8), Just(1), Just(0xfe), Just(0xff)], 0..4),
            key in prop::collection::vec(prop_oneof![Just(0u8), Just(1), Just(0xfe), Just(0xff)], 1..6),
        ) {
            let keys = Keys::Prefix(prefix.clone());
            let (first, end) = keys.bounds();
            let end = end.unwrap();
            let is_between = key[..] >= *first && (end == [0] || key < end);
            prop_assert_eq!(is_between, key.starts_with(&prefix));
        }
    }
}
