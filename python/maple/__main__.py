"""The ``maple`` command: the same program as the Rust-only binary, with Python policies."""

import atexit
import io
import logging
import os
import sys
import threading
from collections.abc import Iterable
from typing import Any, TextIO, cast

from maple import _maple


def main() -> int:
    """Runs the command line; the exit status."""
    _write_whole_lines()
    sys.stdout, sys.stderr = cast(TextIO, _Output(sys.stdout)), cast(TextIO, _Output(sys.stderr))
    _keep_records_back()
    status = _maple.main(["maple", *sys.argv[1:]])
    others = [thread for thread in threading.enumerate() if thread is not threading.current_thread()]
    if any(thread.daemon for thread in others):
        _leave(status, [thread for thread in others if not thread.daemon])
    return status


def _write_whole_lines() -> None:
    """Output of a policy comes out a line at a time, at once, and no line of the log gets into the middle of it.

    The interpreter would keep pages of it back for a file or a pipe, and with ``PYTHONUNBUFFERED`` write each argument
    of ``print`` on its own.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(line_buffering=True, write_through=False)


class _Output:
    """A standard stream without what a policy prints about packets that nobody has sent."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str, /) -> int:
        return len(text) if _maple.keeps_output_back() else self._stream.write(text)

    def writelines(self, lines: Iterable[str], /) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _keep_records_back() -> None:
    """Nor do handlers of ``logging`` get anything about such packets, wherever they write."""
    call_handlers = logging.Logger.callHandlers

    def call(logger: logging.Logger, record: logging.LogRecord) -> None:
        if not _maple.keeps_output_back():
            call_handlers(logger, record)

    logging.Logger.callHandlers = call  # type: ignore[assignment,method-assign]


def _leave(status: int, awaited: list[threading.Thread]) -> None:
    """Ends the process as the interpreter does, but leaves a policy's background threads where they are.

    The interpreter ends each of them as soon as it comes back from native code, such as a transaction that waits, and
    that can end the process with a failure.
    """
    for thread in awaited:
        thread.join()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    sys.exit(main())
