//! Configuration files: their content as it is read, and the messages about wrong ones.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::Path;

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches};
use maple_core::network::{Location, Mac, PortRole};
use maple_wire::{Dpid, PortNo};

use super::{Config, arguments, parse_given};

fn parse(text: &str) -> Result<Config, Vec<String>> {
    Config::parse(Path::new("/etc/m.toml"), text.to_owned())
        .map_err(|problems| problems.iter().map(ToString::to_string).collect())
}

fn wrong(text: &str) -> Vec<String> {
    parse(text).err().unwrap_or_else(|| panic!("nothing is wrong: {text}"))
}

/// Parses a command line together with a file.
fn matches(text: &str, command_line: &[&str]) -> ArgMatches {
    let config = parse(text).unwrap_or_else(|problems| panic!("{problems:?}"));
    let given: Vec<OsString> = command_line.iter().map(OsString::from).collect();
    let (given, _) = parse_given(arguments::definition(), &given).expect("a right command line");
    let mut all = arguments::arguments(&config.settings, &given);
    all.extend(command_line.iter().map(OsString::from));
    arguments::definition().try_get_matches_from(all).unwrap_or_else(|error| panic!("{error}"))
}

fn strings(matches: &ArgMatches, id: &str) -> Vec<String> {
    let raw = matches.get_raw(id).into_iter().flatten();
    raw.map(|value| value.to_string_lossy().into_owned()).collect()
}

/// Returns a value that an option accepts.
fn sample(arg: &Arg) -> String {
    if arguments::is_flag(arg) {
        return "true".into();
    }
    if let Some(value) = arg.get_possible_values().first() {
        return format!("{:?}", value.get_name());
    }
    let tries = ["100", "5s", "1.3", "1-10", "core1:3", "127.0.0.1:6653", "info", "text", "etcd://a/x"];
    let fits = |value: &&&str| {
        let argument = arg.get_long().map_or((**value).to_owned(), |long| format!("--{long}={value}"));
        match arguments::definition().try_get_matches_from([argument]) {
            Ok(_) => true,
            Err(error) => error.kind() == clap::error::ErrorKind::MissingRequiredArgument,
        }
    };
    format!("{:?}", tries.iter().find(fits).unwrap_or_else(|| panic!("no sample fits {arg}")))
}

#[test]
fn each_option_of_the_command_line_is_a_key() {
    let command = arguments::definition();
    let keys = arguments::keys(&command);
    let of_keys: BTreeSet<&str> = keys.iter().map(|(_, arg)| arg.get_id().as_str()).collect();
    let all: BTreeSet<&str> = command.get_arguments().map(|arg| arg.get_id().as_str()).collect();
    assert_eq!(all.difference(&of_keys).copied().collect::<Vec<_>>(), ["config"], "only the file itself is not a key");
    for (key, arg) in &keys {
        let text = format!("{key} = {}\n", sample(arg));
        let config = parse(&text).unwrap_or_else(|problems| panic!("{text}: {problems:?}"));
        assert_eq!(config.settings.len(), 1, "{text}");
        assert!(!config.settings[0].arguments.is_empty(), "{text}");
    }
}

#[test]
fn a_cluster_is_a_table() {
    let file = "policy = \"builtin:flood\"\n[cluster]\naddress = \"etcd://a,b,c/campus\"\nname = \"n1\"\nca = \"ca.pem\"\nuser = \"u\"\n\
                password-file = \"password\"\n";
    let all = matches(file, &[]);
    let values = |id| strings(&all, id);
    assert_eq!((values("cluster"), values("name")), (vec!["etcd://a,b,c/campus".to_owned()], vec!["n1".to_owned()]));
    assert_eq!((values("cluster_ca"), values("cluster_user")), (vec!["/etc/ca.pem".to_owned()], vec!["u".to_owned()]));
    assert_eq!(values("cluster_password_file"), ["/etc/password"]);
    assert_eq!(strings(&matches(file, &["--name", "n2"]), "name"), ["n2"]);
    let problems = wrong("name = \"a\"\n[cluster]\nname = \"b\"\naddress = \"etcd://u@a/x\"\nwho = 1\n");
    assert_eq!(
        problems,
        [
            "/etc/m.toml:3: cluster.name: name in line 1 is the same option",
            "/etc/m.toml:4: cluster.address: an address of etcd has no user and no password, and so no `@`",
            "/etc/m.toml:5: cluster.who: unknown key",
        ]
    );
}

