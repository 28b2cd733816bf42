"""Tests of learning.py."""

from maple import Location


def test_packets_go_to_where_their_destination_was_seen(network):
    net = network("ring:4", policy="learning.py")
    net.assert_delivered("h1", "h2", via=[1, 2], only=True)
    net.assert_delivered("h4", "h1", tcp_dst=22, via=[4, 1], only=True)
    places = {str(mac): place for mac, place in net.state["locations"].items()}
    assert places == {f"00:00:00:00:00:0{number}": Location(number, 1) for number in (1, 2, 3, 4)}


def test_what_was_never_seen_is_flooded(network):
    net = network("ring:4", policy="learning.py", known_hosts=False)
    net.assert_delivered("h1", ["h2", "h3", "h4"], eth_type=0x88B5, only=True)
    assert net.state["locations"].keys() == ["00:00:00:00:00:01"]
    net.assert_delivered("h2", "h1", only=True)
    net.assert_delivered("h1", "h2", only=True)


def test_a_host_that_moves_is_seen_again(network):
    net = network("ring:4", policy="learning.py")
    net.move("h1", 3)
    assert net.state["locations"]["00:00:00:00:00:01"] == Location(3, 4)
    net.assert_delivered("h2", "h1", via=[2, 3], only=True)


def test_rules_answer_and_the_table_stays(network):
    net = network("ring:4", policy="learning.py")
    watch = net.watch("locations")
    net.assert_delivered("h1", "h2")
    net.assert_delivered("h1", "h3")
    assert watch.changes() == {}
    assert any("dl_dst=00:00:00:00:00:02" in rule for rule in net.rules(1))


def test_groups_are_no_hosts(network):
    net = network("ring:4", policy="learning.py")
    net.send("h1", "h2", eth_src="01:00:5e:00:00:05")
    assert "01:00:5e:00:00:05" not in net.state["locations"]
