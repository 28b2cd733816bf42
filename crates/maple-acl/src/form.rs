//! Maple's own form of access lists: from a document to rules.
//!
//! The constants of this file list the valid keys; `schema.json` has the same keys for editors.

use maple_core::Location;
use maple_core::access::AccessAction;
use maple_wire::packet::text::parse_vlan_id;
use maple_wire::{Dpid, Field, PortNo};
use rustc_hash::FxHashMap;

use crate::address::{Addresses, Groups, Kind};
use crate::cube::{Cube, SWITCH};
use crate::error::{Fault, FilePlace, did_you_mean};
use crate::fragments::{self, Fragments};
use crate::service::{Service, Services, ports};
use crate::yaml::{Key, Node, Value};

/// The keys of a document. `RULE_KEYS`: the keys of a rule.
pub const DOCUMENT_KEYS: [&str; 10] =
    ["version", "name", "forward", "default", "arp", "fragments", "groups", "services", "rules", "tests"];
pub const RULE_KEYS: [&str; 14] = [
    "action",
    "name",
    "from",
    "to",
    "service",
    "source_ports",
    "ethertype",
    "vlan",
    "at",
    "replies",
    "log",
    "mirror",
    "queue",
    "comment",
];

/// The maximum number of entries of all rules of a list.
const MAX_ENTRIES: usize = 1_000_000;

/// The maximum number of combinations of addresses and services in a test.
const MAX_TEST: usize = 10_000;

/// The destination of allowed packets if the list is the whole policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Forward {
    /// A shortest path to the destination; all hosts if that is unknown or a group.
    #[default]
    ShortestPath,
    /// All hosts.
    Flood,
}

/// A rule as people wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The rule's place in the file.
    pub place: FilePlace,
    /// The action of the rule.
    pub action: AccessAction,
    /// The rule's name, if it has one.
    pub name: Option<String>,
    /// The author's comment.
    pub comment: Option<String>,
    /// Whether each packet is logged.
    pub log: bool,
    /// The port where a copy leaves.
    pub mirror: Option<Location>,
    /// The output queue.
    pub queue: Option<u32>,
}

/// A set of packets, and the rule that decides about them unless an earlier entry does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The packets.
    pub cube: Cube,
    /// The index of the rule. The number of rules stands for `arp`, and one more for `fragments`.
    pub rule: u32,
    /// Whether the packets look like replies to those of a rule.
    pub is_reply: bool,
}

impl Entry {
    fn of(cube: Cube, rule: u32) -> Entry {
        Entry { cube, rule, is_reply: false }
    }
}

/// A test of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expectation {
    /// The test's place in the file.
    pub place: FilePlace,
    /// The test as written.
    pub text: String,
    /// The packets.
    pub cubes: Vec<Cube>,
    /// The action that the list must take for all of them.
    pub action: AccessAction,
}

/// One value for each of the three settings for packets without a rule.
#[derive(Clone, Copy, Debug)]
pub struct OfAll<T> {
    pub default: T,
    pub arp: T,
    pub fragments: T,
}

/// The content of a document.
#[derive(Debug)]
pub struct Document {
    pub name: Option<String>,
    pub forward: Option<Forward>,
    pub default: AccessAction,
    /// The action for ARP and IPv6 neighbour discovery.
    pub arp: AccessAction,
    /// The treatment of fragments, if the document sets it.
    pub fragments: Option<Fragments>,
    /// The lines of these three settings; 1 for those that are not set.
    pub lines: OfAll<usize>,
    pub rules: Vec<Rule>,
    pub entries: Vec<Entry>,
    pub tests: Vec<Expectation>,
    /// The packets of a question about the list.
    pub asked: Vec<Cube>,
}

/// The names that a document defines.
struct Names<'a> {
    groups: Groups<'a>,
    services: Services<'a>,
}

/// A map's values by key. Unknown keys can't occur: they are rejected when it is made.
struct Fields<'a> {
    place: FilePlace,
    all: &'a [(Key, Node)],
}

