"""A policy that decides each host's packets by themselves: with many hosts, nearly every packet is a miss."""

from maple import Net, Packet, Route, drop, flood, policy


@policy(track_hosts=False)
def misses(pkt: Packet, net: Net) -> Route:
    return flood() if pkt.eth_src else drop()
