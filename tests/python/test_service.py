"""Maple under a service manager, which the tests play; its logs; completions and manual pages."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MAPLE = [sys.executable, "-m", "maple"]
# A hello of OpenFlow 1.3, and what a controller sends first.
HELLO = bytes([4, 0, 0, 8, 0, 0, 0, 1])


def maple(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*MAPLE, *arguments], capture_output=True, text=True, timeout=60, check=False)


def wait_for(what: str, condition: Callable[[], object]) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end, f"still waiting for {what}"
        time.sleep(0.05)


class Manager:
    """A service manager: a socket for what services tell, a port, and folders."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.told = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.told.bind(str(folder / "notify"))
        self.told.settimeout(20)
        self.port = socket.socket()
        self.port.bind(("127.0.0.1", 0))
        self.port.listen(16)
        for name in ["state", "run"]:
            (folder / name).mkdir(mode=0o700)
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, *arguments: str, **variables: str) -> subprocess.Popen[bytes]:
        script = f'export LISTEN_PID=$$ WATCHDOG_PID=$$; exec "$@" 3<&{self.port.fileno()}'
        env = {
            **{name: value for name, value in os.environ.items() if name != "MAPLE_CONTROL"},
            "NOTIFY_SOCKET": str(self.folder / "notify"),
            "LISTEN_FDS": "1",
            "STATE_DIRECTORY": str(self.folder / "state"),
            "RUNTIME_DIRECTORY": str(self.folder / "run"),
            **variables,
        }
        with (self.folder / "log").open("w") as log:
            self.process = subprocess.Popen(
                ["bash", "-c", script, "bash", *MAPLE, "run", *arguments],
                env=env,
                pass_fds=[self.port.fileno()],
                stdout=log,
                stderr=log,
            )
        return self.process

    def hear(self, wanted: str) -> str:
        """What is told, until it is this."""
        while True:
            text = self.told.recv(4096).decode()
            if text.startswith(wanted):
                return text

    def control(self) -> str:
        return str(self.folder / "run" / "control.sock")

    def log(self) -> str:
        return (self.folder / "log").read_text()


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Manager]:
    manager = Manager(tmp_path)
    yield manager
    if manager.process is not None:
        with contextlib.suppress(ProcessLookupError):
            manager.process.kill()
        manager.process.wait(10)
    manager.told.close()
    manager.port.close()


def greet(port: int) -> socket.socket:
    peer = socket.create_connection(("127.0.0.1", port), timeout=20)
    peer.sendall(HELLO)
    return peer


def test_a_service_is_ready_reloads_stops_and_uses_what_it_is_given(manager: Manager) -> None:
    process = manager.start("builtin:flood")
    port = manager.port.getsockname()[1]
    assert f"STATUS=listening on 127.0.0.1:{port}" in manager.hear("READY=1")
    # The port, the control socket and the state file are those of the service manager.
    with greet(port) as peer:
        assert len(peer.recv(8)) == 8
    assert json.loads(maple("show", "stats", "--json", "--control", manager.control()).stdout)["connections"] >= 0
    assert (manager.folder / "state" / "state.redb").exists()
    process.send_signal(signal.SIGHUP)
    manager.hear("RELOADING=1")
    manager.hear("READY=1")
    wait_for("the reload", lambda: "builtin:flood reloaded" in manager.log())
    process.send_signal(signal.SIGTERM)
    manager.hear("STOPPING=1")
    assert process.wait(20) == 0
    assert "packet-ins" in manager.log()


def test_the_port_stays_open_while_the_service_restarts(manager: Manager) -> None:
    port = manager.port.getsockname()[1]
    first = manager.start("builtin:flood")
    manager.hear("READY=1")
    first.send_signal(signal.SIGINT)
    assert first.wait(20) == 0
    # Nobody runs, and a switch connects.
    with greet(port) as peer:
        manager.start("builtin:flood")
        manager.hear("READY=1")
        assert len(peer.recv(8)) == 8, "it is served"


def test_the_watchdog_is_fed(manager: Manager) -> None:
    manager.start("builtin:hub", WATCHDOG_USEC="200000")
    manager.hear("READY=1")
    for _ in range(3):
        manager.hear("WATCHDOG=1")


