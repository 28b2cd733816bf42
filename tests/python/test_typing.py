"""What type checkers make of a program: types of tables and variables, and the mistakes that they find."""

from __future__ import annotations

import re
from pathlib import Path

from maple import Mac, Query, Table, Var
from mypy import api

PROGRAM = """
from typing import Any

from typing_extensions import assert_type

from maple import Ip, Location, Mac, Net, Packet, Query, Route, Table, Var, drop, policy

places = Table("places", key=Mac, value=Location)
assert_type(places, Table[Mac, Location])
assert_type(Table("anything"), Table[Any, Any])
assert_type(Table("pairs", key=(Mac, int)), Table[Any, Any])
owners: Table[Ip, Mac] = Table("owners")
opened = Var("opened", False)
assert_type(opened, Var[bool])


@Query
def busy(net: Net, switch: int) -> int:
    return sum(at.switch == switch for at in places.values())


@policy
def f(pkt: Packet, net: Net) -> Route:
    assert_type(places.get(pkt.eth_src), Location | None)
    assert_type(places.get("00:00:00:00:00:01", 0), Location | int)
    assert_type(places[pkt.eth_src].switch, int)
    assert_type(places.items(), list[tuple[Mac, Location]])
    assert_type([mac for mac in places], list[Mac])
    assert_type(owners.pop(pkt.ipv4_src), Mac | None)
    assert_type(opened.value, bool)
    places[pkt.eth_src] = (pkt.switch, pkt.in_port)
    owners[pkt.arp_spa] = pkt.arp_sha
    places[7] = Location(1, 2)  # error: Invalid index type "int"
    places[pkt.eth_src] = 7  # error: Incompatible types in assignment
    opened.value = "yes"  # error: Incompatible types in assignment
    return places.get(pkt.eth_src)  # error: Incompatible return value type
"""


def test_tables_and_variables_have_the_types_that_they_were_made_with(tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text(PROGRAM)
    found, errors, _ = api.run(["--strict", "--cache-dir", str(tmp_path / "cache"), str(file)])
    assert errors == ""
    told = [re.match(r"\S+:(\d+): error: (.*?)(?:  \[.*)?$", line) for line in found.splitlines()]
    lines = PROGRAM.splitlines()
    wanted = [(number, line.split("# error: ")[1]) for number, line in enumerate(lines, 1) if "# error: " in line]
    seen = [(int(match[1]), match[2]) for match in told if match]
    assert [number for number, _ in seen] == [number for number, _ in wanted], found
    assert all(text.startswith(start) for (_, text), (_, start) in zip(seen, wanted, strict=True)), found


def test_what_is_generic_can_be_subscripted_as_the_program_runs() -> None:
    assert str(Table[Mac, bool]) == "maple.Table[maple.Mac, bool]"
    assert str(Var[int]) == "maple.Var[int]"
    assert str(Query[int, int]) == "maple.Query[int, int]"
