"""Reading weak sets to which other threads add."""

from __future__ import annotations

from contextlib import suppress
from typing import TypeVar
from weakref import WeakSet

_T = TypeVar("_T")


def members(of: WeakSet[_T]) -> list[_T]:
    """The members of a weak set, also while other threads add some.

    Args:
        of: The set.
    """
    while True:
        # RuntimeError: another thread has added a member during the iteration.
        with suppress(RuntimeError):
            return list(of)
