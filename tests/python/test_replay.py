"""Recordings of runs, run again: `maple run --record` and `maple replay`."""

from __future__ import annotations

import json
import shlex
import subprocess
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from test_command import MAPLE, Running, maple, wait_for
from test_plan import ask, at_rest, leaves, talked

LISTS = """
    import threading
    from pathlib import Path

    from helper import DENIED
    from maple import Table, Var, drop, flood, policy

    blocked = Table("blocked")
    beats = Var("beats", 0)

    @policy
    def lists(pkt, net):
        if pkt.eth_src in blocked:
            return drop()
        if pkt.matches(tcp_dst=DENIED):
            return drop()
        src, dst = net.locate(pkt.eth_src), net.locate(pkt.eth_dst)
        return net.shortest_path(src, dst) if src and dst else flood()
    """

THREADED = """
    def beat():
        while True:
            with Path(__file__).with_name("beats.log").open("a") as log:
                log.write("beat\\n")
            beats.set(beats.value + 1)
            stop.wait(0.1)

    stop = threading.Event()
    threading.Thread(target=beat, daemon=True).start()
    """

STRICTER = """
    from maple import drop, flood, policy

    @policy
    def stricter(pkt, net):
        if pkt.matches(tcp_dst=80):
            return drop()
        src, dst = net.locate(pkt.eth_src), net.locate(pkt.eth_dst)
        if pkt.matches(tcp_dst=22):
            return drop()
        return net.shortest_path(src, dst) if src and dst else flood()
    """

NONE = """
    from maple import drop, policy

    @policy
    def none(pkt, net):
        return drop() if pkt.eth_type == 0x806 else drop()
    """


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "helper.py").write_text("DENIED = 22\n")
    (tmp_path / "lists.py").write_text(textwrap.dedent(LISTS))
    (tmp_path / "stricter.py").write_text(textwrap.dedent(STRICTER))
    return tmp_path


@pytest.fixture
def start(folder: Path) -> Iterator[Callable[..., Running]]:
    started: list[Running] = []

    def running(*arguments: str) -> Running:
        record = ("--record", str(folder / "recordings"))
        started.append(Running(folder, str(folder / "lists.py"), *record, *arguments))
        return started[-1]

    yield running
    for one in started:
        one.kill()


def replayed(folder: Path, *arguments: str, run: str = "", status: int = 0) -> dict[str, object]:
    """What a replay tells: of the newest recording, or of this one."""
    done = maple("replay", str(folder / "recordings" / run), "--json", *arguments)
    assert done.returncode == status, done.stdout + done.stderr
    told: dict[str, object] = json.loads(done.stdout)
    return told


def number(told: dict[str, object], name: str) -> float:
    value = told[name]
    assert isinstance(value, (int, float))
    return value


def emulate(running: Running, seconds: int) -> subprocess.Popen[bytes]:
    command = [*MAPLE, "emulate", "ring:4", "--controller", running.address, "--traffic", f"{seconds}s"]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def run_emulated(folder: Path, *arguments: str) -> None:
    done = maple(
        *("run", str(folder / "lists.py"), "--emulate", "ring:4", "--traffic", "3s", "--rate", "40", "--allow-drops"),
        *("--record", str(folder / "recordings"), *arguments),
    )
    assert "recording into" in done.stderr, done.stderr


@pytest.mark.parametrize("workers", ["1", "2"])
def test_an_emulated_network_is_repeated_byte_for_byte(folder: Path, workers: str) -> None:
    run_emulated(folder, "--workers", workers)
    told = replayed(folder)
    assert told["identical"] and not told["is_cut"] and told["end"] == "the controller stopped"
    assert number(told, "flow_mods") > 50 and number(told, "speed") > 1 and told["shards"] == int(workers)
    half = replayed(folder, "--until", "4s")
    assert 0 < number(half, "events") < number(told, "events") and number(half, "seconds") <= 4


