"""The types of answers, in Python and TypeScript, are those of the schema of answers."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from answer_types import DECLARATIONS, STUB, TYPES, declarations, definitions, stub
from mypy import api

PROGRAM = """
from typing import TYPE_CHECKING

from typing_extensions import assert_type

from maple.client import AsyncClient, Client

if TYPE_CHECKING:
    from maple.client.types import Place, SwitchRow


def first(client: Client) -> "SwitchRow":
    row = client.switches()[0]
    assert_type(row["switch"], str)
    assert_type(row["peer"], str | None)
    assert_type(client.hosts()[0]["at"]["switch"], str)
    assert_type(client.rules("s1")[0]["switch"], str)
    assert_type(client.links(), list[list["Place"]])
    assert_type(client.flows()[0]["from"], str | None)
    assert_type(client.policy()["files"][0]["lines"][0]["packets"], int)
    assert_type(client.plan()["differences"][0]["before"]["route"], str)
    client.hosts()[0]["mca"]  # error: TypedDict "HostRow" has no key "mca"
    row["peer"].upper()  # error: Item "None" of "str | None" has no attribute "upper"
    return row


async def second(client: AsyncClient) -> str:
    return (await client.controller())["version"]
"""


@pytest.mark.parametrize(("path", "made"), [(STUB, stub), (DECLARATIONS, declarations)], ids=["python", "typescript"])
def test_the_types_are_made_of_the_schema(path: Path, made: object) -> None:
    assert callable(made)
    text = made()
    if os.environ.get("MAPLE_BLESS"):
        path.write_text(text)
    assert path.read_text() == text, f"{path.name} is not current: run this test again with MAPLE_BLESS=1"


def test_each_answer_of_the_api_has_a_type() -> None:
    has_none = {
        # True or false, or a list of pairs of places.
        "invalidate.all",
        "invalidate.host",
        "invalidate.port",
        "show.links",
        # Others have the same.
        "explain.rule",
        "reload.apply",
        "reload.promote",
        "reload.rollback",
        "state.delete",
        "show.log",
        "show.cluster",
        "show.hosts",
        "state.written",
        # The control socket alone has them.
        "show.live",
        "state.get",
        "state.watch",
    }
    typed = {place.partition("/")[0].removeprefix("answer to ") for place in TYPES.values()}
    answers = {name.removeprefix("answer to ") for name in definitions() if name.startswith("answer to ")}
    assert answers - typed == has_none


def test_programs_are_checked_against_the_types_of_answers(tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text(PROGRAM)
    found, errors, _ = api.run(["--strict", "--cache-dir", str(tmp_path / "cache"), str(file)])
    assert errors == ""
    told = [re.match(r"\S+:(\d+): error: (.*?)(?:  \[.*)?$", line) for line in found.splitlines()]
    seen = [(int(match[1]), match[2]) for match in told if match]
    lines = enumerate(PROGRAM.splitlines(), 1)
    wanted = [(number, line.split("# error: ")[1]) for number, line in lines if "# error: " in line]
    assert seen == wanted, found
