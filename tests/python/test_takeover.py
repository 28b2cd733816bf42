"""A new process goes on with the connections of the one that runs: `maple run --takeover`."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from test_command import MAPLE, Running, maple, wait_for
from test_reload import stats

POLICY = """
    from maple import Table, Var, drop, flood, policy

    blocked, mode = Table("blocked", persist=True), Var("mode", "day")
    seen, defaults = Table("seen", key=str, value=int), Table("defaults")
    defaults.update({"a": 1, "b": 2})

    @policy
    def lists(pkt, net):
        if pkt.eth_dst.is_multicast:
            return flood()
        src, dst = net.locate(pkt.eth_src), net.locate(pkt.eth_dst)
        return net.shortest_path(src, dst) if src and dst and pkt.eth_src not in blocked else drop()
    """


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen[bytes]]]:
    all: list[subprocess.Popen[bytes]] = []
    yield all
    for one in all:
        if one.poll() is None:
            one.kill()
            one.wait()


@pytest.fixture
def start(tmp_path: Path, started: list[subprocess.Popen[bytes]]) -> Callable[..., Running]:
    (tmp_path / "lists.py").write_text(textwrap.dedent(POLICY))

    def running(*arguments: str) -> Running:
        one = Running(tmp_path, str(tmp_path / "lists.py"), "--state", str(tmp_path / "state"), *arguments)
        started.append(one.process)
        return one

    return running


def successor(folder: Path, started: list[subprocess.Popen[bytes]], *arguments: str) -> subprocess.Popen[bytes]:
    """A process that takes over. It would listen elsewhere."""
    log = (folder / "second").open("w")
    places = ["--control", str(folder / "control"), "--state", str(folder / "state"), "--listen", "127.0.0.1:0"]
    command = [*MAPLE, "run", str(folder / "lists.py"), *places, "--takeover", *arguments]
    one = subprocess.Popen(command, stdout=log, stderr=log)
    started.append(one)
    return one


def peers(running: Running) -> dict[str, str]:
    shown = running.show("switches")
    assert isinstance(shown, list)
    return {switch["switch"]: switch["peer"] for switch in shown}


def counts(running: Running) -> dict[str, int]:
    shown = running.show("stats")
    assert isinstance(shown, dict)
    return {**shown["engine"], **shown["controller"]}


def test_connections_rules_and_state_go_on(
    start: Callable[..., Running], started: list[subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    first = start()
    traffic = [*MAPLE, "emulate", "ring:4", "--controller", first.address, "--traffic", "300s"]
    emulated = subprocess.Popen([*traffic], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    started.append(emulated)
    wait_for("decisions", lambda: stats(first)["leaves"] >= 12)
    for words in (("blocked", "00:00:00:00:00:77", "true"), ("mode", "night", "--var"), ("seen", "one", "1")):
        done = maple("state", "set", *words, "--control", first.control)
        assert done.returncode == 0, done.stderr
    assert maple("state", "delete", "defaults", "a", "--control", first.control).returncode == 0
    # What is new is written twice a second.
    time.sleep(1.5)
    before, flow_mods = peers(first), counts(first)["flow_mods"]
    assert len(before) == 4 and flow_mods > 0
    second = successor(tmp_path, started)
    assert first.process.wait(20) == 0, first.log.read_text()
    assert "handed 4 connections over to another process" in first.log.read_text()
    wait_for("the second", lambda: "took over 4 connections" in (tmp_path / "second").read_text())
    wait_for("its control socket", lambda: Path(first.control).exists())
    wait_for("its switches", lambda: len(peers(first)) == 4)
    assert peers(first) == before, "the same connections"
    wait_for("its decisions", lambda: stats(first)["leaves"] >= 12)
    got = {
        words[0]: json.loads(maple("state", "get", *words, "--control", first.control).stdout)
        for words in (("blocked",), ("mode", "--var"), ("seen",), ("defaults",))
    }
    held = {"blocked": [["00:00:00:00:00:77", True]], "mode": "night", "seen": [["one", 1]], "defaults": [["b", 2]]}
    assert got == held, "also what the file has other defaults for"
    # What is told while all switches are there: as the emulated network ends, routes go with its first switch.
    # Discovery asks at every port: 12, by two frames at most.
    asked = counts(first).get("lldp_probes", 0)
    wait_for("a round of probes", lambda: counts(first).get("lldp_probes", 0) >= asked + 2 * 12, 40)
    told, errors = counts(first), first.show("errors")
    emulated.send_signal(signal.SIGINT)
    said = emulated.communicate(timeout=20)[0]
    assert emulated.returncode == 0, said
    assert b" 0 failed" in said, said
    assert (told.get("flow_mods", 0), told.get("of_connections", 0), told["of_dp_connections"]) == (0, 0, 4), told
    assert errors == []
    # It hands over in its turn.
    log = tmp_path / "second"
    third = successor(tmp_path, started, "--workers", "1")
    assert second.wait(20) == 0
    wait_for("the third", lambda: "took over" in log.read_text() and third.poll() is None)


def test_what_can_not_be_taken_over_is_said_and_goes_on(
    start: Callable[..., Running], started: list[subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    none = maple("run", str(tmp_path / "lists.py"), "--takeover", "--control", str(tmp_path / "nowhere"))
    assert none.returncode == 1 and re.search(r"can't take over from the controller at .*nowhere", none.stderr), none
    emulating = maple("run", str(tmp_path / "lists.py"), "--takeover", "--emulate", "ring:4")
    assert emulating.returncode == 2 and "--emulate" in emulating.stderr
    handler = maple("run", "builtin:hub", "--takeover")
    assert handler.returncode == 2 and "--takeover" in handler.stderr
    first = start()
    # A policy that does not load ends before it asks.
    (tmp_path / "broken.py").write_text("def (")
    broken = maple("run", str(tmp_path / "broken.py"), "--takeover", "--control", first.control)
    assert broken.returncode != 0 and first.process.poll() is None
    assert first.show("switches") == []
    # Without a switch there is little to take over, but what listens.
    second = successor(tmp_path, started)
    assert first.process.wait(20) == 0
    wait_for("the second", lambda: "took over 0 connections" in (tmp_path / "second").read_text())
    emulated = maple("emulate", "linear:2", "--controller", first.address, "--traffic", "1s")
    assert emulated.returncode == 0, emulated.stdout + emulated.stderr
    assert second.poll() is None


def ask(control: str, stream: socket.socket) -> bytes:
    """Asks a controller, as a process does that is to take over, and returns the copy of what it knows."""
    stream.connect(control)
    stream.sendall(b'{"takeover":{"tls":false,"form":4}}\n')
    return answer(stream)


def answer(stream: socket.socket) -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        line += stream.recv(1)
    told, text = json.loads(line), b""
    assert "error" not in told, told
    while len(text) < told["ok"]:
        text += stream.recv(told["ok"] - len(text))
    return text


def text_of(text: str) -> bytes:
    """A text of at most 127 bytes in postcard's format: its length, and it."""
    return bytes([len(text)]) + text.encode()


