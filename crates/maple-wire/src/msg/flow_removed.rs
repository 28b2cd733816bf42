//! Flow-removed: the report that a rule was removed (1.0 §5.4.2, 1.3 §7.4.2).

use super::Version;
use super::bytes::{Put, at_least, exactly, u16_at, u32_at, u64_at};
use super::matching::{self, MatchView};
use crate::error::Result;
use crate::flow::Match;

mod offset10 {
    pub const MATCH: usize = 8;
    pub const COOKIE: usize = 48;
    pub const END: usize = 88;
}

mod offset13 {
    pub const COOKIE: usize = 8;
    pub const MATCH: usize = 48;
}

/// Offsets from the cookie. Up to the idle timeout they are equal in both versions.
mod from_cookie {
    pub const PRIORITY: usize = 8;
    pub const REASON: usize = 10;
    /// The table of 1.3; padding in 1.0.
    pub const TABLE_ID: usize = 11;
    pub const DURATION_SEC: usize = 12;
    pub const DURATION_NSEC: usize = 16;
    pub const IDLE_TIMEOUT: usize = 20;
    /// The hard timeout of 1.3; padding in 1.0.
    pub const HARD_TIMEOUT: usize = 22;
    pub const PACKET_COUNT: usize = 24;
    pub const BYTE_COUNT: usize = 32;
}

/// Reports that a rule was removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowRemoved {
    /// The rule's cookie.
    pub cookie: u64,
    /// The rule's priority.
    pub priority: u16,
    /// The reason: 0 idle timeout, 1 hard timeout, 2 delete, 3 group delete.
    pub reason: u8,
    /// The rule's table; 0 in OpenFlow 1.0.
    pub table_id: u8,
    /// Seconds for which the rule existed.
    pub duration_sec: u32,
    /// Nanoseconds beyond `duration_sec`.
    pub duration_nsec: u32,
    /// The rule's idle timeout in seconds.
    pub idle_timeout: u16,
    /// The rule's hard timeout in seconds; 0 in OpenFlow 1.0, which does not report it.
    pub hard_timeout: u16,
    /// Packets that the rule took.
    pub packet_count: u64,
    /// Bytes that the rule took.
    pub byte_count: u64,
    /// The rule's match.
    pub matching: Match,
}

/// A view of a flow-removed message.
#[derive(Clone, Copy, Debug)]
pub struct FlowRemovedView<'a> {
    version: Version,
    bytes: &'a [u8],
    /// The bytes from the cookie on.
    fixed: &'a [u8],
}

impl<'a> FlowRemovedView<'a> {
    /// Creates a view of the flow-removed message that takes all of `bytes`, header included.
    ///
    /// # Errors
    /// [`Error::Truncated`](crate::Error::Truncated) or [`Error::BadLength`](crate::Error::BadLength) if `bytes` has an
    /// impossible length, and an error for a match of unknown type.
    pub fn new_checked(version: Version, bytes: &'a [u8]) -> Result<FlowRemovedView<'a>> {
        let what = "flow-removed";
        let fixed = match version {
            Version::Of10 => {
                exactly(what, bytes, offset10::END)?;
                &bytes[offset10::COOKIE..]
            }
            Version::Of13 => {
                at_least(what, bytes, offset13::MATCH)?;
                let matching = MatchView::first(version, &bytes[offset13::MATCH..])?;
                exactly(what, bytes, offset13::MATCH + matching.len_padded())?;
                &bytes[offset13::COOKIE..]
            }
        };
        Ok(FlowRemovedView { version, bytes, fixed })
    }

    /// Returns the rule's cookie.
    pub fn cookie(&self) -> u64 {
        u64_at(self.fixed, 0)
    }

    /// Returns the rule's priority.
    pub fn priority(&self) -> u16 {
        u16_at(self.fixed, from_cookie::PRIORITY)
    }

    /// Returns the reason, `OFPRR_*`.
    pub fn reason(&self) -> u8 {
        self.fixed[from_cookie::REASON]
    }

    /// Returns the rule's table; 0 in 1.0.
    pub fn table_id(&self) -> u8 {
        if self.version == Version::Of10 { 0 } else { self.fixed[from_cookie::TABLE_ID] }
    }

    /// Returns the seconds for which the rule existed, and the nanoseconds beyond.
    pub fn duration(&self) -> (u32, u32) {
        (u32_at(self.fixed, from_cookie::DURATION_SEC), u32_at(self.fixed, from_cookie::DURATION_NSEC))
    }

    /// Returns the rule's idle timeout in seconds.
    pub fn idle_timeout(&self) -> u16 {
        u16_at(self.fixed, from_cookie::IDLE_TIMEOUT)
    }

    /// Returns the rule's hard timeout in seconds; 0 in 1.0.
    pub fn hard_timeout(&self) -> u16 {
        if self.version == Version::Of10 { 0 } else { u16_at(self.fixed, from_cookie::HARD_TIMEOUT) }
    }

    /// Returns the number of packets that the rule took.
    pub fn packet_count(&self) -> u64 {
        u64_at(self.fixed, from_cookie::PACKET_COUNT)
    }

    /// Returns the number of bytes that the rule took.
    pub fn byte_count(&self) -> u64 {
        u64_at(self.fixed, from_cookie::BYTE_COUNT)
    }

    /// Returns the rule's match.
    ///
    /// # Errors
    /// The errors of [`MatchView::first`].
    pub fn matching(&self) -> Result<MatchView<'a>> {
        let at = if self.version == Version::Of10 { offset10::MATCH } else { offset13::MATCH };
        MatchView::first(self.version, &self.bytes[at..])
    }
}

