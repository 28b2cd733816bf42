"""Switching hub: a packet goes to where its destination was seen, or everywhere if that is not known.

The whole network is one switch here. The policy writes the places of hosts into a table. When a host moves, only the
rules that depend on its place change. (Maple does the same by itself: `net.locate`. This shows how.)
"""

from maple import Net, Packet, Route, Table, flood, policy

places = Table("places")


@policy(track_hosts=False)
def switching_hub(pkt: Packet, net: Net) -> Route:
    here = (pkt.switch, int(pkt.in_port))
    if not pkt.eth_src.is_multicast and places.get(pkt.eth_src) != here:
        places[pkt.eth_src] = here
    there = None if pkt.eth_dst.is_multicast else places.get(pkt.eth_dst)
    return net.shortest_path(here, there) if there else flood()
