"""Traffic monitor: every ten seconds, what each port has sent and received since then, and who sends most.

The policy does not depend on that. Maple asks switches for counters when a program reads them, and uses at most a
twentieth of a switch's time. Switches count packets for each rule, and one rule serves all packets that look the same
to the policy. So this one looks at both addresses: then each pair of hosts has a rule.
"""

from maple import LOCAL, Counts, LiveNetwork, Net, Packet, Route, flood, on, policy


@policy
def traffic_monitor(pkt: Packet, net: Net) -> Route:
    if pkt.eth_dst.is_multicast:
        return flood()
    source, destination = pkt.eth_src.value, pkt.eth_dst.value
    return net.shortest_path(net.locate(source), net.locate(destination)) or flood()


@on(stats=10)
def tell(counts: Counts, net: LiveNetwork) -> None:
    print("    port   bytes received       bytes sent  Mbit/s received     sent")
    for port in counts.ports:
        switch, number = port.at
        if number != LOCAL:
            place, rates = f"{switch}:{number}", f"{port.rx_mbps or 0:15.2f} {port.tx_mbps or 0:8.2f}"
            print(f"{place:>8} {port.rx_bytes:16} {port.tx_bytes:16}  {rates}")
    for pair in counts.traffic[:3]:
        if pair.source and pair.destination:
            print(f"{pair.source} to {pair.destination}: {pair.bytes} bytes, {pair.mbps or 0:.2f} Mbit/s")
