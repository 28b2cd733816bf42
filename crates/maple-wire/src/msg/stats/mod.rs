//! Statistics (1.0 §5.3.5) and multipart (1.3 §7.3.5) messages: a table of requests, one of replies, and one file for
//! each kind.

mod aggregate;
mod desc;
mod flow;
mod group;
mod meter;
mod port;
mod queue;
mod table;
mod table_features;

pub use aggregate::AggregateStats;
pub use desc::Desc;
pub use flow::{FlowStats, FlowStatsRequest};
pub use group::{BucketCounter, GroupDesc, GroupFeatures, GroupStats};
pub use meter::{BandCounter, MeterConfig, MeterFeatures, MeterStats};
pub use port::PortStats;
pub use queue::{QueueStats, QueueStatsRequest};
pub use table::TableStats;
pub use table_features::{OxmId, PropertyKind, TableFeatures, TableProperty, TypeId};

use serde::{Deserialize, Serialize};

use super::Version;
use super::bytes::{Put, Reader, unsupported};
use super::experimenter::Experimenter;
use super::numbered::numbered;
use super::wire::{Padded, Wire};
use crate::error::Result;
use crate::port::{Port, PortNo};

/// The number of an experimenter's kind, in 1.0 a vendor's.
const EXPERIMENTER: u16 = 0xffff;

/// The flag that is set if more messages with the same transaction id follow (1.0: `OFPSF_REPLY_MORE`; 1.3:
/// `OFPMPF_REPLY_MORE`, §7.3.5).
pub const MORE: u16 = 1;

/// A request for statistics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatsRequest {
    /// Bit 0: more follow (1.3).
    pub flags: u16,
    /// The requested statistics.
    pub body: RequestBody,
}

numbered! {
    /// The subject of a statistics request.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum RequestBody {
        both versions {
            /// Vendor and model of the switch.
            Desc = "statistics request", 0, 0;
            /// The rules, one by one.
            Flow(FlowStatsRequest) = "flow statistics request", 1, 1;
            /// The sums over rules.
            Aggregate(FlowStatsRequest) = "flow statistics request", 2, 2;
            /// The numbers of rules and lookups of all tables.
            Table = "statistics request", 3, 3;
            /// The counters of this port, or of all ports ([`PortNo::ANY`]).
            Port(PortNo as Padded<6, 4>) = "port statistics request", 4, 4;
            /// The counters of these queues.
            Queue(QueueStatsRequest) = "queue statistics request", 5, 5;
        }
        only 1.3 {
            /// The counters of this group, or of all groups (0xffff_fffc) (1.3).
            Group(u32 as Padded<4>) = "group statistics request", 6;
            /// The configuration of all groups (1.3).
            GroupDesc = "statistics request", 7;
            /// The abilities of groups (1.3).
            GroupFeatures = "statistics request", 8;
            /// The counters of this meter, or of all meters (0xffff_ffff) (1.3).
            Meter(u32 as Padded<4>) = "meter statistics request", 9;
            /// The configuration of this meter, or of all meters (0xffff_ffff) (1.3).
            MeterConfig(u32 as Padded<4>) = "meter statistics request", 10;
            /// The abilities of meters (1.3).
            MeterFeatures = "statistics request", 11;
            /// The abilities of tables; a list that is not empty sets them (1.3).
            TableFeatures(Vec<TableFeatures>) = "table features", 12;
            /// The descriptions of all ports (1.3).
            PortDesc = "statistics request", 13;
        }
        others {
            /// An experimenter's request, kept unchanged.
            Experimenter {
                /// The experimenter's id.
                id: u32,
                /// The bytes after the id.
                body: Vec<u8>,
            },
            /// A request of unknown kind, kept unchanged.
            Unknown {
                /// The number of its kind.
                kind: u16,
                /// The bytes after the flags.
                body: Vec<u8>,
            },
        }
    }
}

/// A reply with statistics.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatsReply {
    /// Bit 0: more follow.
    pub flags: u16,
    /// The statistics.
    pub body: ReplyBody,
}

