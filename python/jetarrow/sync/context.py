"""A JetStream context that blocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Unpack, cast

from jetarrow._jetarrow import Msg
from jetarrow.core.session import finish
from jetarrow.jetstream.context import JetStreamContext
from jetarrow.sync.blocking import blocking, wrapped
from jetarrow.sync.fetch import PullSubscription, Reader
from jetarrow.sync.manager import JetStreamManager
from jetarrow.sync.publisher import Publisher
from jetarrow.sync.subscription import PushSubscription, without_callbacks

if TYPE_CHECKING:
    from concurrent.futures import Future

    from jetarrow.jetstream.models import PubAck
    from jetarrow.jetstream.option_types import (
        BindOptions,
        OrderedConsumerOptions,
        PublishAsyncOptions,
        PublisherOptions,
        PushSubscribeOptions,
        ReadOptions,
    )


class JetStream(JetStreamManager):
    """As `jetarrow.js.client.JetStreamContext`, blocking."""

    _inner: JetStreamContext

    def __init__(self, inner: JetStreamContext) -> None:
        super().__init__(inner)

    publish = blocking(JetStreamContext.publish)
    publish_batch = blocking(JetStreamContext.publish_batch)
    publish_table = blocking(JetStreamContext.publish_table)
    publish_async_completed = blocking(JetStreamContext.publish_async_completed)

    def publish_async(
        self, subject: str, payload: bytes | str = b"", **options: Unpack[PublishAsyncOptions]
    ) -> Future[PubAck]:
        """As `jetarrow.js.client.JetStreamContext.publish_async`, with a future for any thread."""
        return cast("Future[PubAck]", finish(self._inner.publish_async(subject, payload, **options)))

    def publish_async_pending(self) -> int:
        """How many messages of `publish_async` have no answer yet."""
        return self._inner.publish_async_pending()

    def publisher(self, subject: str | None = None, **options: Unpack[PublisherOptions]) -> Publisher:
        """As `jetarrow.js.client.JetStreamContext.publisher`, with the same options."""
        return Publisher(self._inner.publisher(subject, **options))

    pull_subscribe = wrapped(JetStreamContext.pull_subscribe, PullSubscription)
    pull_subscribe_bind = wrapped(JetStreamContext.pull_subscribe_bind, PullSubscription)
    is_status_msg = staticmethod(JetStreamContext.is_status_msg)

    def subscribe(
        self, subject: str, queue: str | None = None, **options: Unpack[PushSubscribeOptions]
    ) -> PushSubscription:
        """As `jetarrow.js.client.JetStreamContext.subscribe`, without callbacks: iterate with `for`."""
        return PushSubscription(finish(self._inner.subscribe(subject, queue, **without_callbacks(options))))

    def subscribe_bind(self, stream: str, *args: Any, **options: Unpack[BindOptions]) -> PushSubscription:
        """As `jetarrow.js.client.JetStreamContext.subscribe_bind`, without callbacks."""
        return PushSubscription(finish(self._inner.subscribe_bind(stream, *args, **without_callbacks(options))))

    def ordered_consumer(
        self, stream: str, subjects: str | Sequence[str] | None = None, **options: Unpack[OrderedConsumerOptions]
    ) -> Iterator[Msg]:
        """As `jetarrow.js.client.JetStreamContext.ordered_consumer`: iterate it with `for`."""
        with Reader(self._inner.ordered_consumer(stream, subjects, **options)._read()) as reader:
            for batch in reader:
                yield from batch

    def read(self, stream: str, **options: Unpack[ReadOptions]) -> Reader:
        """As `jetarrow.js.client.JetStreamContext.read`, with the same options; the reader blocks."""
        return Reader(self._inner.read(stream, **options))
