"""The console of an emulated network at a terminal, and what can be asked there."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MAPLE = [sys.executable, "-m", "maple"]
CONTROL = re.compile(r"\x1b\[([?0-9;]*)([A-Za-z])")

#: A policy whose module prints lines on both outputs while somebody types.
CHATTY = """
import sys, threading, time
from maple import flood, policy

@policy
def chatty(pkt, net):
    return flood()

def chat():
    for n in range(100):
        time.sleep(0.03)
        print(f"tick {n}.", file=sys.stdout if n % 2 else sys.stderr)

threading.Thread(target=chat, daemon=True).start()
"""


#: A policy with a table of each kind of address.
BLOCKING = """
from maple import Ip, Location, Mac, Table, drop, flood, policy

macs = Table("macs", key=Mac, value=bool)
ips = Table("ips", key=Ip, value=bool)
places = Table("places", key=Location, value=bool)

@policy
def blocking(pkt, net):
    if macs.get(pkt.eth_src) or ips.get(pkt.ipv4_src) or places.get(net.locate(pkt.eth_src)):
        return drop()
    return flood()
"""


class Screen:
    """What a terminal of 200 columns shows, with all that has scrolled away."""

    def __init__(self) -> None:
        self.rows: list[str] = [""]
        self.row = self.column = 0
        self.rest = ""

    def show(self, text: str) -> None:
        text, self.rest = self.rest + text, ""
        while text:
            if control := CONTROL.match(text):
                self.move(control[1], control[2])
                text = text[control.end() :]
            elif text[0] == "\x1b":
                self.rest = text
                return
            else:
                self.put(text[0])
                text = text[1:]

    def move(self, argument: str, verb: str) -> None:
        count = int(argument) if argument.isdigit() else 1
        match verb:
            case "A":
                self.row = max(0, self.row - count)
            case "B":
                self.row += count
            case "C":
                self.column += count
            case "D":
                self.column = max(0, self.column - count)
            case "K":
                self.rows[self.row] = self.rows[self.row][: self.column]
            case "J":
                self.rows[self.row :] = [self.rows[self.row][: self.column]]
            case "h" | "l" | "m":
                pass
            case _:
                raise AssertionError(f"the test does not know {verb}")
        self.rows += [""] * (self.row + 1 - len(self.rows))

    def put(self, char: str) -> None:
        match char:
            case "\r":
                self.column = 0
            case "\n":
                self.row += 1
                self.rows += [""] * (self.row + 1 - len(self.rows))
            case "\x08":
                self.column -= 1
            case "\x07":
                pass
            case _:
                row = self.rows[self.row].ljust(self.column)
                self.rows[self.row] = row[: self.column] + char + row[self.column + 1 :]
                self.column += 1

    @property
    def text(self) -> str:
        return "\n".join(row.rstrip() for row in self.rows)


class Console:
    """A program at a pseudo-terminal."""

    def __init__(self, command: list[str], folder: Path, **environment: str) -> None:
        self.terminal, program = pty.openpty()
        fcntl.ioctl(program, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 200, 0, 0))
        self.modes = termios.tcgetattr(program)
        self.program = program
        self.screen = Screen()
        self.process = subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, "TERM": "xterm", **environment},
            stdin=program,
            stdout=program,
            stderr=program,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )

    def read(self, seconds: float) -> bool:
        """Whether something came."""
        if not select.select([self.terminal], [], [], seconds)[0]:
            return False
        self.screen.show(os.read(self.terminal, 65536).decode())
        return True

    def wait(self, pattern: str) -> None:
        """Waits until the screen has this."""
        deadline = time.monotonic() + 60
        while not re.search(pattern, self.screen.text, re.MULTILINE):
            assert time.monotonic() < deadline, f"{pattern} in\n{self.screen.text}"
            self.read(0.2)

    def type(self, text: str) -> None:
        os.write(self.terminal, text.encode())

    def prompted(self) -> None:
        """Waits for a prompt with nothing behind it."""
        self.wait(r"^maple>$(?!\n)")

    def answered(self, command: str, answer: str) -> None:
        """Waits for the answer to a command, and the next prompt. The log may tell something in between."""
        self.wait(rf"^maple> {re.escape(command)}\n(?:.*\n)*?{answer}.*\n(?:.*\n)*maple>$(?!\n)")

    def enter(self, command: str, answer: str) -> None:
        """Types a command at a prompt, and waits for its answer and the next prompt."""
        self.prompted()
        self.type(f"{command}\r")
        self.answered(command, answer)

    def end(self) -> int:
        """Its exit status."""
        deadline = time.monotonic() + 60
        while self.process.poll() is None:
            assert time.monotonic() < deadline, self.screen.text
            self.read(0.1)
        while self.read(0):
            pass
        assert termios.tcgetattr(self.program) == self.modes, "the terminal is as it was"
        return self.process.returncode


@contextmanager
def console(
    folder: Path, policy: str = "builtin:shortest-path", topology: str = "ring:4", **environment: str
) -> Iterator[Console]:
    at = Console([*MAPLE, "run", policy, "--emulate", topology, "--console"], folder, **environment)
    try:
        yield at
    finally:
        at.process.kill()
        at.process.wait()
        os.close(at.terminal)
        os.close(at.program)


def test_lines_are_edited_kept_and_completed(tmp_path: Path) -> None:
    with console(tmp_path) as at:
        at.enter("pingall", "pingall: 12 of 12 answered")
        # The cursor goes back five places, and a letter is moved.
        at.type("h1 pnig h3" + "\x1b[D" * 5 + "\x7f\x1b[Cn\r")
        at.answered("h1 ping h3", "h1 ping h3: answered")
        at.type("\x1b[A\x1b[A 3\x7f\x7f\r")
        at.wait(r"(maple> pingall\n(?:.*\n)*?pingall: 12 of 12 answered\n(?:.*\n)*){2}maple>$(?!\n)")
        at.type("h2 pi\th4\r")
        at.answered("h2 ping h4", "h2 ping h4: answered")
        at.type("show rul\ts2 --tab\t0\r")
        at.answered("show rules s2 --table 0", r"switch s2: \d+ rules, \d+ in table 0$")
        at.type("h3 ping h1\rh3 ping h2\r")
        at.answered("h3 ping h1", "h3 ping h1: answered")
        at.answered("h3 ping h2", "h3 ping h2: answered")
        at.type("exit\r")
        assert at.end() == 0, at.screen.text


def test_what_is_printed_comes_above_the_prompt_and_what_is_typed_stays(tmp_path: Path) -> None:
    (tmp_path / "chatty.py").write_text(CHATTY)
    with console(tmp_path, "chatty.py", "linear:2") as at:
        at.wait(r"^maple>")
        for letter in "show emulated links":
            at.type(letter)
            at.read(0.1)
        at.wait(r"^tick 99\.$")
        at.wait(r"^maple> show emulated links$(?!\n)")
        at.type("\r")
        at.answered("show emulated links", "s1:2     s2:2     up")
        at.type("exit\r")
        assert at.end() == 0, at.screen.text
        ticks = [row.rstrip() for row in at.screen.rows if "tick" in row]
        assert ticks == [f"tick {n}." for n in range(100)]


def test_ctrl_c_clears_the_line_or_interrupts_a_command_and_ctrl_d_ends(tmp_path: Path) -> None:
    with console(tmp_path) as at:
        at.prompted()
        at.type("h1 png\x03")
        at.wait(r"^maple> h1 png\n(?:.*\n)*maple>$(?!\n)")
        assert "can't png" not in at.screen.text
        at.type("wait 1000s\r")
        at.wait(r"^maple> wait 1000s\n")
        while termios.tcgetattr(at.program) != at.modes:
            at.read(0.01)
        at.type("\x03")
        at.answered("wait 1000s", ".*interrupted")
        at.type("show log --follow\r")
        at.wait(r"^maple> show log --follow\n(?:.*\n)*.* link s\d:\d - s\d:\d up$")
        at.type("\x03")
        at.answered("show log --follow", ".*interrupted")
        at.enter("h1 ping h3", "h1 ping h3: answered in")
        at.type("\x04")
        assert at.end() == 0, at.screen.text


def test_a_request_to_stop_ends_at_once_and_gives_the_terminal_back(tmp_path: Path) -> None:
    with console(tmp_path) as at:
        at.prompted()
        at.type("h1 pi")
        at.wait(r"^maple> h1 pi$(?!\n)")
        assert termios.tcgetattr(at.program) != at.modes
        at.process.terminate()
        assert at.end() == 0, at.screen.text
        assert "maple> h1 pi\n" in at.screen.text, "the summary begins on a line of its own"


def test_a_terminal_that_can_do_nothing_has_a_plain_prompt(tmp_path: Path) -> None:
    with console(tmp_path, "builtin:flood", "linear:2", TERM="dumb") as at:
        at.wait(r"^maple>")
        at.type("h1 ping h2\n")
        at.wait(r"h1 ping h2: answered in")
        at.type("exit\n")
        assert at.end() == 0, at.screen.text


def test_names_of_an_emulated_network_work_in_its_console_and_in_other_terminals(tmp_path: Path) -> None:
    (tmp_path / "blocking.py").write_text(BLOCKING)
    command = [*MAPLE, "run", "blocking.py", "--emulate", "linear:3", "--control", "./control.sock", "--console"]
    with subprocess.Popen(
        command, cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        killer = threading.Timer(120, process.kill)
        killer.start()

        def typed(line: str, end: str) -> str:
            """What is printed up to this."""
            assert process.stdin is not None and process.stdout is not None
            print(line, file=process.stdin, flush=True)
            printed = ""
            while end not in printed:
                more = process.stdout.readline()
                assert more, f"{line}: {end} never came in\n{printed}"
                printed += more
            return printed

        def asked(*words: str) -> str:
            done = subprocess.run(
                [*MAPLE, *words, "--control", "./control.sock"],
                cwd=tmp_path,
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            return done.stdout + done.stderr

        typed("pingall", "6 of 6 answered")
        for table, key in [("macs", "h1"), ("ips", "h1"), ("places", "s1:1")]:
            assert asked("state", "set", table, key, "true") == ""
            assert asked("state", "get", table, key) == "true\n"
            typed("not h1 ping h2", "no answer")
            explained = asked("explain", "--from", "h1", "--to", "h2")
            assert explained.startswith("h1 (s1:1) → h2 (s2:1)") and "dropped by" in explained, explained
            typed(f"state delete {table} {key}\nh1 ping h2", "h1 ping h2: answered")
        refused = asked("state", "set", "macs", "h9", "true")
        assert "h9" in refused, refused
        rules = asked("show", "rules", "s2")
        assert rules.startswith("switch s2: ") and "switch s1" not in rules, rules
        assert "neither a host's name" in asked("show", "rules", "--host", "h9")
        assert "h2 (00:00:00:00:00:02) at s2:1 10.0.0.2\n" in asked("show", "hosts")
        assert asked("explain", "--from", "s3:1", "--to", "h1").startswith("h3 (s3:1) → h1 (s1:1)")
        process.stdin.close()
        rest = process.stdout.read()
        assert process.wait() == 0, rest
        killer.cancel()