impl<'a> Fields<'a> {
    fn of(node: &'a Node, what: &str, known: &[&str]) -> Result<Fields<'a>, Fault> {
        let Value::Map(all) = &node.value else {
            return Err(Fault::new(node.place, format!("{what} is a map of `key: value`")));
        };
        match all.iter().find(|(key, _)| !known.contains(&&*key.name)) {
            None => Ok(Fields { place: node.place, all }),
            Some((key, _)) => {
                let hint = did_you_mean(&key.name, known.iter().copied());
                Err(Fault::new(key.place, format!("{what} has no key `{}`{hint}", key.name)))
            }
        }
    }

    fn get(&self, key: &str) -> Option<&'a Node> {
        self.all.iter().find(|(there, _)| there.name == key).map(|(_, node)| node)
    }

    fn text(&self, key: &str) -> Result<Option<&'a str>, Fault> {
        self.get(key).map(|node| scalar(node, key)).transpose()
    }

    fn section(&self, key: &str) -> Result<&'a [(Key, Node)], Fault> {
        match self.get(key) {
            None => Ok(&[]),
            Some(Node { value: Value::Map(map), .. }) => Ok(map),
            Some(node) => Err(Fault::new(node.place, format!("`{key}` is a map of `name: …`"))),
        }
    }

    fn list(&self, key: &str) -> Result<&'a [Node], Fault> {
        match self.get(key) {
            None => Ok(&[]),
            Some(Node { value: Value::List(list), .. }) => Ok(list),
            Some(node) => Err(Fault::new(node.place, format!("`{key}` is a list of `- …`"))),
        }
    }

    fn choice<T: Copy>(&self, key: &str, choices: &[(&str, T)]) -> Result<Option<T>, Fault> {
        let Some(node) = self.get(key) else { return Ok(None) };
        let text = scalar(node, key)?;
        match choices.iter().find(|(name, _)| *name == text) {
            Some((_, choice)) => Ok(Some(*choice)),
            None => {
                let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
                let hint = did_you_mean(text, names.iter().copied());
                Err(Fault::new(node.place, format!("`{key}` is {}, not `{text}`{hint}", names.join(" or "))))
            }
        }
    }
}

const ACTIONS: [(&str, AccessAction); 3] =
    [("allow", AccessAction::Allow), ("deny", AccessAction::Deny), ("pass", AccessAction::Pass)];

fn scalar<'a>(node: &'a Node, key: &str) -> Result<&'a str, Fault> {
    match &node.value {
        Value::Scalar(text) => Ok(text),
        _ => Err(Fault::new(node.place, format!("`{key}` is one value"))),
    }
}

/// Returns the values of a list, or the one value.
fn scalars<'a>(node: &'a Node, key: &str) -> Result<Vec<(FilePlace, &'a str)>, Fault> {
    let one = |node: &'a Node| Ok((node.place, scalar(node, key)?));
    match &node.value {
        Value::List(list) if list.is_empty() => Err(Fault::new(node.place, format!("`{key}` names nothing"))),
        Value::List(list) => list.iter().map(one).collect(),
        _ => one(node).map(|one| vec![one]),
    }
}

