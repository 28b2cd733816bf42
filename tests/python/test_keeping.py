"""State that survives a restart of `maple run`, also when it is killed in the middle of its writes."""

from __future__ import annotations

import functools
import json
import re
import signal
import subprocess
import textwrap
from pathlib import Path

from test_command import MAPLE, Running, maple, wait_for

POLICY = """
    import sys, threading, time
    from maple import Counter, Table, Var, atomically, policy, flood

    limits, mode = Table("limits", persist=True), Var("mode", "day", persist=True)
    sum, seen = Counter("sum", persist=True), Table("seen")
    limits.update({"a": 1, "b": 2})

    @policy
    def keeping(pkt, net):
        return flood()

    def write(n):
        limits[str(n)] = n
        sum.add()

    def storm():
        first = sum.value
        sys.stdout.write(f"begins at {first}\\n")
        for n in range(first, 1_000_000):
            atomically(lambda: write(n))
            sys.stdout.write(f"acknowledged {n}\\n")

    threading.Thread(target=storm, daemon=True).start()
    time.sleep(0.2)  # the storm runs before the state file is read
    """


def state(running: Running, *arguments: str) -> object:
    done = maple("state", *arguments, "--control", running.control)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout) if done.stdout else None


def told(running: Running) -> list[int]:
    """The numbers that the storm said were written; a line that the kill cut says nothing."""
    return [int(number) for number in re.findall(r"^acknowledged (\d+)\n", running.log.read_text(), re.MULTILINE)]


def told_more(running: Running, than: int) -> bool:
    return len(told(running)) > than


def test_what_was_acknowledged_is_there_after_a_kill(tmp_path: Path) -> None:
    policy, file = tmp_path / "keeping.py", str(tmp_path / "state")
    policy.write_text(textwrap.dedent(POLICY))
    acknowledged = 0
    for round in range(3):
        running = Running(tmp_path, str(policy), "--state", file)
        try:
            if round > 0:
                wait_for("the storm", functools.partial(told_more, running, 0))
                begins = re.search(r"^begins at (\d+)\n", running.log.read_text(), re.MULTILINE)
                assert begins and int(begins[1]) >= acknowledged, "a thread sees what was kept from the start"
                assert state(running, "get", "limits", str(acknowledged - 1)) is None, "keys are text here"
                assert state(running, "get", "limits", f'"{acknowledged - 1}"') == acknowledged - 1
                assert state(running, "get", "limits", "a") is None, "what was deleted stays deleted"
                assert state(running, "get", "mode", "--var") == "night"
            else:
                state(running, "delete", "limits", "a")
                state(running, "set", "mode", "night", "--var")
            wait_for("some writes", functools.partial(told_more, running, 20))
        finally:
            running.stop(signal.SIGKILL)
        acknowledged = told(running)[-1] + 1
        Path(running.control).unlink()


def test_a_policy_that_waits_for_its_own_thread_is_told_why_nothing_happens(tmp_path: Path) -> None:
    policy = tmp_path / "waiting.py"
    policy.write_text(
        textwrap.dedent("""
            import threading
            from maple import Var, flood, policy

            mode = Var("mode", "day")
            night = threading.Thread(target=lambda: setattr(mode, "value", "night"))
            night.start()
            night.join(8)

            @policy
            def waiting(pkt, net):
                return flood() if mode.value == "night" else None
            """)
    )
    running = Running(tmp_path, str(policy))
    try:
        log = running.log.read_text()
        assert "a thread that the policy has started uses state and waits for the controller" in log
        wait_for("the write", lambda: state(running, "get", "mode", "--var") == "night")
    finally:
        running.stop()


def test_a_policy_that_wants_to_keep_something_is_told_where_and_one_at_a_time(tmp_path: Path) -> None:
    policy, file = tmp_path / "keeping.py", tmp_path / "state"
    policy.write_text(textwrap.dedent(POLICY))

    def refused(*arguments: str) -> str:
        command = [*MAPLE, "run", str(policy), "--listen", "127.0.0.1:0", "--control", "none", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
        assert done.returncode == 1
        return done.stderr

    assert "limits must survive a restart; name a file for it with --state FILE" in refused()
    running = Running(tmp_path, str(policy), "--state", str(file))
    try:
        assert f"another process uses the state file {file}" in refused("--state", str(file))
    finally:
        running.stop()
    file.write_text("something else")
    assert "is not a state file of Maple" in refused("--state", str(file))
