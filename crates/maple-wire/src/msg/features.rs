//! Features-reply: a switch's properties and abilities (1.0 §5.3.1, 1.3 §7.3.1).

use super::Version;
use super::bytes::{Put, at_least, exactly, only_of13, u32_at, u64_at, unsupported};
use super::port_desc::PortView;
use crate::Dpid;
use crate::error::Result;
use crate::port::Port;

mod offset {
    pub const DPID: usize = 8;
    pub const N_BUFFERS: usize = 16;
    pub const N_TABLES: usize = 20;
    /// The auxiliary id of 1.3; padding in 1.0.
    pub const AUXILIARY_ID: usize = 21;
    pub const CAPABILITIES: usize = 24;
    /// The actions of 1.0; reserved in 1.3.
    pub const ACTIONS: usize = 28;
    /// The ports of 1.0; the end of the message in 1.3.
    pub const PORTS: usize = 32;
}

/// A switch's report about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Features {
    /// The datapath id.
    pub dpid: Dpid,
    /// The number of packets that the switch can buffer.
    pub n_buffers: u32,
    /// The number of tables.
    pub n_tables: u8,
    /// 0 for a main connection, otherwise the number of an auxiliary one (1.3; 0 in 1.0).
    pub auxiliary_id: u8,
    /// Bits of `OFPC_*`, in the version's own numbering.
    pub capabilities: u32,
    /// Bits of the supported actions in 1.0; reserved in 1.3.
    pub actions: u32,
    /// The ports in 1.0; in 1.3 a port-desc request gets them.
    pub ports: Vec<Port>,
}

/// A view of a features-reply.
#[derive(Clone, Copy, Debug)]
pub struct FeaturesView<'a> {
    version: Version,
    bytes: &'a [u8],
}

impl<'a> FeaturesView<'a> {
    /// Creates a view of the features-reply that takes all of `bytes`, header included.
    ///
    /// # Errors
    /// [`Error::Truncated`](crate::Error::Truncated) or [`Error::BadLength`](crate::Error::BadLength) if `bytes` has an
    /// impossible length.
    pub fn new_checked(version: Version, bytes: &'a [u8]) -> Result<FeaturesView<'a>> {
        match version {
            Version::Of10 => at_least("features-reply", bytes, offset::PORTS)?,
            Version::Of13 => exactly("features-reply", bytes, offset::PORTS)?,
        }
        Ok(FeaturesView { version, bytes })
    }

    /// Returns the switch's datapath id.
    pub fn dpid(&self) -> Dpid {
        Dpid(u64_at(self.bytes, offset::DPID))
    }

    /// Returns the number of packets that the switch can buffer.
    pub fn n_buffers(&self) -> u32 {
        u32_at(self.bytes, offset::N_BUFFERS)
    }

    /// Returns the number of tables.
    pub fn n_tables(&self) -> u8 {
        self.bytes[offset::N_TABLES]
    }

    /// Returns 0 for a main connection, otherwise the number of an auxiliary one.
    pub fn auxiliary_id(&self) -> u8 {
        if self.version == Version::Of10 { 0 } else { self.bytes[offset::AUXILIARY_ID] }
    }

    /// Returns bits of `OFPC_*`.
    pub fn capabilities(&self) -> u32 {
        u32_at(self.bytes, offset::CAPABILITIES)
    }

    /// Returns bits of the supported actions in 1.0.
    pub fn actions(&self) -> u32 {
        u32_at(self.bytes, offset::ACTIONS)
    }

    /// Iterates over the ports; there are none in 1.3.
    ///
    /// # Errors
    /// [`Error::Truncated`](crate::Error::Truncated) if the last port is cut off.
    pub fn ports(&self) -> Result<impl Iterator<Item = PortView<'a>>> {
        PortView::list(self.version, &self.bytes[offset::PORTS..])
    }
}

impl Features {
    /// Reads the owned form.
    ///
    /// # Errors
    /// [`Error::Truncated`](crate::Error::Truncated) if the last port is cut off.
    pub fn parse(view: &FeaturesView<'_>) -> Result<Features> {
        Ok(Features {
            dpid: view.dpid(),
            n_buffers: view.n_buffers(),
            n_tables: view.n_tables(),
            auxiliary_id: view.auxiliary_id(),
            capabilities: view.capabilities(),
            actions: view.actions(),
            ports: view.ports()?.map(|port| port.to_port()).collect(),
        })
    }

    /// Appends the message without its header.
    ///
    /// # Errors
    /// [`Error::Unsupported`](crate::Error::Unsupported) for an auxiliary connection or a large port number in 1.0, and
    /// for ports in 1.3.
    pub fn emit(&self, version: Version, out: &mut Vec<u8>) -> Result<()> {
        if self.auxiliary_id != 0 {
            only_of13(version, "an auxiliary connection")?;
        }
        if version == Version::Of13 && !self.ports.is_empty() {
            return unsupported(version, "ports in a features-reply");
        }
        out.put_u64(self.dpid.0);
        out.put_u32(self.n_buffers);
        out.put_u8(self.n_tables);
        out.put_u8(self.auxiliary_id);
        out.put_zeros(2);
        out.put_u32(self.capabilities);
        out.put_u32(self.actions);
        self.ports.iter().try_for_each(|port| super::port_desc::emit(port, version, out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PortNo;
    use crate::msg::Message;
    use crate::msg::test::{check, check_truncated};

    fn features(auxiliary_id: u8, ports: Vec<Port>) -> Message {
        Message::FeaturesReply(Features {
            dpid: Dpid(0x1122334455667788),
            n_buffers: 256,
            n_tables: 254,
            auxiliary_id,
            capabilities: 0x4f,
            actions: 0xfff,
            ports,
        })
    }

    #[test]
    fn a_1_0_switch_lists_its_ports() {
        let bytes = "01 06 0050 00000001 1122334455667788 00000100 fe 000000 0000004f 00000fff
            fffe 020000000001 62723000000000000000000000000000 00000001 00000001 00000000 00000000 00000000 00000000";
        let port = Port { config: 1, state: 1, ..Port::new(PortNo::LOCAL, [2, 0, 0, 0, 0, 1], "br0") };
        check(Version::Of10, bytes, features(0, vec![port]));
        check_truncated(bytes);
    }

    #[test]
    fn a_1_3_switch_says_which_connection_this_is() {
        let bytes = "04 06 0020 00000001 1122334455667788 00000100 fe 02 0000 0000004f 00000fff";
        check(Version::Of13, bytes, features(2, vec![]));
        check_truncated(bytes);
    }
}