impl Document {
    /// Reads a document, and a question about it if there is one: `FROM -> TO [SERVICE]`.
    ///
    /// # Errors
    /// All that is wrong in the rules and tests, or the one thing that is wrong before them.
    pub fn read(root: &Node, question: Option<&str>) -> Result<Document, Vec<Fault>> {
        let fields = Fields::of(root, "an access list", &DOCUMENT_KEYS)?;
        match fields.text("version")? {
            Some("1") => {}
            Some(other) => {
                let place = fields.get("version").map_or(fields.place, |node| node.place);
                let what = format!("version {other} is unknown here; this Maple reads version 1");
                return Err(vec![Fault::new(place, what)]);
            }
            None => return Err(vec![Fault::new(fields.place, "`version: 1` is missing")]),
        }
        let groups = Groups::of(fields.section("groups")?)?;
        let mut names = Names { groups, services: Services::of(fields.section("services")?)? };
        let line = |key| fields.get(key).map_or(1, |node| node.place.line);
        let mut document = Document {
            name: fields.text("name")?.map(str::to_owned),
            forward: fields
                .choice("forward", &[("shortest-path", Forward::ShortestPath), ("flood", Forward::Flood)])?,
            default: fields.choice("default", &ACTIONS)?.unwrap_or(AccessAction::Deny),
            arp: fields.choice("arp", &ACTIONS)?.unwrap_or(AccessAction::Allow),
            fragments: fields.choice("fragments", &fragments::CHOICES)?,
            lines: OfAll { default: line("default"), arp: line("arp"), fragments: line("fragments") },
            rules: Vec::new(),
            entries: Vec::new(),
            tests: Vec::new(),
            asked: Vec::new(),
        };
        let mut faults = Vec::new();
        let mut known_names = FxHashMap::default();
        for (number, node) in (0..).zip(fields.list("rules")?) {
            let read = document.add_rule(&mut names, &mut known_names, (number, node));
            faults.extend(read.err());
            if document.entries.len() > MAX_ENTRIES {
                break;
            }
        }
        for cube in resolution() {
            document.entries.push(Entry::of(cube, document.rules.len() as u32));
        }
        if document.fragments.is_some_and(|all| all.action().is_some()) {
            let rule = document.rules.len() as u32 + 1;
            let before = fragments::recognised().map(|cube| Entry::of(cube, rule));
            document.entries.splice(..0, before);
        }
        for node in fields.list("tests")? {
            let read = test_text(node).and_then(|text| names.expectation(text, node.place));
            match read {
                Ok(test) => document.tests.push(test),
                Err(fault) => faults.push(fault),
            }
        }
        if !faults.is_empty() {
            return Err(faults);
        }
        if let Some(question) = question {
            document.asked = names.packets(question, FilePlace { line: 1, column: 1 })?;
        }
        Ok(document)
    }

    /// Adds a rule and its entries. `known` has the named rules before it.
    fn add_rule<'a>(
        &mut self,
        names: &mut Names<'a>,
        known: &mut FxHashMap<String, FilePlace>,
        (number, node): (u32, &'a Node),
    ) -> Result<(), Fault> {
        let rule = Fields::of(node, "a rule", &RULE_KEYS)?;
        let Cubes { once, replies } = names.cubes(&rule)?;
        self.entries.extend(once.into_iter().map(|cube| Entry::of(cube, number)));
        let replies = replies.into_iter().map(|cube| Entry { is_reply: true, ..Entry::of(cube, number) });
        self.entries.extend(replies);
        if self.entries.len() > MAX_ENTRIES {
            return Err(Fault::new(node.place, format!("with this rule the list has more than {MAX_ENTRIES} entries")));
        }
        let rule = read_rule(&rule)?;
        if let Some(name) = &rule.name
            && let Some(other) = known.insert(name.clone(), rule.place)
        {
            let what = format!("two rules are called `{name}`; the other one is in line {}", other.line);
            return Err(Fault::new(rule.place, what));
        }
        self.rules.push(rule);
        Ok(())
    }
}

/// Returns the text of a test: `- office -> web denied`, or `- expect: office -> web denied`.
fn test_text(node: &Node) -> Result<&str, Fault> {
    let node = match &node.value {
        Value::Map(_) => Fields::of(node, "a test", &["expect"])?.get("expect").unwrap_or(node),
        _ => node,
    };
    scalar(node, "tests")
}

/// ARP and IPv6 neighbour discovery, without which hosts do not find each other.
fn resolution() -> impl Iterator<Item = Cube> {
    let arp = Cube::all().is(Field::EthType, 0x806);
    let icmp = Cube::all().is(Field::EthType, 0x86dd).and_then(|cube| cube.is(Field::IpProto, 58));
    // The types are separate cubes, since no switch can match several types at once.
    let discovery = [133, 134, 135, 136].map(|kind| icmp.clone().and_then(|cube| cube.is(Field::Icmpv6Type, kind)));
    std::iter::once(arp).chain(discovery).flatten()
}

