"""Tests of campus_login.py."""

import pytest
from maple import Mac

PORTAL, H2, H3 = (f"00:00:00:00:00:0{number}" for number in (1, 2, 3))


@pytest.fixture
def net(network):
    return network("ring:4", policy="campus_login.py")


def test_hosts_that_are_not_logged_in_reach_only_the_portal(net):
    net.assert_delivered("h2", "h1", tcp_dst=80, only=True)
    net.assert_delivered("h1", "h2", tcp_src=80, tcp_dst=40000, only=True)
    net.assert_dropped("h2", "h3", tcp_dst=80)
    net.assert_dropped("h3", "h2")


def test_the_table_lets_hosts_in(net):
    net.state["authenticated"][H2] = True
    net.state["authenticated"][H3] = True
    net.assert_delivered("h2", "h3", tcp_dst=80, via=[2, 3], only=True)
    net.assert_delivered("h3", "h2", only=True)
    net.assert_dropped("h4", "h2")
    del net.state["authenticated"][H2]
    net.assert_dropped("h2", "h3", tcp_dst=80)
    net.assert_delivered("h2", "h1", tcp_dst=80, only=True)


def test_the_keys_are_hardware_addresses(net):
    net.state["authenticated"][H2.upper()] = True
    assert net.state["authenticated"].keys() == [Mac(H2)]
    with pytest.raises(TypeError, match="authenticated"):
        net.state["authenticated"]["h2"] = True
    with pytest.raises(TypeError, match="authenticated"):
        net.state["authenticated"][H3] = "yes"


def test_the_portal_is_where_the_environment_says(network, monkeypatch):
    monkeypatch.setenv("MAPLE_PORTAL", H3)
    net = network("ring:4", policy="campus_login.py")
    net.assert_delivered("h2", "h3", tcp_dst=80, only=True)
    net.assert_dropped("h2", "h1", tcp_dst=80)
