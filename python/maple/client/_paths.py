"""The paths and queries of requests."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote, urlencode

Place = Mapping[str, Any]
"""A place of tracked state: `{"var": "mode"}` or `{"key": ["blocked", "00:00:00:00:00:07"]}`."""

EVENTS: Final = "/v1/events"
"""The path of events."""


def resumed_after(last: str | None) -> Mapping[str, str]:
    """The headers that ask for what came after an event."""
    return {} if last is None else {"Last-Event-ID": last}


def watched(**place: str) -> str:
    """The path and query of a watch."""
    if "" in (place.get("table"), place.get("var")):
        raise ValueError("a name is not empty")
    return f"{EVENTS}?{urlencode(place)}"


def of_switch(switch: str | None, what: str) -> str:
    """The path of a list: of one switch, or of all."""
    return f"/v1/{what}" if switch is None else f"/v1/switches/{part(switch)}/{what}"


def given(**query: object) -> dict[str, object]:
    """The parameters that are not left out."""
    return {name: value for name, value in query.items() if value is not None}


def key_path(table: str, key: object) -> str:
    """The path of a key of a table."""
    return f"/v1/state/tables/{part(table)}/{part(word(key))}"


def variable_path(name: str) -> str:
    """The path of a variable."""
    return f"/v1/state/variables/{part(name)}"


def part(text: str) -> str:
    """A part of a path."""
    if not text:
        raise ValueError("a name is not empty")
    return quote(text, safe="")


def word(value: object) -> str:
    """A value as the query, or a key in a path, has it."""
    if isinstance(value, bool) or value is None:
        return json.dumps(value)
    return str(value)
