//! Queue-get-config reply: the queues of a port (1.0 §5.3.4, 1.3 §7.3.6).

use super::Version;
use super::bytes::{Element, Put, Reader};
use super::wire::{Codec, Padded, Wire};
use crate::error::{Error, Result};
use crate::port::PortNo;

/// The types of properties (`OFPQT_*`).
mod kind {
    pub const MIN_RATE: u16 = 1;
    pub const MAX_RATE: u16 = 2;
}

/// The queues of a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueConfig {
    /// The port that was asked for.
    pub port: PortNo,
    /// The port's queues.
    pub queues: Vec<QueueDesc>,
}

/// A queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueDesc {
    /// The queue's number on its port.
    pub id: u32,
    /// The queue's port; in 1.0 the port that was asked for.
    pub port: PortNo,
    /// The properties of the queue.
    pub properties: Vec<QueueProperty>,
}

/// A property of a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueueProperty {
    /// The minimum share of the line, in tenths of a percent; more than 1000 means disabled.
    MinRate(u16),
    /// The maximum share of the line, in tenths of a percent; more than 1000 means disabled (1.3).
    MaxRate(u16),
    /// Any other property, kept unchanged.
    Unknown {
        /// The number of its type.
        kind: u16,
        /// The bytes after type and length, 4 or more.
        body: Vec<u8>,
    },
}

/// The port that was asked for, before its queues.
type PaddedPort = Padded<6, 4>;

impl Wire for QueueConfig {
    const MIN: [usize; 2] = [8; 2];

    fn read(reader: &mut Reader<'_>) -> Result<QueueConfig> {
        reader.need(Self::MIN)?;
        let port = PaddedPort::read(reader)?;
        let mut queues: Vec<QueueDesc> = reader.list()?;
        if reader.is_10() {
            queues.iter_mut().for_each(|queue| queue.port = port);
        }
        Ok(QueueConfig { port, queues })
    }

    fn write(&self, version: Version, out: &mut Vec<u8>) -> Result<()> {
        PaddedPort::write(&self.port, version, out)?;
        self.queues.write(version, out)
    }
}

impl Wire for QueueDesc {
    const MIN: [usize; 2] = [8, 16];
    const ELEMENT: Option<Element> = Some(Element { length_at: [4, 8], ..Element::new("queue", 0) });

    fn read(reader: &mut Reader<'_>) -> Result<QueueDesc> {
        let id = reader.u32()?;
        let port = if reader.is_10() { PortNo::ANY } else { PortNo::read(reader)? };
        let _length: u16 = Padded::<2, 6>::read(reader)?;
        Ok(QueueDesc { id, port, properties: reader.list()? })
    }

    fn write(&self, version: Version, out: &mut Vec<u8>) -> Result<()> {
        out.put_u32(self.id);
        if version == Version::Of13 {
            self.port.write(version, out)?;
        }
        Padded::<2, 6>::write(&0u16, version, out)?;
        self.properties.write(version, out)
    }
}

impl Wire for QueueProperty {
    const MIN: [usize; 2] = [8; 2];
    const ELEMENT: Option<Element> = Some(Element::new("queue property", 2));

    fn read(reader: &mut Reader<'_>) -> Result<QueueProperty> {
        let (kind, _length) = (reader.u16()?, reader.u16()?);
        let body = reader.rest();
        // A rate stands after four bytes of padding, and before six.
        let rate = match body {
            [_, _, _, _, high, low, _, _, _, _, _, _] => Some(u16::from_be_bytes([*high, *low])),
            _ => None,
        };
        Ok(match (kind, rate) {
            (kind::MIN_RATE, Some(rate)) => QueueProperty::MinRate(rate),
            (kind::MAX_RATE, Some(rate)) => QueueProperty::MaxRate(rate),
            _ => QueueProperty::Unknown { kind, body: body.to_vec() },
        })
    }

    fn write(&self, _: Version, out: &mut Vec<u8>) -> Result<()> {
        let (kind, rate) = match self {
            QueueProperty::MinRate(rate) => (kind::MIN_RATE, *rate),
            QueueProperty::MaxRate(rate) => (kind::MAX_RATE, *rate),
            QueueProperty::Unknown { kind, body } => {
                if body.len() < 4 {
                    return Err(Error::BadLength { what: "queue property", length: body.len() });
                }
                out.put_u16(*kind);
                out.put_u16(0);
                out.put(body);
                return Ok(());
            }
        };
        out.put_u16(kind);
        out.put_zeros(6);
        out.put_u16(rate);
        out.put_zeros(6);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::msg::Message;
    use crate::msg::test::{check, hex};

    fn queues(properties: Vec<QueueProperty>) -> Message {
        let queues = vec![QueueDesc { id: 9, port: PortNo(3), properties }];
        Message::QueueGetConfigReply(QueueConfig { port: PortNo(3), queues })
    }

    #[test]
    fn a_port_is_asked_for() {
        check(Version::Of10, "01 14 000c 00000001 0003 0000", Message::QueueGetConfigRequest(PortNo(3)));
        check(Version::Of13, "04 16 0010 00000001 ffffffff 00000000", Message::QueueGetConfigRequest(PortNo::ANY));
    }

    #[test]
    fn a_1_0_queue_may_have_an_empty_property() {
        let none = QueueProperty::Unknown { kind: 0, body: vec![0; 4] };
        let bytes = "01 15 0030 00000001 0003 000000000000 00000009 0020 0000
            0001 0010 00000000 01f4 000000000000 0000 0008 00000000";
        check(Version::Of10, bytes, queues(vec![QueueProperty::MinRate(500), none]));
    }

    #[test]
    fn a_1_3_queue_may_have_properties_of_odd_lengths() {
        let experimenter = QueueProperty::Unknown { kind: 0xffff, body: hex("00000000 000003e7 00000000 01") };
        let bytes = "04 17 0051 00000001 00000003 00000000 00000009 00000003 0041 000000000000
            0001 0010 00000000 01f4 000000000000 0002 0010 00000000 0384 000000000000
            ffff 0011 00000000 000003e7 00000000 01";
        check(
            Version::Of13,
            bytes,
            queues(vec![QueueProperty::MinRate(500), QueueProperty::MaxRate(900), experimenter]),
        );
    }

    #[test]
    fn queues_and_properties_of_length_zero_are_refused() {
        let queue = "04 17 0020 00000001 00000003 00000000 00000009 00000003 0000 000000000000";
        let property = "04 17 0028 00000001 00000003 00000000 00000009 00000003 0018 000000000000 0001 0000 00000000";
        assert!(Message::decode(&hex(queue)).is_err());
        assert!(Message::decode(&hex(property)).is_err());
    }
}
