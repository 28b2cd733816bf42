//! Port-status: the report that a port was added, removed or changed (1.0 §5.4.3, 1.3 §7.4.3).

use serde::{Deserialize, Serialize};

use super::Version;
use super::bytes::{Put, Reader};
use super::wire::{Padded, Wire, layout};
use crate::error::Result;
use crate::port::Port;

/// The kind of change of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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

layout! {
    /// Reports that a port was added, removed or changed.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub struct PortStatus {
        /// The kind of change.
        pub reason: PortReason as Padded<7>,
        /// The port after the change.
        pub port: Port,
    }
}

impl Wire for PortReason {
    const MIN: [usize; 2] = [1; 2];
    const FIXED: bool = true;

    fn read(reader: &mut Reader<'_>) -> Result<PortReason> {
        reader.u8().map(PortReason::from_wire)
    }

    fn write(&self, _: Version, out: &mut Vec<u8>) -> Result<()> {
        out.put_u8(self.to_wire());
        Ok(())
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
    use crate::msg::test::check;

    #[test]
    fn a_port_that_went_down_is_read_in_both_versions() {
        let mut port = Port { state: 1, curr: 0x2820, ..Port::new(PortNo(3), [2, 0, 0, 0, 0, 3], "s1-eth3") };
        let of10 = "01 0c 0040 00000001 02 00000000000000 0003 020000000003 73312d65746833000000000000000000
            00000000 00000001 00002820 00000000 00000000 00000000";
        check(Version::Of10, of10, Message::PortStatus(PortStatus { reason: PortReason::Modify, port: port.clone() }));
        (port.curr_speed, port.max_speed) = (10_000_000, 1);
        let of13 = "04 0c 0050 00000001 02 00000000000000 00000003 00000000 020000000003 0000
            73312d65746833000000000000000000
            00000000 00000001 00002820 00000000 00000000 00000000 00989680 00000001";
        check(Version::Of13, of13, Message::PortStatus(PortStatus { reason: PortReason::Modify, port }));
    }

    #[test]
    fn a_port_with_a_number_of_more_than_16_bits_cannot_be_expressed_in_1_0() {
        let status = PortStatus { reason: PortReason::Add, port: Port::new(PortNo(0x12345), [0; 6], "x") };
        assert!(status.write(Version::Of10, &mut Vec::new()).is_err());
    }
}
