//! The routes: which request of the control socket each one makes, of which parts of the path, the query and the body.
//!
//! A route has no handler of its own. It builds the JSON of a request, which is read by the types that read the lines
//! of the socket. So both doors refuse and answer alike, and one schema describes both.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::access::Role;
use super::lanes::Lane;

/// The methods of routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Method {
    Get,
    Put,
    Post,
    Delete,
}

/// The parts of a request that a route makes the socket's request of.
#[derive(Debug, Default)]
pub(super) struct Given {
    /// The parameters of the path, by name.
    pub path: BTreeMap<String, String>,
    /// The parameters of the query, by name.
    pub query: BTreeMap<String, String>,
    /// The body; `null` if the route has none.
    pub body: Value,
}

/// The answer's rows, for answers that are lists.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rows {
    /// The member of each object of the answer that has the rows; without it the objects are the rows.
    pub nested: Option<&'static str>,
    /// The members that tell rows apart. They are the rows' order.
    pub key: &'static [&'static str],
    /// The order without the parameter `sort`, before that of the key.
    pub sort: &'static str,
}

/// A method and a path.
#[derive(Clone, Copy, Debug)]
pub(super) struct Route {
    pub method: Method,
    /// The path, with parameters in braces.
    pub path: &'static str,
    /// The request: its kind, and its form unless the body says it.
    pub asks: &'static str,
    pub summary: &'static str,
    pub role: Role,
    pub lane: Lane,
    /// The argument of the request's form.
    pub argument: Argument,
    /// The parameters of the query besides those of lists: names and whether they are numbers.
    pub query: &'static [(&'static str, QueryKind)],
    /// Whether there is a body.
    pub has_body: bool,
    pub rows: Option<Rows>,
}

/// The kind of a parameter of the query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QueryKind {
    /// A whole number, with the value that it has if it is left out.
    Number(u64),
    /// `true`, or `false`, which it is if it is left out.
    Flag,
    /// A moment, in milliseconds since 1970, that may be left out.
    Moment,
}

/// The form of a request's argument.
#[derive(Clone, Copy, Debug)]
pub(super) enum Argument {
    /// The form has none.
    Nothing,
    /// This.
    Made(fn(&Given) -> Value),
    /// The place of tracked state that the path names.
    Place(fn(&Given) -> Value),
    /// The body, with that place.
    Write(fn(&Given) -> Value),
    /// The place that the path names, and whether to wait until nothing depends on it any more.
    Delete(fn(&Given) -> Value),
}

/// The path of a key of a table.
const KEY: &str = "/v1/state/tables/{table}/{key}";