#[test]
fn no_option_has_the_name_of_a_table_of_the_network() {
    let command = arguments::definition();
    for name in ["hosts", "tables", "variables"] {
        assert!(arguments::keys(&command).iter().all(|(key, _)| key != name), "{name}");
    }
}

#[test]
fn the_command_line_has_precedence_over_the_file_and_the_file_over_defaults() {
    let file = "listen = [\"1\", \"2\"]\nworkers = 2\npolicy = \"builtin:flood\"\nwatch = true\ntrack-hosts = false\n";
    let alone = matches(file, &[]);
    assert_eq!(strings(&alone, "listen"), ["1", "2"]);
    assert_eq!((strings(&alone, "policy"), alone.get_flag("watch")), (vec!["builtin:flood".into()], true));
    assert_eq!(strings(&alone, "track_hosts"), ["off"]);
    assert_eq!(alone.value_source("policy_time_limit"), Some(ValueSource::DefaultValue));
    let both = matches(file, &["builtin:hub", "--listen", "3"]);
    assert_eq!((strings(&both, "listen"), strings(&both, "policy")), (vec!["3".into()], vec!["builtin:hub".into()]));
    assert_eq!(strings(&both, "workers"), ["2"]);
}

/// Returns the lines about the HTTP API of a text, without the marks of comments.
fn about_http(text: &str) -> String {
    let keys = ["http = ", "http-tokens = ", "http-cert = ", "http-key = "];
    let lines = text.lines().map(|line| line.trim_start_matches("# "));
    lines.filter(|line| keys.iter().any(|key| line.starts_with(key))).map(|line| format!("{line}\n")).collect()
}

#[test]
fn the_http_api_is_configured_as_the_example_and_the_documentation_say() {
    let page = include_str!("../../../../docs/configuration.md");
    for text in [include_str!("../../../../contrib/maple.toml"), page] {
        let file = about_http(text);
        assert_eq!(file.lines().count(), 4, "{file}");
        let all = matches(&format!("policy = \"builtin:flood\"\n{file}"), &[]);
        let expected = [
            ("http", "127.0.0.1:8653"),
            ("http_tokens", "/etc/maple/tokens"),
            ("http_cert", "/etc/maple/http.pem"),
            ("http_key", "/etc/maple/http.key"),
        ];
        for (id, value) in expected {
            assert_eq!(strings(&all, id), [value], "{id}");
        }
    }
    let relative = matches("http = 8653\nhttp-tokens = \"tokens\"\n", &[]);
    assert_eq!(strings(&relative, "http_tokens"), ["/etc/tokens"], "it begins in the folder of the file");
    let number = wrong("http = \"everywhere\"\n");
    assert!(number.len() == 1 && number[0].contains("http"), "{number:?}");
}

#[test]
fn the_file_may_hold_what_an_option_of_the_command_line_requires() {
    for (file, given) in [
        ("http = \"127.0.0.1:0\"\n", &["--http-tokens", "t"][..]),
        ("http = \"127.0.0.1:0\"\nhttp-key = \"k\"\n", &["--http-cert", "c"]),
        ("http-cert = \"c\"\nhttp = \"127.0.0.1:0\"\n", &["--http-key", "k"]),
        ("tls-cert = \"c\"\n", &["--tls-key", "k"]),
        ("tls-cert = \"c\"\ntls-key = \"k\"\n", &["--tls-ca", "a"]),
        ("record = \"r\"\n", &["--record-limit", "1GiB"]),
    ] {
        let all = matches(file, given);
        let id = given[0].trim_start_matches('-').replace('-', "_");
        assert_eq!(strings(&all, &id).len(), 1, "{given:?}");
        let alone: Vec<OsString> = given.iter().map(OsString::from).collect();
        let (_, missing) = parse_given(arguments::definition(), &alone).expect("nothing else is wrong");
        assert!(missing.is_some(), "{given:?} is wrong without the file");
    }
    let wrong = [OsString::from("--http-tokens"), "t".into(), "--workers".into(), "many".into()];
    assert!(parse_given(arguments::definition(), &wrong).is_err());
}