def test_the_network_of_a_moment_is_shown_while_it_runs_and_by_its_recording(
    folder: Path, start: Callable[..., Running]
) -> None:
    running = start()
    network = emulate(running, 60)

    def shown(*arguments: str) -> str:
        return maple("show", "time", *arguments, "--control", running.control).stdout

    def newest() -> tuple[str, str]:
        """The newest moment that is kept, and how many switches, links and hosts there are."""
        moment, _, counts = shown("--at", "1ms").partition("\n")[0].partition(": ")
        return moment, counts

    whole = "4 switches, 4 links, 4 hosts"
    wait_for("the whole network", lambda: newest()[1] == whole)
    first = newest()[0]
    # A moment that is surely after the one of the look.
    wait_for("a later moment", lambda: newest()[0] > first and newest()[1] == whole)
    moment = newest()[0]
    command = shown("--at", moment).partition("exactly, with the number of rules: maple ")[2].partition("\n")[0]
    network.kill()
    network.wait()
    wait_for("no connection", lambda: shown("--at", "1ms").count(": not connected, ") == 4)
    changes = shown("--from", moment)
    assert changes.startswith(f"from {moment} to ") and changes.count(": unreachable\n") == 4, changes
    assert shown().startswith("kept from ") and ", in memory: " in shown()
    refused = maple("show", "time", "--at", "2020-01-01T00:00:00Z", "--control", running.control)
    assert refused.returncode == 1 and "what is kept is from" in refused.stderr, refused.stderr
    assert running.stop() == 0

    told = replayed(folder, "--until", moment, "--network")
    assert isinstance(told["network"], dict)
    assert [len(told["network"][name]) for name in ("switches", "links", "hosts")] == [4, 4, 4]
    assert all(switch["connected"] and switch["rules"] > 0 for switch in told["network"]["switches"])
    # What the moment itself says shows it exactly.
    printed = maple(*shlex.split(command)).stdout
    assert printed.count("\nlink ") == 4 and printed.startswith("switch 0000000000000001: connected, "), printed


def test_reload_and_state_from_outside_are_repeated(folder: Path, start: Callable[..., Running]) -> None:
    running = start("--workers", "2")
    network = emulate(running, 8)
    wait_for("decisions", lambda: leaves(running) >= 12)
    key = json.dumps({"mac": "00:00:00:00:00:02"})
    done = maple("state", "set", "blocked", key, "true", "--control", running.control)
    assert done.returncode == 0, done.stderr
    (folder / "helper.py").write_text("DENIED = 443\n")
    done = maple("reload", "--control", running.control)
    assert done.returncode == 0, done.stdout + done.stderr
    time.sleep(1)
    done = maple("rollback", "--control", running.control)
    assert done.returncode == 0, done.stdout + done.stderr
    network.wait(30)
    assert running.stop() == 0
    told = replayed(folder)
    assert told["identical"], told["difference"]
    assert number(told, "flow_mods") > 50
    (run,) = (folder / "recordings").iterdir()
    assert (run / "policy-0/helper.py").read_text() == "DENIED = 22\n"
    assert (run / "policy-1/helper.py").read_text() == "DENIED = 443\n"


@pytest.fixture
def pinged(folder: Path, start: Callable[..., Running]) -> Iterator[Running]:
    """A run with a network whose hosts have talked."""
    running = start("--workers", "2", "--state", str(folder / "state"))
    with talked(running):
        yield running


def test_plans_that_are_applied_and_canaries_are_repeated(folder: Path, pinged: Running) -> None:
    at_rest(pinged)
    # Every packet goes otherwise by this one.
    (folder / "none.py").write_text(textwrap.dedent(NONE))
    plan = str(folder / "plan.json")
    for how in ([], ["--canary", "1"]):
        assert ask(pinged, "plan", str(folder / "none.py"), "--out", plan).returncode == 2
        done = ask(pinged, "apply", plan, *how)
        assert done.returncode == 0, done.stderr
        if how:
            assert ask(pinged, "apply", "--promote").returncode == 0
        at_rest(pinged)
        assert ask(pinged, "rollback").returncode == 0
        at_rest(pinged)
    assert pinged.stop() == 0
    told = replayed(folder)
    assert told["identical"], told["difference"]
    assert number(told, "flow_mods") > 10
    (run,) = (folder / "recordings").iterdir()
    assert (run / "policy-1/none.py").exists()