/// All routes that ask the control socket's requests.
pub(super) const ROUTES: &[Route] = &[
    Route::get("/v1/switches", "show.switches", "The switches with their ports").rows(&["switch"]),
    Route::get("/v1/ports", "show.ports", "The ports of all switches, with counters and rates")
        .with(|_| Value::Null)
        .nested("ports", &["switch", "port"]),
    Route::get("/v1/switches/{switch}/ports", "show.ports", "The ports of a switch, with counters and rates")
        .with(of_switch)
        .nested("ports", &["switch", "port"]),
    Route::get("/v1/links", "show.links", "The links, each once").rows(&["0", "1"]).in_memory(),
    Route::get("/v1/map", "show.map", "The switches at their places on a map, and the links with their load"),
    Route::get("/v1/hosts", "show.hosts", "The hosts").rows(&["mac"]).in_memory(),
    Route::get("/v1/groups", "show.groups", "The multicast groups with their member ports")
        .rows(&["group"])
        .in_memory(),
    Route::get("/v1/leases", "show.leases", "The DHCP leases").rows(&["ip"]).in_memory(),
    Route::get("/v1/rules", "show.rules", "The rules of all switches")
        .with(|_| Value::Null)
        .nested("rules", &["switch", "table", "priority", "match"]),
    Route::get("/v1/switches/{switch}/rules", "show.rules", "The rules of a switch")
        .with(of_switch)
        .nested("rules", &["switch", "table", "priority", "match"]),
    Route::get("/v1/tables", "show.tables", "The tables of all switches, and how full they are")
        .with(|_| Value::Null)
        .rows(&["switch"])
        .of_switches(),
    Route::get("/v1/switches/{switch}/tables", "show.tables", "The tables of a switch, and how full they are")
        .with(of_switch)
        .rows(&["switch"])
        .of_switches(),
    Route::get("/v1/trees", "show.tree", "What the policy has decided at all switches, and what is open")
        .with(|_| Value::Null)
        .rows(&["switch"]),
    Route::get("/v1/switches/{switch}/tree", "show.tree", "What the policy has decided at a switch, and what is open")
        .with(of_switch)
        .rows(&["switch"]),
    Route::get("/v1/labels", "show.labels", "The labels of packets that arrive from other switches")
        .with(|_| Value::Null)
        .nested("labels", &["switch", "id", "port"]),
    Route::get("/v1/switches/{switch}/labels", "show.labels", "The labels of packets that arrive at a switch")
        .with(of_switch)
        .nested("labels", &["switch", "id", "port"]),
    Route::get("/v1/flows", "show.flows", "The traffic between hosts, by where it enters")
        .with(|_| Value::Null)
        .rows(&["switch", "from", "from_at", "to", "to_at"]),
    Route::get("/v1/switches/{switch}/flows", "show.flows", "The traffic between hosts that enters at a switch")
        .with(of_switch)
        .rows(&["switch", "from", "from_at", "to", "to_at"]),
    Route::get("/v1/drops", "show.dropped", "What was dropped in the last minutes, and why")
        .with(|given| given.number("minutes"))
        .query(&[("minutes", QueryKind::Number(5))])
        .rows(&["switch", "at", "host", "line", "why"])
        .sorted("-packets"),
    Route::get("/v1/access-lists", "show.access_lists", "The access lists, with what each rule has decided")
        .rows(&["file"]),
    Route::get("/v1/policy", "show.policy", "The source of the policy, with what rests on each line"),
    Route::get("/v1/history", "show.history", "Who changed the policy, tables and variables, and when")
        .rows(&["number"])
        .sorted("-number")
        .in_memory(),
    Route::get("/v1/names", "show.names", "The names of switches and hosts").in_memory(),
    Route::get("/v1/controller", "show.controller", "The controller's account of itself").in_memory(),
    Route::get("/v1/cluster", "show.cluster", "The cluster of this controller: who is master, and who is there")
        .in_memory(),
    Route::get("/v1/stats", "show.stats", "All counters"),
    Route::get("/v1/errors", "show.errors", "The most recent problems").rows(&["time", "text"]),
    Route::get("/v1/doctor", "show.doctor", "The doctor's findings about the controller").of_switches(),
    Route::get("/v1/log", "show.log", "The latest lines of the log")
        .with(|_| Value::Bool(false))
        .rows(&["number"])
        .in_memory(),
    Route::get("/v1/time", "show.time", "The moments that are kept, with the rates of that time"),
    Route::get("/v1/time/at", "show.time_at", "The network at a moment; without one, as it is kept now")
        .with(|given| given.moment("t"))
        .query(&[("t", QueryKind::Moment)])
        .of_switches(),
    Route::get(
        "/v1/time/changes",
        "show.time_changes",
        "What differs between two moments, and what happened between them",
    )
    .with(|given| json!({ "from": given.moment("from"), "to": given.moment("to") }))
    .query(&[("from", QueryKind::Moment), ("to", QueryKind::Moment)])
    .of_switches(),
    Route::get("/v1/version", "show.version", "The versions of the program and of formats").in_memory(),
    Route::get("/v1/state", "state.list", "The tables and variables that are known")
        .rows(&["table", "var"])
        .in_memory(),
    Route::read_place("/v1/state/variables/{name}", variable, "A variable, with its last writer"),
    Route::write_place("/v1/state/variables/{name}", variable, "Writes a variable"),
    Route::delete_place("/v1/state/variables/{name}", variable, "Deletes a variable's value"),
    Route::get("/v1/state/tables/{table}", "state.written", "The keys of a table, with their values and last writers")
        .with(|given| json!({ "table": given.in_path("table") }))
        .rows(&["key"])
        .in_memory(),
    Route::read_place(KEY, table_key, "The value of a key, with its last writer"),
    Route::write_place(KEY, table_key, "Writes a key of a table"),
    Route::delete_place(KEY, table_key, "Deletes a key of a table"),
    Route::change(Method::Post, "/v1/state/transactions", "state.load", "Writes many places: all of them or none")
        .with(whole_body)
        .body()
        .by(Role::State),
    Route::change(Method::Post, "/v1/explain", "explain", "Says why a packet goes where it goes")
        .with(whole_body)
        .body()
        .by(Role::Read),
    Route::change(
        Method::Post,
        "/v1/invalidate",
        "invalidate",
        "Withdraws decisions, so that the policy is asked again",
    )
    .with(whole_body)
    .body(),
    Route::change(Method::Post, "/v1/reload", "reload.policy", "Runs another policy")
        .with(whole_body)
        .body()
        .about_policy(),
    Route::change(Method::Post, "/v1/plan", "reload.plan", "Says what another policy would change")
        .with(whole_body)
        .body()
        .about_policy(),
    Route::change(Method::Post, "/v1/apply", "reload.apply", "Runs the policy of a plan")
        .with(whole_body)
        .body()
        .about_policy(),
    Route::change(Method::Post, "/v1/cluster/step-down", "cluster.step_down", "Lets another controller become master")
        .about_policy(),
    Route::change(Method::Post, "/v1/promote", "reload.promote", "Lets the policy of a canary run everywhere")
        .about_policy(),
    Route::change(Method::Post, "/v1/rollback", "reload.rollback", "Runs the policy before the last reload again")
        .about_policy(),
];

