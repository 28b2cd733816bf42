"""Applications: small policies for common tasks, made to be parts of compositions.

>>> from maple import tiers
>>> from maple.apps import arp_responder, dhcp_guard, rate_limit, routing
>>>
>>> network = tiers(dhcp_guard(servers=[(1, 4)]), rate_limit(pps=1_000), arp_responder(), routing())

Each is a function that returns a policy. It passes what it does not decide, so the order of the tiers matters:
docs/apps.md has a table.
"""

from maple.apps.arp_responder import arp_responder
from maple.apps.authentication import authentication
from maple.apps.dhcp_guard import dhcp_guard
from maple.apps.ecmp import ecmp
from maple.apps.load_balancer import load_balancer
from maple.apps.mirror import mirror
from maple.apps.nat import nat
from maple.apps.rate_limit import rate_limit
from maple.apps.routing import routing
from maple.apps.vlans import vlans

__all__ = [
    "arp_responder",
    "authentication",
    "dhcp_guard",
    "ecmp",
    "load_balancer",
    "mirror",
    "nat",
    "rate_limit",
    "routing",
    "vlans",
]
