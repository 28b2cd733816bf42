//! OpenFlow messages within values: their bytes, one message after the other.

use maple_core::engine::InstalledFlow;
use maple_wire::msg::{FlowMod, FlowModCommand, Frames};
use maple_wire::{Message, Version};

use super::format::Damaged;

/// The error for a message of another type than its place has.
pub(crate) const OTHER: Damaged = Damaged("a message is of another type than its place has");

/// Appends the rules of a switch, each as the message that would add it.
///
/// # Errors
/// The codec's error, if the switch's version can't express a rule.
pub(crate) fn put_flows(version: Version, flows: &[InstalledFlow], out: &mut Vec<u8>) -> maple_wire::Result<()> {
    flows.iter().try_for_each(|flow| {
        let InstalledFlow { table_id, priority, cookie, matching, instructions } = flow.clone();
        let added = FlowMod::new(FlowModCommand::Add, priority, matching, instructions);
        Message::FlowMod(FlowMod { table_id, cookie, ..added }).encode(version, 0, out)
    })
}

/// Reads a message.
pub(crate) fn message(bytes: &[u8]) -> Result<Message, Damaged> {
    let decoded = Message::decode(bytes);
    Ok(decoded.map_err(|_| Damaged("an OpenFlow message can't be read"))?.1)
}

/// Reads messages until the end.
pub(crate) fn messages(bytes: &[u8]) -> Result<Vec<Message>, Damaged> {
    let (mut frames, mut all) = (Frames::new(bytes), Vec::new());
    for frame in frames.by_ref() {
        all.push(message(frame.map_err(|_| Damaged("an OpenFlow message has no header"))?.1)?);
    }
    if frames.rest().is_empty() { Ok(all) } else { Err(Damaged("it ends within an OpenFlow message")) }
}

/// Reads the rules of a switch.
pub(crate) fn flows(bytes: &[u8]) -> Result<Vec<InstalledFlow>, Damaged> {
    let flow = |message| {
        let Message::FlowMod(flow) = message else { return Err(OTHER) };
        let FlowMod { table_id, priority, cookie, matching, instructions, .. } = flow;
        Ok(InstalledFlow { table_id, priority, cookie, matching, instructions })
    };
    messages(bytes)?.into_iter().map(flow).collect()
}
