"""Queries: functions of the state whose answers are remembered, in runs and outside of them."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from conftest import H1, H3
from maple import Location, Mac, Net, Query, Table, Var, atomically, drop, flood, retry
from maple.testing import Bench, frame

PACKET = frame(eth_src=H1, eth_dst=H3, tcp_dst=80)


@pytest.mark.usefixtures("bench")
def test_an_answer_is_remembered_until_what_it_is_made_of_changes() -> None:
    scores, runs = Table("scores"), []

    @Query
    def risky(net: Net, host: str) -> bool:
        runs.append(host)
        return bool(scores.get(host, 0) > 10)

    assert not risky("a") and not risky("a") and not risky("b")
    assert runs == ["a", "b"]
    scores["a"] = 11
    assert risky("a") and not risky("b")
    assert runs == ["a", "b", "a"]
    assert repr(risky).startswith("<query ")


def test_a_run_depends_on_the_answer_only(bench: Bench) -> None:
    scores = Table("scores")

    @Query
    def risky(net: Net, host: Any) -> bool:
        return bool(scores.get(host, 0) > 10)

    def policy(pkt: Any, net: Any) -> Any:
        return drop() if risky(pkt.eth_src) else flood()

    decision = bench.decide(policy, PACKET)
    assert (decision.route, decision.error) == (flood(), None)
    assert len(decision.reads) == 1 and "risky" in decision.reads[0]
    scores[H1] = 99
    assert bench.decide(policy, PACKET).route == drop()


def test_queries_ask_for_the_network_and_for_each_other(bench: Bench) -> None:
    @Query
    def place(net: Net, host: Any) -> Location | None:
        return net.locate(host)

    @Query
    def far(net: Net, a: Any, b: Any) -> int:
        here, there = place(a), place(b)
        return -1 if here is None or there is None else len(net.shortest_path(here, there).hops)

    assert far(Mac(H1), Mac(H3)) == 2
    assert place(Mac(H3)) == Location(2, 1)
    bench.host(H3, 1, 2)
    assert far(Mac(H1), Mac(H3)) == 1


def test_a_query_that_fails_writes_waits_or_looks_at_a_packet_says_so(bench: Bench) -> None:
    table, seen = Table("t"), []

    @Query
    def broken(net: Net) -> int:
        return 1 // 0

    @Query
    def writes(net: Net) -> int:
        table["x"] = 1
        return 1

    @Query
    def waits(net: Net) -> int:
        retry()
        return 1

    @Query
    def looks(net: Net) -> bool:
        return bool(seen[0].eth_src == H1)

    for one, message in [
        (broken, "ZeroDivisionError"),
        (writes, "it writes, and queries only read"),
        (waits, r"it calls retry\(\), and queries don't wait"),
    ]:
        with pytest.raises(RuntimeError, match=message):
            one()
    assert "x" not in table

    def policy(pkt: Any, net: Any) -> Any:
        seen.append(pkt)
        return drop() if looks() else flood()

    error = bench.decide(policy, PACKET).error
    assert error is not None and "the query" in error


@pytest.mark.usefixtures("bench")
def test_transactions_wait_for_answers_while_others_write() -> None:
    """Commits ask queries, threads hold the interpreter's lock: they must not wait for each other."""
    load, limit = Table("load"), Var("limit", 50)

    @Query
    def full(net: Net) -> bool:
        return sum(load.values()) >= limit.value

    def wait() -> int:
        if not full():
            retry()
        return sum(load.values())

    seen: list[int] = []
    waiting = [threading.Thread(target=lambda: seen.append(atomically(wait, timeout=20))) for _ in range(3)]

    def add(thread: int) -> None:
        for n in range(1, 31):
            load[f"{thread} {n}"] = 1

    writing = [threading.Thread(target=add, args=[thread]) for thread in range(3)]
    for thread in waiting + writing:
        thread.start()
    for thread in waiting + writing:
        thread.join(30)
        assert not thread.is_alive()
    assert len(seen) == 3 and min(seen) >= 50 and full()
