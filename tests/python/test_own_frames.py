"""Frames of a policy's own: how they are made, and where they go."""

from __future__ import annotations

import pytest
from conftest import H1, H2
from maple import Net, Packet, Route, answer, drop, flood, frame, to
from maple.testing import Bench
from maple.testing import frame as sample

ME = "02:00:00:00:00:fe"
WHO_HAS = sample(eth_src=H1, eth_dst="ff:ff:ff:ff:ff:ff", arp_op=1, arp_spa="10.0.0.1", arp_tpa="10.0.0.254")


def responder(pkt: Packet, net: Net) -> Route:
    if pkt.arp_op == 1 and pkt.arp_tpa == "10.0.0.254":
        reply = frame(eth_dst=pkt.eth_src, eth_src=ME, arp_op=2, arp_spa=pkt.arp_tpa, arp_tpa=pkt.arp_spa)
        return answer(reply)
    return flood()


def test_an_answer_leaves_where_the_packet_came_in_and_makes_no_rule(bench: Bench) -> None:
    decision = bench.decide(responder, WHO_HAS)
    ((at, sent),) = decision.copies
    assert (at.switch, at.port) == (1, 1)
    assert sent.hex() == "00000000000102000000" + "00fe0806" + "0001080006040002" + (
        "0200000000fe0a0000fe" + "0000000000010a000001"
    )
    assert decision.each and repr(decision.route) == "<route: answer with 42 bytes>"
    assert not bench.decide(responder, sample(tcp_dst=80)).each


def test_samples_go_besides_what_the_route_says(bench: Bench) -> None:
    own = frame(eth_dst=H2, eth_src=ME, eth_type=0x88B5, payload=b"hello")

    def f(pkt: Packet, net: Net) -> Route:
        net.send(own, (2, 1))
        net.reply(own)
        return to(2)

    places = [(at.switch, at.port, sent == own) for at, sent in bench.decide(f, WHO_HAS).copies]
    assert places == [(1, 1, True), (1, 2, False), (2, 1, True)]


def test_the_whole_packet_and_its_payload_can_be_read_and_then_each_comes(bench: Bench) -> None:
    ping = sample(ipv4_src="10.0.0.1", ipv4_dst="10.0.0.254", icmpv4_type=8, payload=b"\0\1\0\2data")

    def echo(pkt: Packet, net: Net) -> Route:
        assert pkt.frame == ping
        src, dst = pkt.ipv4_src, pkt.ipv4_dst
        return answer(
            frame(
                eth_dst=pkt.eth_src,
                eth_src=ME,
                ipv4_src=dst,
                ipv4_dst=src,
                icmpv4_type=0,
                icmpv4_code=0,
                payload=pkt.payload,
            )
        )

    decision = bench.decide(echo, ping)
    ((_, sent),) = decision.copies
    assert sent[-8:] == b"\0\1\0\2data" and len(sent) == len(ping) and decision.each

    def reader(pkt: Packet, net: Net) -> Route:
        return flood() if pkt.payload == b"query" else drop()

    decision = bench.decide(reader, sample(udp_dst=53, payload=b"query"))
    assert decision.each and [at.port for at, _ in decision.copies] == [2, 1]


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ((1, 3), "0000000000000001:3 is not a port where a frame can leave"),
        ((9, 1), "is not a port where"),
        ((1, 7), "is not"),
    ],
)
def test_a_frame_leaves_by_edge_ports_only(bench: Bench, place: tuple[int, int], words: str) -> None:
    def f(pkt: Packet, net: Net) -> Route:
        net.send(frame(eth_dst=H2, eth_src=ME), place)
        return drop()

    error = bench.decide(f, WHO_HAS).error
    assert error is not None and words in error


def test_sixty_five_frames_are_too_many(bench: Bench) -> None:
    one = frame(eth_dst=H2, eth_src=ME)
    assert "more than 64 frames" in (bench.decide(lambda pkt, net: answer(*[one] * 65), WHO_HAS).error or "")
    assert len(bench.decide(lambda pkt, net: answer(*[one] * 64), WHO_HAS).copies) == 64


def test_what_is_no_frame_is_refused_where_it_stands(bench: Bench) -> None:
    with pytest.raises(TypeError, match="at least one frame"):
        answer()
    with pytest.raises(TypeError, match=r"a frame is bytes, as frame\(…\) makes them, not 'x' \(str\)"):
        answer("x")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="14 to 9216 bytes, not 3"):
        answer(b"abc")


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"eth_dst": H1}, "frame() needs eth_src too"),
        ({"eth_dst": H1, "eth_src": ME, "arp_op": 1, "arp_spa": "10.0.0.1"}, "frame() needs arp_tpa too"),
        ({"eth_dst": H1, "eth_src": ME, "ipv4_src": "10.0.0.1"}, "frame() needs ipv4_dst too"),
        ({"eth_dst": H1, "eth_src": ME, "udp_src": 67}, "frame() needs udp_dst too"),
        ({"eth_dst": H1, "eth_src": None}, "frame(): eth_src is None"),
        ({"ether_dst": H1}, "frame() got an unknown field 'ether_dst'"),
    ],
)
def test_a_frame_that_lacks_something_says_what(fields: dict[str, object], words: str) -> None:
    with pytest.raises(TypeError) as raised:
        frame(**fields)  # type: ignore[arg-type]
    assert words.replace("'", '"') in str(raised.value).replace("'", '"')


def test_fields_that_do_not_fit_together_are_an_error() -> None:
    ports = {"udp_src": 1, "udp_dst": 2, "tcp_src": 1, "tcp_dst": 2}
    with pytest.raises(ValueError, match=r"frame\(\): udp_src does not fit the other fields"):
        frame(eth_dst=H1, eth_src=ME, ipv4_src="10.0.0.1", ipv4_dst="10.0.0.2", **ports)
    with pytest.raises(ValueError, match="at most 9000 bytes, not 9001"):
        frame(eth_dst=H1, eth_src=ME, payload=bytes(9001))
    with pytest.raises(TypeError, match="ARP has no payload"):
        frame(eth_dst=H1, eth_src=ME, arp_op=1, arp_spa="10.0.0.1", arp_tpa="10.0.0.2", payload=b"x")
