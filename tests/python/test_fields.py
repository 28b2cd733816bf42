"""Field objects answer as plain values do, and record what they should."""

from __future__ import annotations

import ipaddress
import operator
from collections.abc import Callable
from typing import Any

import maple
import pytest
from hypothesis import given
from hypothesis import strategies as st
from maple import Field, Ip, Mac, Packet, Prefix, drop
from maple._maple import FIELDS
from maple.testing import Bench, Decision, frame

NUMBERS = {
    "vlan_vid": 12,
    "vlan_pcp": 3,
    "ip_dscp": 6,
    "ip_ecn": 2,
    "tcp_src": 16,
    "tcp_dst": 16,
    "udp_src": 16,
    "udp_dst": 16,
    "icmpv4_type": 8,
    "arp_op": 16,
}
BENCH = Bench()
BENCH.switch(1, [1])


def ask(question: Callable[[Packet], object], **fields: Any) -> tuple[object, Decision]:
    """What a policy learns by ``question`` about a packet with these fields, and the decision."""
    answers: list[object] = []

    def policy(pkt: Packet, net: object) -> maple.Route:
        answers.append(question(pkt))
        return drop()

    decision = BENCH.decide(policy, frame(**fields))
    assert decision.error is None, decision.error
    return answers[0], decision


def error(question: Callable[[Packet], object], **fields: Any) -> str:
    """The last line of the error that ``question`` raises."""
    decision = BENCH.decide(lambda pkt, net: question(pkt), frame(**fields))
    assert decision.error is not None
    return decision.error.splitlines()[-1]


macs = st.integers(0, 2**48 - 1).map(lambda n: ":".join(f"{n:012x}"[i : i + 2] for i in range(0, 12, 2)))
ipv4s = st.ip_addresses(v=4).map(str)
ipv6s = st.ip_addresses(v=6).map(str)


@st.composite
def packets(draw: st.DrawFn) -> dict[str, Any]:
    """Fields of a packet that fit together."""
    fields: dict[str, Any] = {"eth_src": draw(macs), "eth_dst": draw(macs)}
    if draw(st.booleans()):
        fields |= {"vlan_vid": draw(st.integers(0, 4095)), "vlan_pcp": draw(st.integers(0, 7))}
    kind = draw(st.sampled_from(["raw", "arp", "tcp", "udp", "tcp6", "icmp"]))
    if kind == "arp":
        fields |= {"arp_op": draw(st.integers(0, 3)), "arp_spa": draw(ipv4s), "arp_tpa": draw(ipv4s)}
    elif kind != "raw":
        version = "ipv6" if kind == "tcp6" else "ipv4"
        addresses = ipv6s if kind == "tcp6" else ipv4s
        fields |= {f"{version}_src": draw(addresses), f"{version}_dst": draw(addresses)}
        fields |= {"ip_dscp": draw(st.integers(0, 63)), "ip_ecn": draw(st.integers(0, 3))}
        if kind == "icmp":
            fields["icmpv4_type"] = draw(st.integers(0, 255))
        else:
            ports = st.one_of(st.sampled_from([0, 22, 80, 1024, 65535]), st.integers(0, 65535))
            fields |= {f"{kind[:3]}_src": draw(ports), f"{kind[:3]}_dst": draw(ports)}
    return fields


OPERATORS = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@given(packets(), st.sampled_from(sorted(NUMBERS)), st.data())
def test_comparisons_answer_as_on_plain_numbers(fields: dict[str, Any], name: str, data: st.DataObject) -> None:
    top = 2 ** NUMBERS[name] - 1
    plain = fields.get(name)
    near = st.integers(max(0, (plain or 0) - 1), min(top, (plain or 0) + 1))
    other = data.draw(st.one_of(near, st.integers(0, top)))
    symbol = data.draw(st.sampled_from(sorted(OPERATORS)))
    compare = OPERATORS[symbol]
    answer, decision = ask(lambda pkt: compare(getattr(pkt, name), other), **fields)
    mirror = OPERATORS[{"<": ">", ">": "<", "<=": ">=", ">=": "<="}.get(symbol, symbol)]
    mirrored, _ = ask(lambda pkt: mirror(other, getattr(pkt, name)), **fields)
    if plain is None:
        assert answer is (symbol == "!=")
    else:
        assert answer is compare(plain, other)
    assert mirrored is answer
    assert all(item.startswith("test") for item in decision.trace)


