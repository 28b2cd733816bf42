//! Statistics of single rules (1.0 §5.3.5, 1.3 §7.3.5.2).

use crate::error::Result;
use crate::flow::{Instruction, Match};
use crate::msg::Version;
use crate::msg::bytes::{Elements, Layout, Put, at_least, exactly, u16_at, u32_at, u64_at, unsupported};
use crate::msg::instruction;
use crate::msg::matching::{self, MatchView, OF10_LEN};
use crate::msg::port_desc::{number_at, number10};
use crate::port::PortNo;

mod request10 {
    pub const MATCH: usize = 0;
    pub const TABLE_ID: usize = 40;
    pub const OUT_PORT: usize = 42;
    pub const END: usize = 44;
}

mod request13 {
    pub const TABLE_ID: usize = 0;
    pub const OUT_PORT: usize = 4;
    pub const OUT_GROUP: usize = 8;
    pub const COOKIE: usize = 16;
    pub const COOKIE_MASK: usize = 24;
    pub const MATCH: usize = 32;
}

/// Offsets in a rule's statistics that are equal in both versions.
mod offset {
    pub const LENGTH: usize = 0;
    pub const TABLE_ID: usize = 2;
}

mod offset10 {
    pub const MATCH: usize = 4;
    pub const DURATION: usize = 44;
    pub const COUNTERS: usize = 64;
    pub const ACTIONS: usize = 88;
}

mod offset13 {
    pub const DURATION: usize = 4;
    pub const FLAGS: usize = 18;
    pub const COUNTERS: usize = 24;
    pub const MATCH: usize = 48;
}

/// Offsets from the duration.
mod from_duration {
    pub const NSEC: usize = 4;
    pub const PRIORITY: usize = 8;
    pub const IDLE_TIMEOUT: usize = 10;
    pub const HARD_TIMEOUT: usize = 12;
}

/// No restriction to a group (`OFPG_ANY`).
const GROUP_ANY: u32 = 0xffff_ffff;
/// All tables (`OFPTT_ALL`).
const TABLE_ALL: u8 = 0xff;

const LAYOUT_10: Layout = layout(offset10::ACTIONS);
const LAYOUT_13: Layout = layout(offset13::MATCH);

const fn layout(min: usize) -> Layout {
    Layout { what: "flow statistics", length_at: offset::LENGTH, min, multiple: 1, pad_to: 1 }
}

/// The rules that a flow or aggregate request is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowStatsRequest {
    /// The table; 0xff means all.
    pub table_id: u8,
    /// The port to which the rules must output; [`PortNo::ANY`] is no restriction.
    pub out_port: PortNo,
    /// The group that the rules must use; 0xffff_ffff is no restriction (1.3).
    pub out_group: u32,
    /// The cookie with which the rules' cookies must agree in the bits of `cookie_mask`.
    pub cookie: u64,
    /// The bits of the cookie that count (1.3; 0 in 1.0).
    pub cookie_mask: u64,
    /// The match that must cover the rules' matches.
    pub matching: Match,
}

/// The switch's report about a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowStats {
    /// The rule's table.
    pub table_id: u8,
    /// Seconds since the rule was added.
    pub duration_sec: u32,
    /// Nanoseconds beyond `duration_sec`.
    pub duration_nsec: u32,
    /// The rule's priority.
    pub priority: u16,
    /// The rule's idle timeout in seconds.
    pub idle_timeout: u16,
    /// The rule's hard timeout in seconds.
    pub hard_timeout: u16,
    /// Bits of `OFPFF_*` (1.3; 0 in 1.0, which does not have them).
    pub flags: u16,
    /// The rule's cookie.
    pub cookie: u64,
    /// Packets that the rule took.
    pub packet_count: u64,
    /// Bytes that the rule took.
    pub byte_count: u64,
    /// The rule's match.
    pub matching: Match,
    /// The rule's instructions.
    pub instructions: Vec<Instruction>,
}

