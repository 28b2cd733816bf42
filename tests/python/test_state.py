"""Tables and variables, in runs and outside of them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from conftest import H1
from maple import Counter, Ip, Location, Mac, Table, Var, drop
from maple.testing import Bench, Decision, frame

PACKET = frame(eth_src=H1, tcp_dst=80)


@pytest.fixture
def run(bench: Bench) -> Iterator[Any]:
    def run(body: Any) -> Decision:
        def policy(pkt: Any, net: Any) -> Any:
            body(pkt, net)
            return drop()

        decision = bench.decide(policy, PACKET)
        assert decision.error is None, decision.error
        return decision

    yield run


@pytest.mark.usefixtures("bench")
def test_a_table_is_a_dictionary() -> None:
    table = Table("t")
    table["a"] = 1
    table.update({"b": (1, [2, 3]), "c": {"x": None}})
    assert (len(table), "a" in table, "z" in table) == (3, True, False)
    assert table.items() == [("a", 1), ("b", (1, (2, 3))), ("c", {"x": None})]
    assert (table.get("z"), table.get("z", 7), table.pop("a"), table.pop("a", 5)) == (None, 7, 1, 5)
    with pytest.raises(KeyError, match="z"):
        table["z"]
    with pytest.raises(KeyError, match="z"):
        del table["z"]
    del table["b"]
    assert list(Table("t")) == ["c"]
    table.replace({"d": 1})
    assert table.keys() == ["d"]
    table.clear()
    assert len(table) == 0


@pytest.mark.usefixtures("bench")
def test_equal_keys_are_one_key() -> None:
    table = Table("t")
    table[Mac(H1)] = "mac"
    table[Ip("10.0.0.1")] = "ip"
    table[1] = "one"
    assert (table[H1], table["10.0.0.1"], table[True], table[1.0]) == ("mac", "ip", "one", "one")


@pytest.mark.usefixtures("bench")
def test_a_declared_table_holds_its_types_in_any_spelling_and_nothing_else() -> None:
    table = Table("typed", key=Mac, value=bool)
    table["00-00-0A-00-00-01"] = True
    assert table.items() == [(Mac("00:00:0a:00:00:01"), True)] and isinstance(table.keys()[0], Mac)
    assert table["0:0:a:0:0:1"] and Mac("00:00:0a:00:00:01") in table
    other = Table("typed")  # of the same name: the same table
    assert other["00-00-0a-00-00-01"] and None not in other and table.get(None, 7) == 7
    for handle in table, other:
        with pytest.raises(TypeError, match='table typed is declared with keys of type Mac, and "banana" is not one'):
            handle["banana"] = True
        with pytest.raises(TypeError, match="table typed is declared with values of type bool, and 7 is not one"):
            handle[H1] = 7
        with pytest.raises(TypeError, match="keys of type Mac"):
            handle.get("banana")
    with pytest.raises(TypeError, match="declared twice: with the type Mac -> bool, and with int -> bool"):
        Table("typed", key=int, value=bool)
    del table["00-00-0a-00-00-01"]
    assert len(other) == 0 and Table("typed", key=Mac, value=bool).pop(H1, 5) == 5


@pytest.mark.usefixtures("bench")
def test_types_are_classes_tuples_and_options() -> None:
    pairs = Table("pairs", key=(Mac, int), value=tuple[Ip, ...])
    pairs["00-00-00-00-00-01", 80] = ["10.0.0.1", "fe80:0::1"]
    assert pairs.items() == [((Mac("00:00:00:00:00:01"), 80), (Ip("10.0.0.1"), Ip("fe80::1")))]
    with pytest.raises(TypeError, match=r"keys of type \(Mac, int\)"):
        pairs["00-00-00-00-00-01", True] = []
    optional = Table("optional", key=str, value=float | None)
    optional.update({"a": 1, "b": None})
    assert optional.items() == [("a", 1.0), ("b", None)]
    with pytest.raises(TypeError, match=r"Table\(\"wrong\", key=…\) is a type: Mac, Ip.*not 'Mac' \(str\)"):
        Table("wrong", key="Mac")  # type: ignore[arg-type]


@pytest.mark.usefixtures("bench")
def test_variables_and_counters_have_types() -> None:
    mode = Var("a mode", "day", value=str)
    mode.value = "night"
    with pytest.raises(TypeError, match="variable a mode is declared with the type str, and 1 is none of it"):
        mode.value = 1
    with pytest.raises(TypeError, match="the default None is not of the type int"):
        Var("no default", value=int)
    Counter("a sum").add(2)
    with pytest.raises(TypeError, match="variable a sum is declared with the type int"):
        Var("a sum").value = "many"


def test_a_policy_that_writes_another_type_gets_an_error_that_names_the_table(bench: Bench) -> None:
    table = Table("typed in a run", key=Mac, value=int)

    def policy(pkt: Any, net: Any) -> Any:
        table[pkt.eth_src] = "many"
        return drop()

    error = bench.decide(policy, PACKET).error
    assert error is not None and "table typed in a run is declared with values of type int" in str(error)


@pytest.mark.usefixtures("bench")
def test_values_keep_their_types() -> None:
    var = Var("v", default=5)
    assert var.value == 5
    for value in [
        None,
        True,
        -3,
        2**100,
        1.5,
        "text",
        b"bytes",
        Mac(H1),
        Ip("::1"),
        Location(1, 2),
        (1, "2"),
        {1: (2,)},
    ]:
        var.value = value
        assert var.value == value
        assert type(var.value) is type(value)
    for wrong in [{1, 2}, object(), 2**127, print]:
        with pytest.raises((TypeError, OverflowError), match="tables"):
            var.value = wrong


def test_reads_are_dependencies_and_writes_are_noted(run: Any) -> None:
    table, var = Table("t"), Var("v")
    decision = run(lambda pkt, net: (table.get(pkt.eth_src), "x" in table, len(table), var.value))
    assert decision.reads == ['Table("t", "00:00:00:00:00:01")', 'Table("t", "x")', 'TableLen("t")', 'Var("v")']
    assert not decision.wrote
    decision = run(lambda pkt, net: table.update({pkt.eth_src: pkt.in_port}))
    assert decision.wrote
    assert table[H1] == 1


def test_a_run_sees_its_own_writes_and_a_failed_run_leaves_none(bench: Bench, run: Any) -> None:
    table = Table("t")
    seen: list[Any] = []
    run(lambda pkt, net: (table.update({1: 2}), seen.append(table[1])))
    assert seen == [2]

    def fails(pkt: Any, net: Any) -> Any:
        table[1] = 3
        raise ValueError

    assert bench.decide(fails, PACKET).error is not None
    assert table[1] == 2


def test_other_threads_see_committed_state_only(run: Any) -> None:
    var = Var("v", 0)
    seen: list[Any] = []

    def look() -> None:
        seen.append(var.value)

    def body(pkt: Any, net: Any) -> None:
        var.value = 1
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()

    run(body)
    assert (seen, var.value) == ([0], 1)


def test_invalidate_takes_a_host_a_port_or_fields(bench: Bench, run: Any) -> None:
    assert run(lambda pkt, net: net.invalidate(host=pkt.eth_src)).wrote
    assert run(lambda pkt, net: net.invalidate(switch=1, port=2)).wrote
    assert run(lambda pkt, net: net.invalidate(fields={"tcp_dst": 22})).wrote
    for wrong in [{}, {"switch": 1}, {"host": 1.5}]:
        assert bench.decide(lambda pkt, net, w=wrong: net.invalidate(**w), PACKET).error is not None  # type: ignore[misc]
