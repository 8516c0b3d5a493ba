"""The blocking publisher."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Unpack, cast

from jetarrow.core.docstrings import documented_as
from jetarrow.core.session import run_to_completion
from jetarrow.jetstream import publisher
from jetarrow.sync.blocking import blocking, inner_repr

if TYPE_CHECKING:
    from concurrent.futures import Future

    from jetarrow.jetstream.models import PubAck
    from jetarrow.jetstream.option_types import PublisherPublishOptions


class Publisher:
    """As `jetarrow.publisher.Publisher`, blocking; use it with `with`. Its futures are `concurrent.futures.Future`."""

    def __init__(self, inner: publisher.Publisher) -> None:
        self._inner = inner

    __repr__ = inner_repr
    flush = blocking(publisher.Publisher.flush)

    @documented_as(publisher.Publisher.publish)
    def publish(self, payload: bytes | str, **options: Unpack[PublisherPublishOptions]) -> Future[PubAck]:
        """As `jetarrow.publisher.Publisher.publish`, with the same options."""
        inner = self._inner
        if not options and not inner._over and inner._subject is not None and inner._loop_publisher is not None:
            # If the window has room, a direct call saves the coroutine.
            queue = inner._loop_publisher
            future = queue.publish(queue.loop, inner._subject, payload, None, None, None)
            if future is not None:
                return cast("Future[PubAck]", future)
        return cast("Future[PubAck]", run_to_completion(self._inner.publish(payload, **options)))

    @property
    def pending(self) -> int:
        """Number of unacknowledged messages."""
        return self._inner.pending

    @property
    def stats(self) -> publisher.Stats:
        """Counters: stored, duplicates, errors, pending, pending_bytes."""
        return self._inner.stats

    def __enter__(self) -> Publisher:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._inner._over = True
        if kind is None:
            run_to_completion(self._inner._finish())
