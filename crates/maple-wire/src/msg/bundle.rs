//! Bundles: changes that a switch makes together or not at all (1.4 §7.3.9, in 1.3 as ONF extension 230).
//!
//! In 1.3 they are experimenter messages of the ONF. A controller opens a bundle, adds messages, and commits it. An
//! added message has the transaction id of the message that carries it, and errors refer to it by that id. Properties
//! are skipped, because only experimenters define them.

use super::bytes::{Put, Reader, unsupported};
use super::header::{self, kind};
use super::wire::{Wire, layout};
use super::{Experimenter, Header, Message, Version};
use crate::error::{Error, Result};

/// The ONF's type of [`BundleControl`].
const CONTROL: u32 = 2300;
/// The ONF's type of [`BundleAdd`].
const ADD: u32 = 2301;

/// The flag that a switch must make all changes of the bundle, or none.
pub const ATOMIC: u16 = 1;
/// The flag that a switch must make the changes in their order.
pub const ORDERED: u16 = 2;

layout! {
    /// Opens, closes, commits or discards a bundle; also the switch's answer.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct BundleControl {
        /// The bundle's number, which the controller chooses.
        pub bundle: u32,
        /// `OFPBCT_*`: requests have even numbers, and each answer is one more than its request.
        pub kind: u16,
        /// [`ATOMIC`], [`ORDERED`]; equal in all messages of a bundle.
        pub flags: u16,
    }
}

/// Adds a message to a bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BundleAdd {
    /// The bundle's number.
    pub bundle: u32,
    /// [`ATOMIC`], [`ORDERED`]; equal in all messages of a bundle.
    pub flags: u16,
    /// A flow-mod, group-mod, port-mod or packet-out.
    pub message: Box<Message>,
}

impl BundleControl {
    /// `OFPBCT_OPEN_REQUEST`.
    pub const OPEN: u16 = 0;
    /// `OFPBCT_OPEN_REPLY`.
    pub const OPENED: u16 = 1;
    /// `OFPBCT_CLOSE_REQUEST`: no more messages follow.
    pub const CLOSE: u16 = 2;
    /// `OFPBCT_COMMIT_REQUEST`: the switch makes the changes.
    pub const COMMIT: u16 = 4;
    /// `OFPBCT_DISCARD_REQUEST`: the switch forgets the changes.
    pub const DISCARD: u16 = 6;

    /// Returns the switch's answer to this request.
    #[must_use]
    pub fn reply(self) -> BundleControl {
        BundleControl { kind: self.kind | 1, ..self }
    }
}

impl BundleAdd {
    /// Reads the message that is added, which `bytes` start with. `outer` is the header of the message that carries it.
    fn read_added(outer: &Header, bytes: &[u8]) -> Result<Message> {
        let (have, what) = (bytes.len(), "bundled message");
        let inner = Header::peek(bytes)?.ok_or(Error::Truncated { what, need: header::LEN, have })?;
        let need = inner.length.into();
        let bytes = bytes.get(..need).ok_or(Error::Truncated { what, need, have })?;
        if inner.version != outer.version {
            return Err(Error::BadVersion(inner.version));
        }
        if inner.xid != outer.xid {
            return Err(Error::BadValue { what: "transaction id of a bundled message", value: inner.xid.into() });
        }
        // A bundle within a bundle is refused, so hostile messages cannot nest deeply.
        if inner.kind == kind::EXPERIMENTER {
            return Err(not_bundlable(inner.kind));
        }
        match Message::decode(bytes)? {
            (_, message) if is_bundlable(&message) => Ok(message),
            _ => Err(not_bundlable(inner.kind)),
        }
    }

    /// Appends the message without its header. `xid` is the transaction id of both messages.
    pub(super) fn write(&self, version: Version, xid: u32, out: &mut Vec<u8>) -> Result<()> {
        if !is_bundlable(&self.message) {
            return unsupported(version, format!("{:?} in a bundle", self.message));
        }
        let BundleAdd { bundle, flags, .. } = *self;
        write_start(ADD, &BundleControl { bundle, kind: 0, flags }, out)?;
        self.message.encode(version, xid, out)
    }
}

/// Appends a control message without its header.
pub(super) fn write_control(control: &BundleControl, out: &mut Vec<u8>) -> Result<()> {
    write_start(CONTROL, control, out)
}

fn write_start(experimenter_type: u32, start: &BundleControl, out: &mut Vec<u8>) -> Result<()> {
    out.put_u32(Experimenter::ONF);
    out.put_u32(experimenter_type);
    start.write(Version::Of13, out)
}

