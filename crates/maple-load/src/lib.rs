//! Load for an OpenFlow controller: many switches in one thread, which send packet-ins and time the answers.
//!
//! ```text
//!  connect ─ handshake ─ teach a destination ─ warm up ─ measure ─► Report
//!                                               │  ▲
//!                                    packet-ins ▼  │ flow-mods, packet-outs
//!                                              controller
//! ```
//!
//! Every packet-in has its own buffer id, and the message that releases this buffer is its answer: a flow-mod or a
//! packet-out with this buffer id, or a packet-out with the packet in it. So a flow-mod and a packet-out for one packet
//! are one answer, and each answer is timed by its own question. A flow-mod without a buffer id is counted and answers
//! nothing.
//!
//! The packets are a [`Workload`]: packets from many addresses, the packets of a trace, or requests between the hosts
//! of a network (Maestro's method). Requests carry a mark, so that they are known wherever the controller sends them
//! out, and link discovery crosses the network's links; nothing else does.
//!
//! [`flows`] is another kind of load: switches with tables that obey, and flows that are followed from host to host.
//!
//! A figure is a result only if the controller determined it. The generator watches itself, and [`Report::doubts`]
//! lists why a figure is not valid: its core was full, it had to wait for its core, or it fell behind its schedule.

mod error;

pub mod descriptors;

mod options;
mod workload;

mod histogram;
mod pending;
mod schedule;

mod channel;
mod handshake;
mod packets;
mod socket;
mod switch;
mod tls;

mod cpu;
mod report;
mod run;

pub mod flows;

pub use cpu::{Cpu, Process};
pub use error::LoadError;
pub use histogram::Histogram;
pub use options::{DISCOVERY, FLOOD, LoadOptions, Mode, burst};
pub use report::{Latency, Report};
pub use run::run;
pub use tls::{TlsFiles, TlsVersion};
pub use workload::{Header, NetworkHost, Wiring, Workload, traced_header};
