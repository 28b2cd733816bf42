"""The lessons of docs/tutorial, and the policies of docs/from: what they show is what happens."""

from __future__ import annotations

import doctest
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import maple
import pytest
from maple import Policy, Table
from maple.testing import Bench, frame

DOCS = Path(__file__).parents[2] / "docs"
LESSONS = sorted((DOCS / "tutorial").glob("[0-9]-*.md"))
BLOCK = re.compile(r'^```(\w+)(?: title="([^"]*)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)
#: Times, cookies and metadata differ from run to run.
VARIES = re.compile(
    r"\b\d+(?:\.\d+)?(?:us|ms|s)\b|(?<=cookie=)\w+|(?<=write_metadata:)\w+|^ +\d+(?= packets )", re.MULTILINE
)


def blocks(page: Path) -> Iterator[tuple[str, str, str]]:
    """The language, the title and the text of each block of code."""
    yield from BLOCK.findall(page.read_text())


def normal(text: str) -> str:
    return VARIES.sub("…", text).replace("cookie=…", "cookie=")


def matches(shown: list[str], printed: list[str]) -> bool:
    """Whether the lines are those that the page shows, where `…` stands for any number of lines."""
    reached = {0}
    for line in shown:
        if line == "…":
            reached = set(range(min(reached, default=len(printed) + 1), len(printed) + 1))
        else:
            reached = {at + 1 for at in reached if at < len(printed) and line_matches(line, printed[at])}
    return len(printed) in reached


def line_matches(shown: str, printed: str) -> bool:
    pattern = ".*".join(re.escape(part) for part in normal(shown).strip().split("…"))
    return re.fullmatch(pattern, normal(printed).strip()) is not None


class Watch:
    """Calls a function if the block takes longer than some seconds."""

    def __init__(self, seconds: float, late: Callable[[], None]) -> None:
        self.timer = threading.Timer(seconds, late)

    def __enter__(self) -> None:
        self.timer.start()

    def __exit__(self, *_: object) -> None:
        self.timer.cancel()


def play(network: maple._emulate.Network, session: str) -> None:
    """Types the lines of a console session, and compares what is printed."""
    commands = re.split(r"^(?=[>$] )", session, flags=re.MULTILINE)
    for command in filter(None, commands):
        typed, *shown = command.splitlines()
        if typed.startswith("$ maple state "):
            change_state(network, typed.split()[3:])
            network.run(0.1)
            continue
        if typed.startswith(("> show rules", "> explain ")):
            # The controller of `maple run` is asked: the program itself is compared below.
            continue
        printed = network.command(typed.removeprefix("> ")).splitlines()
        assert matches(shown, printed), f"{typed}\nthe page:\n{shown}\nprinted:\n{printed}"


def change_state(network: maple._emulate.Network, words: list[str]) -> None:
    match words:
        case ["set", table, host, "true", *_]:
            Table(table)[getattr(network, host).mac] = True
        case ["delete", table, host, *_]:
            del Table(table)[getattr(network, host).mac]
        case _:
            raise AssertionError(f"the test does not know `maple state {' '.join(words)}`")


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.stem)
def test_a_lesson_shows_what_happens(lesson: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    played = 0
    globs: dict[str, object] = {}
    for language, title, text in blocks(lesson):
        if language == "python":
            Path(title).write_text(text)
        elif language == "pycon":
            parsed = doctest.DocTestParser().get_doctest(text, globs, lesson.stem, str(lesson), 0)
            runner = doctest.DocTestRunner()
            runner.run(parsed, clear_globs=False)
            globs.update(parsed.globs)
            assert runner.failures == 0
            played += 1
        elif language == "console":
            assert title.startswith(("maple test ", "maple check ")), title
            done = subprocess.run(
                [sys.executable, "-m", *title.split()], capture_output=True, text=True, timeout=60, check=False
            )
            assert text.strip() in done.stdout, done.stdout + done.stderr
            played += 1
        else:
            command = re.fullmatch(
                r"maple run (\w+\.py) --emulate (\S+)(?: --explore 0)?(?: --control \S+)? --console", title
            )
            assert command is not None, title
            network = maple.emulate(command[2], command[1])
            play(network, text)
            assert network.errors == []
            played += 1
    assert played > 0


def sessions(lesson: Path) -> list[tuple[str, str]]:
    """What starts each console session of a lesson, and what is typed and printed there."""
    return [(title, text) for _, title, text in blocks(lesson) if title.endswith(" --console")]


@pytest.mark.parametrize("lesson", [lesson for lesson in LESSONS if sessions(lesson)], ids=lambda lesson: lesson.stem)
def test_the_sessions_of_a_lesson_are_scripts_that_end_with_status_0(lesson: Path, tmp_path: Path) -> None:
    """Runs the program itself. Lesson 6 ended with status 1: an answer to a probe of a host was called lost."""
    for language, title, text in blocks(lesson):
        if language == "python":
            (tmp_path / title).write_text(text)
    for title, text in sessions(lesson):
        command = [sys.executable, "-m", *title.split()]
        with (
            subprocess.Popen(
                command,
                cwd=tmp_path,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            ) as process,
            Watch(60, process.kill),
        ):
            assert process.stdin is not None and process.stdout is not None
            printed: list[str] = []
            for typed, *shown in (
                part.splitlines() for part in re.split(r"^(?=[>$] )", text, flags=re.MULTILINE) if part
            ):
                if typed.startswith("$ "):
                    subprocess.run([sys.executable, "-m", *typed.split()[1:]], cwd=tmp_path, timeout=60, check=True)
                    continue
                print(typed.removeprefix("> "), file=process.stdin, flush=True)
                while shown and not shown[-1].strip("… "):
                    shown.pop()
                # What the log tells may come in between.
                answer: list[str] = []
                while shown and not matches(["…", *"\n…\n".join(shown).split("\n")], answer):
                    answer.append(process.stdout.readline())
                    assert answer[-1], f"{typed}: {shown} never came\n{''.join(printed + answer)}"
                printed += answer
            process.stdin.close()
            printed += process.stdout
        assert process.returncode == 0, "".join(printed)


def test_there_are_eight_lessons_and_the_index_lists_them() -> None:
    assert [lesson.name[0] for lesson in LESSONS] == list("12345678")
    index = (DOCS / "tutorial/index.md").read_text()
    assert all(f"({lesson.name})" in index for lesson in LESSONS)


@pytest.fixture
def bench() -> Bench:
    """Two switches with hosts at ports 1 to 3 of the first and at port 1 of the second."""
    bench = Bench()
    bench.switch(1, [1, 2, 3])
    bench.switch(2, [1])
    bench.link((1, 9), (2, 9))
    for n, (switch, port) in enumerate([(1, 1), (1, 2), (1, 3), (2, 1)], start=1):
        bench.host(f"00:00:00:00:00:0{n}", switch=switch, port=port, ip=f"10.0.0.{n}")
    return bench


def policy_of(page: str, name: str) -> Policy:
    """The policy of this name on a page."""
    (text,) = [text for language, _, text in blocks(DOCS / page) if language == "python" and f"def {name}(" in text]
    names: dict[str, object] = {}
    exec(compile(text, page, "exec"), names)
    found = names[name]
    assert isinstance(found, Policy)
    return found


def test_the_policies_for_people_who_come_from_ryu_decide_as_the_page_says(bench: Bench) -> None:
    known = frame(eth_src="00:00:00:00:00:01", eth_dst="00:00:00:00:00:04")
    route = bench.decide(policy_of("from/ryu.md", "learning"), known, switch=1, port=1).route
    assert route is not None and route.hops == [(1, 9), (2, 1)]
    guarded = policy_of("from/ryu.md", "guarded")
    telnet = frame(eth_src="00:00:00:00:00:01", eth_dst="00:00:00:00:00:04", tcp_dst=23)
    assert bench.decide(guarded, telnet, switch=1, port=1).route == maple.drop()
    assert bench.decide(guarded, known, switch=1, port=1).route == route


def test_the_campus_for_people_who_come_from_faucet_keeps_vlans_and_its_list(bench: Bench) -> None:
    campus = policy_of("from/faucet.md", "campus")

    def route(packet: bytes, port: int) -> list[tuple[int, int]]:
        decision = bench.decide(campus, packet, switch=1, port=port)
        assert decision.error is None and decision.route is not None, decision.error
        return [(hop[0], hop[1]) for hop in decision.route.hops]

    assert route(frame(eth_src="00:00:00:00:00:01", eth_dst="ff:ff:ff:ff:ff:ff"), 1) == [(1, 2)]
    assert route(frame(eth_src="00:00:00:00:00:01", eth_dst="00:00:00:00:00:02"), 1) == [(1, 2)]
    assert route(frame(eth_src="00:00:00:00:00:01", eth_dst="00:00:00:00:00:03"), 1) == []
    assert route(frame(eth_src="00:00:00:00:00:03", eth_dst="ff:ff:ff:ff:ff:ff", tcp_dst=23), 3) == []
