//! Tools for tests of Maple's engine, and of what is built on it: simulated networks, random cases, other compilers.
//!
//! * [`SimNetwork`] is a network in one thread: engines, simulated switches, links and hosts, with simulated time.
//! * [`cases`] are random policies, packets and changes of the state.
//! * [`seeds`] are those of random cases: fixed, fresh, or asked for.
//! * [`oracles`] are other compilers of trace trees, to test Maple's own and to measure it against.
//!
//! The crate is for development, not part of the product.

pub mod cases;
pub mod oracles;
pub mod seeds;

mod choices;
mod sim_network;
mod switch;

pub use choices::Choices;
pub use sim_network::{Delivery, SimNetwork};
pub use switch::{RefusedPorts, SimSwitch};
