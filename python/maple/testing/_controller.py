"""A controller in a process of its own, and its tables."""

from __future__ import annotations

import ipaddress
import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from maple import _maple
from maple.testing import _state

_T = TypeVar("_T")


def wait_for(what: str, condition: Callable[[], _T], timeout: float = 20.0) -> _T:
    """Waits until a condition is true, and returns its value.

    :raises RuntimeError: if it is not in time.
    """
    end = time.monotonic() + timeout
    while True:
        seen = condition()
        if seen:
            return seen
        if time.monotonic() > end:
            raise RuntimeError(f"after {timeout} s still waiting for {what}")
        time.sleep(0.02)


def sh(*command: str) -> str:
    """The output of a command.

    :raises RuntimeError: if it fails, with what it said.
    """
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def wait_for_caches() -> None:
    """Waits until Open vSwitch's switches forward by the rules that they have, and by none that they had.

    They confirm a change some milliseconds before their caches follow, on a busy machine longer.
    """
    # A round of the threads that compare the caches with the rules may have begun before the change.
    for _ in range(2):
        sh("ovs-appctl", "--timeout=20", "revalidator/wait")


def free_port() -> int:
    """A free TCP port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Controller:
    """A running ``maple run POLICY``."""

    def __init__(self, policy: str, folder: Path, costs: dict[str, list[dict[str, Any]]]) -> None:
        self.port = free_port()
        self._socket = folder / "control.sock"
        self._log = folder / "log"
        command = [sys.executable, "-m", "maple", "run", policy]
        command += ["--listen", f"127.0.0.1:{self.port}", "--control", str(self._socket)]
        if costs:
            file = folder / "costs.json"
            file.write_text(json.dumps(costs))
            command += ["--costs", str(file)]
        with self._log.open("w") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            wait_for("the controller to start", self._has_started)
        except BaseException:
            self.stop()
            raise

    def _has_started(self) -> bool:
        status = self._process.poll()
        if status is not None:
            raise RuntimeError(f"maple run ended with status {status}:\n{self._log.read_text()}")
        return self._socket.exists()

    def ask(self, request: object) -> Any:
        """The answer to a request on the control socket.

        :raises RuntimeError: if the controller refuses it.
        """
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(20)
            client.connect(str(self._socket))
            client.sendall(json.dumps(request).encode() + b"\n")
            answer = json.loads(client.makefile().readline())
        if "error" in answer:
            raise RuntimeError(f"the controller: {answer['error']}")
        return answer["ok"]

    def write(self, how: str, what: dict[str, Any]) -> None:
        """Changes tracked state (``"set"`` or ``"delete"``); when it returns, no switch forwards by the old one.

        :raises RuntimeError: if the controller refuses it, or Open vSwitch does not answer.
        """
        self.ask({"state": {how: {**what, "settled": True}}})
        wait_for_caches()

    def knows(self, switches: int, links: int, edges: int) -> bool:
        """Whether the controller knows exactly these numbers of switches, links and edge ports."""
        there = self.ask({"show": "switches"})
        ports = [port for switch in there for port in switch["ports"] if port["kind"] == "edge" and port["up"]]
        return len(there) == switches and self.links() == links and len(ports) == edges

    def links(self) -> int:
        """The number of links that the controller knows."""
        return len(self.ask({"show": "links"}))

    def hosts(self) -> set[str]:
        """The hardware addresses of the hosts that it knows."""
        return {host["mac"] for host in self.ask({"show": "hosts"})}

    def rules(self, dpid: int) -> list[str]:
        """The rules that it believes a switch has, a line each."""
        (switch,) = self.ask({"show": {"rules": f"{dpid:x}"}})
        return [rule["flow"].strip() for rule in switch["rules"]]

    def stop(self) -> None:
        """Ends it, by force if it does not end by itself.

        :raises RuntimeError: if force was needed.
        """
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
                raise RuntimeError("the controller did not end 10 s after an interrupt") from None


class State(_state.State):
    """The tables and variables of the controller, and of the emulated network that goes along."""

    def __init__(self, place: _maple.Place, controller: Controller) -> None:
        super().__init__(place)
        self._controller = controller

    def __getitem__(self, table: str) -> TableOf:
        return TableOf(self._place, table, self._controller)

    def set(self, variable: str, value: Any) -> None:
        """Sets a variable; when it returns, no switch forwards by the old value any more."""
        super().set(variable, value)
        self._controller.write("set", {"place": {"var": variable}, "value": plain(value)})


class TableOf(_state.TableOf):
    """A table of the controller, and of the emulated network that goes along."""

    def __init__(self, place: _maple.Place, name: str, controller: Controller) -> None:
        super().__init__(place, name)
        self._controller = controller

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(key, value)
        self._controller.write("set", {"place": {"key": [self.name, plain(key)]}, "value": plain(value)})

    def __delitem__(self, key: Any) -> None:
        super().__delitem__(key)
        self._controller.write("delete", {"place": {"key": [self.name, plain(key)]}})


def plain(value: Any) -> Any:
    """A value as JSON has it."""
    if isinstance(value, (tuple, list)):
        return [plain(part) for part in value]
    if isinstance(value, (_maple.Mac, _maple.Ip, _maple.Prefix, ipaddress.IPv4Address, ipaddress.IPv6Address)):
        return str(value)
    return value
