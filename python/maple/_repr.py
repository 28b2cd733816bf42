"""The look of objects in tracebacks and at a prompt, whatever state they are in."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TypeVar

_T = TypeVar("_T")


def always(shown: Callable[[_T], str]) -> Callable[[_T], str]:
    """A ``__repr__`` that raises nothing: tracebacks also show objects whose making failed, or whose network ended."""

    @functools.wraps(shown)
    def shown_always(self: _T) -> str:
        try:
            return shown(self)
        except AttributeError:
            return f"<{type(self).__name__}, not complete>"
        except RuntimeError as error:
            return f"<{type(self).__name__}: {error}>"

    return shown_always
