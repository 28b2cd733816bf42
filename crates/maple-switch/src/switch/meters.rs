//! Meters: rates above which the packets of rules are dropped (1.3 §5.7, §6.5, §7.3.4.4).
//!
//! Each band has a bucket of tokens that fills at the band's rate, in the switch's time, up to the band's burst: the
//! controller's value, or the tokens of one second if it gives none. A packet that finds too few tokens exceeds the
//! band. Of the bands that it exceeds, the one with the highest rate applies. Bands drop; remarking is refused.

use maple_wire::Instruction;
use maple_wire::msg::ALL_METERS;
use maple_wire::msg::command::{ADD, DELETE, MODIFY};
use maple_wire::msg::stats::{BandCounter, MeterConfig, MeterFeatures, MeterStats};
use maple_wire::msg::{Band, BandKind, MeterMod};

use super::refusal::Refusal;
use super::{Lost, Rule, Switch};
use crate::time::{Nanoseconds, SECOND};

/// The flag of a meter with rates in kilobits a second, `OFPMF_KBPS` (1.3 §7.3.4.4).
const KBPS: u16 = 1;
/// The flag of a meter with rates in packets a second, `OFPMF_PKTPS`.
const PKTPS: u16 = 1 << 1;
/// The flag of a meter with a size of bursts, `OFPMF_BURST`.
const BURST: u16 = 1 << 2;
/// The flag of a meter that collects statistics, `OFPMF_STATS`.
const STATS: u16 = 1 << 3;

/// The maximum number of meters, which bounds memory. Chosen: more than policies have limits.
const MAX_METERS: usize = 65_536;
/// The maximum number of bands of a meter: that of Open vSwitch in user space.
const MAX_BANDS: usize = 8;

/// A meter.
#[derive(Clone, Debug)]
pub struct Meter {
    flags: u16,
    bands: Vec<TokenBucket>,
    packets: u64,
    bytes: u64,
    added: Nanoseconds,
}

/// A band and its tokens, in billionths of a bit or of a packet, so that rounding errors do not add up.
#[derive(Clone, Debug)]
struct TokenBucket {
    band: Band,
    tokens: u128,
    filled: Nanoseconds,
    packets: u64,
    bytes: u64,
}

impl Meter {
    /// Returns the meter's bands.
    pub fn bands(&self) -> impl Iterator<Item = &Band> {
        self.bands.iter().map(|bucket| &bucket.band)
    }

    /// Reports whether the meter's rates are in packets, not kilobits, a second.
    pub fn counts_packets(&self) -> bool {
        self.flags & PKTPS != 0
    }

    /// Returns the number of packets that came to the meter, and the number that its bands dropped.
    pub fn packets(&self) -> (u64, u64) {
        (self.packets, self.bands.iter().map(|bucket| bucket.packets).sum())
    }

    /// Reports whether a packet of this many bytes may pass now.
    fn passes(&mut self, now: Nanoseconds, bytes: usize) -> bool {
        self.packets += 1;
        self.bytes += bytes as u64;
        let cost = if self.counts_packets() { 1 } else { bytes as u128 * 8 } * u128::from(SECOND);
        let in_packets = self.counts_packets();
        let mut exceeded: Option<&mut TokenBucket> = None;
        for bucket in &mut self.bands {
            if !bucket.take(now, cost, in_packets)
                && exceeded.as_ref().is_none_or(|other| other.band.rate < bucket.band.rate)
            {
                exceeded = Some(bucket);
            }
        }
        let Some(bucket) = exceeded else { return true };
        bucket.packets += 1;
        bucket.bytes += bytes as u64;
        false
    }
}

impl TokenBucket {
    /// Takes this many tokens, if they are there. Reports whether they were.
    fn take(&mut self, now: Nanoseconds, cost: u128, in_packets: bool) -> bool {
        let unit = if in_packets { 1 } else { 1000 };
        let full = TokenBucket::full(&self.band, unit);
        let filled = u128::from(self.band.rate) * unit * u128::from(now.saturating_sub(self.filled));
        self.tokens = (self.tokens + filled).min(full);
        self.filled = now;
        let passes = self.tokens >= cost;
        if passes {
            self.tokens -= cost;
        }
        passes
    }

    fn full(band: &Band, unit: u128) -> u128 {
        u128::from(band.burst) * unit * u128::from(SECOND)
    }
}

impl Switch {
    /// Returns the switch's meters, by number.
    pub fn meters(&self) -> impl Iterator<Item = (u32, &Meter)> {
        self.meters.iter().map(|(number, meter)| (*number, meter))
    }