@given(packets(), packets(), st.data())
def test_equal_traces_mean_equal_answers(first: dict[str, Any], second: dict[str, Any], data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(NUMBERS)))
    lo, hi = sorted(data.draw(st.tuples(*[st.integers(0, 2 ** NUMBERS[name] - 1)] * 2)))
    questions: list[Callable[[Packet], object]] = [
        lambda pkt: lo <= getattr(pkt, name) <= hi,
        lambda pkt: getattr(pkt, name) in (lo, hi),
        lambda pkt: getattr(pkt, name).value,
        lambda pkt: getattr(pkt, name) == None,  # noqa: E711
        lambda pkt: bool(getattr(pkt, name)),
        lambda pkt: pkt.ipv4_src.prefix(lo % 33),
        lambda pkt: pkt.eth_src in Prefix("00:00:00:00:00:00/2"),
        lambda pkt: {22: "ssh", None: "none"}.get(getattr(pkt, name)),
        str,
    ]
    question = data.draw(st.sampled_from(questions))
    (a, one), (b, two) = ask(question, **first), ask(question, **second)
    if one.trace == two.trace:
        assert a == b


@given(packets())
def test_every_field_reads_as_the_value_it_was_given(fields: dict[str, Any]) -> None:
    for name in FIELDS:
        value, _ = ask(lambda pkt, name=name: getattr(pkt, name).value, **fields)  # type: ignore[misc]
        if name in fields:
            assert value == fields[name]
            canonical = str(Ip(fields[name])) if name.startswith("ipv6") else fields[name]
            assert hash(value) == hash(canonical)
        elif name in NUMBERS or (name.startswith(("arp", "ipv4", "ipv6_s", "ipv6_d")) and name != "arp_sha"):
            assert value is None or name.startswith("arp")


@given(packets(), st.sampled_from(["tcp_dst", "ip_dscp", "vlan_vid"]))
def test_hash_int_text_and_arithmetic_are_those_of_the_value(fields: dict[str, Any], name: str) -> None:
    plain = fields.get(name)
    for question in (hash, str, repr, format, bool):
        answer, _ = ask(lambda pkt, q=question: q(getattr(pkt, name)), **fields)  # type: ignore[misc]
        assert answer == question(plain)
    if plain is not None:
        assert ask(lambda pkt: int(getattr(pkt, name)), **fields)[0] == plain
        assert ask(lambda pkt: getattr(pkt, name) % 7 + 1 - (getattr(pkt, name) >> 2), **fields)[0] == plain % 7 + 1 - (
            plain >> 2
        )
        assert ask(lambda pkt: range(2**16)[getattr(pkt, name)], **fields)[0] == plain
    else:
        assert "this packet has no" in error(lambda pkt: int(getattr(pkt, name)), **fields)


@given(packets(), st.integers(0, 32), ipv4s)
def test_prefix_membership_is_that_of_ipaddress(fields: dict[str, Any], length: int, address: str) -> None:
    base = fields.get("ipv4_src", address)
    network = ipaddress.ip_network(f"{base}/{length}", strict=False)
    for probe in (network, ipaddress.ip_network(f"{address}/{length}", strict=False)):
        answer, decision = ask(lambda pkt, probe=probe: pkt.ipv4_src in Prefix(probe), **fields)  # type: ignore[misc]
        assert answer is ("ipv4_src" in fields and ipaddress.ip_address(base) in probe)
        assert all(item.startswith("test") for item in decision.trace)
    value, _ = ask(lambda pkt: pkt.ipv4_src.prefix(length), **fields)
    assert value == (network if "ipv4_src" in fields else None)
    assert hash(value) == hash(str(network) if "ipv4_src" in fields else None)


