//! Statistics of single rules (1.0 §5.3.5, 1.3 §7.3.5.2).

use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::flow::{Instruction, Match};
use crate::msg::Version;
use crate::msg::bytes::{Element, Put, Reader, unsupported};
use crate::msg::wire::Wire;
use crate::msg::{ALL_TABLES, ANY_GROUP};
use crate::msg::{instruction, matching};
use crate::port::PortNo;

/// The rules that a flow or aggregate request is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowStatsRequest {
    /// The table; 0xff means all.
    pub table_id: u8,
    /// The port to which the rules must output; [`PortNo::ANY`] admits any.
    pub out_port: PortNo,
    /// The group that the rules must use; 0xffff_ffff admits any (1.3).
    pub out_group: u32,
    /// The cookie with which the rules' cookies must agree in the bits of `cookie_mask`.
    pub cookie: u64,
    /// The bits of the cookie that count (1.3; 0 in 1.0).
    pub cookie_mask: u64,
    /// The match that must cover the rules' matches.
    pub matching: Match,
}

/// The switch's report about a rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
            table_id: ALL_TABLES,
            out_port: PortNo::ANY,
            out_group: ANY_GROUP,
            cookie: 0,
            cookie_mask: 0,
            matching: Match::any(),
        }
    }
}

impl Wire for FlowStatsRequest {
    const MIN: [usize; 2] = [44, 32];

    fn read(reader: &mut Reader<'_>) -> Result<FlowStatsRequest> {
        reader.need(Self::MIN)?;
        if reader.is_10() {
            let (matching, [table_id, _]) = (Match::read(reader)?, reader.array()?);
            let out_port = PortNo::read(reader)?;
            return Ok(FlowStatsRequest { table_id, out_port, matching, ..FlowStatsRequest::all() });
        }
        let [table_id, ..]: [u8; 4] = reader.array()?;
        let (out_port, out_group) = (PortNo::read(reader)?, reader.u32()?);
        reader.take(4)?;
        let (cookie, cookie_mask) = (reader.u64()?, reader.u64()?);
        Ok(FlowStatsRequest { table_id, out_port, out_group, cookie, cookie_mask, matching: Match::read(reader)? })
    }

    fn write(&self, version: Version, out: &mut Vec<u8>) -> Result<()> {
        if version == Version::Of13 {
            out.put(&[self.table_id, 0, 0, 0]);
            self.out_port.write(version, out)?;
            out.put_u32(self.out_group);
            out.put_zeros(4);
            out.put_u64(self.cookie);
            out.put_u64(self.cookie_mask);
            return self.matching.write(version, out);
        }
        if self.cookie_mask != 0 || self.out_group != ANY_GROUP {
            return unsupported(version, "statistics of the rules with a cookie or group");
        }
        self.matching.write(version, out)?;
        out.put(&[self.table_id, 0]);
        self.out_port.write(version, out)
    }
}

impl Wire for FlowStats {
    const MIN: [usize; 2] = [88, 48];
    const ELEMENT: Option<Element> = Some(Element::new("flow statistics", 0));

    fn read(reader: &mut Reader<'_>) -> Result<FlowStats> {
        let [_, _, table_id, _] = reader.array()?;
        // The match comes before the counters in 1.0, and after them in 1.3. 1.0 has padding in place of the flags.
        let before: Option<Match> = reader.only_10()?;
        let (duration_sec, duration_nsec) = (reader.u32()?, reader.u32()?);
        let (priority, idle_timeout, hard_timeout) = (reader.u16()?, reader.u16()?, reader.u16()?);
        let flags = reader.u16().map(|flags| if before.is_some() { 0 } else { flags })?;
        reader.take(4)?;
        Ok(FlowStats {
            table_id,
            duration_sec,
            duration_nsec,
            priority,
            idle_timeout,
            hard_timeout,
            flags,
            cookie: reader.u64()?,
            packet_count: reader.u64()?,
            byte_count: reader.u64()?,
            matching: before.map_or_else(|| Match::read(reader), Ok)?,
            instructions: instruction::read_rule(reader)?,
        })
    }

    fn write(&self, version: Version, out: &mut Vec<u8>) -> Result<()> {
        let in10 = version == Version::Of10;
        out.put(&[0, 0, self.table_id, 0]);
        if in10 {
            matching::write_reported(&self.matching, version, out)?;
        }
        out.put_u32(self.duration_sec);
        out.put_u32(self.duration_nsec);
        out.put_u16(self.priority);
        out.put_u16(self.idle_timeout);
        out.put_u16(self.hard_timeout);
        out.put_u16(if in10 { 0 } else { self.flags });
        out.put_zeros(4);
        out.put_u64(self.cookie);
        out.put_u64(self.packet_count);
        out.put_u64(self.byte_count);
        if !in10 {
            matching::write_reported(&self.matching, version, out)?;
        }
        instruction::write_rule(&self.instructions, version, out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::msg::Message;
    use crate::msg::stats::{ReplyBody, RequestBody, StatsReply, StatsRequest};
    use crate::msg::test::{check, check_unsupported, hex};
    use crate::{Action, Field};

    const ANY_10: &str =
        "003820ff 0000 000000000000 000000000000 0000 00 00 0000 00 00 0000 00000000 00000000 0000 0000";

    #[test]
    fn requests_for_all_rules_are_written_in_both_versions() {
        let request = Message::StatsRequest(StatsRequest::new(RequestBody::Flow(FlowStatsRequest::all())));
        check(Version::Of10, &format!("01 10 0038 00000001 0001 0000 {ANY_10} ff 00 ffff"), request.clone());
        let of13 = "04 12 0038 00000001 0001 0000 00000000
            ff 000000 ffffffff ffffffff 00000000 0000000000000000 0000000000000000 0001 0004 00000000";
        check(Version::Of13, of13, request);
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
    }

    #[test]
    fn rules_of_length_zero_are_refused() {
        let mut bytes = hex(OF13);
        bytes[16..18].copy_from_slice(&[0, 0]);
        assert!(Message::decode(&bytes).is_err());
    }
}
