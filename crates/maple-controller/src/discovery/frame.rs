//! The probe: an LLDP frame (802.1AB) that says which port of which switch it left by, and proves that we sent it. The same
//! also goes out as a broadcast, with an Ethernet type that no bridge keeps to itself, as other controllers do.
//!
//! Chassis, port and time-to-live are for people and for foreign devices. Only our own entry is believed: datapath id,
//! port, time of sending, and a SipHash-2-4 authentication code of 128 bits over these, under a key that is random at
//! each start. A host can't make one for a port of its choice, and the time of sending bounds how long one that it saw
//! can be replayed.

use std::hash::Hasher;
use std::time::Duration;

use maple_core::engine::Time;
use maple_core::network::Location;
use maple_wire::packet::build::Frame;
use maple_wire::packet::lldp::{self, Tlv};
use maple_wire::{Dpid, Packet, PortNo};
use siphasher::sip128::{Hash128, Hasher128, SipHasher24};

/// The organisation of our entry: a locally administered identifier.
const OUI: [u8; 3] = [0x02, 0x4d, 0x50];
/// The number of our entry.
const SUBTYPE: u8 = 1;
/// Length of what the code covers: datapath id, port and time of sending.
const SIGNED: usize = 8 + 4 + 8;
/// Length of the authentication code.
const CODE: usize = 16;

/// Where a frame without a tag has its Ethernet type.
const ETH_TYPE: std::ops::Range<usize> = 12..14;
/// That of LLDP.
const LLDP_TYPE: u16 = 0x88cc;
/// The Ethernet type of probes that are broadcasts: the one that ONOS and Floodlight use for this.
const BROADCAST_TYPE: u16 = 0x8942;

/// In which form a probe goes out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cast {
    /// LLDP, which bridges keep to themselves if they follow 802.1D.
    Lldp,
    /// A broadcast, which every bridge passes.
    Broadcast,
}

/// The key of the authentication code. All shards of a controller share it.
#[derive(Clone, Copy)]
pub struct Key(pub [u8; 16]);

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key(secret)")
    }
}

/// What a probe says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// The port that it left by.
    pub from: Location,
    /// When. No two probes of one port have the same time, so it also names the probe, in whichever form.
    pub sent: Time,
}

/// What a frame of discovery's kinds turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// A probe that we sent, in this form.
    Ours(Probe, Cast),
    /// It has our entry, but we did not make it.
    Forged,
    /// Another device's.
    Foreign,
}

impl Probe {
    /// The frame that carries this probe; `hw_addr` is the sending port's, `hold` how long the finding holds.
    pub fn frame(&self, key: Key, cast: Cast, hw_addr: [u8; 6], hold: Duration) -> Vec<u8> {
        let (chassis, port) = (self.from.switch.to_string(), self.from.port.0.to_string());
        let signed = self.signed();
        let value = [&signed[..], &u128::from(code(key, &signed)).to_be_bytes()].concat();
        let mut frame = Frame::ethernet(lldp::MULTICAST, hw_addr).lldp(&[
            Tlv::ChassisId { subtype: lldp::CHASSIS_LOCAL, id: chassis.as_bytes() },
            Tlv::PortId { subtype: lldp::PORT_LOCAL, id: port.as_bytes() },
            Tlv::Ttl(hold.as_secs().clamp(1, 65535) as u16),
            Tlv::Organisation { oui: OUI, subtype: SUBTYPE, value: &value },
        ]);
        if cast == Cast::Broadcast {
            frame[..6].fill(0xff);
            frame[ETH_TYPE].copy_from_slice(&BROADCAST_TYPE.to_be_bytes());
        }
        frame
    }

    /// Reads a frame of discovery's kinds.
    pub fn read(key: Key, frame: &[u8]) -> Reading {
        let cast = if is_lldp(frame) { Cast::Lldp } else { Cast::Broadcast };
        let mut as_lldp = frame.to_vec();
        if let Some(eth_type) = as_lldp.get_mut(ETH_TYPE) {
            eth_type.copy_from_slice(&LLDP_TYPE.to_be_bytes());
        }
        let Some(tlvs) = lldp::tlvs(&Packet::new(&as_lldp, 0)) else { return Reading::Foreign };
        // What follows a malformed entry is not read.
        for tlv in tlvs.map_while(Result::ok) {
            if let Tlv::Organisation { oui: OUI, subtype: SUBTYPE, value } = tlv {
                return Probe::verify(key, value).map_or(Reading::Forged, |probe| Reading::Ours(probe, cast));
            }
        }
        Reading::Foreign
    }