/// Reads a message of bundles. `None` if it is another message. `reader` has read the header.
pub(super) fn read(header: &Header, reader: &Reader<'_>) -> Result<Option<Message>> {
    let mut reader = reader.clone();
    if header.kind != kind::EXPERIMENTER || reader.is_10() || reader.remaining() < 8 {
        return Ok(None);
    }
    let (experimenter, experimenter_type) = (reader.u32()?, reader.u32()?);
    if experimenter != Experimenter::ONF || ![CONTROL, ADD].contains(&experimenter_type) {
        return Ok(None);
    }
    reader.call("bundle message");
    // An add message starts as a control message, with padding in place of the kind.
    let start = BundleControl::read(&mut reader)?;
    if experimenter_type == CONTROL {
        return Ok(Some(Message::BundleControl(start)));
    }
    let message = Box::new(BundleAdd::read_added(header, reader.rest())?);
    Ok(Some(Message::BundleAdd(BundleAdd { bundle: start.bundle, flags: start.flags, message })))
}

/// Reports whether messages of this type can be in a bundle.
fn is_bundlable(message: &Message) -> bool {
    use Message::{FlowMod, GroupMod, PacketOut, PortMod};
    matches!(message, FlowMod(_) | PacketOut(_) | GroupMod(_) | PortMod(_))
}

fn not_bundlable(kind: u8) -> Error {
    Error::BadValue { what: "type of a bundled message", value: kind.into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::Match;
    use crate::msg::test::{check, check_unsupported, hex};
    use crate::msg::{FlowMod, FlowModCommand};

    const ADDED: &str = "04 04 0050 00000016 4f4e4600 000008fd 00000003 0000 0003
        040e 0038 00000016 0000000000000007 0000000000000000 01 00 0000 0000 0009
        ffffffff ffffffff ffffffff 0000 0000 0001 0004 00000000";

    fn flow_mod() -> Message {
        let flow_mod = FlowMod::new(FlowModCommand::Add, 9, Match::any(), Vec::new());
        Message::FlowMod(FlowMod { cookie: 7, table_id: 1, ..flow_mod })
    }

    #[test]
    fn a_bundle_is_opened_and_the_switch_answers() {
        let open = BundleControl { bundle: 1, kind: BundleControl::OPEN, flags: ATOMIC | ORDERED };
        let bytes = "04 04 0018 00000002 4f4e4600 000008fc 00000001 0000 0003";
        check(Version::Of13, bytes, Message::BundleControl(open));
        check_unsupported(Version::Of10, Message::BundleControl(open));
        let reply = "04 04 0018 00000002 4f4e4600 000008fc 00000001 0001 0003";
        check(Version::Of13, reply, Message::BundleControl(open.reply()));
    }

    #[test]
    fn a_message_is_added_under_its_own_transaction_id() {
        let add = Message::BundleAdd(BundleAdd { bundle: 3, flags: 3, message: Box::new(flow_mod()) });
        check(Version::Of13, ADDED, add.clone());
        check_unsupported(Version::Of10, add.clone());
        let properties = ADDED.replace("0050", "0058") + "ffff 0008 00000000";
        assert_eq!(Message::decode(&hex(&properties)).map(|(_, message)| message), Ok(add), "properties are skipped");
    }

    #[test]
    fn messages_that_may_not_be_in_a_bundle_are_refused() {
        let start = "04 04 0020 00000016 4f4e4600 000008fd 00000003 0000 0003";
        for (inner, why) in [
            ("04 02 0008 00000016", "an echo"),
            ("04 14 0008 00000016", "a barrier request"),
            ("04 0d 0008 00000017", "another transaction id"),
            ("01 0d 0008 00000016", "another version"),
            ("04 0e 0007 00000016", "a length below that of a header"),
            ("04 0e 0010 00000016", "a length beyond the message"),
        ] {
            assert!(Message::decode(&hex(&format!("{start} {inner}"))).is_err(), "{why}");
        }
        let nested = "04 04 0030 00000016 4f4e4600 000008fd 00000003 0000 0003
            04 04 0018 00000016 4f4e4600 000008fc 00000001 0000 0003";
        assert!(Message::decode(&hex(nested)).is_err(), "a bundle in a bundle");
        let echo = BundleAdd { bundle: 1, flags: 0, message: Box::new(Message::EchoRequest(Vec::new())) };
        check_unsupported(Version::Of13, Message::BundleAdd(echo));
    }

    #[test]
    fn other_messages_of_the_onf_are_kept_as_they_are() {
        let (_, message) = Message::decode(&hex("04 04 0014 00000001 4f4e4600 000008fe 00000002")).unwrap();
        assert!(matches!(message, Message::Experimenter(experimenter) if experimenter.id == Experimenter::ONF));
    }
}
