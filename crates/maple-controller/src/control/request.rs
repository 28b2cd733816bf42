//! The requests of the control socket, as JSON. Their types are the published schema, and what is refused.

use maple_core::engine::KEPT_MINUTES;
use maple_wire::PortNo;
use maple_wire::port::BadPort;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::explain::ExplainRequest;
use super::live::Live;
use super::membership::ClusterRequest;
use super::plan::Fingerprint;
use super::queries::LateShard;
use super::reload::{CanaryAt, Tolerance};
use super::state::StateRequest;

/// A request: one JSON object a line, such as `{"show": {"rules": "1"}}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
#[schemars(rename = "request")]
pub enum Request {
    /// Shows something.
    Show(Show),
    /// Withdraws decisions, so that the policy is asked again.
    Invalidate(Invalidate),
    /// Runs another policy.
    Reload(Reload),
    /// Reads or writes tracked state.
    State(StateRequest),
    /// Explains why a packet goes where it goes.
    Explain(ExplainRequest),
    /// Changes who is master.
    Cluster(ClusterRequest),
}

/// A change of the policy that runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
#[schemars(rename = "reload")]
pub enum Reload {
    /// Runs another policy, unless it fails on packets that the network has decided about.
    Policy {
        /// The policy's name, as for `maple run`, with a path that the controller can read; `null` loads the running
        /// policy again.
        name: Option<String>,
        /// The number of packets, or their share, on which the policy may fail.
        tolerate: Tolerance,
    },
    /// Changes nothing, and says what another policy would change.
    Plan {
        /// The policy's name, as for `maple run`; `null` means the running policy, loaded again.
        name: Option<String>,
    },
    /// Runs the policy of a plan, if that changes exactly what the plan says.
    Apply {
        /// The policy's name.
        name: String,
        /// The plan's fingerprint of the policy's files. Refused if the files are others now.
        sources: Fingerprint,
        /// The plan's fingerprint of the changes.
        changes: Fingerprint,
        /// The plan's decisions. Refused if the policy would decide something else now; without them, if anything has
        /// changed since.
        #[serde(default)]
        decided: Option<Vec<String>>,
        /// The ingress switches where the policy decides first; `null` means everywhere.
        #[serde(default)]
        canary: Option<CanaryAt>,
    },
    /// Lets a policy that runs at some switches run everywhere.
    Promote,
    /// Runs the policy again that ran before the last reload.
    Rollback,
}

/// A view to show. Some are of a switch, by its name or its datapath id in hex digits, or with `null` of all.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "show")]
pub enum Show {
    /// The rules of this switch, or of all.
    Rules(Option<String>),
    /// The switches with their ports.
    Switches,
    /// The sizes of the tables of this switch, or of all, and how full they are.
    Tables(Option<String>),
    /// The trace trees of this switch, or of all: what the policy has decided there, and what is unexplored.
    Tree(Option<String>),
    /// The labels of packets that arrive at this switch, or at any, from other switches.
    Labels(Option<String>),
    /// The port counters of this switch, or of all.
    Ports(Option<String>),
    /// The traffic between hosts that enters at this switch, or at any.
    Flows(Option<String>),
    /// The names of switches and hosts.
    Names,
    /// The links.
    Links,
    /// The switches at their places on a map, and the links with their load.
    Map,
    /// The hosts.
    Hosts,
    /// The multicast groups with their member ports.
    Groups,
    /// The DHCP leases.
    Leases,
    /// The controller's account of itself.
    Controller,
    /// The cluster of this controller: who is master, and which controllers are there.
    Cluster,
    /// The changes of the policy, tables and variables, with who made them and when.
    History,
    /// All counters.
    Stats,
    /// The most recent problems.
    Errors,
    /// The doctor's findings about the controller.
    Doctor,
    /// The version of the program, of the protocol, and the formats of files.
    Version,
    /// The access lists of the policy, with the packets that each rule has decided.
    #[serde(rename = "access_lists")]
    AccessLists,
    /// The source of the policy, with what rests on each line.
    Policy,
    /// The drops of this many minutes, the current one included, with their reasons.
    Dropped(#[schemars(range(min = 1, max = KEPT_MINUTES))] u64),
    /// Packets as they enter, with one answer for each, until the client closes.
    Live(Live),
    /// The moments of the last 24 hours that are kept, with the rates of that time.
    Time,
    /// The network at a moment, in milliseconds since 1970; `null` means as it is kept now.
    #[serde(rename = "time_at")]
    TimeAt(Option<u64>),
    /// The differences between two moments, and what happened between them.
    #[serde(rename = "time_changes")]
    TimeChanges(TimeSpan),
    /// The latest lines of the log as an array. With `true` each is an answer of its own, and new lines follow.
    Log(bool),
}

/// Two moments, in milliseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "span")]
pub struct TimeSpan {
    /// The earlier one; `null` means the first that is kept.
    pub from: Option<u64>,
    /// The later one; `null` means the last that is kept.
    pub to: Option<u64>,
}

/// The decisions to withdraw, so that the policy is asked again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "invalidate")]
pub enum Invalidate {
    /// All decisions.
    All,
    /// Decisions that concern the host with this name or hardware address.
    Host(String),
    /// Decisions that concern this port of this switch, which is a name or a datapath id in hex digits.
    Port(String, PortText),
}

/// A port as programs write it: its number, or the name of a reserved port as in answers, such as `LOCAL`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "must be a port's number, or the name of a reserved port")]
#[schemars(inline)]
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
    /// Whose fault it is.
    pub kind: RefusalKind,
}

