"""The client whose methods are coroutines."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, TypeVar

from maple.client._answers import Event, Row
from maple.client._client import Client
from maple.client._paths import EVENTS, resumed_after, watched, word
from maple.client._streams import data_of, read_stream, rows_of, whole

P = ParamSpec("P")
R = TypeVar("R")


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
    cluster = _in_thread(Client.cluster)
    step_down = _in_thread(Client.step_down)
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
    promote = _in_thread(Client.promote)
    rollback = _in_thread(Client.rollback)

    def events(self, after: str | None = None) -> AsyncIterator[Event]:
        """Lines of the log and changes of state as they come, as of `Client.events`."""
        return read_stream(self._client, EVENTS, resumed_after(after), whole)

    def watch(self, table: str, key: object) -> AsyncIterator[Row]:
        """The value of a key, at once and after each change, as of `Client.watch`."""
        return read_stream(self._client, watched(table=table, key=word(key)), {}, data_of)

    def watch_table(self, table: str) -> AsyncIterator[list[Row]]:
        """All keys of a table, at once and after each change, as of `Client.watch_table`."""
        return read_stream(self._client, watched(table=table), {}, rows_of)

    def watch_variable(self, name: str) -> AsyncIterator[Row]:
        """A variable, at once and after each change, as of `Client.watch_variable`."""
        return read_stream(self._client, watched(var=name), {}, data_of)
