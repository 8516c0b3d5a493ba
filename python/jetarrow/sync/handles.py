"""Blocking handles of streams and consumers, and blocking advisories."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Unpack

from jetarrow._jetarrow import SyncMsg
from jetarrow.core.docstrings import documented_as
from jetarrow.core.session import run_to_completion
from jetarrow.jetstream import models
from jetarrow.jetstream.advisories import Advisories as AsyncAdvisories
from jetarrow.jetstream.consumer import Consumer as AsyncConsumer
from jetarrow.jetstream.models import Advisory
from jetarrow.jetstream.stream import Stream as AsyncStream
from jetarrow.sync.blocking import blocking, inner_repr, iterate, iterate_messages, iterated, with_signature_of, wrapped
from jetarrow.sync.fetch import MessageBatch, PullSubscription

if TYPE_CHECKING:
    from jetarrow.jetstream.option_types import ConsumerBatchesOptions, OrderedConsumerOptions


class Consumer(PullSubscription):
    """As `jetarrow.js.consumer.Consumer`, blocking."""

    _inner: AsyncConsumer

    def __init__(self, inner: AsyncConsumer) -> None:
        super().__init__(inner)

    def __repr__(self) -> str:
        return repr(self._inner)

    @property
    def name(self) -> str:
        """The name."""
        return self._inner.name

    @property
    def stream_name(self) -> str:
        """The stream's name."""
        return self._inner.stream_name

    @property
    def cached_info(self) -> models.ConsumerInfo | None:
        """The last information that this handle received from the server; None before the first request."""
        return self._inner.cached_info

    info = blocking(AsyncConsumer.info)
    pause = blocking(AsyncConsumer.pause)
    resume = blocking(AsyncConsumer.resume)
    reset = blocking(AsyncConsumer.reset)
    unpin = blocking(AsyncConsumer.unpin)
    step_down = blocking(AsyncConsumer.step_down)
    delete = blocking(AsyncConsumer.delete)

    @documented_as(AsyncConsumer.messages)
    def messages(self) -> Iterator[SyncMsg]:
        """As `jetarrow.js.consumer.Consumer.messages`: iterate it with `for`."""
        return iterate_messages(aiter(self._inner.messages))

    @with_signature_of(AsyncConsumer.batches)
    def batches(self, max_messages: int = 1000, **options: Unpack[ConsumerBatchesOptions]) -> Iterator[MessageBatch]:  # noqa: D102
        return map(MessageBatch, iterate(self._inner.batches(max_messages, **options)))


class Stream:
    """As `jetarrow.js.stream.Stream`, blocking."""

    def __init__(self, inner: AsyncStream) -> None:
        self._inner = inner

    def __repr__(self) -> str:
        return repr(self._inner)

    @property
    def name(self) -> str:
        """The name."""
        return self._inner.name

    @property
    def cached_info(self) -> models.StreamInfo | None:
        """The last information that this handle received from the server; None before the first request."""
        return self._inner.cached_info

    info = blocking(AsyncStream.info)
    update = blocking(AsyncStream.update)
    delete = blocking(AsyncStream.delete)
    backup = blocking(AsyncStream.backup)
    purge = blocking(AsyncStream.purge)
    step_down = blocking(AsyncStream.step_down)
    remove_peer = blocking(AsyncStream.remove_peer)
    get_msg = blocking(AsyncStream.get_msg)
    get_last_msg = blocking(AsyncStream.get_last_msg)
    direct_get = blocking(AsyncStream.direct_get)
    direct_get_last_for_subject = blocking(AsyncStream.direct_get_last_for_subject)
    get_last_msgs_for = blocking(AsyncStream.get_last_msgs_for)
    get_batch = blocking(AsyncStream.get_batch)
    counter = blocking(AsyncStream.counter)
    delete_msg = blocking(AsyncStream.delete_msg)

    @documented_as(AsyncStream.ordered_consumer)
    def ordered_consumer(
        self, subjects: str | Sequence[str] | None = None, **options: Unpack[OrderedConsumerOptions]
    ) -> Iterator[SyncMsg]:
        """As `jetarrow.js.stream.Stream.ordered_consumer`: iterate it with `for`."""
        return iterate_messages(aiter(self._inner.ordered_consumer(subjects, **options)))

    @documented_as(AsyncStream.consumer)
    def consumer(self, name: str) -> Consumer:
        """As `jetarrow.js.stream.Stream.consumer`; the handle blocks."""
        return Consumer(self._inner.consumer(name))

    get_consumer = wrapped(AsyncStream.get_consumer, Consumer)
    create_consumer = wrapped(AsyncStream.create_consumer, Consumer)
    get_or_create_consumer = wrapped(AsyncStream.get_or_create_consumer, Consumer)
    update_consumer = wrapped(AsyncStream.update_consumer, Consumer)
    delete_consumer = blocking(AsyncStream.delete_consumer)
    consumers = iterated(AsyncStream.consumers)
    consumer_names = iterated(AsyncStream.consumer_names)


class Advisories:
    """As `jetarrow.js.advisories.Advisories`, blocking: iterate it with `for`."""

    def __init__(self, inner: AsyncAdvisories) -> None:
        self._inner = inner
        self._events: Iterator[Advisory] | None = None

    __repr__ = inner_repr
    close = blocking(AsyncAdvisories.close)

    def __iter__(self) -> Iterator[Advisory]:
        return iterate(aiter(self._inner))

    def __next__(self) -> Advisory:
        if self._events is None:
            self._events = iter(self)
        return next(self._events)

    def __enter__(self) -> Advisories:
        run_to_completion(self._inner.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
