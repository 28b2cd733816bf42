//! Port numbers and descriptions, in the form of OpenFlow 1.3.
//!
//! OpenFlow 1.0 has 16-bit port numbers. Its reserved numbers (0xfff8 and up) are read as the 32-bit numbers of 1.3.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::parse_number;

/// A port number of a switch, 32 bits wide, with OpenFlow 1.3's reserved values.
///
/// ```
/// use maple_wire::PortNo;
///
/// assert!(PortNo(1).is_physical() && !PortNo::FLOOD.is_physical());
/// assert_eq!(PortNo::from_of10(0xfffd), PortNo::CONTROLLER);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct PortNo(pub u32);

impl PortNo {
    /// The largest number of a physical or logical port in OpenFlow 1.3.
    pub const MAX: PortNo = PortNo(0xffff_ff00);
    /// The port that the packet came in by, as an output.
    pub const IN_PORT: PortNo = PortNo(0xffff_fff8);
    /// The first flow table, as an output of packet-outs only.
    pub const TABLE: PortNo = PortNo(0xffff_fff9);
    /// The treatment by a switch without a controller, as an output.
    pub const NORMAL: PortNo = PortNo(0xffff_fffa);
    /// All ports of the VLAN except the one it came in by.
    pub const FLOOD: PortNo = PortNo(0xffff_fffb);
    /// All ports except the one it came in by.
    pub const ALL: PortNo = PortNo(0xffff_fffc);
    /// The controller.
    pub const CONTROLLER: PortNo = PortNo(0xffff_fffd);
    /// The switch's own host.
    pub const LOCAL: PortNo = PortNo(0xffff_fffe);
    /// No port, or any port in a request.
    pub const ANY: PortNo = PortNo(0xffff_ffff);

    /// Reports whether this is an ordinary port: not 0 and not reserved.
    #[must_use]
    pub const fn is_physical(self) -> bool {
        self.0 != 0 && self.0 <= Self::MAX.0
    }

    /// Reports whether packets can come in by this port and leave by it: an ordinary port, or the port of the switch's
    /// own host.
    #[must_use]
    pub const fn is_ordinary_or_local(self) -> bool {
        self.is_physical() || self.0 == Self::LOCAL.0
    }

    /// Converts a number of OpenFlow 1.0.
    #[must_use]
    pub const fn from_of10(number: u16) -> PortNo {
        if number >= 0xff00 { PortNo(0xffff_0000 | number as u32) } else { PortNo(number as u32) }
    }

    /// Returns the port's number in OpenFlow 1.0, if it has one.
    #[must_use]
    pub const fn to_of10(self) -> Option<u16> {
        if self.0 < 0xff00 {
            Some(self.0 as u16)
        } else if self.0 >= 0xffff_ff00 {
            Some((self.0 & 0xffff) as u16)
        } else {
            None
        }
    }
}

impl fmt::Display for PortNo {
    /// Writes the number, or the reserved name as `ovs-ofctl` prints it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            PortNo::IN_PORT => f.write_str("IN_PORT"),
            PortNo::TABLE => f.write_str("TABLE"),
            PortNo::NORMAL => f.write_str("NORMAL"),
            PortNo::FLOOD => f.write_str("FLOOD"),
            PortNo::ALL => f.write_str("ALL"),
            PortNo::CONTROLLER => f.write_str("CONTROLLER"),
            PortNo::LOCAL => f.write_str("LOCAL"),
            PortNo::ANY => f.write_str("ANY"),
            PortNo(number) => write!(f, "{number}"),
        }
    }
}

/// Text that is not a port.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a port (a number, or a name such as LOCAL)")]
pub struct BadPort(pub String);

impl std::str::FromStr for PortNo {
    type Err = BadPort;

    /// Reads a number, or the name of a reserved port in upper or lower case. Hexadecimal numbers start with `0x`.
    fn from_str(text: &str) -> Result<PortNo, BadPort> {
        const NAMED: [PortNo; 8] = [
            PortNo::IN_PORT,
            PortNo::TABLE,
            PortNo::NORMAL,
            PortNo::FLOOD,
            PortNo::ALL,
            PortNo::CONTROLLER,
            PortNo::LOCAL,
            PortNo::ANY,
        ];
        let named = NAMED.into_iter().find(|port| port.to_string().eq_ignore_ascii_case(text));
        let number = || u32::try_from(parse_number(text)?).ok().map(PortNo);
        named.or_else(number).ok_or_else(|| BadPort(text.to_owned()))
    }
}

impl fmt::Debug for PortNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// A port of a switch (`ofp_port`, 1.3 §7.2.1; `ofp_phy_port`, 1.0 §5.2.1).
///
/// ```
/// use maple_wire::{Port, PortNo};
///
/// let port = Port::new(PortNo(1), [2, 0, 0, 0, 0, 1], "s1-eth1");
/// assert!(port.is_up());
/// assert_eq!(port.name(), "s1-eth1");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Port {
    /// The port's number on this switch.
    pub number: PortNo,
    /// The port's hardware address.
    pub hw_addr: [u8; 6],
    /// The name as sent: 16 bytes, NUL-padded. [`Port::name`] returns it as text.
    pub name_raw: [u8; 16],
    /// The operator's configuration: bits of `OFPPC_*` (bit 0: port down).
    pub config: u32,
    /// The switch's observations: bits of `OFPPS_*` (bit 0: link down).
    pub state: u32,
    /// Current features: bits of `OFPPF_*` in the version of the message.
    pub curr: u32,
    /// Features that the port advertises.
    pub advertised: u32,
    /// Features that the port supports.
    pub supported: u32,
    /// Features that the peer advertises.
    pub peer: u32,
    /// Current bit rate in kb/s; 0 in OpenFlow 1.0, which does not report it.
    pub curr_speed: u32,
    /// Highest bit rate in kb/s; 0 in OpenFlow 1.0.
    pub max_speed: u32,
}

impl Port {
    /// `OFPPC_PORT_DOWN`: the operator took the port down.
    pub const CONFIG_DOWN: u32 = 1;
    /// `OFPPS_LINK_DOWN`: no link.
    pub const STATE_LINK_DOWN: u32 = 1;

    /// Creates a port that is up, without other properties. The name is cut to 15 bytes.
    #[must_use]
    pub fn new(number: PortNo, hw_addr: [u8; 6], name: &str) -> Port {
        let mut name_raw = [0; 16];
        let len = name.len().min(15);
        name_raw[..len].copy_from_slice(&name.as_bytes()[..len]);
        Port {
            number,
            hw_addr,
            name_raw,
            config: 0,
            state: 0,
            curr: 0,
            advertised: 0,
            supported: 0,
            peer: 0,
            curr_speed: 0,
            max_speed: 0,
        }
    }

    /// Returns the name up to the first NUL, with anything that is not UTF-8 replaced.
    #[must_use]
    pub fn name(&self) -> std::borrow::Cow<'_, str> {
        let end = self.name_raw.iter().position(|b| *b == 0).unwrap_or(16);
        String::from_utf8_lossy(&self.name_raw[..end])
    }

    /// Reports whether packets can pass: neither the operator nor a lost link took the port down.
    #[must_use]
    pub fn is_up(&self) -> bool {
        self.config & Self::CONFIG_DOWN == 0 && self.state & Self::STATE_LINK_DOWN == 0
    }
}
