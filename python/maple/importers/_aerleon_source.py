"""Reads lists with the package aerleon, and keeps what its model forgets: lines, names of services, warnings."""

from __future__ import annotations

import datetime
import importlib
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from maple.importers import _yaml
from maple.importers._document import InputError, Place

Ports = list[tuple[int, int]]

MAX_ABOVE: Final = 4
"""The number of levels above a policy at which the folder may be that its includes begin at."""


def module(name: str) -> Any:
    """A module of aerleon, which has no usable types."""
    try:
        return importlib.import_module(f"aerleon.lib.{name}")
    except ImportError:
        raise ImportError("from_aerleon needs the package aerleon: pip install 'maple-sdn[aerleon]'") from None


@dataclass
class Term:
    """A term as Aerleon read it, and the names of services and networks that it was written with."""

    parsed: Any
    place: Place
    service_names: dict[str, list[str]]
    network_names: dict[str, list[str]]

    @property
    def name(self) -> str:
        """The term's name."""
        return str(self.parsed.name)

    def has(self, keyword: str) -> bool:
        """Whether the term has this keyword of the language."""
        value = getattr(self.parsed, attribute(keyword))
        return bool(value) if isinstance(value, (list, str)) else value is not None

    def is_expired(self, today: datetime.date) -> bool:
        """Whether Aerleon's generators skip the term on this day."""
        return self.parsed.expiration is not None and self.parsed.expiration <= today


@dataclass
class Filter:
    """A header with its terms."""

    header: Any
    name: str
    place: Place
    terms: list[Term]


def attribute(keyword: str) -> str:
    """The name that a keyword has in Aerleon's model."""
    known = {"source-exclude": "source_address_exclude", "destination-exclude": "destination_address_exclude"}
    return known.get(keyword, keyword.replace("-", "_"))


@dataclass
class Source:
    """A policy file and the definitions that it uses."""

    filters: list[Filter]
    naming: Any
    warnings: list[str]


def read(policy_file: str | Path, definitions: str | Path, base: str | Path | None) -> Source:
    """Parses a policy with Aerleon.

    :raises InputError: Aerleon refuses a file, or ignores something in it.
    """
    path = Path(policy_file)
    folder = str(base if base is not None else _base(path))
    policy, naming, with_yaml = module("policy"), module("naming"), module("yaml")
    with _warnings() as warnings:
        names = _parse(Place(str(definitions)), lambda: naming.Naming(str(definitions)))
        if not names.networks and not names.services:
            raise InputError(Place(str(definitions)), "no definitions of networks or services (.net, .svc, .yaml)")
        with _remember_names(policy):
            if path.suffix in (".yaml", ".yml"):
                parsed, places = _read_yaml(path, folder, names, policy, with_yaml)
            else:
                places = [Place(*at) for at in _lines(path, Path(folder), 5)]
                parsed = _parse(
                    Place(str(path)), lambda: policy.ParseFile(str(path), names, optimize=False, base_dir=folder)
                )
    if not parsed:
        raise InputError(Place(str(path)), "no filter with terms")
    return Source(list(_filters(parsed, path, places)), names, [_checked(path, text) for text in warnings])


_INCLUDE = re.compile(r"^\s*(?:#include\s+|-?\s*include:\s*)(['\"]?)([^'\"#\s]+)\1", re.MULTILINE)


def _base(path: Path) -> Path:
    """The folder that the policy's includes begin at: the nearest one above it that has them all. `aclgen` takes
    `./policies`, and policies are in `policies/pol` there. The policy's own folder if there is none."""
    try:
        names = [found[2] for found in _INCLUDE.finditer(path.read_text(errors="replace"))]
    except OSError:
        return path.parent
    folders = path.absolute().parents[:MAX_ABOVE]
    return next((folder for folder in folders if all((folder / name).is_file() for name in names)), path.parent)


def _checked(path: Path, warning: str) -> str:
    """A warning that changes nothing. What Aerleon ignores would silently be missing in the list, so it is an error."""
    if "will be matched" in warning:
        return warning
    raise InputError(Place(str(path)), f"Aerleon ignores part of the list: {warning.strip()}")


def _parse(place: Place, call: Any) -> Any:
    try:
        return call()
    except Exception as error:  # Aerleon has no common class of its errors
        text = str(error).strip() or type(error).__name__
        raise InputError(place, f"Aerleon refuses it: {text}") from error


