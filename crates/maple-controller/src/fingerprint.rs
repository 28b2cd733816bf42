//! Fingerprints of contents: of the files of a policy, of the changes of a plan.

use std::fmt;
use std::hash::Hasher as _;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use siphasher::sip128::{Hasher128 as _, SipHasher24};

/// The number of digits that people read. Chosen: 48 bits tell the policies of a network apart, and people can compare
/// them.
const DIGITS_SHOWN: usize = 12;

/// 128 bits that stand for contents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct Fingerprint(String);

impl Fingerprint {
    /// Computes the fingerprint of these parts, in order.
    ///
    /// ```
    /// use maple_controller::control::plan::Fingerprint;
    /// assert_eq!(Fingerprint::from_parts(["a", "b"]), Fingerprint::from_parts(["a", "b"]));
    /// assert_ne!(Fingerprint::from_parts(["a", "b"]), Fingerprint::from_parts(["ab"]));
    /// ```
    pub fn from_parts<T: AsRef<[u8]>>(parts: impl IntoIterator<Item = T>) -> Fingerprint {
        let mut hasher = SipHasher24::new();
        for part in parts {
            let part = part.as_ref();
            hasher.write_usize(part.len());
            hasher.write(part);
        }
        let sum = hasher.finish128();
        Fingerprint(format!("{:016x}{:016x}", sum.h1, sum.h2))
    }

    /// Returns the first digits of the fingerprint, for people.
    pub fn short(&self) -> &str {
        self.0.get(..DIGITS_SHOWN).unwrap_or(&self.0)
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
