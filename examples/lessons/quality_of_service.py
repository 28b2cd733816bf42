"""Quality of service: bulk traffic has a limit, and voice has its own queue.

Maple makes the meter at the switch where packets enter, and deletes it. Queues belong to ports and are part of the
switch's configuration. With Open vSwitch:

    ovs-vsctl set port s1-eth1 qos=@q -- --id=@q create qos type=linux-htb queues:1=@voice \\
        -- --id=@voice create queue other-config:min-rate=1000000
"""

from maple import Limit, Net, Packet, Route, flood, policy

BULK, VOICE_PORT, VOICE_QUEUE = Limit("bulk", kbps=1000, burst=200), 5004, 1


@policy
def quality_of_service(pkt: Packet, net: Net) -> Route:
    if pkt.eth_dst.is_multicast:
        return flood()
    path = net.shortest_path(net.locate(pkt.eth_src), net.locate(pkt.eth_dst)) or flood()
    if pkt.udp_dst == VOICE_PORT:
        return path.queue(VOICE_QUEUE)
    if pkt.udp_dst.is_present:
        return path.limit(BULK)
    return path
