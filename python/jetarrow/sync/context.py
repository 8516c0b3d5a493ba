"""The blocking JetStream context."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Unpack, cast

from jetarrow._jetarrow import SyncMsg
from jetarrow.core.docstrings import documented_as
from jetarrow.core.session import run_to_completion
from jetarrow.jetstream.context import JetStreamContext
from jetarrow.jetstream.messages import REQUEST_MESSAGES
from jetarrow.sync.blocking import blocking, forwarded, iterate_messages, iterated, with_signature_of, wrapped
from jetarrow.sync.dead_letters import DeadLetters
from jetarrow.sync.fetch import PullSubscription, Reader
from jetarrow.sync.manager import JetStreamManager
from jetarrow.sync.publisher import Publisher
from jetarrow.sync.subscription import PushSubscription, without_callbacks

if TYPE_CHECKING:
    from concurrent.futures import Future
    from os import PathLike

    from jetarrow.jetstream.groups.group import ConsumerGroup as AsyncConsumerGroup
    from jetarrow.jetstream.groups.option_types import MemberKeywords
    from jetarrow.jetstream.kv.key_value import KeyValue as AsyncKeyValue
    from jetarrow.jetstream.models import PubAck
    from jetarrow.jetstream.objects.object_store import ObjectStore as AsyncObjectStore
    from jetarrow.jetstream.option_types import (
        BindOptions,
        LatestOptions,
        OrderedConsumerOptions,
        PublishAsyncOptions,
        PublisherOptions,
        PushSubscribeOptions,
        ReadOptions,
    )
    from jetarrow.jetstream.pipes.option_types import PipeKeywords
    from jetarrow.jetstream.pipes.work import PipeFunction
    from jetarrow.jetstream.priority import PriorityOptions
    from jetarrow.jetstream.sinks.option_types import DeltaOptions, IcebergOptions, ParquetOptions
    from jetarrow.jetstream.sinks.sink import Sink as AsyncSink
    from jetarrow.sync.groups import ConsumerGroup, GroupMember
    from jetarrow.sync.kv import KeyValue
    from jetarrow.sync.objects import ObjectStore
    from jetarrow.sync.pipes import Pipe
    from jetarrow.sync.sinks import Sink


# Modules that few programs need are imported by their verbs: importing all of them would take a third longer.
def _group(inner: AsyncConsumerGroup) -> ConsumerGroup:
    from jetarrow.sync.groups import ConsumerGroup

    return ConsumerGroup(inner)


def _key_value(inner: AsyncKeyValue) -> KeyValue:
    from jetarrow.sync.kv import KeyValue

    return KeyValue(inner)


def _object_store(inner: AsyncObjectStore) -> ObjectStore:
    from jetarrow.sync.objects import ObjectStore

    return ObjectStore(inner)


def _sink(inner: AsyncSink) -> Sink:
    from jetarrow.sync.sinks import Sink

    return Sink(inner)


class JetStream(JetStreamManager):
    """As `jetarrow.js.client.JetStreamContext`, blocking."""

    _inner: JetStreamContext

    def __init__(self, inner: JetStreamContext) -> None:
        super().__init__(inner)

    publish = blocking(JetStreamContext.publish)
    publish_batch = blocking(JetStreamContext.publish_batch)
    publish_table = blocking(JetStreamContext.publish_table)
    increment = blocking(JetStreamContext.increment)
    publish_async_completed = blocking(JetStreamContext.publish_async_completed)

    @with_signature_of(JetStreamContext.publish_async)
    def publish_async(
        self, subject: str, payload: bytes | str = b"", **options: Unpack[PublishAsyncOptions]
    ) -> Future[PubAck]:
        """As `jetarrow.js.client.JetStreamContext.publish_async`; the future is usable in any thread."""
        publisher = self._inner._publisher
        if not options and publisher is not None:
            # If the window has room, a direct call saves the coroutine.
            future = publisher.publish(publisher.loop, subject, payload, None, None, None)
            if future is not None:
                return cast("Future[PubAck]", future)
        return cast("Future[PubAck]", run_to_completion(self._inner.publish_async(subject, payload, **options)))

    publish_async_pending = forwarded(JetStreamContext.publish_async_pending)

    @with_signature_of(JetStreamContext.publisher)
    def publisher(self, subject: str | None = None, **options: Unpack[PublisherOptions]) -> Publisher:  # noqa: D102
        return Publisher(self._inner.publisher(subject, **options))

    fetch = blocking(JetStreamContext.fetch)

    @documented_as(JetStreamContext.consume)
    def consume(
        self,
        stream: str,
        consumer: str,
        max_messages: int = REQUEST_MESSAGES,
        *,
        max_bytes: int | None = None,
        **priority: Unpack[PriorityOptions],
    ) -> Iterator[SyncMsg]:
        """As `jetarrow.js.client.JetStreamContext.consume`: iterate it with `for`."""
        messages = self._inner.consume(stream, consumer, max_messages, max_bytes=max_bytes, threshold=0, **priority)
        return iterate_messages(aiter(messages))

    pull_subscribe = wrapped(JetStreamContext.pull_subscribe, PullSubscription)
    pull_subscribe_bind = wrapped(JetStreamContext.pull_subscribe_bind, PullSubscription)
    is_status_msg = staticmethod(JetStreamContext.is_status_msg)

    @with_signature_of(JetStreamContext.subscribe)
    def subscribe(
        self, subject: str, queue: str | None = None, **options: Unpack[PushSubscribeOptions]
    ) -> PushSubscription:
        """As `jetarrow.js.client.JetStreamContext.subscribe`: no callbacks; iterate it with `for`."""
        return PushSubscription(run_to_completion(self._inner.subscribe(subject, queue, **without_callbacks(options))))

    @with_signature_of(JetStreamContext.subscribe_bind)
    def subscribe_bind(self, stream: str, *args: Any, **options: Unpack[BindOptions]) -> PushSubscription:
        """As `jetarrow.js.client.JetStreamContext.subscribe_bind`: no callbacks; iterate it with `for`."""
        return PushSubscription(
            run_to_completion(self._inner.subscribe_bind(stream, *args, **without_callbacks(options)))
        )

    @with_signature_of(JetStreamContext.ordered_consumer)
    def ordered_consumer(  # noqa: D102
        self, stream: str, subjects: str | Sequence[str] | None = None, **options: Unpack[OrderedConsumerOptions]
    ) -> Iterator[SyncMsg]:
        return iterate_messages(aiter(self._inner.ordered_consumer(stream, subjects, **options)))

    key_value = wrapped(JetStreamContext.key_value, _key_value)
    create_key_value = wrapped(JetStreamContext.create_key_value, _key_value)
    update_key_value = wrapped(JetStreamContext.update_key_value, _key_value)
    delete_key_value = blocking(JetStreamContext.delete_key_value)
    key_value_names = iterated(JetStreamContext.key_value_names)
    key_values = iterated(JetStreamContext.key_values)

    @with_signature_of(JetStreamContext.read)
    def read(self, stream: str, **options: Unpack[ReadOptions]) -> Reader:  # noqa: D102
        return Reader(self._inner.read(stream, **options))

    keep_dead_letters = blocking(JetStreamContext.keep_dead_letters)

    @with_signature_of(JetStreamContext.dead_letters)
    def dead_letters(self, stream: str) -> DeadLetters:  # noqa: D102
        return DeadLetters(self._inner.dead_letters(stream))

    @with_signature_of(JetStreamContext.to_parquet)
    def to_parquet(self, stream: str, path: str | PathLike[str], **options: Unpack[ParquetOptions]) -> Sink:  # noqa: D102
        return _sink(self._inner.to_parquet(stream, path, **options))

    @with_signature_of(JetStreamContext.to_delta)
    def to_delta(self, stream: str, table_uri: str | PathLike[str], **options: Unpack[DeltaOptions]) -> Sink:  # noqa: D102
        return _sink(self._inner.to_delta(stream, table_uri, **options))

    @with_signature_of(JetStreamContext.to_iceberg)
    def to_iceberg(self, stream: str, table: str | Sequence[str], **options: Unpack[IcebergOptions]) -> Sink:  # noqa: D102
        return _sink(self._inner.to_iceberg(stream, table, **options))

    @with_signature_of(JetStreamContext.pipe)
    def pipe(  # noqa: D102
        self, source: str, target: str, function: PipeFunction | str, *, name: str, **options: Unpack[PipeKeywords]
    ) -> Pipe:
        from jetarrow.sync.pipes import Pipe

        return Pipe(self._inner.pipe(source, target, function, name=name, **options))

    create_consumer_group = wrapped(JetStreamContext.create_consumer_group, _group)
    open_consumer_group = wrapped(JetStreamContext.open_consumer_group, _group)
    consumer_groups = wrapped(JetStreamContext.consumer_groups, lambda found: list(map(_group, found)))

    @with_signature_of(JetStreamContext.consumer_group)
    def consumer_group(self, stream: str, name: str, *, member: str, **options: Unpack[MemberKeywords]) -> GroupMember:  # noqa: D102
        from jetarrow.sync.groups import GroupMember

        return GroupMember(self._inner.consumer_group(stream, name, member=member, **options))

    @with_signature_of(JetStreamContext.latest)
    def latest(  # noqa: D102
        self, stream: str, subjects: str | Sequence[str] | None = None, **options: Unpack[LatestOptions]
    ) -> Reader:
        return Reader(self._inner.latest(stream, subjects, **options))

    object_store = wrapped(JetStreamContext.object_store, _object_store)
    create_object_store = wrapped(JetStreamContext.create_object_store, _object_store)
    delete_object_store = blocking(JetStreamContext.delete_object_store)
    object_store_names = iterated(JetStreamContext.object_store_names)
    object_stores = iterated(JetStreamContext.object_stores)


JetStreamManager._context = JetStream
