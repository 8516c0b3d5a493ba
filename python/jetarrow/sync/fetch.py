"""Batches, pull subscriptions and readers that block."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Unpack

from jetarrow._jetarrow import SyncMsg
from jetarrow.core.closed_event import ClosedEvent
from jetarrow.jetstream import batch, reader
from jetarrow.jetstream.fetch import PullSubscription as AsyncPullSubscription
from jetarrow.jetstream.literals import DecodeMode
from jetarrow.jetstream.messages import REQUEST_MESSAGES
from jetarrow.sync.blocking import (
    blocking,
    blocking_messages,
    iterate,
    iterate_messages,
    twin_repr,
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

    def decode(self, schema: object, mode: DecodeMode = "PERMISSIVE") -> MessageBatch:
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

    __repr__ = twin_repr
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
        """Whether it has ended, or its connection has."""
        return self._inner.is_closed

    @property
    def closed(self) -> ClosedEvent:
        """Its end, to wait for: `sub.closed.wait(timeout)`."""
        return self._inner.closed

    @property
    def pending_msgs(self) -> int:
        """0: nothing comes that was not asked for."""
        return self._inner.pending_msgs

    @property
    def pending_bytes(self) -> int:
        """0: nothing comes that was not asked for."""
        return self._inner.pending_bytes

    @property
    def delivered(self) -> int:
        """Messages that were fetched so far."""
        return self._inner.delivered

    def messages(self) -> Iterator[SyncMsg]:
        """All messages as they come, without end."""
        return self.consume()

    def consume(
        self,
        max_messages: int = REQUEST_MESSAGES,
        *,
        max_bytes: int | None = None,
        **priority: Unpack[PriorityOptions],
    ) -> Iterator[SyncMsg]:
        """As `messages`, with the sizes of its requests.

        Args:
            max_messages: Most messages of one request.
            max_bytes: Most bytes of one request, as the server counts them; None is no limit.
            **priority: As `fetch`.
        """
        messages = self._inner.consume(max_messages, max_bytes=max_bytes, threshold=0, **priority)
        return iterate_messages(aiter(messages))

    def pull(
        self,
        batch: int = 1,
        expires: float | None = None,
        *,
        no_wait: bool = False,
        max_bytes: int | None = None,
        idle_heartbeat: float | None = None,
        max_wait: float | None = None,
        **priority: Unpack[PriorityOptions],
    ) -> None:
        """Asks for messages that `for msg in sub` then yields, until all that was asked for has come or expired.

        Args:
            batch: Most messages.
            expires: Seconds until the request is over, default 5.
            no_wait: Only what the server has now.
            max_bytes: Most bytes of messages, as the server counts them; None is no limit.
            idle_heartbeat: Seconds between the server's signs of life while it has nothing.
            max_wait: Another name for `expires`.
            **priority: As `fetch`.
        """
        self._inner.pull(
            batch,
            expires,
            no_wait=no_wait,
            max_bytes=max_bytes,
            idle_heartbeat=idle_heartbeat,
            max_wait=max_wait,
            **priority,
        )

    def __iter__(self) -> Iterator[SyncMsg]:
        return iterate_messages(self._inner._pulled_messages(wait=False))


class Reader:
    """As `jetarrow.read.Reader`, blocking: iterate it with `for`."""

    def __init__(self, inner: reader.Reader) -> None:
        self._inner = inner

    __repr__ = twin_repr
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
        """The next sequence to be read; None before the first use of a reader without `start_seq`."""
        return self._inner.position

    @property
    def inferred(self) -> pyarrow.Schema | None:
        """What `schema="infer"` found, once the reader is open: the fields of `value`. None without it."""
        return self._inner.inferred

    @property
    def created(self) -> str:
        """When the stream was created, as the server writes it: a later stream of the same name has another time."""
        return self._inner.created

    @property
    def schema(self) -> pyarrow.Schema:
        """The Arrow schema of the batches (needs pyarrow)."""
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
