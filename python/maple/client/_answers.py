"""Answers of the API: rows, objects, events and refusals."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from typing import Any

from maple import _html

Row = dict[str, Any]
"""A row of a list, or another object of an answer."""


class Rows(list[Any]):
    """The rows of a list; in a notebook a table."""

    def _repr_html_(self) -> str:
        if all(isinstance(row, Mapping) for row in self):
            columns = list(dict.fromkeys(name for row in self for name in row))
            rows = [[row.get(name) for name in columns] for row in self]
        else:
            # Links are pairs of places.
            columns, rows = ["from", "to"], [list(row) for row in self]
        return _html.block(_html.table("rows", columns, rows))


class NetworkMap(dict[str, Any]):
    """The switches at their places, and the links; in a notebook a picture."""

    def _repr_html_(self) -> str:
        return _html.block(_html.network_map(self))


class ApiError(Exception):
    """The controller refuses a request."""

    def __init__(self, status: int, detail: str, field: str = "", shard: int | None = None) -> None:
        super().__init__(f"{detail} ({status})")
        self.status = status
        """The status: 404 if there is no such thing, 409 if not now, 503 if a worker is late; 0 if a stream broke."""
        self.detail = detail
        """The reason in words."""
        self.field = field
        """The parameter, header or member of the body that is wrong; empty for the whole request."""
        self.shard = shard
        """The worker that is late, if one is."""


@dataclass(frozen=True)
class Event:
    """An event of the stream."""

    kind: str
    """`log`, `state`, `missed`, or `begin`, which is the first; `value` in a watch."""
    data: Row
    """The data of the event."""
    id: str
    """The id after which a later stream goes on."""


def refusal(response: HTTPResponse) -> ApiError:
    """The error that an answer is whose status says so."""
    text = response.read().decode(errors="replace")
    try:
        problem = json.loads(text)
        return ApiError(response.status, problem["detail"], problem["field"], problem.get("shard"))
    except (ValueError, KeyError, TypeError):
        return ApiError(response.status, text.strip() or response.reason)


def events(lines: Iterable[bytes]) -> Iterator[Event]:
    """Reads the events of a stream. Its controller may have ended in the middle of one."""
    fields: dict[str, str] = {}
    try:
        for line in lines:
            name, _, value = line.decode().rstrip("\r\n").partition(": ")
            if name:
                fields[name] = value
            elif "data" in fields:
                yield Event(fields.get("event", "message"), json.loads(fields["data"]), fields.get("id", ""))
                fields = {}
    except (HTTPException, ConnectionError):
        return