impl Route {
    const fn get(path: &'static str, asks: &'static str, summary: &'static str) -> Route {
        Route { role: Role::Read, ..Route::change(Method::Get, path, asks, summary) }
    }

    const fn change(method: Method, path: &'static str, asks: &'static str, summary: &'static str) -> Route {
        Route {
            method,
            path,
            asks,
            summary,
            role: Role::Admin,
            lane: Lane::Shards,
            argument: Argument::Nothing,
            query: &[],
            has_body: false,
            rows: None,
        }
    }

    const fn read_place(path: &'static str, place: fn(&Given) -> Value, summary: &'static str) -> Route {
        Route { argument: Argument::Place(place), ..Route::get(path, "state.written", summary).in_memory() }
    }

    const fn write_place(path: &'static str, place: fn(&Given) -> Value, summary: &'static str) -> Route {
        let route = Route::change(Method::Put, path, "state.set", summary).body().by(Role::State);
        Route { argument: Argument::Write(place), ..route }
    }

    const fn delete_place(path: &'static str, place: fn(&Given) -> Value, summary: &'static str) -> Route {
        let route = Route::change(Method::Delete, path, "state.delete", summary).by(Role::State);
        Route { argument: Argument::Delete(place), ..route.query(&[("settled", QueryKind::Flag)]) }
    }

    const fn with(self, argument: fn(&Given) -> Value) -> Route {
        Route { argument: Argument::Made(argument), ..self }
    }

