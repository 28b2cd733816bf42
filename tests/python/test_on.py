"""`@on`: functions that hear what happens beside a policy."""

from __future__ import annotations

import queue
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
from maple import _on, on
from test_command import maple


def run(folder: Path, functions: str, policy: str = "flood()", traffic: str = "2s") -> str:
    file = folder / "p.py"
    text = f"""
        from maple import Table, drop, flood, frame, on, policy, to

        def say(*words):
            print("said:", *words, flush=True)

        @policy
        def f(pkt, net):
            return {policy}
    """
    file.write_text(textwrap.dedent(text) + textwrap.dedent(functions))
    options = ("--emulate", "linear:2", "--traffic", traffic, "--rate", "5", "--allow-drops")
    done = maple("run", str(file), *options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def said(output: str) -> list[str]:
    return [line.removeprefix("said: ") for line in output.splitlines() if line.startswith("said: ")]


def test_what_ports_and_hosts_have_sent_is_told_with_rates_from_the_second_time_on(tmp_path: Path) -> None:
    output = run(
        tmp_path,
        """
        from maple import Counts

        reports = []

        @on(stats=2)
        def tell(counts, net):
            assert isinstance(counts, Counts) and counts.ports is counts.ports
            reports.append(counts.ports)
            for port in counts.ports:
                say("port", len(reports), *port.at, port.rx_mbps is None, port.tx_bytes >= port.tx_packets * 14)
            for pair in counts.traffic:
                say("pair", pair.source, pair.switch > 0, pair.bytes >= pair.packets)
        """,
        "flood() if pkt.eth_dst.is_multicast else net.shortest_path(net.locate(pkt.eth_src), net.locate(pkt.eth_dst))",
        traffic="6s",
    )
    assert "failed" not in output
    lines = said(output)
    assert {line for line in lines if line.startswith("port 1 ")} == {
        f"port 1 {switch} {port} True True" for switch in (1, 2) for port in (1, 2)
    }
    assert "port 2 1 1 False True" in lines
    assert any(line.startswith("pair 00:00:00:00:00:0") and line.endswith(" True True") for line in lines), lines


def test_switches_ports_packets_and_time_are_heard_of(tmp_path: Path) -> None:
    output = run(
        tmp_path,
        """
        packets = Table("packets")

        @on("switch_up")
        def up(switch, net):
            say("up", switch)

        @on(packet_in={"arp_op": 1})
        def asked(pkt, net):
            packets[str(pkt.arp_tpa)] = pkt.at.port
            say("asks", pkt.arp_spa, pkt.eth_dst, pkt.udp_dst, len(pkt.frame) == pkt.total_len)

        @on(packet_in={"udp_dst": 7777})
        def never(pkt, net):
            say("never")

        @on(timer=0.2)
        def tick(net):
            say("tick", len(packets) > 0, len(net.switches()), len(net.hosts()) > 0)
        """,
    )
    words = said(output)
    assert sorted(word for word in words if word.startswith("up")) == ["up 1", "up 2"]
    asked = [word.split() for word in words if word.startswith("asks")]
    assert asked and all(word[2:] == ["ff:ff:ff:ff:ff:ff", "None", "True"] for word in asked), words
    assert "tick True 2 True" in words and "never" not in words
    assert sum(word.startswith("tick") for word in words) < 40


def test_a_packet_that_is_heard_of_still_goes_where_the_policy_says(tmp_path: Path) -> None:
    # Every packet is heard of; the run checks each against the policy, and ends with status 0.
    output = run(tmp_path, "@on(packet_in={})\ndef all_of_them(pkt, net):\n    say(pkt.at)\n")
    heard = len(said(output))
    (sent,) = [int(line.split()[-1]) for line in output.splitlines() if "packets sent by hosts" in line]
    assert heard >= sent > 10, output


def test_a_function_that_fails_is_told_of_and_the_others_hear_on(tmp_path: Path) -> None:
    output = run(
        tmp_path,
        """
        @on(timer=0.1)
        def bad(net):
            return 1 // 0

        @on(timer=0.1)
        def good(net):
            say("good")
        """,
    )
    assert len(said(output)) > 3
    assert "a listener failed: Traceback" in output and "ZeroDivisionError" in output
    assert "_on.py" not in output and "p.py" in output and "10 times so far" in output


def test_frames_go_out_of_edge_ports_and_nowhere_else(tmp_path: Path) -> None:
    output = run(
        tmp_path,
        """
        hello = frame(eth_dst="ff:ff:ff:ff:ff:ff", eth_src="02:00:00:00:00:fe", eth_type=0x88b5, payload=b"hello")

        def tried(net, at):
            try:
                net.send(hello, at)
                say(at, "sent")
            except RuntimeError as error:
                say(at, error)

        done = []

        @on(packet_in={"arp_op": 1})
        def asked(pkt, net):
            if not done:
                done.append(True)
                pkt.reply(hello)
                for at in (pkt.at, (1, 2), (7, 1), (1, 99)):
                    tried(net, at)
        """,
    )
    words = said(output)
    assert len(words) == 4 and words[0].endswith("sent")
    assert words[1].endswith("port 2 of switch 0000000000000001 is not an edge port: it does not exist, or is a link")
    assert words[2].endswith("there is no switch 0000000000000007")
    assert words[3].endswith("is not an edge port: it does not exist, or is a link")


def nothing() -> None: ...


def one(net: object) -> None: ...


@pytest.mark.parametrize(
    ("decorate", "function", "error", "words"),
    [
        (lambda: on("switch_down", "swich_up"), one, ValueError, r"@on\('swich_up'\): there is no such event"),
        (lambda: on(), one, TypeError, "needs to know of what"),
        (lambda: on(timer=0), one, ValueError, "seconds from 0.001"),
        (lambda: on(packet_in="udp"), one, TypeError, "takes fields"),  # type: ignore[arg-type]
        (lambda: on(stats=1), one, ValueError, "seconds from 2"),
        (lambda: on(stats=5), one, TypeError, r"@on calls one\(event, net\)"),
        (lambda: on(timer=1), nothing, TypeError, r"@on calls nothing\(net\); this one is nothing\(\)"),
        (lambda: on("switch_up"), one, TypeError, r"@on calls one\(event, net\); this one is one\(net"),
    ],
)
def test_what_cannot_be_heard_is_refused_where_it_stands(
    decorate: Callable[[], Callable[[object], object]], function: object, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        decorate()(function)


def test_a_field_that_there_is_none_of_is_named(tmp_path: Path) -> None:
    file = tmp_path / "p.py"
    file.write_text(
        "from maple import drop, on, policy\n\n@policy\ndef f(pkt, net):\n    return drop()\n\n"
        "@on(packet_in={'ether_type': 1})\ndef g(pkt, net):\n    pass\n"
    )
    done = maple("run", str(file), "--emulate", "linear:2", "--traffic", "1s")
    assert done.returncode == 1 and "ether_type" in done.stderr


def test_a_file_that_is_loaded_beside_a_policy_that_starts_changes_none_of_its_functions() -> None:
    """The control socket takes commands before the functions begin to be called."""
    called: queue.SimpleQueue[str] = queue.SimpleQueue()

    class Once:
        def __init__(self) -> None:
            self.events = [("switch_up", 1), ("end",)]

        def next(self, wait: float) -> tuple[object, ...]:
            return self.events.pop(0)

    before = _on.set_aside()
    try:
        on("switch_up")(lambda switch, net: called.put("first"))
        _on.get_ready()
        first = _on.set_aside()
        on("switch_up")(lambda switch, net: called.put("second"))
        _on.start(Once())  # type: ignore[arg-type]
        assert called.get(timeout=10) == "first"
        _on.take_back(first)
    finally:
        _on.take_back(before)
