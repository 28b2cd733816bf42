//! The control socket against its published schema. Each request of the schema is answered, each answer is as the
//! schema says, and an invalid request is refused with the name of its error.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::common::schema::{changed, matches, name, requests};
use crate::common::{Maple, eventually};
use maple_controller::control::reload::{ReloadAnswer, ReloadTask};
use maple_controller::control::socket::{Fingerprint, Tolerance, schema};
use maple_controller::history::PolicyAct;
use maple_controller::policy_record::PolicyIdentity;
use maple_controller::{Handle, LateShard};
use maple_core::engine::CounterKind;
use maple_core::explain::EnteringPacket;
use maple_core::policy::{Net, PacketHandle};
use maple_core::rule::Rule;
use maple_core::snooping::{self, Lease};
use maple_core::state::{Table, Types, Value as Stored, Write};
use maple_core::{Location, Mac, Route};
use maple_emulator::host::FlowKind;
use maple_emulator::{Emulation, EmulationOptions, Topology};
use maple_wire::{Dpid, Match, PortNo, Version};
use serde_json::{Value, json};

fn controller(name: &str) -> (Maple, PathBuf) {
    let path = std::env::temp_dir().join(format!("maple-control-{name}-{}.sock", std::process::id()));
    let socket = path.clone();
    let maple = Maple::with(move |options| options.control.socket = Some(socket));
    (maple, path)
}

/// Returns the answer of the socket to this line.
fn said(path: &Path, line: &str) -> Value {
    let mut stream = UnixStream::connect(path).expect("it listens");
    writeln!(stream, "{line}").expect("it reads");
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).expect("it answers");
    serde_json::from_str(&answer).expect("it is JSON")
}

#[test]
fn a_request_that_is_too_long_is_refused_in_words() {
    let (_maple, path) = controller("long");
    let answer = said(&path, &format!("{{\"reload\": {{\"policy\": {{\"name\": \"{}\"}}}}}}", "x".repeat(70_000)));
    assert_eq!(answer["error"], "a request has at most 65536 bytes");
}

/// The hardware address of the first emulated host.
const HOST: &str = "00:00:00:00:00:01";

/// Returns a request of each form, some of them twice.
fn requests_of_each_form() -> Vec<Value> {
    let key = json!({ "key": ["blocked", "00:00:00:00:00:07"] });
    vec![
        json!({ "show": "switches" }),
        json!({ "show": "names" }),
        json!({ "show": { "log": false } }),
        json!({ "show": { "dropped": 5 } }),
        json!({ "show": { "live": { "from": "10.0.0.1", "fields": { "icmpv4_type": "8" } } } }),
        json!({ "show": { "log": true } }),
        json!({ "show": "links" }),
        json!({ "show": "map" }),
        json!({ "show": "time" }),
        json!({ "show": { "time_at": null } }),
        json!({ "show": { "time_changes": { "from": null, "to": null } } }),
        json!({ "show": "policy" }),
        json!({ "show": "hosts" }),
        json!({ "show": "groups" }),
        json!({ "show": "leases" }),
        json!({ "show": "controller" }),
        json!({ "show": "cluster" }),
        json!({ "show": "history" }),
        json!({ "show": "stats" }),
        json!({ "show": "errors" }),
        json!({ "show": "doctor" }),
        json!({ "show": "version" }),
        json!({ "show": "access_lists" }),
        json!({ "show": { "rules": null } }),
        json!({ "show": { "rules": "1" } }),
        json!({ "show": { "ports": null } }),
        json!({ "show": { "tables": null } }),
        json!({ "show": { "tables": "1" } }),
        json!({ "show": { "tree": null } }),
        json!({ "show": { "tree": "1" } }),
        json!({ "show": { "labels": null } }),
        json!({ "show": { "labels": "1" } }),
        json!({ "show": { "flows": null } }),
        json!({ "state": { "set": { "place": key, "value": { "word": "true" }, "settled": true } } }),
        json!({ "state": { "load": { "rows": [[key, { "word": "true" }]], "check": true } } }),
        json!({ "state": { "load": { "rows": [], "expect": [[key, true]], "delete": [key], "check": true } } }),
        json!({ "state": { "get": key } }),
        json!({ "state": { "get": { "table": "blocked" } } }),
        json!({ "state": { "written": key } }),
        json!({ "state": { "written": { "table": "blocked" } } }),
        json!({ "state": { "watch": { "var": "mode" } } }),
        json!({ "state": "list" }),
        json!({ "state": { "delete": { "place": key } } }),
        json!({ "explain": { "packet": { "from": HOST, "to": "00:00:00:00:00:07", "fields": { "tcp_dst": "80" } } } }),
        json!({ "explain": { "packet": { "from": HOST, "to": HOST, "counters": false } } }),
        json!({ "explain": { "rule": { "match": "", "switch": "1" } } }),
        json!({ "invalidate": { "host": "00:00:00:00:00:07" } }),
        json!({ "invalidate": { "port": ["1", 1] } }),
        json!({ "invalidate": "all" }),
        json!({ "reload": { "plan": { "name": null } } }),
        json!({ "reload": { "apply": { "name": "drop.py", "sources": "1", "changes": "2" } } }),
        json!({ "reload": { "apply": { "name": "a.py", "sources": "1", "changes": "2", "canary": { "percent": 5 } } } }),
        json!({ "reload": "promote" }),
        json!({ "reload": "rollback" }),
        json!({ "reload": { "policy": { "name": null, "tolerate": { "count": 0 } } } }),
    ]
}