numbered! {
    /// The statistics of a reply.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub enum ReplyBody {
        both versions {
            /// Vendor and model of the switch.
            Desc(Desc) = "switch description", 0, 0;
            /// Rules.
            Flow(Vec<FlowStats>) = "flow statistics", 1, 1;
            /// The sums over rules.
            Aggregate(AggregateStats) = "aggregate statistics", 2, 2;
            /// Tables.
            Table(Vec<TableStats>) = "table statistics", 3, 3;
            /// Ports.
            Port(Vec<PortStats>) = "port statistics", 4, 4;
            /// Queues.
            Queue(Vec<QueueStats>) = "queue statistics", 5, 5;
        }
        only 1.3 {
            /// Counters of groups (1.3).
            Group(Vec<GroupStats>) = "group statistics", 6;
            /// Groups (1.3).
            GroupDesc(Vec<GroupDesc>) = "groups", 7;
            /// The abilities of groups (1.3).
            GroupFeatures(GroupFeatures) = "group features", 8;
            /// Counters of meters (1.3).
            Meter(Vec<MeterStats>) = "meter statistics", 9;
            /// Meters (1.3).
            MeterConfig(Vec<MeterConfig>) = "meters", 10;
            /// The abilities of meters (1.3).
            MeterFeatures(MeterFeatures) = "meter features", 11;
            /// The abilities of tables (1.3).
            TableFeatures(Vec<TableFeatures>) = "table features", 12;
            /// Descriptions of ports (1.3).
            PortDesc(Vec<Port>) = "port", 13;
        }
        others {
            /// An experimenter's reply, kept unchanged.
            Experimenter {
                /// The experimenter's id.
                id: u32,
                /// The bytes after the id.
                body: Vec<u8>,
            },
            /// A reply of unknown kind, kept unchanged.
            Unknown {
                /// The number of its kind.
                kind: u16,
                /// The bytes after the flags.
                body: Vec<u8>,
            },
        }
    }
}

impl StatsRequest {
    /// Creates a request without flags.
    pub fn new(body: RequestBody) -> StatsRequest {
        StatsRequest { flags: 0, body }
    }
}

impl StatsReply {
    /// Creates a reply, the last or only one of its transaction.
    pub fn new(body: ReplyBody) -> StatsReply {
        StatsReply { flags: 0, body }
    }

    /// Reports whether more replies of the same transaction follow.
    pub fn more(&self) -> bool {
        self.flags & MORE != 0
    }
}

/// Definition of a request or a reply from what they have in common: kind, flags, padding in 1.3,
/// and a body that depends on the kind.
macro_rules! message {
    ($message:ident, $body:ident) => {
        impl Wire for $message {
            const MIN: [usize; 2] = [4, 8];

            fn read(reader: &mut Reader<'_>) -> Result<$message> {
                reader.need(Self::MIN)?;
                let (kind, flags) = (reader.u16()?, reader.u16()?);
                reader.take(if reader.is_10() { 0 } else { 4 })?;
                let reader = reader.restart();
                let body = match $body::read_row(kind, reader)? {
                    Some(body) => body,
                    None if kind == EXPERIMENTER => {
                        reader.call("experimenter statistics");
                        let Experimenter { id, body } = Experimenter::read(reader)?;
                        $body::Experimenter { id, body }
                    }
                    None => $body::Unknown { kind, body: reader.rest().to_vec() },
                };
                Ok($message { flags, body })
            }

            fn write(&self, version: Version, out: &mut Vec<u8>) -> Result<()> {
                let kind = self.body.kind();
                if version == Version::Of10 && self.body.row().is_some_and(|row| row.in10.is_none()) {
                    return unsupported(version, format!("statistics of kind {kind}"));
                }
                out.put_u16(kind);
                out.put_u16(self.flags);
                out.put_zeros(if version == Version::Of10 { 0 } else { 4 });
                match &self.body {
                    $body::Experimenter { id, body } => {
                        Experimenter { id: *id, body: body.clone() }.write(version, out)
                    }
                    $body::Unknown { body, .. } => {
                        out.put(body);
                        Ok(())
                    }
                    listed => listed.write_row(version, out),
                }
            }
        }

        impl $body {
            /// Returns the number of the kind: `OFPST_*` of 1.0, `OFPMP_*` of 1.3.
            pub fn kind(&self) -> u16 {
                match (self, self.row()) {
                    (_, Some(row)) => row.in13,
                    ($body::Unknown { kind, .. }, None) => *kind,
                    (_, None) => EXPERIMENTER,
                }
            }
        }
    };
}

