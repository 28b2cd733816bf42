//! Statistics (1.0 §5.3.5) and multipart (1.3 §7.3.5) messages: one enum for requests, one for replies, and one file
//! for each kind.

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
pub use flow::{FlowStats, FlowStatsRequest, FlowStatsView};
pub use group::{BucketCounter, GroupDesc, GroupFeatures, GroupStats};
pub use meter::{BandCounter, MeterConfig, MeterFeatures, MeterStats};
pub use port::{PortStats, PortStatsView};
pub use queue::{QueueStats, QueueStatsRequest};
pub use table::TableStats;
pub use table_features::{OxmId, PropertyKind, TableFeatures, TableProperty, TypeId};

use super::Version;
use super::bytes::{Put, at_least, exactly, u16_at, u32_at, unsupported};
use super::port_desc::{self, PortView};
use crate::error::{Error, Result};
use crate::port::{Port, PortNo};

mod offset {
    pub const TYPE: usize = 8;
    pub const FLAGS: usize = 10;
    pub const BODY_10: usize = 12;
    pub const BODY_13: usize = 16;
}

/// The numbers of the kinds of statistics: `OFPST_*` of 1.0 and `OFPMP_*` of 1.3. 1.0 has those up to [`kind::QUEUE`].
pub mod kind {
    /// Description of the switch.
    pub const DESC: u16 = 0;
    /// Rules.
    pub const FLOW: u16 = 1;
    /// Sums over rules.
    pub const AGGREGATE: u16 = 2;
    /// Tables.
    pub const TABLE: u16 = 3;
    /// Ports.
    pub const PORT: u16 = 4;
    /// Queues.
    pub const QUEUE: u16 = 5;
    /// Counters of groups.
    pub const GROUP: u16 = 6;
    /// Configurations of groups.
    pub const GROUP_DESC: u16 = 7;
    /// Abilities of groups.
    pub const GROUP_FEATURES: u16 = 8;
    /// Counters of meters.
    pub const METER: u16 = 9;
    /// Configurations of meters.
    pub const METER_CONFIG: u16 = 10;
    /// Abilities of meters.
    pub const METER_FEATURES: u16 = 11;
    /// Abilities of tables.
    pub const TABLE_FEATURES: u16 = 12;
    /// Descriptions of ports.
    pub const PORT_DESC: u16 = 13;
    /// An experimenter's kind, in 1.0 a vendor's.
    pub const EXPERIMENTER: u16 = 0xffff;
}

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

/// The subject of a statistics request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestBody {
    /// Vendor and model of the switch.
    Desc,
    /// The rules, one by one.
    Flow(FlowStatsRequest),
    /// The sums over rules.
    Aggregate(FlowStatsRequest),
    /// The numbers of rules and lookups of all tables.
    Table,
    /// The counters of this port, or of all ports ([`PortNo::ANY`]).
    Port(PortNo),
    /// The counters of these queues.
    Queue(QueueStatsRequest),
    /// The counters of this group, or of all groups (0xffff_fffc) (1.3).
    Group(u32),
    /// The configuration of all groups (1.3).
    GroupDesc,
    /// The abilities of groups (1.3).
    GroupFeatures,
    /// The counters of this meter, or of all meters (0xffff_ffff) (1.3).
    Meter(u32),
    /// The configuration of this meter, or of all meters (0xffff_ffff) (1.3).
    MeterConfig(u32),
    /// The abilities of meters (1.3).
    MeterFeatures,
    /// The abilities of tables; a list that is not empty sets them (1.3).
    TableFeatures(Vec<TableFeatures>),
    /// The descriptions of all ports (1.3).
    PortDesc,
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

/// A reply with statistics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatsReply {
    /// Bit 0: more follow.
    pub flags: u16,
    /// The statistics.
    pub body: ReplyBody,
}

/// The statistics of a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplyBody {
    /// Vendor and model of the switch.
    Desc(Desc),
    /// Rules.
    Flow(Vec<FlowStats>),
    /// The sums over rules.
    Aggregate(AggregateStats),
    /// Tables.
    Table(Vec<TableStats>),
    /// Ports.
    Port(Vec<PortStats>),
    /// Queues.
    Queue(Vec<QueueStats>),
    /// Counters of groups (1.3).
    Group(Vec<GroupStats>),
    /// Groups (1.3).
    GroupDesc(Vec<GroupDesc>),
    /// The abilities of groups (1.3).
    GroupFeatures(GroupFeatures),
    /// Counters of meters (1.3).
    Meter(Vec<MeterStats>),
    /// Meters (1.3).
    MeterConfig(Vec<MeterConfig>),
    /// The abilities of meters (1.3).
    MeterFeatures(MeterFeatures),
    /// The abilities of tables (1.3).
    TableFeatures(Vec<TableFeatures>),
    /// Descriptions of ports (1.3).
    PortDesc(Vec<Port>),
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

