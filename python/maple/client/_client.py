"""A client with a method for each route of the API."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping
from http.client import HTTPException
from typing import Any

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


class Client(Requests):
    """A client. Each request has a connection of its own, so threads may share a client."""

    def _repr_html_(self) -> str:
        """The network as it is now, for notebooks; or why it can't be told."""
        try:
            switches, links, hosts = self.switches(), self.links(), self.hosts()
            names = {row["switch"]: row["name"] for row in self.names()["switches"]}
            host_names = {row["mac"]: row["name"] for row in self.names()["hosts"]}
            picture = _html.network_map(self.map())
        except (ApiError, OSError, HTTPException) as error:
            return _html.block(_html.heading(repr(self)), _html.trouble(str(error)))
        away = [row["peer"] is None or row["silent"] for row in switches]
        return _html.block(
            _html.heading(repr(self)),
            picture,
            _html.table(
                "switches",
                ["switch", "state", "address", "description"],
                [
                    (
                        _html.switch(row["switch"], names),
                        "not connected" if gone else "connected",
                        row["peer"],
                        row["description"],
                    )
                    for row, gone in zip(switches, away, strict=True)
                ],
                away,
            ),
            _html.table("links", ["from", "to"], [[_html.place(end, names) for end in link] for link in links]),
            _html.table(
                "hosts",
                ["host", "at", "IPv4", "IPv6"],
                [
                    (host_names.get(row["mac"], row["mac"]), _html.place(row["at"], names), row["ipv4"], row["ipv6"])
                    for row in hosts
                ],
            ),
        )

    # The network.

    def switches(self, /, **where: object) -> list[Row]:
        """The switches with their ports. Here and below, `where` has columns with the value that they are to have, with
        `__` for the dots in names (`at__switch`), and `sort`."""
        return self._rows("/v1/switches", where)

    def ports(self, /, of: str | None = None, **where: object) -> list[Row]:
        """The ports of all switches, or of one, with counters and rates."""
        return self._rows(of_switch(of, "ports"), where)

    def links(self, /, **where: object) -> list[Any]:
        """The links, each once, as pairs of places."""
        return self._rows("/v1/links", where)

    def hosts(self, /, **where: object) -> list[Row]:
        """The hosts."""
        return self._rows("/v1/hosts", where)

    def groups(self, /, **where: object) -> list[Row]:
        """The multicast groups with their member ports."""
        return self._rows("/v1/groups", where)

    def leases(self, /, **where: object) -> list[Row]:
        """The DHCP leases."""
        return self._rows("/v1/leases", where)

    def map(self) -> NetworkMap:
        """Switches at places that they keep, and links with their load."""
        return NetworkMap(self._object("GET", "/v1/map"))

    def names(self) -> Row:
        """The names of switches and hosts."""
        return self._object("GET", "/v1/names")

    # The last 24 hours. Moments are in milliseconds since 1970.

    def time(self) -> Row:
        """The moments that are kept, and how it went."""
        return self._object("GET", "/v1/time")

    def time_at(self, t: int | None = None) -> Row:
        """Switches, links and hosts at a moment; without one, as they are kept now."""
        return self._object("GET", "/v1/time/at", query=given(t=t))

    def time_changes(self, start: int | None = None, end: int | None = None) -> Row:
        """What is another at the moment `end` (the last one) than at `start` (the first one), and what happened
        meanwhile."""
        return self._object("GET", "/v1/time/changes", query=given(**{"from": start, "to": end}))

    # Rules and decisions.

    def rules(self, /, of: str | None = None, **where: object) -> list[Row]:
        """The rules of all switches, or of one."""
        return self._rows(of_switch(of, "rules"), where)

    def tables(self, /, of: str | None = None, **where: object) -> list[Row]:
        """The tables of all switches, or of one, and how full they are."""
        return self._rows(of_switch(of, "tables"), where)

    def trees(self, /, of: str | None = None, **where: object) -> list[Row]:
        """What the policy has decided at all switches, or at one."""
        return self._rows(of_switch(of, "trees" if of is None else "tree"), where)

    def labels(self, /, of: str | None = None, **where: object) -> list[Row]:
        """The labels of packets that arrive at all switches, or at one, from other switches."""
        return self._rows(of_switch(of, "labels"), where)

    def flows(self, /, of: str | None = None, **where: object) -> list[Row]:
        """The traffic between hosts, by where it enters."""
        return self._rows(of_switch(of, "flows"), where)

    def drops(self, /, minutes: int = 5, **where: object) -> list[Row]:
        """What was dropped in the last minutes, and why."""
        return self._rows("/v1/drops", {"minutes": minutes, **where})

    def access_lists(self, /, **where: object) -> list[Row]:
        """The access lists, with what each rule has decided."""
        return self._rows("/v1/access-lists", where)

    def policy(self) -> Row:
        """The source of the policy, with what rests on each line."""
        return self._object("GET", "/v1/policy")

    def explain(self, /, **packet: object) -> Row:
        """Why a packet goes where it goes: `explain(**{"from": "h1"}, to="h2", fields={"tcp_dst": "80"})`."""
        return self._object("POST", "/v1/explain", {"packet": packet})

    def explain_rule(self, /, **rule: object) -> Row:
        """The same of the packet that a rule was made for: by `cookie`, or by `match` and `switch`."""
        return self._object("POST", "/v1/explain", {"rule": rule})

    # The controller.

    def controller(self) -> Row:
        """The controller's account of itself."""
        return self._object("GET", "/v1/controller")

    def stats(self) -> Row:
        """All counters."""
        return self._object("GET", "/v1/stats")

    def version(self) -> Row:
        """The versions of the program and of formats."""
        return self._object("GET", "/v1/version")

    def doctor(self) -> Row:
        """The doctor's findings about the controller."""
        return self._object("GET", "/v1/doctor")

    def errors(self, /, **where: object) -> list[Row]:
        """The most recent problems."""
        return self._rows("/v1/errors", where)

    def log(self, /, **where: object) -> list[Row]:
        """The latest lines of the log."""
        return self._rows("/v1/log", where)

    def history(self, /, **where: object) -> list[Row]:
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

    def state(self, /, **where: object) -> list[Row]:
        """The tables and variables that are known."""
        return self._rows("/v1/state", where)

    def table(self, /, table: str, **where: object) -> list[Row]:
        """The keys of a table, with their values and last writers."""
        return self._rows(f"/v1/state/tables/{part(table)}", where)

    def get(self, table: str, key: object) -> Row:
        """The value of a key, with its last writer."""
        return self._object("GET", key_path(table, key))

    def set(self, table: str, key: object, value: object, *, settled: bool = False, create: bool = False) -> Row:
        """Writes a key. `settled`: until no rule rests on what was there before. `create`: makes the table."""
        return self._object("PUT", key_path(table, key), {"value": value, "settled": settled, "create": create})

    def delete(self, table: str, key: object, *, settled: bool = False) -> Row:
        """Deletes a key."""
        return self._object("DELETE", key_path(table, key), query={"settled": settled})

    def variable(self, name: str) -> Row:
        """A variable, with its last writer."""
        return self._object("GET", variable_path(name))

    def set_variable(self, name: str, value: object, *, settled: bool = False, create: bool = False) -> Row:
        """Writes a variable."""
        return self._object("PUT", variable_path(name), {"value": value, "settled": settled, "create": create})

    def delete_variable(self, name: str, *, settled: bool = False) -> Row:
        """Deletes a variable's value."""
        return self._object("DELETE", variable_path(name), query={"settled": settled})

    def transaction(
        self,
        rows: Iterable[tuple[Place, object]],
        *,
        expect: Iterable[tuple[Place, object]] = (),
        delete: Iterable[Place] = (),
        settled: bool = False,
        create: bool = False,
    ) -> Row:
        """Writes and deletes many places: all of it, or nothing, with an `ApiError` of status 409, if a place does not
        hold what is expected."""
        body = {
            "rows": [[dict(place), value] for place, value in rows],
            "expect": [[dict(place), value] for place, value in expect],
            "delete": [dict(place) for place in delete],
            "settled": settled,
            "create": create,
        }
        return self._object("POST", "/v1/state/transactions", body)

    # The policy.

    def invalidate(self, what: object = "all") -> object:
        """Withdraws decisions, so that the policy is asked again: all, `{"host": "h1"}` or `{"port": ["1", 3]}`."""
        return self._json("POST", "/v1/invalidate", what)

    def reload(self, name: str | None = None, *, tolerate: Mapping[str, int] | None = None) -> Row:
        """Runs another policy, or the same again, unless it fails on more packets than `{"count": 0}`."""
        return self._object("POST", "/v1/reload", {"name": name, "tolerate": dict(tolerate or {"count": 0})})

    def plan(self, name: str | None = None) -> Row:
        """What another policy would change."""
        return self._object("POST", "/v1/plan", {"name": name})

    def apply(self, plan: Mapping[str, Any], *, canary: Mapping[str, Any] | None = None) -> Row:
        """Runs the policy of a plan, if that changes what the plan says; with a canary, at some switches first."""
        body = {"name": plan["policy"], "sources": plan["sources"], "changes": plan["changes"]}
        return self._object("POST", "/v1/apply", {**body, "decided": plan.get("decided"), "canary": canary})

    def rest(self) -> Row:
        """Lets the policy of a canary run everywhere."""
        return self._object("POST", "/v1/rest")

    def rollback(self) -> Row:
        """Runs the policy before the last reload again."""
        return self._object("POST", "/v1/rollback")

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
