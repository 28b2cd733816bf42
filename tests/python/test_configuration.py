"""A configuration: what a running controller makes of it, by the command."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_command import MAPLE, maple, wait_for

ROOT = Path(__file__).resolve().parents[2]

POLICY = """
import maple

blocked = maple.Table("blocked", key=maple.Mac, value=bool)
mode = maple.Var("mode", "night")

@maple.policy
def run(pkt, net):
    if pkt.eth_src in blocked or mode.value != "day":
        return maple.drop()
    return maple.flood()
"""

CONFIG = """
policy = "policy.py"
listen = ["127.0.0.1:0"]
control = "control"

[switches.core1]
dpid = "0000000000000001"

[hosts.alice]
mac = "00:00:00:00:00:01"

[tables.blocked]
alice = true

[variables]
mode = "day"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "policy.py").write_text(POLICY)
    (tmp_path / "maple.toml").write_text(CONFIG)
    return tmp_path


class Running:
    """`maple run` with a configuration."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.control, self.log = folder / "control", folder / "log"
        command = [*MAPLE, "run", "--config", str(folder / "maple.toml"), *arguments]
        with self.log.open("w") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, cwd="/")
        wait_for("the control socket", lambda: self.control.exists() or self.process.poll() is not None)

    def show(self, *what: str) -> str:
        done = maple("show", *what, "--control", str(self.control))
        assert done.returncode == 0, done.stderr
        return done.stdout

    def text(self) -> str:
        return self.log.read_text()

    def address(self) -> str:
        wait_for("the address", lambda: "listening on " in self.text())
        return self.text().split("listening on ")[1].split()[0]


@pytest.fixture
def running(folder: Path) -> Iterator[Running]:
    running = Running(folder)
    yield running
    running.process.kill()
    running.process.wait(10)


def test_a_controller_runs_as_its_file_says_and_prints_names(running: Running) -> None:
    assert running.show("names") == "core1 is 0000000000000001\nalice is 00:00:00:00:00:01\n"
    control = str(running.control)
    assert json.loads(maple("state", "get", "blocked", "--control", control).stdout) == [
        [{"mac": "00:00:00:00:00:01"}, True]
    ]
    assert json.loads(maple("state", "get", "mode", "--var", "--control", control).stdout) == "day"
    emulation = subprocess.Popen(
        [*MAPLE, "emulate", "linear:2", "--controller", running.address(), "--traffic", "60s"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_for("both switches", lambda: running.show("switches").count("\n") == 2)
        wait_for("hosts", lambda: "alice (00:00:00:00:00:01) at core1:" in running.show("hosts"))
        assert "switch core1 (0000000000000001) at 127.0.0.1" in running.show("switches")
        assert "switch core1 connected from" in running.text()
        wait_for("the link", lambda: "core1:" in running.show("links"))
        assert maple("show", "rules", "core1", "--control", control).stdout.startswith("switch core1")
        assert "core1" in running.show("topology") and "host alice" in running.show("topology")
        # Programs read ids.
        assert json.loads(running.show("switches", "--json"))[0]["switch"] == "0000000000000001"
        wrong = maple("show", "rules", "core9", "--control", control)
        assert wrong.returncode == 1 and '"core9" is not a switch' in wrong.stderr
        # A name stands where an address is wanted.
        assert maple("state", "delete", "blocked", "alice", "--control", control).returncode == 0
        assert json.loads(maple("state", "get", "blocked", "--control", control).stdout) == []
    finally:
        emulation.kill()
        emulation.wait(10)
    running.process.send_signal(signal.SIGTERM)
    assert running.process.wait(20) == 0
    assert "packet-ins" in running.text()


def test_the_command_line_has_precedence(folder: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    running = Running(folder, "--listen", f"127.0.0.1:{port}", "--middlebox", "core1:3")
    try:
        assert running.address() == f"127.0.0.1:{port}"
    finally:
        running.process.kill()
        running.process.wait(10)


def test_a_wrong_file_is_a_usage_error_with_all_that_is_wrong(folder: Path) -> None:
    (folder / "maple.toml").write_text(CONFIG + '\n[switches.core2]\ndpd = "2"\n[hosts.bob]\nmac = "x"\n')
    done = maple("run", "--config", "maple.toml", cwd=folder)
    assert done.returncode == 2
    assert 'maple.toml:19: switches.core2.dpd: unknown key; did you mean "dpid"?' in done.stderr
    assert "maple.toml:21: hosts.bob.mac:" in done.stderr
    checked = maple("config", "check", "maple.toml", cwd=folder)
    assert checked.returncode == 1 and "dpd" in checked.stderr
    (folder / "maple.toml").write_text(CONFIG)
    checked = maple("config", "check", "maple.toml", cwd=folder)
    assert (checked.returncode, checked.stderr) == (0, "")


def test_rows_of_another_type_and_unknown_tables_are_told(folder: Path) -> None:
    (folder / "maple.toml").write_text(CONFIG.replace("alice = true", "alice = 3"))
    done = maple("run", "--config", "maple.toml", cwd=folder)
    assert done.returncode == 2 and "maple.toml:13: " in done.stderr, done.stderr
    (folder / "maple.toml").write_text(CONFIG.replace("[tables.blocked]", "[tables.bloked]"))
    running = Running(folder)
    try:
        wait_for("a start", lambda: "listening on " in running.text())
        assert "the policy has not declared the table bloked" in running.text()
    finally:
        running.process.kill()
        running.process.wait(10)


def test_fixed_places_need_host_tracking(folder: Path) -> None:
    text = CONFIG.replace('mac = "00:00:00:00:00:01"', 'mac = "00:00:00:00:00:01"\nat = "core1:1"')
    (folder / "maple.toml").write_text(text)
    done = maple("run", "--config", "maple.toml", "--track-hosts", "off", cwd=folder)
    assert done.returncode == 2 and "host tracking" in done.stderr


def test_the_effective_configuration_says_where_values_are_from(folder: Path) -> None:
    done = maple("config", "show", "--config", "maple.toml", "--workers", "3", cwd=folder)
    lines = {line.split(" = ")[0]: line.split("# ")[1] for line in done.stdout.splitlines() if " = " in line}
    assert lines["workers"] == "command line"
    assert lines["policy"] == "maple.toml:2"
    assert lines["audit"] == "default"
    assert "host alice: 00:00:00:00:00:01, anywhere" in done.stdout


def test_the_example_is_right() -> None:
    done = maple("config", "check", str(ROOT / "contrib" / "maple.toml"))
    assert done.returncode == 0, done.stderr


def test_without_a_policy_and_a_configuration_the_way_out_is_told() -> None:
    if Path("/etc/maple/maple.toml").exists():
        pytest.skip("this machine has a configuration")
    done = maple("run")
    assert done.returncode == 2 and "--config FILE" in done.stderr
