"""`maple explain`: why packets are dropped, asked of a running controller."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from test_command import Running, maple

POLICY = """
    from maple import Mac, Table, drop, flood, policy

    blocked = Table("blocked", key=Mac, value=bool)

    @policy
    def firewall(pkt, net):
        if pkt.eth_src in blocked:
            return drop()
        return flood()
    """
DROP = 1 + [line.strip() for line in textwrap.dedent(POLICY).splitlines()].index("return drop()")


@pytest.fixture
def firewall(tmp_path: Path) -> Iterator[Running]:
    file = tmp_path / "firewall.py"
    file.write_text(textwrap.dedent(POLICY))
    one = Running(tmp_path, str(file))
    yield one
    one.stop()


def explain(running: Running, *arguments: str) -> str:
    done = maple("explain", *arguments, "--control", running.control)
    assert done.returncode == 0, done
    return done.stdout


def drops(running: Running) -> list[dict[str, Any]]:
    return json.loads(explain(running, "--dropped", "--json"))


def test_nothing_dropped_is_nothing_to_explain(firewall: Running) -> None:
    assert (
        explain(firewall, "--dropped")
        == "nothing was dropped in the last 5 minutes, as far as the switches have said\n"
    )
    assert drops(firewall) == []
    for minutes in ("0", "16", "x"):
        refused = maple("explain", "--dropped", "--minutes", minutes, "--control", firewall.control)
        assert refused.returncode == 2 and "--minutes" in refused.stderr, refused
    assert "--dropped" in maple("explain", "--minutes", "3", "--control", firewall.control).stderr


def test_who_wrote_a_key_is_known(firewall: Running) -> None:
    def state(*arguments: str) -> str:
        done = maple("state", *arguments, "--control", firewall.control)
        assert done.returncode == 0, done
        return done.stdout.strip()

    key = ("blocked", "00:00:00:00:00:07")
    assert state("get", *key, "--who") == "null  written by an unknown writer"
    state("set", *key, "true")
    told = state("get", *key, "--who")
    assert re.match(r"true  written 2\d{3}-\d\d-\d\dT\d\d:\d\d:", told), told
    assert "Z by `maple state set` (pid " in told
    assert state("get", "blocked", "--who").endswith(told.removeprefix("true"))
    assert "by `maple state set`" in state("list", "--who")
    state("delete", *key)
    assert "by `maple state delete`" in state("get", *key, "--who")
