//! The table of all messages, and how one is read and written.

use super::bytes::{Put, Reader, unsupported};
use super::header::{self, kind};
use super::numbered::numbered;
use super::wire::{Bytes, Padded};
use super::*;
use crate::error::Result;
use crate::port::PortNo;

numbered! {
    /// One OpenFlow message without its header, independent of a version's format.
    ///
    /// ```
    /// use maple_wire::{Message, Version};
    ///
    /// let mut bytes = Vec::new();
    /// Message::EchoRequest(b"hi".to_vec()).encode(Version::Of13, 7, &mut bytes).unwrap();
    /// let (header, message) = Message::decode(&bytes).unwrap();
    /// assert_eq!((header.xid, message), (7, Message::EchoRequest(b"hi".to_vec())));
    /// ```
    #[derive(Clone, Debug, PartialEq, Eq)]
    #[non_exhaustive]
    pub enum Message {
        both versions {
            /// Opens a connection.
            Hello(Hello) = "hello", 0, 0;
            /// Reports that a request could not be done.
            Error(ErrorMsg) = "error", 1, 1;
            /// Asks for an echo reply. The bytes are arbitrary.
            EchoRequest(Vec<u8> as Bytes) = "echo request", 2, 2;
            /// Answers an echo request, with its bytes.
            EchoReply(Vec<u8> as Bytes) = "echo reply", 3, 3;
            /// An experimenter's (1.0: vendor's) own message.
            Experimenter(Experimenter) = "experimenter", 4, 4;
            /// Asks for the switch's features.
            FeaturesRequest = "features request", 5, 5;
            /// The switch's features.
            FeaturesReply(Features) = "features-reply", 6, 6;
            /// Asks for the switch's configuration.
            GetConfigRequest = "get-config request", 7, 7;
            /// The switch's configuration.
            GetConfigReply(SwitchConfig) = "get-config reply", 8, 8;
            /// Sets the switch's configuration.
            SetConfig(SwitchConfig) = "set-config", 9, 9;
            /// A packet for the controller.
            PacketIn(PacketIn) = "packet-in", 10, 10;
            /// Reports that a rule was removed.
            FlowRemoved(FlowRemoved) = "flow-removed", 11, 11;
            /// Reports that a port was added, removed or changed.
            PortStatus(PortStatus) = "port-status", 12, 12;
            /// Makes the switch send a packet.
            PacketOut(PacketOut) = "packet-out", 13, 13;
            /// Adds, changes or deletes rules.
            FlowMod(FlowMod) = "flow-mod", 14, 14;
            /// Changes a port.
            PortMod(PortMod) = "port-mod", 15, 16;
            /// Asks for statistics.
            StatsRequest(StatsRequest) = "statistics request", 16, 18;
            /// Statistics.
            StatsReply(StatsReply) = "statistics", 17, 19;
            /// Makes the switch finish all earlier messages first.
            BarrierRequest = "barrier request", 18, 20;
            /// Confirms a barrier request.
            BarrierReply = "barrier reply", 19, 21;
            /// Asks for the queues of this port; [`PortNo::ANY`] asks for all ports (1.3).
            QueueGetConfigRequest(PortNo as Padded<2, 4>) = "queue-get-config request", 20, 22;
            /// The queues of a port.
            QueueGetConfigReply(QueueConfig) = "queue-get-config reply", 21, 23;
        }
        only 1.3 {
            /// Changes a group (1.3).
            GroupMod(GroupMod) = "group-mod", 15;
            /// Configures a table (1.3).
            TableMod(TableMod) = "table-mod", 17;
            /// Asks for this role (1.3).
            RoleRequest(Role) = "role request", 24;
            /// The role that the controller has (1.3).
            RoleReply(Role) = "role reply", 25;
            /// Asks which messages the switch sends without a request (1.3).
            GetAsyncRequest = "get-async request", 26;
            /// The messages that the switch sends without a request (1.3).
            GetAsyncReply(AsyncConfig) = "get-async reply", 27;
            /// Sets the messages that the switch sends without a request (1.3).
            SetAsync(AsyncConfig) = "set-async", 28;
            /// Changes a meter (1.3).
            MeterMod(MeterMod) = "meter-mod", 29;
        }
        others {
            /// Opens, closes, commits or discards a bundle, or is the answer (1.3).
            BundleControl(BundleControl),
            /// Adds a message to a bundle (1.3).
            BundleAdd(BundleAdd),
            /// A message of a type that the version does not have, kept unchanged.
            Unknown {
                /// The number of its type.
                kind: u8,
                /// The bytes after the header.
                body: Vec<u8>,
            },
        }
    }
}

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
        let version = match header.version() {
            Err(_) if header.kind <= kind::ECHO_REPLY => Version::Of13,
            version => version?,
        };
        let mut reader = Reader::new("message", version, bytes);
        reader.take(header::LEN)?;
        let message = match bundle::read(&header, &reader)? {
            Some(message) => message,
            None => match Message::read_row(header.kind.into(), &mut reader)? {
                Some(message) => message,
                None => Message::Unknown { kind: header.kind, body: reader.rest().to_vec() },
            },
        };
        Ok((header, message))
    }

    /// Encodes the message alone, as [`encode`](Message::encode) appends it.
    ///
    /// # Errors
    /// Those of [`encode`](Message::encode).
    pub fn to_bytes(&self, version: Version, xid: u32) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.encode(version, xid, &mut bytes).map(|()| bytes)
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
            let first = if let Message::Hello(hello) = self { hello.version } else { version as u8 };
            let [a, b, c, d] = xid.to_be_bytes();
            out.put(&[first, self.kind(version)?, 0, 0, a, b, c, d]);
            match self {
                Message::BundleControl(control) => bundle::write_control(control, out),
                Message::BundleAdd(add) => add.write(version, xid, out),
                Message::Unknown { body, .. } => {
                    out.put(body);
                    Ok(())
                }
                listed => listed.write_row(version, out),
            }
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
    #[inline]
    pub fn kind(&self, version: Version) -> Result<u8> {
        let (name, in10, in13) = match (self.row(), self) {
            (Some(row), _) => (row.name, row.in10, row.in13),
            (None, Message::Unknown { kind, .. }) => return Ok(*kind),
            (None, _) => ("bundle", None, kind::EXPERIMENTER.into()),
        };
        match (version, in10) {
            (Version::Of13, _) => Ok(in13 as u8),
            (Version::Of10, Some(number)) => Ok(number as u8),
            (Version::Of10, None) => unsupported(version, format!("a {name}")),
        }
    }
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
