"""`maple doctor`: what it finds with a controller and without one, for people and for programs."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from test_command import EXAMPLES, MAPLE, Running, wait_for

DOCS = Path(__file__).resolve().parents[2] / "docs"
FINDING = {"id": str, "level": str, "what": str, "where": str, "consequence": str, "mend": str, "page": str}


class Doctor:
    """`maple doctor` on a host without Open vSwitch, systemd and other controllers, whatever the machine has."""

    def __init__(self, folder: Path) -> None:
        programs = folder / "programs"
        programs.mkdir()
        for name in ("ovs-vsctl", "timedatectl", "systemctl"):
            (programs / name).write_text("#!/bin/sh\necho 'nobody is here' >&2\nexit 1\n")
            (programs / name).chmod(0o755)
        (programs / "timedatectl").write_text("#!/bin/sh\necho yes\n")
        (folder / "own").mkdir(mode=0o700)
        path = f"{programs}:{os.environ['PATH']}"
        self.folder = folder
        self.env = os.environ | {
            "PATH": path,
            "XDG_RUNTIME_DIR": str(folder / "own"),
            "MAPLE_CONTROL": str(folder / "none"),
        }

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [*MAPLE, "doctor", *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=self.env)

    def json(self, *arguments: str) -> dict[str, Any]:
        done = self.run("--json", *arguments)
        assert done.returncode in (0, 2), done.stderr
        report: dict[str, Any] = json.loads(done.stdout)
        bad = [one for one in report["findings"] if one["level"] != "note"]
        assert done.returncode == (2 if bad else 0)
        return report

    def found(self, *arguments: str) -> dict[str, dict[str, str]]:
        """The findings by id, without those about the machine that the tests run on."""
        machine = {"listen-backlog", "file-limit", "cpu-quota", "cores-shared", "python-version"}
        findings = [one for one in self.json(*arguments)["findings"] if "/run/maple" not in one["where"]]
        return {one["id"]: one for one in findings if one["id"] not in machine}


@pytest.fixture
def doctor(tmp_path: Path) -> Doctor:
    return Doctor(tmp_path)


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    state = str(tmp_path / "state")
    with Running(tmp_path, str(EXAMPLES / "shortest_path.py"), "--state", state, "--cores", "0") as one:
        yield one


def test_a_controller_with_switches_and_no_trouble_has_no_finding(doctor: Doctor, running: Running) -> None:
    command = [*MAPLE, "emulate", "linear:2", "--controller", running.address]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as emulated:
        try:
            wait_for("two switches", lambda: len(running.show("switches")) == 2)  # type: ignore[arg-type]
            assert doctor.found("--control", running.control) == {}
            done = doctor.run("--control", running.control)
        finally:
            emulated.terminate()
    assert f"the controller (process {running.process.pid}) with 2 switches" in done.stdout
    assert "  Open vSwitch on this host, because ovs-vsctl failed: nobody is here\n" in done.stdout
    assert "\x1b" not in done.stdout, "there are no colours in a pipe"
    if done.returncode == 0 and " note " not in done.stdout:
        assert re.search(r"(nothing was found in what was looked at|0 errors, 0 warnings, \d+ notes?)\n$", done.stdout)


def test_a_controller_without_switches_and_state_is_told(doctor: Doctor, tmp_path: Path) -> None:
    (tmp_path / "second").mkdir()
    running = Running(tmp_path / "second", "builtin:flood", "--cores", "0")
    try:
        found = doctor.found("--control", running.control)
    finally:
        running.stop()
    assert {id_: one["level"] for id_, one in found.items()} == {"no-switch": "warning", "no-state-file": "note"}


def test_a_policy_that_fails_is_told_with_the_command_that_shows_why(doctor: Doctor, tmp_path: Path) -> None:
    policy = tmp_path / "fails.py"
    policy.write_text("from maple import policy\n\n@policy\ndef f(pkt, net):\n    raise ValueError('no')\n")
    running = Running(tmp_path, str(policy), "--state", str(tmp_path / "state"))
    try:
        subprocess.run(
            [*MAPLE, "emulate", "linear:2", "--controller", running.address, "--traffic", "1s"],
            stdout=subprocess.DEVNULL,
            timeout=60,
            check=False,
        )
        finding = doctor.found("--control", running.control)["policy-fails"]
        shown = subprocess.run(
            [*MAPLE, *finding["mend"].split()[1:]], capture_output=True, text=True, timeout=60, check=True
        )
    finally:
        running.stop()
    assert "ValueError: no" in shown.stdout


def test_without_a_controller_it_says_so_and_finds_its_stale_socket(doctor: Doctor, running: Running) -> None:
    running.kill()
    report = doctor.json("--control", running.control)
    assert any(one["what"] == "the controller" and "no controller at" in one["why"] for one in report["not_looked_at"])
    # This machine may have others.
    where = f"control socket {running.control}"
    (stale,) = [one for one in report["findings"] if one["id"] == "stale-socket" and one["where"] == where]
    assert stale["mend"] == f"rm {running.control}"
    subprocess.run(["sh", "-c", stale["mend"]], check=True)
    left = doctor.json("--control", running.control)["findings"]
    assert where not in [one["where"] for one in left]


def test_a_port_in_use_is_told_with_the_process(doctor: Doctor, tmp_path: Path) -> None:
    config = tmp_path / "maple.toml"
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        config.write_text(f'policy = "builtin:flood"\nlisten = ["0.0.0.0:{port}"]\n')
        finding = doctor.found("--config", str(config))["port-in-use"]
    assert finding["level"] == "error" and finding["where"] == f"address 0.0.0.0:{port}"
    assert finding["what"].startswith(f"process {os.getpid()} (")
    assert finding["mend"] == "maple run POLICY --listen 0.0.0.0:6653", "the other program is not ended"
    assert "port-in-use" not in doctor.found("--config", str(config))


def test_a_controller_with_another_control_socket_is_no_other_program(
    doctor: Doctor, running: Running, tmp_path: Path
) -> None:
    config = tmp_path / "maple.toml"
    config.write_text(f'policy = "p.py"\nlisten = ["{running.address}"]\n')
    finding = doctor.found("--config", str(config))["port-in-use"]
    assert finding["level"] == "note" and f"a controller (process {running.process.pid})" in finding["what"]
    assert finding["mend"] == "maple doctor --control SOCKET"
    # The configuration is that of another controller than the one that is asked.
    config.write_text(f'policy = "p.py"\nlisten = ["{running.address}"]\ncontrol = "{tmp_path / "its"}"\n')
    assert "port-in-use" not in doctor.found("--config", str(config), "--control", str(tmp_path / "mine"))
    # Without a configuration nobody knows where a controller would listen.
    unseen = [one["what"] for one in doctor.json()["not_looked_at"]]
    assert "who listens on the controller's addresses" in unseen


def test_a_controller_of_the_configuration_is_not_in_its_own_way(
    doctor: Doctor, running: Running, tmp_path: Path
) -> None:
    config = tmp_path / "maple.toml"
    config.write_text(f'policy = "p.py"\nlisten = ["{running.address}"]\ncontrol = "{running.control}"\n')
    assert set(doctor.found("--config", str(config))) == {"no-switch"}


def test_what_is_wrong_in_a_configuration_is_found(doctor: Doctor, tmp_path: Path) -> None:
    config = tmp_path / "maple.toml"
    config.write_text('workes = 1\nstate = "/nonexistent/maple/state"\n')
    found = doctor.found("--config", str(config))
    assert 'did you mean "workers"' in found["configuration"]["what"]
    config.write_text('policy = "p.py"\nlisten = ["127.0.0.1:1"]\nstate = "/nonexistent/maple/state"\n')
    assert "there is no folder /nonexistent/maple" in doctor.found("--config", str(config))["state-file"]["what"]
    assert "install -d" in doctor.found("--config", str(config))["state-file"]["mend"]


def test_json_has_one_shape_and_each_page_is_a_heading(doctor: Doctor, running: Running) -> None:
    report = doctor.json("--control", running.control)
    assert set(report) == {"findings", "looked_at", "not_looked_at"}
    assert report["findings"], "no switch is connected"
    headings = set(re.findall(r"^### (\S+)$", (DOCS / "doctor.md").read_text(), re.MULTILINE))
    for one in report["findings"]:
        assert {name: type(value) for name, value in one.items()} == FINDING and all(one.values())
        assert one["level"] in {"error", "warning", "note"}
        assert one["id"] in headings and one["page"] == f"docs/doctor.md#{one['id']}"
    assert all(isinstance(what, str) and what for what in report["looked_at"])
    assert all(set(one) == {"what", "why"} for one in report["not_looked_at"])


def test_all_ids_are_listed_and_documented(doctor: Doctor) -> None:
    done = doctor.run("--list")
    listed = [line.split()[0] for line in done.stdout.splitlines()]
    assert done.returncode == 0
    assert listed == re.findall(r"^### (\S+)$", (DOCS / "doctor.md").read_text(), re.MULTILINE)


def test_a_wrong_command_line_has_the_status_of_a_failure(doctor: Doctor) -> None:
    assert doctor.run("--nonsense").returncode == 1


def test_what_others_say_cannot_control_the_terminal(doctor: Doctor) -> None:
    (doctor.folder / "programs" / "ovs-vsctl").write_text("#!/bin/sh\nprintf '\\033]0;owned\\007' >&2\nexit 1\n")
    done = doctor.run()
    assert "\x1b" not in done.stdout and "\\u{1b}]0;owned" in done.stdout


def test_a_program_that_hangs_is_left_alone(doctor: Doctor) -> None:
    (doctor.folder / "programs" / "ovs-vsctl").write_text("#!/bin/sh\nexec sleep 60\n")
    assert "because ovs-vsctl did not end within 5s" in doctor.run().stdout
