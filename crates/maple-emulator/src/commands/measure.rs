//! Pings and streams: measurements by hosts.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;

use maple_switch::time::{MILLISECOND, Nanoseconds, SECOND};
use maple_wire::Dpid;

use super::{CommandError, CommandRunner, FLOW_TIMEOUT, Ground};
use crate::emulated::{Drop, EmulatedNetwork};
use crate::host::{ATTEMPTS, FlowId, FlowKind, Progress, StreamSpec, Streamed};
use crate::quantity::{rate_text, time_text};

/// The maximum number of hosts for `pingall`, which then sends a million pings.
const MAX_PING_ALL: usize = 1000;
/// The length of a stream's frames in bytes: 10,000 bits, so that a rate is a round number of frames.
const FRAME: usize = 1250;
/// The maximum rate of a stream in bits a second: 100,000 frames, which bounds what a second costs to emulate.
const MAX_RATE: u64 = 1_000_000_000;

/// The result of pings from one host to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pinged {
    /// The host that sent requests.
    pub from: String,
    /// The host to which they were sent.
    pub to: String,
    /// The round-trip time of each answer in nanoseconds, in order; `None` if there was none.
    pub answers: Vec<Option<Nanoseconds>>,
    /// Whether the other host's hardware address was found.
    pub resolved: bool,
}

impl Pinged {
    /// Returns the number of answers.
    pub fn received(&self) -> usize {
        self.answers.iter().flatten().count()
    }

    pub(super) fn into_output(self) -> Result<String, CommandError> {
        if self.received() > 0 { Ok(self.to_string()) } else { Err(CommandError::Failed(self.to_string())) }
    }
}

impl fmt::Display for Pinged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sent, received) = (self.answers.len(), self.received());
        write!(f, "{} ping {}: ", self.from, self.to)?;
        let times: Vec<Nanoseconds> = self.answers.iter().flatten().copied().collect();
        match (times.iter().min(), times.iter().max()) {
            (Some(min), Some(max)) => {
                let mean = times.iter().sum::<Nanoseconds>() / times.len() as Nanoseconds;
                if sent == 1 {
                    return write!(f, "answered in {}", time_text(mean));
                }
                write!(f, "{received} of {sent} answered, ")?;
                write!(f, "after {} (from {} to {})", time_text(mean), time_text(*min), time_text(*max))
            }
            _ if !self.resolved => write!(f, "no answer: the address of {} was not resolved", self.to),
            _ => write!(f, "no answer to {sent} {}", if sent == 1 { "request" } else { "requests" }),
        }
    }
}

/// The result of every host's ping to every other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PingedAll {
    /// The number of requests.
    pub sent: usize,
    /// The pairs without an answer: the requesting host and the other one.
    pub failed: Vec<(String, String)>,
}

impl PingedAll {
    pub(super) fn into_output(self) -> Result<String, CommandError> {
        if self.failed.is_empty() { Ok(self.to_string()) } else { Err(CommandError::Failed(self.to_string())) }
    }
}

impl fmt::Display for PingedAll {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// The maximum number of pairs that the text names, so that it stays short; it counts the others.
        const EXAMPLES: usize = 10;
        write!(f, "pingall: {} of {} answered", self.sent - self.failed.len(), self.sent)?;
        if !self.failed.is_empty() {
            let pairs = self.failed.iter().take(EXAMPLES).map(|(from, to)| format!("{from} to {to}"));
            write!(f, "; none from {}", pairs.collect::<Vec<_>>().join(", "))?;
        }
        if self.failed.len() > EXAMPLES {
            write!(f, " and {} more", self.failed.len() - EXAMPLES)?;
        }
        Ok(())
    }
}

/// The result of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Streaming {
    /// The sending host.
    pub from: String,
    /// The receiving host.
    pub to: String,
    /// The offered rate, in bits a second.
    pub offered: u64,
    /// Frames sent.
    pub sent: u64,
    /// The received frames.
    pub arrived: Streamed,
    /// The duration.
    pub duration: Nanoseconds,
    /// All frames that were lost during the stream, by switch and reason.
    pub losses: BTreeMap<(String, String), u64>,
}

impl Streaming {
    /// Returns the received rate in bits a second.
    pub fn rate(&self) -> u64 {
        // The last frame's transmission ends one frame's time after it arrived.
        let span = (self.arrived.last - self.arrived.first) as u128;
        let span = match self.arrived.packets {
            0 => return 0,
            1 => u128::from(self.duration),
            packets => span * u128::from(packets) / u128::from(packets - 1),
        };
        (u128::from(self.arrived.bytes) * 8 * u128::from(SECOND) / span.max(u128::from(self.duration))) as u64
    }

