"""Policies that fail, in all the ways there are; spellings that look right; loading files."""

from __future__ import annotations

import os
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest
from maple import Policy, drop, policy, to
from maple._policy import load
from maple._reload import load_again
from maple._reload import refused as put_back
from maple.testing import Bench, frame

PACKET = frame(tcp_dst=80)


def refused(bench: Bench, f: Any, **options: Any) -> str:
    decision = bench.decide(f, PACKET, **options)
    assert decision.route is None
    assert decision.error is not None
    return decision.error


def test_an_exception_comes_with_its_traceback(bench: Bench) -> None:
    def f(pkt: Any, net: Any) -> Any:
        return {}["no such key"]

    error = refused(bench, f)
    assert error.startswith("Traceback (most recent call last):")
    assert f'test_policy.py", line {f.__code__.co_firstlineno + 1}, in f' in error
    assert error.endswith("KeyError: 'no such key'")


def test_a_misspelt_question_names_the_one_that_is_meant(bench: Bench) -> None:
    error = refused(bench, lambda pkt, net: net.shortestpath(pkt.eth_src, pkt.eth_dst))
    assert error.endswith("AttributeError: net has no 'shortestpath'; did you mean net.shortest_path?")
    assert "AttributeError: net has no 'zzz'; it has " in refused(bench, lambda pkt, net: net.zzz)


def test_a_recursion_without_end_is_told_in_some_lines(bench: Bench) -> None:
    def even(n: int) -> Any:
        return odd(n + 1)

    def odd(n: int) -> Any:
        return even(n + 1)

    error = refused(bench, lambda pkt, net: even(0))
    lines = error.splitlines()
    assert len(lines) < 100 and "calls are left out here]" in error, error
    assert lines[0].startswith("Traceback") and lines[-1].startswith("RecursionError: "), error


def test_even_an_exit_is_only_an_exception(bench: Bench) -> None:
    def f(pkt: Any, net: Any) -> Any:
        raise SystemExit(3)

    assert refused(bench, f).endswith("SystemExit: 3")


@pytest.mark.parametrize("answer", [None, 1, "drop", [drop()], drop])
def test_a_wrong_return_value_is_named(bench: Bench, answer: Any) -> None:
    assert f"({type(answer).__name__})" in refused(bench, lambda pkt, net: answer)


def test_an_endless_run_is_stopped_and_the_next_one_is_not(bench: Bench) -> None:
    def endless(pkt: Any, net: Any) -> Any:
        while True:
            pass

    began = time.monotonic()
    error = refused(bench, endless, time_limit=0.2)
    assert 0.15 < time.monotonic() - began < 10
    assert error.endswith("maple.PolicyTimeout: the policy ran longer than 200 ms")
    assert ", in endless" in error
    for _ in range(50):
        assert bench.decide(lambda pkt, net: drop(), PACKET, time_limit=5).error is None


def test_an_endless_run_that_catches_everything_is_stopped_too(bench: Bench) -> None:
    def stubborn(pkt: Any, net: Any) -> Any:
        caught = 0
        while True:
            try:
                while caught < 3:
                    pass
                return drop()
            except BaseException:
                caught += 1

    bench.decide(stubborn, PACKET, time_limit=0.1)


def test_a_run_just_within_the_limit_leaves_nothing_pending(bench: Bench) -> None:
    def close(pkt: Any, net: Any) -> Any:
        end = time.monotonic() + 0.02
        while time.monotonic() < end:
            pass
        return drop()

    for _ in range(20):
        bench.decide(close, PACKET, time_limit=0.02)
        assert bench.decide(lambda pkt, net: drop(), PACKET).error is None


def test_ranges_are_refused_wherever_they_come_from(bench: Bench) -> None:
    ports = range(1, 1024)

    def direct(pkt: Any, net: Any) -> Any:
        return drop() if pkt.tcp_dst in range(1, 1024) else to(1)

    def named(pkt: Any, net: Any) -> Any:
        return drop() if pkt.tcp_dst not in ports else to(1)

    for f in (direct, named):
        for _ in range(2):
            assert refused(bench, f).endswith(
                "TypeError: `pkt.tcp_dst in range(a, b)` would compare with one number after the other; "
                "write `a <= pkt.tcp_dst < b` (numbers from 0 to 65535)"
            )

    def fine(pkt: Any, net: Any) -> Any:
        services = [22, 80, 443]
        for port in range(3):
            if pkt.tcp_dst == port:
                return drop()
        assert pkt.tcp_dst in services and pkt.tcp_dst in (80, 81) and pkt.tcp_dst == 80
        return drop()

    assert bench.decide(fine, PACKET).error is None


