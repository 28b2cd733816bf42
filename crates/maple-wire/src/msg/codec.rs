//! Maps a message's type to its codec, in both directions.

use super::bytes::{Put, only_of13, unsupported};
use super::header::{self, kind, kind10, kind13};
use super::*;
use crate::error::Result;

impl Message {
    /// Reads the one message that `bytes` must be, no more and no less.
    ///
    /// Hello, error and echo have one form in all versions and are read in any. Only the returned value is allocated.
    ///
    /// # Errors
    /// [`Error::BadVersion`](crate::Error::BadVersion) for other messages of a version that this codec does not speak,
    /// and an error that names the structure for malformed messages.
    pub fn decode(bytes: &[u8]) -> Result<(Header, Message)> {
        let header = Header::of_message(bytes)?;
        let body = || bytes[header::LEN..].to_vec();
        let message = match header.kind {
            kind::HELLO => Message::Hello(Hello::parse(&hello::HelloView::new_checked(bytes)?)),
            kind::ERROR => Message::Error(ErrorMsg::parse(&error::ErrorMsgView::new_checked(bytes)?)),
            kind::ECHO_REQUEST => Message::EchoRequest(body()),
            kind::ECHO_REPLY => Message::EchoReply(body()),
            _ => decode_in(header.version()?, header.kind, bytes)?,
        };
        Ok((header, message))
    }

    /// Appends the message to `out`, with its header. On error `out` is unchanged. A hello is sent with its own version
    /// byte, every other message with that of `version`.
    ///
    /// # Errors
    /// [`Error::Unsupported`](crate::Error::Unsupported) if `version` has no form for the message,
    /// [`Error::TooLong`](crate::Error::TooLong) beyond 65535 bytes, and [`Error::BadLength`](crate::Error::BadLength)
    /// if a part has an impossible length.
    pub fn encode(&self, version: Version, xid: u32, out: &mut Vec<u8>) -> Result<()> {
        let start = out.len();
        let result = out.put_sized(2, |out| {
            out.put_u8(if let Message::Hello(hello) = self { hello.version } else { version as u8 });
            out.put_u8(self.kind(version)?);
            out.put_u16(0);
            out.put_u32(xid);
            self.emit(version, xid, out)
        });
        if result.is_err() {
            out.truncate(start);
        }
        result
    }

    /// Returns the number of the message's type in `version`.
    ///
    /// # Errors
    /// [`Error::Unsupported`](crate::Error::Unsupported) if the version has no such messages.
    pub fn kind(&self, version: Version) -> Result<u8> {
        let of13 = version == Version::Of13;
        let pick = |in10, in13| if of13 { in13 } else { in10 };
        Ok(match self {
            Message::Hello(_) => kind::HELLO,
            Message::Error(_) => kind::ERROR,
            Message::EchoRequest(_) => kind::ECHO_REQUEST,
            Message::EchoReply(_) => kind::ECHO_REPLY,
            Message::Experimenter(_) => kind::EXPERIMENTER,
            Message::FeaturesRequest => kind::FEATURES_REQUEST,
            Message::FeaturesReply(_) => kind::FEATURES_REPLY,
            Message::GetConfigRequest => kind::GET_CONFIG_REQUEST,
            Message::GetConfigReply(_) => kind::GET_CONFIG_REPLY,
            Message::SetConfig(_) => kind::SET_CONFIG,
            Message::PacketIn(_) => kind::PACKET_IN,
            Message::FlowRemoved(_) => kind::FLOW_REMOVED,
            Message::PortStatus(_) => kind::PORT_STATUS,
            Message::PacketOut(_) => kind::PACKET_OUT,
            Message::FlowMod(_) => kind::FLOW_MOD,
            Message::PortMod(_) => pick(kind10::PORT_MOD, kind13::PORT_MOD),
            Message::StatsRequest(_) => pick(kind10::STATS_REQUEST, kind13::MULTIPART_REQUEST),
            Message::StatsReply(_) => pick(kind10::STATS_REPLY, kind13::MULTIPART_REPLY),
            Message::BarrierRequest => pick(kind10::BARRIER_REQUEST, kind13::BARRIER_REQUEST),
            Message::BarrierReply => pick(kind10::BARRIER_REPLY, kind13::BARRIER_REPLY),
            Message::QueueGetConfigRequest(_) => {
                pick(kind10::QUEUE_GET_CONFIG_REQUEST, kind13::QUEUE_GET_CONFIG_REQUEST)
            }
            Message::QueueGetConfigReply(_) => pick(kind10::QUEUE_GET_CONFIG_REPLY, kind13::QUEUE_GET_CONFIG_REPLY),
            Message::Unknown { kind, .. } => *kind,
            _ => return self.kind_of13_only(version),
        })
    }

