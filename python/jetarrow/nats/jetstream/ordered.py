"""Ordered consumers: all messages in order, over gaps and lost consumers."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Self

from jetarrow.nats.jetstream.consumer_config import (
    ConsumerConfig,
    ConsumerInfo,
    ConsumerReset,
    OrderedConsumerConfig,
)
from jetarrow.nats.jetstream.consumer_protocols import Consumer, MessageBatch, MessageStream
from jetarrow.nats.jetstream.errors import OrderedConsumerClosedError, OrderedConsumerResetError
from jetarrow.nats.jetstream.message import Message
from jetarrow.nats.jetstream.pull import PullConsumer
from jetarrow.nats.jetstream.pull_batch import PullMessageBatch
from jetarrow.nats.jetstream.pull_stream import PullMessageStream

if TYPE_CHECKING:
    from jetarrow.nats.jetstream.stream import Stream

_log = logging.getLogger("jetarrow.connection")

INACTIVE_THRESHOLD = timedelta(minutes=5)
# Seconds between two attempts to create the consumer anew: the first and the longest.
FIRST_WAIT, MOST_WAIT = 1.0, 10.0


class OrderedConsumer(Consumer):
    """All messages of a stream in order, without acknowledgements. Made by `ordered_consumer`.

    The server's consumer is created anew behind the last message that was read, when it is lost or a message is
    missing.

    Args:
        stream: The stream.
        cfg: The configuration.
    """

    def __init__(self, stream: Stream, cfg: OrderedConsumerConfig) -> None:
        self._stream = stream
        self._cfg = cfg
        self._prefix = cfg.name_prefix or uuid.uuid4().hex
        self._serial = 0
        self._consumer: PullConsumer | None = None
        self._closed = False
        # Stream sequence of the last message that was read, and its number among the consumer's deliveries.
        self._read = 0
        self._number = 0
        self._last: OrderedMessageBatch | None = None
        self._deletions: set[asyncio.Task[None]] = set()

    def __repr__(self) -> str:
        return f"<OrderedConsumer {self.name} of stream {self.stream_name}>"

    @classmethod
    async def create(cls, stream: Stream, cfg: OrderedConsumerConfig) -> OrderedConsumer:
        """Creates the server's consumer.

        Raises:
            JetStreamError: The server rejects it.
        """
        ordered = cls(stream, cfg)
        ordered._consumer = await ordered._create()
        return ordered

    @property
    def name(self) -> str:
        """The name of the server's consumer: it changes when that is created anew."""
        return f"{self._prefix}_0" if self._consumer is None else self._consumer.name

    @property
    def stream_name(self) -> str:
        """The name of the stream."""
        return self._stream.name

    @property
    def info(self) -> ConsumerInfo:
        """Configuration and state of the server's consumer, as of its creation.

        Raises:
            OrderedConsumerClosedError: It is closed.
        """
        return self._active().info

    async def get_info(self) -> ConsumerInfo:
        """Requests configuration and state of the server's consumer.

        Raises:
            OrderedConsumerClosedError: It is closed.
        """
        return await self._active().get_info()

    def _active(self) -> PullConsumer:
        if self._consumer is None:
            raise OrderedConsumerClosedError("Ordered consumer has no active consumer")
        return self._consumer

    async def reset(self, seq: int | None = None) -> ConsumerReset:
        """Not possible: it keeps its position itself.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError(
            "reset() is not supported on ordered consumers; recovery happens via consumer recreation"
        )

    async def close(self) -> None:
        """Deletes the server's consumer. A second call does nothing."""
        if self._closed:
            return
        self._closed = True
        if self._consumer is not None:
            await self._delete(self._consumer.name)
            self._consumer = None
        await asyncio.gather(*self._deletions)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    async def fetch(
        self,
        *,
        max_messages: int | None = None,
        max_bytes: int | None = None,
        max_wait: float | None = 30.0,
        heartbeat: float | None = None,
    ) -> OrderedMessageBatch:
        """Requests messages, as `PullConsumer.fetch`. They follow those that were read before.

        Raises:
            OrderedConsumerClosedError: It is closed.
            OrderedConsumerResetError: The server's consumer could not be created anew.
            ValueError: Neither or both of `max_messages` and `max_bytes` are given.
        """
        consumer = await self._prepare()
        limits: Any = {"max_messages": max_messages, "max_bytes": max_bytes}
        inner = await consumer.fetch(**limits, max_wait=max_wait, heartbeat=heartbeat)
        self._last = OrderedMessageBatch(self, inner)
        return self._last

    async def fetch_nowait(
        self, *, max_messages: int | None = None, max_bytes: int | None = None
    ) -> OrderedMessageBatch:
        """Requests the messages that the server has now, as `PullConsumer.fetch_nowait`.

        Raises:
            OrderedConsumerClosedError: As `fetch`.
            OrderedConsumerResetError: As `fetch`.
            ValueError: As `fetch`.
        """
        consumer = await self._prepare()
        self._last = OrderedMessageBatch(
            self, await consumer.fetch_nowait(max_messages=max_messages, max_bytes=max_bytes)
        )
        return self._last

    async def next(self, max_wait: float = 5.0) -> Message:
        """Waits for the next message.

        Args:
            max_wait: Maximum seconds.

        Raises:
            TimeoutError: No message in time.
            OrderedConsumerClosedError: As `fetch`.
            OrderedConsumerResetError: As `fetch`.
        """
        batch = await self.fetch(max_messages=1, max_wait=max_wait)
        async for message in batch:
            return message
        raise batch.error or TimeoutError("No message received within timeout")

    async def messages(
        self,
        *,
        heartbeat: float | None = None,
        max_wait: float | None = None,
        max_messages: int | None = None,
        max_bytes: int | None = None,
    ) -> OrderedMessageStream:
        """All messages in order, without end. The arguments are those of `PullConsumer.messages`.

        Raises:
            OrderedConsumerClosedError: It is closed.
        """
        if self._closed:
            raise OrderedConsumerClosedError("Ordered consumer is closed")
        return OrderedMessageStream(self, max_messages=max_messages, max_bytes=max_bytes)

    async def _prepare(self) -> PullConsumer:
        """The consumer of the next fetch: another one if messages of the last fetch were not read, or are missing."""
        if self._closed:
            raise OrderedConsumerClosedError("Ordered consumer is closed")
        last, self._last = self._last, None
        if last is not None and not last.is_read:
            await self._reset()
        return self._active()

    def _take(self, message: Message) -> bool:
        """Records a message that is read; False if one before it is missing."""
        sequence = message.metadata.sequence
        if sequence.consumer != self._number + 1:
            return False
        self._number, self._read = sequence.consumer, sequence.stream
        return True

    async def _create(self) -> PullConsumer:
        self._serial += 1
        cfg = self._cfg
        subjects = cfg.filter_subjects or ([">"] if cfg.deliver_policy == "last_per_subject" else [])
        config = ConsumerConfig(
            name=f"{self._prefix}_{self._serial}",
            deliver_policy=cfg.deliver_policy,
            opt_start_seq=cfg.opt_start_seq if cfg.deliver_policy == "by_start_sequence" else None,
            opt_start_time=cfg.opt_start_time if cfg.deliver_policy == "by_start_time" else None,
            ack_policy="none",
            inactive_threshold=cfg.inactive_threshold or INACTIVE_THRESHOLD,
            num_replicas=1,
            headers_only=cfg.headers_only,
            mem_storage=True,
            metadata=cfg.metadata,
            replay_policy=cfg.replay_policy,
            filter_subject=subjects[0] if len(cfg.filter_subjects or ()) == 1 else None,
            filter_subjects=None if len(cfg.filter_subjects or ()) == 1 else subjects or None,
        )
        if self._read:
            following: Any = {"opt_start_seq": self._read + 1, "opt_start_time": None}
            config = replace(config, deliver_policy="by_start_sequence", **following)
        self._number = 0
        consumer = await self._stream.create_or_update_consumer(config)
        assert isinstance(consumer, PullConsumer)
        return consumer

    async def _reset(self) -> None:
        """Creates the server's consumer anew, behind the last message that was read."""
        if self._consumer is not None:
            deletion = asyncio.ensure_future(self._delete(self._consumer.name))
            self._deletions.add(deletion)
            deletion.add_done_callback(self._deletions.discard)
        wait, attempts, most = FIRST_WAIT, 0, self._cfg.max_reset_attempts
        while not self._closed:
            try:
                self._consumer = await self._create()
                return
            except Exception as error:
                attempts += 1
                if most is not None and attempts >= most:
                    text = f"Failed to reset ordered consumer after {attempts} attempts: {error}"
                    raise OrderedConsumerResetError(text) from error
                _log.warning("ordered consumer of %s: attempt %d failed: %s", self.stream_name, attempts, error)
                await asyncio.sleep(wait)
                wait = min(wait * 2, MOST_WAIT)
        raise OrderedConsumerClosedError("Ordered consumer is closed")

    async def _delete(self, name: str) -> None:
        with suppress(Exception):
            await self._stream.delete_consumer(name)