#[test]
fn a_flag_that_the_file_sets_can_be_taken_back() {
    let command = arguments::definition();
    let flags: Vec<String> =
        arguments::keys(&command).into_iter().filter(|(_, arg)| arguments::is_flag(arg)).map(|(key, _)| key).collect();
    assert!(flags.len() > 5 && flags.contains(&"watch".to_owned()), "{flags:?}");
    // Other options that some of them require.
    let others = "tls-cert = \"c\"\ntls-key = \"k\"\ntls-ca = \"a\"\ntls-switches = \"s\"\n";
    for flag in flags {
        let (file, id) = (format!("{others}{flag} = true\n"), flag.replace('-', "_"));
        let is_set = |given: &[&str]| matches(&file, given).get_flag(&id);
        assert_eq!([is_set(&[]), is_set(&[&format!("--{flag}=false")])], [true, false], "{flag}");
        let file = others.to_owned();
        let is_set = |given: &[&str]| matches(&file, given).get_flag(&id);
        assert_eq!(
            [&format!("--{flag}"), &format!("--{flag}=true")].map(|given| is_set(&[given])),
            [true; 2],
            "{flag}"
        );
    }
    assert!(arguments::definition().try_get_matches_from(["--watch", "false"]).is_ok_and(|all| all.get_flag("watch")));
    assert!(arguments::definition().try_get_matches_from(["--watch=no"]).is_err());
}

#[test]
fn paths_begin_in_the_folder_of_the_file() {
    let file =
        "policy = \"a/p.py:f\"\nstate = \"s.redb\"\ncosts = \"/w.json\"\ncontrol = \"none\"\nemulate = \"ring:4\"\n";
    let all = matches(file, &[]);
    let first = |id| strings(&all, id).remove(0);
    assert_eq!((first("policy"), first("state")), ("/etc/a/p.py:f".into(), "/etc/s.redb".into()));
    assert_eq!(
        (first("costs"), first("control"), first("emulate")),
        ("/w.json".into(), "none".into(), "ring:4".into())
    );
}

#[test]
fn errors_name_file_line_and_key() {
    assert_eq!(
        wrong("\nlisten = \"nowhere\"\nworkes = 3\n"),
        [
            "/etc/m.toml:2: listen: \"nowhere\" is not an address such as 127.0.0.1:6653, [::]:6653 or 6653",
            "/etc/m.toml:3: workes: unknown key; did you mean \"workers\"?",
        ]
    );
    assert_eq!(
        wrong("unreachable = \"kepe\""),
        ["/etc/m.toml:1: unreachable: \"kepe\" is not known; it is one of keep, forget"]
    );
    assert_eq!(wrong("watch = 3"), ["/etc/m.toml:1: watch: must be true or false"]);
    assert_eq!(wrong("workers = [1, 2]"), ["/etc/m.toml:1: workers: must be one value, not an array"]);
    assert_eq!(wrong("[max]\nrules = 100\n[log]\nz = 1\n"), ["/etc/m.toml:4: log.z: unknown key"]);
    assert_eq!(
        wrong("max-rules = 100\n[max]\nrules = 200\n"),
        ["/etc/m.toml:3: max.rules: max-rules in line 1 is the same option"]
    );
}

