"""A client with a method for each route of the API."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping
from http.client import HTTPException
from typing import TYPE_CHECKING, Any, cast

from maple import _html
from maple.client._answers import ApiError, Event, NetworkMap, Row
from maple.client._paths import (
    EVENTS,
    Place,
    given,
    key_path,
    of_switch,
    part,
    resumed_after,
    variable_path,
    watched,
    word,
)
from maple.client._requests import Requests
from maple.client._streams import data_of, formed, rows_of

if TYPE_CHECKING:
    from maple.client import types


class Client(Requests):
    """A client. Each request has a connection of its own, so threads may share a client."""

    def _repr_html_(self) -> str:
        """The network as it is now, for notebooks; or why it can't be told."""
        try:
            switches, links, hosts = (self._first(of) for of in ("switches", "links", "hosts"))
            named = self.names()
            names = {row["switch"]: row["name"] for row in named["switches"]}
            host_names = {row["mac"]: row["name"] for row in named["hosts"]}
            picture = _html.network_map(self.map())
        except (ApiError, OSError, HTTPException) as error:
            return _html.block(_html.heading(repr(self)), _html.trouble(str(error)))
        states = [
            "not connected"
            if row["peer"] is None
            else "connected, but nothing comes from it"
            if row["silent"]
            else "connected"
            for row in switches["rows"]
        ]
        return _html.block(
            _html.heading(repr(self)),
            picture,
            _html.table(
                "switches",
                ["switch", "state", "address", "description"],
                [
                    (
                        _html.switch(row["switch"], names),
                        state,
                        row["peer"],
                        row["description"],
                    )
                    for row, state in zip(switches["rows"], states, strict=True)
                ],
                [state != "connected" for state in states],
                total=switches["total"],
            ),
            _html.table(
                "links",
                ["from", "to"],
                [[_html.place(end, names) for end in link] for link in links["rows"]],
                total=links["total"],
            ),
            _html.table(
                "hosts",
                ["host", "at", "IPv4", "IPv6"],
                [
                    (host_names.get(row["mac"], row["mac"]), _html.place(row["at"], names), row["ipv4"], row["ipv6"])
                    for row in hosts["rows"]
                ],
                total=hosts["total"],
            ),
        )

    def _first(self, of: str) -> Row:
        """The first rows of a list, as many as a notebook shows, and how many there are."""
        return self._object("GET", f"/v1/{of}", query={"limit": _html.MOST})

    # The network.

    def switches(self, /, **where: object) -> list[types.SwitchRow]:
        """The switches with their ports. Here and below, `where` has columns with the value that they are to have, with
        `__` for the dots in names (`at__switch`), and `sort`."""
        return self._rows("/v1/switches", where)

    def ports(self, /, of: str | None = None, **where: object) -> list[types.PortRow]:
        """The ports of all switches, or of one, with counters and rates."""
        return self._rows(of_switch(of, "ports"), where)

    def links(self, /, **where: object) -> list[list[types.Place]]:
        """The links, each once, as pairs of places."""
        return self._rows("/v1/links", where)

    def hosts(self, /, **where: object) -> list[types.HostRow]:
        """The hosts."""
        return self._rows("/v1/hosts", where)

    def groups(self, /, **where: object) -> list[types.GroupRow]:
        """The multicast groups with their member ports."""
        return self._rows("/v1/groups", where)

    def leases(self, /, **where: object) -> list[types.LeaseRow]:
        """The DHCP leases."""
        return self._rows("/v1/leases", where)

    def map(self) -> NetworkMap:
        """Switches at places that they keep, and links with their load."""
        return NetworkMap(self._object("GET", "/v1/map"))

    def names(self) -> types.NamesAnswer:
        """The names of switches and hosts."""
        return cast("types.NamesAnswer", self._object("GET", "/v1/names"))

    # The last 24 hours. Moments are in milliseconds since 1970.

    def time(self) -> types.TimeAnswer:
        """The moments that are kept, with the rates of that time."""
        return cast("types.TimeAnswer", self._object("GET", "/v1/time"))

    def time_at(self, t: int | None = None) -> types.TimeAt:
        """Switches, links and hosts at a moment; without one, as they are kept now."""
        return cast("types.TimeAt", self._object("GET", "/v1/time/at", query=given(t=t)))

    def time_changes(self, start: int | None = None, end: int | None = None) -> types.TimeChanges:
        """The differences between the moments `start` (the first one) and `end` (the last one), and what happened
        meanwhile."""
        return cast(
            "types.TimeChanges", self._object("GET", "/v1/time/changes", query=given(**{"from": start, "to": end}))
        )

    # Rules and decisions.

    def rules(self, /, of: str | None = None, **where: object) -> list[types.RuleRow]:
        """The rules of all switches, or of one."""
        return self._rows(of_switch(of, "rules"), where)

    def tables(self, /, of: str | None = None, **where: object) -> list[types.TablesRow]:
        """The tables of all switches, or of one, and how full they are."""
        return self._rows(of_switch(of, "tables"), where)

    def trees(self, /, of: str | None = None, **where: object) -> list[types.TreeRow]:
        """The decisions of the policy at all switches, or at one."""
        return self._rows(of_switch(of, "trees" if of is None else "tree"), where)

    def labels(self, /, of: str | None = None, **where: object) -> list[types.LabelRow]:
        """The labels of packets that arrive at all switches, or at one, from other switches."""
        return self._rows(of_switch(of, "labels"), where)

    def flows(self, /, of: str | None = None, **where: object) -> list[types.FlowRow]:
        """The traffic between hosts, by where it enters."""
        return self._rows(of_switch(of, "flows"), where)

    def drops(self, /, minutes: int = 5, **where: object) -> list[types.DropRow]:
        """The packets that were dropped in the last minutes, and why."""
        return self._rows("/v1/drops", {"minutes": minutes, **where})

    def access_lists(self, /, **where: object) -> list[types.AccessListRow]:
        """The access lists, with what each rule has decided."""
        return self._rows("/v1/access-lists", where)

    def policy(self) -> types.PolicyAnswer:
        """The source of the policy, with what rests on each line."""
        return cast("types.PolicyAnswer", self._object("GET", "/v1/policy"))

    def explain(self, /, **packet: object) -> types.Explanation:
        """The reason why a packet goes its way: `explain(**{"from": "h1"}, to="h2", fields={"tcp_dst": "80"})`."""
        return cast("types.Explanation", self._object("POST", "/v1/explain", {"packet": packet}))

    def explain_rule(self, /, **rule: object) -> types.Explanation:
        """Explains the way of the packet that a rule was made for: by `cookie`, or by `match` and `switch`."""
        return cast("types.Explanation", self._object("POST", "/v1/explain", {"rule": rule}))

    # The controller.

    def controller(self) -> types.ControllerAnswer:
        """The controller's account of itself."""
        return cast("types.ControllerAnswer", self._object("GET", "/v1/controller"))

    def cluster(self) -> types.ClusterAnswer | None:
        """The cluster of the controller: who is master, and who is there; `None` if it is the only one."""
        return cast("types.ClusterAnswer | None", self._json("GET", "/v1/cluster"))

    def step_down(self) -> types.StepDownAnswer:
        """Lets another controller of the cluster become master."""
        return cast("types.StepDownAnswer", self._object("POST", "/v1/cluster/step-down"))

    def stats(self) -> types.StatsAnswer:
        """All counters."""
        return cast("types.StatsAnswer", self._object("GET", "/v1/stats"))

    def version(self) -> types.VersionAnswer:
        """The versions of the program and of formats."""
        return cast("types.VersionAnswer", self._object("GET", "/v1/version"))

    def doctor(self) -> types.DoctorAnswer:
        """The doctor's findings about the controller."""
        return cast("types.DoctorAnswer", self._object("GET", "/v1/doctor"))

    def errors(self, /, **where: object) -> list[types.ErrorRow]:
        """The most recent problems."""
        return self._rows("/v1/errors", where)

    def log(self, /, **where: object) -> list[types.LogRow]:
        """The latest lines of the log."""
        return self._rows("/v1/log", where)

    def history(self, /, **where: object) -> list[types.HistoryRow]:
        """Who changed the policy, tables and variables, and when; the newest first: `history(table="blocked")`."""
        return self._rows("/v1/history", where)

    def who(self) -> Row:
        """Whose token this is, and its role."""
        return self._object("GET", "/v1/session")

    def metrics(self) -> str:
        """The metrics, as Prometheus reads them."""
        return self._text("GET", "/metrics").decode()

    def description(self) -> Row:
        """The description of the API (OpenAPI 3.1)."""
        return self._object("GET", "/v1/openapi.json")

    # Tracked state.

    def state(self, /, **where: object) -> list[types.StateRow]:
        """The tables and variables that are known."""
        return self._rows("/v1/state", where)

    def table(self, /, table: str, **where: object) -> list[types.ValueRow]:
        """The keys of a table, with their values and last writers."""
        return self._rows(f"/v1/state/tables/{part(table)}", where)

    def get(self, table: str, key: object) -> types.ValueRow:
        """The value of a key, with its last writer."""
        return cast("types.ValueRow", self._object("GET", key_path(table, key)))

    def set(
        self, table: str, key: object, value: object, *, settled: bool = False, create: bool = False
    ) -> types.WriteAnswer:
        """Writes a key. `settled`: until no rule rests on what was there before. `create`: makes the table."""
        return cast(
            "types.WriteAnswer",
            self._object("PUT", key_path(table, key), {"value": value, "settled": settled, "create": create}),
        )

    def delete(self, table: str, key: object, *, settled: bool = False) -> types.WriteAnswer:
        """Deletes a key."""
        return cast("types.WriteAnswer", self._object("DELETE", key_path(table, key), query={"settled": settled}))

    def variable(self, name: str) -> types.ValueRow:
        """A variable, with its last writer."""
        return cast("types.ValueRow", self._object("GET", variable_path(name)))

    def set_variable(
        self, name: str, value: object, *, settled: bool = False, create: bool = False
    ) -> types.WriteAnswer:
        """Writes a variable."""
        return cast(
            "types.WriteAnswer",
            self._object("PUT", variable_path(name), {"value": value, "settled": settled, "create": create}),
        )

    def delete_variable(self, name: str, *, settled: bool = False) -> types.WriteAnswer:
        """Deletes a variable's value."""
        return cast("types.WriteAnswer", self._object("DELETE", variable_path(name), query={"settled": settled}))

    def transaction(
        self,
        rows: Iterable[tuple[Place, object]],
        *,
        expect: Iterable[tuple[Place, object]] = (),
        delete: Iterable[Place] = (),
        settled: bool = False,
        create: bool = False,
    ) -> types.LoadAnswer:
        """Writes and deletes many places: all of it, or nothing, with an `ApiError` of status 409, if a place does not
        hold what is expected."""
        body = {
            "rows": [[dict(place), value] for place, value in rows],
            "expect": [[dict(place), value] for place, value in expect],
            "delete": [dict(place) for place in delete],
            "settled": settled,
            "create": create,
        }
        return cast("types.LoadAnswer", self._object("POST", "/v1/state/transactions", body))

    # The policy.

    def invalidate(self, what: object = "all") -> object:
        """Withdraws decisions, so that the policy is asked again: all, `{"host": "h1"}` or `{"port": ["1", 3]}`."""
        return self._json("POST", "/v1/invalidate", what)

    def reload(self, name: str | None = None, *, tolerate: Mapping[str, int] | None = None) -> types.ReloadAnswer:
        """Runs another policy, or the same again, unless it fails on more packets than `{"count": 0}`."""
        return cast(
            "types.ReloadAnswer",
            self._policy("/v1/reload", {"name": name, "tolerate": dict(tolerate or {"count": 0})}),
        )

    def plan(self, name: str | None = None) -> types.PlanAnswer:
        """The changes that another policy would make."""
        return cast("types.PlanAnswer", self._policy("/v1/plan", {"name": name}))

    def apply(self, plan: Mapping[str, Any], *, canary: Mapping[str, Any] | None = None) -> types.ReloadAnswer:
        """Runs the policy of a plan, if that changes what the plan says; with a canary, at some switches first."""
        body = {"name": plan["policy"], "sources": plan["sources"], "changes": plan["changes"]}
        return cast(
            "types.ReloadAnswer",
            self._policy("/v1/apply", {**body, "decided": plan.get("decided"), "canary": canary}),
        )

    def promote(self) -> types.ReloadAnswer:
        """Lets the policy of a canary run everywhere."""
        return cast("types.ReloadAnswer", self._policy("/v1/promote"))

    def rollback(self) -> types.ReloadAnswer:
        """Runs the policy before the last reload again."""
        return cast("types.ReloadAnswer", self._policy("/v1/rollback"))

    # Events.

    def events(self, after: str | None = None) -> Iterator[Event]:
        """Lines of the log and changes of state as they come, after the event of this id; without one, from now on.
        Ends when the controller does; an `ApiError` of status 401 says that the token has ended. The id of the last
        event leads on where a stream ended."""
        return self._stream(EVENTS, resumed_after(after))

    def watch(self, table: str, key: object) -> Generator[Row, None, None]:
        """The value of a key with its last writer, as of `get`, at once and after each change. Changes that follow each
        other quickly may be one, and a key that is deleted has the value `None`. Ends when the controller does; an
        `ApiError` says that the token has ended (status 401), or that another policy has no such key (404)."""
        return formed(self._stream(watched(table=table, key=word(key)), {}), data_of)

    def watch_table(self, table: str) -> Generator[list[Row], None, None]:
        """All keys of a table, as of `table`, at once and after each change. Ends as `watch` does."""
        return formed(self._stream(watched(table=table), {}), rows_of)

    def watch_variable(self, name: str) -> Generator[Row, None, None]:
        """A variable with its last writer, at once and after each change. Ends as `watch` does."""
        return formed(self._stream(watched(var=name), {}), data_of)
