"""What docs/compatibility.md says: formats, a state file of the first version, two programs that do not fit."""

from __future__ import annotations

import contextlib
import gzip
import json
import re
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_command import Running, maple

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "compatibility.md").read_text()
DATA = Path(__file__).parent / "data"


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    one = Running(tmp_path, "builtin:flood")
    yield one
    one.stop()


def test_the_page_has_the_formats_of_the_program(running: Running) -> None:
    versions = running.show("version")
    assert isinstance(versions, dict)
    formats = dict(re.findall(r"^\| ([a-z][^|]*?) \| ([\d.]+) \|", PAGE, re.MULTILINE))
    assert formats == {
        "tables and variables in the state file": versions["state"],
        "what rules were made of, in the state file": versions["leaves"],
        "plans (`maple plan --out`)": versions["plan"],
        "control protocol": versions["protocol"],
    }
    (shown,) = re.findall(r"^```\n\$ maple show version\n(.*?)```", PAGE, re.MULTILINE | re.DOTALL)
    assert maple("show", "version", "--control", running.control).stdout == shown
    assert maple("--version").stdout.split()[:2] == ["maple", versions["maple"]]


def test_the_page_has_the_versions_that_the_packages_ask_for() -> None:
    (python,) = re.findall(r"^\| Python \| ([\d.]+) and newer", PAGE, re.MULTILINE)
    (rust,) = re.findall(r"^\| Rust, to build it \| ([\d.]+) and newer", PAGE, re.MULTILINE)
    assert f'requires-python = ">={python}"' in (ROOT / "pyproject.toml").read_text()
    workspace = (ROOT / "Cargo.toml").read_text()
    assert f'rust-version = "{rust}"' in workspace
    assert f"abi3-py{python.replace('.', '')}" in workspace


def test_a_state_file_of_the_first_format_is_read(tmp_path: Path) -> None:
    file = tmp_path / "state.redb"
    file.write_bytes(gzip.decompress((DATA / "state-1.redb.gz").read_bytes()))
    running = Running(tmp_path, str(DATA / "kept.py"), "--state", str(file))
    try:
        got = maple("state", "get", "blocked", "--control", running.control)
        assert json.loads(got.stdout) == [[{"mac": "00:00:00:00:00:07"}, True]], got.stderr
        assert maple("state", "get", "mode", "--var", "--control", running.control).stdout == '"night"\n'
    finally:
        assert running.stop() == 0
    assert "another version" not in running.log.read_text()


def test_a_plan_of_another_format_is_refused(tmp_path: Path) -> None:
    plan = {"format": 2, "policy": "builtin:flood", "sources": "aa", "changes": "bb"}
    (tmp_path / "plan").write_text(json.dumps(plan))
    done = maple("apply", str(tmp_path / "plan"), "--control", str(tmp_path / "nobody"))
    assert done.returncode == 1
    assert "or of another version of Maple: make it again" in done.stderr


@contextlib.contextmanager
def answering(path: Path, answer: dict[str, object]) -> Iterator[str]:
    """A controller that says this to everything."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    client, _ = listener.accept()
                    with client:
                        client.makefile().readline()
                        client.sendall(json.dumps(answer).encode() + b"\n")

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield str(path)
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(10)


@pytest.mark.parametrize(
    "command", [["show", "hosts"], ["show", "version", "--json"], ["state", "list"], ["show", "log", "--follow"]]
)
def test_a_controller_of_another_protocol_is_named_and_nothing_is_read_from_its_answer(
    tmp_path: Path, command: list[str]
) -> None:
    with answering(tmp_path / "control", {"ok": {"hosts": 7}, "protocol": "2.0"}) as control:
        done = maple(*command, "--control", control)
    assert (done.returncode, done.stdout) == (1, "")
    assert "the controller speaks version 2.0 of the control protocol, and this program 1.1" in done.stderr


def test_what_a_newer_controller_adds_does_not_disturb(tmp_path: Path) -> None:
    answer = {"ok": [], "protocol": "1.9", "since": "1.9"}
    with answering(tmp_path / "control", answer) as control:
        done = maple("show", "hosts", "--control", control)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_take_over_of_another_form_is_refused_and_the_controller_goes_on(running: Running) -> None:
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(20)
        client.connect(running.control)
        client.sendall(b'{"takeover":{"version":2}}\n')
        answer = json.loads(client.makefile().readline())
    assert answer["error"].startswith("not a request: unknown name `takeover`"), answer
    assert running.process.poll() is None
    assert running.show("hosts") == []
