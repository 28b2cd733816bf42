"""A policy that decides each host's packets by themselves: with many hosts, nearly every packet is a miss."""

from maple import Mac, Net, Packet, Route, drop, flood, policy

BLOCKED = {Mac("02:ff:ff:ff:ff:ff")}


@policy(track_hosts=False)
def misses(pkt: Packet, net: Net) -> Route:
    # A look-up in a set reads the whole address.
    return drop() if pkt.eth_src in BLOCKED else flood()