@given(packets())
def test_addresses_equal_their_text_and_objects(fields: dict[str, Any]) -> None:
    source = fields["eth_src"]
    assert ask(lambda pkt: pkt.eth_src == source.upper(), **fields)[0] is True
    assert ask(lambda pkt: pkt.eth_src == Mac(source.replace(":", "-")), **fields)[0] is True
    assert ask(lambda pkt: {source: 1}[pkt.eth_src], **fields)[0] == 1
    assert ask(lambda pkt: {Mac(source): 1}[pkt.eth_src], **fields)[0] == 1
    assert ask(lambda pkt: pkt.eth_src in {source}, **fields)[0] is True
    assert ask(lambda pkt: pkt.eth_src == pkt.eth_dst, **fields)[0] is (source == fields["eth_dst"])
    if "ipv4_dst" in fields:
        address = fields["ipv4_dst"]
        for other in (address, Ip(address), ipaddress.ip_address(address)):
            assert ask(lambda pkt, other=other: pkt.ipv4_dst == other, **fields)[0] is True  # type: ignore[misc]
            assert ask(lambda pkt, other=other: other == pkt.ipv4_dst, **fields)[0] is True  # type: ignore[misc]


def test_a_test_learns_the_answer_and_nothing_else() -> None:
    _, decision = ask(lambda pkt: pkt.tcp_dst == 22, tcp_dst=80)
    assert decision.trace == [
        "test eth_type=0x800, ip_proto=6, tcp_dst=22: no",
        "test eth_type=0x86dd, ip_proto=6, tcp_dst=22: no",
    ]
    _, decision = ask(lambda pkt: pkt.tcp_dst == 22, tcp_dst=22)
    assert decision.trace == ["test eth_type=0x800, ip_proto=6, tcp_dst=22: yes"]


def test_a_read_of_an_absent_field_proves_the_absence() -> None:
    value, decision = ask(lambda pkt: pkt.tcp_dst.value, udp_dst=53)
    assert value is None
    assert decision.trace == ["read eth_type=0x800", "read ip_proto=17"]


@pytest.mark.parametrize(
    "question",
    [
        lambda pkt: pkt.ipv4_dst in (Ip("10.0.0.8"), Ip("10.0.0.9")),
        lambda pkt: Ip("10.0.0.9") == pkt.ipv4_dst,
        lambda pkt: ipaddress.ip_address("10.0.0.9") == pkt.ipv4_dst,
        lambda pkt: pkt.eth_dst in [Mac("00:00:00:00:00:08"), Mac("00:00:00:00:00:09")],
        lambda pkt: Mac("00:00:00:00:00:09") != pkt.eth_dst,
    ],
)
def test_an_address_before_a_field_is_a_test(question: Callable[[Packet], object]) -> None:
    _, decision = ask(question, eth_dst="00:00:00:00:00:07", ipv4_dst="10.0.0.7")
    assert all(item.startswith("test ") for item in decision.trace), decision.trace
    found, _ = ask(question, eth_dst="00:00:00:00:00:09", ipv4_dst="10.0.0.9")
    assert found is not ask(question, eth_dst="00:00:00:00:00:07", ipv4_dst="10.0.0.7")[0]


def test_a_packet_prints_as_a_line_and_is_read_as_far_as_that_shows() -> None:
    text, decision = ask(str, vlan_vid=20, ipv4_src="10.0.0.1", ipv4_dst="10.0.0.2", tcp_src=1234, tcp_dst=80)
    assert text == "vlan 20 tcp 10.0.0.1:1234 > 10.0.0.2:80"
    assert decision.trace[1:] == [  # after the tag
        "read eth_type=0x800",
        "read ip_proto=6",
        "read ipv4_src=10.0.0.1",
        "read tcp_src=1234",
        "read ipv4_dst=10.0.0.2",
        "read tcp_dst=80",
    ]
    text, decision = ask(lambda pkt: f"{pkt}", arp_op=1, arp_spa="10.0.0.1", arp_tpa="10.0.0.2")
    assert text == "arp who-has 10.0.0.2 tell 10.0.0.1"
    text, decision = ask(repr, tcp_dst=80)
    assert (text, decision.trace) == ("<packet>", [])


