//! Features-reply: what a switch has and can do (1.0 §5.3.1, 1.3 §7.3.1).

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
    /// 1.3; padding in 1.0.
    pub const AUXILIARY_ID: usize = 21;
    pub const CAPABILITIES: usize = 24;
    /// 1.0; reserved in 1.3.
    pub const ACTIONS: usize = 28;
    /// 1.0; the end in 1.3.
    pub const PORTS: usize = 32;
}

/// What a switch reports about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Features {
    /// Its datapath id.
    pub dpid: Dpid,
    /// How many packets it can buffer.
    pub n_buffers: u32,
    /// How many tables it has.
    pub n_tables: u8,
    /// 0 is a main connection; others are auxiliary (1.3; 0 in 1.0).
    pub auxiliary_id: u8,
    /// Bits of `OFPC_*`, in the version's own numbering.
    pub capabilities: u32,
    /// Bits of the actions it supports in 1.0; reserved in 1.3.
    pub actions: u32,
    /// Its ports (1.0; in 1.3 a port-desc request gets them).
    pub ports: Vec<Port>,
}

/// A view of a features-reply.
#[derive(Clone, Copy, Debug)]
pub struct FeaturesView<'a> {
    version: Version,
    bytes: &'a [u8],
}

impl<'a> FeaturesView<'a> {
    /// The features-reply that takes all of `bytes`, header included.
    pub fn new_checked(version: Version, bytes: &'a [u8]) -> Result<FeaturesView<'a>> {
        match version {
            Version::Of10 => at_least("features-reply", bytes, offset::PORTS)?,
            Version::Of13 => exactly("features-reply", bytes, offset::PORTS)?,
        }
        Ok(FeaturesView { version, bytes })
    }

    /// The switch's datapath id.
    pub fn dpid(&self) -> Dpid {
        Dpid(u64_at(self.bytes, offset::DPID))
    }

    /// How many packets it can buffer.
    pub fn n_buffers(&self) -> u32 {
        u32_at(self.bytes, offset::N_BUFFERS)
    }

    /// How many tables it has.
    pub fn n_tables(&self) -> u8 {
        self.bytes[offset::N_TABLES]
    }

    /// 0 is a main connection.
    pub fn auxiliary_id(&self) -> u8 {
        if self.version == Version::Of10 { 0 } else { self.bytes[offset::AUXILIARY_ID] }
    }

    /// Bits of `OFPC_*`.
    pub fn capabilities(&self) -> u32 {
        u32_at(self.bytes, offset::CAPABILITIES)
    }

    /// Bits of the actions it supports in 1.0.
    pub fn actions(&self) -> u32 {
        u32_at(self.bytes, offset::ACTIONS)
    }

    /// Its ports; none in 1.3.
    pub fn ports(&self) -> Result<impl Iterator<Item = PortView<'a>>> {
        PortView::list(self.version, &self.bytes[offset::PORTS..])
    }
}

impl Features {
    /// The owned form.
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

    /// Appends what follows the header. 1.0 has no auxiliary connections, 1.3 no ports here.
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