#[test]
fn tables_in_place_of_values_and_values_in_place_of_tables_are_errors() {
    assert_eq!(wrong("hosts = 1"), ["/etc/m.toml:1: hosts: must be a table: [hosts.NAME]"]);
    assert_eq!(wrong("[workers]\nn = 1"), ["/etc/m.toml:1: workers: must be a value, not a table"]);
    assert_eq!(wrong("listen = { port = 1 }"), ["/etc/m.toml:1: listen: must be a value, not a table"]);
    assert_eq!(
        wrong("costs = 1.5\n[tables]\nblocked = true\n"),
        ["/etc/m.toml:3: tables.blocked: must be a table with keys and values, not one value"]
    );
}

#[test]
fn a_table_groups_options() {
    assert_eq!(strings(&matches("[max]\nhosts = 7\nhosts-per-port = 3\n", &[]), "max_hosts_per_port"), ["3"]);
}

#[test]
fn switches_and_hosts_have_names_and_facts() {
    let text = "[switches.s]\ndpid = \"a1\"\nports = \"1-26\"\nedge = [1, \"2-24\"]\nlink = 25\nmax-hosts-per-port = {\"1-2\" = 4}\n\
                [hosts.h]\nmac = \"00:00:00:00:00:01\"\nat = \"s:7\"\naddresses = [\"10.0.0.1\", \"fe80::1\"]\n\
                [hosts.g]\nmac = \"00:00:00:00:00:02\"\n";
    let network = parse(text).unwrap_or_else(|problems| panic!("{problems:?}")).network;
    let at = |port| Location::new(Dpid(0xa1), PortNo(port));
    let roles = [7, 25, 26, 27].map(|port| network.facts.role(at(port)));
    assert_eq!(roles, [PortRole::Edge, PortRole::Link, PortRole::Any, PortRole::Closed]);
    assert_eq!((network.facts.max_hosts(at(2)), network.facts.max_hosts(at(3))), (Some(4), None));
    let host = |last| Mac([0, 0, 0, 0, 0, last]);
    assert_eq!((network.facts.place(host(1)), network.facts.place(host(2))), (Some(at(7)), None));
    assert_eq!(network.facts.owner("fe80::1".parse().expect("an address")), Some(host(1)));
    assert_eq!(network.names.in_text("00:00:00:00:00:01 at 00000000000000a1:7"), "h at s:7");
}

#[test]
fn ports_may_be_reserved_ones() {
    let text = "[switches.s]\ndpid = \"a1\"\nports = [\"1-4\", \"LOCAL\"]\nedge = \"LOCAL\"\n\
                [hosts.h]\nmac = \"00:00:00:00:00:01\"\nat = \"s:LOCAL\"\n";
    let network = parse(text).unwrap_or_else(|problems| panic!("{problems:?}")).network;
    let at = |port| Location::new(Dpid(0xa1), port);
    assert_eq!(network.facts.role(at(PortNo::LOCAL)), PortRole::Edge);
    assert_eq!(network.facts.place(Mac([0, 0, 0, 0, 0, 1])), Some(at(PortNo::LOCAL)));
    assert!(wrong("[switches.s]\ndpid = \"1\"\nedge = \"FLOOD\"\n").join("").contains("\"FLOOD\" is not a port"));
}

