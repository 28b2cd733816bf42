"""A plan for a network that only a state file remembers: `maple plan NEW --state FILE --from OLD`."""

from __future__ import annotations

import json
import signal
import subprocess
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from test_command import MAPLE, Running, maple, wait_for

OLD = """
    from maple import Mac, Table, drop, flood, policy

    blocked = Table("blocked", key=Mac, value=bool, persist=True)

    @policy
    def old(pkt, net):
        if pkt.eth_dst.is_multicast:
            return flood()
        src, dst = net.locate(pkt.eth_src), net.locate(pkt.eth_dst)
        if pkt.eth_src in blocked or dst is None:
            return drop()
        return net.shortest_path(src, dst)
    """

# Packets of host 1 for host 2 are dropped.
NEW = """
    from maple import Mac, Table, drop, flood, policy

    blocked = Table("blocked", key=Mac, value=bool, persist=True)

    @policy
    def new(pkt, net):
        if pkt.eth_dst.is_multicast:
            return flood()
        src, dst = net.locate(pkt.eth_src), net.locate(pkt.eth_dst)
        if pkt.eth_src in blocked or dst is None:
            return drop()
        if pkt.eth_src == "00:00:00:00:00:01" and pkt.eth_dst == "00:00:00:00:00:02":
            return drop()
        return net.shortest_path(src, dst)
    """


@pytest.fixture
def left(tmp_path: Path) -> Iterator[Callable[..., list[Any]]]:
    """A function that has a network decide, says what plans say of it then, and leaves its state file."""
    started: list[subprocess.Popen[bytes]] = []

    def run(*policies: Path, openflow: str = "1.3") -> list[Any]:
        running = Running(tmp_path, str(tmp_path / "old.py"), "--state", str(tmp_path / "state"))
        started.append(running.process)
        done = maple("state", "set", "blocked", "00:00:00:00:00:03", "true", "--control", running.control)
        assert done.returncode == 0, done.stderr
        command = [*MAPLE, "emulate", "ring:4", "--controller", running.address, "--console", "--of", openflow]
        hosts = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        started.append(hosts)
        assert hosts.stdin is not None
        hosts.stdin.write(b"pingall\n" * 3)
        hosts.stdin.flush()
        wait_for("decisions", lambda: decisions(running) >= 12)
        known = -1
        while known != decisions(running):
            known = decisions(running)
            wait_for("the state file", later(3))
        in_use = offline(tmp_path, "new.py")
        assert in_use.returncode == 1 and "another process uses the state file" in in_use.stderr, in_use.stderr
        plans = [maple("plan", str(policy), "--json", "--control", running.control) for policy in policies]
        running.stop(signal.SIGKILL)
        return [json.loads(plan.stdout) for plan in plans]

    for name, text in (("old.py", OLD), ("new.py", NEW)):
        (tmp_path / name).write_text(textwrap.dedent(text))
    yield run
    for process in started:
        if process.poll() is None:
            process.kill()
            process.wait()


def later(seconds: float) -> Callable[[], bool]:
    import time

    end = time.monotonic() + seconds
    return lambda: time.monotonic() >= end


def decisions(running: Running) -> int:
    shown = running.show("stats")
    assert isinstance(shown, dict)
    return int(shown["engine"]["leaves"])


def offline(folder: Path, policy: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    places = ["--state", str(folder / "state"), "--from", str(folder / "old.py")]
    return maple("plan", str(folder / policy), *places, *arguments)


def told(plan: dict[str, Any]) -> tuple[dict[str, int], list[str]]:
    """What a plan says of packets."""
    packets = [f"{one['kind']} {one['packet']} at {one['at']}: {one['before']}" for one in plan["differences"]]
    return plan["counts"], sorted(packets)


@pytest.mark.parametrize("openflow", ["1.0", "1.3"])
def test_a_plan_from_the_file_says_what_one_from_the_controller_said(
    left: Callable[..., list[Any]], tmp_path: Path, openflow: str
) -> None:
    (online,) = left(tmp_path / "new.py", openflow=openflow)
    assert online["counts"].get("loses", 0) > 0, online
    before = (tmp_path / "state").read_bytes()
    done = offline(tmp_path, "new.py", "--json")
    assert done.returncode == 2, done.stderr
    plan = json.loads(done.stdout)
    assert told(plan) == told(online)
    assert plan["rules"] and {switch["switch"] for switch in plan["rules"]} == {s["switch"] for s in online["rules"]}
    text = offline(tmp_path, "new.py")
    assert text.returncode == 2 and "old.py:" in text.stdout and "new.py:" in text.stdout, text.stdout
    assert "lose: these packets leave by fewer edge ports" in text.stdout
    same = offline(tmp_path, "old.py")
    assert same.returncode == 0, same.stdout + same.stderr
    assert (tmp_path / "state").read_bytes() == before
    nowhere = offline(tmp_path, "nowhere.py")
    assert nowhere.returncode == 1 and "can't read" in nowhere.stderr and "nowhere.py" in nowhere.stderr
    # The table is that of the file.
    (tmp_path / "new.py").write_text(textwrap.dedent(OLD).replace("pkt.eth_src in blocked or ", ""))
    plan = json.loads(offline(tmp_path, "new.py", "--json").stdout)
    assert plan["counts"].get("gains", 0) > 0 and "loses" not in plan["counts"], plan["counts"]


def test_what_can_not_be_planned_is_said(tmp_path: Path) -> None:
    for name, text in (("old.py", OLD), ("new.py", NEW)):
        (tmp_path / name).write_text(textwrap.dedent(text))
    done = offline(tmp_path, "new.py")
    assert done.returncode == 1 and "can't read the state file" in done.stderr and "No such file" in done.stderr
    (tmp_path / "state").write_text("no state")
    done = offline(tmp_path, "new.py")
    assert done.returncode == 1 and f"{tmp_path / 'state'} is not a state file of Maple" in done.stderr, done.stderr
    (tmp_path / "state").unlink()
    running = Running(tmp_path, str(tmp_path / "old.py"), "--state", str(tmp_path / "state"))
    running.stop()
    done = offline(tmp_path, "new.py")
    assert done.returncode == 1 and "remembers no packets that a policy has decided about" in done.stderr, done.stderr
    done = maple("plan", str(tmp_path / "new.py"), "--state", str(tmp_path / "state"))
    assert done.returncode == 1 and "--from" in done.stderr, done.stderr
