"""The ``maple`` command: the same program as the Rust-only binary, with Python policies."""

import atexit
import os
import sys
import threading

from maple import _maple


def main() -> int:
    """Runs the command line; the exit status."""
    status = _maple.main(["maple", *sys.argv[1:]])
    others = [thread for thread in threading.enumerate() if thread is not threading.current_thread()]
    if any(thread.daemon for thread in others):
        _leave(status, [thread for thread in others if not thread.daemon])
    return status


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
