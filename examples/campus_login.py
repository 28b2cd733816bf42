"""A campus with a login: two applications, one after the other.

Hosts that the table `authenticated` does not name reach only the portal host. An external program, such as
`campus_portal.py` in this folder, fills the table. The packets of the others take the shortest path. The environment
variable MAPLE_PORTAL is the portal's hardware address.
"""

import os

from maple import Mac, Table, tiers
from maple.apps import authentication, routing

PORTAL = os.environ.get("MAPLE_PORTAL", "00:00:00:00:00:01")

authenticated = Table("authenticated", key=Mac, value=bool)

campus_login = tiers(authentication(authenticated, portal=PORTAL), routing())
