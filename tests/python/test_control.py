"""Tracked state for other programs: `maple state`, `maple schema`, and the program that docs/control.md shows."""

from __future__ import annotations

import json
import os
import re
import subprocess
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_command import MAPLE, Running, maple, wait_for

DOCS = Path(__file__).resolve().parents[2] / "docs"

POLICY = """
    from maple import Counter, Mac, Table, Var, drop, flood, policy

    blocked = Table("blocked", key=Mac, value=bool)
    rates = Table("rates", key=(Mac, int), value=float)
    names = Table("names", key=str)
    mode, packets, free = Var("mode", "day", value=str), Counter("packets"), Table("free")

    @policy
    def typed(pkt, net):
        return drop() if pkt.eth_src in blocked else flood()
    """


@pytest.fixture
def typed(tmp_path: Path) -> Iterator[Running]:
    file = tmp_path / "typed.py"
    file.write_text(textwrap.dedent(POLICY))
    one = Running(tmp_path, str(file))
    yield one
    one.stop()


def state(running: Running, *arguments: str) -> str:
    """What `maple state` prints, or says why not."""
    done = maple("state", *arguments, "--control", running.control)
    assert (done.returncode == 0) == (done.stderr == ""), done
    return (done.stdout or done.stderr).strip()


def test_a_file_of_rows_is_written_whole_or_not_at_all(typed: Running, tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    rows = {"mode": "night", "blocked": {"00:00:00:00:00:07": True}, "names": [["80", "web"], ["443", "tls"]]}
    file.write_text(json.dumps(rows))
    assert state(typed, "load", str(file)) == "4 rows written"
    assert state(typed, "get", "mode", "--var") == '"night"'
    assert state(typed, "get", "blocked") == '[[{"mac":"00:00:00:00:00:07"},true]]'
    assert state(typed, "get", "names") == '[["443","tls"],["80","web"]]'
    hosts = tmp_path / "hosts.csv"
    hosts.write_text("key,value\n" + "".join(f"00:00:00:00:{n >> 8:02x}:{n & 255:02x}, true\n" for n in range(5000)))
    assert state(typed, "load", str(hosts), "--table", "blocked", "--settled") == "5000 rows written"
    assert len(json.loads(state(typed, "get", "blocked"))) == 5000
    who = state(typed, "get", "blocked", "00:00:00:00:00:09", "--who")
    assert who.startswith("true  written ") and "by `maple state load` (pid " in who
    # The last of 5,001 lines is wrong, and nothing of the others is written.
    state(typed, "delete", "blocked", "00:00:00:00:00:01")
    hosts.write_text(hosts.read_text() + "00:00:00:00:00:02,perhaps\n")
    assert state(typed, "load", str(hosts), "--table", "blocked") == (
        f'maple: {hosts}:5002: the table blocked is declared with values of type bool, and "perhaps" is not one; '
        "nothing is written"
    )
    assert state(typed, "get", "blocked", "00:00:00:00:00:01") == "null"


@pytest.mark.parametrize(
    ("name", "text", "more", "says"),
    [
        ("a.json", '{"blokced": {"00:00:00:00:00:07": true}}', [], 'blokced["00:00:00:00:00:07"]: there is no table'),
        ("a.json", '{"blocked": {"x": true}}', [], 'a.json: blocked["x"]: the table blocked is declared with keys of'),
        ("a.json", '{"blocked": 7}', [], "blocked is a table: an object or an array of [key, value], not 7"),
        ("a.json", '{"names": [["a", 1], ["b"]]}', [], 'names is a table, and ["b"] is no [key, value]'),
        ("a.json", "[1, 2]", [], "a.json is not a JSON object with a member for each table and variable: invalid type"),
        ("a.csv", "a,b", [], "a.csv is a table: --table NAME says which"),
        ("a.csv", "a,b\nc\n", ["--table", "names"], "a.csv:2: a line is a key and a value, and this one has 1 column"),
        ("none.csv", None, ["--table", "names"], "none.csv: No such file"),
    ],
)
def test_a_wrong_file_of_rows_is_refused_with_the_place(
    name: str, text: str | None, more: list[str], says: str, typed: Running, tmp_path: Path
) -> None:
    if text is not None:
        (tmp_path / name).write_text(text)
    said = state(typed, "load", str(tmp_path / name), *more)
    assert says in said, said
    assert state(typed, "get", "names") == "[]" and state(typed, "get", "blocked") == "[]"


def test_what_people_type_is_read_by_the_declared_types(typed: Running) -> None:
    assert state(typed, "set", "blocked", "00-00-0A-00-00-01", "true") == ""
    assert state(typed, "get", "blocked", "0:0:a:0:0:1") == "true"
    assert state(typed, "get", "blocked") == '[[{"mac":"00:00:0a:00:00:01"},true]]'
    refused = 'maple: the table blocked is declared with keys of type Mac, and "banana" is not one'
    for command in (("set", "banana", "true"), ("get", "banana"), ("delete", "banana")):
        assert state(typed, command[0], "blocked", *command[1:]) == refused
    assert "values of type bool, and 7 is not one" in state(typed, "set", "blocked", "00-00-0A-00-00-01", "7")
    assert state(typed, "delete", "blocked", "00:00:0A:00:00:01") == ""
    assert state(typed, "get", "blocked") == "[]"
    # A number is text where text is declared, and JSON makes a tuple.
    assert state(typed, "set", "names", "80", "web") == "" and state(typed, "get", "names") == '[["80","web"]]'
    assert state(typed, "set", "rates", '["00-00-0A-00-00-01", 80]', "5") == ""
    assert state(typed, "get", "rates") == '[[[{"mac":"00:00:0a:00:00:01"},80],5.0]]'
    assert state(typed, "set", "mode", "5", "--var") == "" and state(typed, "get", "mode", "--var") == '"5"'
    assert "variable packets is declared with the type int" in state(typed, "set", "packets", "many", "--var")
    # Where nothing is declared all is as it comes.
    assert state(typed, "set", "free", "80", "web") == "" and state(typed, "get", "free") == '[[80,"web"]]'
    assert state(typed, "list").splitlines() == [
        "table blocked: Mac -> bool, 0 keys",
        "table free: any -> any, 1 key",
        "table names: str -> any, 1 key",
        "table rates: (Mac, int) -> float, 1 key",
        "variable mode: str",
        "variable packets: int",
    ]


def test_the_program_that_the_page_shows_works_and_the_schema_is_printed(typed: Running) -> None:
    (program,) = re.findall(r"```python\n(.*?)```", (DOCS / "control.md").read_text(), re.DOTALL)
    names: dict[str, object] = {}
    exec(program.replace("/run/user/1000/maple/control.sock", typed.control), names)
    assert state(typed, "get", "blocked") == '[[{"mac":"00:00:00:00:00:07"},true]]'
    ask = names["ask"]
    assert callable(ask)
    with pytest.raises(RuntimeError, match=r"^state\.set: missing field `place`$"):
        ask(typed.control, {"state": {"set": {"value": 1}}})
    schema = json.loads(maple("schema").stdout)
    documented = re.findall(r'^\| `\{"(\w+)": (?:"(\w+)"|\{"(\w+)")', (DOCS / "control.md").read_text(), re.MULTILINE)
    shown = {f"answer to {kind}.{word or member}" for kind, word, member in documented}
    answers = {name for name in schema["$defs"] if name.startswith("answer to ")}
    assert answers - shown == {"answer to invalidate.host", "answer to invalidate.port"}, "these are in one line"
    assert shown <= answers


@pytest.mark.skipif(os.geteuid() != 0, reason="a namespace of processes needs root")
def test_a_controller_in_a_container_answers_those_outside(tmp_path: Path) -> None:
    # Seen from there, processes outside have no number.
    (tmp_path / "typed.py").write_text(textwrap.dedent(POLICY))
    control = str(tmp_path / "control.sock")
    command = [*MAPLE, "run", str(tmp_path / "typed.py"), "--listen", "127.0.0.1:0", "--control", control]
    with subprocess.Popen(
        ["unshare", "--pid", "--fork", "--kill-child", *command], stdout=subprocess.DEVNULL
    ) as inside:
        try:
            wait_for("the control socket", lambda: Path(control).exists() or inside.poll() is not None)
            done = maple("state", "set", "mode", "night", "--var", "--control", control)
            assert done.returncode == 0, done
            who = maple("state", "get", "mode", "--var", "--who", "--control", control).stdout
            assert "by `maple state set` (a process that is not visible to the controller)" in who, who
        finally:
            inside.kill()
