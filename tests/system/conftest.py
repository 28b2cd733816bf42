"""System tests: Maple against real Open vSwitch (user space) and Mininet.

They need root, Open vSwitch, Mininet and the interpreter that Mininet's module belongs to (/usr/bin/python3).
`make test` installs what is missing. Everything that a test makes it also removes, also when it fails.
"""

import os
import shutil
import subprocess

import pytest
from harness import Controller, Lab, start_openvswitch


def missing():
    """What keeps these tests from running here, or None."""
    if os.geteuid() != 0:
        return "not root"
    for program in ("ovs-vsctl", "ovs-ofctl", "ovs-vswitchd", "mn", "ping"):
        if shutil.which(program) is None:
            return f"{program} is not installed"
    return None


def pytest_collection_modifyitems(items):
    reason = missing()
    if reason is None:
        return
    if os.environ.get("CI") == "true":
        pytest.exit(f"system tests may not be skipped in CI: {reason}", returncode=1)
    for item in items:
        item.add_marker(pytest.mark.skip(reason=f"system tests need root, Open vSwitch and Mininet: {reason}"))


@pytest.fixture(scope="session")
def openvswitch():
    """Open vSwitch's daemons, started if they are not running, and stopped again (by pid) if we started them."""
    pids = start_openvswitch()
    yield
    for pid in pids:
        subprocess.run(["kill", str(pid)], check=False)


@pytest.fixture
def controller(openvswitch, tmp_path):
    """A function that starts `maple run POLICY ARGUMENTS...`; what it started ends with the test."""
    started = []

    def start(policy, *arguments):
        started.append(Controller(policy, arguments, tmp_path / f"maple-{len(started)}"))
        return started[-1]

    yield start
    for one in started:
        one.stop()


@pytest.fixture
def lab(openvswitch):
    """A function that builds a Mininet network towards a controller; it is taken down with the test."""
    built = []

    def build(topology, controller, protocols=None):
        built.append(Lab(topology, controller, protocols))
        built[-1].start()
        return built[-1]

    yield build
    for one in built:
        one.stop()