def test_a_watchdog_of_another_process_is_not_fed(manager: Manager) -> None:
    manager.start("builtin:flood", WATCHDOG_USEC="1000", LISTEN_FDS="1")
    manager.hear("READY=1")
    manager.hear("WATCHDOG=1")
    assert manager.process is not None
    manager.process.kill()
    manager.process.wait(10)
    # The same variables, and a process id that is not the service's.
    script = 'export WATCHDOG_PID=1; exec "$@"'
    command = ["bash", "-c", script, "bash", *MAPLE, "run", "builtin:flood", "--listen", "127.0.0.1:0"]
    env = {
        **os.environ,
        "NOTIFY_SOCKET": str(manager.folder / "notify"),
        "WATCHDOG_USEC": "1000",
        "MAPLE_CONTROL": str(manager.folder / "control"),
    }
    with subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL) as process:
        try:
            wait_for("a start", lambda: (manager.folder / "control").exists())
            process.send_signal(signal.SIGTERM)
            heard: list[str] = []
            while not heard or not heard[-1].startswith("STOPPING"):
                heard.append(manager.told.recv(4096).decode())
            ready = next(at for at, text in enumerate(heard) if text.startswith("READY"))
            assert not any(text.startswith("WATCHDOG=1") for text in heard[ready:])
        finally:
            process.kill()


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze")
def test_the_units_are_right(tmp_path: Path) -> None:
    for name in ["maple.service", "maple.socket"]:
        text = (ROOT / "contrib" / "systemd" / name).read_text()
        # The program is not installed here.
        (tmp_path / name).write_text(text.replace("/usr/bin/maple", "/bin/true"))
    units = [str(tmp_path / name) for name in ["maple.service", "maple.socket"]]
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *units], capture_output=True, text=True, check=False, timeout=60
    )
    about = [line for line in done.stderr.splitlines() if "maple" in line]
    assert about == [], done.stderr


def test_the_unit_starts_what_the_command_line_has() -> None:
    text = (ROOT / "contrib" / "systemd" / "maple.service").read_text()
    line = next(line for line in text.splitlines() if line.startswith("ExecStart="))
    arguments = line.split()[1:]
    assert arguments[0] == "run"
    done = maple("config", "show", arguments[1], str(ROOT / "contrib" / "maple.toml"), *arguments[3:])
    assert done.returncode == 0, done.stderr
    for wanted in ["Type=notify", "NoNewPrivileges=yes", "ProtectSystem=strict", "WatchdogSec=", "User=maple"]:
        assert wanted in text


