"""`python -m maple.importers` does what docs/importing.md shows, and its exit status tells how it went."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import maple
import pytest
import yaml
from maple.importers import InputError, _yaml
from maple.importers.__main__ import main

GUIDE = Path(__file__).resolve().parents[2] / "docs/importing.md"


def blocks() -> list[str]:
    return re.findall(r"^```(?:yaml|text)\n(.*?)^```$", GUIDE.read_text(), re.S | re.M)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files of the guide in the current folder; the outputs that it shows."""
    found = blocks()
    names = ["edge.pol", "def/networks.net", "def/services.svc", None, None, "shop.yaml", None, "faucet.yaml", None]
    (tmp_path / "def").mkdir()
    for name, text in zip(names, found, strict=True):
        if name:
            (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    return [text for name, text in zip(names, found, strict=True) if name is None]


def test_the_guide_shows_what_the_importers_do(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    lists, report, cluster, ports = files
    assert main(["aerleon", "edge.pol", "--definitions", "def", "--lenient"]) == 3
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == (lists, report)
    assert main(["kubernetes", "shop.yaml", "--client-ports", "32768-60999"]) == 0
    assert capsys.readouterr().out == cluster
    assert main(["faucet", "faucet.yaml"]) == 0
    assert capsys.readouterr().out == ports


def test_exit_status_and_files(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["aerleon", "edge.pol", "--definitions", "def", "-o", "out"]) == 3
    assert not Path("out").exists()
    assert main(["aerleon", "edge.pol", "--definitions", "def", "-o", "one.yaml", "--lenient"]) == 3
    assert Path("one.yaml").read_text() == files[0]
    assert maple.acl("one.yaml")
    assert main(["kubernetes", "shop.yaml", "-o", "out"]) == 3, "replies are not covered"
    assert not Path("out").exists()
    clients = ["--client-ports", "32768-60999"]
    assert main(["kubernetes", "shop.yaml", *clients, "-o", "out"]) == 0
    with pytest.raises(SystemExit):
        main(["kubernetes", "shop.yaml", "--client-ports", "60999-32768"])
    assert "such as 32768-60999, not '60999-32768'" in capsys.readouterr().err
    assert main(["faucet", "faucet.yaml", *clients]) == 1
    assert "--client-ports: is for kubernetes alone" in capsys.readouterr().err
    assert [path.name for path in Path("out").iterdir()] == ["kubernetes.yaml"]
    assert maple.acl("out/kubernetes.yaml")
    assert main(["faucet", "faucet.yaml", "-o", "campus"]) == 0
    assert maple.acl("campus/faucet-ports.yaml")
    Path("twice.yaml").write_text(Path("faucet.yaml").read_text())
    Path("edge.pol").write_text(Path("edge.pol").read_text().replace("tcp-established", "initial"))
    assert main(["aerleon", "edge.pol", "edge.pol", "--definitions", "def", "-o", "out", "--lenient"]) == 1
    assert "edge.yaml: two lists have this name" in capsys.readouterr().err
    assert main(["kubernetes", "none.yaml"]) == 1
    assert "none.yaml: cannot be read" in capsys.readouterr().err


def test_it_runs_as_a_module(files: list[str]) -> None:
    found = subprocess.run(
        [sys.executable, "-m", "maple.importers", "kubernetes", "shop.yaml", "--client-ports", "32768-60999"],
        capture_output=True,
        text=True,
    )
    assert (found.returncode, found.stdout) == (0, files[2])
    assert "shop.yaml:1  NetworkPolicy shop/db" in found.stderr
    wrong = subprocess.run([sys.executable, "-m", "maple.importers", "cisco", "x"], capture_output=True, text=True)
    assert wrong.returncode == 2 and "invalid choice" in wrong.stderr


def test_a_package_that_is_missing_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "aerleon.lib.policy", None)
    assert main(["aerleon", "edge.pol", "--definitions", "def"]) == 1
    assert "pip install 'maple-sdn[aerleon]'" in capsys.readouterr().err


TEXTS = [
    "no",
    "1:2",
    "0x1f",
    "1e5",
    "null",
    "~",
    "!10.0.0.1",
    "a: b",
    "#c",
    "'",
    "",
    " x",
    "é",
    "00:00:00:00:00:07",
    "::1",
    "10-20",
    "0o7",
]


@pytest.mark.parametrize("text", TEXTS)
def test_text_reads_back_as_text(text: str) -> None:
    document = {"groups": {text: [text, text]}, "comment": text * 50}
    assert yaml.safe_load(_yaml.write(document)) == document
    # Readers of YAML 1.2 take more for numbers than PyYAML does: what could be one has quotes.
    assert (
        re.fullmatch(r"[a-z]+", text)
        or f'"{text}"' in _yaml.write(document)
        or f"'{text.replace(chr(39), chr(39) * 2)}'" in _yaml.write(document)
    )


def test_what_is_read_knows_its_lines_and_can_be_written(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text("a: &x {b: 1}\nc:\n  <<: *x\n  d: [1,\n    2]\n---\n- e\n")
    first, second = _yaml.read(path)
    assert (first.lines, first["c"].lines, first["c"]["d"].lines) == ({"a": 1, "c": 2}, {"b": 1, "d": 4}, [4, 5])
    assert (first, second) == ({"a": {"b": 1}, "c": {"b": 1, "d": [1, 2]}}, ["e"])
    assert yaml.safe_load(_yaml.write(first)) == first


@pytest.mark.parametrize(
    "text, error",
    [
        ('a: 1\nb: "\\x01"\nc: \x01\n', r"x\.yaml:3: not YAML: the character 0x1 is not allowed"),
        ("a: 1\nb: 1\nb: 2\n", r"^\S*x\.yaml:1: the key 'b' stands here twice"),
        ("a:\n- b:\n    c: 1\n    c: 2\n", r"^\S*x\.yaml:3: the key 'c' stands here twice"),
        ("a: 1\nb: 2020-13-45\n", r"x\.yaml:2: not YAML: '2020-13-45' is not a tag:yaml\.org,2002:timestamp"),
        ("a: 1\nb: !!bool maybe\n", r"x\.yaml:2: not YAML: 'maybe' is not a tag:yaml\.org,2002:bool"),
        ('a: 1\nb: "\\ud800"\n', r"x\.yaml:2: not YAML: '.ud800' is not a tag:yaml\.org,2002:str"),
        ("a: 1\n!!int '': 1\n", r"x\.yaml:2: not YAML: '' is not a tag:yaml\.org,2002:int"),
        ('a: 1\nb: "\\Uffffffff"\n', r"x\.yaml:2: not YAML: "),
        ("a:\n" + "".join(" " * n + "b:\n" for n in range(1, 300)), r"x\.yaml:102: nested too deeply"),
        ("a: 1\nb: " + "[" * 150 + "]" * 150, r"x\.yaml:2: nested too deeply"),
        ("a: 1\nb: " + "[" * 100_000, r"x\.yaml:2: nested too deeply"),
        ("a: 1\nb: " + "{a: " * 100_000, r"x\.yaml:2: nested too deeply"),
    ],
)
def test_errors_in_yaml_name_file_and_line(tmp_path: Path, text: str, error: str) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(text)
    with pytest.raises(InputError, match=error):
        _yaml.read(path)


def test_aliases_of_aliases_take_no_time(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(
        "a0: &a0 [1]\n" + "".join(f"a{at}: &a{at} [{', '.join([f'*a{at - 1}'] * 9)}]\n" for at in range(1, 40))
    )
    (found,) = _yaml.read(path)
    assert len(found["a39"]) == 9
    path.write_text("a: &a [1, *a]\n")
    with pytest.raises(InputError, match=r"x\.yaml:1: an alias stands inside of what it names"):
        _yaml.read(path)