    fn kind_of13_only(&self, version: Version) -> Result<u8> {
        let (number, what) = match self {
            Message::GroupMod(_) => (kind13::GROUP_MOD, "a group-mod"),
            Message::TableMod(_) => (kind13::TABLE_MOD, "a table-mod"),
            Message::RoleRequest(_) => (kind13::ROLE_REQUEST, "a role request"),
            Message::RoleReply(_) => (kind13::ROLE_REPLY, "a role reply"),
            Message::GetAsyncRequest => (kind13::GET_ASYNC_REQUEST, "a get-async request"),
            Message::GetAsyncReply(_) => (kind13::GET_ASYNC_REPLY, "a get-async reply"),
            Message::SetAsync(_) => (kind13::SET_ASYNC, "a set-async"),
            Message::MeterMod(_) => (kind13::METER_MOD, "a meter-mod"),
            Message::BundleControl(_) | Message::BundleAdd(_) => (kind::EXPERIMENTER, "a bundle"),
            other => return unsupported(version, format!("{other:?}")),
        };
        only_of13(version, what)?;
        Ok(number)
    }

    /// Appends the message without its header.
    fn emit(&self, version: Version, xid: u32, out: &mut Vec<u8>) -> Result<()> {
        match self {
            Message::FeaturesRequest
            | Message::GetConfigRequest
            | Message::BarrierRequest
            | Message::BarrierReply
            | Message::GetAsyncRequest => Ok(()),
            Message::EchoRequest(body) | Message::EchoReply(body) | Message::Unknown { body, .. } => {
                out.put(body);
                Ok(())
            }
            Message::Hello(hello) => hello.emit(out),
            Message::Error(error) => error.emit(out),
            Message::Experimenter(experimenter) => experimenter.emit(version, out),
            Message::BundleControl(control) => control.emit(out),
            Message::BundleAdd(add) => add.emit(version, xid, out),
            Message::FeaturesReply(features) => features.emit(version, out),
            Message::GetConfigReply(config) | Message::SetConfig(config) => config.emit(out),
            Message::PacketIn(packet_in) => packet_in.emit(version, out),
            Message::FlowRemoved(removed) => removed.emit(version, out),
            Message::PortStatus(status) => status.emit(version, out),
            Message::PacketOut(packet_out) => packet_out.emit(version, out),
            Message::FlowMod(flow_mod) => flow_mod.emit(version, out),
            Message::GroupMod(group_mod) => group_mod.emit(out),
            Message::PortMod(port_mod) => port_mod.emit(version, out),
            Message::TableMod(table_mod) => table_mod.emit(out),
            Message::StatsRequest(request) => request.emit(version, out),
            Message::StatsReply(reply) => reply.emit(version, out),
            Message::QueueGetConfigRequest(port) => {
                port_desc::emit_number(*port, version, if version == Version::Of10 { 4 } else { 8 }, out)
            }
            Message::QueueGetConfigReply(queues) => queues.emit(version, out),
            Message::RoleRequest(role) | Message::RoleReply(role) => role.emit(out),
            Message::GetAsyncReply(config) | Message::SetAsync(config) => config.emit(out),
            Message::MeterMod(meter_mod) => meter_mod.emit(out),
        }
    }
}

