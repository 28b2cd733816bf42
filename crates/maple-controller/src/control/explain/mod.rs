//! Why a packet goes where it goes: the question of a request, and the answer as JSON and as text.
//!
//! f runs in the thread that answers, on a snapshot. Shards only look up what they have, between two of their turns.
//! [`ExplainedNetwork`] joins both. A switch is sent nothing, except requests for the counters of the rules on the
//! path.

mod json;
mod packet;
mod source_lines;
mod text;

use std::collections::BTreeMap;
use std::sync::Arc;

use maple_core::engine::{Engine, RuleCount, TableRule};
use maple_core::explain::{Admission, EnteringPacket, ExplainedNetwork, Explanation, LeafView, Passage};
use maple_core::network::{HostInfo, Location, Mac};
use maple_core::policy::Policy;
use maple_core::state::Snapshot;
use maple_wire::{Dpid, Version, parse_hex, print};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Handle;
use super::answer::flow;
use super::queries::LateShard;
use crate::names::Names;

pub use json::{AnswerContext, to_json};
pub use packet::{QuestionError, field_value};
pub(super) use source_lines::SourceLines;
pub use text::{to_text, written};

/// The maximum number of rules of an explanation whose counters are requested. Chosen: each is a question to a switch,
/// and a path of sixteen hops passes about four rules at each.
const MAX_COUNTED_RULES: usize = 64;

/// A question about a packet. What the question leaves open is filled in from what the network knows of the hosts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(inline)]
pub struct Explain {
    /// The sender: a host's name, hardware address or IP address, or a port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The receiver, given in any of these forms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// The port where the packet enters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// Values of its fields, by their names.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub fields: BTreeMap<String, String>,
    /// The whole frame as hex digits, in place of fields.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frame: Option<String>,
    /// Whether to ask the switches for counters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counters: Option<bool>,
}

/// A question about a rule: its cookie or its match says which one is meant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(inline)]
pub struct ExplainRule {
    /// The rule's cookie, as the switch reports it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cookie: Option<String>,
    /// The rule's match, as rules are printed.
    #[serde(skip_serializing_if = "Option::is_none", rename = "match")]
    pub matching: Option<String>,
    /// The switch that has the rule. Without it, the first switch that has one is taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub switch: Option<String>,
    /// Whether to ask the switches for counters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counters: Option<bool>,
}

/// A question that can be explained.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "explain")]
pub enum ExplainRequest {
    /// A packet.
    Packet(Explain),
    /// The packet that a rule was made for.
    Rule(ExplainRule),
}

/// ```
/// use maple_controller::control::explain::Explain;
///
/// let question: Explain = serde_json::from_str(r#"{"from": "h1", "to": "h2", "fields": {"tcp_dst": "80"}}"#)?;
/// assert_eq!(question.fields["tcp_dst"], "80");
/// # Ok::<(), serde_json::Error>(())
/// ```
impl Explain {
    /// Builds the packet that is meant, and lists what had to be assumed. `host` looks up what is known of a host.
    ///
    /// # Errors
    /// [`QuestionError`] if the question means no packet.
    pub fn packet(
        &self,
        state: &Snapshot,
        names: &Names,
        host: &dyn Fn(Mac) -> Option<HostInfo>,
    ) -> Result<(EnteringPacket, Vec<String>), QuestionError> {
        packet::from_question(self, state, names, host)
    }
}

/// The reason why a question has no answer.
#[derive(Debug)]
pub(super) enum Unanswered {
    /// The question is wrong.
    Question(QuestionError),
    /// A shard that was asked did not answer in time.
    Late(LateShard),
}

impl From<QuestionError> for Unanswered {
    fn from(error: QuestionError) -> Unanswered {
        Unanswered::Question(error)
    }
}

impl From<LateShard> for Unanswered {
    fn from(late: LateShard) -> Unanswered {
        Unanswered::Late(late)
    }
}

/// Answers a request.
pub(super) fn answer(handle: &Handle, request: &ExplainRequest) -> Result<Value, Unanswered> {
    let question = match request {
        ExplainRequest::Rule(question) => return of_rule(handle, question),
        ExplainRequest::Packet(question) => question,
    };
    let state = handle.snapshot();
    let (packet, assumed) = question.packet(&state, &handle.names(), &|mac| state.host(mac).cloned())?;
    let answer = explained(handle, packet, question.counters != Some(false))?;
    Ok(with_assumed(answer, &assumed))
}

/// Adds to an answer what had to be assumed of the packet.
pub fn with_assumed(mut answer: Value, assumed: &[String]) -> Value {
    if !assumed.is_empty() {
        answer["assumed"] = json!(assumed);
    }
    answer
}

/// Explains the witness packet that a rule was made for.
fn of_rule(handle: &Handle, question: &ExplainRule) -> Result<Value, Unanswered> {
    if question.cookie.is_none() && question.matching.is_none() {
        return Err(QuestionError::at("", "say which rule: by its cookie or its match").into());
    }
    let switches = match &question.switch {
        Some(text) => vec![handle.names().switch(text).map_err(|error| QuestionError::at("switch", error))?],
        None => handle.switches()?.iter().map(|switch| switch.dpid).collect(),
    };
    let cookie = question.cookie.as_deref().map(parse_cookie).transpose()?;
    for dpid in switches {
        let version = handle.switches()?.iter().find(|switch| switch.dpid == dpid).map(|switch| switch.version);
        let Some(version) = version else { continue };
        let is_meant = |rule: &TableRule| {
            cookie.is_none_or(|cookie| rule.rule.cookie == cookie)
                && question.matching.as_ref().is_none_or(|text| has_match(version, rule, text))
        };
        if let Some(rule) = handle.rules(dpid)?.into_iter().find(is_meant) {
            return Ok(of_this_rule(handle, dpid, version, &rule, question.counters != Some(false))?);
        }
    }
    let asked = [("cookie", &question.cookie), ("match", &question.matching)];
    let (field, text) = asked.into_iter().find(|(_, text)| text.is_some()).unwrap_or(asked[0]);
    let text = text.as_deref().unwrap_or_default();
    Err(QuestionError::at(field, format!("no switch has a rule of Maple's with {field} {text}")).into())
}

