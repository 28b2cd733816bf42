"""A client of the HTTP API, which docs/api.md describes: `maple run --http 127.0.0.1:8653`.

>>> from maple.client import Client
>>> maple = Client(token="…")
>>> for port in maple.ports(kind="edge", sort="-rx_bytes"):
...     print(port["switch"], port["port"])
>>> maple.set("blocked", "00:00:00:00:00:07", True, settled=True)

`AsyncClient` has the same methods as coroutines. Rows and answers are as the API has them; a refusal is an `ApiError`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from queue import SimpleQueue
from typing import Any, Concatenate, Final, ParamSpec, TypeVar
from urllib.parse import quote, urlencode, urlsplit

from maple import _html

__all__ = ["ApiError", "AsyncClient", "Client", "Event", "NetworkMap", "Rows"]

P = ParamSpec("P")
R = TypeVar("R")

Row = dict[str, Any]
"""A row of a list, or another object of an answer."""


class Rows(list[Any]):
    """The rows of a list; in a notebook a table."""

    def _repr_html_(self) -> str:
        if all(isinstance(row, Mapping) for row in self):
            columns = list(dict.fromkeys(name for row in self for name in row))
            rows = [[row.get(name) for name in columns] for row in self]
        else:
            # Links are pairs of places.
            columns, rows = ["from", "to"], [list(row) for row in self]
        return _html.block(_html.table("rows", columns, rows))


class NetworkMap(dict[str, Any]):
    """The switches at their places, and the links; in a notebook a picture."""

    def _repr_html_(self) -> str:
        return _html.block(_html.network_map(self))


Place = Mapping[str, Any]
"""A place of tracked state: `{"var": "mode"}` or `{"key": ["blocked", "00:00:00:00:00:07"]}`."""

PAGE: Final = 1000
"""How many rows are asked for at a time."""

EVENTS: Final = "/v1/events"
"""The path of events."""


class ApiError(Exception):
    """The controller refuses a request."""

    def __init__(self, status: int, detail: str, field: str = "", shard: int | None = None) -> None:
        super().__init__(f"{detail} ({status})")
        self.status = status
        """The status: 404 if there is no such thing, 409 if not now, 503 if a worker is late."""
        self.detail = detail
        """The reason in words."""
        self.field = field
        """The parameter, header or member of the body that is wrong; empty for the whole request."""
        self.shard = shard
        """The worker that is late, if one is."""


@dataclass(frozen=True)
class Event:
    """An event of the stream."""

    kind: str
    """`log`, `state`, `missed`, or `begin`, which is the first; `value` in a watch."""
    data: Row
    """What it says."""
    id: str
    """What a later stream goes on after."""


class Client:
    """A client. Each request has a connection of its own, so threads may share a client."""

    def __init__(
        self,
        url: str = "http://127.0.0.1:8653",
        token: str | None = None,
        *,
        timeout: float = 60.0,
        context: ssl.SSLContext | None = None,
    ) -> None:
        """`timeout`: seconds without a byte. `context`: which certificates are trusted."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or parts.hostname is None or parts.path not in ("", "/"):
            raise ValueError(f"{url!r} is not the address of an API, such as http://127.0.0.1:8653")
        self._host, self._port, self._is_https = parts.hostname, parts.port, parts.scheme == "https"
        self._token, self._timeout, self._context = token, timeout, context

    def __repr__(self) -> str:
        scheme, port = "https" if self._is_https else "http", f":{self._port}" if self._port else ""
        return f"<maple.client {scheme}://{self._host}{port}>"

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
        return self._rows(_of(of, "ports"), where)

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
        return self._object("GET", "/v1/time/at", query=_given(t=t))

    def time_changes(self, start: int | None = None, end: int | None = None) -> Row:
        """What is another at the moment `end` (the last one) than at `start` (the first one), and what happened
        meanwhile."""
        return self._object("GET", "/v1/time/changes", query=_given(**{"from": start, "to": end}))

    # Rules and decisions.

    def rules(self, /, of: str | None = None, **where: object) -> list[Row]:
        """The rules of all switches, or of one."""
        return self._rows(_of(of, "rules"), where)

    def tables(self, /, of: str | None = None, **where: object) -> list[Row]:
        """The tables of all switches, or of one, and how full they are."""
        return self._rows(_of(of, "tables"), where)

    def trees(self, /, of: str | None = None, **where: object) -> list[Row]:
        """What the policy has decided at all switches, or at one."""
        return self._rows(_of(of, "trees" if of is None else "tree"), where)

    def labels(self, /, of: str | None = None, **where: object) -> list[Row]:
        """The labels of packets that arrive at all switches, or at one, from other switches."""
        return self._rows(_of(of, "labels"), where)

    def flows(self, /, of: str | None = None, **where: object) -> list[Row]:
        """The traffic between hosts, by where it enters."""
        return self._rows(_of(of, "flows"), where)

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
        return self._rows(f"/v1/state/tables/{_part(table)}", where)

    def get(self, table: str, key: object) -> Row:
        """The value of a key, with its last writer."""
        return self._object("GET", _key(table, key))

    def set(self, table: str, key: object, value: object, *, settled: bool = False, create: bool = False) -> Row:
        """Writes a key. `settled`: until no rule rests on what was there before. `create`: makes the table."""
        return self._object("PUT", _key(table, key), {"value": value, "settled": settled, "create": create})

    def delete(self, table: str, key: object, *, settled: bool = False) -> Row:
        """Deletes a key."""
        return self._object("DELETE", _key(table, key), query={"settled": settled})

    def variable(self, name: str) -> Row:
        """A variable, with its last writer."""
        return self._object("GET", _variable(name))

    def set_variable(self, name: str, value: object, *, settled: bool = False, create: bool = False) -> Row:
        """Writes a variable."""
        return self._object("PUT", _variable(name), {"value": value, "settled": settled, "create": create})

    def delete_variable(self, name: str, *, settled: bool = False) -> Row:
        """Deletes a variable's value."""
        return self._object("DELETE", _variable(name), query={"settled": settled})

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
        Ends when the controller does. The id of the last event leads on where a stream ended."""
        return self._stream(EVENTS, _after(after))

    def watch(self, table: str, key: object) -> Generator[Row, None, None]:
        """The value of a key with its last writer, as of `get`, at once and after each change. Changes that follow each
        other quickly may be one. Ends when the controller, the token or the key's table does."""
        return _formed(self._stream(_watched(table=table, key=_word(key)), {}), _data)

    def watch_table(self, table: str) -> Generator[list[Row], None, None]:
        """All keys of a table, as of `table`, at once and after each change. Ends when the controller, the token or the
        table does."""
        return _formed(self._stream(_watched(table=table), {}), _data_of_table)

    def watch_variable(self, name: str) -> Generator[Row, None, None]:
        """A variable with its last writer, at once and after each change. Ends when the controller, the token or the
        variable does."""
        return _formed(self._stream(_watched(var=name), {}), _data)

    # What the above is made of.

    def _rows(self, path: str, where: Mapping[str, object]) -> list[Any]:
        query = {name.replace("__", "."): value for name, value in where.items()}
        rows = Rows()
        after: dict[str, object] = {}
        while True:
            page = self._object("GET", path, query={"limit": PAGE, **query, **after})
            rows += page["rows"]
            if page["next"] is None or "limit" in query:
                return rows
            after = {"after": page["next"]}

    def _object(self, method: str, path: str, body: object = None, *, query: Mapping[str, object] | None = None) -> Row:
        answer: Row = self._json(method, path, body, query=query)
        return answer

    def _json(self, method: str, path: str, body: object = None, *, query: Mapping[str, object] | None = None) -> Any:
        return json.loads(self._text(method, path, body, query=query))

    def _text(self, method: str, path: str, body: object = None, *, query: Mapping[str, object] | None = None) -> bytes:
        asked = f"{path}?{urlencode({name: _word(value) for name, value in query.items()})}" if query else path
        connection, response = self._open(method, asked, body, {})
        try:
            return response.read()
        finally:
            connection.close()

    def _stream(
        self, target: str, headers: Mapping[str, str], opened: Callable[[socket.socket], None] = lambda _: None
    ) -> Generator[Event, None, None]:
        """The events of a stream. `opened` gets its socket before an answer is waited for."""
        connection, response = self._open("GET", target, None, headers, opened)
        try:
            yield from _events(response)
        finally:
            connection.close()

    def _open(
        self,
        method: str,
        target: str,
        body: object,
        headers: Mapping[str, str],
        opened: Callable[[socket.socket], None] = lambda _: None,
    ) -> tuple[HTTPConnection, HTTPResponse]:
        """Sends a request, and returns its answer if it is one."""
        connection: HTTPConnection
        if self._is_https:
            connection = HTTPSConnection(self._host, self._port, timeout=self._timeout, context=self._context)
        else:
            connection = HTTPConnection(self._host, self._port, timeout=self._timeout)
        sent = dict(headers)
        if self._token is not None:
            sent["Authorization"] = f"Bearer {self._token}"
        data = None
        if body is not None:
            data, sent["Content-Type"] = json.dumps(body), "application/json"
        try:
            connection.connect()
            opened(connection.sock)
            connection.request(method, target, data, sent)
            response = connection.getresponse()
            if response.status >= 400:
                raise _refusal(response)
        except BaseException:
            connection.close()
            raise
        return connection, response


