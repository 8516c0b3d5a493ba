"""Blocking pipes."""

from __future__ import annotations

from types import TracebackType

from jetarrow.jetstream.pipes.pipe import Pipe as AsyncPipe
from jetarrow.sync.blocking import blocking, inner_repr


class Pipe:
    """As the async pipe, blocking. `close` may be called from another thread; `run` then ends after its step."""

    def __init__(self, inner: AsyncPipe) -> None:
        self._inner = inner

    __repr__ = inner_repr
    __reduce__ = AsyncPipe.__reduce__
    run = blocking(AsyncPipe.run)
    step = blocking(AsyncPipe.step)
    lag = blocking(AsyncPipe.lag)
    reset = blocking(AsyncPipe.reset)
    close = blocking(AsyncPipe.close)

    @property
    def name(self) -> str:
        """The name, under which the position is kept."""
        return self._inner.name

    def __enter__(self) -> Pipe:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
