"""Transactions: atomically, retry, or_else, counters; in runs of a policy and in threads."""

from __future__ import annotations

import threading
from typing import Any, NoReturn

import pytest
from conftest import H1
from maple import Counter, Table, Var, atomically, drop, or_else, retry, settled
from maple.testing import Bench, frame

PACKET = frame(eth_src=H1, tcp_dst=80)
pytestmark = pytest.mark.usefixtures("bench")


def reserve(free: Table, path: list[int], amount: int) -> None:
    """Takes bandwidth on each link of a path, or waits until there is enough."""
    for link in path:
        left = free[link] - amount
        if left < 0:
            retry()
        free[link] = left


def test_a_transaction_happens_whole_or_not_at_all() -> None:
    free = Table("free")
    free.update({1: 5, 2: 5, 3: 1})

    def fails() -> NoReturn:
        free[1] = 0
        assert free[1] == 0, "its own writes are seen"
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        atomically(fails)
    assert free[1] == 5
    assert atomically(lambda: reserve(free, [1, 2], 2)) is None
    assert free.items() == [(1, 3), (2, 3), (3, 1)]


def test_a_thread_waits_until_its_transaction_is_possible() -> None:
    free = Table("free")
    free.update({1: 5, 2: 0})
    with pytest.raises(TimeoutError):
        atomically(lambda: reserve(free, [1, 2], 1), timeout=0.05)
    waiting = threading.Thread(target=lambda: atomically(lambda: reserve(free, [1, 2], 3)))
    waiting.start()
    free[2] = 2
    waiting.join(0.1)
    assert waiting.is_alive() and free[1] == 5, "nothing of a transaction that waits is seen"
    free[2] = 4
    waiting.join(10)
    assert free.items() == [(1, 2), (2, 1)]


def test_or_else_does_the_second_where_the_first_would_wait() -> None:
    free, chosen = Table("free"), Var("chosen")
    free.update({1: 0, 2: 0})

    def choose() -> str:
        def first() -> str:
            chosen.value = "first"
            reserve(free, [1], 1)
            return "first"

        def second() -> str:
            reserve(free, [2], 1)
            return "second"

        return or_else(first, second)

    free[2] = 1
    assert atomically(choose) == "second"
    assert (chosen.value, free[2]) == (None, 0), "nothing of the first is left"
    with pytest.raises(TimeoutError):
        atomically(choose, timeout=0.02)
    free[1] = 1
    assert (atomically(choose), chosen.value) == ("first", "first")
    with pytest.raises(RuntimeError, match="belongs into a policy"):
        choose()


def test_threads_lose_no_update() -> None:
    total, counted = Var("total", default=0), Counter("counted")

    def work() -> None:
        def add() -> None:
            total.value += 1
            counted.add(2)

        for _ in range(200):
            atomically(add)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (total.value, counted.value) == (800, 1600)


def test_a_transaction_that_always_loses_commits_in_the_end() -> None:
    table, runs = Table("t"), []

    def disturbed() -> None:
        runs.append(table.get("x"))
        if len(runs) <= 16:
            other = threading.Thread(target=lambda: table.update({"x": len(runs)}))
            other.start()
            other.join()

    atomically(disturbed)
    assert runs == [None, *range(1, 17)], "it lost 16 times, and then the others had to wait"


def test_a_run_that_waits_is_neither_an_error_nor_an_answer(bench: Bench) -> None:
    def policy(pkt: Any, net: Any) -> Any:
        def take() -> None:
            free = Var("free", default=0)
            free.value -= 1
            if free.value < 0:
                net.retry()

        net.or_else(lambda: net.atomically(take), net.retry)
        return drop()

    decision = bench.decide(policy, PACKET)
    assert decision.route is None and "waits until something" in (decision.error or "")
    assert (decision.wrote, decision.reads) == (False, ['Var("free")'])
    Var("free").value = 2
    decision = bench.decide(policy, PACKET)
    assert decision.route == drop() and decision.wrote


def test_without_a_controller_everything_is_settled() -> None:
    settled(timeout=0.1)