/// A view of a statistics or multipart message, request or reply.
#[derive(Clone, Copy, Debug)]
pub struct StatsView<'a> {
    version: Version,
    bytes: &'a [u8],
}

impl<'a> StatsView<'a> {
    /// Creates a view of the message that takes all of `bytes`, header included.
    ///
    /// # Errors
    /// [`Error::Truncated`] if `bytes` ends within the fixed part.
    pub fn new_checked(version: Version, bytes: &'a [u8]) -> Result<StatsView<'a>> {
        at_least("statistics", bytes, if version == Version::Of10 { offset::BODY_10 } else { offset::BODY_13 })?;
        Ok(StatsView { version, bytes })
    }

    /// Returns the kind of statistics: a number of [`kind`], or another one.
    pub fn kind(&self) -> u16 {
        u16_at(self.bytes, offset::TYPE)
    }

    /// Returns the flags. Bit 0: more messages follow.
    pub fn flags(&self) -> u16 {
        u16_at(self.bytes, offset::FLAGS)
    }

    /// Returns the bytes after kind and flags.
    pub fn body(&self) -> &'a [u8] {
        &self.bytes[if self.version == Version::Of10 { offset::BODY_10 } else { offset::BODY_13 }..]
    }

    /// Iterates over the rules of a flow statistics reply in place; the first error is the last item.
    pub fn flows(&self) -> impl Iterator<Item = Result<FlowStatsView<'a>>> {
        FlowStatsView::list(self.version, if self.kind() == kind::FLOW { self.body() } else { &[] })
    }

    /// Whether the version has this kind, so that its form is known.
    fn is_known(&self) -> bool {
        let last = if self.version == Version::Of10 { kind::QUEUE } else { kind::PORT_DESC };
        self.kind() <= last || self.kind() == kind::EXPERIMENTER
    }

    fn experimenter(&self) -> Result<(u32, Vec<u8>)> {
        let fixed = if self.version == Version::Of10 { 4 } else { 8 };
        at_least("experimenter statistics", self.body(), fixed)?;
        Ok((u32_at(self.body(), 0), self.body()[4..].to_vec()))
    }

    fn empty(&self) -> Result<()> {
        exactly("statistics request", self.body(), 0)
    }

    /// Returns the number that is the whole body of a group or meter request.
    fn number(&self) -> Result<u32> {
        exactly("statistics request", self.body(), 8)?;
        Ok(u32_at(self.body(), 0))
    }
}

impl StatsRequest {
    /// Creates a request without flags.
    pub fn new(body: RequestBody) -> StatsRequest {
        StatsRequest { flags: 0, body }
    }

    /// Reads the owned form.
    ///
    /// # Errors
    /// An error that names the structure if the body is malformed.
    pub fn parse(view: &StatsView<'_>) -> Result<StatsRequest> {
        Ok(StatsRequest { flags: view.flags(), body: RequestBody::parse(view)? })
    }

    /// Appends the message without its header.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if `version` has no form for a part of the request, and an error about lengths for a
    /// malformed part.
    pub fn emit(&self, version: Version, out: &mut Vec<u8>) -> Result<()> {
        if !matches!(self.body, RequestBody::Unknown { .. }) {
            check_kind(self.body.kind(), version)?;
        }
        emit_start(self.body.kind(), self.flags, version, out);
        self.body.emit(version, out)
    }
}

impl RequestBody {
    fn parse(view: &StatsView<'_>) -> Result<RequestBody> {
        let (version, body) = (view.version, view.body());
        Ok(match view.kind() {
            kind if !view.is_known() => RequestBody::Unknown { kind, body: body.to_vec() },
            kind::DESC => view.empty().map(|()| RequestBody::Desc)?,
            kind::FLOW => RequestBody::Flow(FlowStatsRequest::parse(version, body)?),
            kind::AGGREGATE => RequestBody::Aggregate(FlowStatsRequest::parse(version, body)?),
            kind::TABLE => view.empty().map(|()| RequestBody::Table)?,
            kind::PORT => {
                exactly("port statistics request", body, 8)?;
                RequestBody::Port(port_desc::number_at(version, body, 0))
            }
            kind::QUEUE => RequestBody::Queue(QueueStatsRequest::parse(version, body)?),
            kind::GROUP => RequestBody::Group(view.number()?),
            kind::GROUP_DESC => view.empty().map(|()| RequestBody::GroupDesc)?,
            kind::GROUP_FEATURES => view.empty().map(|()| RequestBody::GroupFeatures)?,
            kind::METER => RequestBody::Meter(view.number()?),
            kind::METER_CONFIG => RequestBody::MeterConfig(view.number()?),
            kind::METER_FEATURES => view.empty().map(|()| RequestBody::MeterFeatures)?,
            kind::TABLE_FEATURES => RequestBody::TableFeatures(TableFeatures::parse_list(body)?),
            kind::PORT_DESC => view.empty().map(|()| RequestBody::PortDesc)?,
            _ => {
                let (id, body) = view.experimenter()?;
                RequestBody::Experimenter { id, body }
            }
        })
    }