fn read_rule(fields: &Fields<'_>) -> Result<Rule, Fault> {
    let Some(action) = fields.choice("action", &ACTIONS)? else {
        return Err(Fault::new(fields.place, "a rule needs an `action`: allow, deny or pass"));
    };
    for key in ["mirror", "queue"] {
        if let (AccessAction::Deny, Some(node)) = (action, fields.get(key)) {
            return Err(Fault::new(node.place, format!("a rule that denies can't have a `{key}`")));
        }
    }
    let mirror = match fields.get("mirror") {
        None => None,
        Some(node) => match location(scalar(node, "mirror")?) {
            Some((switch, Some(port))) => Some(Location::new(Dpid(switch), PortNo(port))),
            _ => return Err(Fault::new(node.place, "`mirror` is a switch and a port, such as \"2:3\"")),
        },
    };
    let queue = match fields.get("queue") {
        None => None,
        Some(node) => {
            let number = scalar(node, "queue")?.parse::<u32>();
            Some(number.map_err(|_| Fault::new(node.place, "`queue` is the number of a queue, from 0"))?)
        }
    };
    Ok(Rule {
        place: fields.place,
        action,
        name: fields.text("name")?.map(str::to_owned),
        comment: fields.text("comment")?.map(str::to_owned),
        log: fields.choice("log", &[("true", true), ("false", false)])?.unwrap_or(false),
        mirror,
        queue,
    })
}

/// The packets of a rule, and those that look like replies to them. The cubes may overlap.
struct Cubes {
    once: Vec<Cube>,
    replies: Vec<Cube>,
}

/// One choice of the addresses that a side of a rule names.
type Side = Option<(Kind, u128, u128)>;

/// The constraints of a rule's packets, apart from their addresses.
struct Rest {
    services: Option<Vec<Service>>,
    source_ports: Vec<(u16, u16)>,
    ethertype: Option<u128>,
    vlans: Vec<Option<(u128, u128)>>,
    at: Vec<Option<(u64, Option<u32>)>>,
    replies: bool,
}

impl<'a> Names<'a> {
    /// The packets of a rule.
    fn cubes(&mut self, rule: &Fields<'a>) -> Result<Cubes, Fault> {
        let mut side = |key| match rule.get(key) {
            Some(node) => self.groups.resolve(node),
            None => Ok(None),
        };
        let (from, to) = (side("from")?, side("to")?);
        let rest = self.rest(rule)?;
        if rest.most_cubes(from.as_ref(), to.as_ref()).is_none_or(|most| most > MAX_ENTRIES) {
            return Err(Fault::new(rule.place, format!("this rule alone has more than {MAX_ENTRIES} entries")));
        }
        let cubes = rest.cubes(from.as_ref(), to.as_ref());
        if cubes.once.is_empty() && cubes.replies.is_empty() {
            let what = "the rule fits no packet: its addresses, services and types contradict each other";
            return Err(Fault::new(rule.place, what));
        }
        Ok(cubes)
    }

    fn rest(&self, rule: &Fields<'a>) -> Result<Rest, Fault> {
        let services = rule.get("service").map(|node| self.services.resolve(node)).transpose()?;
        let source_ports = match rule.get("source_ports") {
            None => Vec::new(),
            Some(node) => {
                let have_ports = |all: &Vec<Service>| all.iter().all(|one| matches!(one, Service::Ports(..)));
                if !services.as_ref().is_some_and(have_ports) {
                    return Err(Fault::new(node.place, "`source_ports` needs a `service` of tcp, udp or sctp"));
                }
                let range = |(place, text)| ports(text).map_err(|what| Fault::new(place, what));
                scalars(node, "source_ports")?.into_iter().map(range).collect::<Result<_, _>>()?
            }
        };
        let ethertype = rule.get("ethertype").map(ethertype).transpose()?;
        if services.is_some() && ethertype.is_some_and(|kind| kind != 0x800 && kind != 0x86dd) {
            let place = rule.get("ethertype").map_or(rule.place, |node| node.place);
            return Err(Fault::new(place, "a `service` has packets of `ethertype` ipv4 or ipv6 only"));
        }
        let vlans = match rule.get("vlan") {
            None => vec![None],
            Some(node) => scalars(node, "vlan")?.into_iter().map(vlan).collect::<Result<_, _>>()?,
        };
        let at = match rule.get("at") {
            None => vec![None],
            Some(node) => {
                let place = |(place, text)| match location(text) {
                    Some(at) => Ok(Some(at)),
                    None => Err(Fault::new(
                        place,
                        format!("`{text}` is not a place, such as \"1:2\" (switch and port) or \"1\""),
                    )),
                };
                scalars(node, "at")?.into_iter().map(place).collect::<Result<_, _>>()?
            }
        };
        let replies = rule.choice("replies", &[("true", true), ("false", false)])?.unwrap_or(false);
        if let (true, Some(node)) = (replies, rule.get("at")) {
            return Err(Fault::new(node.place, "replies enter elsewhere: write a rule of its own for them"));
        }
        Ok(Rest { services, source_ports, ethertype, vlans, at, replies })
    }

