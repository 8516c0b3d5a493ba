"""Blocking batches, pull subscriptions and readers."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Unpack

from jetarrow._jetarrow import SyncMsg
from jetarrow.core.closed_event import ClosedEvent
from jetarrow.core.docstrings import documented_as
from jetarrow.jetstream import batch, reader
from jetarrow.jetstream.fetch import PullSubscription as AsyncPullSubscription
from jetarrow.jetstream.literals import DecodeMode, RowFormat, TimestampNumbers
from jetarrow.jetstream.messages import REQUEST_MESSAGES
from jetarrow.jetstream.registry import SchemaRegistry
from jetarrow.sync.blocking import (
    blocking,
    blocking_messages,
    forwarded,
    inner_repr,
    iterate,
    iterate_messages,
    with_signature_of,
    wrapped,
)

if TYPE_CHECKING:
    import pyarrow

    from jetarrow.jetstream.option_types import BatchesOptions
    from jetarrow.jetstream.priority import PriorityOptions


class MessageBatch(batch.Columns[SyncMsg]):
    """As `jetarrow.batch.MessageBatch`, blocking."""

    def __init__(self, inner: batch.MessageBatch) -> None:
        super().__init__(inner._session, inner._native)
        self._inner = inner

    @documented_as(batch.MessageBatch.decode)
    def decode(
        self,
        schema: object = None,
        mode: DecodeMode = "PERMISSIVE",
        *,
        format: RowFormat = "json",
        registry: SchemaRegistry | str | None = None,
        time_zone: str = "UTC",
        timestamp_numbers: TimestampNumbers | None = None,
    ) -> MessageBatch:
        """As `jetarrow.batch.MessageBatch.decode`."""
        found = self._inner.decode(
            schema, mode, format=format, registry=registry, time_zone=time_zone, timestamp_numbers=timestamp_numbers
        )
        return MessageBatch(found)

    ack = blocking(batch.MessageBatch.ack)
    ack_sync = blocking(batch.MessageBatch.ack_sync)
    nak = blocking(batch.MessageBatch.nak)
    term = blocking(batch.MessageBatch.term)
    in_progress = blocking(batch.MessageBatch.in_progress)


class PullSubscription:
    """As `jetarrow.js.subscription.PullSubscription`, blocking."""

    def __init__(self, inner: AsyncPullSubscription) -> None:
        self._inner = inner

    __repr__ = inner_repr
    consumer_info = blocking(AsyncPullSubscription.consumer_info)
    fetch = blocking_messages(AsyncPullSubscription.fetch)
    fetch_batch = wrapped(AsyncPullSubscription.fetch_batch, MessageBatch)

    @with_signature_of(AsyncPullSubscription.batches)
    def batches(self, **options: Unpack[BatchesOptions]) -> Iterator[MessageBatch]:  # noqa: D102
        return map(MessageBatch, iterate(self._inner.batches(**options)))

    unsubscribe = blocking(AsyncPullSubscription.unsubscribe)
    drain = blocking(AsyncPullSubscription.drain)
    destroy = blocking(AsyncPullSubscription.destroy)

    @property
    def is_closed(self) -> bool:
        """Whether the subscription or its connection has ended."""
        return self._inner.is_closed

    @property
    def closed(self) -> ClosedEvent:
        """Event that is set at the end of the subscription: `sub.closed.wait(timeout)`."""
        return self._inner.closed

    @property
    def pending_msgs(self) -> int:
        """0: the server sends only requested messages."""
        return self._inner.pending_msgs

    @property
    def pending_bytes(self) -> int:
        """0: the server sends only requested messages."""
        return self._inner.pending_bytes

    @property
    def delivered(self) -> int:
        """Number of fetched messages."""
        return self._inner.delivered

    def messages(self) -> Iterator[SyncMsg]:
        """Iterates over messages without end."""
        return self.consume()

    def consume(
        self,
        max_messages: int = REQUEST_MESSAGES,
        *,
        max_bytes: int | None = None,
        **priority: Unpack[PriorityOptions],
    ) -> Iterator[SyncMsg]:
        """As `messages`, with limits for its requests.

        Args:
            max_messages: Maximum messages of one request.
            max_bytes: Maximum bytes of one request, as the server counts them; None has no limit.
            **priority: As `fetch`.
        """
        messages = self._inner.consume(max_messages, max_bytes=max_bytes, threshold=0, **priority)
        return iterate_messages(aiter(messages))

    pull = forwarded(AsyncPullSubscription.pull)

    def __iter__(self) -> Iterator[SyncMsg]:
        return iterate_messages(self._inner._pulled_messages(wait=False))


class Reader:
    """As `jetarrow.read.Reader`, blocking: iterate it with `for`."""

    def __init__(self, inner: reader.Reader) -> None:
        self._inner = inner

    __repr__ = inner_repr
    __reduce__ = reader.Reader.__reduce__

    def _repr_html_(self) -> str:
        return self._inner._repr_html_()

    read_all = blocking(reader.Reader.read_all)
    to_polars = blocking(reader.Reader.to_polars)
    to_pandas = blocking(reader.Reader.to_pandas)
    to_duckdb = blocking(reader.Reader.to_duckdb)
    close = blocking(reader.Reader.close)

    @property
    def position(self) -> int | None:
        """The next sequence to read; None before the first use of a reader without `start_seq`."""
        return self._inner.position

    @property
    def inferred(self) -> pyarrow.Schema | None:
        """The fields of `value` that `schema="infer"` found after opening the reader; None without it."""
        return self._inner.inferred

    @property
    def created(self) -> str:
        """Creation time of the stream, as the server formats it. A recreated stream has another time."""
        return self._inner.created

    @property
    def schema(self) -> pyarrow.Schema:
        """The Arrow schema of the batches (requires pyarrow)."""
        return self._inner.schema

    def __arrow_c_schema__(self) -> object:
        return self._inner.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._inner.__arrow_c_stream__(requested_schema)

    def __iter__(self) -> Iterator[MessageBatch]:
        iter(self._inner)
        return self

    def __next__(self) -> MessageBatch:
        return MessageBatch(next(self._inner))

    def __enter__(self) -> Reader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
