//! Queue-get-config reply: the queues of a port (1.0 §5.3.4, 1.3 §7.3.6).

use super::Version;
use super::bytes::{Elements, Layout, Put, at_least, u16_at, u32_at};
use super::port_desc::{emit_number, number_at};
use crate::error::{Error, Result};
use crate::port::PortNo;

mod offset {
    pub const PORT: usize = 8;
    pub const QUEUES: usize = 16;
}

/// Offsets in a queue.
mod queue_offset {
    pub const ID: usize = 0;
    pub const PORT_13: usize = 4;
    pub const LENGTH_10: usize = 4;
    pub const LENGTH_13: usize = 8;
    pub const PROPERTIES_10: usize = 8;
    pub const PROPERTIES_13: usize = 16;
}

/// Offsets in a property.
mod property_offset {
    pub const TYPE: usize = 0;
    pub const LENGTH: usize = 2;
    pub const BODY: usize = 4;
    pub const RATE: usize = 8;
    pub const END_OF_RATE: usize = 16;
}

/// The types of properties (`OFPQT_*`).
mod kind {
    pub const MIN_RATE: u16 = 1;
    pub const MAX_RATE: u16 = 2;
}

const QUEUE_10: Layout = Layout {
    what: "queue",
    length_at: queue_offset::LENGTH_10,
    min: queue_offset::PROPERTIES_10,
    multiple: 1,
    pad_to: 1,
};
const QUEUE_13: Layout = Layout {
    what: "queue",
    length_at: queue_offset::LENGTH_13,
    min: queue_offset::PROPERTIES_13,
    multiple: 1,
    pad_to: 1,
};
const PROPERTY: Layout =
    Layout { what: "queue property", length_at: property_offset::LENGTH, min: 8, multiple: 1, pad_to: 1 };

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

/// A view of a queue-get-config reply.
#[derive(Clone, Copy, Debug)]
pub struct QueueConfigView<'a> {
    version: Version,
    bytes: &'a [u8],
}

impl<'a> QueueConfigView<'a> {
    /// Creates a view of the message that takes all of `bytes`, header included.
    ///
    /// # Errors
    /// [`Error::Truncated`] if `bytes` ends within the fixed part.
    pub fn new_checked(version: Version, bytes: &'a [u8]) -> Result<QueueConfigView<'a>> {
        at_least("queue-get-config reply", bytes, offset::QUEUES)?;
        Ok(QueueConfigView { version, bytes })
    }

    /// Returns the port that was asked for.
    pub fn port(&self) -> PortNo {
        number_at(self.version, self.bytes, offset::PORT)
    }

    /// Iterates over the queues; the first error is the last item.
    pub fn queues(&self) -> impl Iterator<Item = Result<QueueView<'a>>> {
        let (version, port) = (self.version, self.port());
        let layout = if version == Version::Of10 { QUEUE_10 } else { QUEUE_13 };
        Elements::new(layout, &self.bytes[offset::QUEUES..])
            .map(move |bytes| bytes.map(|bytes| QueueView { version, port, bytes }))
    }
}

/// A view of one queue.
#[derive(Clone, Copy, Debug)]
pub struct QueueView<'a> {
    version: Version,
    port: PortNo,
    bytes: &'a [u8],
}

impl<'a> QueueView<'a> {
    /// Returns the queue's number on its port.
    pub fn id(&self) -> u32 {
        u32_at(self.bytes, queue_offset::ID)
    }

    /// Returns the queue's port.
    pub fn port(&self) -> PortNo {
        if self.version == Version::Of10 { self.port } else { PortNo(u32_at(self.bytes, queue_offset::PORT_13)) }
    }

    /// Iterates over the properties of the queue. The first error is the last item.
    pub fn properties(&self) -> impl Iterator<Item = Result<QueuePropertyView<'a>>> {
        let of10 = self.version == Version::Of10;
        let at = if of10 { queue_offset::PROPERTIES_10 } else { queue_offset::PROPERTIES_13 };
        Elements::new(PROPERTY, &self.bytes[at..]).map(|bytes| bytes.map(|bytes| QueuePropertyView { bytes }))
    }
}