def test_presence_is_a_test() -> None:
    for question in (lambda p: p.tcp_dst == None, lambda p: not p.tcp_dst.is_present):  # noqa: E711
        absent, decision = ask(question, udp_dst=53)
        assert absent is True
        assert all(item.startswith("test") for item in decision.trace)
        assert ask(question, tcp_dst=0)[0] is False


def test_a_prefix_of_no_bits_still_asks_for_presence() -> None:
    assert ask(lambda pkt: pkt.ipv4_src in Prefix("0.0.0.0/0"), arp_op=1)[0] is False
    assert ask(lambda pkt: pkt.ipv4_src.prefix(0), arp_op=1)[0] is None
    assert ask(lambda pkt: pkt.ipv4_src.prefix(0), tcp_dst=1)[0] == "0.0.0.0/0"


def test_an_untagged_packet_has_no_vlan_id() -> None:
    assert ask(lambda pkt: pkt.vlan_vid == None)[0] is True  # noqa: E711
    assert ask(lambda pkt: pkt.vlan_vid == 0)[0] is False
    assert ask(lambda pkt: pkt.vlan_vid == 0, vlan_vid=0)[0] is True
    assert ask(lambda pkt: pkt.vlan_vid.value, vlan_vid=77)[0] == 77


def test_group_addresses_and_masks_are_tests() -> None:
    assert ask(lambda pkt: pkt.eth_dst.is_multicast, eth_dst="01:00:5e:00:00:01")[0] is True
    assert ask(lambda pkt: pkt.ipv4_dst.is_multicast, ipv4_dst="239.1.1.1")[0] is True
    assert ask(lambda pkt: pkt.ipv4_dst.is_multicast, ipv4_dst="10.1.1.1")[0] is False
    answer, decision = ask(lambda pkt: pkt.tcp_dst.matches(0, 1), tcp_dst=80)
    assert answer is True
    assert decision.trace == ["test eth_type=0x800, ip_proto=6, tcp_dst=0/0x1: yes"]


def test_several_conditions_are_one_test() -> None:
    def fits(pkt: Packet) -> bool:
        return pkt.matches(ipv4_src="10.0.0.0/8", ip_proto=6, tcp_dst=range(1024, 2048))

    answer, decision = ask(fits, ipv4_src="10.1.2.3", tcp_dst=1500)
    assert answer is True
    assert decision.trace == ["test eth_type=0x800, ip_proto=6, ipv4_src=10.0.0.0/8, tcp_dst=1024..2047: yes"]
    assert ask(fits, ipv4_src="10.1.2.3", tcp_dst=2048)[0] is False
    assert ask(fits, ipv4_src="11.1.2.3", tcp_dst=1500)[0] is False
    assert ask(fits, ipv4_src="10.1.2.3", udp_dst=1500)[0] is False
    assert ask(fits, ipv6_src="fe80::1", tcp_dst=1500)[0] is False


def test_conditions_on_ports_are_asked_of_ipv4_and_of_ipv6() -> None:
    answer, decision = ask(lambda pkt: pkt.matches(tcp_src=1, tcp_dst=22), ipv6_src="fe80::1", tcp_src=1, tcp_dst=22)
    assert answer is True
    assert decision.trace == [
        "test eth_type=0x800, ip_proto=6, tcp_src=1, tcp_dst=22: no",
        "test eth_type=0x86dd, ip_proto=6, tcp_src=1, tcp_dst=22: yes",
    ]


