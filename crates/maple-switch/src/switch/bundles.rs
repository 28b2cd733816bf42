//! Bundles (ONF extension 230): flow-mods that are obeyed together or not at all.
//!
//! As in Open vSwitch, a message that is refused when it is added is left out, and the bundle stays open.

use maple_wire::msg::{BundleAdd, BundleControl, FlowMod};
use maple_wire::{Message, Version};

use super::{ControllerId, Outgoing, Refusal, Switch};
use crate::time::Nanoseconds;

/// The maximum number of open bundles of a connection, which bounds memory. Chosen: controllers rarely need a second
/// one.
const MAX_BUNDLES: usize = 16;
/// The maximum number of messages of a bundle, which bounds memory. Chosen: a bundle may replace 100,000 rules.
const MAX_MESSAGES: usize = 1 << 17;

/// An open bundle.
#[derive(Clone, Debug)]
pub(super) struct Bundle {
    flags: u16,
    is_closed: bool,
    /// The messages to obey, with their transaction ids.
    messages: Vec<(u32, FlowMod)>,
}

impl Switch {
    /// Adds a message to a bundle.
    pub(super) fn bundle_add(&mut self, from: ControllerId, xid: u32, request: BundleAdd) -> Result<(), Refusal> {
        self.check_bundles()?;
        let Message::FlowMod(flow_mod) = *request.message else { return Err(Refusal::BundledMessage) };
        self.checked(flow_mod.clone())?;
        let bundle = self.connections[from.index()].bundles.get_mut(&request.bundle).ok_or(Refusal::UnknownBundle)?;
        if bundle.is_closed {
            return Err(Refusal::BundleClosed);
        }
        if bundle.flags != request.flags {
            return Err(Refusal::BundleFlags);
        }
        if bundle.messages.len() >= MAX_MESSAGES {
            return Err(Refusal::TooManyBundled);
        }
        bundle.messages.push((xid, flow_mod));
        Ok(())
    }

    /// Opens, closes, commits or discards a bundle. Returns the answer.
    pub(super) fn bundle_control(
        &mut self,
        from: ControllerId,
        now: Nanoseconds,
        request: BundleControl,
        out: &mut Vec<Outgoing>,
    ) -> Result<BundleControl, Refusal> {
        self.check_bundles()?;
        let bundles = &mut self.connections[from.index()].bundles;
        match request.kind {
            BundleControl::OPEN if bundles.contains_key(&request.bundle) => return Err(Refusal::BundleExists),
            BundleControl::OPEN if bundles.len() >= MAX_BUNDLES => return Err(Refusal::OutOfBundles),
            BundleControl::OPEN => {
                let bundle = Bundle { flags: request.flags, is_closed: false, messages: Vec::new() };
                bundles.insert(request.bundle, bundle);
            }
            BundleControl::CLOSE => bundles.get_mut(&request.bundle).ok_or(Refusal::UnknownBundle)?.is_closed = true,
            BundleControl::COMMIT => {
                let bundle = bundles.remove(&request.bundle).ok_or(Refusal::UnknownBundle)?;
                if bundle.flags != request.flags {
                    return Err(Refusal::BundleFlags);
                }
                self.commit(from, now, bundle, out)?;
            }
            BundleControl::DISCARD => drop(bundles.remove(&request.bundle).ok_or(Refusal::UnknownBundle)?),
            _ => return Err(Refusal::BundleType),
        }
        Ok(request.reply())
    }

    fn check_bundles(&self) -> Result<(), Refusal> {
        if self.options.bundles && self.version == Version::Of13 { Ok(()) } else { Err(Refusal::BadExperimenter) }
    }

    /// Obeys all messages, or none if one of them is refused.
    fn commit(
        &mut self,
        from: ControllerId,
        now: Nanoseconds,
        bundle: Bundle,
        out: &mut Vec<Outgoing>,
    ) -> Result<(), Refusal> {
        let (before, sent) = (self.tables.clone(), out.len());
        for (xid, flow_mod) in bundle.messages {
            if let Err(refusal) = self.flow_mod(now, flow_mod.clone(), out) {
                self.tables = before;
                out.truncate(sent);
                let mut bytes = Vec::new();
                let encoded = Message::FlowMod(flow_mod).encode(self.version, xid, &mut bytes);
                debug_assert_eq!(encoded, Ok(()), "it was read");
                let error = self.error(from, refusal, xid, &bytes);
                out.push(error);
                return Err(Refusal::BundledFailed);
            }
        }
        Ok(())
    }
}
