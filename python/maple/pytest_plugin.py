"""The plugin of pytest: the fixture ``network``, and options of ``maple.testing``. pytest finds it by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from maple.testing._fixture import Networks
from maple.testing._network import Network


@pytest.fixture
def network(request: pytest.FixtureRequest) -> Iterator[Callable[..., Network]]:
    """Makes networks for a test, ``network("ring:4", policy="secure_routing.py")``, and closes them at its end.

    The arguments are those of :class:`maple.testing.Network`. File names are relative to the test's file. A policy that
    fails on a packet fails the test, unless ``may_fail=True``.
    """
    networks = Networks(request.path.parent, request.node.name)
    yield networks.make
    failures = networks.close()
    if failures:
        pytest.fail("the policy failed:\n" + "\n".join(failures), pytrace=False)
