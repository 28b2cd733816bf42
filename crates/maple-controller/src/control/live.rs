//! `maple explain --live`: real packets of one kind, as they enter the network.
//!
//! The client's thread asks the shard of the sender's switch for copies, and reports to it twice a second that the
//! client still watches. When the client goes, the watch ends. If this thread or the whole controller ends, the watch
//! ends by itself. If the host moves, the watch moves too.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use crossbeam_channel::{Receiver, RecvTimeoutError, bounded};
use maple_core::engine::{LiveAnswer, LiveFilter, LiveNews, ShardId};
use maple_core::network::{Location, Mac};
use maple_wire::packet::text::summary;
use maple_wire::{Constraint, Field, Packet};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Handle;
use super::answer::{location, milliseconds};
use super::explain::field_value;
use super::request::RequestError;
use crate::shard::mailbox::{ShardMessage, ShardQuery};

/// The time between two checks that the client is there, after which the shard is notified that it is. It must be less
/// than half of the time after which the shard ends a watch of which it hears nothing, 3 seconds.
const CLIENT_CHECK: Duration = Duration::from_millis(500);
/// The maximum number of pieces of news that wait for a slow client. More than that is dropped. Chosen: the copies that
/// a watch gets in twelve seconds, at 20 a second.
const MAX_NEWS: usize = 256;

/// A kind of packets to watch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub struct Live {
    /// The sender: a host's name, hardware address, or IP address.
    pub from: String,
    /// The receiver: a host's name, hardware address, or IP address; any host if it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Values of fields, by their names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub fields: BTreeMap<String, String>,
}

/// A watch at a shard. It ends when this is dropped.
struct Watch<'a> {
    handle: &'a Handle,
    shard: ShardId,
    token: u64,
    news: Receiver<LiveNews>,
}

impl<'a> Watch<'a> {
    /// Begins a watch. Returns `None` if no shard serves the switch.
    fn begin(handle: &'a Handle, filter: LiveFilter) -> Option<Watch<'a>> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let token = NEXT.fetch_add(1, Ordering::Relaxed);
        let shard = handle.shared.registry.shard_of(filter.at.switch)?;
        let (sender, news) = bounded(MAX_NEWS);
        let watch = Watch { handle, shard, token, news };
        watch.send(ShardMessage::Query(ShardQuery::Live(token, filter, sender))).then_some(watch)
    }

    fn prolong(&self) -> bool {
        self.send(ShardMessage::Query(ShardQuery::LiveGoOn(self.token)))
    }

    fn send(&self, message: ShardMessage) -> bool {
        self.handle.shared.mailboxes.get(usize::from(self.shard.0)).is_some_and(|mailbox| mailbox.send(message))
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        // A controller that has stopped has no watches to end.
        self.send(ShardMessage::Query(ShardQuery::LiveEnd(self.token)));
    }
}

/// Calls `send` with each piece of news until it returns `false`. Between news it calls `send` with `None`, to check
/// whether the client is still connected.
pub(super) fn follow(
    handle: &Handle,
    question: &Live,
    mut send: impl FnMut(Option<Value>) -> bool,
) -> Result<(), RequestError> {
    let from = host(handle, "from", &question.from)?;
    let fields = constraints(handle, question)?;
    let mut is_absent_reported = false;
    loop {
        let at = handle.snapshot().host(from).map(|host| host.location);
        let watch = at.and_then(|at| Watch::begin(handle, LiveFilter { at, from, fields: fields.clone() }));
        let (Some(watch), Some(at)) = (watch, at) else {
            let news = (!is_absent_reported).then(|| absent(from));
            is_absent_reported = true;
            if !send(news) {
                return Ok(());
            }
            std::thread::sleep(CLIENT_CHECK);
            continue;
        };
        is_absent_reported = false;
        if !stay(&watch, from, at, &mut send) {
            return Ok(());
        }
    }
}

