"""Learning by location: the policy records where each source is, and sends packets to where their destination was
seen.

This is the second part of the motivating example in section 2 of the Maple paper. The policy has a table of its own.
It writes only when a host is new or has moved, so rules answer all other packets. (Maple also learns locations by
itself. The other examples use that, with `net.locate`.)
"""

from maple import Location, Net, Packet, Route, Table, flood, policy

locations = Table("locations")


@policy
def learning(pkt: Packet, net: Net) -> Route:
    here = Location(pkt.switch, int(pkt.in_port))
    if locations.get(pkt.eth_src) != here and not pkt.eth_src.is_multicast:
        locations[pkt.eth_src] = here
    there = locations.get(pkt.eth_dst)
    if there is None:
        return flood()
    return net.shortest_path(here, there)
