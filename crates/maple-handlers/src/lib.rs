//! Handlers that come with Maple: `builtin:learning-switch` and `builtin:hub`.
//!
//! Both are ordinary [handlers](maple_controller::handler). The learning switch is the program that controller
//! frameworks are compared by, so it is made for speed: it has a hash table and an encoder of its own.
//!
//! * [`LearningSwitch`]: an exact-match learning switch, in [`learning`].
//! * [`Hub`]: sends every packet out of all other ports.
//!
//! From the bottom up: `cache_lines` hands out memory, `mac_table` is the hash table in it, `hub` and `exact_match`
//! encode messages, `learning` joins them.

mod cache_lines;
mod exact_match;
mod hub;
pub mod learning;
mod mac_table;

#[cfg(test)]
mod testing;

pub use hub::Hub;
pub use learning::LearningSwitch;
