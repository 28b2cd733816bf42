//! Transactions: several operations at one revision, if what was read before still holds.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::client::{Client, Effect, Question, is_acknowledged};
use crate::error::EtcdError;
use crate::json::{Answer, Header, base64};
use crate::keys::{
    Deleted, DeletedBody, Keys, Range, RangeBody, Written, WrittenBody, delete_request, put_request, range_request,
};
use crate::lease::LeaseId;

/// A condition of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Compare {
    /// The key was created at this revision, and not deleted since; 0 means that there is no such key.
    CreatedAt(Vec<u8>, u64),
    /// The key was written last at this revision; 0 means that there is no such key.
    ModifiedAt(Vec<u8>, u64),
}

impl Compare {
    fn key(&self) -> &[u8] {
        let (Compare::CreatedAt(key, _) | Compare::ModifiedAt(key, _)) = self;
        key
    }

    fn json(&self) -> Value {
        match self {
            Compare::CreatedAt(key, revision) => json!({
                "key": base64(key), "target": "CREATE", "result": "EQUAL", "create_revision": revision.to_string()
            }),
            Compare::ModifiedAt(key, revision) => json!({
                "key": base64(key), "target": "MOD", "result": "EQUAL", "mod_revision": revision.to_string()
            }),
        }
    }
}

/// A part of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Writes a key.
    Put {
        /// The key.
        key: Vec<u8>,
        /// The value.
        value: Vec<u8>,
        /// The lease that it ends with; [`LeaseId::NONE`] without one.
        lease: LeaseId,
    },
    /// Reads keys.
    Range(Keys),
    /// Deletes keys.
    Delete(Keys),
}

impl Operation {
    fn json(&self) -> Value {
        match self {
            Operation::Put { key, value, lease } => json!({ "request_put": put_request(key, value, *lease) }),
            Operation::Range(keys) => json!({ "request_range": range_request(keys, 0, 0) }),
            Operation::Delete(keys) => json!({ "request_delete_range": delete_request(keys) }),
        }
    }

    /// Reports whether this is the kind of answer that the operation gets.
    fn is_answered_by(&self, answer: &OperationBody) -> bool {
        matches!(
            (self, answer),
            (Operation::Put { .. }, OperationBody::Put(_))
                | (Operation::Range(_), OperationBody::Range(_))
                | (Operation::Delete(_), OperationBody::Delete(_))
        )
    }
}

/// Operations that happen all together at one revision, or not at all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transaction {
    /// The conditions; all have to hold.
    pub compare: Vec<Compare>,
    /// The operations if they hold.
    pub then: Vec<Operation>,
    /// The operations if one does not.
    pub otherwise: Vec<Operation>,
}

/// The answer to a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionAnswer {
    /// Whether all conditions held.
    pub succeeded: bool,
    /// The revision of the store afterwards; that of the writes, if there were any.
    pub revision: u64,
    /// The answers to the operations that happened, in order.
    pub answers: Vec<OperationAnswer>,
}

/// The answer to one operation. Only the transaction has a revision for certain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OperationAnswer {
    /// The key was written.
    Put(Written),
    /// The keys that were read.
    Range(Range),
    /// The keys were deleted.
    Delete(Deleted),
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct TransactionBody {
    header: Header,
    succeeded: bool,
    responses: Vec<OperationBody>,
}

#[derive(Debug, Deserialize)]
enum OperationBody {
    #[serde(rename = "response_put")]
    Put(WrittenBody),
    #[serde(rename = "response_range")]
    Range(RangeBody),
    #[serde(rename = "response_delete_range")]
    Delete(DeletedBody),
}

impl Answer for TransactionBody {
    fn revision(&self) -> u64 {
        self.header.revision
    }
}

impl Transaction {
    /// Returns the transaction as it is sent. A server answers one without operations from its own store, which may be
    /// old; one that reads as all servers agree. So such a transaction reads a key.
    fn sent(&self) -> Cow<'_, Transaction> {
        if !self.then.is_empty() || !self.otherwise.is_empty() {
            return Cow::Borrowed(self);
        }
        let key = self.compare.first().map_or(&[0][..], Compare::key);
        let reads = vec![Operation::Range(Keys::One(key.to_vec()))];
        Cow::Owned(Transaction { compare: self.compare.clone(), then: reads.clone(), otherwise: reads })
    }

    /// Returns what it does.
    fn effect(&self) -> Effect {
        let reads = self.then.iter().chain(&self.otherwise).all(|operation| matches!(operation, Operation::Range(_)));
        if reads { Effect::Read } else { Effect::Write }
    }

    /// Checks that an answer is one to this transaction.
    fn check(&self, body: &TransactionBody) -> Result<(), &'static str> {
        let operations = if body.succeeded { &self.then } else { &self.otherwise };
        let mut pairs = operations.iter().zip(&body.responses);
        if operations.len() != body.responses.len() || !pairs.all(|(one, answer)| one.is_answered_by(answer)) {
            return Err("its answers are not those of the operations");
        }
        is_acknowledged(body)
    }
}

impl Client {
    /// Carries out a transaction. One that only compares is answered as all servers agree, as reads are.
    ///
    /// # Errors
    /// [`EtcdError`], but not [`EtcdError::Uncertain`] if all operations are reads.
    pub async fn transact(&self, transaction: &Transaction) -> Result<TransactionAnswer, EtcdError> {
        let sent = transaction.sent();
        let operations = |all: &[Operation]| all.iter().map(Operation::json).collect::<Vec<_>>();
        let request = json!({
            "compare": sent.compare.iter().map(Compare::json).collect::<Vec<_>>(),
            "success": operations(&sent.then),
            "failure": operations(&sent.otherwise),
        });
        let question = Question::new("/v3/kv/txn", &request);
        let body = self.ask(&question, sent.effect(), &|body| sent.check(body)).await?.answer;
        let wanted = if matches!(sent, Cow::Borrowed(_)) { body.responses.len() } else { 0 };
        let answers = body.responses.into_iter().take(wanted).map(|answer| match answer {
            OperationBody::Put(body) => OperationAnswer::Put(body.into()),
            OperationBody::Range(body) => OperationAnswer::Range(body.into()),
            OperationBody::Delete(body) => OperationAnswer::Delete(body.into()),
        });
        Ok(TransactionAnswer { succeeded: body.succeeded, revision: body.header.revision, answers: answers.collect() })
    }
}
