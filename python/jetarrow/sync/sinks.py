"""Blocking sinks."""

from __future__ import annotations

from types import TracebackType

from jetarrow.jetstream.sinks.sink import Sink as AsyncSink
from jetarrow.sync.blocking import blocking, inner_repr


class Sink:
    """As the async sink, blocking. `close` may be called from another thread; `run` then ends after its commit."""

    def __init__(self, inner: AsyncSink) -> None:
        self._inner = inner

    __repr__ = inner_repr
    __reduce__ = AsyncSink.__reduce__
    run = blocking(AsyncSink.run)
    step = blocking(AsyncSink.step)
    lag = blocking(AsyncSink.lag)
    compact = blocking(AsyncSink.compact)
    close = blocking(AsyncSink.close)

    def __enter__(self) -> Sink:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
