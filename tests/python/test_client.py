"""The client of the HTTP API: a method for each operation of the description, and what these return."""

from __future__ import annotations

import asyncio
import inspect
import re
import signal
import threading
from collections.abc import Callable
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path

import pytest
from maple.client import ApiError, AsyncClient, Client, _requests
from test_api import address
from test_command import TOKEN, Running, wait_for


class Recording(Client):
    """Notes the methods and paths of requests."""

    asked: set[tuple[str, str]]

    def _open(
        self, method: str, target: str, *rest: object, patient: bool = False
    ) -> tuple[HTTPConnection, HTTPResponse]:
        self.asked.add((method, target.split("?")[0]))
        return super()._open(method, target, *rest, patient=patient)  # type: ignore[arg-type]


def calls(one: Client) -> list[Callable[[], object]]:
    """A call of each method."""
    key, packet = {"key": ["blocked", "x"]}, {"from": "00:00:00:00:00:01", "to": "00:00:00:00:00:02"}
    return [
        one.switches,
        one.ports,
        lambda: one.ports("1", kind="edge"),
        one.links,
        lambda: one.hosts(sort="-mac", at__switch="0000000000000001"),
        one.groups,
        one.leases,
        one.map,
        one.names,
        one.time,
        one.time_at,
        lambda: one.time_changes(start=one.time()["from"], end=one.time()["to"]),
        one.rules,
        lambda: one.rules("1"),
        one.tables,
        lambda: one.tables("1"),
        one.trees,
        lambda: one.trees("1"),
        one.labels,
        lambda: one.labels("1"),
        one.flows,
        lambda: one.flows("1"),
        lambda: one.drops(15),
        one.access_lists,
        one.policy,
        lambda: one.explain(**packet),
        lambda: one.explain_rule(match="", switch="1"),
        one.controller,
        one.cluster,
        one.step_down,
        one.stats,
        one.version,
        one.doctor,
        one.errors,
        one.log,
        lambda: one.history(kind="client"),
        one.who,
        one.metrics,
        one.description,
        lambda: one.set("blocked", "x", True, create=True),
        lambda: one.get("blocked", "x"),
        lambda: one.table("blocked"),
        lambda: one.transaction([(key, False)], expect=[(key, True)]),
        lambda: one.delete("blocked", "x"),
        lambda: one.set_variable("mode", "day", create=True),
        lambda: one.variable("mode"),
        lambda: one.delete_variable("mode"),
        one.state,
        one.invalidate,
        one.reload,
        lambda: one.apply(one.plan(), canary={"percent": 50}),
        one.promote,
        one.rollback,
        lambda: next(one.events()),
        lambda: next(one.watch("blocked", "x")),
    ]


def test_each_operation_of_the_description_has_a_method(served: Running, emulate: Callable[[Running], None]) -> None:
    url = address(served)
    emulate(served)
    one = Recording(url, TOKEN)
    one.asked = set()
    for call in calls(one):
        try:
            call()
        except ApiError as error:
            # There may be no such rule, no canary, and no policy before.
            assert error.status in (400, 409), (
                f"{inspect.getsource(call) if inspect.isfunction(call) else call}: {error}"
            )
    described = {
        (method.upper(), path) for path, all in one.description()["paths"].items() for method in all if method != "head"
    }
    # Browsers have sessions, and programs have tokens.
    described -= {("POST", "/v1/session"), ("DELETE", "/v1/session")}

    def operation(method: str, path: str) -> tuple[str, str]:
        fits = [
            (named, pattern)
            for named, pattern in described
            if named == method and re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", pattern), path)
        ]
        assert len(fits) == 1, f"{method} {path} is {fits}"
        return fits[0]

    assert {operation(*asked) for asked in one.asked} == described


def test_both_clients_have_the_same_methods() -> None:
    def methods(of: type) -> dict[str, str | None]:
        return {name: method.__doc__ for name, method in vars(of).items() if callable(method) and name[0] != "_"}

    both = methods(Client), methods(AsyncClient)
    assert both[0].keys() == both[1].keys()
    streams = ["events", "watch", "watch_table", "watch_variable"]
    assert all(both[0][name] == both[1][name] for name in both[0] if name not in streams)


def test_lists_come_whole_though_they_are_asked_for_in_pages(served: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_requests, "PAGE", 2)
    one = Client(address(served), TOKEN)
    one.transaction([({"key": ["t", number]}, number * number) for number in range(5)], create=True)
    assert [row["value"] for row in one.table("t")] == [0, 1, 4, 9, 16]
    assert [row["value"] for row in one.table("t", sort="-value", limit=2)] == [16, 9]
    assert [row["key"] for row in one.table("t", value=9)] == [3]


def test_what_is_refused_is_an_error_that_names_it(served: Running) -> None:
    url = address(served)
    one = Client(url, TOKEN)
    for call, status, field in [
        (lambda: one.get("none", "x"), 404, "table"),
        (lambda: one.hosts(colour="red"), 400, "colour"),
        (lambda: one.ports("zz"), 404, "switch"),
        (Client(url, "a-wrong-token-that-is-long").hosts, 401, ""),
        (Client(url).hosts, 401, ""),
        (lambda: Client(url, "the-token-of-readers").set("t", "x", 1), 403, ""),
    ]:
        with pytest.raises(ApiError) as refused:
            call()
        assert (refused.value.status, refused.value.field) == (status, field)
        assert refused.value.detail
    for wrong in ["ftp://127.0.0.1", "http://127.0.0.1/v1", "127.0.0.1:8653"]:
        with pytest.raises(ValueError, match="is not the address of an API"):
            Client(wrong)
    with pytest.raises(ValueError, match="not empty"):
        one.variable("")


