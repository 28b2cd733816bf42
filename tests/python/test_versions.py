"""Tables whose rows get another shape: `Table(…, version=2, migrate=…)`, over a reload and over a restart."""

from __future__ import annotations

import json
import signal
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from maple import Mac, Table
from test_command import Running, maple
from test_reload import reload

ONE = """
    from maple import Mac, Table, drop, flood, policy

    blocked = Table("blocked", key=Mac, value=bool, persist=True)

    @policy
    def lists(pkt, net):
        return drop() if blocked.get(pkt.eth_src) else flood()
    """

TWO = """
    from maple import Mac, Table, drop, flood, policy

    def with_reason(version, rows):
        print("migrated from", version, flush=True)
        return {host: f"was {value} in {version}" for host, value in rows.items() if value}

    blocked = Table("blocked", key=Mac, value=str, persist=True, version=2, migrate=with_reason)

    @policy
    def lists(pkt, net):
        return drop() if blocked.get(pkt.eth_src) else flood()
    """

HOST, OTHER = "00:00:00:00:00:01", "00:00:00:00:00:09"


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[str], Running]]:
    started: list[Running] = []

    def running(text: str) -> Running:
        (tmp_path / "lists.py").write_text(textwrap.dedent(text))
        # One that was killed has left its socket.
        (tmp_path / "control").unlink(missing_ok=True)
        started.append(Running(tmp_path, str(tmp_path / "lists.py"), "--state", str(tmp_path / "state"), "--explore=0"))
        return started[-1]

    yield running
    for one in started:
        one.kill()


def state(running: Running, *arguments: str) -> object:
    done = maple("state", *arguments, "--control", running.control)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout) if arguments[0] == "get" else done.stdout


def rows(running: Running, table: str = "blocked") -> dict[str, object]:
    got = state(running, "get", table)
    assert isinstance(got, list)
    return {str(key["mac"] if isinstance(key, dict) else key): value for key, value in got}


def test_rows_get_their_new_shape_over_a_restart_and_once(start: Callable[[str], Running], tmp_path: Path) -> None:
    running = start(ONE)
    state(running, "set", "blocked", HOST, "true")
    state(running, "set", "blocked", OTHER, "false")
    assert running.stop() == 0
    running = start(TWO)
    assert rows(running) == {HOST: "was True in 1"}
    state(running, "set", "blocked", OTHER, "by hand")
    running.stop(signal.SIGKILL)
    running = start(TWO)
    assert rows(running) == {HOST: "was True in 1", OTHER: "by hand"}
    assert "migrated" not in running.log.read_text()
    assert rows(running, "blocked#2") == rows(running)
    assert running.stop() == 0
    # The policy from before does not know these rows.
    running = start(ONE)
    assert running.process.wait(10) == 1
    told = running.log.read_text()
    assert "the table blocked has rows of version 2, and this policy is for version 1" in told, told
    running = start(TWO)
    assert rows(running) == {HOST: "was True in 1", OTHER: "by hand"}


def test_a_migration_that_fails_at_the_start_leaves_the_file_as_it_was(start: Callable[[str], Running]) -> None:
    running = start(ONE)
    state(running, "set", "blocked", HOST, "true")
    assert running.stop() == 0
    for wrong, why in (
        ("return rows", "the table blocked#2 is declared with values of type str, and true is not one"),
        ("return list(rows)", "it returned ["),
        ("raise KeyError(host)", "cannot be made from those of version 1: NameError: name 'host' is not defined"),
    ):
        running = start(TWO.replace("return {host", f"{wrong}\n        return {{host"))
        assert running.process.wait(10) == 1
        assert why in running.log.read_text()
    running = start(ONE)
    assert rows(running) == {HOST: True}


def test_rows_get_their_new_shape_over_a_reload_and_their_old_one_back(
    start: Callable[[str], Running], emulate: Callable[[Running], None], tmp_path: Path
) -> None:
    running, file = start(ONE), tmp_path / "lists.py"
    state(running, "set", "blocked", HOST, "true")
    emulate(running)
    # Planned, it changes nothing, not even the table. Its rules are of the other table.
    file.write_text(textwrap.dedent(TWO))
    planned = maple("plan", str(file), "--control", running.control)
    assert planned.returncode == 2, planned.stdout + planned.stderr
    assert "0 of 2 packets that the network has decided about go otherwise" in planned.stdout
    assert rows(running) == {HOST: True}
    # Refused, likewise.
    file.write_text(textwrap.dedent(TWO.replace("return {host", "raise ValueError('no')\n        return {host")))
    done = reload(running)
    assert done.returncode == 1 and "cannot be made from those of version 1: ValueError: no" in done.stderr, done.stderr
    file.write_text(textwrap.dedent(TWO.replace("blocked.get(pkt.eth_src)", "blocked.got(pkt.eth_src)")))
    done = reload(running)
    assert done.returncode == 1 and "the new one fails on" in done.stderr, done.stderr
    assert rows(running) == {HOST: True}
    file.write_text(textwrap.dedent(TWO))
    done = reload(running)
    assert done.returncode == 0, done.stderr
    told = done.stdout
    assert " 0 otherwise, and 0 fail" in told, told
    assert rows(running) == {HOST: "was True in 1"}
    state(running, "set", "blocked", OTHER, "by hand")
    assert reload(running).returncode == 0
    assert rows(running) == {HOST: "was True in 1", OTHER: "by hand"}, "the same version again makes nothing anew"


def test_a_rollback_has_the_rows_from_before(
    start: Callable[[str], Running], emulate: Callable[[Running], None], tmp_path: Path
) -> None:
    running = start(ONE)
    state(running, "set", "blocked", HOST, "true")
    emulate(running)
    (tmp_path / "lists.py").write_text(textwrap.dedent(TWO))
    assert reload(running).returncode == 0
    assert rows(running) == {HOST: "was True in 1"}
    done = maple("rollback", "--control", running.control)
    assert done.returncode == 0, done.stderr
    assert rows(running) == {HOST: True}
    state(running, "set", "blocked", OTHER, "true")
    assert reload(running).returncode == 0
    assert rows(running) == {HOST: "was True in 1", OTHER: "was True in 1"}
    running.stop(signal.SIGKILL)
    running = start(TWO)
    assert rows(running) == {HOST: "was True in 1", OTHER: "was True in 1"}


def test_wrong_declarations_are_errors() -> None:
    assert Table("shaped", key=Mac, value=str, version=2).name == "shaped#2"
    with pytest.raises(ValueError, match="the table shaped is declared twice: with version 2, and with version 1"):
        Table("shaped")
    with pytest.raises(ValueError, match="versions are counted from 1"):
        Table("counted", version=0)
    with pytest.raises(ValueError, match="there is no version before 1"):
        Table("first", migrate=lambda version, rows: rows)
    with pytest.raises(TypeError, match="a function of the version and the rows"):
        Table("third", version=2, migrate="rows")  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="a name has no #"):
        Table("shaped#3")
