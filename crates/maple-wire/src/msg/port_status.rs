//! Port-status: the report that a port was added, removed or changed (1.0 §5.4.3, 1.3 §7.4.3).

use super::Version;
use super::bytes::{Put, exactly};
use super::port_desc::{self, PortView};
use crate::error::Result;
use crate::port::Port;

mod offset {
    pub const REASON: usize = 8;
    pub const PORT: usize = 16;
}

/// The kind of change of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortReason {
    /// The port was added.
    Add,
    /// The port was removed.
    Delete,
    /// A property of the port changed.
    Modify,
    /// Any other number.
    Other(u8),
}

/// Reports that a port was added, removed or changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortStatus {
    /// The kind of change.
    pub reason: PortReason,
    /// The port after the change.
    pub port: Port,
}

/// A view of a port-status message.
#[derive(Clone, Copy, Debug)]
pub struct PortStatusView<'a> {
    version: Version,
    bytes: &'a [u8],
}

impl<'a> PortStatusView<'a> {
    /// Creates a view of the port-status message that takes all of `bytes`, header included.
    ///
    /// # Errors
    /// [`Error::Truncated`](crate::Error::Truncated) or [`Error::BadLength`](crate::Error::BadLength) if `bytes` has
    /// another length.
    pub fn new_checked(version: Version, bytes: &'a [u8]) -> Result<PortStatusView<'a>> {
        exactly("port-status", bytes, offset::PORT + port_desc::len(version))?;
        Ok(PortStatusView { version, bytes })
    }

    /// Returns the kind of change.
    pub fn reason(&self) -> PortReason {
        PortReason::from_wire(self.bytes[offset::REASON])
    }

    /// Returns the port after the change.
    ///
    /// # Errors
    /// None after [`PortStatusView::new_checked`], which has checked the length.
    pub fn port(&self) -> Result<PortView<'a>> {
        PortView::new_checked(self.version, &self.bytes[offset::PORT..])
    }
}

impl PortStatus {
    /// Reads the owned form.
    ///
    /// # Errors
    /// None after [`PortStatusView::new_checked`], which has checked the length.
    pub fn parse(view: &PortStatusView<'_>) -> Result<PortStatus> {
        Ok(PortStatus { reason: view.reason(), port: view.port()?.to_port() })
    }

    /// Appends the message without its header.
    ///
    /// # Errors
    /// [`Error::Unsupported`](crate::Error::Unsupported) if 1.0 has no such port number.
    pub fn emit(&self, version: Version, out: &mut Vec<u8>) -> Result<()> {
        out.put_u8(self.reason.to_wire());
        out.put_zeros(7);
        port_desc::emit(&self.port, version, out)
    }
}

impl PortReason {
    /// Returns the reason with this `OFPPR_*` number.
    pub const fn from_wire(number: u8) -> PortReason {
        match number {
            0 => PortReason::Add,
            1 => PortReason::Delete,
            2 => PortReason::Modify,
            other => PortReason::Other(other),
        }
    }

    /// Returns the `OFPPR_*` number.
    pub const fn to_wire(self) -> u8 {
        match self {
            PortReason::Add => 0,
            PortReason::Delete => 1,
            PortReason::Modify => 2,
            PortReason::Other(number) => number,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PortNo;
    use crate::msg::Message;
    use crate::msg::test::{check, check_truncated};

    #[test]
    fn a_port_that_went_down_is_read_in_both_versions() {
        let mut port = Port { state: 1, curr: 0x2820, ..Port::new(PortNo(3), [2, 0, 0, 0, 0, 3], "s1-eth3") };
        let of10 = "01 0c 0040 00000001 02 00000000000000 0003 020000000003 73312d65746833000000000000000000
            00000000 00000001 00002820 00000000 00000000 00000000";
        check(Version::Of10, of10, Message::PortStatus(PortStatus { reason: PortReason::Modify, port: port.clone() }));
        check_truncated(of10);
        (port.curr_speed, port.max_speed) = (10_000_000, 1);
        let of13 = "04 0c 0050 00000001 02 00000000000000 00000003 00000000 020000000003 0000
            73312d65746833000000000000000000
            00000000 00000001 00002820 00000000 00000000 00000000 00989680 00000001";
        check(Version::Of13, of13, Message::PortStatus(PortStatus { reason: PortReason::Modify, port }));
        check_truncated(of13);
    }

    #[test]
    fn a_port_with_a_number_of_more_than_16_bits_can_not_be_said_in_1_0() {
        let status = PortStatus { reason: PortReason::Add, port: Port::new(PortNo(0x12345), [0; 6], "x") };
        assert!(status.emit(Version::Of10, &mut Vec::new()).is_err());
    }
}
