//! Random cases: networks, policies, packets and changes of the state, as data.
//!
//! Two tests hold Maple to its contract on random networks: they are drivers of one [`Scenario`]. The one of this crate
//! runs engines against simulated switches and asks the policy itself what is right. The one of `maple-lab` runs whole
//! controllers over real OpenFlow bytes and asks a plain model. So a question, an answer, a header or an event that is
//! added here is tested twice. What only one of them can do, it declares ([`Driver`]).
//!
//! A [`Domain`] describes a network. From it and a [`Choices`] come programs, packets and changes that
//! concern this network. Equal seeds give equal cases.

mod answers;
mod changes;
mod domain;
mod generate;
mod listed;
#[expect(missing_docs, reason = "the fields of its variants bear the names of what they hold")]
mod packets;
mod policy;
#[expect(missing_docs, reason = "the fields of its variants bear the names of what they hold")]
mod program;
mod programs;
mod scenario;

pub use domain::{Domain, HostAddresses};
pub use generate::{Driver, Kind, Theme};
pub use listed::Listed;
pub use packets::{Body, PacketSpec, Tag, Transport};
pub use program::{Answer, COSTS, Change, Operand, Program, Question, Special, Subject, TABLES, VARS, Who, int};
pub use scenario::{CaseNetwork, Knows, Link, Scenario, Step, host};

use super::Choices;

/// Returns the pairs of switches that links join, so that the network is connected: a random tree, and up to `most`
/// further links. Switches are 1, 2, …; a pair can occur twice.
fn links(random: &mut Choices, switches: u64, most: usize) -> Vec<(u64, u64)> {
    let switch = |random: &mut Choices, last: u64| 1 + random.below(last as usize) as u64;
    let mut pairs: Vec<(u64, u64)> = (2..=switches).map(|far| (switch(random, far - 1), far)).collect();
    for _ in 0..random.below(most + 1) {
        let (a, b) = (switch(random, switches), switch(random, switches));
        let known = pairs.contains(&(a, b)) || pairs.contains(&(b, a));
        if a != b && (!known || random.one_in(3)) {
            pairs.push((a, b));
        }
    }
    pairs
}