    /// The probe in the bytes of our entry, if the code is right.
    fn verify(key: Key, value: &[u8]) -> Option<Probe> {
        let (signed, given) = value.split_first_chunk::<SIGNED>()?;
        let given: &[u8; CODE] = given.try_into().ok()?;
        // `Hash128` compares in constant time.
        if code(key, signed) != Hash128::from(u128::from_be_bytes(*given)) {
            return None;
        }
        let (dpid, rest) = signed.split_first_chunk::<8>()?;
        let (port, sent) = rest.split_first_chunk::<4>()?;
        let from = Location::new(Dpid(u64::from_be_bytes(*dpid)), PortNo(u32::from_be_bytes(*port)));
        Some(Probe { from, sent: Time(u64::from_be_bytes(sent.try_into().ok()?)) })
    }

    fn signed(&self) -> [u8; SIGNED] {
        let mut bytes = [0; SIGNED];
        bytes[..8].copy_from_slice(&self.from.switch.0.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.from.port.0.to_be_bytes());
        bytes[12..].copy_from_slice(&self.sent.0.to_be_bytes());
        bytes
    }
}

/// Whether a frame is of discovery's kinds: LLDP, or a broadcast of the type that probes have.
pub fn is_probe(frame: &[u8]) -> bool {
    is_lldp(frame) || frame.get(ETH_TYPE) == Some(&BROADCAST_TYPE.to_be_bytes())
}

fn is_lldp(frame: &[u8]) -> bool {
    frame.get(ETH_TYPE) == Some(&LLDP_TYPE.to_be_bytes())
}

fn code(key: Key, bytes: &[u8]) -> Hash128 {
    let mut hasher = SipHasher24::new_with_key(&key.0);
    hasher.write(bytes);
    hasher.finish128()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: Key = Key(*b"0123456789abcdef");

    fn probe() -> Probe {
        Probe { from: Location::new(Dpid(0xabcd), PortNo(7)), sent: Time(1_000_000_007) }
    }

    fn frame(key: Key) -> Vec<u8> {
        probe().frame(key, Cast::Lldp, [2, 0, 0, 0, 0, 1], Duration::from_secs(15))
    }

    #[test]
    fn a_probe_reads_as_it_was_written() {
        assert!(is_probe(&frame(KEY)));
        assert_eq!(Probe::read(KEY, &frame(KEY)), Reading::Ours(probe(), Cast::Lldp));
    }

    #[test]
    fn a_broadcast_probe_reads_as_it_was_written_and_is_no_lldp() {
        let frame = probe().frame(KEY, Cast::Broadcast, [2, 0, 0, 0, 0, 1], Duration::from_secs(15));
        assert_eq!((&frame[..6], &frame[12..14]), (&[0xff; 6][..], &[0x89, 0x42][..]));
        assert!(is_probe(&frame));
        assert_eq!(Probe::read(KEY, &frame), Reading::Ours(probe(), Cast::Broadcast));
        assert_eq!(Probe::read(Key([9; 16]), &frame), Reading::Forged);
    }

    #[test]
    fn padding_to_the_least_frame_length_changes_nothing() {
        let mut padded = frame(KEY);
        padded.resize(128, 0);
        assert_eq!(Probe::read(KEY, &padded), Reading::Ours(probe(), Cast::Lldp));
    }

    #[test]
    fn a_probe_under_another_key_is_forged() {
        assert_eq!(Probe::read(KEY, &frame(Key([9; 16]))), Reading::Forged);
    }

    #[test]
    fn no_change_of_a_bit_goes_unnoticed() {
        let frame = frame(KEY);
        let entry = frame.len() - 2 - SIGNED - CODE;
        for bit in entry * 8..(frame.len() - 2) * 8 {
            let mut changed = frame.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Probe::read(KEY, &changed), Reading::Forged, "bit {bit}");
        }
    }

    #[test]
    fn a_cut_probe_is_never_believed() {
        let frame = frame(KEY);
        for len in 0..frame.len() - 2 {
            assert_ne!(Probe::read(KEY, &frame[..len]), Reading::Ours(probe(), Cast::Lldp), "{len} bytes");
        }
    }

    #[test]
    fn other_devices_lldp_is_foreign() {
        let frame = Frame::ethernet(lldp::MULTICAST, [2; 6]).lldp(&[Tlv::Ttl(120)]);
        assert_eq!(Probe::read(KEY, &frame), Reading::Foreign);
    }
}
