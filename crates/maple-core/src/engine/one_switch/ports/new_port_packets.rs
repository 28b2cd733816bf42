//! The packets that wait until it is known what their port leads to.

use crate::engine::messages::received_packet::ReceivedPacket;
use crate::ids::Time;

/// The packets that wait at one switch, each with its deadline.
#[derive(Default)]
pub(in crate::engine) struct NewPortPackets {
    pub packets: Vec<(Time, ReceivedPacket)>,
    /// The total length of their captured frames, in bytes.
    pub bytes: usize,
}

impl NewPortPackets {
    /// Returns the number of packets that wait.
    pub fn len(&self) -> usize {
        self.packets.len()
    }

    /// Reports whether no packet waits.
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Adds a packet that waits until this time.
    pub fn push(&mut self, until: Time, received: ReceivedPacket) {
        self.bytes += received.frame.len();
        self.packets.push((until, received));
    }

    /// Removes and returns, in order, the packets that `which` selects.
    pub fn take(&mut self, which: impl Fn(Time, &ReceivedPacket) -> bool) -> Vec<ReceivedPacket> {
        let taken: Vec<ReceivedPacket> = self
            .packets
            .extract_if(.., |(until, received)| which(*until, received))
            .map(|(_, received)| received)
            .collect();
        self.bytes -= taken.iter().map(|received| received.frame.len()).sum::<usize>();
        taken
    }
}