def row(table: str, key: str, value: int | bool | None) -> bytes:
    """A write to a table, by a text, of a small number, a truth value or nothing."""
    match value:
        case None:
            written = b"\0"
        case bool():
            written = b"\1\1" + bytes([value])
        case _:
            written = b"\1\2" + bytes([2 * value])
    return b"\0" + text_of(table) + b"\4" + text_of(key) + written


def test_what_changes_after_the_copy_follows_with_the_sockets(
    start: Callable[..., Running], started: list[subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    first = start()

    def change(*words: str) -> None:
        done = maple("state", *words, "--control", first.control)
        assert done.returncode == 0, done.stderr

    change("set", "seen", "one", "1")
    with socket.socket(socket.AF_UNIX) as stream:
        copy = ask(first.control, stream)
        # At the end: what is remembered (an epoch, no leaves, nothing around switches), a key, and no switches.
        there, epoch, *nothing = copy[-26:-17]
        assert row("seen", "one", 1) in copy and there == 1 and epoch > 0 and nothing == [0] * 7, copy
        # While one process gets ready, another one is refused.
        with socket.socket(socket.AF_UNIX) as other, pytest.raises(AssertionError, match="taking over already"):
            ask(first.control, other)
    # It has ended before it was ready: nothing has happened.
    change("set", "seen", "two", "2")
    other_file = ["--state", str(tmp_path / "elsewhere"), "--control", first.control]
    elsewhere = maple("run", str(tmp_path / "lists.py"), *other_file, "--takeover")
    assert elsewhere.returncode == 1 and "a take-over needs the same file" in elsewhere.stderr, elsewhere
    assert first.process.poll() is None
    with socket.socket(socket.AF_UNIX) as stream:
        copy = ask(first.control, stream)
        assert copy.count(b"\0" + text_of("seen") + b"\4") == 2
        assert row("seen", "one", 1) + row("seen", "two", 2) in copy
        change("set", "seen", "two", "3")
        change("delete", "seen", "one")
        change("set", "blocked", "00:00:00:00:00:01", "true")
        stream.sendall(b'{"takeover":"sockets"}\n')
        handed = answer(stream)
        changed = row("blocked", "00:00:00:00:00:01", True) + row("seen", "one", None) + row("seen", "two", 3)
        assert b"\3" + changed in handed, "and nothing else"
        assert handed.startswith(b"\1\0\0"), "one listener without TLS, and no connection"
        assert first.process.wait(20) == 0
    # That process has gone too. The state file has everything.
    again = start()
    blocked = json.loads(maple("state", "get", "blocked", "--control", again.control).stdout)
    assert blocked == [["00:00:00:00:00:01", True]]