impl FlowRemoved {
    /// Reads the owned form.
    ///
    /// # Errors
    /// The error of the first entry of the match that is malformed.
    pub fn parse(view: &FlowRemovedView<'_>) -> Result<FlowRemoved> {
        let (duration_sec, duration_nsec) = view.duration();
        Ok(FlowRemoved {
            cookie: view.cookie(),
            priority: view.priority(),
            reason: view.reason(),
            table_id: view.table_id(),
            duration_sec,
            duration_nsec,
            idle_timeout: view.idle_timeout(),
            hard_timeout: view.hard_timeout(),
            packet_count: view.packet_count(),
            byte_count: view.byte_count(),
            matching: view.matching()?.to_match()?,
        })
    }

    /// Appends the message without its header. 1.0 leaves out table and hard timeout.
    ///
    /// # Errors
    /// [`Error::Unsupported`](crate::Error::Unsupported) if 1.0 has no form for the match, and an error about lengths
    /// for a match that is too long.
    pub fn emit(&self, version: Version, out: &mut Vec<u8>) -> Result<()> {
        let of13 = version == Version::Of13;
        if !of13 {
            matching::emit_reported(&self.matching, version, out)?;
        }
        out.put_u64(self.cookie);
        out.put_u16(self.priority);
        out.put_u8(self.reason);
        out.put_u8(if of13 { self.table_id } else { 0 });
        out.put_u32(self.duration_sec);
        out.put_u32(self.duration_nsec);
        out.put_u16(self.idle_timeout);
        out.put_u16(if of13 { self.hard_timeout } else { 0 });
        out.put_u64(self.packet_count);
        out.put_u64(self.byte_count);
        if of13 { matching::emit_reported(&self.matching, version, out) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Field;
    use crate::msg::Message;
    use crate::msg::test::{check, check_truncated};

    fn removed(table_id: u8, hard_timeout: u16) -> Message {
        Message::FlowRemoved(FlowRemoved {
            cookie: 0x1122,
            priority: 100,
            reason: 2,
            table_id,
            duration_sec: 10,
            duration_nsec: 5,
            idle_timeout: 60,
            hard_timeout,
            packet_count: 7,
            byte_count: 700,
            matching: Match::any().exact(Field::InPort, 3),
        })
    }

    #[test]
    fn a_1_0_flow_removed_has_its_match_first() {
        let bytes = "01 0b 0058 00000001
            003820fe 0003 000000000000 000000000000 0000 00 00 0000 00 00 0000 00000000 00000000 0000 0000
            0000000000001122 0064 02 00 0000000a 00000005 003c 0000 0000000000000007 00000000000002bc";
        check(Version::Of10, bytes, removed(0, 0));
        check_truncated(bytes);
    }

    #[test]
    fn a_1_3_flow_removed_has_its_match_last() {
        let bytes = "04 0b 0040 00000001
            0000000000001122 0064 02 04 0000000a 00000005 003c 0078 0000000000000007 00000000000002bc
            0001 000c 80000004 00000003 00000000";
        check(Version::Of13, bytes, removed(4, 120));
        check_truncated(bytes);
    }
}
