//! Transactions: several operations at one revision, if what was read before still holds.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::client::{Client, Effect};
use crate::error::EtcdError;
use crate::json::{Header, base64};
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
}

/// Operations that happen all together at one revision, or not at all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transaction {
    /// The conditions; all have to hold.
    pub compare: Vec<Compare>,
    /// What happens if they hold.
    pub then: Vec<Operation>,
    /// What happens if one does not.
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

impl Client {
    /// Carries out a transaction.
    ///
    /// # Errors
    /// [`EtcdError`].
    pub async fn transact(&self, transaction: &Transaction) -> Result<TransactionAnswer, EtcdError> {
        let operations = |all: &[Operation]| all.iter().map(Operation::json).collect::<Vec<_>>();
        let request = json!({
            "compare": transaction.compare.iter().map(Compare::json).collect::<Vec<_>>(),
            "success": operations(&transaction.then),
            "failure": operations(&transaction.otherwise),
        });
        let body: TransactionBody = self.call("/v3/kv/txn", &request, Effect::Write).await?;
        let answers = body.responses.into_iter().map(|answer| match answer {
            OperationBody::Put(body) => OperationAnswer::Put(body.into()),
            OperationBody::Range(body) => OperationAnswer::Range(body.into()),
            OperationBody::Delete(body) => OperationAnswer::Delete(body.into()),
        });
        Ok(TransactionAnswer { succeeded: body.succeeded, revision: body.header.revision, answers: answers.collect() })
    }
}