    const fn rows(self, key: &'static [&'static str]) -> Route {
        Route { rows: Some(Rows { nested: None, key, sort: "" }), ..self }
    }

    const fn nested(self, member: &'static str, key: &'static [&'static str]) -> Route {
        Route { rows: Some(Rows { nested: Some(member), key, sort: "" }), ..self }
    }

    const fn sorted(self, sort: &'static str) -> Route {
        match self.rows {
            Some(rows) => Route { rows: Some(Rows { sort, ..rows }), ..self },
            None => self,
        }
    }

    const fn query(self, query: &'static [(&'static str, QueryKind)]) -> Route {
        Route { query, ..self }
    }

    const fn body(self) -> Route {
        Route { has_body: true, ..self }
    }

    const fn by(self, role: Role) -> Route {
        Route { role, ..self }
    }

    const fn in_memory(self) -> Route {
        Route { lane: Lane::Memory, ..self }
    }

    const fn of_switches(self) -> Route {
        Route { lane: Lane::Switches, ..self }
    }

    const fn about_policy(self) -> Route {
        Route { lane: Lane::Policy, ..self }
    }

    /// Reports whether the route changes something.
    pub fn changes(&self) -> bool {
        self.role != Role::Read
    }

    /// Returns the names of the path's parameters.
    pub fn path_parameters(&self) -> impl Iterator<Item = &'static str> {
        self.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
    }

    /// Returns the JSON of the request that the route makes of these parts.
    pub fn request(&self, given: &Given) -> Value {
        let argument = match self.argument {
            Argument::Nothing => None,
            Argument::Made(made) | Argument::Place(made) => Some(made(given)),
            Argument::Write(place) => Some(given.body_with("place", place(given))),
            Argument::Delete(place) => Some(json!({ "place": place(given), "settled": given.flag("settled") })),
        };
        match (self.asks.split_once('.'), argument) {
            (Some((kind, form)), Some(argument)) => json!({ kind: { form: argument } }),
            (Some((kind, form)), None) => json!({ kind: form }),
            (None, argument) => json!({ self.asks: argument }),
        }
    }
}

impl Given {
    fn in_path(&self, name: &str) -> &str {
        self.path.get(name).map_or("", String::as_str)
    }

    /// Returns a parameter of the query as a number. Another text stays text, which the request's type refuses.
    fn number(&self, name: &str) -> Value {
        let text = self.query.get(name).map_or("", String::as_str);
        text.parse::<u64>().map_or_else(|_| text.into(), Value::from)
    }

    /// Returns a parameter of the query as a moment; `null` if it is left out.
    fn moment(&self, name: &str) -> Value {
        if self.query.contains_key(name) { self.number(name) } else { Value::Null }
    }

    /// Returns a parameter of the query as true or false. Another text stays text, which the request's type refuses.
    fn flag(&self, name: &str) -> Value {
        let text = self.query.get(name).map_or("", String::as_str);
        text.parse::<bool>().map_or_else(|_| text.into(), Value::from)
    }

    /// Returns the body with one more member, which the path has said. Another body than an object stays as it is.
    fn body_with(&self, name: &str, value: Value) -> Value {
        match &self.body {
            Value::Object(members) => {
                let mut members: Map<String, Value> = members.clone();
                members.insert(name.to_owned(), value);
                members.into()
            }
            other => other.clone(),
        }
    }
}

fn of_switch(given: &Given) -> Value {
    given.in_path("switch").into()
}

fn whole_body(given: &Given) -> Value {
    given.body.clone()
}

fn variable(given: &Given) -> Value {
    json!({ "var": given.in_path("name") })
}

/// Returns a key's place. The path has it as a word of the command line has it.
fn table_key(given: &Given) -> Value {
    json!({ "key": [given.in_path("table"), { "word": given.in_path("key") }] })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::control::schema;

    #[test]
    fn each_request_of_the_socket_has_a_path() {
        let all = schema::schema();
        let answers = all["$defs"].as_object().expect("definitions").keys();
        let requests: BTreeSet<&str> = answers.filter_map(|name| name.strip_prefix("answer to ")).collect();
        assert!(requests.len() > 30, "{requests:?}");
        let has_path =
            |name: &str| ROUTES.iter().any(|route| name == route.asks || name.split('.').next() == Some(route.asks));
        let others: Vec<&str> = requests.into_iter().filter(|name| !has_path(name)).collect();
        // The path of a place has more than its value: `state.written`. /v1/events has what is watched. What `maple
        // explain --live` follows, the page and scripts ask for again.
        assert_eq!(others, ["show.live", "state.get", "state.watch"]);
    }
}
