"""The login page of `examples/campus_portal.py`: what visitors can make it do is bounded."""

from __future__ import annotations

import importlib.util
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

FILE = Path(__file__).parents[2] / "examples/campus_portal.py"
SPEC = importlib.util.spec_from_file_location("campus_portal", FILE)
assert SPEC is not None and SPEC.loader is not None
portal: Any = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(portal)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Any]:
    """A portal with the user alice, and a controller that knows every host."""
    users = tmp_path / "users.txt"
    users.write_text(f"alice salt:{portal.scrambled('secret', 'salt')}\n")
    running = portal.Portal(("127.0.0.1", 0), "no socket", users)
    running.ask = lambda request: [{"mac": "00:00:00:00:00:01", "ipv4": ["127.0.0.1"], "ipv6": []}]
    thread = threading.Thread(target=running.serve_forever, args=(0.01,))
    thread.start()
    yield running
    running.shutdown()
    thread.join()
    running.server_close()


def post(server: Any, password: str) -> int:
    """The status that a login gets."""
    form = f"user=alice&password={password}".encode()
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/login", form, timeout=10) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_a_user_logs_in(server: Any) -> None:
    assert [post(server, "wrong"), post(server, "secret")] == [403, 200]


def test_an_address_with_wrong_passwords_has_to_wait(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    # On a computer with much to do checking a password takes a while.
    now = 1000.0
    monkeypatch.setattr(portal, "time", SimpleNamespace(monotonic=lambda: now))
    assert [post(server, "wrong") for _ in range(4)] == [403, 403, 403, 429]
    assert post(server, "secret") == 429, "the right password has to wait too"
    now += 0.9
    assert post(server, "secret") == 429
    now += 0.2
    assert post(server, "secret") == 200
    assert post(server, "wrong") == 403, "a right password ends the count"


def test_waits_grow_to_a_limit_and_are_forgotten() -> None:
    tries, now, waits = portal.Tries(), 100.0, []
    for _ in range(14):
        left = tries.begin("a", now)
        waits.append(left)
        now += left
        if left:
            assert tries.begin("a", now) == 0
    assert waits == [0, 0, 0, 1, 2, 4, 8, 16, 32, 64, 64, 64, 64, 64]
    assert tries.begin("b", now) == 0, "others do not wait"
    assert tries.begin("a", now + portal.FORGOTTEN_AFTER + 1) == 0
    assert tries.begin("a", now + portal.FORGOTTEN_AFTER + 1) == 0


def test_addresses_that_fail_are_remembered_up_to_a_number() -> None:
    tries = portal.Tries()
    for number in range(2 * portal.MAX_REMEMBERED):
        tries.begin(str(number), 0.0)
    assert len(tries._known) == portal.MAX_REMEMBERED


def test_few_passwords_are_checked_at_once(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(portal, "PATIENCE", 0.05)
    for _ in range(portal.PASSWORDS_AT_ONCE):
        server.passwords.acquire()
    assert post(server, "secret") == 503
    server.passwords.release()
    assert post(server, "secret") == 200


def test_connections_are_bounded_in_all_and_of_each_address(server: Any) -> None:
    def connect() -> socket.socket:
        return socket.create_connection(("127.0.0.1", server.server_port), timeout=5)

    held = [connect() for _ in range(portal.MAX_OF_ONE_ADDRESS)]
    with connect() as refused:
        assert refused.recv(1) == b"", "it is closed at once"
    for one in held:
        one.close()
    until = time.monotonic() + 5
    while server.connections._open and time.monotonic() < until:
        time.sleep(0.01)
    assert post(server, "secret") == 200

    connections = portal.Connections()
    assert all(connections.begin(str(number)) for number in range(portal.MAX_CONNECTIONS))
    assert not connections.begin("another")
    connections.end("0")
    assert connections.begin("another")