    /// Parses a test, such as `office -> web tcp/22 denied`.
    fn expectation(&self, text: &str, place: FilePlace) -> Result<Expectation, Fault> {
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
    fn packets(&self, text: &str, place: FilePlace) -> Result<Vec<Cube>, Fault> {
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
        let rest = Rest {
            services,
            source_ports: Vec::new(),
            ethertype: None,
            vlans: vec![None],
            at: vec![None],
            replies: false,
        };
        let (from, to) = (side(from)?, side(to)?);
        if rest.most_cubes(from.as_ref(), to.as_ref()).is_none_or(|most| most > MAX_TEST) {
            return Err(fault(format!("`{text}` is about too many pairs of addresses; ask about groups of fewer")));
        }
        let cubes: Vec<Cube> = rest.cubes(from.as_ref(), to.as_ref()).once.into_iter().flat_map(ip_only).collect();
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
        None => [0x800, 0x86dd].into_iter().filter_map(|kind| cube.clone().is(Field::EthType, kind)).collect(),
    }
}

impl Rest {
    /// Returns an upper bound of the number of cubes; `None` if it overflows.
    fn most_cubes(&self, from: Option<&Addresses>, to: Option<&Addresses>) -> Option<usize> {
        let side = |addresses: Option<&Addresses>| addresses.map_or(1, |all| all.blocks().len());
        let services = self.services.as_ref().map_or(1, |all| 2 * all.len());
        let rest = [side(to), services, self.source_ports.len().max(1), self.vlans.len(), self.at.len()];
        let once = rest.into_iter().try_fold(side(from), usize::checked_mul)?;
        once.checked_mul(if self.replies { 2 } else { 1 })
    }

    fn cubes(&self, from: Option<&Addresses>, to: Option<&Addresses>) -> Cubes {
        let services = self.services.as_ref().map_or(vec![None], |all| all.iter().copied().map(Some).collect());
        let sources = match &self.source_ports[..] {
            [] => vec![None],
            all => all.iter().copied().map(Some).collect(),
        };
        let (once, mut replies) = (self.between(from, to, &services, &sources), Vec::new());
        if self.replies {
            for service in services {
                for source in &sources {
                    match service.map(|service| service.replies(source.unwrap_or((0, u16::MAX)))) {
                        None => replies.extend(self.between(to, from, &[None], &[None])),
                        Some(Some((service, source))) => {
                            replies.extend(self.between(to, from, &[Some(service)], &[source]));
                        }
                        Some(None) => {}
                    }
                }
            }
        }
        Cubes { once, replies }
    }

    fn between(
        &self,
        from: Option<&Addresses>,
        to: Option<&Addresses>,
        services: &[Option<Service>],
        sources: &[Option<(u16, u16)>],
    ) -> Vec<Cube> {
        let side = |addresses: Option<&Addresses>| -> Vec<Side> {
            addresses.map_or(vec![None], |all| all.blocks().into_iter().map(Some).collect())
        };
        let (from, to) = (side(from), side(to));
        let mut cubes = Vec::new();
        for place in &self.at {
            for vlan in &self.vlans {
                let Some(base) = located(*place, *vlan) else { continue };
                for source in &from {
                    for destination in &to {
                        for service in services {
                            for kind in self.kinds(*source, *destination, *service) {
                                let Some(cube) = addressed(&base, kind, *source, *destination) else { continue };
                                let Some(service) = service else {
                                    cubes.push(cube);
                                    continue;
                                };
                                cubes.extend(sources.iter().filter_map(|ports| service.of(cube.clone(), *ports)));
                            }
                        }
                    }
                }
            }
        }
        cubes
    }

