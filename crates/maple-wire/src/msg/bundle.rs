//! Bundles: changes that a switch makes together or not at all (1.4 §7.3.9, in 1.3 as ONF extension 230).
//!
//! In 1.3 they are experimenter messages of the ONF. A controller opens a bundle, adds messages, and commits it. An
//! added message has the transaction id of the message that carries it, and errors refer to it by that id. Properties
//! are skipped, because only experimenters define them.

use super::bytes::{Put, at_least, u16_at, u32_at, unsupported};
use super::header::{self, kind, kind13};
use super::{Header, Message, Version};
use crate::error::{Error, Result};

/// The experimenter id of the Open Networking Foundation.
pub const ONF: u32 = 0x4f4e_4600;

/// The ONF's type of [`BundleControl`].
const CONTROL: u32 = 2300;
/// The ONF's type of [`BundleAdd`].
const ADD: u32 = 2301;

mod offset {
    pub const EXPERIMENTER: usize = 8;
    pub const EXPERIMENTER_TYPE: usize = 12;
    pub const BUNDLE: usize = 16;
    /// The kind in a control message; in an add message these bytes are padding.
    pub const KIND: usize = 20;
    pub const FLAGS: usize = 22;
    /// The message that is added, in an add message.
    pub const MESSAGE: usize = 24;
}

/// The flag that a switch must make all changes of the bundle, or none.
pub const ATOMIC: u16 = 1;
/// The flag that a switch must make the changes in their order.
pub const ORDERED: u16 = 2;

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

/// A view of the parts that both messages of bundles have.
#[derive(Clone, Copy, Debug)]
pub struct BundleView<'a> {
    bytes: &'a [u8],
}

impl<'a> BundleView<'a> {
    /// Creates a view of the message that takes all of `bytes`, header included.
    ///
    /// # Errors
    /// [`Error::Truncated`] if `bytes` ends within the fixed part.
    pub fn new_checked(bytes: &'a [u8]) -> Result<BundleView<'a>> {
        at_least("bundle message", bytes, offset::MESSAGE)?;
        Ok(BundleView { bytes })
    }

    /// Returns the bundle's number.
    pub fn bundle(&self) -> u32 {
        u32_at(self.bytes, offset::BUNDLE)
    }

    /// Returns the kind of a control message, `OFPBCT_*`.
    pub fn kind(&self) -> u16 {
        u16_at(self.bytes, offset::KIND)
    }

    /// Returns the flags: [`ATOMIC`], [`ORDERED`].
    pub fn flags(&self) -> u16 {
        u16_at(self.bytes, offset::FLAGS)
    }

    /// Returns the bytes of the message that is added, in an add message.
    ///
    /// # Errors
    /// [`Error::Truncated`] if it is cut off, [`Error::BadLength`] if its header is malformed.
    pub fn message(&self) -> Result<&'a [u8]> {
        let (inner, what) = (&self.bytes[offset::MESSAGE..], "bundled message");
        let header = Header::peek(inner)?.ok_or(Error::Truncated { what, need: header::LEN, have: inner.len() })?;
        at_least(what, inner, header.length.into())?;
        Ok(&inner[..header.length.into()])
    }
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

    /// Reads the owned form.
    pub fn parse(view: &BundleView<'_>) -> BundleControl {
        BundleControl { bundle: view.bundle(), kind: view.kind(), flags: view.flags() }
    }

    /// Returns the switch's answer to this request.
    #[must_use]
    pub fn reply(self) -> BundleControl {
        BundleControl { kind: self.kind | 1, ..self }
    }

    /// Appends the message without its header.
    ///
    /// # Errors
    /// None; the result is for uniformity with other messages.
    pub fn emit(&self, out: &mut Vec<u8>) -> Result<()> {
        emit_start(CONTROL, self.bundle, self.kind, self.flags, out);
        Ok(())
    }
}

