"""The plugin of pytest: the fixture ``network``, and options of ``maple.testing``. pytest finds it by itself."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator

import pytest

from maple._maple import HandlerBench
from maple.testing import _coverage, _explore
from maple.testing._fixture import Handlers, Networks
from maple.testing._network import Network, OnlySimulated

COLLECTOR = pytest.StashKey[_coverage.Collector]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options of this plugin."""
    group = parser.getgroup("maple", "tests of Maple's policies")
    group.addoption(
        "--maple-coverage",
        action="store_true",
        help="report the tests of policies that had only one outcome, and the lines that no packet reached",
    )
    group.addoption(
        "--maple-ovs",
        action="store_true",
        help="run the tests on Open vSwitch, with network namespaces as hosts (root)",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Begins to count, if that is wanted."""
    if config.getoption("--maple-coverage"):
        config.stash[COLLECTOR] = _coverage.collect()


def pytest_unconfigure(config: pytest.Config) -> None:
    """Ends it."""
    if COLLECTOR in config.stash:
        _coverage.stop()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Prints what was explored and what was covered."""
    if terminalreporter.verbosity > 0 and _explore.REPORTS:
        terminalreporter.section("explored policies")
        for report in _explore.REPORTS:
            terminalreporter.line(report)
    if COLLECTOR in config.stash:
        terminalreporter.section("coverage of policies")
        for line in config.stash[COLLECTOR].table():
            terminalreporter.line(line)


@pytest.fixture
def network(request: pytest.FixtureRequest) -> Iterator[Callable[..., Network]]:
    """Makes networks for a test, ``network("ring:4", policy="secure_routing.py")``, and closes them at its end.

    The arguments are those of :class:`maple.testing.Network`. File names are relative to the test's file. A policy that
    fails on a packet fails the test, unless ``may_fail=True``.
    """
    kind = _on_openvswitch() if request.config.getoption("--maple-ovs") else Network
    networks = Networks(request.path.parent, kind)
    yield networks.make
    failures = networks.close()
    if failures:
        pytest.fail("the policy failed:\n" + "\n".join(failures), pytrace=False)


def _on_openvswitch() -> type[Network]:
    """The networks that consist of Open vSwitch bridges."""
    from maple.testing import _openvswitch

    why = _openvswitch.missing()
    if why is not None:
        raise pytest.UsageError(why)
    return _openvswitch.OpenVSwitchNetwork


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """A word that only simulated time can offer skips the test on Open vSwitch."""
    try:
        return (yield)
    except OnlySimulated as error:
        pytest.skip(f"--maple-ovs: {error}")


@pytest.fixture
def handler(request: pytest.FixtureRequest) -> Iterator[Callable[..., HandlerBench]]:
    """Makes benches for the handler of a file: ``handler("learning_switch_handler.py", ports=[1, 2])``.

    The arguments are those of :class:`maple.testing.HandlerBench`. File names are relative to the test's file. Tables
    are empty, and those of the last bench until the test ends.
    """
    handlers = Handlers(request.path.parent)
    yield handlers.make
    handlers.close()