/// Gives a controller something of everything that can be asked for, and serves its reloads: each drops all packets.
pub fn fill(maple: &Maple) -> Emulation {
    let topology = Topology::parse("linear:2").expect("a topology");
    let emulation = Emulation::start(EmulationOptions::new(topology, maple.address, Version::Of13)).expect("it starts");
    eventually("the link is found", || maple.handle.links().len() == 1);
    emulation.open_flow("h1", "h2", FlowKind::Ping).expect("there are such hosts");
    eventually("the hosts are seen", || maple.handle.hosts().len() == 2);
    let write = Write::Var { name: "mode".into(), value: Some(Stored::from("day")) };
    maple.handle.change(vec![write]).expect("it is acknowledged");
    let types: Types = Table::<Mac, bool>::types();
    maple.handle.store().declare_types("blocked", types).expect("nothing is there");
    let at = Location::new(Dpid(1), PortNo(1));
    let lease = Lease { mac: Mac([2; 6]), ip: [10, 0, 0, 9].into(), location: at, ends: None };
    let members = snooping::members(&maple.handle.snapshot(), [239, 1, 1, 1].into(), &[at]);
    maple.handle.change([members, snooping::lease(&lease)].concat()).expect("it is acknowledged");
    let (reloads, handle) = (maple.handle.operations().serve_reloads(), maple.handle.clone());
    std::thread::spawn(move || {
        for request in reloads {
            let drop = Arc::new(|_: &PacketHandle, _: &Net| Route::drop());
            let reload = |tolerate: Tolerance| {
                let reloaded = handle.reload(drop.clone(), tolerate).map_err(|error| error.to_string())?;
                let (warnings, restart) = (vec!["a warning".to_owned()], vec!["listen".to_owned()]);
                Ok(ReloadAnswer::Reloaded { reloaded, warnings, restart })
            };
            let answer = match &request.task {
                ReloadTask::Reload { tolerate, .. } => reload(*tolerate),
                ReloadTask::Plan { .. } => {
                    let rehearsal = handle.operations().rehearsal().expect("no rules are being read");
                    let plan = handle.operations().plan(
                        rehearsal,
                        "drop.py".into(),
                        drop.clone(),
                        Fingerprint::from_parts(["drop"]),
                    );
                    let plan = plan.expect("all shards answer");
                    Ok(ReloadAnswer::Planned(Box::new(plan)))
                }
                ReloadTask::Apply { .. } | ReloadTask::Promote | ReloadTask::Rollback => reload(Tolerance::Count(0)),
            };
            if matches!(answer, Ok(ReloadAnswer::Reloaded { .. })) {
                let policy = PolicyIdentity { name: "drop.py".into(), hash: Fingerprint::from_parts(["drop"]) };
                handle.operations().note_policy(PolicyAct::Reload, request.by.clone(), policy);
            }
            request.answer(answer);
        }
    });
    emulation
}