/// Reads a message whose form depends on the version.
fn decode_in(version: Version, kind: u8, bytes: &[u8]) -> Result<Message> {
    Ok(match kind {
        kind::EXPERIMENTER => {
            let view = experimenter::ExperimenterView::new_checked(version, bytes)?;
            match bundle::decode(bytes).filter(|_| version == Version::Of13) {
                Some(message) => message?,
                None => Message::Experimenter(Experimenter::parse(&view)),
            }
        }
        kind::FEATURES_REQUEST => empty(bytes, Message::FeaturesRequest)?,
        kind::FEATURES_REPLY => {
            Message::FeaturesReply(Features::parse(&features::FeaturesView::new_checked(version, bytes)?)?)
        }
        kind::GET_CONFIG_REQUEST => empty(bytes, Message::GetConfigRequest)?,
        kind::GET_CONFIG_REPLY => Message::GetConfigReply(decode_config(bytes)?),
        kind::SET_CONFIG => Message::SetConfig(decode_config(bytes)?),
        kind::PACKET_IN => Message::PacketIn(PacketIn::parse(&PacketInView::new_checked(version, bytes)?)?),
        kind::FLOW_REMOVED => {
            Message::FlowRemoved(FlowRemoved::parse(&flow_removed::FlowRemovedView::new_checked(version, bytes)?)?)
        }
        kind::PORT_STATUS => {
            Message::PortStatus(PortStatus::parse(&port_status::PortStatusView::new_checked(version, bytes)?)?)
        }
        kind::PACKET_OUT => {
            Message::PacketOut(PacketOut::parse(&packet_out::PacketOutView::new_checked(version, bytes)?)?)
        }
        kind::FLOW_MOD => Message::FlowMod(FlowMod::parse(&FlowModView::new_checked(version, bytes)?)?),
        _ if version == Version::Of10 => decode10(kind, bytes)?,
        _ => decode13(kind, bytes)?,
    })
}

/// Reads a message whose type number belongs to 1.0 only.
fn decode10(kind: u8, bytes: &[u8]) -> Result<Message> {
    let version = Version::Of10;
    Ok(match kind {
        kind10::PORT_MOD => decode_port_mod(version, bytes)?,
        kind10::STATS_REQUEST => Message::StatsRequest(StatsRequest::parse(&stats_view(version, bytes)?)?),
        kind10::STATS_REPLY => Message::StatsReply(StatsReply::parse(&stats_view(version, bytes)?)?),
        kind10::BARRIER_REQUEST => empty(bytes, Message::BarrierRequest)?,
        kind10::BARRIER_REPLY => empty(bytes, Message::BarrierReply)?,
        kind10::QUEUE_GET_CONFIG_REQUEST => decode_queue_request(version, bytes)?,
        kind10::QUEUE_GET_CONFIG_REPLY => decode_queues(version, bytes)?,
        kind => Message::Unknown { kind, body: bytes[header::LEN..].to_vec() },
    })
}

/// Reads a message whose type number belongs to 1.3 only.
fn decode13(kind: u8, bytes: &[u8]) -> Result<Message> {
    let version = Version::Of13;
    Ok(match kind {
        kind13::GROUP_MOD => Message::GroupMod(GroupMod::parse(&group_mod::GroupModView::new_checked(bytes)?)?),
        kind13::PORT_MOD => decode_port_mod(version, bytes)?,
        kind13::TABLE_MOD => Message::TableMod(TableMod::parse(&table_mod::TableModView::new_checked(bytes)?)),
        kind13::MULTIPART_REQUEST => Message::StatsRequest(StatsRequest::parse(&stats_view(version, bytes)?)?),
        kind13::MULTIPART_REPLY => Message::StatsReply(StatsReply::parse(&stats_view(version, bytes)?)?),
        kind13::BARRIER_REQUEST => empty(bytes, Message::BarrierRequest)?,
        kind13::BARRIER_REPLY => empty(bytes, Message::BarrierReply)?,
        kind13::QUEUE_GET_CONFIG_REQUEST => decode_queue_request(version, bytes)?,
        kind13::QUEUE_GET_CONFIG_REPLY => decode_queues(version, bytes)?,
        kind13::ROLE_REQUEST => Message::RoleRequest(decode_role(bytes)?),
        kind13::ROLE_REPLY => Message::RoleReply(decode_role(bytes)?),
        kind13::GET_ASYNC_REQUEST => empty(bytes, Message::GetAsyncRequest)?,
        kind13::GET_ASYNC_REPLY => Message::GetAsyncReply(decode_async(bytes)?),
        kind13::SET_ASYNC => Message::SetAsync(decode_async(bytes)?),
        kind13::METER_MOD => Message::MeterMod(MeterMod::parse(&meter_mod::MeterModView::new_checked(bytes)?)?),
        kind => Message::Unknown { kind, body: bytes[header::LEN..].to_vec() },
    })
}

