//! The probe: an LLDP frame (802.1AB) that names the port and the switch that it left by, and is authenticated. It is
//! also sent as a broadcast with an Ethernet type that bridges forward, as other controllers do.
//!
//! Chassis, port and time-to-live are for people and for other devices. Only Maple's own entry is trusted. It holds the
//! datapath id, the port, the time of sending, and a 128-bit SipHash-2-4 authentication code over these. The key is
//! random at each start. So a host cannot forge a probe, and the time limits how long it can replay one. After a
//! take-over the key of the former process is known too, so that its last probes can be ignored.

use std::hash::Hasher;
use std::time::Duration;

use maple_core::engine::Time;
use maple_core::network::Location;
use maple_wire::eth_type;
use maple_wire::packet::build::Frame;
use maple_wire::packet::lldp::{self, Tlv};
use maple_wire::{Dpid, Packet, PortNo};
use serde::{Deserialize, Serialize};
use siphasher::sip128::{Hash128, Hasher128, SipHasher24};

use crate::random::random;

/// The organisation of Maple's entry: a locally administered identifier, as the bit 0x02 of its first byte says, then M
/// and P.
const OUI: [u8; 3] = [0x02, 0x4d, 0x50];
/// The subtype of Maple's entry. It is the first, and another form of the entry gets the next.
const SUBTYPE: u8 = 1;
/// The number of bytes that the code covers: datapath id, port and time of sending in nanoseconds.
const SIGNED: usize = 8 + 4 + 8;
/// The number of bytes of the authentication code: all of a hash of 128 bits.
const CODE: usize = 16;

/// The position of the Ethernet type in an untagged frame, in bytes (IEEE 802.3 §3.1).
const ETH_TYPE: std::ops::Range<usize> = 12..14;

/// The forms of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeForm {
    /// LLDP, which bridges that comply with 802.1D do not forward.
    Lldp,
    /// A broadcast, which every bridge forwards.
    Broadcast,
}

/// The key of the authentication code. All shards of a controller share it.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub struct Key(pub [u8; 16]);

impl Key {
    /// Creates a random key.
    ///
    /// # Errors
    /// The system's error, if it gives no random bytes.
    pub fn new() -> std::io::Result<Key> {
        Ok(Key(random()?))
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key(secret)")
    }
}

/// The content of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// The port that it left by.
    pub from: Location,
    /// The time when it was sent. No two probes of one port have the same time, so this also identifies the probe, in
    /// either form.
    pub sent: Time,
}

/// The result of parsing an LLDP frame or broadcast probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParsedProbe {
    /// A probe of this controller, in this form.
    Own(Probe, ProbeForm),
    /// A probe with Maple's entry, but a wrong code.
    Forged,
    /// A probe that was made by another device.
    Foreign,
}

impl Probe {
    /// Encodes the probe. `hw_addr` is the address of the sending port, `validity` the LLDP time-to-live.
    pub fn frame(&self, key: Key, form: ProbeForm, hw_addr: [u8; 6], validity: Duration) -> Vec<u8> {
        let (chassis, port) = (self.from.switch.to_string(), self.from.port.0.to_string());
        let signed = self.signed();
        let value = [&signed[..], &u128::from(code(key, &signed)).to_be_bytes()].concat();
        let mut frame = Frame::ethernet(lldp::MULTICAST, hw_addr).lldp(&[
            Tlv::ChassisId { subtype: lldp::CHASSIS_LOCAL, id: chassis.as_bytes() },
            Tlv::PortId { subtype: lldp::PORT_LOCAL, id: port.as_bytes() },
            Tlv::Ttl(validity.as_secs().clamp(1, 65535) as u16),
            Tlv::Organisation { oui: OUI, subtype: SUBTYPE, value: &value },
        ]);
        if form == ProbeForm::Broadcast {
            frame[..6].fill(0xff);
            frame[ETH_TYPE].copy_from_slice(&eth_type::BDDP.to_be_bytes());
        }
        frame
    }

