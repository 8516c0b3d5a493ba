"""Telling how far a put or a get is."""

from __future__ import annotations

import time

from jetarrow.jetstream.progress import Progress, reporter

# Seconds between two calls.
PAUSE = 0.1


class Told:
    """Calls a progress function with bytes, seldom enough."""

    def __init__(self, progress: Progress | bool | None, label: str, total: int | None) -> None:
        self._report = reporter(progress, label, "bytes")
        self._total = total
        self._done = 0
        self._last = 0.0

    def add(self, count: int) -> None:
        """So many bytes more are done."""
        self._done += count
        now = time.monotonic()
        if self._report is not None and (now - self._last >= PAUSE or self._done == self._total):
            self._last = now
            self._report(self._done, self._total)
