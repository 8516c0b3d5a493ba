"""Handle of a consumer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any, Unpack, cast

from jetarrow._jetarrow import Msg
from jetarrow.core.docstrings import with_entries_of
from jetarrow.core.errors import BadSubscriptionError, Error
from jetarrow.jetstream import models
from jetarrow.jetstream.api import JetStreamApi
from jetarrow.jetstream.batch import MessageBatch
from jetarrow.jetstream.fetch import PullSubscription
from jetarrow.jetstream.manage.leaders import step_down_consumer
from jetarrow.jetstream.messages import REQUEST_TIMEOUT, Messages
from jetarrow.jetstream.push import PushSubscription

if TYPE_CHECKING:
    from jetarrow.jetstream.priority import PriorityOptions

_LIMITS = (models.DEFAULT_JS_SUB_PENDING_MSGS_LIMIT, models.DEFAULT_JS_SUB_PENDING_BYTES_LIMIT)


class Consumer(PullSubscription):
    """A consumer. Created by `stream.consumer(name)`, `stream.get_consumer(name)` and `stream.create_consumer(...)`.

    A pull consumer is read with `fetch`, `fetch_batch`, `messages()`, `consume()` and `batches(n)`; a push consumer
    with `messages()`.

    Attributes:
        name: Its name.
        stream_name: Its stream's name.
        cached_info: The last information requested through this handle; None before the first request.
    """

    def __init__(self, api: JetStreamApi, stream: str, name: str, info: models.ConsumerInfo | None = None) -> None:
        super().__init__(api, stream=stream, consumer=name, info=info)
        self.name = name
        self.stream_name = stream
        self.cached_info = info

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} of {self.stream_name}>"

    async def info(self) -> models.ConsumerInfo:
        """Requests configuration and state; kept as `cached_info`.

        Raises:
            NotFoundError: The consumer or its stream does not exist any more.
        """
        self.cached_info = info = await self.consumer_info()
        return info

    async def pause(self, until: str | datetime) -> models.ConsumerPause:
        """Stops deliveries until a time; as `js.pause_consumer`.

        Args:
            until: A datetime or RFC 3339 text (local time if it has no zone); a past time resumes deliveries.
        """
        return await self._manage.pause_consumer(self.stream_name, self.name, until)

    async def resume(self) -> models.ConsumerPause:
        """Ends a pause at once."""
        return await self._manage.resume_consumer(self.stream_name, self.name)

    async def reset(self, seq: int | None = None) -> models.ConsumerReset:
        """Resets the position, so that messages are redelivered; as `js.reset_consumer`. Server 2.14 or later.

        Args:
            seq: The stream sequence of the next delivery; None is the first unacknowledged one.
        """
        return await self._manage.reset_consumer(self.stream_name, self.name, seq)

    async def unpin(self, group: str) -> None:
        """Unpins a priority group from its client; as `js.unpin_consumer`.

        Args:
            group: The group.
        """
        await self._manage.unpin_consumer(self.stream_name, self.name, group)

    async def step_down(self, preferred: str | None = None) -> None:
        """Makes the leader step down, so that the servers of the consumer elect another one.

        It returns before the election, which takes less than a second; the leader delivers messages and receives acks.
        A consumer with one replica has no other leader: nothing changes.

        Args:
            preferred: Name of the server that becomes the leader; it must have a replica. Server 2.11 or later.
                Default: any.

        Raises:
            NotFoundError: The consumer or its stream does not exist.
            BadRequestError: `preferred` has no replica, or is the leader.
            ServiceUnavailableError: The server is not part of a cluster, or there is no leader at present.
            TimeoutError: No leader answered, as during an election.
            UnsupportedError: The server is too old for `preferred`.
            ValueError: `preferred` is empty.
        """
        await step_down_consumer(self._api, self.stream_name, self.name, preferred=preferred)

    async def delete(self) -> bool:
        """Deletes the consumer. The messages remain in the stream.

        Raises:
            NotFoundError: It does not exist any more.
        """
        return await self._manage.delete_consumer(self.stream_name, self.name)

    @property
    def messages(self) -> ConsumerMessages:
        """All messages as they arrive, without end: `async for msg in consumer.messages` (or `consumer.messages()`).

        For a pull consumer they are fetched; for a push consumer the deliver subject is subscribed to.
        """
        return ConsumerMessages(self)

    @with_entries_of(PullSubscription.batches, PullSubscription.fetch, PullSubscription.fetch_batch)
    def batches(
        self,
        max_messages: int = 1000,
        *,
        rows: int | None = None,
        seconds: float | None = None,
        bytes: int | None = None,
        max_bytes: int | None = None,
        timeout: float = REQUEST_TIMEOUT,
        min_messages: int = 1,
        columns: Sequence[str] | None = None,
        **priority: Unpack[PriorityOptions],
    ) -> AsyncIterator[MessageBatch]:
        """All messages as they arrive, as Arrow batches, without end: `async for batch in consumer.batches(1000)`.

        With `rows`, `seconds` or `bytes` it is `PullSubscription.batches`, whose batches are kept from redelivery
        until they are acknowledged. The other limits are ignored then.

        Args:
            max_messages: Most rows of a batch.
            rows: As `PullSubscription.batches`, with its default of 50,000.
            seconds: As `PullSubscription.batches`, with its default of 60.
            bytes: As `PullSubscription.batches`, with its default of 64 MiB.
            max_bytes: Most bytes of a batch, as the server counts them; None is no limit.
            timeout: Seconds after which a batch ends, also with fewer rows than `min_messages`.
            min_messages: Rows before which a batch does not end early.
            columns: Columns of the batches, as for `fetch_batch`.
            **priority: As `fetch`.

        Raises:
            NotFoundError: As `fetch_batch`.
            APIError: As `fetch_batch`.
            ValueError: As `fetch_batch`.
            ConnectionClosedError: As `fetch_batch`.
            TimeoutError: The server does not respond. While the connection is down, the iteration waits for it.
        """
        held: dict[str, Any] = {"rows": rows, "seconds": seconds, "bytes": bytes}
        held = {name: value for name, value in held.items() if value is not None}
        if held:
            return super().batches(columns=columns, **held, **priority)
        limits = {"max_bytes": max_bytes, "timeout": timeout, "min_messages": min_messages, "columns": columns}
        return self._fetched(max_messages, {**limits, **priority})

    async def _fetched(self, max_messages: int, options: dict[str, Any]) -> AsyncIterator[MessageBatch]:
        while not self._closed:
            try:
                batch = await self.fetch_batch(max_messages, **options)
            except BadSubscriptionError:
                return
            except TimeoutError:
                if self._session.native.is_connected:
                    raise
                continue
            if len(batch):
                yield batch


class ConsumerMessages(Messages):
    """As `Messages`; for a push consumer it subscribes to the deliver subject."""

    @property
    def handle(self) -> Consumer:
        """The consumer."""
        return cast("Consumer", self._sub)

    def __aiter__(self) -> AsyncIterator[Msg]:
        info = self.handle.cached_info
        if info is None:
            return _Asking(self)
        return self.of(info)

    def of(self, info: models.ConsumerInfo) -> AsyncIterator[Msg]:
        """The messages of a consumer with this information."""
        return _pushed(self.handle, info) if info.config.deliver_subject else super().__aiter__()


class _Asking:
    """Requests the consumer's information before the first message."""

    def __init__(self, messages: ConsumerMessages) -> None:
        self._messages = messages
        self._found: AsyncIterator[Msg] | None = None

    def __aiter__(self) -> AsyncIterator[Msg]:
        return self

    async def _first(self) -> Msg:
        self._found = self._messages.of(await self._messages.handle.info())
        return await anext(self._found)

    def __anext__(self):  # type: ignore[no-untyped-def]  # returns the awaitable of either, without a coroutine around it
        return self._first() if self._found is None else self._found.__anext__()

    async def aclose(self) -> None:
        """Ends the iteration."""
        if self._found is not None:
            await self._found.aclose()  # type: ignore[attr-defined]  # both are generators


async def _pushed(consumer: Consumer, info: models.ConsumerInfo) -> AsyncIterator[Msg]:
    api = consumer._api
    sub = PushSubscription(api, info.stream_name, info.name, info.config, cb=None, ordered=False, limits=_LIMITS)
    await sub._start()
    try:
        async for msg in sub.messages:
            yield msg
    finally:
        with suppress(Error):
            await sub.unsubscribe()
