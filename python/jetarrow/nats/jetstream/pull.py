"""Pull consumers: `fetch`, `next` and `messages`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self, Unpack

from jetarrow.core.docstrings import documented_as
from jetarrow.core.errors import ConnectionClosedError
from jetarrow.jetstream.fetch import PullSubscription
from jetarrow.jetstream.models import AckPolicy
from jetarrow.jetstream.models import ConsumerConfig as NativeConfig
from jetarrow.jetstream.priority import PriorityOptions
from jetarrow.nats.jetstream.consumer_config import ConsumerConfig, ConsumerInfo, ConsumerReset
from jetarrow.nats.jetstream.consumer_protocols import Consumer
from jetarrow.nats.jetstream.message import Message
from jetarrow.nats.jetstream.pull_batch import MANY, PullMessageBatch, Request
from jetarrow.nats.jetstream.pull_stream import PullMessageStream

if TYPE_CHECKING:
    from jetarrow.jetstream.batch import MessageBatch as ArrowBatch
    from jetarrow.nats.jetstream.stream import Stream

# Messages of one request of `messages()`.
STREAM_REQUEST = 100
# Seconds in which the server answers a request that does not wait.
NO_WAIT_TIMEOUT = 5.0


class PullConsumer(Consumer):
    """A pull consumer. Made by the verbs of `Stream` and `JetStream`.

    Args:
        stream: Its stream.
        info: Its configuration and state.
    """

    def __init__(self, stream: Stream, info: ConsumerInfo) -> None:
        self._stream = stream
        self._info = info
        self._jetstream = stream._jetstream
        self._sub: PullSubscription | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} of stream {self.stream_name}>"

    @property
    def name(self) -> str:
        """Its name."""
        return self._info.name

    @property
    def stream_name(self) -> str:
        """The name of its stream."""
        return self._info.stream_name

    @property
    def info(self) -> ConsumerInfo:
        """Configuration and state, as of the last request for them."""
        return self._info

    async def get_info(self) -> ConsumerInfo:
        """Requests configuration and state.

        Raises:
            ConsumerNotFoundError: The consumer does not exist any more.
        """
        self._info = await self._stream.get_consumer_info(self.name)
        return self._info

    async def reset(self, seq: int | None = None) -> ConsumerReset:
        """Resets the position, so that messages are delivered again (ADR-60). Server 2.14 or later.

        Args:
            seq: Stream sequence of the next message; None is the first unacknowledged one.

        Raises:
            ConsumerInvalidResetError: The consumer starts after `seq`.
        """
        reset = await self._stream.reset_consumer(self.name, seq)
        self._info = reset.info
        return reset

    async def close(self) -> None:
        """Does nothing: the server removes an inactive consumer by its `inactive_threshold`."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> None:
        await self.close()

    def _subscription(self) -> PullSubscription:
        """A subscription of its own: an ended one affects no other."""
        api = self._jetstream._context._api
        try:
            sub = PullSubscription(api, stream=self.stream_name, consumer=self.name)
        except ConnectionClosedError:
            raise RuntimeError("Connection is closed") from None
        sub._apply_config(_native_config(self._info.config))
        return sub

    def _shared(self) -> PullSubscription:
        """The subscription of all fetches."""
        if self._sub is None or self._jetstream.client.nc.is_closed:
            self._sub = self._subscription()
        return self._sub

    async def fetch(
        self,
        *,
        max_messages: int | None = None,
        max_bytes: int | None = None,
        max_wait: float | None = 30.0,
        heartbeat: float | None = None,
        min_ack_pending: int | None = None,
        min_pending: int | None = None,
        priority_group: str | None = None,
        priority: int | None = None,
    ) -> PullMessageBatch:
        """Requests messages. They can be read as they arrive: `async for message in await consumer.fetch(...)`.

        Args:
            max_messages: Most messages; either this or `max_bytes`.
            max_bytes: Most bytes of messages, as the server counts them.
            max_wait: Maximum seconds in which they arrive; None has no limit.
            heartbeat: Seconds between the server's heartbeats while it has no messages.
            min_ack_pending: With `priority_group`: while at least this number of messages is unacknowledged.
            min_pending: With `priority_group`: while at least this number of messages is pending.
            priority_group: The priority group.
            priority: From 0, which is served first, to 9.

        Returns:
            The messages. If the request failed, `error` has the reason after the last one.

        Raises:
            ValueError: Neither or both of `max_messages` and `max_bytes` are given.
            RuntimeError: The connection is closed.
        """
        group = _group(priority_group, min_pending, min_ack_pending, priority)
        most = _limits(max_messages, max_bytes)
        request = Request(most or MANY, max_bytes, max_wait, heartbeat, group, no_wait=False)
        return PullMessageBatch(self._shared(), self._jetstream, request)

    async def fetch_nowait(
        self,
        *,
        max_messages: int | None = None,
        max_bytes: int | None = None,
        min_ack_pending: int | None = None,
        min_pending: int | None = None,
        priority_group: str | None = None,
        priority: int | None = None,
    ) -> PullMessageBatch:
        """Requests the messages that the server has now. The arguments are those of `fetch`.

        Raises:
            ValueError: As `fetch`.
        """
        group = _group(priority_group, min_pending, min_ack_pending, priority)
        most = _limits(max_messages, max_bytes)
        request = Request(most or MANY, max_bytes, NO_WAIT_TIMEOUT, None, group, no_wait=True)
        return PullMessageBatch(self._shared(), self._jetstream, request)

    async def next(
        self,
        max_wait: float = 5.0,
        heartbeat: float | None = None,
        min_ack_pending: int | None = None,
        min_pending: int | None = None,
        priority_group: str | None = None,
        priority: int | None = None,
    ) -> Message:
        """Waits for the next message. The arguments are those of `fetch`.

        Raises:
            TimeoutError: No message in time.
            ConsumerDeletedError: The consumer does not exist any more.
            ValueError: The server rejects the request.
        """
        batch = await self.fetch(
            max_messages=1,
            max_wait=max_wait,
            heartbeat=heartbeat,
            min_ack_pending=min_ack_pending,
            min_pending=min_pending,
            priority_group=priority_group,
            priority=priority,
        )
        async for message in batch:
            return message
        raise batch.error or TimeoutError("No message received within timeout")

    async def messages(
        self,
        *,
        max_messages: int | None = None,
        max_bytes: int | None = None,
        heartbeat: float | None = None,
        max_wait: float | None = 30.0,
        min_ack_pending: int | None = None,
        min_pending: int | None = None,
        priority_group: str | None = None,
        priority: int | None = None,
        threshold_messages: int | None = None,
        threshold_bytes: int | None = None,
    ) -> PullMessageStream:
        """All messages as they arrive, without end: `async for message in await consumer.messages()`.

        Args:
            max_messages: Messages of one request, default 100; either this or `max_bytes`.
            max_bytes: Bytes of messages of one request, as the server counts them.
            heartbeat: Without effect: the connection checks that the server answers.
            max_wait: Without effect: a request that ends is followed by another.
            min_ack_pending: As `fetch`.
            min_pending: As `fetch`.
            priority_group: As `fetch`.
            priority: As `fetch`.
            threshold_messages: Number of unread messages below which the next request is sent. Default: half of
                `max_messages`.
            threshold_bytes: Without effect.

        Returns:
            The messages; `stop()` ends them.

        Raises:
            ValueError: Both `max_messages` and `max_bytes` are given.
        """
        if max_messages is not None and max_bytes is not None:
            raise ValueError("Cannot specify both max_messages and max_bytes simultaneously")
        group = _group(priority_group, min_pending, min_ack_pending, priority)
        most = max_messages or (STREAM_REQUEST if max_bytes is None else MANY)
        ahead = threshold_messages if threshold_messages is not None else min(most, STREAM_REQUEST * 100) // 2
        return PullMessageStream(self._subscription(), self._jetstream, most, max_bytes, ahead, group)

    @documented_as(PullSubscription.fetch_batch)
    async def fetch_batch(
        self,
        max_messages: int = 1000,
        *,
        max_bytes: int | None = None,
        timeout: float = 5.0,
        min_messages: int = 1,
        heartbeat: float | None = None,
        columns: Sequence[str] | None = None,
        **priority: Unpack[PriorityOptions],
    ) -> ArrowBatch:
        """As `jetarrow`'s `PullSubscription.fetch_batch`."""
        return await self._shared().fetch_batch(
            max_messages,
            max_bytes=max_bytes,
            timeout=timeout,
            min_messages=min_messages,
            heartbeat=heartbeat,
            columns=columns,
            **priority,
        )

    @documented_as(PullSubscription.batches)
    def batches(
        self,
        *,
        rows: int = 50_000,
        seconds: float = 60.0,
        bytes: int = 64 * 1024 * 1024,
        columns: Sequence[str] | None = None,
        **priority: Unpack[PriorityOptions],
    ) -> AsyncIterator[ArrowBatch]:
        """As `jetarrow`'s `PullSubscription.batches`."""
        return self._subscription().batches(rows=rows, seconds=seconds, bytes=bytes, columns=columns, **priority)


def _limits(max_messages: int | None, max_bytes: int | None) -> int | None:
    if (max_messages is None) == (max_bytes is None):
        raise ValueError("Must specify exactly one of max_messages or max_bytes")
    return max_messages


def _group(
    name: str | None, min_pending: int | None, min_ack_pending: int | None, priority: int | None
) -> tuple[str, int, int, int] | None:
    """The group of a request, as the native core has it."""
    if name is None and min_pending is None and min_ack_pending is None and priority is None:
        return None
    return name or "", min_pending or 0, min_ack_pending or 0, priority or 0


def _native_config(config: ConsumerConfig) -> NativeConfig:
    policy = "all" if config.ack_policy == "flow_control" else config.ack_policy
    return NativeConfig(
        ack_policy=AckPolicy(policy), max_ack_pending=config.max_ack_pending, headers_only=config.headers_only
    )