class Logging:
    """`maple run` with a form of the log."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.control, self.log = folder / "control", folder / "log"
        command = [*MAPLE, "run", "builtin:flood", "--listen", "127.0.0.1:0", "--control", str(self.control)]
        with self.log.open("w") as log:
            self.process = subprocess.Popen([*command, *arguments], stdout=log, stderr=log)
        wait_for("the control socket", lambda: self.control.exists() or self.process.poll() is not None)

    def lines(self) -> list[str]:
        return self.log.read_text().splitlines()

    def provoke(self) -> None:
        """A peer says something that is not OpenFlow, with control characters."""
        wait_for("the port", lambda: "listening on " in self.log.read_text())
        address = self.log.read_text().split("listening on ")[1].split()[0].strip('"}')
        host, port = address.split('"')[0].rsplit(":", 1)
        with socket.create_connection((host, int(port)), timeout=20) as peer:
            peer.sendall(b"GET /\x1b[2J HTTP/1.1\r\n\r\n")
            peer.recv(100)

    def end(self) -> None:
        self.process.kill()
        self.process.wait(10)


def test_json_lines_have_time_level_area_and_text(tmp_path: Path) -> None:
    run = Logging(tmp_path, "--log-format", "json")
    try:
        run.provoke()
        wait_for("the notice", lambda: "connection from" in run.log.read_text())
        run.process.send_signal(signal.SIGTERM)
        assert run.process.wait(20) == 0
        entries = [json.loads(line) for line in run.lines()]
        assert all(set(entry) == {"time", "level", "area", "text"} for entry in entries)
        refused = [entry for entry in entries if "connection from" in entry["text"]]
        assert [(entry["level"], entry["area"]) for entry in refused] == [("warning", "session")], "once"
        assert "packet-ins" in entries[-1]["text"]
    finally:
        run.end()


def test_lines_for_the_journal_begin_with_their_priority(tmp_path: Path) -> None:
    run = Logging(tmp_path, "--log-format", "journald", "--verbose")
    try:
        run.provoke()
        wait_for("the notice", lambda: "connection from" in run.log.read_text())
        assert all(line[0] == "<" and line[2] == ">" for line in run.lines()), run.lines()
        about = [line for line in run.lines() if "connection from" in line]
        assert len(about) == 1 and about[0].startswith("<4>session: "), "an event is one line, also with --verbose"
        assert "\x1b" not in run.log.read_text()
    finally:
        run.end()


def test_an_area_can_be_silent(tmp_path: Path) -> None:
    run = Logging(tmp_path, "--log", "session=off")
    try:
        run.provoke()
        shown = maple("show", "log", "--control", str(run.control)).stdout
        assert "warning session  connection from" in shown, "the controller keeps it"
        run.process.send_signal(signal.SIGTERM)
        assert run.process.wait(20) == 0
        assert "connection from" not in run.log.read_text()
    finally:
        run.end()


def test_the_log_is_followed_until_the_controller_ends(tmp_path: Path) -> None:
    run = Logging(tmp_path)
    try:
        command = [*MAPLE, "show", "log", "--follow", "--control", str(run.control)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as follower:
            run.provoke()
            assert follower.stdout is not None
            assert "session  connection from" in follower.stdout.readline()
            run.process.send_signal(signal.SIGTERM)
            assert follower.wait(20) == 0
    finally:
        run.end()


def test_wrong_levels_and_areas_are_named() -> None:
    for wrong, why in [("hosts=loud", "there are off, error, warning, info, debug"), ("host=info", "hosts, policy")]:
        done = maple("run", "builtin:flood", "--log", wrong)
        assert done.returncode == 2 and why in done.stderr


def test_no_colour_where_it_is_not_wanted(tmp_path: Path) -> None:
    done = subprocess.run(
        [*MAPLE, "run", "--no-such-option"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "NO_COLOR": "1"},
    )
    assert done.returncode == 2 and "\x1b" not in done.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completions_are_right(shell: str, tmp_path: Path) -> None:
    done = maple("completions", shell)
    assert done.returncode == 0 and "log-format" in done.stdout
    script = tmp_path / "maple"
    script.write_text(done.stdout)
    if shutil.which(shell) is not None:
        subprocess.run([shell, "-n", str(script)], check=True, timeout=60)


def test_bash_completes_options(tmp_path: Path) -> None:
    (tmp_path / "maple").write_text(maple("completions", "bash").stdout)
    script = (
        f"source {tmp_path}/maple; COMP_WORDS=(maple run --log-f); COMP_CWORD=2; "
        '_maple maple --log-f run; echo "${COMPREPLY[@]}"'
    )
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False, timeout=60)
    assert done.stdout.split() == ["--log-format"], done.stderr


def test_each_command_has_a_manual_page(tmp_path: Path) -> None:
    assert maple("man", str(tmp_path / "man1")).returncode == 0
    pages = {page.name for page in (tmp_path / "man1").iterdir()}
    assert {"maple.1", "maple-run.1", "maple-show.1", "maple-show-rules.1", "maple-config-check.1"} <= pages
    assert "log\\-format" in (tmp_path / "man1" / "maple-run.1").read_text()
    if shutil.which("man") is None or shutil.which("groff") is None:
        return
    for page in sorted(pages):
        done = subprocess.run(
            ["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", str(tmp_path / "man1" / page)],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
            env={**os.environ, "LC_ALL": "C.UTF-8", "MANROFFSEQ": ""},
        )
        assert (done.returncode, done.stderr) == (0, ""), page
