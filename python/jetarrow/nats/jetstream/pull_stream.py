"""All messages of a pull consumer, as they arrive."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import TYPE_CHECKING

from jetarrow._jetarrow import Msg
from jetarrow.core import errors
from jetarrow.jetstream.messages import Messages
from jetarrow.nats.jetstream.consumer_protocols import MessageStream
from jetarrow.nats.jetstream.message import Message
from jetarrow.nats.jetstream.pull_batch import failure

if TYPE_CHECKING:
    from jetarrow.jetstream.fetch import PullSubscription
    from jetarrow.nats.jetstream.jetstream import JetStream

_log = logging.getLogger("jetarrow.connection")


class PullMessageStream(MessageStream):
    """All messages of a pull consumer, without end. Made by `messages`.

    It ends by `stop()`, when the consumer is deleted, and when the connection is closed.
    """

    def __init__(
        self,
        sub: PullSubscription,
        jetstream: JetStream,
        most: int,
        max_bytes: int | None,
        ahead: int,
        group: tuple[str, int, int, int] | None,
    ) -> None:
        self._sub = sub
        self._jetstream = jetstream
        self._messages = Messages(sub, most, max_bytes=max_bytes, threshold=ahead, group=group)
        self._iterator: AsyncIterator[Msg] | None = None
        self._error: Exception | None = None

    @property
    def is_active(self) -> bool:
        """Whether the stream has not ended."""
        return not self._sub.is_closed and self._error is None

    @property
    def error(self) -> Exception | None:
        """Why the stream ended, if not by `stop`."""
        return self._error

    def __aiter__(self) -> AsyncIterator[Message]:
        return self

    async def __anext__(self) -> Message:
        if self._iterator is None:
            self._iterator = self._messages.__aiter__()
        try:
            msg = await anext(self._iterator)
        except (errors.Error, ValueError) as error:
            self._error = failure(error)
            _log.warning(
                "the messages of consumer %s of stream %s ended: %s",
                self._sub._consumer,
                self._sub._stream,
                self._error,
            )
            raise StopAsyncIteration from None
        message = Message.__new__(Message)
        message._msg, message._jetstream, message._given = msg, self._jetstream, None
        return message

    async def stop(self) -> None:
        """Ends the stream. Messages that were not read are delivered again."""
        with suppress(errors.Error):
            await self._sub.unsubscribe()
        if self._iterator is not None:
            with suppress(errors.Error, RuntimeError):
                await self._iterator.aclose()  # type: ignore[attr-defined]