def test_conditions_take_what_comparisons_take() -> None:
    packet: dict[str, Any] = {"eth_src": "00:00:00:00:00:07", "vlan_vid": 5, "ipv4_dst": "10.0.0.9", "udp_dst": 53}
    assert ask(lambda p: p.matches(eth_src=Mac("00-00-00-00-00-07"), vlan_vid=5), **packet)[0] is True
    assert ask(lambda p: p.matches(vlan_vid=range(4096), ipv4_dst=Ip("10.0.0.9")), **packet)[0] is True
    assert ask(lambda p: p.matches(ipv4_dst=ipaddress.ip_network("10.0.0.8/31")), **packet)[0] is True
    assert ask(lambda p: p.matches(ipv4_dst=Prefix("10.0.0.0/29")), **packet)[0] is False
    assert ask(lambda p: p.matches(udp_dst=range(-5, 100_000)), **packet)[0] is True
    assert ask(lambda p: p.matches(udp_dst=range(53, 53)), **packet)[0] is False
    assert ask(lambda p: p.matches(tcp_dst=53, udp_dst=53), **packet)[0] is False
    assert ask(lambda p: p.matches(vlan_vid=range(6, 4096)), **packet)[0] is False
    assert ask(lambda p: p.matches(vlan_vid=range(4096)), udp_dst=53)[0] is False


def test_comparing_two_fields_reads_both() -> None:
    _, decision = ask(lambda pkt: pkt.eth_src == pkt.eth_dst)
    assert [item.split("=")[0] for item in decision.trace] == ["read eth_src", "read eth_dst"]


def test_the_switch_is_a_number_and_only_noted() -> None:
    answer, decision = ask(lambda pkt: pkt.switch)
    assert (answer, decision.trace, decision.read_switch) == (1, [], True)


def test_each_item_knows_its_line() -> None:
    def policy(pkt: Packet, net: object) -> maple.Route:
        if pkt.tcp_dst == 22:
            return drop()
        return maple.to(int(pkt.in_port))

    first = policy.__code__.co_firstlineno
    decision = BENCH.decide(policy, frame(udp_dst=22))
    assert decision.lines == [first + 1, first + 1, first + 3]


@pytest.mark.parametrize(
    ("question", "message"),
    [
        (
            lambda p: p.tcp_dst == "ssh",
            "TypeError: tcp_dst is a number from 0 to 65535; it can't be compared with 'ssh'",
        ),
        (lambda p: p.tcp_dst == 70000, "ValueError: tcp_dst is 0 to 65535; it can't be 70000"),
        (
            lambda p: p.tcp_dst == 2.5,
            "TypeError: tcp_dst is a number from 0 to 65535; it can't be compared with 2.5 (float)",
        ),
        (lambda p: p.eth_src == "nonsense", 'ValueError: eth_src is a MAC address: "nonsense" is not a MAC address'),
        (lambda p: p.eth_src < "00:00:00:00:00:01", "TypeError: eth_src is a MAC address, and these have no order"),
        (lambda p: p.ipv4_src == "fe80::1", "ValueError: ipv4_src is an IPv4 address; it can't be fe80::1"),
        (
            lambda p: p.ipv4_src == p.eth_src,
            "TypeError: ipv4_src can't be compared with eth_src: they are of different",
        ),
        (lambda p: p.tcp_dst in Prefix("10.0.0.0/8"), "TypeError: tcp_dst is a number and has no prefixes"),
        (lambda p: p.eth_src in Prefix("10.0.0.0/8"), "TypeError: eth_src can't lie in 10.0.0.0/8"),
        (
            lambda p: p.ipv4_src in ipaddress.ip_network("10.0.0.0/8"),
            "TypeError: `pkt.ipv4_src in ip_network(…)` can't",
        ),
        (lambda p: p.tcp_port, "AttributeError: a packet has no field 'tcp_port'; did you mean pkt.tcp_"),
        (
            lambda p: p.vlan_vid == 20 | 0x1000,
            "ValueError: vlan_vid is 0 to 4095; it can't be 4116: OpenFlow's bit 0x1000 is not part of the id,",
        ),
        (lambda p: p.tcp_dst < None, "TypeError: tcp_dst can't be ordered against None"),
        (lambda p: p.matches(), "TypeError: pkt.matches() needs a condition, such as tcp_dst=22"),
        (lambda p: p.matches(tcp_port=22), "TypeError: pkt.matches() got an unknown field"),
        (lambda p: p.matches(tcp_dst=70000), "ValueError: tcp_dst is 0 to 65535; it can't be 70000"),
        (
            lambda p: p.matches(tcp_dst=(22, 80)),
            "TypeError: pkt.matches(tcp_dst=…) takes one value, a prefix or a range",
        ),
        (lambda p: p.matches(tcp_dst=None), "TypeError: pkt.matches(tcp_dst=None) would ask for an absent field"),
        (lambda p: p.matches(tcp_dst=p.tcp_src), "TypeError: pkt.matches(tcp_dst=…) takes values, not tcp_src"),
        (lambda p: p.matches(tcp_dst=range(0, 80, 2)), "ValueError: tcp_dst: range(0, 80, 2) has a step"),
        (lambda p: p.matches(tcp_dst="0/8"), "TypeError: tcp_dst is a number and has no prefixes"),
        (
            lambda p: p.matches(ipv4_src="10.0.0.1/8"),
            'ValueError: ipv4_src: "10.0.0.1/8" has bits set after its prefix',
        ),
        (lambda p: p.matches(ipv4_src="fe80::/10"), "TypeError: ipv4_src can't lie in fe80::/10: that is of another"),
        (lambda p: p.matches(eth_src=range(5)), "TypeError: eth_src is an address, not in a range"),
    ],
)
def test_wrong_comparisons_name_the_field(question: Callable[[Packet], object], message: str) -> None:
    assert error(question, tcp_dst=80).startswith(message)


