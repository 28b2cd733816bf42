"""The ``maple`` command: the same program as the Rust-only binary, with Python policies."""

import sys

from maple import _maple


def main() -> int:
    """Runs the command line; the exit status."""
    return _maple.main(["maple", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
