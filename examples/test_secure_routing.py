"""Tests of secure_routing.py."""


def test_ssh_takes_the_long_way(network):
    net = network("ring:4", policy="secure_routing.py")
    net.assert_delivered("h1", "h2", tcp_dst=22, via=[1, 4, 3, 2], only=True)
    net.assert_delivered("h2", "h1", tcp_dst=22, via=[2, 3, 4, 1], only=True)


def test_everything_else_takes_the_short_way(network):
    net = network("ring:4", policy="secure_routing.py")
    for fields in ({"tcp_dst": 80}, {"tcp_dst": 21}, {"tcp_dst": 23}, {"tcp_src": 22}, {"udp_dst": 22}, {}):
        net.assert_delivered("h1", "h2", via=[1, 2], only=True, **fields)


def test_the_direct_link_counts_as_nine_others(network):
    # Between 1 and 2 the other way costs nine in a ring of ten, whose closing link costs ten more.
    net = network("linear:2", policy="secure_routing.py")
    net.assert_delivered("h1", "h2", tcp_dst=22, via=[1, 2])


def test_what_has_no_known_receiver_is_flooded(network):
    net = network("ring:4", policy="secure_routing.py")
    for address in ("00:00:00:00:00:99", "ff:ff:ff:ff:ff:ff", "01:00:5e:01:01:01"):
        net.assert_delivered("h1", ["h2", "h3", "h4"], eth_dst=address, tcp_dst=22, only=True)


def test_ssh_takes_the_direct_link_if_there_is_no_other(network):
    net = network("ring:4", policy="secure_routing.py")
    net.link_down(3, 4)
    net.assert_delivered("h1", "h2", tcp_dst=22, via=[1, 2])