impl FlowStatsRequest {
    /// Creates a request for all rules of all tables.
    pub fn all() -> FlowStatsRequest {
        FlowStatsRequest {
            table_id: TABLE_ALL,
            out_port: PortNo::ANY,
            out_group: GROUP_ANY,
            cookie: 0,
            cookie_mask: 0,
            matching: Match::any(),
        }
    }

    /// Reads the body of a request.
    pub(super) fn parse(version: Version, body: &[u8]) -> Result<FlowStatsRequest> {
        let what = "flow statistics request";
        match version {
            Version::Of10 => {
                exactly(what, body, request10::END)?;
                Ok(FlowStatsRequest {
                    table_id: body[request10::TABLE_ID],
                    out_port: number_at(version, body, request10::OUT_PORT),
                    matching: MatchView::first(version, &body[request10::MATCH..])?.to_match()?,
                    ..FlowStatsRequest::all()
                })
            }
            Version::Of13 => {
                at_least(what, body, request13::MATCH)?;
                let matching = MatchView::first(version, &body[request13::MATCH..])?;
                exactly(what, body, request13::MATCH + matching.len_padded())?;
                Ok(FlowStatsRequest {
                    table_id: body[request13::TABLE_ID],
                    out_port: number_at(version, body, request13::OUT_PORT),
                    out_group: u32_at(body, request13::OUT_GROUP),
                    cookie: u64_at(body, request13::COOKIE),
                    cookie_mask: u64_at(body, request13::COOKIE_MASK),
                    matching: matching.to_match()?,
                })
            }
        }
    }

    pub(super) fn emit(&self, version: Version, out: &mut Vec<u8>) -> Result<()> {
        if version == Version::Of13 {
            out.put_u8(self.table_id);
            out.put_zeros(3);
            out.put_u32(self.out_port.0);
            out.put_u32(self.out_group);
            out.put_zeros(4);
            out.put_u64(self.cookie);
            out.put_u64(self.cookie_mask);
            return matching::emit(&self.matching, version, out);
        }
        if self.cookie_mask != 0 || self.out_group != GROUP_ANY {
            return unsupported(version, "statistics of the rules with a cookie or group");
        }
        matching::emit(&self.matching, version, out)?;
        out.put_u8(self.table_id);
        out.put_zeros(1);
        out.put_u16(number10(self.out_port)?);
        Ok(())
    }
}

/// A view of the switch's report about a rule.
#[derive(Clone, Copy, Debug)]
pub struct FlowStatsView<'a> {
    version: Version,
    bytes: &'a [u8],
}

impl<'a> FlowStatsView<'a> {
    /// Iterates over the rules that lie one after the other in `bytes`; the first error is the last item.
    pub fn list(version: Version, bytes: &'a [u8]) -> impl Iterator<Item = Result<FlowStatsView<'a>>> {
        Elements::new(if version == Version::Of10 { LAYOUT_10 } else { LAYOUT_13 }, bytes)
            .map(move |bytes| bytes.map(|bytes| FlowStatsView { version, bytes }))
    }

    fn is_10(&self) -> bool {
        self.version == Version::Of10
    }

    /// Returns the bytes from the duration on.
    fn timing(&self) -> &'a [u8] {
        &self.bytes[if self.is_10() { offset10::DURATION } else { offset13::DURATION }..]
    }

    /// Returns a counter: 0 is the cookie, 1 the packet count, 2 the byte count.
    fn counter(&self, n: usize) -> u64 {
        u64_at(self.bytes, 8 * n + if self.is_10() { offset10::COUNTERS } else { offset13::COUNTERS })
    }

    /// Returns the rule's table.
    pub fn table_id(&self) -> u8 {
        self.bytes[offset::TABLE_ID]
    }

    /// Returns the seconds since the rule was added, and the nanoseconds beyond.
    pub fn duration(&self) -> (u32, u32) {
        (u32_at(self.timing(), 0), u32_at(self.timing(), from_duration::NSEC))
    }

