//! The requests of the control socket, as JSON. Each request is checked against `schema.json` first.

use maple_wire::PortNo;
use maple_wire::port::BadPort;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::explain::ExplainRequest;
use super::live::Live;
use super::plan::Fingerprint;
use super::queries::LateShard;
use super::reload::{CanaryAt, Tolerance};
use super::schema;
use super::state::StateRequest;

/// A request: one JSON object a line, such as `{"show": {"rules": "1"}}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Request {
    /// Shows something.
    Show(Show),
    /// Withdraws leaves.
    Invalidate(Invalidate),
    /// Runs another policy.
    Reload(Reload),
    /// Reads or writes tracked state.
    State(StateRequest),
    /// Explains why a packet goes where it goes.
    Explain(ExplainRequest),
}

/// A change of the policy that runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reload {
    /// Runs another policy.
    Policy {
        /// The policy's name, as for `maple run`; `None` loads the running policy again.
        name: Option<String>,
        /// The number of packets, or their share, on which the policy may fail.
        tolerate: Tolerance,
    },
    /// Changes nothing, and says what another policy would change.
    Plan {
        /// The policy's name, as for `maple run`; `None` means the running policy, loaded again.
        name: Option<String>,
    },
    /// Runs the policy of a plan, if that changes exactly what the plan says.
    Apply {
        /// The policy's name.
        name: String,
        /// The plan's fingerprint of the policy's files.
        sources: Fingerprint,
        /// The plan's fingerprint of the changes.
        changes: Fingerprint,
        /// The plan's decisions. Without them nothing at all may have changed since.
        #[serde(default)]
        decided: Option<Vec<String>>,
        /// The ingress switches where the policy decides first; `None`: at all of them.
        #[serde(default)]
        canary: Option<CanaryAt>,
    },
    /// Lets a policy that runs at some switches run everywhere.
    Rest,
    /// Runs the policy again that ran before the last reload.
    Rollback,
}

/// A view to show.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Show {
    /// The rules of this switch (hex digits), or of all.
    Rules(Option<String>),
    /// The switches with their ports.
    Switches,
    /// The sizes of the tables of this switch (hex digits), or of all, and how full they are.
    Tables(Option<String>),
    /// The port counters of this switch (hex digits), or of all.
    Ports(Option<String>),
    /// The traffic between hosts that enters at this switch (hex digits), or at any.
    Flows(Option<String>),
    /// The names of switches and hosts.
    Names,
    /// The links.
    Links,
    /// The hosts.
    Hosts,
    /// The multicast groups with their member ports.
    Groups,
    /// The DHCP leases.
    Leases,
    /// The controller's account of itself.
    Controller,
    /// All counters.
    Stats,
    /// The most recent problems.
    Errors,
    /// The version of the program, of the protocol, and the formats of files.
    Version,
    /// The access lists of the policy, with the packets that each rule has decided.
    #[serde(rename = "access_lists")]
    AccessLists,
    /// The drops of this many minutes, the current one included, with their reasons.
    Dropped(u64),
    /// Packets as they enter, with one answer for each.
    Live(Live),
    /// The latest lines of the log. With `true` new lines follow, with one answer a line.
    Log(bool),
}

/// The leaves to withdraw.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Invalidate {
    /// All leaves.
    All,
    /// Leaves that concern the host with this MAC address.
    Host(String),
    /// Leaves that concern this port of this switch (hex digits).
    Port(String, PortText),
}

/// A port as programs write it: its number, or the name of a reserved port as in answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum PortText {
    /// The port's number.
    Number(u32),
    /// The port's name, or its number as text.
    Text(String),
}

impl PortText {
    /// Returns the port.
    ///
    /// # Errors
    /// [`BadPort`] if the text is not a port.
    pub fn port(&self) -> Result<PortNo, BadPort> {
        match self {
            PortText::Number(number) => Ok(PortNo(*number)),
            PortText::Text(text) => text.parse(),
        }
    }
}

/// The reason why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RequestError {
    /// The path of the faulty member, with dots between the names. Empty for the whole request.
    pub field: String,
    /// The reason.
    pub text: String,
}

impl RequestError {
    /// Creates a refusal of the member at `field`.
    pub fn at(field: &str, text: String) -> RequestError {
        RequestError { field: field.to_owned(), text }
    }

    /// Encodes the refusal as an answer.
    pub fn to_json(&self) -> Value {
        json!({ "error": self.text, "field": self.field })
    }
}

impl From<LateShard> for RequestError {
    fn from(late: LateShard) -> RequestError {
        RequestError::at("", late.to_string())
    }
}

/// Parses a line as a request, and checks it against the schema.
pub(super) fn parse(line: &str) -> Result<Request, RequestError> {
    let json: Value =
        serde_json::from_str(line).map_err(|error| RequestError::at("", format!("not a request: {error}")))?;
    let named = |field: &str, text: String| match field {
        "" => format!("not a request: {text}"),
        field => format!("{field}: {text}"),
    };
    schema::check(&json)
        .map_err(|violation| RequestError::at(&violation.field, named(&violation.field, violation.text)))?;
    serde_json::from_value(json).map_err(|error| RequestError::at("", named("", error.to_string())))
}