impl BundleAdd {
    /// Reads the owned form.
    ///
    /// # Errors
    /// [`Error::BadVersion`] or [`Error::BadValue`] if the added message has another version or transaction id than the
    /// message that carries it, or a type that cannot be in a bundle; and the errors of reading it.
    pub fn parse(view: &BundleView<'_>) -> Result<BundleAdd> {
        let bytes = view.message()?;
        let (outer, inner) = (Header::of_message(view.bytes)?, Header::of_message(bytes)?);
        if inner.version != outer.version {
            return Err(Error::BadVersion(inner.version));
        }
        if inner.xid != outer.xid {
            return Err(Error::BadValue { what: "transaction id of a bundled message", value: inner.xid.into() });
        }
        // A bundle within a bundle is refused, so hostile messages cannot nest deeply.
        if !is_bundlable(inner.kind) {
            return Err(Error::BadValue { what: "type of a bundled message", value: inner.kind.into() });
        }
        let (_, message) = Message::decode(bytes)?;
        Ok(BundleAdd { bundle: view.bundle(), flags: view.flags(), message: Box::new(message) })
    }

    /// Appends the message without its header. `xid` is the transaction id of both messages.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if the message cannot be in a bundle, and the errors of writing it.
    pub fn emit(&self, version: Version, xid: u32, out: &mut Vec<u8>) -> Result<()> {
        if !is_bundlable(self.message.kind(version)?) {
            return unsupported(version, format!("{:?} in a bundle", self.message));
        }
        emit_start(ADD, self.bundle, 0, self.flags, out);
        self.message.encode(version, xid, out)
    }
}

/// Reads a 1.3 experimenter message if it belongs to bundles. `bytes` is long enough for an experimenter message.
pub(super) fn decode(bytes: &[u8]) -> Option<Result<Message>> {
    if u32_at(bytes, offset::EXPERIMENTER) != ONF {
        return None;
    }
    let view = || BundleView::new_checked(bytes);
    match u32_at(bytes, offset::EXPERIMENTER_TYPE) {
        CONTROL => Some(view().map(|view| Message::BundleControl(BundleControl::parse(&view)))),
        ADD => Some(view().and_then(|view| Ok(Message::BundleAdd(BundleAdd::parse(&view)?)))),
        _ => None,
    }
}

fn emit_start(experimenter_type: u32, bundle: u32, kind: u16, flags: u16, out: &mut Vec<u8>) {
    out.put_u32(ONF);
    out.put_u32(experimenter_type);
    out.put_u32(bundle);
    out.put_u16(kind);
    out.put_u16(flags);
}

/// Whether messages of this 1.3 type can be in a bundle.
fn is_bundlable(message_kind: u8) -> bool {
    [kind::FLOW_MOD, kind::PACKET_OUT, kind13::GROUP_MOD, kind13::PORT_MOD].contains(&message_kind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::Match;
    use crate::msg::test::{check, check_truncated, check_unsupported, hex};
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
        check_truncated(bytes);
        check_unsupported(Version::Of10, Message::BundleControl(open));
        let reply = "04 04 0018 00000002 4f4e4600 000008fc 00000001 0001 0003";
        check(Version::Of13, reply, Message::BundleControl(open.reply()));
    }

    #[test]
    fn a_message_is_added_under_its_own_transaction_id() {
        let add = Message::BundleAdd(BundleAdd { bundle: 3, flags: 3, message: Box::new(flow_mod()) });
        check(Version::Of13, ADDED, add.clone());
        check_truncated(ADDED);
        check_unsupported(Version::Of10, add.clone());
        let properties = ADDED.replace("0050", "0058") + "ffff 0008 00000000";
        assert_eq!(Message::decode(&hex(&properties)).map(|(_, message)| message), Ok(add), "properties are skipped");
    }

    #[test]
    fn what_cannot_be_in_a_bundle_is_refused() {
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
        assert!(matches!(message, Message::Experimenter(experimenter) if experimenter.id == ONF));
    }
}
