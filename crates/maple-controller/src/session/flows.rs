//! Reading all rules of a switch, which may take many parts.

use maple_core::engine::{InstalledFlow, Time};
use maple_wire::msg::StatsReply;
use maple_wire::msg::stats::{FlowStats, FlowStatsRequest, ReplyBody, RequestBody};

use super::describe::stats_request;
use super::{CloseReason, Output, Session};
use crate::time::after;

/// Most rules that a switch may report.
const MAX_FLOWS: usize = 1 << 21;

/// A reading in progress.
#[derive(Debug)]
pub(super) struct FlowReading {
    xid: u32,
    flows: Vec<InstalledFlow>,
    /// Until when the next part must be there.
    deadline: Time,
}

impl FlowReading {
    pub(super) fn deadline(&self) -> Time {
        self.deadline
    }

    pub(super) fn is_about(&self, xid: u32) -> bool {
        self.xid == xid
    }
}

impl Session {
    /// Asks for all rules; [`Output::Flows`] follows. A reading that is in progress is begun again.
    pub fn read_flows(&mut self, now: Time, out: &mut Vec<Output>) {
        let xid = self.request(stats_request(RequestBody::Flow(FlowStatsRequest::all())), out);
        self.reading = Some(FlowReading { xid, flows: Vec::new(), deadline: after(now, self.deadlines.request) });
    }

    /// One part of the rules.
    pub(super) fn flows_part(&mut self, now: Time, reply: StatsReply, out: &mut Vec<Output>) {
        let Some(reading) = &mut self.reading else { return };
        let more = reply.more();
        let ReplyBody::Flow(part) = reply.body else { return };
        if reading.flows.len() + part.len() > MAX_FLOWS {
            return self.end(CloseReason::TooMany("rules", MAX_FLOWS), out);
        }
        reading.flows.extend(part.into_iter().map(installed));
        reading.deadline = after(now, self.deadlines.request);
        if !more {
            let flows = std::mem::take(&mut reading.flows);
            self.reading = None;
            out.push(Output::Flows(flows));
        }
    }
}

fn installed(flow: FlowStats) -> InstalledFlow {
    InstalledFlow {
        table_id: flow.table_id,
        priority: flow.priority,
        cookie: flow.cookie,
        matching: flow.matching,
        instructions: flow.instructions,
    }
}