    /// Obeys a meter-mod.
    ///
    /// Rules are removed with their meter, without notice: 1.3 has no reason code for it, and Open vSwitch sends
    /// nothing.
    pub(super) fn meter_mod(&mut self, now: Nanoseconds, request: MeterMod) -> Result<(), Refusal> {
        match request.command {
            ADD | MODIFY => {
                let (command, exists) = (request.command, self.meters.contains_key(&request.meter));
                let (number, meter) = checked(now, request)?;
                match command {
                    ADD if exists => return Err(Refusal::MeterExists),
                    MODIFY if !exists => return Err(Refusal::UnknownMeter),
                    ADD if self.meters.len() >= MAX_METERS => return Err(Refusal::TooManyMeters),
                    _ => {}
                }
                self.meters.insert(number, meter);
                Ok(())
            }
            DELETE => {
                let doomed: Vec<u32> = match request.meter {
                    ALL_METERS => self.meters.keys().copied().collect(),
                    one => self.meters.keys().copied().filter(|meter| *meter == one).collect(),
                };
                for number in doomed {
                    self.meters.remove(&number);
                    self.tables.iter_mut().for_each(|table| table.remove_meter_users(number));
                }
                Ok(())
            }
            _ => Err(Refusal::MeterCommand),
        }
    }

    /// Reports whether the meter lets the packet pass. A missing meter lets all pass: its rules were removed with it.
    pub(super) fn meter(&mut self, now: Nanoseconds, number: u32, bytes: usize) -> bool {
        let passes = self.meters.get_mut(&number).is_none_or(|meter| meter.passes(now, bytes));
        if !passes {
            self.record.lost.push(Lost::Metered(number));
        }
        passes
    }

    pub(super) fn meter_stats(&self, now: Nanoseconds, asked: u32) -> Vec<MeterStats> {
        let uses = |number| {
            let rules = self.tables.iter().flat_map(|table| table.iter());
            rules.filter(|rule| uses_meter(rule, number)).count() as u32
        };
        let wanted = self.meters.iter().filter(|(number, _)| asked == ALL_METERS || **number == asked);
        wanted
            .map(|(number, meter)| MeterStats {
                meter: *number,
                flow_count: uses(*number),
                packet_in_count: meter.packets,
                byte_in_count: meter.bytes,
                duration_sec: ((now - meter.added) / SECOND) as u32,
                duration_nsec: ((now - meter.added) % SECOND) as u32,
                bands: meter
                    .bands
                    .iter()
                    .map(|b| BandCounter { packet_count: b.packets, byte_count: b.bytes })
                    .collect(),
            })
            .collect()
    }

    pub(super) fn meter_configs(&self, asked: u32) -> Vec<MeterConfig> {
        let wanted = self.meters.iter().filter(|(number, _)| asked == ALL_METERS || **number == asked);
        wanted
            .map(|(number, meter)| MeterConfig {
                flags: meter.flags,
                meter: *number,
                bands: meter.bands().cloned().collect(),
            })
            .collect()
    }

    pub(super) fn meter_features() -> MeterFeatures {
        MeterFeatures {
            max_meter: MAX_METERS as u32,
            // Bit 1: drop.
            band_types: 1 << 1,
            capabilities: u32::from(KBPS | PKTPS | BURST | STATS),
            max_bands: MAX_BANDS as u8,
            max_color: 0,
        }
    }
}

/// Reports whether a rule sends its packets through the meter.
pub(super) fn uses_meter(rule: &Rule, number: u32) -> bool {
    rule.instructions.contains(&Instruction::Meter(number))
}

fn checked(now: Nanoseconds, request: MeterMod) -> Result<(u32, Meter), Refusal> {
    let MeterMod { flags, meter: number, mut bands, .. } = request;
    if number == 0 || number == ALL_METERS {
        return Err(Refusal::InvalidMeter);
    }
    if (flags & KBPS != 0) == (flags & PKTPS != 0) || flags & !(KBPS | PKTPS | BURST | STATS) != 0 {
        return Err(Refusal::MeterFlags);
    }
    if !(1..=MAX_BANDS).contains(&bands.len()) {
        return Err(Refusal::BandCount);
    }
    for band in &mut bands {
        match band.kind {
            BandKind::Drop if band.rate == 0 => return Err(Refusal::MeterRate),
            BandKind::Drop if band.burst == 0 => band.burst = band.rate,
            BandKind::Drop => {}
            BandKind::DscpRemark(_) | BandKind::Experimenter { .. } => return Err(Refusal::MeterBand),
        }
    }
    let unit = if flags & PKTPS != 0 { 1 } else { 1000 };
    let full = |band: &Band| TokenBucket::full(band, unit);
    let bands = bands
        .into_iter()
        .map(|band| TokenBucket { tokens: full(&band), band, filled: now, packets: 0, bytes: 0 })
        .collect();
    Ok((number, Meter { flags, bands, packets: 0, bytes: 0, added: now }))
}
