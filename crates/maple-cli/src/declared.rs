//! The content of a configuration: options of `maple run` with their places, and declarations about the network.

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
pub struct FileLine {
    /// The file's name as it was given.
    pub file: PathBuf,
    /// The line, from 1.
    pub line: usize,
}

impl fmt::Display for FileLine {
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
    /// The equivalent arguments.
    pub arguments: Vec<OsString>,
    /// The place of the setting.
    pub at: FileLine,
}

/// The source of options, from which they can be read again.
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
    /// The place of the declaration.
    pub at: FileLine,
    /// The cost, at both ends of the links.
    pub writes: Vec<Write>,
    /// A description of the cost.
    pub text: String,
}

/// The declarations about a network.
#[derive(Clone, Debug, Default)]
pub struct DeclaredNetwork {
    /// The facts about ports and hosts.
    pub facts: Facts,
    /// The names.
    pub names: Names,
    /// The place where each switch and host is declared, by its name.
    pub places: BTreeMap<String, FileLine>,
    /// The certificates of switches, for TLS.
    pub certificates: Vec<(Dpid, String)>,
    /// The costs of links.
    pub costs: Vec<Cost>,
    /// The rows of tables, and the variables.
    pub rows: Vec<(FileLine, Row)>,
}

impl DeclaredNetwork {
    /// Reports whether the network declares more than names.
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
