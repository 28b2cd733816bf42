"""YAML 1.2 is read as the reader of Faucet does, which is ruamel.yaml."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import ruamel.yaml
from hypothesis import example, given
from hypothesis import strategies as st
from maple.importers import _yaml, from_faucet
from maple.importers._document import InputError


def theirs(text: str) -> Any:
    """The value of plain text in ruamel.yaml; `None` and the name of the error where there is none."""
    try:
        return ruamel.yaml.YAML(typ="safe", pure=True).load(f"a: {text}\n")["a"]
    except (ruamel.yaml.error.YAMLError, ValueError, AttributeError) as error:
        return type(error)


def ours(file: Path, text: str) -> Any:
    file.write_text(f"a: {text}\n")
    try:
        return _yaml.read(file, "1.2")[0]["a"]
    except InputError as error:
        return type(error)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("012", 12),
        ("010", 10),
        ("0100", 100),
        ("0o17", 15),
        ("0x1F", 31),
        ("1_000", 1000),
        ("-0b11", -3),
        ("10:20:30:40:50:12", "10:20:30:40:50:12"),
        ("1:30", "1:30"),
        ("yes", "yes"),
        ("off", "off"),
        ("N", "N"),
        ("True", True),
        ("~", None),
        ("1e3", 1000.0),
        ("089", 89),
    ],
)
def test_numbers_and_words_are_those_of_yaml_1_2(tmp_path: Path, text: str, value: object) -> None:
    read = ours(tmp_path / "a.yaml", text)
    assert (read, type(read)) == (value, type(value))
    assert theirs(text) == value


PLAIN = st.text("0123456789_:xob+-.eEaAfFtTrRuUnNyYlLsSi~", min_size=1, max_size=9)


@given(PLAIN)
@example("0o")
@example("0x_")
@example("_1")
@example("1__0")
def test_plain_text_means_what_it_means_to_faucet(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    read, expected = ours(tmp_path_factory.getbasetemp() / "plain.yaml", text), theirs(text)
    if isinstance(read, type) or isinstance(expected, type):
        assert isinstance(read, type) and isinstance(expected, type), (text, read, expected)
    elif read == read or expected == expected:
        assert (read, type(read)) == (expected, type(expected)), text


def test_an_importer_for_faucet_reads_its_numbers(tmp_path: Path) -> None:
    """Read as YAML 1.1, this was another switch, port and VLAN, without a word."""
    config = tmp_path / "faucet.yaml"
    config.write_text(
        "vlans: {office: {vid: 0100}}\n"
        "acls: {a: [rule: {dl_src: 10:20:30:40:50:12, actions: {allow: 0}}]}\n"
        "dps: {sw1: {dp_id: 012, interfaces: {010: {native_vlan: 0100, acls_in: [a]}}}}\n"
    )
    imported = from_faucet(config)
    ports = {
        dpid: {number: port["untagged"] for number, port in of["ports"].items()}
        for dpid, of in imported.network["switches"].items()
    }
    assert (ports, list(imported.network["vlans"])) == ({"12": {"10": 100}}, ["100"])
    assert imported.documents[0]["rules"][0]["from"] == "10:20:30:40:50:12"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("010", 8),
        ("0o10", 8),
        ("0x10", 16),
        ("0b11", 3),
        ("-1_000", -1000),
        ("089", 89),
        ("80.0", 80),
        ("1e3", 1000),
        ("1.5", 1.5),
        ("1:30", "1:30"),
        ("2020-01-01", "2020-01-01"),
        ("y", True),
        ("Off", False),
        ("True", True),
        ("yEs", "yEs"),
        ("null", None),
        ("~", None),
        ("10.0.0.1", "10.0.0.1"),
    ],
)
def test_kubernetes_reads_values_as_its_library_does(tmp_path: Path, text: str, value: object) -> None:
    """The values are those of sigs.k8s.io/yaml 1.4."""
    file = tmp_path / "a.yaml"
    file.write_text(f"a: {text}\n")
    read = _yaml.read(file, "kubernetes")[0]["a"]
    assert (read, type(read)) == (value, type(value))
