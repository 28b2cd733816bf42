//! The control channel between a switch and one of its controllers: a connection that can be slow, lossy, cut or half
//! open.

use std::collections::VecDeque;

use maple_switch::ControllerId;
use maple_switch::time::Nanoseconds;
use maple_wire::Dpid;

use crate::random::Random;

/// The events of a switch's connection for the controller, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ControlEvent {
    /// The switch has connected. Its next message is a hello.
    Opened,
    /// One whole OpenFlow message.
    Message(Vec<u8>),
    /// The connection is closed.
    Closed,
}

/// The faults of control messages, in both directions.
///
/// TCP neither loses nor repeats messages; these faults stand for switches that do.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct ControlFaults {
    /// The additional delay of every message, in nanoseconds.
    pub delay: Nanoseconds,
    /// The maximum random delay on top of that, in nanoseconds. Messages of one direction never overtake each other.
    pub jitter: Nanoseconds,
    /// The probability (0.0 to 1.0) that a message is lost.
    pub drop: f64,
    /// The probability (0.0 to 1.0) that a message arrives twice.
    pub duplicate: f64,
}

/// The direction of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    ToSwitch,
    ToController,
}

/// Names the channel between a switch and one of its controllers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ChannelId {
    pub dpid: Dpid,
    pub controller: ControllerId,
}

/// The state of a channel.
#[derive(Clone, Debug, Default)]
pub(super) struct Channel {
    /// Whether a connection is open.
    pub up: bool,
    /// The number of connections, by which messages of an old one are kept out of the new one.
    pub epoch: u64,
    /// Whether a fault keeps it from connecting.
    pub cut: bool,
    /// Whether a fault drops messages in both directions, without notice.
    pub half_open: bool,
    pub faults: ControlFaults,
    /// The events that the controller has not taken yet.
    pub events: VecDeque<ControlEvent>,
    /// Bytes from the controller that are not a complete message yet.
    pub input: Vec<u8>,
    last: [Nanoseconds; 2],
}

impl Channel {
    /// Returns when the copies of a message sent now arrive: none, one or two times.
    pub fn arrivals(
        &mut self,
        now: Nanoseconds,
        delay: Nanoseconds,
        way: Direction,
        random: &mut Random,
    ) -> Vec<Nanoseconds> {
        let faults = self.faults;
        if self.half_open || (faults.drop > 0.0 && random.chance(faults.drop)) {
            return Vec::new();
        }
        let copies = if faults.duplicate > 0.0 && random.chance(faults.duplicate) { 2 } else { 1 };
        let jitter = if faults.jitter > 0 { random.below(faults.jitter + 1) } else { 0 };
        let last = &mut self.last[way as usize];
        *last = (*last).max(now + delay + faults.delay + jitter);
        vec![*last; copies]
    }

    /// Forgets the arrivals of an old connection, for which a new one does not wait.
    pub fn forget_arrivals(&mut self) {
        self.last = [0; 2];
    }

    /// Takes the complete messages out of the input. A length below 8 makes the rest of the stream unreadable: that is
    /// returned as one last message.
    pub fn messages(&mut self, bytes: &[u8]) -> Vec<Vec<u8>> {
        self.input.extend_from_slice(bytes);
        let mut messages = Vec::new();
        let mut rest = &self.input[..];
        while let [_, _, high, low, _, _, _, _, ..] = rest {
            let length = match usize::from(u16::from_be_bytes([*high, *low])) {
                0..8 => rest.len(),
                length => length,
            };
            let Some((message, behind)) = rest.split_at_checked(length) else { break };
            messages.push(message.to_vec());
            rest = behind;
        }
        self.input.drain(..self.input.len() - rest.len());
        messages
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_cut_into_messages_wherever_it_is_torn() {
        let stream = [&[4, 2, 0, 10, 0, 0, 0, 1, 7, 7][..], &[4, 0, 0, 8, 0, 0, 0, 2]].concat();
        let mut channel = Channel::default();
        let got: Vec<Vec<u8>> = stream.chunks(3).flat_map(|part| channel.messages(part)).collect();
        assert_eq!(got, vec![stream[..10].to_vec(), stream[10..].to_vec()]);
    }

    #[test]
    fn jitter_does_not_reorder() {
        let mut channel =
            Channel { faults: ControlFaults { jitter: 1000, ..Default::default() }, ..Default::default() };
        let mut random = Random::new(3);
        let mut last = 0;
        for now in 0..200 {
            let at = channel.arrivals(now, 5, Direction::ToSwitch, &mut random)[0];
            assert!(at >= last && at >= now + 5);
            last = at;
        }
    }
}
