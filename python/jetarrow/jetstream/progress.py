"""Progress of long calls."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from jetarrow.core.arguments import function

Progress = Callable[[int, int | None], object]
# Seconds between two progress calls.
REPORT_INTERVAL = 0.1


def reporter(progress: Progress | bool | None, label: str, unit: str = "rows") -> Progress | None:
    """The progress function of an argument `progress`.

    Raises:
        TypeError: It is neither a bool nor a function.
    """
    if progress is True:
        return progress_bar(label, unit)
    return function("progress", progress or None)


def progress_bar(label: str, unit: str = "rows") -> Progress | None:
    """A progress bar on stderr; None if stderr is not a terminal."""
    if not sys.stderr.isatty():
        return None
    width = 30

    def show(done: int, total: int | None) -> None:
        if total is None:
            sys.stderr.write(f"\r{label}  {done:,} {unit}")
            return
        filled = width * done // max(total, 1)
        sys.stderr.write(f"\r{label}  {'█' * filled}{'░' * (width - filled)}  {done:,} of {total:,}")
        if done >= total:
            sys.stderr.write("\n")
        sys.stderr.flush()

    return show


class ThrottledProgress:
    """Calls a progress function with the bytes transferred, at most ten times a second.

    Raises:
        TypeError: `progress` is neither True nor a function.
    """

    def __init__(self, progress: Progress | bool | None, label: str, total: int | None) -> None:
        self._report = reporter(progress, label, "bytes")
        self._total = total
        self._done = 0
        self._last = 0.0

    def add(self, count: int) -> None:
        """Add a number of bytes."""
        self._done += count
        now = time.monotonic()
        if self._report is not None and (now - self._last >= REPORT_INTERVAL or self._done == self._total):
            self._last = now
            self._report(self._done, self._total)