    /// Returns the number of frames that did not arrive.
    pub fn lost(&self) -> u64 {
        self.sent.saturating_sub(self.arrived.packets)
    }

    pub(super) fn into_output(self) -> Result<String, CommandError> {
        if self.arrived.packets > 0 { Ok(self.to_string()) } else { Err(CommandError::Failed(self.to_string())) }
    }
}

impl fmt::Display for Streaming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} iperf {}: {} of {} arrived",
            self.from,
            self.to,
            rate_text(self.rate()),
            rate_text(self.offered)
        )?;
        write!(f, "; {} of {} frames lost", self.lost(), self.sent)?;
        if self.lost() > 0 {
            let losses = self.losses.iter().map(|((switch, why), count)| format!("{count} at {switch}, {why}"));
            let losses: Vec<String> = losses.collect();
            if !losses.is_empty() {
                write!(f, " ({})", losses.join("; "))?;
            }
        }
        Ok(())
    }
}

impl CommandRunner {
    /// Pings one host from another, `count` times, a second apart.
    ///
    /// # Errors
    /// [`CommandError`] if one of the hosts does not exist.
    pub fn ping(&self, ground: &mut impl Ground, from: &str, to: &str, count: u32) -> Result<Pinged, CommandError> {
        let (from, to) = self.two_hosts(from, to)?;
        let mut pinged = Pinged { from: from.into(), to: to.into(), answers: Vec::new(), resolved: true };
        for n in 0..count {
            let began = ground.with(|network| network.now())?;
            let (src, dst) = (from.to_string(), to.to_string());
            let flow = ground.with(move |network| network.open_flow_with(&src, &dst, FlowKind::Ping, false, 1))??;
            let (progress, took) = self.outcome(ground, from, flow)?;
            pinged.resolved = progress != Progress::NoNeighbour;
            pinged.answers.push((progress == Progress::Done).then_some(took));
            if !pinged.resolved {
                // Without an address nothing is sent. Further attempts would have the same result.
                pinged.answers.resize(count as usize, None);
                break;
            }
            let spent = ground.with(|network| network.now())? - began;
            if n + 1 < count && spent < SECOND {
                ground.pass(SECOND - spent)?;
            }
        }
        Ok(pinged)
    }

    /// Waits for the end of a host's flow. Returns its result and the time it took.
    fn outcome(
        &self,
        ground: &mut impl Ground,
        host: &str,
        flow: FlowId,
    ) -> Result<(Progress, Nanoseconds), CommandError> {
        let host = host.to_string();
        let ended = move |network: &EmulatedNetwork| {
            let record = network.host(&host)?.flow(flow)?;
            record.ended.map(|ended| (record.progress, ended - record.started))
        };
        Ok(self.until(ground, FLOW_TIMEOUT, ended)?.unwrap_or((Progress::NoAnswer, FLOW_TIMEOUT)))
    }

    /// Makes every host ping every other once. The pings of one host are sent together.
    ///
    /// # Errors
    /// [`CommandError`] for more than a thousand hosts.
    pub fn ping_all(&self, ground: &mut impl Ground) -> Result<PingedAll, CommandError> {
        let names: Vec<String> = self.topology.hosts.iter().map(|host| host.name.clone()).collect();
        if names.len() > MAX_PING_ALL {
            let count = names.len();
            return Err(CommandError::Wrong(format!(
                "pingall of {count} hosts is {} pings; it takes {MAX_PING_ALL} hosts at most",
                count * (count - 1)
            )));
        }
        let mut all = PingedAll::default();
        for from in &names {
            let (src, others) = (from.clone(), names.clone());
            let flows = ground.with(move |network| {
                let others = others.into_iter().filter(|to| *to != src);
                let open = |to: String| {
                    let flow = network.open_flow_with(&src, &to, FlowKind::Ping, false, ATTEMPTS)?;
                    Ok((to, flow))
                };
                others.map(open).collect::<Result<Vec<_>, crate::emulated::NetworkError>>()
            })??;
            all.sent += flows.len();
            let src = from.clone();
            let ids: Vec<FlowId> = flows.iter().map(|(_, flow)| *flow).collect();
            let ended = move |network: &EmulatedNetwork| {
                let host = network.host(&src)?;
                let progress: Vec<Progress> = ids.iter().filter_map(|id| Some(host.flow(*id)?.progress)).collect();
                (!progress.contains(&Progress::Running)).then_some(progress)
            };
            let progress = self.until(ground, FLOW_TIMEOUT, ended)?.unwrap_or_default();
            for (at, (to, _)) in flows.into_iter().enumerate() {
                if progress.get(at) != Some(&Progress::Done) {
                    all.failed.push((from.clone(), to));
                }
            }
        }
        Ok(all)
    }

