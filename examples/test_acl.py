"""Tests of acl.py, with the lines of acl.txt."""

import pytest

HOSTS = ["h1", "h2", "h3", "h4", "h5"]


@pytest.fixture
def net(network):
    return network("linear:5", policy="acl.py")


def test_arp_and_ping_pass(net):
    net.assert_delivered("h1", HOSTS[1:], arp_op=1, only=True)
    net.assert_delivered("h1", "h2", arp_op=2, only=True)
    net.assert_delivered("h1", "h3", only=True)
    net.assert_delivered("h5", "h4", only=True)
    assert net.ping("h1", "h5")


def test_telnet_to_the_third_host_is_denied_from_the_first(net):
    net.assert_dropped("h1", "h3", tcp_dst=23, line="drop()")
    net.assert_delivered("h1", "h3", tcp_dst=22)
    net.assert_delivered("h1", "h3", tcp_dst=24)
    net.assert_delivered("h1", "h2", tcp_dst=23)
    net.assert_delivered("h2", "h3", tcp_dst=23)


def test_the_first_network_reaches_low_ports(net):
    for port in (1, 80, 1023):
        net.assert_delivered("h1", "h2", tcp_dst=port, only=True)
        net.assert_delivered("h3", "h5", tcp_dst=port, only=True)
        net.assert_dropped("h4", "h5", tcp_dst=port)
    net.assert_dropped("h1", "h2", tcp_dst=0)
    net.assert_dropped("h1", "h2", tcp_dst=1024)
    net.assert_dropped("h1", "h2", tcp_dst=80, ipv4_src="10.0.0.4")


def test_everybody_reaches_some_high_ports(net):
    net.assert_dropped("h5", "h1", tcp_dst=4999)
    net.assert_delivered("h5", "h1", tcp_dst=5000, only=True)
    net.assert_delivered("h5", "h1", tcp_dst=5999, only=True)
    net.assert_dropped("h5", "h1", tcp_dst=6000)
    net.assert_dropped("h5", "h1", tcp_src=5000)


def test_dns_at_the_fourth_host_is_denied(net):
    net.assert_dropped("h1", "h4", udp_dst=53)
    net.assert_delivered("h1", "h4", udp_dst=54)
    net.assert_delivered("h1", "h4", udp_dst=52)
    net.assert_delivered("h1", "h5", udp_dst=53)
    net.assert_delivered("h1", "h3", udp_dst=53, only=True)


def test_the_rest_is_denied(net):
    net.assert_dropped("h1", "h2", ip_proto=47)
    net.assert_dropped("h1", "h2", sctp_dst=80)
    net.assert_dropped("h1", "h2", eth_type=0x88B5)
    forged = {"ipv4_src": "10.0.0.1", "ipv4_dst": "10.0.0.3"}
    assert net.assert_isolated(HOSTS[:2], HOSTS[2:], tcp_dst=23, both_ways=False, **forged).proved


def test_unknown_receivers_and_groups_are_flooded_if_they_pass(net):
    net.assert_delivered("h1", HOSTS[1:], eth_dst="00:00:00:00:00:99", only=True)
    net.assert_delivered("h1", HOSTS[1:], eth_dst="01:00:5e:01:01:01", udp_dst=5, only=True)
    net.assert_dropped("h1", "h2", eth_dst="00:00:00:00:00:99", tcp_dst=2000)


def test_a_list_of_ones_own(network, tmp_path, monkeypatch):
    file = tmp_path / "list.txt"
    file.write_text("deny ip 10.0.0.1 10.0.0.2  # both\n\npermit udp any any 53-55\npermit tcp any 10.0.0.3 443\n")
    monkeypatch.setenv("MAPLE_ACL", str(file))
    net = network("linear:3", policy="acl.py")
    net.assert_dropped("h1", "h2", udp_dst=54)
    net.assert_delivered("h1", "h3", udp_dst=53)
    net.assert_delivered("h1", "h3", udp_dst=55)
    net.assert_dropped("h1", "h3", udp_dst=56)
    net.assert_dropped("h1", "h3", tcp_dst=54)
    net.assert_delivered("h1", "h3", tcp_dst=443)
    net.assert_dropped("h1", "h3", tcp_dst=444)
    net.assert_dropped("h3", "h1", tcp_dst=443)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("allow tcp any any", "the action is permit or deny, not allow"),
        ("permit gre any any", "unknown protocol gre"),
        ("permit icmp any any 5", "icmp has no ports"),
        ("permit arp any any 5", "arp has no ports"),
        ("permit ip any any 5-6", "ip has no ports"),
        ("permit", "parse_line"),
        ("permit tcp any any x", "invalid literal"),
    ],
)
def test_a_line_that_is_wrong_is_named(network, tmp_path, monkeypatch, line, why):
    file = tmp_path / "list.txt"
    file.write_text(f"permit arp\n{line}\n")
    monkeypatch.setenv("MAPLE_ACL", str(file))
    with pytest.raises(ValueError, match=rf"list\.txt:2: .*{why}"):
        network("linear:2", policy="acl.py")


def test_one_rule_answers_all_broadcasts(network):
    net = network("linear:5", policy="acl.py")
    net.send("h1", eth_dst="ff:ff:ff:ff:ff:ff")
    assert any("dl_dst=01:00:00:00:00:00/01:00:00:00:00:00" in rule for rule in net.rules(1))