    /// Parses an LLDP frame or broadcast probe, whose code is checked with `key`.
    pub fn parse(key: Key, frame: &[u8]) -> ParsedProbe {
        let form = if is_lldp(frame) { ProbeForm::Lldp } else { ProbeForm::Broadcast };
        let mut as_lldp = frame.to_vec();
        if let Some(eth_type) = as_lldp.get_mut(ETH_TYPE) {
            eth_type.copy_from_slice(&eth_type::LLDP.to_be_bytes());
        }
        let Some(tlvs) = lldp::tlvs(&Packet::new(&as_lldp, 0)) else { return ParsedProbe::Foreign };
        // Entries after a malformed one are ignored.
        for tlv in tlvs.map_while(Result::ok) {
            if let Tlv::Organisation { oui: OUI, subtype: SUBTYPE, value } = tlv {
                return Probe::verify(key, value).map_or(ParsedProbe::Forged, |probe| ParsedProbe::Own(probe, form));
            }
        }
        ParsedProbe::Foreign
    }

    /// Decodes Maple's entry, if its code is right.
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

/// Reports whether a frame is LLDP or a broadcast probe.
pub fn is_probe(frame: &[u8]) -> bool {
    is_lldp(frame) || frame.get(ETH_TYPE) == Some(&eth_type::BDDP.to_be_bytes())
}

fn is_lldp(frame: &[u8]) -> bool {
    frame.get(ETH_TYPE) == Some(&eth_type::LLDP.to_be_bytes())
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
        probe().frame(key, ProbeForm::Lldp, [2, 0, 0, 0, 0, 1], Duration::from_secs(15))
    }

    #[test]
    fn a_probe_parses_as_it_was_encoded() {
        assert!(is_probe(&frame(KEY)));
        assert_eq!(Probe::parse(KEY, &frame(KEY)), ParsedProbe::Own(probe(), ProbeForm::Lldp));
    }

    #[test]
    fn a_broadcast_probe_parses_as_it_was_encoded() {
        let frame = probe().frame(KEY, ProbeForm::Broadcast, [2, 0, 0, 0, 0, 1], Duration::from_secs(15));
        assert_eq!((&frame[..6], &frame[12..14]), (&[0xff; 6][..], &[0x89, 0x42][..]));
        assert!(is_probe(&frame));
        assert_eq!(Probe::parse(KEY, &frame), ParsedProbe::Own(probe(), ProbeForm::Broadcast));
        assert_eq!(Probe::parse(Key([9; 16]), &frame), ParsedProbe::Forged);
    }

    #[test]
    fn padding_changes_nothing() {
        let mut padded = frame(KEY);
        padded.resize(128, 0);
        assert_eq!(Probe::parse(KEY, &padded), ParsedProbe::Own(probe(), ProbeForm::Lldp));
    }

    #[test]
    fn a_probe_under_another_key_is_forged() {
        assert_eq!(Probe::parse(KEY, &frame(Key([9; 16]))), ParsedProbe::Forged);
    }

    #[test]
    fn no_change_of_a_bit_goes_unnoticed() {
        let frame = frame(KEY);
        let entry = frame.len() - 2 - SIGNED - CODE;
        for bit in entry * 8..(frame.len() - 2) * 8 {
            let mut changed = frame.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Probe::parse(KEY, &changed), ParsedProbe::Forged, "bit {bit}");
        }
    }

    #[test]
    fn a_truncated_probe_is_never_accepted() {
        let frame = frame(KEY);
        for len in 0..frame.len() - 2 {
            assert_ne!(Probe::parse(KEY, &frame[..len]), ParsedProbe::Own(probe(), ProbeForm::Lldp), "{len} bytes");
        }
    }

    #[test]
    fn lldp_of_other_devices_is_foreign() {
        let frame = Frame::ethernet(lldp::MULTICAST, [2; 6]).lldp(&[Tlv::Ttl(120)]);
        assert_eq!(Probe::parse(KEY, &frame), ParsedProbe::Foreign);
    }
}