def test_a_number_out_of_range_orders_as_it_should() -> None:
    assert ask(lambda pkt: pkt.tcp_dst < 70000, tcp_dst=80)[0] is True
    assert ask(lambda pkt: pkt.tcp_dst < 70000, udp_dst=80)[0] is False
    assert ask(lambda pkt: pkt.tcp_dst >= 2**200, tcp_dst=80)[0] is False
    assert ask(lambda pkt: pkt.tcp_dst > -1, tcp_dst=0)[0] is True


def test_fields_of_an_earlier_packet_are_refused_unless_they_were_read() -> None:
    kept: list[Field] = []
    ask(lambda pkt: kept.extend([pkt.tcp_dst, pkt.tcp_src]) or hash(kept[0]), tcp_dst=80)
    assert kept[0] == 80
    assert repr(kept[1]) == "<tcp_src of an earlier packet>"
    with pytest.raises(RuntimeError, match="tcp_src belongs to a run of the policy that is over"):
        int(kept[1])
    seen = {kept[0]: "first"}
    assert ask(lambda pkt: seen.get(pkt.tcp_dst), tcp_dst=80)[0] == "first"


def test_plain_addresses_behave() -> None:
    assert Mac("AA-BB-CC-00-11-22") == "aa:bb:cc:00:11:22" == str(Mac(0xAABBCC001122))
    assert hash(Mac("AA-BB-CC-00-11-22")) == hash("aa:bb:cc:00:11:22")
    assert Ip("10.0.0.1") == ipaddress.ip_address("10.0.0.1")
    assert Ip("10.0.0.1") < Ip("10.0.0.2") <= Ip("10.0.0.2")
    assert Ip("10.1.2.3").prefix(8) == "10.0.0.0/8" == Prefix("10.0.0.0/8")
    assert "10.2.3.4" in Prefix("10.0.0.0/8") and "fe80::1" not in Prefix("10.0.0.0/8")
    assert repr([Mac("00:00:00:00:00:01"), Ip("::1"), Prefix("::/0")]) == (
        "[Mac('00:00:00:00:00:01'), Ip('::1'), Prefix('::/0')]"
    )
    assert (Mac("00:00:00:00:00:01") == 5, Ip("::1") == object(), Prefix("::/0") == 3) == (False, False, False)
    with pytest.raises(ValueError, match=r"did you mean 10\.0\.0\.0/8"):
        Prefix("10.0.0.1/8")
    with pytest.raises(ValueError, match="is not a MAC address"):
        Mac("00:11:22")
