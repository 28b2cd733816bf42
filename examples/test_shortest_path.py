"""Tests of shortest_path.py."""


def test_packets_take_the_shortest_path(network):
    net = network("ring:4", policy="shortest_path.py")
    net.assert_delivered("h1", "h2", via=[1, 2], only=True)
    net.assert_delivered("h1", "h4", tcp_dst=22, via=[1, 4], only=True)
    net.assert_delivered("h2", "h4", only=True)


def test_what_has_no_known_receiver_is_flooded(network):
    net = network("ring:4", policy="shortest_path.py")
    net.assert_delivered("h1", ["h2", "h3", "h4"], eth_dst="00:00:00:00:00:99", only=True)
    net.assert_delivered("h1", ["h2", "h3", "h4"], eth_dst="ff:ff:ff:ff:ff:ff", only=True)
    net.assert_delivered("h1", ["h2", "h3", "h4"], eth_dst="01:00:5e:01:01:01", only=True)


def test_paths_follow_the_links(network):
    net = network("ring:4", policy="shortest_path.py")
    net.link_down(1, 2)
    net.assert_delivered("h1", "h2", via=[1, 4, 3, 2])
    net.link_up(1, 2)
    net.assert_delivered("h1", "h2", via=[1, 2])


def test_a_host_that_moves_is_found(network):
    net = network("ring:4", policy="shortest_path.py")
    net.move("h2", 4)
    net.assert_delivered("h1", "h2", via=[1, 4], only=True)


def test_every_host_is_reached(network):
    net = network("ring:4", policy="shortest_path.py")
    assert net.assert_reachable(["h1", "h2"], ["h3", "h4"]).proved
    net.assert_no_loops()


def test_one_rule_answers_all_broadcasts(network):
    net = network("ring:4", policy="shortest_path.py")
    net.send("h1", eth_dst="ff:ff:ff:ff:ff:ff")
    assert any("dl_dst=01:00:00:00:00:00/01:00:00:00:00:00" in rule for rule in net.rules(1))
