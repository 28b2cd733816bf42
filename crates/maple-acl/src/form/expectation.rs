//! The tests of a document, and questions about it.

use maple_core::access::AccessAction;
use maple_wire::Field;
use maple_wire::eth_type::value::{IPV4, IPV6};

use super::fields::{Fields, scalar};
use super::packets::{Constraints, Side};
use super::{Expectation, Names};
use crate::cube::Cube;
use crate::error::{Fault, FilePlace};
use crate::yaml::{YamlNode, YamlValue};

/// The maximum number of combinations of addresses and services in a test, which bounds the time of the test.
const MAX_TEST: usize = 10_000;

/// Returns the text of a test: `- office -> web denied`, or `- expect: office -> web denied`.
pub(super) fn test_text(node: &YamlNode) -> Result<&str, Fault> {
    let node = match &node.value {
        YamlValue::Map(_) => Fields::from_map(node, "a test", &["expect"])?.get("expect").unwrap_or(node),
        _ => node,
    };
    scalar(node, "tests")
}

impl Names<'_> {
    /// Parses a test, such as `office -> web tcp/22 denied`.
    pub fn expectation(&self, text: &str, place: FilePlace) -> Result<Expectation, Fault> {
        let wrong = |what: &str| {
            let form = "a test is `FROM -> TO [SERVICE] allowed`, denied or passed";
            Fault::new(place, format!("{form}, not `{what}`"))
        };
        let (packets, action) = text.trim().rsplit_once(char::is_whitespace).ok_or_else(|| wrong(text))?;
        let words = spaced(packets).split_whitespace().count();
        if !(3..=4).contains(&words) {
            return Err(wrong(text));
        }
        let action = match action {
            "allowed" => AccessAction::Allow,
            "denied" => AccessAction::Deny,
            "passed" => AccessAction::Pass,
            other => return Err(wrong(other)),
        };
        Ok(Expectation { place, text: text.to_owned(), cubes: self.packets(packets, place)?, action })
    }

    /// Returns the packets of `FROM -> TO [SERVICE]`. Without a service they are IP packets.
    pub fn packets(&self, text: &str, place: FilePlace) -> Result<Vec<Cube>, Fault> {
        let fault = |what: String| Fault::new(place, what);
        let spaced = spaced(text);
        let words: Vec<&str> = spaced.split_whitespace().collect();
        let (from, to, service) = match words[..] {
            [from, "->", to] => (from, to, None),
            [from, "->", to, service] => (from, to, Some(service)),
            _ => return Err(fault(format!("packets are `FROM -> TO [SERVICE]`, not `{text}`"))),
        };
        let side = |word: &str| match word {
            "any" => Ok(None),
            word => self.groups.word(word).map(Some).map_err(fault),
        };
        let services = service.map(|word| self.services.word(word)).transpose().map_err(fault)?;
        let constraints = Constraints {
            services,
            source_ports: Vec::new(),
            ethertype: None,
            vlans: vec![None],
            at: vec![None],
            replies: false,
        };
        let (from, to) = (side(from)?, side(to)?);
        if constraints.max_cubes(from.as_ref(), to.as_ref()).is_none_or(|max| max > MAX_TEST) {
            return Err(fault(format!("`{text}` is about too many pairs of addresses; ask about groups of fewer")));
        }
        let (from, to) = (Side::all(from.as_ref()), Side::all(to.as_ref()));
        let cubes = constraints.cubes(&from, &to).once.into_iter().map(|(cube, _)| cube);
        let cubes: Vec<Cube> = cubes.flat_map(ip_only).collect();
        if cubes.is_empty() {
            return Err(fault(format!("`{text}` is about no packet: its addresses contradict each other")));
        }
        Ok(cubes)
    }
}

/// Puts spaces around the arrow of a text.
fn spaced(text: &str) -> String {
    text.replace('→', "->").replace("->", " -> ")
}

fn ip_only(cube: Cube) -> Vec<Cube> {
    match cube.get(Field::EthType) {
        Some(_) => vec![cube],
        None => [IPV4, IPV6].into_iter().filter_map(|kind| cube.clone().is(Field::EthType, kind)).collect(),
    }
}
