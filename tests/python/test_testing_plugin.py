"""The plugin of pytest, run by pytest: the fixtures, coverage, the summary, and the command."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from maple import Table
from maple.testing._command import run_for
from maple.testing._coverage import FileCoverage
from maple.testing._lines import lines_of

pytest_plugins = ["pytester"]

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
MAPLE = [sys.executable, "-m", "maple"]
POLICY = """\
from maple import Net, Packet, Route, Table, drop, flood, policy

blocked = Table("blocked")


@policy
def f(pkt: Packet, net: Net) -> Route:
    if pkt.tcp_dst == 22 or pkt.tcp_dst == 23:
        return drop()
    if pkt.vlan_vid == 5:
        return (
            drop()
        )
    return flood()
"""


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makepyfile(f=POLICY)
    return pytester


def test_the_fixture_needs_no_configuration(project: pytest.Pytester) -> None:
    project.makepyfile(
        test_f="""
        def test_good(network):
            net = network("linear:2", policy="f.py")
            net.assert_delivered("h1", "h2")
            net.state["blocked"][1] = 2

        def test_tables_are_empty_again(network):
            assert len(network("linear:2", "f.py").state["blocked"]) == 0

        def test_bad(network):
            network("linear:2", "f.py").assert_delivered("h1", "h2", tcp_dst=22)
        """
    )
    before = Table("of the process")
    before["kept"] = 1
    result = project.runpytest()
    result.assert_outcomes(passed=2, failed=1)
    assert before.get("kept") == 1, "afterwards tables live where they did"
    del before["kept"]
    result.stdout.fnmatch_lines(
        [
            '*network("linear:2", "f.py").assert_delivered("h1", "h2", tcp_dst=22)',
            "E*AssertionError: h2 did not get it",
            "E*became  no copy came anywhere*",
            "E*h1 (s1:1) → h2 (s2:1)  tcp 10.0.0.1:40000 > 10.0.0.2:22  dropped by f.py:9",
            "E*f.py:8  if pkt.tcp_dst == 22 or pkt.tcp_dst == 23:*tcp_dst=22: yes*",
            "E*would pass if: tcp_dst=*, for example",
        ]
    )
    # With CI=true pytest prints the whole message once more, in its summary.
    (example,) = set(re.findall(r"would pass if: tcp_dst=(\d+), for example", result.stdout.str()))
    assert int(example) not in (22, 23)
    assert "_network.py" not in result.stdout.str(), "the kit's own lines are hidden"


def test_policies_are_found_beside_the_test(project: pytest.Pytester) -> None:
    folder = project.mkdir("tests")
    (folder / "test_up.py").write_text(
        "def test_up(network):\n    network('linear:2', '../f.py').assert_delivered('h1', 'h2')\n"
    )
    (folder / "test_missing.py").write_text("def test_missing(network):\n    network('linear:2', 'f.py')\n")
    result = project.runpytest()
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*FileNotFoundError: there is no policy f.py in *tests"])


def test_a_policy_that_fails_on_a_packet_fails_the_test(project: pytest.Pytester) -> None:
    project.makepyfile(
        bad="""
        from maple import *

        @policy
        def f(pkt, net):
            if pkt.tcp_dst == 7:
                raise KeyError("seven")
            return flood()
        """
    )
    project.makepyfile(
        test_bad="""
        def test_unseen(network):
            network("linear:2", "bad.py").send("h1", "h2", tcp_dst=7)

        def test_allowed(network):
            network("linear:2", "bad.py", may_fail=True).send("h1", "h2", tcp_dst=7)
        """
    )
    result = project.runpytest()
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(["*the policy failed:*", "*KeyError: 'seven'*"])


def test_handlers_have_a_fixture_too(project: pytest.Pytester) -> None:
    project.makepyfile(
        test_h=f"""
        import pytest
        from maple.testing import frame

        def test_hub(handler):
            bench = handler({str(EXAMPLES / "learning_switch_handler.py")!r}, ports=[1, 2])
            assert "FLOOD" in bench.packet_in(frame(tcp_dst=1), port=1)[0]

        def test_policy(handler):
            with pytest.raises(ValueError, match="has a policy, which the fixture network tests"):
                handler("f.py")
        """
    )
    project.runpytest().assert_outcomes(passed=2)


def test_coverage_names_what_no_packet_took(project: pytest.Pytester) -> None:
    project.makepyfile(
        test_f="""
        def test_some(network):
            net = network("linear:2", policy="f.py")
            net.assert_delivered("h1", "h2", tcp_dst=80)
            net.assert_delivered("h1", "h2", tcp_dst=80)
            net.assert_dropped("h1", "h2", tcp_dst=22)
        """
    )
    result = project.runpytest("--maple-coverage")
    result.assert_outcomes(passed=1)
    # Of three tests two were never true; of seven lines only the inner drop() was not reached.
    result.stdout.re_match_lines(
        [
            r"policy +tests +one-sided +lines +unreached +covered",
            r"f\.py +3 +2 +5 +1 +73%",
            r"  f\.py:8: tcp_dst=23: never yes \(asked \d+ times\)",
            r"  f\.py:10: vlan_vid=5: never yes \(asked \d+ times\)",
            r"  f\.py:12: never reached: drop\(\)",
        ]
    )
    assert "coverage of policies" not in project.runpytest().stdout.str()


def test_coverage_of_all_is_a_hundred(project: pytest.Pytester) -> None:
    project.makepyfile(
        test_f="""
        def test_all(network):
            net = network("linear:2", policy="f.py")
            for fields in ({"tcp_dst": 22}, {"tcp_dst": 23}, {"vlan_vid": 5}):
                net.assert_dropped("h1", "h2", **fields)
            net.assert_delivered("h1", "h2", tcp_dst=80)
        """
    )
    result = project.runpytest("--maple-coverage")
    result.stdout.re_match_lines([r"f\.py +3 +0 +5 +0 +100%"])


def test_lines_that_ask_or_answer_are_found_in_the_source(tmp_path: Path) -> None:
    file = tmp_path / "f.py"
    file.write_text(POLICY + "\n\ndef helper(a):\n    return a.b == 3 or path(a)\n")
    assert dict(lines_of(str(file))) == {8: 8, 9: 9, 10: 10, 12: 12, 14: 14}
    half = FileCoverage("f.py", {(1, "a"): [1, 0]}, {1: True, 2: False})
    assert half.percent == 50 and next(gap.split(": ", 1)[1] for gap in half.gaps()) == "a: never yes (asked once)"


def test_explorations_are_in_the_summary(project: pytest.Pytester) -> None:
    project.makepyfile(
        test_f="""
        def test_loops(network):
            network("linear:2", policy="f.py").assert_no_loops()
        """
    )
    result = project.runpytest("-v")
    result.stdout.fnmatch_lines(["*explored policies*", "no loops: proved for all packets"])


def test_the_command_runs_the_tests_beside_a_policy(tmp_path: Path) -> None:
    (tmp_path / "f.py").write_text(POLICY)
    done = subprocess.run(
        [*MAPLE, "test", "f.py"], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 2 and "f.py has no tests: there is no test_f.py, and no tests/test_f.py" in done.stderr
    (tmp_path / "test_f.py").write_text(
        "def test_one(network): network('linear:2', 'f.py').assert_delivered('h1', 'h2')\n"
        "def test_other(network): network('linear:2', 'f.py').assert_delivered('h1', 'h2', tcp_dst=22)\n"
    )
    done = subprocess.run(
        [*MAPLE, "test", "f.py"], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1 and "1 failed, 1 passed" in done.stdout, done.stdout + done.stderr
    command = [*MAPLE, "test", "f.py", "-k", "one", "--maple-coverage"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0 and "coverage of policies" in done.stdout, done.stdout + done.stderr


def test_what_the_command_runs() -> None:
    assert run_for(str(EXAMPLES / "acl.py")) == [str(EXAMPLES / "test_acl.py")]
    for same in ("-k", "test_x.py", "tests", "test_x.py::test_y", str(EXAMPLES)):
        assert run_for(same) == [same]


def test_the_run_for_the_examples_pass() -> None:
    done = subprocess.run(
        [*MAPLE, "test", str(EXAMPLES), "-p", "no:cacheprovider"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    policies = {path.stem for path in EXAMPLES.glob("*.py") if not path.stem.startswith("test_")} - {"campus_portal"}
    assert policies == {path.stem.removeprefix("test_") for path in EXAMPLES.glob("test_*.py")}, "each has its tests"