    /// Returns the possible Ethernet types of such packets; `None` stands for any.
    fn kinds(&self, source: Side, destination: Side, service: Option<Service>) -> Vec<Option<u128>> {
        let ip = |side: Side| side.map(|(kind, _, _)| kind).filter(|kind| *kind != Kind::Mac);
        let wanted = [ip(source), ip(destination), service.and_then(Service::kind)];
        let types: Vec<u128> =
            wanted.into_iter().flatten().map(|kind| if kind == Kind::V4 { 0x800 } else { 0x86dd }).collect();
        let agree = |kind: &u128| types.iter().chain(&self.ethertype).all(|other| other == kind);
        match types.first().copied().or(self.ethertype) {
            Some(kind) => Some(kind).filter(agree).map(Some).into_iter().collect(),
            None if service.is_some() => vec![Some(0x800), Some(0x86dd)],
            None => vec![None],
        }
    }
}

fn located(place: Option<(u64, Option<u32>)>, vlan: Option<(u128, u128)>) -> Option<Cube> {
    let mut cube = Cube::all();
    if let Some((switch, port)) = place {
        cube = cube.is(SWITCH, switch.into())?;
        if let Some(port) = port {
            cube = cube.is(Field::InPort, port.into())?;
        }
    }
    match vlan {
        Some((lo, hi)) => cube.with(Field::VlanVid, lo, hi),
        None => Some(cube),
    }
}

fn addressed(base: &Cube, kind: Option<u128>, source: Side, destination: Side) -> Option<Cube> {
    let mut cube = match kind {
        Some(kind) => base.clone().is(Field::EthType, kind)?,
        None => base.clone(),
    };
    let fields = [
        (source, [Field::Ipv4Src, Field::Ipv6Src, Field::EthSrc]),
        (destination, [Field::Ipv4Dst, Field::Ipv6Dst, Field::EthDst]),
    ];
    for (side, [v4, v6, mac]) in fields {
        let Some((kind, lo, hi)) = side else { continue };
        let field = match kind {
            Kind::V4 => v4,
            Kind::V6 => v6,
            Kind::Mac => mac,
        };
        if hi - lo < field.full_mask() {
            cube = cube.with(field, lo, hi)?;
        }
    }
    Some(cube)
}

fn ethertype(node: &Node) -> Result<u128, Fault> {
    let text = scalar(node, "ethertype")?;
    let number = || match text.strip_prefix("0x") {
        Some(digits) => u128::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    };
    match text {
        "ipv4" => Ok(0x800),
        "ipv6" => Ok(0x86dd),
        "arp" => Ok(0x806),
        _ => number().filter(|number| (0x600..=0xffff).contains(number)).ok_or_else(|| {
            let hint = did_you_mean(text, ["ipv4", "ipv6", "arp"]);
            Fault::new(node.place, format!("`ethertype` is ipv4, ipv6, arp or a number from 0x600 to 0xffff{hint}"))
        }),
    }
}

fn vlan((place, text): (FilePlace, &str)) -> Result<Option<(u128, u128)>, Fault> {
    match (text, parse_vlan_id(text)) {
        ("none", _) => Ok(Some((0, 0))),
        (_, Some(id @ 1..=4094)) => Ok(Some((0x1000 | u128::from(id), 0x1000 | u128::from(id)))),
        _ => Err(Fault::new(place, format!("`vlan` is a number from 1 to 4094 or `none`, not `{text}`"))),
    }
}

/// Parses a switch, and a port if one is given.
fn location(text: &str) -> Option<(u64, Option<u32>)> {
    match text.parse::<Dpid>() {
        Ok(switch) => Some((switch.0, None)),
        Err(_) => text.parse::<Location>().ok().map(|at| (at.switch.0, Some(at.port.0))),
    }
}
