//! A lazy view over a raw Ethernet frame: fields are found when they are asked for.

use crate::field::Field;

/// A frame as it came in, with the pipeline fields that belong to it.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    frame: &'a [u8],
    in_port: u32,
}

impl<'a> Packet<'a> {
    /// A view over `frame`, which came in by `in_port`.
    pub fn new(frame: &'a [u8], in_port: u32) -> Packet<'a> {
        Packet { frame, in_port }
    }

    /// The bytes.
    pub fn frame(&self) -> &'a [u8] {
        self.frame
    }

    /// The port that the frame came in by.
    pub fn in_port(&self) -> u32 {
        self.in_port
    }

    /// The value of a field; `None` where the packet has no such field or it lies beyond the captured bytes.
    pub fn get(&self, field: Field) -> Option<u128> {
        let _ = field;
        None
    }
}
