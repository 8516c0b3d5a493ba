"""Publishing one message at a time; re-exports `jetarrow.jetstream.publisher`."""

from __future__ import annotations

from jetarrow.core.futures import AckFuture
from jetarrow.jetstream.publisher import Publisher, Stats

__all__ = ["AckFuture", "Publisher", "Stats"]