def write(folder: Path, text: str, name: str = "mine.py") -> str:
    path = folder / name
    path.write_text(textwrap.dedent(text))
    return str(path)


IDENTITY = """
    from maple import policy, drop
    @policy
    def f(pkt, net):
        {}
        return drop()
    """


@pytest.mark.parametrize(
    ("line", "advice"),
    [
        (
            "return drop() if pkt.tcp_dst is None else drop()",
            "write `pkt.tcp_dst == None`, or `pkt.tcp_dst.is_present`",
        ),
        ("x = pkt.ipv4_src; y = x is not None", "write `x != None`, or `x.is_present`"),
        ("match pkt.tcp_dst:\n            case None: pass", "write `pkt.tcp_dst == None`"),
    ],
)
def test_identity_with_none_is_refused_at_import(tmp_path: Path, line: str, advice: str) -> None:
    with pytest.raises(SyntaxError, match="can't see whether the packet has the field") as caught:
        load(write(tmp_path, IDENTITY.format(line)))
    assert advice in str(caught.value)
    assert caught.value.filename == str(tmp_path / "mine.py")


def test_identity_of_other_things_is_fine(tmp_path: Path) -> None:
    load(
        write(
            tmp_path,
            IDENTITY.format("rule = net; dst = net.locate(pkt.eth_dst); a = dst is None or rule.tcp_dst is None"),
        )
    )


def test_a_file_has_one_policy_or_says_which(tmp_path: Path) -> None:
    one = "from maple import policy, drop\n@policy\ndef f(pkt, net): return drop()\n"
    assert isinstance(load(write(tmp_path, one)), Policy)
    two = one + "@policy\ndef g(pkt, net): return drop()\n"
    path = write(tmp_path, two)
    with pytest.raises(LookupError, match=r"has the policies f, g; say which one: .*mine\.py:NAME"):
        load(path)
    assert load(path, "g").function.__name__ == "g"
    with pytest.raises(LookupError, match="has no policy 'h'; it has the policies f, g"):
        load(path, "h")
    with pytest.raises(LookupError, match="has no policy; decorate a function with @policy"):
        load(write(tmp_path, "x = 1\n"))


def test_a_file_may_import_its_neighbours_and_use_dataclasses(tmp_path: Path) -> None:
    write(tmp_path, "ANSWER = 42\n", "neighbour_of_mine.py")
    load(
        write(
            tmp_path,
            """
            from __future__ import annotations
            from dataclasses import dataclass
            import neighbour_of_mine
            from maple import policy, drop
            @dataclass
            class Rule:
                port: int
            @policy(track_hosts=False)
            def f(pkt, net):
                return drop()
            """,
        )
    )


def test_only_plain_functions_of_two_arguments_are_policies() -> None:
    async def asynchronous(pkt: Any, net: Any) -> Any: ...

    def generator(pkt: Any, net: Any) -> Any:
        yield drop()

    for wrong in (asynchronous, generator, lambda pkt: drop(), 3):
        with pytest.raises(TypeError, match=r"plain function|takes two arguments|needs a function"):
            policy(wrong)  # type: ignore[call-overload]


def test_a_file_is_read_again_though_its_size_and_time_are_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.dont_write_bytecode", False)
    beside, file = tmp_path / "beside_same_size.py", tmp_path / "same_size.py"
    policy = """
        from beside_same_size import PORT
        from maple import policy, to

        @policy
        def f(pkt, net):
            return to(PORT)
    """
    bench = Bench()
    bench.switch(1, [1, 2, 3, 4])

    def write(path: Path, text: str) -> None:
        path.write_text(textwrap.dedent(text))
        os.utime(path, (1_700_000_000, 1_700_000_000))

    def exits(found: Any) -> Any:
        return [place.port for place, _ in bench.decide(found, PACKET).copies]

    def reloaded() -> Any:
        found = exits(load_again(str(file)))
        put_back()
        return found

    write(beside, "PORT = 2\n")
    write(file, policy)
    assert exits(load(str(file))) == [2]
    write(beside, "PORT = 3\n")
    assert reloaded() == [3]
    write(file, policy.replace("PORT)", "   4)"))
    assert reloaded() == [4]