def _read_yaml(path: Path, folder: str, names: Any, policy: Any, with_yaml: Any) -> tuple[Any, list[Place]]:
    place, places = Place(str(path)), {}
    yaml, builder = importlib.import_module("yaml"), module("policy_builder")

    class Preprocessor(with_yaml.YAMLPolicyPreprocessor):  # type: ignore[misc]
        """Aerleon's own, which forgets the lines in the end."""

        def _load_include_file(self, relative_path: str, stack: Any) -> Any:
            data, included = super()._load_include_file(relative_path, stack)
            places.update(_places(data))
            return data, included

    # Aerleon's reader fails in many ways; this one names the line.
    _yaml.read(path)
    loader = module("yaml_loader").SpanSafeYamlLoader(filename=str(path))
    found = _parse(place, lambda: yaml.load(path.read_text(encoding="utf-8"), Loader=loader))
    places.update(_places(found))
    found = _parse(place, lambda: Preprocessor(folder)(str(path), found))
    if not found or not found["filters"]:
        return None, []
    terms = [term for part in found["filters"] for term in part["terms"]]
    at = [Place(*places[id(term)], term["name"]) for term in terms]
    return _parse(place, lambda: policy.FromBuilder(builder.PolicyBuilder(found, names, False, False))), at


def _places(data: Any) -> dict[int, tuple[str, int]]:
    """File and line of each mapping, by its identity."""
    if isinstance(data, list):
        return {key: place for item in data for key, place in _places(item).items()}
    if not isinstance(data, dict):
        return {}
    inner = _places(list(data.values()))
    return {id(data): (data["__filename__"], data["__line__"]), **inner}


_TERM = re.compile(r"^\s*term\s+([^\s{]+)\s*(?:\{|$)")


def _lines(path: Path, folder: Path, depth: int) -> Iterator[tuple[str, int, str]]:
    """Where each term of a .pol file begins: file, line, name. Files that cannot be read are Aerleon's to refuse."""
    if depth == 0 or not path.is_file():
        return
    for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
        words = line.split()
        if len(words) > 1 and words[0] == "#include":
            yield from _lines(folder / words[1].strip("'\""), folder, depth - 1)
        elif found := _TERM.match(line):
            yield str(path), number, found[1]


def _filters(parsed: Any, path: Path, places: list[Place]) -> Iterator[Filter]:
    terms = [term for _, terms in parsed.filters for term in terms]
    known = [str(term.name) for term in terms] == [place.field for place in places]
    at = iter(places if known else [Place(str(path), None, str(term.name)) for term in terms])
    used: set[str] = set()
    for number, (header, own) in enumerate(parsed.filters, 1):
        options = header.target[0].options if header.target else []
        name = str(options[0]) if options and str(options[0]) not in ("from-zone",) else f"{path.stem}-{number}"
        name = name if name not in used else f"{name}-{number}"
        used.add(name)
        found = [Term(term, next(at), *term.maple_names) for term in own]
        yield Filter(header, name, Place(str(path), None, name), found)


@contextmanager
def _remember_names(policy: Any) -> Iterator[None]:
    """While policies are parsed, each term keeps the names that Aerleon replaces by numbers and networks."""
    original = policy.Policy.AddFilter

    def add_filter(self: Any, header: Any, terms: Any) -> None:
        for term in terms or []:
            if not term.translated:
                ports = {key: list(getattr(term, key)) for key in ("port", "source_port", "destination_port")}
                sides = ("address", "source_address", "destination_address")
                networks = {
                    key: list(dict.fromkeys(net.parent_token for net in getattr(term, key)))
                    for key in (side + kind for side in sides for kind in ("", "_exclude"))
                }
                term.maple_names = (ports, networks)
        original(self, header, terms)

    policy.Policy.AddFilter = add_filter
    try:
        yield
    finally:
        policy.Policy.AddFilter = original


@contextmanager
def _warnings() -> Iterator[list[str]]:
    """The warnings that Aerleon logs, instead of its way to the terminal."""
    found: list[str] = []

    def keep(record: logging.LogRecord) -> bool:
        if record.levelno >= logging.WARNING:
            found.append(record.getMessage())
        return False

    logger = logging.getLogger("absl")
    logger.addFilter(keep)
    try:
        yield found
    finally:
        logger.removeFilter(keep)
