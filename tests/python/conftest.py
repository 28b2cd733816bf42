"""What the Python tests share: a bench with two switches and three hosts."""

from __future__ import annotations

import pytest
from hypothesis import settings
from maple.testing import Bench

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
