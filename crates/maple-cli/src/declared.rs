//! What a configuration says, in the options of `maple run`: where from, and what it declares of the network.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

use maple_controller::control::rows::Row;
use maple_controller::names::Names;
use maple_core::network::{Facts, HostFacts, SwitchFacts};
use maple_core::state::Write;
use maple_wire::Dpid;

/// A line of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file, as it was given.
    pub file: PathBuf,
    /// The line, from 1.
    pub line: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file.display(), self.line)
    }
}

/// An option that a file sets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The option's id in the definition of the command line.
    pub id: String,
    /// Its key.
    pub key: String,
    /// The arguments that say the same.
    pub arguments: Vec<OsString>,
    /// Where.
    pub at: Place,
}

/// Where options are from, so that they can be read again.
#[derive(Clone, Debug)]
pub struct Configured {
    /// The file.
    pub file: PathBuf,
    /// The options that it sets.
    pub settings: Vec<Setting>,
    /// The arguments of the command line, which have precedence.
    pub given: Vec<OsString>,
}

/// A cost of links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cost {
    /// Where.
    pub at: Place,
    /// The cost, at both ends of the links.
    pub writes: Vec<Write>,
    /// In words.
    pub text: String,
}

/// What is declared.
#[derive(Clone, Debug, Default)]
pub struct Network {
    /// Of ports and hosts.
    pub facts: Facts,
    /// The names.
    pub names: Names,
    /// Where each switch and host is declared, by its name.
    pub places: BTreeMap<String, Place>,
    /// The certificates of switches, for TLS.
    pub certificates: Vec<(Dpid, String)>,
    /// The costs of links.
    pub costs: Vec<Cost>,
    /// The rows of tables, and the variables.
    pub rows: Vec<(Place, Row)>,
}

impl Network {
    /// Whether it has more than names.
    pub fn has_facts(&self) -> bool {
        let is_bare = |facts: &SwitchFacts| *facts == SwitchFacts::default();
        let hosts = self.facts.hosts().any(|(_, facts)| *facts != HostFacts::default());
        hosts
            || !self.facts.switches().all(|(_, facts)| is_bare(facts))
            || !self.certificates.is_empty()
            || !self.costs.is_empty()
            || !self.rows.is_empty()
    }
}