#[test]
fn the_history_has_the_process_and_the_user_that_asked() {
    let (maple, path) = controller("history");
    let _emulation = fill(&maple);
    let key = json!({ "key": ["blocked", "00:00:00:00:00:07"] });
    let set = json!({ "state": { "set": { "place": key, "value": true } } });
    let reload = json!({ "reload": { "policy": { "name": null, "tolerate": { "count": 0 } } } });
    for request in [set, reload] {
        let answer = said(&path, &request.to_string());
        assert!(answer.get("ok").is_some(), "{answer}");
    }
    let history = said(&path, r#"{"show":"history"}"#);
    let changes = history["ok"].as_array().expect("a list");
    let pid = std::process::id();
    let own: Vec<&Value> = changes.iter().filter(|change| change["pid"] == pid).collect();
    let reported: Vec<(&Value, &Value)> = own.iter().map(|change| (&change["what"], &change["by"])).collect();
    let by = ["`maple state set`", "`maple reload`"].map(|command| json!(format!("{command} (pid {pid})")));
    assert_eq!(reported, [(&json!("set"), &by[0]), (&json!("reload"), &by[1])]);
    let user = rustix::process::geteuid().as_raw();
    for change in own {
        assert_eq!((&change["kind"], &change["user"]), (&json!("process"), &json!(user)));
        assert!(change["who"].as_str().is_some_and(|name| !name.is_empty()), "{change}");
    }
}

#[test]
fn each_request_of_the_schema_is_answered_as_the_schema_says() {
    let schema = schema();
    let (maple, path) = controller("schema");
    let _emulation = fill(&maple);
    assert_eq!(maple.handle.hosts()[0].0.to_string(), HOST);
    let asked = requests_of_each_form();
    for request in &asked {
        assert!(matches(request, &schema["$defs"]["request"], &schema), "{request}");
        let answer = said(&path, &request.to_string());
        assert!(matches(&answer, &schema["$defs"]["answer"], &schema), "{request}: {answer}");
        let part = &schema["$defs"][format!("answer to {}", name(request))];
        let ok = answer.get("ok").unwrap_or_else(|| panic!("{request}: {answer}"));
        assert!(!part.is_null() && matches(ok, part, &schema), "{request}: {ok}");
        if let Some(items) = ok.as_array() {
            // tests/python/test_acl.py has access lists.
            let may_be_empty = ["show.errors", "show.dropped", "show.access_lists"];
            assert!(!items.is_empty() || may_be_empty.contains(&&*name(request)), "{request} shows nothing");
        }
    }
    // The only controller refuses this one; `cluster.rs` has the answers of several.
    let step_down = json!({ "cluster": "step_down" });
    assert!(matches(&step_down, &schema["$defs"]["request"], &schema));
    assert!(said(&path, &step_down.to_string())["error"].is_string());
    let names: BTreeSet<String> = asked.iter().chain([&step_down]).map(name).collect();
    assert_eq!(names, requests(&schema), "the schema has these requests and no others");
    let defs = schema["$defs"].as_object().expect("definitions").keys();
    let answers: BTreeSet<String> = defs.filter_map(|def| def.strip_prefix("answer to ")).map(str::to_owned).collect();
    assert_eq!(names, answers, "each has an answer");
}

#[test]
fn the_controller_refuses_what_the_schema_refuses_and_names_the_field() {
    let (schema, (_maple, path)) = (schema(), controller("refuses"));
    let mut refused = 0;
    for request in requests_of_each_form().iter().flat_map(changed) {
        if !matches(&request, &schema["$defs"]["request"], &schema) {
            let answer = said(&path, &request.to_string());
            assert!(answer["error"].is_string() && answer["field"].is_string(), "{request}: {answer}");
            refused += 1;
        }
    }
    assert!(refused > 1000, "{refused}");
}

/// Checks that the schema uses only keywords that `matches` understands, apart from those that describe.
#[test]
fn the_schema_uses_only_what_requests_and_answers_are_held_against() {
    fn look(part: &Value) {
        let known = [
            "default",
            "format",
            "const",
            "oneOf",
            "$ref",
            "$defs",
            "$schema",
            "title",
            "description",
            "type",
            "enum",
            "anyOf",
            "properties",
            "required",
            "additionalProperties",
            "minProperties",
            "maxProperties",
            "items",
            "prefixItems",
            "minItems",
            "maxItems",
            "minimum",
            "maximum",
        ];
        let Some(members) = part.as_object() else { return };
        for (name, member) in members {
            assert!(known.contains(&name.as_str()), "{name}");
            match name.as_str() {
                "properties" | "$defs" => member.as_object().into_iter().flat_map(|all| all.values()).for_each(look),
                "anyOf" | "oneOf" | "prefixItems" => member.as_array().into_iter().flatten().for_each(look),
                "items" | "additionalProperties" => look(member),
                "$ref" => {
                    let target = member.as_str().expect("text").trim_start_matches("#/$defs/");
                    assert!(schema()["$defs"].get(target).is_some(), "{target}");
                }
                _ => {}
            }
        }
    }
    look(&schema());
}

/// Returns the request that writes a value at a key of the table `blocked`.
fn set(key: Value, value: Value) -> Value {
    json!({ "state": { "set": { "place": { "key": ["blocked", key] }, "value": value } } })
}

/// Returns requests that are wrong, each with the place and the text of its error.
fn wrong_requests() -> Vec<(Value, &'static str, &'static str)> {
    vec![
        (json!([]), "", "not a request: invalid type: array, expected a string or an object"),
        (json!({}), "", "not a request: must have exactly one member"),
        (
            json!({ "shw": 1 }),
            "",
            "not a request: unknown name `shw`, expected one of `show`, `invalidate`, `reload`, `state`, `explain`, `cluster`",
        ),
        (json!({ "show": "ports" }), "show.ports", "show.ports: must be an object with this name and a value"),
        (
            json!({ "state": { "get": { "tabel": "t" } } }),
            "state.get",
            "state.get: unknown name `tabel`, expected one of `var`, `table`, `key`",
        ),
        (
            json!({ "state": { "get": { "key": ["t"] } } }),
            "state.get.key",
            "state.get.key: invalid length 1, expected 2 elements",
        ),
        (
            json!({ "explain": { "packet": { "fields": [] } } }),
            "explain.packet.fields",
            "explain.packet.fields: invalid type: array, expected an object",
        ),
        (
            json!({ "state": { "load": { "rows": {} } } }),
            "state.load.rows",
            "state.load.rows: invalid type: object, expected an array",
        ),
        (json!({ "show": { "live": 7 } }), "show.live", "show.live: invalid type: integer `7`, expected an object"),
        (
            json!({ "show": { "dropped": "x" } }),
            "show.dropped",
            "show.dropped: invalid type: string \"x\", expected a whole number",
        ),
        (
            json!({ "reload": { "plan": { "nam": null } } }),
            "reload.plan.nam",
            "reload.plan.nam: unknown field `nam`, expected `name`",
        ),
        (
            json!({ "reload": { "policy": { "name": null, "tolerate": { "percent": 101 } } } }),
            "reload.policy.tolerate.percent",
            "reload.policy.tolerate.percent: must be 0 to 100, not 101",
        ),
        (json!({ "show": { "rules": 1 } }), "show.rules", "show.rules: invalid type: integer `1`, expected a string"),
        (
            json!({ "show": { "rules": "zz" } }),
            "show.rules",
            "\"zz\" is not a switch: neither a name nor a datapath id (hex digits, such as 1 or 1f)",
        ),
        (json!({ "show": { "rules": "9" } }), "show.rules", "switch 0000000000000009 is not connected"),
        (
            json!({ "invalidate": { "port": ["1", -1] } }),
            "invalidate.port[1]",
            "invalidate.port[1]: must be a port's number, or the name of a reserved port",
        ),
        (
            json!({ "invalidate": { "host": "x" } }),
            "invalidate.host",
            "\"x\" is not a host: neither a name nor a hardware address",
        ),
        (json!({ "state": { "set": { "value": 1 } } }), "state.set", "state.set: missing field `place`"),
        (
            set(json!("banana"), json!(true)),
            "state.set.place.key[1]",
            "the table blocked is declared with keys of type Mac, and \"banana\" is not one",
        ),
        (
            set(json!("00:00:00:00:00:01"), json!({ "word": "7" })),
            "state.set.value",
            "the table blocked is declared with values of type bool, and 7 is not one",
        ),
        (
            set(json!({ "mac": 7 }), json!(true)),
            "state.set.place.key[1]",
            "{\"mac\":7} is not a value of tracked state",
        ),
    ]
}

#[test]
fn errors_in_a_request_are_reported_with_the_name_of_the_field() {
    let (maple, path) = controller("wrong");
    maple.handle.store().declare_types("blocked", Table::<Mac, bool>::types()).expect("nothing is there");
    let cut_off = "not a request: EOF while parsing a value at line 2 column 0";
    assert_eq!(said(&path, r#"{"show":"#), json!({ "error": cut_off, "field": "", "protocol": "1.1" }));
    let schema = schema();
    for (request, field, text) in wrong_requests() {
        let answer = said(&path, &request.to_string());
        assert_eq!(answer, json!({ "error": text, "field": field, "protocol": "1.1" }), "{request}");
        assert!(matches(&answer, &schema["$defs"]["answer"], &schema));
    }
    // Another spelling is the same address.
    said(&path, &set(json!({ "word": "00-00-0A-00-00-01" }), json!({ "word": "true" })).to_string());
    let get = json!({ "state": { "get": { "key": ["blocked", "0:0:a:0:0:1"] } } });
    assert_eq!(said(&path, &get.to_string()), json!({ "ok": true, "protocol": "1.1" }));
    let all = json!({ "state": { "get": { "table": "blocked" } } });
    assert_eq!(
        said(&path, &all.to_string()),
        json!({ "ok": [[{ "mac": "00:00:0a:00:00:01" }, true]], "protocol": "1.1" })
    );
}

/// A gate that makes runs of f wait until a test opens it.
#[derive(Clone, Default)]
pub(crate) struct Gate {
    is_open: Arc<AtomicBool>,
    /// Whether a run waits, or has waited.
    met: Arc<AtomicBool>,
}

impl Gate {
    pub(crate) fn pass(&self) {
        self.met.store(true, Ordering::SeqCst);
        while !self.is_open.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub(crate) fn open(&self) {
        self.is_open.store(true, Ordering::SeqCst);
    }

    pub(crate) fn is_met(&self) -> bool {
        self.met.load(Ordering::SeqCst)
    }
}

#[test]
fn while_a_worker_is_late_no_part_passes_for_the_whole() {
    let path = std::env::temp_dir().join(format!("maple-control-late-{}.sock", std::process::id()));
    let gate = Gate::default();
    let of_policy = gate.clone();
    let policy = move |_: &PacketHandle, _: &Net| {
        of_policy.pass();
        Route::flood()
    };
    let maple = Maple::with(|options| {
        (options.policy, options.workers.count, options.control.socket) = (Arc::new(policy), 2, Some(path.clone()));
        options.control.deadlines.query = Duration::from_millis(500);
    });
    let topology = Topology::parse("linear:2").unwrap();
    let emulation = Emulation::start(EmulationOptions::new(topology, maple.address, Version::Of13)).unwrap();
    eventually("the links are found", || maple.handle.links().len() == 1);
    eventually("f runs", || {
        emulation.with_network(|network| network.announce("h1")).unwrap().unwrap();
        gate.is_met()
    });
    let dpid = Dpid(1);
    let packet = EnteringPacket { at: Location::new(dpid, PortNo(1)), frame: vec![0; 60].into() };
    let rule = Rule { priority: 0, matching: Match::any(), instructions: [].into(), cookie: 0 };
    let counted = |dpid| (Dpid(dpid), 0, rule.clone());
    type Ask<'a> = Box<dyn Fn(&Handle) -> Option<LateShard> + Send + Sync + 'a>;
    let questions: Vec<(&str, Ask<'_>)> = vec![
        ("switches", Box::new(|handle| handle.switches().err())),
        ("stats", Box::new(|handle| handle.stats().err())),
        ("rules", Box::new(|handle| handle.rules(dpid).err())),
        ("ports", Box::new(|handle| handle.port_counts().err())),
        ("traffic", Box::new(|handle| handle.traffic().err())),
        ("drops", Box::new(|handle| handle.drops(1).err())),
        ("count", Box::new(|handle| handle.count(CounterKind::Rules, None, Duration::from_secs(1)).err())),
        ("hits", Box::new(|handle| handle.access_hits().err())),
        ("errors of f", Box::new(|handle| handle.operations().policy_errors().err())),
        ("violations", Box::new(|handle| handle.violations().err())),
        ("sizes of tables", Box::new(|handle| handle.table_sizes(&[Dpid(1), Dpid(2)]).err())),
        ("counts of rules", Box::new(|handle| handle.count_rules(vec![counted(1), counted(2)]).err())),
        ("explain", Box::new(|handle| handle.explain(packet.clone()).err())),
    ];
    let late = maple.handle.switches().expect_err("it is late");
    for (name, question) in &questions {
        assert_eq!(question(&maple.handle), Some(late), "{name}");
    }
    let answer = said(&path, r#"{"show": "switches"}"#);
    assert_eq!((&answer["error"], &answer["field"]), (&json!(late.to_string()), &json!("")));
    assert_eq!(late.to_string(), format!("worker {} did not answer within 0.5 s", late.shard));
    let waiting = maple.handle.wait_until_settled(Duration::ZERO).expect_err("a worker is late").0;
    assert!(waiting.contains(&late.to_string()) && !maple.handle.operations().is_alive());
    gate.open();
    eventually("it answers again", || maple.handle.switches().is_ok_and(|all| all.len() == 2));
    for (name, question) in &questions {
        assert_eq!(question(&maple.handle), None, "{name}");
    }
}

#[test]
fn a_policy_that_a_late_worker_has_not_confirmed_runs_nevertheless() {
    // In each policy, f waits at one switch.
    let (old, new) = (Gate::default(), Gate::default());
    let (is_tried, decides_at_1) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (of_old, of_new) = (old.clone(), new.clone());
    let (trying, deciding) = (Arc::clone(&is_tried), Arc::clone(&decides_at_1));
    let old_policy = move |packet: &PacketHandle, _: &Net| {
        if trying.load(Ordering::SeqCst) && packet.switch() == Dpid(1) {
            of_old.pass();
        }
        Route::flood()
    };
    let new_policy = move |packet: &PacketHandle, _: &Net| {
        match packet.switch() {
            Dpid(2) => of_new.pass(),
            _ => deciding.store(true, Ordering::SeqCst),
        }
        Route::drop()
    };
    let maple = Maple::with(|options| {
        (options.policy, options.workers.count) = (Arc::new(old_policy), 2);
        options.control.deadlines.reload = Duration::from_secs(2);
    });
    let topology = Topology::parse("linear:2").unwrap();
    let emulation = Emulation::start(EmulationOptions::new(topology, maple.address, Version::Of13)).unwrap();
    let announce = |host: &'static str| emulation.with_network(move |network| network.announce(host)).unwrap().unwrap();
    eventually("the links are found", || maple.handle.links().len() == 1);
    announce("h2");
    eventually("there is a leaf", || maple.handle.stats().unwrap().total.engine.leaves > 0);
    let handle = maple.handle.clone();
    let reload = std::thread::spawn(move || handle.reload(Arc::new(new_policy), Tolerance::Count(0)));
    eventually("the new policy is tried", || new.is_met());
    // The shard of switch 1 has been asked by now; it begins a run of the old policy, and does not end it.
    is_tried.store(true, Ordering::SeqCst);
    eventually("the old policy runs", || {
        announce("h1");
        old.is_met()
    });
    new.open();
    let reloaded = reload.join().unwrap().expect("the new policy runs");
    assert!(reloaded.unconfirmed.is_some() && !reloaded.is_settled, "{reloaded:?}");
    old.open();
    eventually("the late worker decides by it too", || {
        announce("h1");
        decides_at_1.load(Ordering::SeqCst)
    });
}
