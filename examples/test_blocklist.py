"""Tests of blocklist.py."""

import time

import pytest

H2, H3 = "00:00:00:00:00:02", "00:00:00:00:00:03"


@pytest.fixture
def file(tmp_path, monkeypatch):
    file = tmp_path / "blocklist.txt"
    file.write_text(f"# the second host\n{H2.upper()}  # and no other\nnonsense\n\n")
    monkeypatch.setenv("MAPLE_BLOCKLIST", str(file))
    return file


def test_hosts_of_the_file_neither_send_nor_receive(network, file):
    net = network("linear:3", policy="blocklist.py")
    net.assert_dropped("h2", "h1", line="drop()")
    net.assert_dropped("h1", "h2", line="drop()")
    net.assert_delivered("h1", "h3", via=[1, 2, 3], only=True)
    net.assert_delivered("h3", "h1", only=True)
    assert net.assert_isolated("h2", ["h1", "h3"], both_ways=False).proved


def test_a_line_that_is_no_address_is_reported(network, file, capsys):
    network("linear:3", policy="blocklist.py")
    assert f"{file}:3: " in capsys.readouterr().out


def test_the_table_counts_at_once(network):
    net = network("linear:3", policy="blocklist.py")
    net.assert_delivered("h1", "h2", only=True)
    net.state["blocked"][H2] = True
    net.assert_dropped("h1", "h2")
    net.assert_dropped("h2", "h3")
    del net.state["blocked"][H2]
    net.assert_delivered("h2", "h3", only=True)


def test_what_has_no_known_receiver_is_flooded(network):
    net = network("linear:3", policy="blocklist.py")
    net.assert_delivered("h1", ["h2", "h3"], eth_dst="00:00:00:00:00:99", only=True)


def test_the_table_follows_the_file(network, file):
    net = network("linear:3", policy="blocklist.py")
    watch = net.watch("blocked")
    time.sleep(0.01)
    file.write_text(f"{H3}\n")
    end = time.monotonic() + 10
    while H3 not in net.state["blocked"] and time.monotonic() < end:
        time.sleep(0.02)
    assert {str(key): now for key, (_, now) in watch.changes().items()} == {H2: None, H3: True}
    net.assert_dropped("h1", "h3")
    net.assert_delivered("h1", "h2")