def _in_thread(
    method: Callable[Concatenate[Client, P], R],
) -> Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, R]]:
    """The method of an `AsyncClient` for one of a `Client`."""

    async def call(self: AsyncClient, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await asyncio.to_thread(method, self._client, *args, **kwargs)

    call.__doc__ = method.__doc__
    return call


class AsyncClient:
    """The methods of a `Client` as coroutines. Requests wait in threads of the event loop's."""

    def __init__(
        self,
        url: str = "http://127.0.0.1:8653",
        token: str | None = None,
        *,
        timeout: float = 60.0,
        context: ssl.SSLContext | None = None,
    ) -> None:
        """As of `Client`."""
        self._client = Client(url, token, timeout=timeout, context=context)

    switches = _in_thread(Client.switches)
    ports = _in_thread(Client.ports)
    links = _in_thread(Client.links)
    hosts = _in_thread(Client.hosts)
    groups = _in_thread(Client.groups)
    leases = _in_thread(Client.leases)
    map = _in_thread(Client.map)
    names = _in_thread(Client.names)
    time = _in_thread(Client.time)
    time_at = _in_thread(Client.time_at)
    time_changes = _in_thread(Client.time_changes)
    rules = _in_thread(Client.rules)
    tables = _in_thread(Client.tables)
    trees = _in_thread(Client.trees)
    labels = _in_thread(Client.labels)
    flows = _in_thread(Client.flows)
    drops = _in_thread(Client.drops)
    access_lists = _in_thread(Client.access_lists)
    policy = _in_thread(Client.policy)
    explain = _in_thread(Client.explain)
    explain_rule = _in_thread(Client.explain_rule)
    controller = _in_thread(Client.controller)
    stats = _in_thread(Client.stats)
    version = _in_thread(Client.version)
    doctor = _in_thread(Client.doctor)
    errors = _in_thread(Client.errors)
    log = _in_thread(Client.log)
    history = _in_thread(Client.history)
    who = _in_thread(Client.who)
    metrics = _in_thread(Client.metrics)
    description = _in_thread(Client.description)
    state = _in_thread(Client.state)
    table = _in_thread(Client.table)
    get = _in_thread(Client.get)
    set = _in_thread(Client.set)
    delete = _in_thread(Client.delete)
    variable = _in_thread(Client.variable)
    set_variable = _in_thread(Client.set_variable)
    delete_variable = _in_thread(Client.delete_variable)
    transaction = _in_thread(Client.transaction)
    invalidate = _in_thread(Client.invalidate)
    reload = _in_thread(Client.reload)
    plan = _in_thread(Client.plan)
    apply = _in_thread(Client.apply)
    rest = _in_thread(Client.rest)
    rollback = _in_thread(Client.rollback)

    def events(self, after: str | None = None) -> AsyncIterator[Event]:
        """Lines of the log and changes of state as they come, as of `Client.events`."""
        return _read(self._client, EVENTS, _after(after), _whole)

    def watch(self, table: str, key: object) -> AsyncIterator[Row]:
        """The value of a key, at once and after each change, as of `Client.watch`."""
        return _read(self._client, _watched(table=table, key=_word(key)), {}, _data)

    def watch_table(self, table: str) -> AsyncIterator[list[Row]]:
        """All keys of a table, at once and after each change, as of `Client.watch_table`."""
        return _read(self._client, _watched(table=table), {}, _data_of_table)

    def watch_variable(self, name: str) -> AsyncIterator[Row]:
        """A variable, at once and after each change, as of `Client.watch_variable`."""
        return _read(self._client, _watched(var=name), {}, _data)


async def _read(
    client: Client, target: str, headers: Mapping[str, str], form: Callable[[Event], R]
) -> AsyncIterator[R]:
    """The events of a stream in some form. A thread of its own waits for them, whose connection ends as soon as nobody
    reads them any more: a thread of the event loop's would keep that from closing until something comes."""
    loop = asyncio.get_running_loop()
    wanted: SimpleQueue[asyncio.Future[Event | None] | None] = SimpleQueue()
    sockets: list[socket.socket] = []
    has_ended = threading.Event()

    def opened(own: socket.socket) -> None:
        sockets.append(own)
        if has_ended.is_set():
            _shut(own)

    def work() -> None:
        events = client._stream(target, headers, opened)
        while (future := wanted.get()) is not None:
            event, error = None, None
            try:
                event = next(events, None)
            except Exception as raised:
                error = raised
            try:
                loop.call_soon_threadsafe(_settle, future, event, error)
            except RuntimeError:
                # The loop has closed, and nobody waits.
                return

    threading.Thread(target=work, name="maple-events", daemon=True).start()
    try:
        while True:
            future: asyncio.Future[Event | None] = loop.create_future()
            wanted.put(future)
            event = await future
            if event is None:
                return
            yield form(event)
    finally:
        wanted.put(None)
        has_ended.set()
        for own in sockets:
            _shut(own)


def _formed(events: Generator[Event, None, None], form: Callable[[Event], R]) -> Generator[R, None, None]:
    with contextlib.closing(events):
        for event in events:
            yield form(event)


def _settle(future: asyncio.Future[Event | None], event: Event | None, error: Exception | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(event)
    else:
        future.set_exception(error)


def _shut(own: socket.socket) -> None:
    """Ends the connection of a socket that another thread may be reading."""
    with contextlib.suppress(OSError):
        own.shutdown(socket.SHUT_RDWR)


def _after(last: str | None) -> Mapping[str, str]:
    return {} if last is None else {"Last-Event-ID": last}


def _watched(**place: str) -> str:
    if "" in (place.get("table"), place.get("var")):
        raise ValueError("a name is not empty")
    return f"{EVENTS}?{urlencode(place)}"


def _whole(event: Event) -> Event:
    return event


def _data(event: Event) -> Row:
    return event.data


def _data_of_table(event: Event) -> list[Row]:
    rows: list[Row] = event.data["rows"]
    return rows


def _of(switch: str | None, what: str) -> str:
    return f"/v1/{what}" if switch is None else f"/v1/switches/{_part(switch)}/{what}"


def _given(**query: object) -> dict[str, object]:
    """The parameters that are not left out."""
    return {name: value for name, value in query.items() if value is not None}


def _key(table: str, key: object) -> str:
    return f"/v1/state/tables/{_part(table)}/{_part(_word(key))}"


def _variable(name: str) -> str:
    return f"/v1/state/variables/{_part(name)}"


def _part(text: str) -> str:
    """A part of a path."""
    if not text:
        raise ValueError("a name is not empty")
    return quote(text, safe="")


def _word(value: object) -> str:
    """A value as the query, or a key in a path, has it."""
    if isinstance(value, bool) or value is None:
        return json.dumps(value)
    return str(value)


def _refusal(response: HTTPResponse) -> ApiError:
    text = response.read().decode(errors="replace")
    try:
        problem = json.loads(text)
        return ApiError(response.status, problem["detail"], problem["field"], problem.get("shard"))
    except (ValueError, KeyError, TypeError):
        return ApiError(response.status, text.strip() or response.reason)


def _events(lines: Iterable[bytes]) -> Iterator[Event]:
    """Reads the events of a stream. Its controller may have ended in the middle of one."""
    fields: dict[str, str] = {}
    try:
        for line in lines:
            name, _, value = line.decode().rstrip("\r\n").partition(": ")
            if name:
                fields[name] = value
            elif "data" in fields:
                yield Event(fields.get("event", "message"), json.loads(fields["data"]), fields.get("id", ""))
                fields = {}
    except (HTTPException, ConnectionError):
        return
