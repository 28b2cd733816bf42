//! What the classifier knows of the protocols by which hosts announce addresses.

use crate::network::Mac;

/// The source address of probes: locally administered, `maple` in ASCII. Frames to it never reach the policy.
pub const PROBE_MAC: Mac = Mac([0x02, b'm', b'a', b'p', b'l', b'e']);