def test_a_take_over_begins_another_recording_and_both_are_repeated(
    folder: Path, pinged: Running, request: pytest.FixtureRequest
) -> None:
    at_rest(pinged)
    # What is new is written twice a second.
    time.sleep(1.5)
    log = folder / "second"
    places = ["--control", pinged.control, "--state", str(folder / "state"), "--listen", "127.0.0.1:0"]
    record = ["--record", str(folder / "recordings")]
    with log.open("w") as out:
        command = [*MAPLE, "run", str(folder / "lists.py"), *places, "--takeover", *record]
        second = subprocess.Popen(command, stdout=out, stderr=out)
    request.addfinalizer(second.kill)
    assert pinged.process.wait(20) == 0, pinged.log.read_text()
    wait_for("the second", lambda: "took over 2 connections" in log.read_text())
    wait_for("its decisions", lambda: leaves(pinged) >= 2)
    at_rest(pinged)
    second.terminate()
    assert second.wait(20) == 0
    runs = sorted(run.name for run in (folder / "recordings").iterdir())
    assert len(runs) == 2
    for run in runs:
        told = replayed(folder, run=run)
        assert told["identical"] and number(told, "events") > 10, told


def test_what_a_thread_of_the_policy_wrote_is_repeated_and_the_thread_is_not(
    folder: Path, start: Callable[..., Running]
) -> None:
    with (folder / "lists.py").open("a") as file:
        file.write(textwrap.dedent(THREADED))
    running = start()
    # The policy drops some flows, so its status is 1.
    assert emulate(running, 2).wait(30) == 1
    assert running.stop() == 0
    told = replayed(folder)
    assert told["identical"], told["difference"]
    (run,) = (folder / "recordings").iterdir()
    assert (folder / "beats.log").exists() and not (run / "policy-0/beats.log").exists()


def test_another_policy_is_compared_packet_by_packet(folder: Path) -> None:
    run_emulated(folder)
    other = replayed(folder, "--policy", str(folder / "stricter.py"), status=2)
    assert other["identical"], "the recorded policy decides"
    told = other["other"]
    assert isinstance(told, dict)
    differences = told["differences"]
    assert differences and set(told["counts"]) == {"loses"}
    for one in differences:
        assert ":80" in one["packet"] and one["after"]["route"] == "drop", one
        assert "/lists.py:" in one["before"]["lines"] and "/stricter.py:6" in one["after"]["lines"], one
    text = maple("replay", str(folder / "recordings"), "--policy", str(folder / "stricter.py")).stdout
    assert "lose: these packets leave by fewer edge ports" in text and "would have gone otherwise by" in text
    same = replayed(folder, "--policy", str(folder / "lists.py"))
    assert isinstance(same["other"], dict) and same["other"]["counts"] == {}


def test_a_recording_that_was_changed_or_is_another_versions_is_refused(folder: Path) -> None:
    nothing = maple("replay", str(folder))
    assert nothing.returncode == 1 and "has no recording" in nothing.stderr
    run_emulated(folder)
    (run,) = (folder / "recordings").iterdir()
    (run / "policy-0/helper.py").write_text("DENIED = 1\n")
    changed = maple("replay", str(run))
    assert changed.returncode == 1 and "are not those that were recorded" in changed.stderr
    header = run / "header.json"
    header.write_text(header.read_text().replace('"maple": "', '"maple": "9.'))
    other = maple("replay", str(run))
    assert other.returncode == 1 and "was recorded by Maple 9." in other.stderr
    wrong = maple("replay", str(run), "--until", "noon")
    assert wrong.returncode == 1


def test_the_limit_and_handlers_are_checked_at_the_start(folder: Path) -> None:
    recordings = str(folder / "recordings")
    small = maple("run", "builtin:flood", "--record", recordings, "--record-limit", "1kB", "--control", "none")
    assert small.returncode == 1 and "recordings take at least" in small.stderr
    handler = maple("run", "builtin:hub", "--record", recordings, "--control", "none")
    assert handler.returncode == 2 and "--record is for policies" in handler.stderr
    wrong = maple("run", "builtin:flood", "--record", recordings, "--record-limit", "much")
    assert wrong.returncode == 2 and "is not a number of bytes such as 1GiB" in wrong.stderr