#[test]
fn facts_that_contradict_each_other_are_refused() {
    let reported = |text: &str| wrong(text).join("\n");
    let s = "[switches.s]\ndpid = \"1\"\n";
    for (more, why) in [
        ("edge = \"1-5\"\nlink = 5\n", "port 5 is an edge port and a link port"),
        ("ports = \"1-4\"\nedge = \"1-5\"\n", "not all of the ports 1-5 are in `ports`"),
        ("edge = \"5-1\"\n", "\"5-1\" is not a port"),
        ("[switches.t]\ndpid = \"01\"\n", "m.toml:3: switches.t: \"s\" has the same id"),
        ("[switches.t]\n", "switches.t: dpid is missing"),
        ("[switches.t]\ndpid = 10\n", "switches.t.dpid: must be text in quotes"),
        ("link = 1\n[hosts.h]\nmac = \"00:00:00:00:00:01\"\nat = \"s:1\"\n", "port s:1 is declared a link port"),
        (
            "ports = 1\n[hosts.h]\nmac = \"00:00:00:00:00:01\"\nat = \"s:2\"\n",
            "port s:2 is not in the switch's `ports`",
        ),
        ("[hosts.h]\nmac = \"00:00:00:00:00:01\"\nat = \"t:2\"\n", "hosts.h.at: \"t\" is not a switch"),
        ("[hosts.s]\nmac = \"00:00:00:00:00:01\"\n", "another switch or host has this name"),
        ("[hosts.h]\nmac = \"01:00:00:00:00:01\"\n", "no host can have this address"),
        ("[hosts.h]\nmac = \"00:00:00:00:00:01\"\nadresses = []\n", "did you mean \"addresses\"?"),
        ("[hosts.h]\nmac = \"00:00:00:00:00:01\"\naddresses = [\"10.0.0\"]\n", "\"10.0.0\" is not an IP address"),
        (
            "[hosts.h]\nmac = \"00:00:00:00:00:01\"\naddresses = \"::1\"\n[hosts.g]\nmac = \"00:00:00:00:00:02\"\naddresses = \"::1\"\n",
            "::1 is an address of h too",
        ),
    ] {
        let reported = reported(&format!("{s}{more}"));
        assert!(reported.contains(why), "{reported}");
    }
}

#[test]
fn costs_and_rows_are_read_with_names() {
    let text = "[switches.s]\ndpid = \"1\"\n[[costs.w]]\na = \"s\"\nb = \"2\"\ncost = 10\n[[costs.w]]\nat = \"s:3\"\ncost = 5\n\
                [tables.blocked]\n\"00:00:00:00:00:01\" = true\n[variables]\nmode = \"day\"\n";
    let network = parse(text).unwrap_or_else(|problems| panic!("{problems:?}")).network;
    let costs: Vec<&str> = network.costs.iter().map(|cost| cost.text.as_str()).collect();
    assert_eq!(costs, ["w: s - 2: 10", "w: s:3: 5"]);
    assert_eq!(network.costs[0].writes.len(), 3, "the name of the costs, and both directions");
    assert_eq!(network.rows.len(), 2);
    assert!(wrong("[[costs.w]]\na = \"1\"\ncost = 1\n")[0].ends_with("a port such as core1:3"));
    assert!(wrong("[[costs.w]]\na = \"1\"\nb = \"2\"\ncost = 0\n")[0].contains("m.toml:4: costs.w[0].cost"));
}

#[test]
fn the_example_is_right() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contrib/maple.toml");
    let text = std::fs::read_to_string(&file).expect("it is there");
    // The loop tests the text as it is, and with what is commented out.
    let whole: Vec<&str> =
        text.lines().map(|line| line.strip_prefix("# ").filter(|line| is_toml(line)).unwrap_or(line)).collect();
    for text in [text.clone(), whole.join("\n").replace("\n#\n", "\n")] {
        let config = Config::parse(&file, text).unwrap_or_else(|problems| panic!("{problems:?}"));
        assert!(config.network.facts.hosts().count() == 2 && !config.network.costs.is_empty());
    }
}

/// Reports whether a line of a comment is a part of a document.
fn is_toml(line: &str) -> bool {
    line.starts_with('[') || line.contains(" = ")
}

#[test]
fn the_page_names_each_table_and_its_keys() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    let page = std::fs::read_to_string(page).expect("it is there");
    for key in [
        "[switches.",
        "dpid",
        "certificate",
        "ports",
        "edge",
        "link",
        "max-hosts-per-port",
        "[hosts.",
        "mac",
        "at",
        "addresses",
    ] {
        assert!(page.contains(key), "{key}");
    }
    for (start, _) in page.match_indices("```toml\n") {
        let text = &page[start + 8..];
        let text = &text[..text.find("```").expect("it ends")];
        parse(text).unwrap_or_else(|problems| panic!("{problems:?}"));
    }
}