/// Returns `message` if `bytes` is only a header.
fn empty(bytes: &[u8], message: Message) -> Result<Message> {
    bytes::exactly("message without a body", bytes, header::LEN)?;
    Ok(message)
}

fn decode_config(bytes: &[u8]) -> Result<SwitchConfig> {
    Ok(SwitchConfig::parse(&config::SwitchConfigView::new_checked(bytes)?))
}

fn decode_port_mod(version: Version, bytes: &[u8]) -> Result<Message> {
    Ok(Message::PortMod(PortMod::parse(&port_mod::PortModView::new_checked(version, bytes)?)))
}

fn stats_view(version: Version, bytes: &[u8]) -> Result<stats::StatsView<'_>> {
    stats::StatsView::new_checked(version, bytes)
}

fn decode_queue_request(version: Version, bytes: &[u8]) -> Result<Message> {
    bytes::exactly("queue-get-config request", bytes, if version == Version::Of10 { 12 } else { 16 })?;
    Ok(Message::QueueGetConfigRequest(port_desc::number_at(version, bytes, header::LEN)))
}

fn decode_queues(version: Version, bytes: &[u8]) -> Result<Message> {
    let view = queue_config::QueueConfigView::new_checked(version, bytes)?;
    Ok(Message::QueueGetConfigReply(QueueConfig::parse(&view)?))
}

fn decode_role(bytes: &[u8]) -> Result<Role> {
    Ok(Role::parse(&role::RoleView::new_checked(bytes)?))
}

fn decode_async(bytes: &[u8]) -> Result<AsyncConfig> {
    Ok(AsyncConfig::parse(&async_config::AsyncConfigView::new_checked(bytes)?))
}

#[cfg(test)]
mod tests {
    use super::test::{check, hex};
    use super::*;
    use crate::Error;

    #[test]
    fn messages_without_a_body_are_headers() {
        check(Version::Of10, "01 05 0008 00000001", Message::FeaturesRequest);
        check(Version::Of10, "01 12 0008 00000001", Message::BarrierRequest);
        check(Version::Of10, "01 13 0008 00000001", Message::BarrierReply);
        check(Version::Of13, "04 14 0008 00000001", Message::BarrierRequest);
        check(Version::Of13, "04 15 0008 00000001", Message::BarrierReply);
        check(Version::Of13, "04 1a 0008 00000001", Message::GetAsyncRequest);
        assert!(Message::decode(&hex("04 14 0009 00000001 00")).is_err());
    }

    #[test]
    fn echoes_carry_any_bytes() {
        check(Version::Of10, "01 02 000a 00000001 abcd", Message::EchoRequest(vec![0xab, 0xcd]));
        check(Version::Of13, "04 03 0008 00000001", Message::EchoReply(vec![]));
    }

    #[test]
    fn messages_of_unknown_types_are_kept() {
        check(Version::Of13, "04 63 000a 00000001 abcd", Message::Unknown { kind: 99, body: vec![0xab, 0xcd] });
        check(Version::Of10, "01 16 0008 00000001", Message::Unknown { kind: 22, body: vec![] });
    }

    #[test]
    fn hello_error_and_echo_are_read_in_any_version_and_nothing_else_is() {
        for version in [0, 2, 3, 5, 6, 99] {
            for kind in 0..=29 {
                let bytes = [version, kind, 0, 12, 0, 0, 0, 1, 0, 0, 0, 0];
                let decoded = Message::decode(&bytes);
                assert_eq!(decoded.is_ok(), kind <= 3, "version {version}, type {kind}");
                assert!(kind <= 3 || decoded == Err(Error::BadVersion(version)));
            }
        }
    }

    #[test]
    fn a_message_longer_than_16_bits_can_say_is_refused() {
        let mut out = vec![1];
        assert_eq!(Message::EchoRequest(vec![0; 65528]).encode(Version::Of13, 1, &mut out), Err(Error::TooLong(65536)));
        assert_eq!(out, [1]);
        assert!(Message::EchoRequest(vec![0; 65527]).encode(Version::Of13, 1, &mut out).is_ok());
    }
}
