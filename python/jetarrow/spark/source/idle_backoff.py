"""Backoff of an idle query: Spark polls every few milliseconds, and some checks for messages take longer.

These are checks of many streams, and of a filter with wildcards while other subjects are published: the server searches
all subjects for its last match, which takes 4 to 7 ms for 100,000 subjects.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from .offsets import Offset

# Number of streams from which on idle checks are throttled.
MANY_STREAMS = 16
# Pause after an idle check, in multiples of its duration, so that an idle query has a tenth of the load; and its
# maximum in seconds.
_BACKOFF_FACTOR = 10.0
_MAX_BACKOFF = 1.0


class IdleBackoff:
    """Pause after a check of the streams without new messages."""

    def __init__(self) -> None:
        self._asked = time.monotonic()
        self._until = 0.0
        self._at: Offset | None = None

    def is_active(self, at: Offset) -> bool:
        """Return whether the pause lasts; if not, start a check.

        Args:
            at: Position of the query.
        """
        now = time.monotonic()
        if now < self._until and at == self._at:
            return True
        self._asked = now
        return False

    def start(self, at: Offset, sizes: Mapping[str, int], *, costly: bool = False) -> None:
        """Start a pause after an idle check, if the check is expensive.

        Args:
            at: Position of the query.
            sizes: Pending sequences by stream.
            costly: Whether the check is expensive although there are few streams. Default: False.
        """
        idle = (costly or len(sizes) >= MANY_STREAMS) and not any(sizes.values())
        now = time.monotonic()
        self._until = now + min(_MAX_BACKOFF, _BACKOFF_FACTOR * (now - self._asked)) if idle else 0.0
        self._at = at
