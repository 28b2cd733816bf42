//! The version of the control protocol, which every answer has, and the formats of files.
//!
//! `docs/compatibility.md` says what may change in which version.

use std::fmt;
use std::str::FromStr;

use serde_json::{Value, json};

use super::plan;
use crate::storage::{FORMAT, STATE_FORMAT};

/// The version of this program's requests and answers.
pub const PROTOCOL: Protocol = Protocol { major: 1, minor: 1 };

/// A version of requests and answers, such as `1.1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Protocol {
    /// Changes when a program that knows the version before would misunderstand an answer, or be misunderstood.
    pub major: u32,
    /// Changes when something is added.
    pub minor: u32,
}

impl Protocol {
    /// Reads the version of an answer. An answer without one is from a program of the first version.
    pub(super) fn from_answer(answer: &Value) -> Protocol {
        let first = Protocol { major: 1, minor: 0 };
        answer["protocol"].as_str().and_then(|text| text.parse().ok()).unwrap_or(first)
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl FromStr for Protocol {
    type Err = ();

    fn from_str(text: &str) -> Result<Protocol, ()> {
        let (major, minor) = text.split_once('.').ok_or(())?;
        let number = |text: &str| text.parse().map_err(|_| ());
        Ok(Protocol { major: number(major)?, minor: number(minor)? })
    }
}

/// Encodes the versions that this program speaks, reads and writes.
pub(super) fn versions() -> Value {
    json!({
        "maple": env!("CARGO_PKG_VERSION"),
        "protocol": PROTOCOL.to_string(),
        "state": STATE_FORMAT,
        "leaves": FORMAT,
        "plan": plan::FORMAT.to_string(),
    })
}
