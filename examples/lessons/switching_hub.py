"""Switching hub: a packet goes to where its destination was seen, and everywhere while that is not known.

The whole network is one switch here. Who is where is a table that the policy writes; a host that moves is written anew,
and just the rules that rest on its place change. (Maple does that by itself: `net.locate`. This is how it is done.)
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
