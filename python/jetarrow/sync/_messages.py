"""Batches, pull subscriptions and readers that block."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING

from jetarrow import batch, read
from jetarrow._run import finish
from jetarrow.aio.msg import Msg
from jetarrow.js import subscription
from jetarrow.js.subscription import PullSubscription as AsyncPullSubscription
from jetarrow.sync._run import blocking, wrapped

if TYPE_CHECKING:
    import pyarrow


class MessageBatch(batch.Columns):
    """As `jetarrow.batch.MessageBatch`, blocking."""

    def __init__(self, inner: batch.MessageBatch) -> None:
        super().__init__(inner._nc, inner._native)
        self._inner = inner

    def decode(self, schema: object, mode: str = "PERMISSIVE") -> MessageBatch:
        """As `jetarrow.batch.MessageBatch.decode`."""
        return MessageBatch(self._inner.decode(schema, mode))

    ack = blocking(batch.MessageBatch.ack)
    ack_sync = blocking(batch.MessageBatch.ack_sync)
    nak = blocking(batch.MessageBatch.nak)
    term = blocking(batch.MessageBatch.term)
    in_progress = blocking(batch.MessageBatch.in_progress)


class PullSubscription:
    """As the async one, blocking."""

    def __init__(self, inner: AsyncPullSubscription) -> None:
        self._inner = inner

    consumer_info = blocking(AsyncPullSubscription.consumer_info)
    fetch = blocking(AsyncPullSubscription.fetch)
    fetch_batch = wrapped(AsyncPullSubscription.fetch_batch, MessageBatch)

    def messages(self) -> Iterator[Msg]:
        """All messages as they come, without end."""
        messages: list[Msg] = []
        number = 0
        try:
            while True:
                call = self._inner._fetch(subscription.AT_ONCE, timeout=subscription.PATIENCE)
                messages, number = finish(call), 0
                for msg in messages:
                    number += 1
                    yield msg
        finally:
            finish(self._inner._give_back(messages[number:]))


class Reader:
    """As `jetarrow.read.Reader`, blocking: iterate it with `for`."""

    def __init__(self, inner: read.Reader) -> None:
        self._inner = inner

    read_all = blocking(read.Reader.read_all)
    close = blocking(read.Reader.close)

    @property
    def position(self) -> int | None:
        """The next sequence to be read; None before the first use of a reader without `start_seq`."""
        return self._inner.position

    @property
    def schema(self) -> pyarrow.Schema:
        """The Arrow schema of the batches (needs pyarrow)."""
        return self._inner.schema

    def __arrow_c_schema__(self) -> object:
        return self._inner.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._inner.__arrow_c_stream__(requested_schema)

    def __iter__(self) -> Iterator[MessageBatch]:
        return self

    def __next__(self) -> MessageBatch:
        return MessageBatch(next(self._inner))

    def __enter__(self) -> Reader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
