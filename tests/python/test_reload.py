"""Another policy in a running controller: `maple reload`, SIGHUP, `maple run --watch`."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from test_command import Running, maple, wait_for

POLICY = """
    from helper import DENIED
    from maple import Table, drop, flood, on, policy

    blocked = Table("blocked")
    VERSION = 1

    @policy
    def lists(pkt, net):
        for port in range(1, 20):
            if pkt.matches(tcp_dst=port):
                return drop() if port in DENIED else flood()
        return drop() if pkt.eth_src in blocked else flood()

    @on("switch_up", "switch_reachable")
    def tell(switch, net):
        print("version", VERSION, "of switch", switch, flush=True)
    """

NONE = """
    from maple import drop, policy

    @policy
    def none(pkt, net):
        return drop() if pkt.eth_type == 0x806 else drop()
    """


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Running]]:
    (tmp_path / "helper.py").write_text("DENIED = {1}\n")
    (tmp_path / "lists.py").write_text(textwrap.dedent(POLICY))
    started: list[Running] = []

    def running(*arguments: str) -> Running:
        started.append(Running(tmp_path, str(tmp_path / "lists.py"), *arguments))
        return started[-1]

    yield running
    for one in started:
        one.kill()


def stats(running: Running) -> dict[str, int]:
    shown = running.show("stats")
    assert isinstance(shown, dict)
    engine = shown["engine"]
    assert isinstance(engine, dict)
    return engine


def reload(running: Running, *arguments: str) -> subprocess.CompletedProcess[str]:
    return maple("reload", *arguments, "--control", running.control)


def test_the_same_policy_changes_nothing_and_another_one_decides(
    start: Callable[..., Running], emulate: Callable[[Running], None], tmp_path: Path
) -> None:
    # Both drop some of what exploration tries.
    running = start("--explore=0")
    emulate(running)
    done = reload(running)
    assert done.returncode == 0, done.stderr
    told = re.fullmatch(
        r"reloaded: of (\d+) packets that the network has decided about, (\d+) are decided as before, 0 otherwise, and "
        r"0 fail; \d+\.\d+ s\n",
        done.stdout,
    )
    assert told and told[1] == told[2] != "0", done.stdout
    (tmp_path / "none.py").write_text(textwrap.dedent(NONE))
    done = reload(running, str(tmp_path / "none.py"), "--json")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["settled"] and answer["failed"] == answer["same"] == 0 < answer["packets"], answer
    rules = running.show("rules")
    assert isinstance(rules, list) and "none.py:6" in json.dumps(rules) and "lists.py" not in json.dumps(rules)
    assert reload(running, "builtin:flood").returncode == 0
    assert running.show("errors") == []


def test_a_policy_that_fails_or_can_not_be_loaded_changes_nothing(
    start: Callable[..., Running], emulate: Callable[[Running], None], tmp_path: Path
) -> None:
    running = start()
    emulate(running)
    file = tmp_path / "lists.py"
    file.write_text(textwrap.dedent(POLICY).replace("in blocked else flood()", "in blocked else fload()"))
    done = reload(running)
    assert done.returncode == 1
    assert re.search(r"stays as it was: the new one fails on \d+ of \d+ packets", done.stderr), done.stderr
    assert "NameError: name 'fload' is not defined" in done.stderr
    assert 'lists.py", line' in done.stderr
    file.write_text("def (")
    done = reload(running)
    assert done.returncode == 1 and "can't load" in done.stderr and "SyntaxError" in done.stderr
    done = reload(running, str(tmp_path / "nowhere.py"))
    assert done.returncode == 1 and "can't read" in done.stderr and "nowhere.py" in done.stderr
    assert "policy_errors" not in stats(running) or stats(running)["policy_errors"] == 0
    file.write_text(textwrap.dedent(POLICY).replace("in blocked else flood()", "in blocked else fload()"))
    assert reload(running, "--tolerate", "100%").returncode == 0
    wait_for("the policy to fail", lambda: stats(running)["policy_errors"] > 0)
    done = maple("reload", "--tolerate", "lots", "--control", running.control)
    assert done.returncode == 2 and "a number of packets such as 5" in done.stderr


def test_what_only_a_new_start_can_change_is_refused(start: Callable[..., Running], tmp_path: Path) -> None:
    running = start()
    text = textwrap.dedent(POLICY)

    def refused(text: str) -> str:
        (tmp_path / "other.py").write_text(text)
        done = reload(running, str(tmp_path / "other.py"))
        assert done.returncode == 1, done
        return done.stderr

    assert "track_hosts=False, which needs a new start" in refused(
        text.replace("@policy", "@policy(track_hosts=False)")
    )
    assert "snoops on other packets" in refused(text.replace("@policy", "@policy(snoop='igmp')"))
    heard = refused(text + "\n@on(packet_in={'arp_op': 1})\ndef hear(packet, net):\n    pass\n")
    assert "hear the packets [{'arp_op': 1}], and those of the policy that runs []" in heard
    assert "has no policy" in refused("")
    assert reload(running).returncode == 0, "the one that runs can still be reloaded"
    threads = "\nimport threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"
    (tmp_path / "lists.py").write_text(text + threads)
    assert reload(running).returncode == 0
    assert "started threads when its file was loaded" in reload(running).stderr


def test_a_hangup_and_changed_files_reload_and_functions_that_listen_are_replaced(
    start: Callable[..., Running], emulate: Callable[[Running], None], tmp_path: Path
) -> None:
    running = start("--watch")
    os.kill(running.process.pid, signal.SIGHUP)
    wait_for("the reload", lambda: "lists.py reloaded: 0 of 0 packets" in running.log.read_text())
    emulate(running)
    wait_for("the first function", lambda: "version 1 of switch 1" in running.log.read_text())
    helper = tmp_path / "helper.py"
    helper.write_text("DENIED = {2\n")
    wait_for("the error", lambda: "lists.py not reloaded: can't load" in running.log.read_text())
    (tmp_path / "lists.py").write_text(textwrap.dedent(POLICY).replace("VERSION = 1", "VERSION = 2"))
    helper.write_text("DENIED = {2}\n")
    wait_for("the reload", lambda: re.search(r"lists\.py reloaded: [1-9]", running.log.read_text()) is not None)
    emulate(running)
    wait_for("the new function", lambda: "version 2 of switch" in running.log.read_text())
    assert running.stop() == 0


def test_an_access_list_is_reloaded(tmp_path: Path, emulate: Callable[[Running], None]) -> None:
    file = tmp_path / "list.yaml"
    file.write_text("version: 1\nforward: flood\ndefault: allow\nrules: [{action: deny, service: tcp/23}]\n")
    running = Running(tmp_path, str(file))
    try:
        emulate(running)
        file.write_text("version: 1\nforward: flood\ndefault: allow\nrules: [{action: deny, service: tcp/24}]\n")
        assert reload(running).returncode == 0
        rules = json.dumps(running.show("rules"))
        assert '"tcp_dst": 24' in rules or "tp_dst=24" in rules, rules
        assert "tp_dst=23" not in rules
        file.write_text("version: 1\nrules: [{action: refuse}]\n")
        done = reload(running)
        assert done.returncode == 1 and "list.yaml:2:" in done.stderr, done.stderr
    finally:
        running.stop()
