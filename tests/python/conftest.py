"""What the Python tests share: a bench with two switches and three hosts, and emulated networks of a controller."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from maple.testing import Bench

if TYPE_CHECKING:
    from test_command import Running

settings.register_profile("maple", deadline=None, max_examples=150, print_blob=True)
settings.load_profile("maple")

H1, H2, H3 = "00:00:00:00:00:01", "00:00:00:00:00:02", "00:00:00:00:00:03"


@pytest.fixture
def bench() -> Bench:
    """Switch 1 with hosts 1 and 2 at ports 1 and 2, switch 2 with host 3 at port 1; they are linked by ports 3."""
    bench = Bench()
    bench.switch(1, [1, 2])
    bench.switch(2, [1])
    bench.link((1, 3), (2, 3))
    bench.host(H1, 1, 1, "10.0.0.1")
    bench.host(H2, 1, 2, "10.0.0.2")
    bench.host(H3, 2, 1, "10.0.0.3")
    return bench


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Running]:
    """A controller with an HTTP API, an administrator and a reader."""
    from test_command import EXAMPLES, TOKEN, Running

    tokens = tmp_path / "tokens"
    tokens.write_text(f"admin ann {TOKEN}\nread bob the-token-of-readers\n")
    tokens.chmod(0o600)
    policy = str(EXAMPLES / "shortest_path.py")
    with Running(tmp_path, policy, "--http", "127.0.0.1:0", "--http-tokens", str(tokens)) as one:
        yield one


@pytest.fixture
def emulate() -> Iterator[Callable[[Running], None]]:
    """A function that gives a controller a new network whose hosts talk, in the place of an earlier one."""
    from test_command import wait_for

    started: list[subprocess.Popen[bytes]] = []

    def stop() -> None:
        for one in started:
            one.kill()
            one.wait()

    def new(running: Running) -> None:
        stop()
        command = [sys.executable, "-m", "maple", "emulate", "linear:2", "--controller", running.address]
        started.append(subprocess.Popen([*command, "--traffic", "60s"], stdout=subprocess.DEVNULL))

        def leaves() -> int:
            shown = running.show("stats")
            assert isinstance(shown, dict)
            return int(shown["engine"]["leaves"])

        wait_for("decisions", lambda: leaves() >= 2)

    yield new
    stop()
