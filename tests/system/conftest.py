"""System tests: Maple against real Open vSwitch (user space) and Mininet.

They need root, Open vSwitch, Mininet, Prometheus, the tools of Debian packages, and the interpreter that Mininet's
module belongs to (/usr/bin/python3). `make test` installs what is missing. Everything that a test makes it also
removes, also when it fails; then the controller's log and the switches' rules are printed. Figures that tests measure
are printed at the end.
"""

import importlib.util
import itertools
import os
import shutil
import subprocess
from contextlib import ExitStack

import pytest
from harness import Controller, start_openvswitch, the_machine

FIGURES = []
NETWORK = ("ovs-vsctl", "ovs-ofctl", "ovs-vswitchd", "mn", "ping", "ethtool", "prometheus", "promtool")
PACKAGING = ("dh", "lintian")


def missing():
    """What keeps these tests from running here, or None."""
    if os.geteuid() != 0:
        return "not root"
    for program in NETWORK + PACKAGING:
        if shutil.which(program) is None:
            return f"{program} is not installed"
    if importlib.util.find_spec("mininet") is None:
        return "this interpreter has no module mininet"
    return None


def pytest_collection_modifyitems(items):
    reason = missing()
    if reason is None:
        return
    if os.environ.get("CI") == "true":
        pytest.exit(f"system tests may not be skipped in CI: {reason}", returncode=1)
    for item in items:
        needs = "root, Open vSwitch, Mininet, Prometheus, debhelper and lintian"
        item.add_marker(pytest.mark.skip(reason=f"system tests need {needs}: {reason}"))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    if report.when != "call" or not report.failed:
        return
    for one in getattr(item.funcargs.get("controller"), "started", []):
        report.sections.append((f"log of {one.log.parent.name}", one.text()))
    for one in getattr(item.funcargs.get("lab"), "built", []):
        for switch in one.switches if one.net else []:
            dump = subprocess.run(
                ["ovs-ofctl", "-O", one.protocol, "dump-flows", switch.name],
                capture_output=True,
                text=True,
                check=False,
            )
            report.sections.append((f"rules of {switch.name}", dump.stdout + dump.stderr))


def pytest_terminal_summary(terminalreporter):
    if FIGURES:
        terminalreporter.section("figures")
        for line in FIGURES:
            terminalreporter.write_line(line)


@pytest.fixture
def figure():
    """A function that notes a line for the end of the run."""
    return FIGURES.append


@pytest.fixture(scope="session")
def openvswitch():
    """Open vSwitch's daemons, started if they are not running, and stopped again (by pid) if we started them."""
    with the_machine():
        pids = start_openvswitch()
        yield
        for pid in pids:
            subprocess.run(["kill", str(pid)], check=False)


@pytest.fixture
def controller(openvswitch, tmp_path):
    """A function that starts `maple run POLICY ARGUMENTS...`; what it started ends with the test."""

    numbers = itertools.count()

    def start(policy, *arguments, **options):
        one = Controller(policy, arguments, tmp_path / f"controller-{next(numbers)}", **options)
        start.started.append(one)
        return one

    start.started = []
    with ExitStack() as ends:
        yield start
        for one in start.started:
            ends.callback(one.stop)


@pytest.fixture
def lab(openvswitch):
    """A function that starts a Mininet network and, given a controller, waits until this knows it.

    It is taken down with the test.
    """
    # Imported here, so that where Mininet is missing the tests are skipped and not broken.
    from lab import Lab

    def build(topology, controller=None, protocols=None, port=None, **options):
        build.built.append(Lab(topology, controller.port if controller else port, protocols, **options))
        build.built[-1].start()
        if controller:
            build.built[-1].wait_known(controller)
        return build.built[-1]

    build.built = []
    with ExitStack() as ends:
        yield build
        for one in build.built:
            ends.callback(one.stop)