    /// Returns the number of the kind.
    pub fn kind(&self) -> u16 {
        match self {
            RequestBody::Desc => kind::DESC,
            RequestBody::Flow(_) => kind::FLOW,
            RequestBody::Aggregate(_) => kind::AGGREGATE,
            RequestBody::Table => kind::TABLE,
            RequestBody::Port(_) => kind::PORT,
            RequestBody::Queue(_) => kind::QUEUE,
            RequestBody::Group(_) => kind::GROUP,
            RequestBody::GroupDesc => kind::GROUP_DESC,
            RequestBody::GroupFeatures => kind::GROUP_FEATURES,
            RequestBody::Meter(_) => kind::METER,
            RequestBody::MeterConfig(_) => kind::METER_CONFIG,
            RequestBody::MeterFeatures => kind::METER_FEATURES,
            RequestBody::TableFeatures(_) => kind::TABLE_FEATURES,
            RequestBody::PortDesc => kind::PORT_DESC,
            RequestBody::Experimenter { .. } => kind::EXPERIMENTER,
            RequestBody::Unknown { kind, .. } => *kind,
        }
    }

    fn emit(&self, version: Version, out: &mut Vec<u8>) -> Result<()> {
        match self {
            RequestBody::Flow(request) | RequestBody::Aggregate(request) => request.emit(version, out),
            RequestBody::Port(port) => port_desc::emit_number(*port, version, 8, out),
            RequestBody::Queue(request) => request.emit(version, out),
            RequestBody::TableFeatures(tables) => tables.iter().try_for_each(|table| table.emit(out)),
            RequestBody::Group(number) | RequestBody::Meter(number) | RequestBody::MeterConfig(number) => {
                out.put_u32(*number);
                out.put_zeros(4);
                Ok(())
            }
            RequestBody::Experimenter { id, body } => emit_experimenter(*id, body, version, out),
            RequestBody::Unknown { body, .. } => {
                out.put(body);
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

impl StatsReply {
    /// Creates a reply, the last or only one of its transaction.
    pub fn new(body: ReplyBody) -> StatsReply {
        StatsReply { flags: 0, body }
    }

    /// Whether more replies of the same transaction follow.
    pub fn more(&self) -> bool {
        self.flags & MORE != 0
    }

    /// Reads the owned form.
    ///
    /// # Errors
    /// An error that names the structure if the body is malformed.
    pub fn parse(view: &StatsView<'_>) -> Result<StatsReply> {
        Ok(StatsReply { flags: view.flags(), body: ReplyBody::parse(view)? })
    }

    /// Appends the message without its header.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if `version` has no form for a part of the reply, and an error about lengths for a
    /// malformed part.
    pub fn emit(&self, version: Version, out: &mut Vec<u8>) -> Result<()> {
        if !matches!(self.body, ReplyBody::Unknown { .. }) {
            check_kind(self.body.kind(), version)?;
        }
        emit_start(self.body.kind(), self.flags, version, out);
        self.body.emit(version, out)
    }
}

impl ReplyBody {
    fn parse(view: &StatsView<'_>) -> Result<ReplyBody> {
        let (version, body) = (view.version, view.body());
        Ok(match view.kind() {
            kind if !view.is_known() => ReplyBody::Unknown { kind, body: body.to_vec() },
            kind::DESC => ReplyBody::Desc(Desc::parse(body)?),
            kind::FLOW => ReplyBody::Flow(FlowStats::parse_list(version, body)?),
            kind::AGGREGATE => ReplyBody::Aggregate(AggregateStats::parse(body)?),
            kind::TABLE => ReplyBody::Table(TableStats::parse_list(version, body)?),
            kind::PORT => ReplyBody::Port(PortStats::parse_list(version, body)?),
            kind::QUEUE => ReplyBody::Queue(QueueStats::parse_list(version, body)?),
            kind::GROUP => ReplyBody::Group(GroupStats::parse_list(body)?),
            kind::GROUP_DESC => ReplyBody::GroupDesc(GroupDesc::parse_list(body)?),
            kind::GROUP_FEATURES => ReplyBody::GroupFeatures(GroupFeatures::parse(body)?),
            kind::METER => ReplyBody::Meter(MeterStats::parse_list(body)?),
            kind::METER_CONFIG => ReplyBody::MeterConfig(MeterConfig::parse_list(body)?),
            kind::METER_FEATURES => ReplyBody::MeterFeatures(MeterFeatures::parse(body)?),
            kind::TABLE_FEATURES => ReplyBody::TableFeatures(TableFeatures::parse_list(body)?),
            kind::PORT_DESC => ReplyBody::PortDesc(PortView::list(version, body)?.map(|port| port.to_port()).collect()),
            _ => {
                let (id, body) = view.experimenter()?;
                ReplyBody::Experimenter { id, body }
            }
        })
    }

    /// Returns the number of the kind.
    pub fn kind(&self) -> u16 {
        match self {
            ReplyBody::Desc(_) => kind::DESC,
            ReplyBody::Flow(_) => kind::FLOW,
            ReplyBody::Aggregate(_) => kind::AGGREGATE,
            ReplyBody::Table(_) => kind::TABLE,
            ReplyBody::Port(_) => kind::PORT,
            ReplyBody::Queue(_) => kind::QUEUE,
            ReplyBody::Group(_) => kind::GROUP,
            ReplyBody::GroupDesc(_) => kind::GROUP_DESC,
            ReplyBody::GroupFeatures(_) => kind::GROUP_FEATURES,
            ReplyBody::Meter(_) => kind::METER,
            ReplyBody::MeterConfig(_) => kind::METER_CONFIG,
            ReplyBody::MeterFeatures(_) => kind::METER_FEATURES,
            ReplyBody::TableFeatures(_) => kind::TABLE_FEATURES,
            ReplyBody::PortDesc(_) => kind::PORT_DESC,
            ReplyBody::Experimenter { .. } => kind::EXPERIMENTER,
            ReplyBody::Unknown { kind, .. } => *kind,
        }
    }

    fn emit(&self, version: Version, out: &mut Vec<u8>) -> Result<()> {
        match self {
            ReplyBody::Desc(desc) => desc.emit(out),
            ReplyBody::Flow(flows) => flows.iter().try_for_each(|flow| flow.emit(version, out)),
            ReplyBody::Aggregate(aggregate) => aggregate.emit(out),
            ReplyBody::Table(tables) => tables.iter().try_for_each(|table| table.emit(version, out)),
            ReplyBody::Port(ports) => ports.iter().try_for_each(|port| port.emit(version, out)),
            ReplyBody::Queue(queues) => queues.iter().try_for_each(|queue| queue.emit(version, out)),
            ReplyBody::Group(groups) => groups.iter().try_for_each(|group| group.emit(out)),
            ReplyBody::GroupDesc(groups) => groups.iter().try_for_each(|group| group.emit(out)),
            ReplyBody::GroupFeatures(features) => features.emit(out),
            ReplyBody::Meter(meters) => meters.iter().try_for_each(|meter| meter.emit(out)),
            ReplyBody::MeterConfig(meters) => meters.iter().try_for_each(|meter| meter.emit(out)),
            ReplyBody::MeterFeatures(features) => features.emit(out),
            ReplyBody::TableFeatures(tables) => tables.iter().try_for_each(|table| table.emit(out)),
            ReplyBody::PortDesc(ports) => ports.iter().try_for_each(|port| port_desc::emit(port, version, out)),
            ReplyBody::Experimenter { id, body } => emit_experimenter(*id, body, version, out),
            ReplyBody::Unknown { body, .. } => {
                out.put(body);
                Ok(())
            }
        }
    }
}

/// Refuses the kinds of statistics that 1.0 does not have.
fn check_kind(kind: u16, version: Version) -> Result<()> {
    let missing = version == Version::Of10 && (kind::GROUP..=kind::PORT_DESC).contains(&kind);
    if missing { unsupported(version, format!("statistics of kind {kind}")) } else { Ok(()) }
}

/// Appends kind and flags.
fn emit_start(kind: u16, flags: u16, version: Version, out: &mut Vec<u8>) {
    out.put_u16(kind);
    out.put_u16(flags);
    out.put_zeros(if version == Version::Of10 { 0 } else { offset::BODY_13 - offset::BODY_10 });
}

fn emit_experimenter(id: u32, body: &[u8], version: Version, out: &mut Vec<u8>) -> Result<()> {
    if version == Version::Of13 && body.len() < 4 {
        return Err(Error::BadLength { what: "experimenter statistics", length: body.len() });
    }
    out.put_u32(id);
    out.put(body);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::msg::Message;
    use crate::msg::test::{check, check_truncated, check_unsupported, hex};

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
            check_truncated(&bytes);
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
        check_truncated(bytes);
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