/// A view of one property of a queue.
#[derive(Clone, Copy, Debug)]
pub struct QueuePropertyView<'a> {
    bytes: &'a [u8],
}

impl<'a> QueuePropertyView<'a> {
    /// Returns the type, `OFPQT_*`.
    pub fn kind(&self) -> u16 {
        u16_at(self.bytes, property_offset::TYPE)
    }

    /// Returns the bytes after type and length.
    pub fn body(&self) -> &'a [u8] {
        &self.bytes[property_offset::BODY..]
    }

    /// Reads the owned form.
    pub fn to_property(&self) -> QueueProperty {
        let is_rate = self.bytes.len() == property_offset::END_OF_RATE;
        match self.kind() {
            kind::MIN_RATE if is_rate => QueueProperty::MinRate(u16_at(self.bytes, property_offset::RATE)),
            kind::MAX_RATE if is_rate => QueueProperty::MaxRate(u16_at(self.bytes, property_offset::RATE)),
            kind => QueueProperty::Unknown { kind, body: self.body().to_vec() },
        }
    }
}

impl QueueConfig {
    /// Reads the owned form.
    ///
    /// # Errors
    /// The error of the first queue or property that is malformed.
    pub fn parse(view: &QueueConfigView<'_>) -> Result<QueueConfig> {
        let queues = view.queues().map(|queue| QueueDesc::parse(&queue?)).collect::<Result<_>>()?;
        Ok(QueueConfig { port: view.port(), queues })
    }

    /// Appends the message without its header.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if 1.0 has no such port number, and an error about lengths if a part is malformed or too
    /// long.
    pub fn emit(&self, version: Version, out: &mut Vec<u8>) -> Result<()> {
        emit_number(self.port, version, 8, out)?;
        self.queues.iter().try_for_each(|queue| queue.emit(version, out))
    }
}

impl QueueDesc {
    fn parse(view: &QueueView<'_>) -> Result<QueueDesc> {
        let properties = view.properties().map(|property| Ok(property?.to_property())).collect::<Result<_>>()?;
        Ok(QueueDesc { id: view.id(), port: view.port(), properties })
    }

    fn emit(&self, version: Version, out: &mut Vec<u8>) -> Result<()> {
        let of10 = version == Version::Of10;
        out.put_sized(if of10 { queue_offset::LENGTH_10 } else { queue_offset::LENGTH_13 }, |out| {
            out.put_u32(self.id);
            if !of10 {
                out.put_u32(self.port.0);
            }
            out.put_zeros(if of10 { 4 } else { 8 });
            self.properties.iter().try_for_each(|property| property.emit(out))
        })
    }
}

impl QueueProperty {
    fn emit(&self, out: &mut Vec<u8>) -> Result<()> {
        out.put_sized(property_offset::LENGTH, |out| {
            let (kind, rate) = match self {
                QueueProperty::MinRate(rate) => (kind::MIN_RATE, *rate),
                QueueProperty::MaxRate(rate) => (kind::MAX_RATE, *rate),
                QueueProperty::Unknown { kind, body } => {
                    if body.len() < 4 {
                        return Err(Error::BadLength { what: PROPERTY.what, length: body.len() });
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
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::msg::Message;
    use crate::msg::test::{check, check_truncated, hex};

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
        check_truncated(bytes);
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
        check_truncated(bytes);
    }

    #[test]
    fn queues_and_properties_of_length_zero_are_refused() {
        let queue = "04 17 0020 00000001 00000003 00000000 00000009 00000003 0000 000000000000";
        let property = "04 17 0028 00000001 00000003 00000000 00000009 00000003 0018 000000000000 0001 0000 00000000";
        assert!(Message::decode(&hex(queue)).is_err());
        assert!(Message::decode(&hex(property)).is_err());
    }
}