message!(StatsRequest, RequestBody);
message!(StatsReply, ReplyBody);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::msg::Message;
    use crate::msg::test::{check, check_unsupported, hex};

    fn request(body: RequestBody) -> Message {
        Message::StatsRequest(StatsRequest::new(body))
    }

    #[test]
    fn requests_without_a_body_are_just_a_kind() {
        check(Version::Of10, "01 10 000c 00000001 0000 0000", request(RequestBody::Desc));
        check(Version::Of10, "01 10 000c 00000001 0003 0000", request(RequestBody::Table));
        for (kind, body) in [
            ("0000", RequestBody::Desc),
            ("0003", RequestBody::Table),
            ("0007", RequestBody::GroupDesc),
            ("0008", RequestBody::GroupFeatures),
            ("000b", RequestBody::MeterFeatures),
            ("000c", RequestBody::TableFeatures(vec![])),
            ("000d", RequestBody::PortDesc),
        ] {
            check(Version::Of13, &format!("04 12 0010 00000001 {kind} 0000 00000000"), request(body));
        }
        assert!(Message::decode(&hex("04 12 0014 00000001 0000 0000 00000000 00000000")).is_err());
    }

    #[test]
    fn requests_about_one_thing_have_its_number() {
        check(
            Version::Of10,
            "01 10 0014 00000001 0004 0000 ffff 000000000000",
            request(RequestBody::Port(PortNo::ANY)),
        );
        for (kind, body) in [
            ("0004", RequestBody::Port(PortNo(7))),
            ("0006", RequestBody::Group(7)),
            ("0009", RequestBody::Meter(7)),
            ("000a", RequestBody::MeterConfig(7)),
        ] {
            let bytes = format!("04 12 0018 00000001 {kind} 0000 00000000 00000007 00000000");
            check(Version::Of13, &bytes, request(body));
        }
        check_unsupported(Version::Of10, request(RequestBody::Group(7)));
    }

    #[test]
    fn ports_are_described_by_a_multipart_reply_in_1_3() {
        let bytes = "04 13 0050 00000001 000d 0001 00000000 00000003 00000000 020000000003 0000
            73312d65746833000000000000000000
            00000000 00000001 00000000 00000000 00000000 00000000 00000000 00000000";
        let port = Port { state: 1, ..Port::new(PortNo(3), [2, 0, 0, 0, 0, 3], "s1-eth3") };
        let reply = StatsReply { flags: 1, body: ReplyBody::PortDesc(vec![port]) };
        assert!(reply.more());
        check(Version::Of13, bytes, Message::StatsReply(reply.clone()));
        check_unsupported(Version::Of10, Message::StatsReply(reply));
    }

    #[test]
    fn experimenters_and_unknown_kinds_are_kept() {
        let experimenter = |body: &str| RequestBody::Experimenter { id: 0x2320, body: hex(body) };
        check(Version::Of10, "01 10 0014 00000001 ffff 0000 00002320 00000009", request(experimenter("00000009")));
        check(
            Version::Of13,
            "04 12 0018 00000001 ffff 0000 00000000 00002320 00000009",
            request(experimenter("00000009")),
        );
        assert!(Message::decode(&hex("04 12 0014 00000001 ffff 0000 00000000 00002320")).is_err());
        let unknown = StatsReply::new(ReplyBody::Unknown { kind: 77, body: vec![1] });
        check(Version::Of13, "04 13 0011 00000001 004d 0000 00000000 01", Message::StatsReply(unknown));
    }

    #[test]
    fn port_desc_is_unknown_to_1_0() {
        // Open vSwitch answers it in 1.0 nevertheless. The reply can't be distinguished from another kind, so it is
        // kept unchanged.
        let bytes = hex("01 11 000e 00000001 000d 0000 abcd");
        let (_, reply) = Message::decode(&bytes).unwrap();
        assert!(matches!(reply, Message::StatsReply(StatsReply { body: ReplyBody::Unknown { kind: 13, .. }, .. })));
        check(Version::Of10, "01 11 000e 00000001 000d 0000 abcd", reply);
    }
}