    /// Returns the rule's priority.
    pub fn priority(&self) -> u16 {
        u16_at(self.timing(), from_duration::PRIORITY)
    }

    /// Returns the rule's idle timeout in seconds.
    pub fn idle_timeout(&self) -> u16 {
        u16_at(self.timing(), from_duration::IDLE_TIMEOUT)
    }

    /// Returns the rule's hard timeout in seconds.
    pub fn hard_timeout(&self) -> u16 {
        u16_at(self.timing(), from_duration::HARD_TIMEOUT)
    }

    /// Returns bits of `OFPFF_*`; 0 in 1.0.
    pub fn flags(&self) -> u16 {
        if self.is_10() { 0 } else { u16_at(self.bytes, offset13::FLAGS) }
    }

    /// Returns the rule's cookie.
    pub fn cookie(&self) -> u64 {
        self.counter(0)
    }

    /// Returns the number of packets that the rule took.
    pub fn packet_count(&self) -> u64 {
        self.counter(1)
    }

    /// Returns the number of bytes that the rule took.
    pub fn byte_count(&self) -> u64 {
        self.counter(2)
    }

    /// Returns the rule's match.
    ///
    /// # Errors
    /// The errors of [`MatchView::first`].
    pub fn matching(&self) -> Result<MatchView<'a>> {
        MatchView::first(self.version, &self.bytes[if self.is_10() { offset10::MATCH } else { offset13::MATCH }..])
    }

    /// Reads the rule's instructions.
    ///
    /// # Errors
    /// The errors of [`FlowStatsView::matching`], and the error of the first instruction or action that is malformed.
    pub fn instructions(&self) -> Result<Vec<Instruction>> {
        let at = if self.is_10() { offset10::ACTIONS } else { offset13::MATCH + self.matching()?.len_padded() };
        instruction::parse_list(self.version, &self.bytes[at..])
    }
}

impl FlowStats {
    /// Reads the owned form.
    ///
    /// # Errors
    /// The errors of [`FlowStatsView::instructions`], and that of the first entry of the match that is malformed.
    pub fn parse(view: &FlowStatsView<'_>) -> Result<FlowStats> {
        let (duration_sec, duration_nsec) = view.duration();
        Ok(FlowStats {
            table_id: view.table_id(),
            duration_sec,
            duration_nsec,
            priority: view.priority(),
            idle_timeout: view.idle_timeout(),
            hard_timeout: view.hard_timeout(),
            flags: view.flags(),
            cookie: view.cookie(),
            packet_count: view.packet_count(),
            byte_count: view.byte_count(),
            matching: view.matching()?.to_match()?,
            instructions: view.instructions()?,
        })
    }

    /// Reads the body of a reply.
    pub(super) fn parse_list(version: Version, body: &[u8]) -> Result<Vec<FlowStats>> {
        FlowStatsView::list(version, body).map(|flow| FlowStats::parse(&flow?)).collect()
    }

    pub(super) fn emit(&self, version: Version, out: &mut Vec<u8>) -> Result<()> {
        let of10 = version == Version::Of10;
        out.put_sized(offset::LENGTH, |out| {
            out.put_u16(0);
            out.put_u8(self.table_id);
            out.put_zeros(1);
            if of10 {
                matching::emit_reported(&self.matching, version, out)?;
            }
            out.put_u32(self.duration_sec);
            out.put_u32(self.duration_nsec);
            out.put_u16(self.priority);
            out.put_u16(self.idle_timeout);
            out.put_u16(self.hard_timeout);
            out.put_u16(if of10 { 0 } else { self.flags });
            out.put_zeros(4);
            out.put_u64(self.cookie);
            out.put_u64(self.packet_count);
            out.put_u64(self.byte_count);
            if !of10 {
                matching::emit_reported(&self.matching, version, out)?;
            }
            instruction::emit_list(&self.instructions, version, out)
        })
    }
}

