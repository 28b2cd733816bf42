"""Streams of events as iterators."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import AsyncIterator, Callable, Generator, Mapping
from queue import SimpleQueue
from typing import TypeVar

from maple.client._answers import Event, Row
from maple.client._requests import Requests

R = TypeVar("R")


def formed(events: Generator[Event, None, None], form: Callable[[Event], R]) -> Generator[R, None, None]:
    """The events in some form. Closing it closes them."""
    with contextlib.closing(events):
        for event in events:
            yield form(event)


def whole(event: Event) -> Event:
    """The form of an event that is the event."""
    return event


def data_of(event: Event) -> Row:
    """The value in an event of a key or a variable."""
    return event.data


def rows_of(event: Event) -> list[Row]:
    """The rows that an event of a table has."""
    rows: list[Row] = event.data["rows"]
    return rows


async def read_stream(
    client: Requests, target: str, headers: Mapping[str, str], form: Callable[[Event], R]
) -> AsyncIterator[R]:
    """The events of a stream in some form. A thread of its own waits for them, whose connection ends as soon as nobody
    reads them any more: a thread of the event loop's would keep that from closing until something comes."""
    loop = asyncio.get_running_loop()
    wanted: SimpleQueue[asyncio.Future[Event | None] | None] = SimpleQueue()
    sockets: list[socket.socket] = []
    has_ended = threading.Event()

    def opened(own: socket.socket) -> None:
        sockets.append(own)
        if has_ended.is_set():
            _shut(own)

    def work() -> None:
        events = client._stream(target, headers, opened)
        while (future := wanted.get()) is not None:
            event, error = None, None
            try:
                event = next(events, None)
            except Exception as raised:
                error = raised
            try:
                loop.call_soon_threadsafe(_settle, future, event, error)
            except RuntimeError:
                # The loop has closed, and nobody waits.
                return

    threading.Thread(target=work, name="maple-events", daemon=True).start()
    try:
        while True:
            future: asyncio.Future[Event | None] = loop.create_future()
            wanted.put(future)
            event = await future
            if event is None:
                return
            yield form(event)
    finally:
        wanted.put(None)
        has_ended.set()
        for own in sockets:
            _shut(own)


def _settle(future: asyncio.Future[Event | None], event: Event | None, error: Exception | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(event)
    else:
        future.set_exception(error)


def _shut(own: socket.socket) -> None:
    """Ends the connection of a socket that another thread may be reading."""
    with contextlib.suppress(OSError):
        own.shutdown(socket.SHUT_RDWR)