class OrderedMessageBatch(MessageBatch):
    """The messages of one `fetch` of an ordered consumer."""

    def __init__(self, consumer: OrderedConsumer, inner: PullMessageBatch) -> None:
        self._consumer = consumer
        self._inner = inner
        # True when every message that was delivered is read.
        self.is_read = False

    @property
    def error(self) -> Exception | None:
        """Why the request ended early; None if it did not."""
        return self._inner.error

    def __aiter__(self) -> AsyncIterator[Message]:
        return self

    async def __anext__(self) -> Message:
        try:
            message = await anext(self._inner)
        except StopAsyncIteration:
            self.is_read = self._inner.error is None
            raise
        if self._consumer._last is not self or not self._consumer._take(message):
            # A message is missing, or another fetch has begun: the next fetch brings the rest.
            raise StopAsyncIteration
        self.is_read = self._inner.is_complete
        return message


class OrderedMessageStream(MessageStream):
    """All messages of an ordered consumer, without end."""

    def __init__(self, consumer: OrderedConsumer, *, max_messages: int | None, max_bytes: int | None) -> None:
        self._consumer = consumer
        self._limits: Any = {"max_messages": max_messages, "max_bytes": max_bytes}
        self._inner: PullMessageStream | None = None
        self._closed = False

    def __aiter__(self) -> AsyncIterator[Message]:
        return self

    async def __anext__(self) -> Message:
        consumer = self._consumer
        while not self._closed and not consumer._closed:
            if self._inner is None:
                self._inner = await consumer._active().messages(**self._limits)
            try:
                message = await anext(self._inner)
            except StopAsyncIteration:
                message = None
            if message is not None and consumer._take(message):
                return message
            if self._closed or consumer._closed or consumer._stream._jetstream.client.nc.is_closed:
                break
            # The consumer is lost, or a message is missing.
            await self._inner.stop()
            self._inner = None
            try:
                await consumer._reset()
            except (OrderedConsumerClosedError, OrderedConsumerResetError):
                break
        self._closed = True
        raise StopAsyncIteration

    async def stop(self) -> None:
        """Ends the stream."""
        self._closed = True
        if self._inner is not None:
            await self._inner.stop()
