"""Requests of the HTTP API, and the connections that they have."""

from __future__ import annotations

import json
import socket
import ssl
from collections.abc import Callable, Generator, Mapping
from http.client import HTTPConnection, HTTPResponse, HTTPSConnection
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

from maple.client._answers import ApiError, Event, Row, Rows, events, refusal
from maple.client._paths import word

PAGE: Final = 1000
"""The number of rows that are asked for at a time."""


class Requests:
    """The requests of a client, each with a connection of its own."""

    def __init__(
        self,
        url: str = "http://127.0.0.1:8653",
        token: str | None = None,
        *,
        timeout: float = 60.0,
        context: ssl.SSLContext | None = None,
    ) -> None:
        """`timeout`: seconds without a byte, except where a policy is tried or loaded. `context`: which certificates
        are trusted."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or parts.hostname is None or parts.path not in ("", "/"):
            raise ValueError(f"{url!r} is not the address of an API, such as http://127.0.0.1:8653")
        self._host, self._port, self._is_https = parts.hostname, parts.port, parts.scheme == "https"
        self._token, self._timeout, self._context = token, timeout, context

    def __repr__(self) -> str:
        scheme, port = "https" if self._is_https else "http", f":{self._port}" if self._port else ""
        return f"<maple.client {scheme}://{self._host}{port}>"

    def _rows(self, path: str, where: Mapping[str, object]) -> list[Any]:
        query = {name.replace("__", "."): value for name, value in where.items()}
        rows = Rows()
        after: dict[str, object] = {}
        while True:
            page = self._object("GET", path, query={"limit": PAGE, **query, **after})
            rows += page["rows"]
            if page["next"] is None or "limit" in query:
                return rows
            after = {"after": page["next"]}

    def _object(self, method: str, path: str, body: object = None, *, query: Mapping[str, object] | None = None) -> Row:
        answer: Row = self._json(method, path, body, query=query)
        return answer

    def _policy(self, path: str, body: object = None) -> Row:
        """Asks for another policy, or what it would change, which takes as long as the policy does."""
        connection, response = self._open("POST", path, body, {}, patient=True)
        try:
            answer: Row = json.loads(response.read())
            return answer
        finally:
            connection.close()

    def _json(self, method: str, path: str, body: object = None, *, query: Mapping[str, object] | None = None) -> Any:
        return json.loads(self._text(method, path, body, query=query))

    def _text(self, method: str, path: str, body: object = None, *, query: Mapping[str, object] | None = None) -> bytes:
        asked = f"{path}?{urlencode({name: word(value) for name, value in query.items()})}" if query else path
        connection, response = self._open(method, asked, body, {})
        try:
            return response.read()
        finally:
            connection.close()

    def _stream(
        self, target: str, headers: Mapping[str, str], opened: Callable[[socket.socket], None] = lambda _: None
    ) -> Generator[Event, None, None]:
        """The events of a stream, until the controller ends in order; the end for another reason is an `ApiError`,
        whose status is 0 if the connection broke. `opened` gets its socket before an answer is waited for."""
        connection, response = self._open("GET", target, None, headers, opened)
        try:
            for event in events(response):
                if event.kind == "gone":
                    if event.data["reason"] == "controller":
                        return
                    raise ApiError(event.data["status"], event.data["detail"], event.data["field"])
                if event.kind != "alive":
                    yield event
            raise ApiError(0, "the connection broke before the stream ended")
        finally:
            connection.close()

    def _open(
        self,
        method: str,
        target: str,
        body: object,
        headers: Mapping[str, str],
        opened: Callable[[socket.socket], None] = lambda _: None,
        *,
        patient: bool = False,
    ) -> tuple[HTTPConnection, HTTPResponse]:
        """Sends a request, and returns its answer if it is one. A patient one waits for as long as that takes."""
        connection: HTTPConnection
        if self._is_https:
            connection = HTTPSConnection(self._host, self._port, timeout=self._timeout, context=self._context)
        else:
            connection = HTTPConnection(self._host, self._port, timeout=self._timeout)
        sent = dict(headers)
        if self._token is not None:
            sent["Authorization"] = f"Bearer {self._token}"
        data = None
        if body is not None:
            data, sent["Content-Type"] = json.dumps(body), "application/json"
        try:
            connection.connect()
            opened(connection.sock)
            connection.request(method, target, data, sent)
            if patient:
                connection.sock.settimeout(None)
            response = connection.getresponse()
            if response.status >= 400:
                raise refusal(response)
        except BaseException:
            connection.close()
            raise
        return connection, response
