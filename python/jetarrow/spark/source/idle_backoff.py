"""How often an idle query asks: Spark comes every few milliseconds, and some looks take longer than that.

Many streams do; so does a filter with wildcards while others publish: for its last match the server goes through all
subjects, 4 to 7 ms for 100,000 of them.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from .offsets import Offset

# Fewer are looked at every time Spark comes.
MANY_STREAMS = 16
# After a look that found nothing, this many times as long as it took is waited, so that an idle query costs a tenth of
# what it would.
_BACKOFF_FACTOR = 10.0
_MAX_BACKOFF = 1.0


class IdleBackoff:
    """A pause after a look at the streams that found nothing."""

    def __init__(self) -> None:
        self._asked = time.monotonic()
        self._until = 0.0
        self._at: Offset | None = None

    def is_active(self, at: Offset) -> bool:
        """Whether there is no need to look again yet; else a look begins.

        Args:
            at: Where the query stands.
        """
        now = time.monotonic()
        if now < self._until and at == self._at:
            return True
        self._asked = now
        return False

    def start(self, at: Offset, sizes: Mapping[str, int], *, costly: bool = False) -> None:
        """Say that a look has ended with nothing to do.

        Args:
            at: Where the query stands.
            sizes: How much waits, by stream.
            costly: Whether a look is one, though the streams are few. Default: False.
        """
        idle = (costly or len(sizes) >= MANY_STREAMS) and not any(sizes.values())
        now = time.monotonic()
        self._until = now + min(_MAX_BACKOFF, _BACKOFF_FACTOR * (now - self._asked)) if idle else 0.0
        self._at = at
