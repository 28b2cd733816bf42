//! The parameters of a load.

use std::net::SocketAddr;
use std::time::Duration;

use maple_wire::Version;

use crate::error::LoadError;
use crate::tls::TlsFiles;
use crate::workload::Workload;

/// The number of unanswered packet-ins that a flooding switch keeps open: enough to keep a controller busy by itself.
pub const FLOOD: u32 = 512;
/// The default time that a controller has to discover a network before hosts send. Chosen: several rounds of the probes
/// of common controllers.
pub const DISCOVERY: Duration = Duration::from_secs(5);
/// The maximum number of bursts a second that [`burst`] chooses: each is a system call, and at 25 µs each one thread
/// still has time to read the answers.
const BURSTS: f64 = 40_000.0;

/// The way in which packet-ins are sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mode {
    /// Each switch has at most this many packet-ins without an answer.
    Throughput {
        /// The number of unanswered packet-ins that each switch keeps open, at least 1.
        window: u32,
    },
    /// All switches together send this many packet-ins a second, whatever comes back.
    Rate {
        /// Packet-ins a second.
        per_second: f64,
        /// The maximum number of unanswered packet-ins of one switch. Further ones are not sent, which is reported.
        window: u32,
        /// Packet-ins of one switch that are due together, at most `window`. With 1 the rate is uniform.
        burst: u32,
    },
}

/// Returns the smallest bursts in which one thread can send this many packet-ins a second, since each burst is a write.
pub fn burst(per_second: f64) -> u32 {
    (per_second / BURSTS).ceil().max(1.0) as u32
}

/// The parameters of a load.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadOptions {
    /// The controller.
    pub connect: SocketAddr,
    /// The files for TLS; `None`: plain TCP.
    pub tls: Option<TlsFiles>,
    /// The number of times that all switches disconnect and connect again before the first packet, which resumes TLS
    /// sessions.
    pub reconnects: u32,
    /// The packets of the switches.
    pub workload: Workload,
    /// The number of switches. [`Workload::Network`] has its own number.
    pub switches: u32,
    /// The number of source addresses of each switch with [`Workload::Addresses`]; they come in turn.
    pub macs: u32,
    /// The way in which packet-ins are sent.
    pub mode: Mode,
    /// The number of switches, the last ones, that send nothing at first, and then keep [`FLOOD`] packet-ins open,
    /// which shows the effect on the others' latency.
    pub flooding: u32,
    /// The version that the switches speak.
    pub version: Version,
    /// The time of the measurement.
    pub duration: Duration,
    /// The time of sending before the measurement.
    pub warmup: Duration,
    /// The pause between the handshakes and the first packet.
    pub settle: Duration,
    /// The controller's process on this machine, whose use of cores and memory is reported.
    pub watch: Option<u32>,
}

impl LoadOptions {
    /// Creates options for 16 switches with 100,000 addresses each that speak OpenFlow 1.0 and keep 512 packet-ins
    /// open, for 5 seconds after 2 of warm-up.
    pub fn new(connect: SocketAddr) -> LoadOptions {
        LoadOptions {
            connect,
            tls: None,
            reconnects: 0,
            workload: Workload::Addresses,
            switches: 16,
            macs: 100_000,
            mode: Mode::Throughput { window: 512 },
            flooding: 0,
            version: Version::Of10,
            duration: Duration::from_secs(5),
            warmup: Duration::from_secs(2),
            settle: Duration::from_millis(500),
            watch: None,
        }
    }

    /// Reports whether the switch at this index is one that floods.
    pub(crate) fn floods(&self, place: usize) -> bool {
        place >= self.switches.saturating_sub(self.flooding) as usize
    }

    /// Fails if a number makes no sense.
    pub(crate) fn check(&self) -> Result<(), LoadError> {
        let (Mode::Throughput { window } | Mode::Rate { window, .. }) = self.mode;
        let (rate, burst) =
            if let Mode::Rate { per_second, burst, .. } = self.mode { (per_second, burst) } else { (1.0, 1) };
        match () {
            () if self.switches == 0 => Err(LoadError::Wrong("there must be a switch")),
            () if self.switches > 65_535 => Err(LoadError::Wrong("there may be 65535 switches at most")),
            () if self.macs == 0 => Err(LoadError::Wrong("a switch must have a source address")),
            () if window == 0 || window > 1 << 20 => Err(LoadError::Wrong("the window is 1 to 1048576")),
            () if burst == 0 || burst > window => Err(LoadError::Wrong("a burst is 1 packet-in to the window")),
            () if !(rate > 0.0 && rate.is_finite()) => Err(LoadError::Wrong("the rate is more than 0")),
            () if self.flooding >= self.switches => Err(LoadError::Wrong("there must be a switch that does not flood")),
            () if self.flooding > 0 && !self.can_flood() => {
                Err(LoadError::Wrong("switches flood beside a window, and with source addresses"))
            }
            () if self.duration.is_zero() => Err(LoadError::Wrong("the duration is more than 0")),
            () => Ok(()),
        }
    }

    fn can_flood(&self) -> bool {
        matches!(self.mode, Mode::Throughput { .. }) && self.workload == Workload::Addresses
    }
}