/// Whether a request is at fault that is refused, or the state of the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RefusalKind {
    /// The request is wrong, whatever the state.
    Wrong,
    /// The request is right, and the state does not allow it.
    Conflict,
    /// This shard has not answered in time.
    Late(usize),
    /// The change is made, but not all that were asked have confirmed it.
    Unconfirmed,
    /// The moment that the request is about is not kept.
    NotKept,
    /// The disk has not answered in time.
    LateDisk,
}

impl RequestError {
    /// Reports whether the request is at fault, whatever the state.
    pub fn is_wrong(&self) -> bool {
        self.kind == RefusalKind::Wrong
    }

    /// Creates a refusal of the member at `field`.
    pub fn at(field: &str, text: String) -> RequestError {
        RequestError { field: field.to_owned(), text, kind: RefusalKind::Wrong }
    }

    /// Makes the error a refusal of another kind.
    pub fn of_kind(self, kind: RefusalKind) -> RequestError {
        RequestError { kind, ..self }
    }

    /// Encodes the refusal as an answer.
    pub fn to_json(&self) -> Value {
        json!({ "error": self.text, "field": self.field })
    }
}

impl From<LateShard> for RequestError {
    fn from(late: LateShard) -> RequestError {
        RequestError::at("", late.to_string()).of_kind(RefusalKind::Late(late.shard))
    }
}

/// Parses a line as a request.
pub(super) fn parse(line: &str) -> Result<Request, RequestError> {
    let json: Value =
        serde_json::from_str(line).map_err(|error| RequestError::at("", format!("not a request: {error}")))?;
    parse_value(json)
}

/// Parses JSON as a request.
pub(super) fn parse_value(json: Value) -> Result<Request, RequestError> {
    parse_as(json)
}

/// Parses JSON as a type of requests.
pub(super) fn parse_as<T: DeserializeOwned>(json: Value) -> Result<T, RequestError> {
    serde_path_to_error::deserialize(json).map_err(|error| {
        let (path, why) = (error.path().to_string(), in_words_of_json(&error.inner().to_string()));
        match path.as_str() {
            "." => RequestError::at("", format!("not a request: {why}")),
            field => RequestError::at(field, format!("{field}: {why}")),
        }
    })
}

/// Says an error of serde in words of JSON, where serde has those of Rust.
fn in_words_of_json(error: &str) -> String {
    let Some((what, expected)) = error.split_once(", expected ") else { return error.to_owned() };
    let what = match what {
        "invalid type: sequence" => "invalid type: array",
        "invalid type: map" => "invalid type: object",
        other => &other.replace("unknown variant", "unknown name"),
    };
    let expected = match expected {
        "map with a single key" => return "must have exactly one member".to_owned(),
        "newtype variant" | "struct variant" | "tuple variant" => {
            return "must be an object with this name and a value".to_owned();
        }
        "u8" | "u32" | "u64" => "a whole number",
        "string or map" => "a string or an object",
        "a sequence" => "an array",
        "a map" => "an object",
        other if other.starts_with("struct ") => "an object",
        other if other.starts_with("tuple ") => other.split_once(" with ").map_or(other, |(_, elements)| elements),
        other => other,
    };
    format!("{what}, expected {expected}")
}
