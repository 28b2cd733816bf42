//! Description of a switch (1.0 §5.3.5, 1.3 §7.3.5.1).

use crate::error::Result;
use crate::msg::Text;
use crate::msg::bytes::exactly;

/// The length of a long text in bytes.
const LONG: usize = 256;
/// The length of the serial number in bytes.
const SHORT: usize = 32;

mod offset {
    use super::{LONG, SHORT};
    pub const MANUFACTURER: usize = 0;
    pub const HARDWARE: usize = LONG;
    pub const SOFTWARE: usize = 2 * LONG;
    pub const SERIAL: usize = 3 * LONG;
    pub const DATAPATH: usize = SERIAL + SHORT;
    pub const END: usize = DATAPATH + LONG;
}

/// Vendor and model of a switch. The form is equal in both versions.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Desc {
    /// The switch's manufacturer.
    pub manufacturer: Text,
    /// The hardware.
    pub hardware: Text,
    /// The software.
    pub software: Text,
    /// The serial number.
    pub serial: Text,
    /// A name for people.
    pub datapath: Text,
}

impl Desc {
    /// Reads the body of a reply.
    pub(super) fn parse(body: &[u8]) -> Result<Desc> {
        exactly("switch description", body, offset::END)?;
        Ok(Desc {
            manufacturer: Text::parse(&body[offset::MANUFACTURER..offset::HARDWARE]),
            hardware: Text::parse(&body[offset::HARDWARE..offset::SOFTWARE]),
            software: Text::parse(&body[offset::SOFTWARE..offset::SERIAL]),
            serial: Text::parse(&body[offset::SERIAL..offset::DATAPATH]),
            datapath: Text::parse(&body[offset::DATAPATH..]),
        })
    }

    pub(super) fn emit(&self, out: &mut Vec<u8>) -> Result<()> {
        for text in [&self.manufacturer, &self.hardware, &self.software] {
            text.emit(LONG, out)?;
        }
        self.serial.emit(SHORT, out)?;
        self.datapath.emit(LONG, out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::msg::stats::{ReplyBody, StatsReply};
    use crate::msg::test::{check, check_truncated};
    use crate::msg::{Message, Version};

    #[test]
    fn texts_are_padded_with_nuls() {
        let field = |text: &str, size: usize| {
            let digits: String = text.bytes().map(|byte| format!("{byte:02x}")).collect();
            format!("{digits:0<width$}", width = 2 * size)
        };
        let body = [("Nicira", 256), ("OVS", 256), ("3.1.0", 256), ("None", 32), ("s1", 256)]
            .map(|(text, size)| field(text, size))
            .concat();
        let desc = Desc {
            manufacturer: "Nicira".into(),
            hardware: "OVS".into(),
            software: "3.1.0".into(),
            serial: "None".into(),
            datapath: "s1".into(),
        };
        assert_eq!(desc.software.to_string(), "3.1.0");
        let reply = Message::StatsReply(StatsReply::new(ReplyBody::Desc(desc)));
        check(Version::Of10, &format!("01 11 042c 00000001 0000 0000 {body}"), reply.clone());
        check(Version::Of13, &format!("04 13 0430 00000001 0000 0000 00000000 {body}"), reply);
        check_truncated(&format!("01 11 042c 00000001 0000 0000 {body}"));
    }
}
