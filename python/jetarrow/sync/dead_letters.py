"""Blocking access to dead letters."""

from __future__ import annotations

from jetarrow.jetstream.dead_letters import DeadLetters as AsyncDeadLetters
from jetarrow.sync.blocking import blocking, inner_repr


class DeadLetters:
    """As `jetarrow.jetstream.dead_letters.DeadLetters`, blocking."""

    def __init__(self, inner: AsyncDeadLetters) -> None:
        self._inner = inner

    __repr__ = inner_repr
    __reduce__ = AsyncDeadLetters.__reduce__

    @property
    def malformed(self) -> int:
        """As `jetarrow.jetstream.dead_letters.DeadLetters.malformed`."""
        return self._inner.malformed

    read_all = blocking(AsyncDeadLetters.read_all)
    to_polars = blocking(AsyncDeadLetters.to_polars)
    to_pandas = blocking(AsyncDeadLetters.to_pandas)
    replay = blocking(AsyncDeadLetters.replay)
