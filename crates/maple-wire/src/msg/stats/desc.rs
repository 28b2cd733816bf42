//! Description of a switch (1.0 §5.3.5, 1.3 §7.3.5.1).

use serde::{Deserialize, Serialize};

use crate::msg::Text;
use crate::msg::wire::{Chars, layout};

layout! {
    /// Vendor and model of a switch. The form is equal in both versions.
    #[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
    pub struct Desc {
        /// The switch's manufacturer.
        pub manufacturer: Text as Chars<256>,
        /// The hardware.
        pub hardware: Text as Chars<256>,
        /// The software.
        pub software: Text as Chars<256>,
        /// The serial number.
        pub serial: Text as Chars<32>,
        /// A name for people.
        pub datapath: Text as Chars<256>,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::msg::stats::{ReplyBody, StatsReply};
    use crate::msg::test::check;
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
    }
}
