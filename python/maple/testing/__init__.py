"""Try policies without a network, and test them on emulated ones.

A :class:`Network` is an emulated network under a policy, in simulated time, with words to test it. Under pytest the
fixture ``network`` makes one (docs/testing.md):

>>> def test_ssh_takes_the_long_way(network):
...     net = network("ring:4", policy="secure_routing.py")
...     net.assert_delivered("h1", "h2", tcp_dst=22, via=[1, 4, 3, 2])

A :class:`Bench` runs a policy on one packet, without any network, and says what the run observed.

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
from maple.testing._explore import Explored
from maple.testing._network import Network
from maple.testing._received import Received

__all__ = ["Bench", "Decision", "Explored", "HandlerBench", "Network", "Received", "frame"]