/// Sends the client the news of a watch while the host `from` is at this port. Returns `false` when the client or the
/// controller has gone, or the watch was refused.
fn stay(watch: &Watch<'_>, from: Mac, at: Location, send: &mut impl FnMut(Option<Value>) -> bool) -> bool {
    let mut looked: Option<Instant> = None;
    loop {
        if looked.is_none_or(|looked| looked.elapsed() >= CLIENT_CHECK) {
            looked = Some(Instant::now());
            let is_here = watch.handle.snapshot().host(from).is_some_and(|host| host.location == at);
            let is_served = watch.handle.shared.registry.shard_of(at.switch) == Some(watch.shard);
            if !send(None) || !watch.prolong() {
                return false;
            }
            if !is_here || !is_served {
                return true;
            }
        }
        match watch.news.recv_timeout(CLIENT_CHECK) {
            Ok(news) => {
                let is_last = matches!(news, LiveNews::Refused(_));
                if !send(Some(news_as_json(&news, at))) || is_last {
                    return false;
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            // Another shard serves the switch.
            Err(RecvTimeoutError::Disconnected) => return true,
        }
    }
}

fn absent(from: Mac) -> Value {
    let why = format!("it is not known where {from} is, or its switch is not connected");
    json!({ "time": milliseconds(SystemTime::now()), "news": "not now", "why": why })
}

/// Encodes a piece of news.
fn news_as_json(news: &LiveNews, at: Location) -> Value {
    let (word, why) = match news {
        LiveNews::Watching => ("watching", None),
        LiveNews::Packet { .. } => ("packet", None),
        LiveNews::TooMany => ("too many", Some("more packets come than are copied in a second".to_owned())),
        LiveNews::NotNow(obstacle) => ("not now", Some(obstacle.to_string())),
        LiveNews::Refused(obstacle) => ("refused", Some(obstacle.to_string())),
    };
    let mut all = json!({ "time": milliseconds(SystemTime::now()), "news": word, "at": location(at) });
    if let Some(why) = why {
        all["why"] = why.into();
    }
    if let LiveNews::Packet { frame, total_len, leaf } = news {
        all["packet"] = summary(&Packet::with_wire_len(frame, at.port.0, *total_len)).into();
        all["bytes"] = (*total_len).into();
        let verdict = |leaf: &LiveAnswer| if leaf.drops { "dropped" } else { "forwarded" };
        all["verdict"] = leaf.as_ref().map_or("undecided", verdict).into();
        let origin = leaf.as_ref().map(|leaf| &leaf.origin);
        all["line"] = origin.and_then(|origin| origin.line.as_ref()).map(ToString::to_string).into();
        all["constraint"] = origin.and_then(|origin| origin.constraint.as_deref()).into();
    }
    all
}

fn host(handle: &Handle, field: &str, text: &str) -> Result<Mac, RequestError> {
    if let Ok(ip) = text.parse::<IpAddr>() {
        let unknown = || RequestError::at(&format!("show.live.{field}"), format!("no host is known to have {ip}"));
        return handle.snapshot().host_by_ip(ip).ok_or_else(unknown);
    }
    handle.names().host(text).map_err(|error| RequestError::at(&format!("show.live.{field}"), error))
}

fn constraints(handle: &Handle, question: &Live) -> Result<Vec<Constraint>, RequestError> {
    let mut all = Vec::new();
    if let Some(to) = &question.to {
        all.push(Constraint::exact(Field::EthDst, host(handle, "to", to)?.bits()));
    }
    for (name, value) in &question.fields {
        let refuse = |error: String| RequestError::at(&format!("show.live.fields.{name}"), error);
        let (field, value) = field_value(name, value).map_err(refuse)?;
        if matches!(field, Field::InPort | Field::EthSrc | Field::Metadata | Field::InPhyPort | Field::TunnelId) {
            return Err(refuse(format!("{name} follows from the sender, or no packet has it")));
        }
        all.push(Constraint::exact(field, value));
    }
    Ok(all)
}