    /// Makes one host send another a stream of datagrams. The rate is in bits a second.
    ///
    /// # Errors
    /// [`CommandError`] if one of them does not exist, no host answers for the receiver's address, or the rate is too
    /// high.
    pub fn iperf(
        &self,
        ground: &mut impl Ground,
        from: &str,
        to: &str,
        duration: Nanoseconds,
        rate: u64,
    ) -> Result<Streaming, CommandError> {
        let (from, to) = self.two_hosts(from, to)?;
        if rate > MAX_RATE || duration == 0 {
            let why =
                if duration == 0 { "0s is not a time".into() } else { format!("{} at most", rate_text(MAX_RATE)) };
            return Err(CommandError::Wrong(why));
        }
        let pinged = self.find(ground, from, to)?;
        if !pinged {
            return Err(CommandError::Failed(format!("{from} iperf {to}: the address of {to} was not resolved")));
        }
        let (src, dst) = (from.to_string(), to.to_string());
        let spec = StreamSpec { rate, duration, frame: FRAME };
        let (stream, before) = ground.with(move |network| {
            let before = network.losses().clone();
            network.start_stream(&src, &dst, spec).map(|stream| (stream, before))
        })??;
        ground.pass(duration)?;
        // Waits for frames that are still in queues.
        let (src, dst) = (from.to_string(), to.to_string());
        let count = move |network: &EmulatedNetwork| {
            let (sender, receiver) = (network.host(&src)?, network.host(&dst)?);
            let address = IpAddr::V4(sender.spec().ipv4);
            Some((sender.stream_sent(stream), receiver.streamed(address, stream)))
        };
        let mut last = None;
        for _ in 0..20 {
            let now = count.clone();
            let counted = ground.with(move |network| now(network))?;
            let is_all = counted.is_some_and(|(sent, arrived)| sent == arrived.packets);
            if is_all || (counted.is_some() && counted == last) {
                last = counted;
                break;
            }
            last = counted;
            ground.pass(250 * MILLISECOND)?;
        }
        let (sent, arrived) = last.unwrap_or_default();
        let losses = ground.with(|network| network.losses().clone())?;
        let losses = self.lost_since(&before, &losses);
        Ok(Streaming { from: from.into(), to: to.into(), offered: rate, sent, arrived, duration, losses })
    }

    /// Resolves the hardware address of one host from another. Reports whether it was found.
    fn find(&self, ground: &mut impl Ground, from: &str, to: &str) -> Result<bool, CommandError> {
        let (src, dst) = (from.to_string(), to.to_string());
        let is_known = move |network: &EmulatedNetwork| {
            let address = network.host(&dst).map(|host| IpAddr::V4(host.spec().ipv4));
            address.and_then(|address| network.host(&src)?.neighbour(address)).is_some()
        };
        let ask = is_known.clone();
        if ground.with(move |network| ask(network))? {
            return Ok(true);
        }
        let (src, dst) = (from.to_string(), to.to_string());
        let flow = ground.with(move |network| network.open_flow(&src, &dst, FlowKind::Ping, false))??;
        self.outcome(ground, from, flow)?;
        ground.with(move |network| is_known(network))
    }

    /// Returns the names of two different hosts.
    fn two_hosts(&self, from: &str, to: &str) -> Result<(&str, &str), CommandError> {
        let (from, to) = (self.host(from)?, self.host(to)?);
        if from == to { Err(CommandError::Wrong(format!("{from} would talk to itself"))) } else { Ok((from, to)) }
    }

    fn lost_since(
        &self,
        before: &BTreeMap<(Dpid, Drop), u64>,
        after: &BTreeMap<(Dpid, Drop), u64>,
    ) -> BTreeMap<(String, String), u64> {
        let mut losses = BTreeMap::new();
        for ((dpid, why), count) in after {
            let more = count - before.get(&(*dpid, *why)).unwrap_or(&0);
            if more > 0 {
                *losses.entry((self.name(*dpid), why.to_string())).or_default() += more;
            }
        }
        losses
    }

    /// Lists the losses since the beginning, one line for each switch and reason.
    pub(super) fn losses(&self, ground: &mut impl Ground) -> Result<String, CommandError> {
        let losses = ground.with(|network| network.losses().clone())?;
        let lines: BTreeSet<String> = self
            .lost_since(&BTreeMap::new(), &losses)
            .into_iter()
            .map(|((switch, why), count)| format!("{switch:<8} {count:>9}  {why}"))
            .collect();
        Ok(lines.into_iter().collect::<Vec<_>>().join("\n"))
    }
}