// The 1.0 match must end where the duration starts.
const _: () = assert!(offset10::MATCH + OF10_LEN == offset10::DURATION);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::msg::Message;
    use crate::msg::stats::{ReplyBody, RequestBody, StatsReply, StatsRequest, StatsView};
    use crate::msg::test::{check, check_truncated, check_unsupported, hex};
    use crate::{Action, Field};

    const ANY_10: &str =
        "003820ff 0000 000000000000 000000000000 0000 00 00 0000 00 00 0000 00000000 00000000 0000 0000";

    #[test]
    fn all_rules_are_asked_for_in_both_versions() {
        let request = Message::StatsRequest(StatsRequest::new(RequestBody::Flow(FlowStatsRequest::all())));
        check(Version::Of10, &format!("01 10 0038 00000001 0001 0000 {ANY_10} ff 00 ffff"), request.clone());
        let of13 = "04 12 0038 00000001 0001 0000 00000000
            ff 000000 ffffffff ffffffff 00000000 0000000000000000 0000000000000000 0001 0004 00000000";
        check(Version::Of13, of13, request);
        check_truncated(of13);
        let by_cookie = FlowStatsRequest { cookie: 1, cookie_mask: 1, ..FlowStatsRequest::all() };
        check_unsupported(Version::Of10, Message::StatsRequest(StatsRequest::new(RequestBody::Aggregate(by_cookie))));
    }

    fn rule(flags: u16, matching: Match) -> FlowStats {
        FlowStats {
            table_id: 2,
            duration_sec: 10,
            duration_nsec: 20,
            priority: 100,
            idle_timeout: 30,
            hard_timeout: 40,
            flags,
            cookie: 0xab,
            packet_count: 7,
            byte_count: 700,
            matching,
            instructions: vec![Instruction::ApplyActions(vec![Action::output(PortNo(1))])],
        }
    }

    #[test]
    fn rules_are_read_in_1_0() {
        let rule_bytes = format!(
            "0060 02 00 {ANY_10} 0000000a 00000014 0064 001e 0028 000000000000
             00000000000000ab 0000000000000007 00000000000002bc 0000 0008 0001 0000"
        );
        let bytes = format!("01 11 00cc 00000001 0001 0000 {rule_bytes} {rule_bytes}");
        let rules = vec![rule(0, Match::any()), rule(0, Match::any())];
        check(Version::Of10, &bytes, Message::StatsReply(StatsReply::new(ReplyBody::Flow(rules))));
        check_truncated(&bytes);
    }

    const OF13: &str = "04 13 0068 00000001 0001 0000 00000000
        0058 02 00 0000000a 00000014 0064 001e 0028 0001 00000000
        00000000000000ab 0000000000000007 00000000000002bc
        0001 000c 80000004 00000003 00000000
        0004 0018 00000000 0000 0010 00000001 0000 000000000000";

    #[test]
    fn rules_are_read_in_1_3() {
        let rules = vec![rule(1, Match::any().exact(Field::InPort, 3))];
        check(Version::Of13, OF13, Message::StatsReply(StatsReply::new(ReplyBody::Flow(rules))));
        check_truncated(OF13);
    }

    #[test]
    fn rules_are_read_in_place() {
        let bytes = hex(OF13);
        let view = StatsView::new_checked(Version::Of13, &bytes).unwrap();
        let flows: Vec<_> = view.flows().map(|flow| flow.map(|f| (f.cookie(), f.priority(), f.byte_count()))).collect();
        assert_eq!(flows, [Ok((0xab, 100, 700))]);
    }

    #[test]
    fn rules_of_length_zero_are_refused() {
        let mut bytes = hex(OF13);
        bytes[16..18].copy_from_slice(&[0, 0]);
        assert!(Message::decode(&bytes).is_err());
    }
}
