"""Try policies without a network: a :class:`Bench` runs one on one packet and says what the run observed.

>>> from maple.testing import Bench, frame
>>> bench = Bench()
>>> bench.switch(1, [1, 2])
>>> decision = bench.decide(my_policy, frame(tcp_dst=22), switch=1, port=1)  # doctest: +SKIP
>>> decision.trace  # doctest: +SKIP
['test eth_type=0x800, ip_proto=6, tcp_dst=22: yes']

A :class:`HandlerBench` does the same for a handler: events in, messages out.
"""

from __future__ import annotations

from maple._maple import Bench, Decision, HandlerBench
from maple._maple import test_frame as frame

__all__ = ["Bench", "Decision", "HandlerBench", "frame"]