fn of_this_rule(
    handle: &Handle,
    dpid: Dpid,
    version: Version,
    rule: &TableRule,
    counters: bool,
) -> Result<Value, LateShard> {
    let witness = match rule.leaf {
        Some(leaf) => handle.inspect(dpid, move |engine: &Engine| engine.view().witness(leaf))?.flatten(),
        None => None,
    };
    let mut answer = match witness {
        Some(packet) => explained(handle, packet, counters)?,
        None => json!({}),
    };
    answer["of_rule"] = json!({ "switch": dpid.to_string(), "flow": flow(version, rule), "why": rule.why });
    Ok(answer)
}

fn parse_cookie(text: &str) -> Result<u64, QuestionError> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    parse_hex(digits)
        .ok_or_else(|| QuestionError::at("cookie", format!("{text:?} is not a cookie, such as 0x4d00010000000001")))
}

/// Reports whether a rule has the match of this text, in any order of the fields.
fn has_match(version: Version, rule: &TableRule, text: &str) -> bool {
    let parts = |text: &str| {
        let mut parts: Vec<String> = text.split(',').map(|part| part.trim().to_owned()).collect();
        parts.retain(|part| !part.is_empty());
        parts.sort();
        parts
    };
    parts(&print::matching(version, &rule.rule.matching)) == parts(text)
}

/// Explains a packet, with the counters of the rules on its path if wanted.
fn explained(handle: &Handle, packet: EnteringPacket, counters: bool) -> Result<Value, LateShard> {
    let explanation = handle.explain(packet)?;
    let counts = if counters { counts(handle, &explanation)? } else { RuleCounters::new() };
    let loaded = Some(handle.policy_loaded());
    Ok(to_json(&explanation, &AnswerContext { store: handle.store(), counts: &counts, loaded }))
}

/// The counters of rules, by the numbers of the hop and of the rule in it.
pub type RuleCounters = BTreeMap<(usize, usize), RuleCount>;

fn counts(handle: &Handle, explanation: &Explanation) -> Result<RuleCounters, LateShard> {
    let hops = explanation.journey.hops.iter().enumerate();
    let rules = hops.flat_map(|(number, hop)| {
        let rules = hop.passage.rules.iter().enumerate();
        rules.map(move |(at, rule)| ((number, at), (hop.at.switch, rule.table, rule.rule.clone())))
    });
    let (places, rules): (Vec<_>, Vec<_>) = rules.take(MAX_COUNTED_RULES).unzip();
    let counted = handle.count_rules(rules)?;
    Ok(places.into_iter().zip(counted).filter_map(|(place, count)| Some((place, count?))).collect())
}

impl Handle {
    /// Explains what becomes of a packet that enters the network at this moment.
    ///
    /// # Errors
    /// [`LateShard`] if a shard does not answer in time.
    pub fn explain(&self, packet: EnteringPacket) -> Result<Explanation, LateShard> {
        let conditions = self.inspect(packet.at.switch, |engine| engine.view().conditions())?.unwrap_or_default();
        let store = Arc::clone(self.store());
        let mut shards = ShardsAsNetwork { handle: self, late: None };
        let explanation = maple_core::explain::explain(&mut shards, &store, &conditions, packet);
        shards.late.map_or(Ok(explanation), Err)
    }
}

/// The shards of a running controller, as a network that packets enter.
struct ShardsAsNetwork<'a> {
    handle: &'a Handle,
    /// The first shard that was late, if one was. All that was found is then useless.
    late: Option<LateShard>,
}

impl ShardsAsNetwork<'_> {
    /// Inspects the engine of a switch. Returns `None` if no shard serves it, or one was late.
    fn inspect<T: Send + 'static>(
        &mut self,
        dpid: Dpid,
        look: impl FnOnce(&Engine) -> T + Send + 'static,
    ) -> Option<T> {
        if self.late.is_some() {
            return None;
        }
        self.handle.inspect(dpid, look).unwrap_or_else(|late| {
            self.late = Some(late);
            None
        })
    }
}

impl ExplainedNetwork for ShardsAsNetwork<'_> {
    fn policy(&mut self, at: Location) -> Option<Arc<dyn Policy>> {
        self.inspect(at.switch, |engine| Arc::clone(engine.policy()))
    }

    fn admit(&mut self, packet: &EnteringPacket) -> Admission {
        let packet = packet.clone();
        let admission = self.inspect(packet.at.switch, move |engine| engine.view().admit(&packet));
        admission.unwrap_or_else(|| Admission::Refused("the switch is not connected".into()))
    }

    fn leaf(&mut self, packet: &EnteringPacket, is_learned: bool) -> Option<LeafView> {
        let packet = packet.clone();
        self.inspect(packet.at.switch, move |engine| engine.view().leaf_view(&packet, is_learned)).flatten()
    }

    fn pass(&mut self, at: Location, frame: &[u8]) -> Option<Passage> {
        let frame = frame.to_vec();
        self.inspect(at.switch, move |engine| engine.view().passage(at, &frame)).flatten()
    }
}
