"""Secure routing (section 2 of the Maple paper): ssh takes the secure path, everything else the shortest one."""

from maple import Net, Packet, Route, costs, flood, policy

# The cost of a link for security. Other links cost 1. The direct link between switches 1 and 2 is not trusted with ssh.
costs("secure", {(1, 2): 10})


@policy
def secure_routing(pkt: Packet, net: Net) -> Route:
    if pkt.eth_dst.is_multicast or (dst := net.locate(pkt.eth_dst)) is None:
        return flood()
    src = net.locate(pkt.eth_src)
    if pkt.tcp_dst == 22:
        return net.path(src, dst, cost="secure")
    return net.shortest_path(src, dst)