def test_a_stream_goes_on_where_it_ended(served: Running) -> None:
    one = Client(address(served), TOKEN)
    events = one.events()
    begin = next(events)
    assert begin.kind == "begin"
    events.close()  # type: ignore[attr-defined]
    one.set_variable("mode", "day", create=True)
    again = one.events(begin.id)
    text = next(event.data["text"] for event in again if event.kind == "log")
    assert text == "ann at 127.0.0.1: PUT /v1/state/variables/mode"

    async def first() -> str:
        async for event in AsyncClient(address(served), TOKEN).events(begin.id):
            if event.kind == "log":
                return str(event.data["text"])
        raise AssertionError("the stream goes on")

    assert asyncio.run(first()) == text


def test_the_history_has_who_made_each_policy_run(served: Running) -> None:
    one = Client(address(served), TOKEN)
    one.reload()
    served.process.send_signal(signal.SIGHUP)
    wait_for("the second reload", lambda: len(one.history(what="reload")) == 2)
    runs = [row for row in one.history(sort="number") if row["policy"] is not None]
    told = [(row["what"], row["kind"], row["who"]) for row in runs]
    assert told == [("start", "start", "the start"), ("reload", "client", "ann"), ("reload", "signal", "SIGHUP")]
    assert all(row["policy"].endswith("shortest_path.py") and row["hash"] for row in runs)


def test_watches_have_what_is_there_and_each_change(served: Running) -> None:
    one = Client(address(served), TOKEN)
    one.set("blocked", "x", 1, create=True)
    one.set_variable("mode", "day", create=True)
    key, table, mode = one.watch("blocked", "x"), one.watch_table("blocked"), one.watch_variable("mode")
    assert next(key) == one.get("blocked", "x")
    assert next(table) == one.table("blocked")
    assert next(mode)["value"] == "day"
    one.set("blocked", "x", 2)
    assert next(row for row in key if row["value"] != 1)["value"] == 2
    assert next(rows for rows in table if rows[0]["value"] != 1) == one.table("blocked")
    one.set_variable("mode", "night")
    assert next(row for row in mode if row["value"] != "day")["written"]["by"] == "ann over HTTP"
    with pytest.raises(ApiError) as refused:
        next(one.watch_table("none"))
    assert (refused.value.status, refused.value.field) == (404, "table")
    with pytest.raises(ValueError, match="not empty"):
        one.watch_variable("")


def test_a_watch_of_what_is_deleted_goes_on_until_another_policy_has_no_such_key(
    served: Running, tmp_path: Path
) -> None:
    one = Client(address(served), TOKEN)
    one.set("t", 7, "seven", create=True)
    key = one.watch("t", 7)
    assert next(key)["value"] == "seven"
    one.delete("t", 7)
    assert next(row for row in key if row["value"] != "seven")["value"] is None
    one.set("t", 7, "again")
    assert next(row for row in key if row["value"] is not None)["value"] == "again"
    one.delete("t", 7)
    policy = tmp_path / "other.py"
    policy.write_text(
        "from maple import Mac, Table, drop, policy\n\nt = Table('t', key=Mac, value=str)\n\n\n"
        "@policy\ndef f(pkt, net):\n    return drop() if pkt.eth_src in t else drop()\n"
    )
    one.reload(str(policy), tolerate={"percent": 100})
    with pytest.raises(ApiError) as gone:
        for row in key:
            assert row["value"] is None
    assert (gone.value.status, gone.value.field) == (404, "key")


def test_a_stream_ends_with_the_controller_and_is_refused_with_its_token(served: Running, tmp_path: Path) -> None:
    url = address(served)
    Client(url, TOKEN).set_variable("mode", "day", create=True)
    reader = Client(url, "the-token-of-readers")
    mode, events = reader.watch_variable("mode"), Client(url, TOKEN).events()
    assert next(mode)["value"] == "day"
    assert next(events).kind == "begin"
    (tmp_path / "tokens").write_text(f"admin ann {TOKEN}\n")
    with pytest.raises(ApiError) as gone:
        list(mode)
    assert (gone.value.status, gone.value.field) == (401, "")

    async def read() -> None:
        async for row in AsyncClient(url, TOKEN).watch_variable("mode"):
            assert row["value"] == "day"
            served.process.send_signal(signal.SIGTERM)

    asyncio.run(read())
    assert {event.kind for event in events} <= {"log", "state"}


def test_a_stream_that_breaks_is_an_error(served: Running) -> None:
    one = Client(address(served), TOKEN)
    one.set_variable("mode", "day", create=True)
    streams = [one.events(), one.watch_variable("mode")]
    for stream in streams:
        next(stream)
    served.process.kill()
    for stream in streams:
        with pytest.raises(ApiError) as broken:
            list(stream)
        assert broken.value.status == 0


def test_a_stream_that_nobody_reads_any_more_leaves_no_thread(served: Running) -> None:
    one = AsyncClient(address(served), TOKEN)

    def threads() -> list[str]:
        return [thread.name for thread in threading.enumerate() if thread.name == "maple-events"]

    async def main() -> None:
        await one.set("blocked", "x", 1, create=True)
        watch = one.watch("blocked", "x")
        assert (await anext(watch))["value"] == 1
        waiting = asyncio.ensure_future(anext(watch))
        await asyncio.sleep(0)
        assert threads() == ["maple-events"]
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        wait_for("the thread has ended", lambda: threads() == [])
        async for event in one.events():
            assert event.kind == "begin"
            break
        with pytest.raises(ApiError):
            await anext(AsyncClient(address(served), "a-wrong-token-that-is-long").events())

    asyncio.run(main())
    wait_for("all threads have ended", lambda: threads() == [])
