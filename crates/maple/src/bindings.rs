//! Questions with a source line from the caller. Bindings to other languages need them; policies in Rust do not.
//!
//! ```
//! use maple::bindings::Observe as _;
//! use maple::testing::{Bench, tcp};
//! use maple::{Net, Packet, Route};
//! use maple::field::Field;
//! use maple::policy::Source;
//!
//! let bench = Bench::new().switch(1, 1..=2);
//! let script = |pkt: &Packet, _: &Net| {
//!     let line = Source::new("script", 7);
//!     if pkt.equals(Field::TcpDst, 22, 0xffff, Some(line)) { Route::drop() } else { Route::flood() }
//! };
//! let decision = bench.decide(&script, &tcp(1024, 22), bench.port(1, 1));
//! assert_eq!(decision.sources()[0].as_ref().unwrap().to_string(), "script:7");
//! ```

/// The questions that a binding for another language asks a packet.
///
/// ```
/// use maple::bindings::Observe;
/// use maple::testing::{ask, tcp};
/// use maple::field::Field;
/// use maple::policy::Source;
///
/// /// The tenant that an address belongs to, as a script of another language asks it at this line.
/// fn tenant(packet: &impl Observe, line: Source) -> Option<u128> {
///     packet.read(Field::Ipv4Src, 0xffff_ff00, Some(line))
/// }
///
/// let trace = ask(&tcp(1024, 22), |pkt| assert_eq!(tenant(pkt, Source::new("script", 7)), Some(0x0a00_0000)));
/// assert_eq!(trace.last().unwrap(), "read ipv4_src=10.0.0.0/24");
/// ```
#[doc(inline)]
pub use maple_core::run::Observe;
