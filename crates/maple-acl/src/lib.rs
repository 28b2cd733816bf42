//! Access lists for Maple, without programming.
//!
//! A [`List`] is read from YAML ([`List::load`]); errors name file, line and column. It can be asked about packets
//! ([`List::decide`]), tested by what its author expects ([`List::failed_tests`]), looked through for rules that never
//! match ([`List::findings`]), and compared with another list packet by packet ([`List::compare`]).
//! [`List::compile`] makes it a part of policies: `maple_core::Composition::lists`.

#![warn(missing_debug_implementations)]
#![warn(clippy::match_bool)]

mod address;
mod analysis;
mod classes;
mod cube;
mod diff;
mod entry;
mod error;
mod form;
mod fragments;
mod index;
mod list;
mod service;
mod yaml;

#[cfg(test)]
mod tests;

pub use analysis::{Finding, FindingKind, FragmentNote};
pub use cube::Cube;
pub use diff::{Comparison, Difference};
pub use entry::{Entry, RuleRef};
pub use error::{AclError, FilePlace};
pub use form::{Expectation, Forward, Rule};
pub use fragments::Fragments;
pub use list::{Decided, FailedTest, List};
pub use maple_core::access::{AccessAction, AccessDecision, AccessGroup};

use std::sync::Arc;

use maple_core::Composition;

/// Makes the lists a part of policies, asked in this order. `allowed` decides about packets that a list allows, and
/// about packets that all lists pass.
///
/// ```
/// use std::sync::Arc;
/// use maple_acl::List;
/// use maple_core::{Composition, Policy};
///
/// let list = List::read("version: 1\nrules: [{action: deny, service: tcp/23}]", "a.yaml")?;
/// let flood: Arc<dyn Policy> = Arc::new(|_: &_, net: &maple_core::Net| net.flood());
/// let policy = maple_acl::composition(&[list], Composition::single(flood));
/// assert!(policy.samples().len() > 1, "they are decided before such packets come");
/// # Ok::<(), maple_acl::AclError>(())
/// ```
pub fn composition<P>(lists: &[List], allowed: Composition<P>) -> Composition<P> {
    let before = |at: usize| lists[..at].iter().collect::<Vec<&List>>();
    let compiled = lists.iter().enumerate().map(|(at, list)| Arc::new(list.compile(&before(at))));
    Composition::lists(compiled, allowed)
}

/// The JSON schema of lists, for editors.
pub const SCHEMA: &str = include_str!("schema.json");
