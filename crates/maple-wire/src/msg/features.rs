//! Features-reply: a switch's properties and abilities (1.0 §5.3.1, 1.3 §7.3.1).

use serde::{Deserialize, Serialize};

use super::Version;
use super::bytes::{Put, Reader, only_of13, unsupported};
use super::wire::Wire;
use crate::Dpid;
use crate::error::Result;
use crate::port::Port;

/// A switch's report about itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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

impl Features {
    /// Creates the report of a switch on its main connection, with no buffers and no ports.
    pub fn new(dpid: Dpid, n_tables: u8) -> Features {
        Features { dpid, n_buffers: 0, n_tables, auxiliary_id: 0, capabilities: 0, actions: 0, ports: Vec::new() }
    }
}

impl Wire for Features {
    const MIN: [usize; 2] = [24; 2];

    fn read(reader: &mut Reader<'_>) -> Result<Features> {
        reader.need(Self::MIN)?;
        let (dpid, n_buffers) = (Dpid::read(reader)?, reader.u32()?);
        // 1.0 has padding in place of the auxiliary id.
        let [n_tables, auxiliary_id, ..]: [u8; 4] = reader.array()?;
        let (capabilities, actions) = (reader.u32()?, reader.u32()?);
        if !reader.is_10() {
            return Ok(Features { dpid, n_buffers, n_tables, auxiliary_id, capabilities, actions, ports: Vec::new() });
        }
        reader.call("port");
        let ports = reader.list()?;
        Ok(Features { dpid, n_buffers, n_tables, auxiliary_id: 0, capabilities, actions, ports })
    }

    /// Appends the message without its header. 1.0 has no auxiliary connections, and 1.3 no ports here.
    fn write(&self, version: Version, out: &mut Vec<u8>) -> Result<()> {
        if self.auxiliary_id != 0 {
            only_of13(version, "an auxiliary connection")?;
        }
        if version == Version::Of13 && !self.ports.is_empty() {
            return unsupported(version, "ports in a features-reply");
        }
        out.put_u64(self.dpid.0);
        out.put_u32(self.n_buffers);
        out.put(&[self.n_tables, self.auxiliary_id, 0, 0]);
        out.put_u32(self.capabilities);
        out.put_u32(self.actions);
        self.ports.write(version, out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PortNo;
    use crate::msg::Message;
    use crate::msg::test::check;

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
    }

    #[test]
    fn a_1_3_switch_says_which_connection_this_is() {
        let bytes = "04 06 0020 00000001 1122334455667788 00000100 fe 02 0000 0000004f 00000fff";
        check(Version::Of13, bytes, features(2, vec![]));
    }
}
