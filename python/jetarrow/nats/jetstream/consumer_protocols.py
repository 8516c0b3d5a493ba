"""Protocols of consumers and of the messages that they deliver. Public as `jetarrow.nats.jetstream.consumer`."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self, overload

from jetarrow.nats.jetstream.consumer_config import ConsumerInfo, ConsumerReset

if TYPE_CHECKING:
    from jetarrow.nats.jetstream.message import Message


class MessageBatch(AsyncIterable["Message"], Protocol):
    """The messages of one request; iterate it with `async for`."""

    @property
    def error(self) -> Exception | None:
        """The error that ended the batch, if one did."""
        ...

    def __aiter__(self) -> AsyncIterator[Message]: ...

    async def __anext__(self) -> Message: ...


class MessageStream(AsyncIterable["Message"], Protocol):
    """An endless stream of messages; iterate it with `async for`."""

    def __aiter__(self) -> AsyncIterator[Message]: ...

    async def __anext__(self) -> Message: ...

    async def stop(self) -> None:
        """Ends the iteration."""
        ...


class Consumer(Protocol):
    """A consumer, from which messages are requested."""

    @property
    def name(self) -> str:
        """The consumer's name."""
        ...

    @property
    def stream_name(self) -> str:
        """The stream's name."""
        ...

    @property
    def info(self) -> ConsumerInfo:
        """Configuration and state as of the last response."""
        ...

    async def get_info(self) -> ConsumerInfo:
        """Requests configuration and state."""
        ...

    @overload
    async def fetch(
        self, *, max_messages: int, max_wait: float | None = None, heartbeat: float | None = None
    ) -> MessageBatch: ...

    @overload
    async def fetch(
        self, *, max_bytes: int, max_wait: float | None = None, heartbeat: float | None = None
    ) -> MessageBatch: ...

    @overload
    async def fetch_nowait(self, *, max_messages: int) -> MessageBatch: ...

    @overload
    async def fetch_nowait(self, *, max_bytes: int) -> MessageBatch: ...

    async def next(self, max_wait: float = 5.0) -> Message:
        """Waits for one message.

        Args:
            max_wait: Maximum seconds, default 5.

        Raises:
            TimeoutError: No message in time.
        """
        ...

    async def messages(
        self,
        *,
        heartbeat: float | None = None,
        max_wait: float | None = None,
        max_messages: int | None = None,
        max_bytes: int | None = None,
    ) -> MessageStream:
        """Returns an endless stream of messages.

        Args:
            heartbeat: Seconds between heartbeats. Default: none are sent.
            max_wait: Seconds that a request lasts.
            max_messages: Number of messages of a request.
            max_bytes: Size in bytes of a request.
        """
        ...

    async def reset(self, seq: int | None = None) -> ConsumerReset:
        """Resets the delivery state, see `Stream.reset_consumer`.

        Raises:
            NotImplementedError: The consumer is an ordered one.
        """
        ...

    async def close(self) -> None:
        """Releases the consumer."""
        ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None: ...
