"""Iterators over entries and keys, each on an ordered consumer of the bucket's stream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any

from ..client.errors import StatusError
from ..jetstream.errors import JetStreamError
from .entries import KeyValueEntry, KeyValueOp, operation_of

if TYPE_CHECKING:
    from ..jetstream.consumer import Consumer
    from ..jetstream.message import Message


# Seconds without a message after which the server is asked whether one is to come.
CHECK_INTERVAL = 1.0


class _Reader:
    """Messages of an ordered consumer, and the entries they hold."""

    def __init__(self, consumer: Consumer, messages: Any, prefix: str, bucket: str = "") -> None:
        self._consumer = consumer
        self._messages = messages
        self._prefix = prefix
        self._bucket = bucket
        self._stopped = False
        # The wait for a message that an earlier call has given up.
        self._waiting: asyncio.Task[Message] | None = None
        # Number of the last message among the consumer's deliveries.
        self._number = 0

    async def next_present(self) -> Message | None:
        """Return the next message, or None if the consumer has none: the last ones can be removed before they come."""
        return await self._present(self._waiting or asyncio.ensure_future(self._next_message()), CHECK_INTERVAL)

    async def _present(self, waiting: asyncio.Task[Message], interval: float | None) -> Message | None:
        """Return the message of a task, or None if the consumer has none after an interval; no interval waits on."""
        # Not during the wait: `stop` cancels a task that is kept, and ends the others by the end of their messages.
        self._waiting, taken = None, False
        try:
            while not (await asyncio.wait({waiting}, timeout=interval))[0]:
                # The task may have received the last message while the server was asked.
                if await self._has_no_more() and not waiting.done():
                    return None
            taken = True
            return waiting.result()
        finally:
            # Also after a cancellation: the message that it has received, or will, is the next one.
            if not taken:
                self._waiting = waiting

    async def _has_no_more(self) -> bool:
        try:
            info = await self._consumer.get_info()
        except (JetStreamError, StatusError, TimeoutError, RuntimeError):
            # No answer now, as during a reconnect, or while the consumer is created anew.
            return False
        return info.num_pending == 0 and info.delivered["consumer_seq"] <= self._number

    async def next_message(self) -> Message:
        """Return the next message below the prefix; StopAsyncIteration after `stop`."""
        if self._waiting is None:
            return await self._next_message()
        message = await self._present(self._waiting, None)
        assert message is not None
        return message

    async def _next_message(self) -> Message:
        """Return the next message below the prefix; StopAsyncIteration after `stop`."""
        while not self._stopped:
            message: Message = await self._messages.__anext__()
            self._number = message.metadata.sequence.consumer
            if message.subject.startswith(self._prefix):
                return message
        raise StopAsyncIteration

    def key_of(self, message: Message) -> str:
        return message.subject[len(self._prefix) :]

    def entry_of(self, message: Message, *, with_value: bool = True) -> KeyValueEntry:
        metadata = message.metadata
        return KeyValueEntry(
            bucket=self._bucket,
            key=self.key_of(message),
            value=message.data if with_value else b"",
            revision=metadata.sequence.stream,
            created=metadata.timestamp,
            delta=metadata.num_pending,
            operation=operation_of(message.headers),
        )

    async def stop(self) -> None:
        """End the iteration and delete the consumer."""
        if self._stopped:
            return
        self._stopped = True
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None
        # An iterator without messages has no `stop`.
        if stop := getattr(self._messages, "stop", None):
            await stop()
        await self._consumer.close()


class KeyWatcher(AsyncIterator[KeyValueEntry], AbstractAsyncContextManager["KeyWatcher"]):
    """Entries of a bucket as they are stored, the present ones first.

    Iterate over it with `async for`. The iteration ends with `stop`, or at the end of an `async with` block.
    """

    def __init__(
        self,
        consumer: Consumer,
        messages: AsyncIterator[Message],
        prefix: str,
        bucket: str,
        *,
        ignore_deletes: bool = False,
        meta_only: bool = False,
        init_pending: int = 0,
    ) -> None:
        self._reader = _Reader(consumer, messages, prefix, bucket)
        self._ignore_deletes = ignore_deletes
        self._meta_only = meta_only
        self._init_pending = init_pending
        self._received = 0

    def at_eod(self) -> bool:
        """Return whether all entries that were present when the watch began have been received."""
        return self._received >= self._init_pending

    async def values(self) -> AsyncIterator[KeyValueEntry]:
        """Iterate over the entries that were present when the watch began.

        Yields:
            Each entry that the iteration has not returned yet.
        """
        while not self.at_eod():
            try:
                message = await self._reader.next_present()
            except StopAsyncIteration:
                return
            if message is None:
                self._init_pending = self._received
                return
            entry = self._received_entry(message)
            if entry is not None:
                yield entry

    async def updates(self) -> AsyncIterator[KeyValueEntry]:
        """Skip the entries that were present when the watch began, and iterate over the later ones.

        Yields:
            Each later entry, until the watch is stopped.
        """
        async for _ in self.values():
            pass
        async for entry in self:
            yield entry

    async def stop(self) -> None:
        """End the iteration and delete the watch's consumer. A second call does nothing."""
        await self._reader.stop()

    async def __aexit__(self, *args: object) -> None:
        await self.stop()

    async def __anext__(self) -> KeyValueEntry:
        while True:
            entry = self._received_entry(await self._reader.next_message())
            if entry is not None:
                return entry

    def _received_entry(self, message: Message) -> KeyValueEntry | None:
        """Return the entry of a message, or None for a deletion that is ignored."""
        if not self.at_eod():
            self._received += 1
            # Present entries may have been replaced since they were counted.
            if message.metadata.num_pending == 0:
                self._init_pending = self._received
        entry = self._reader.entry_of(message, with_value=not self._meta_only)
        return None if self._ignore_deletes and entry.operation is not KeyValueOp.PUT else entry


class KeyHistory(AsyncIterator[KeyValueEntry]):
    """Revisions of a key in the order in which they were stored. The iteration ends after the last one."""

    def __init__(
        self,
        consumer: Consumer,
        messages: AsyncIterator[Message],
        prefix: str,
        bucket: str,
        *,
        done: bool = False,
    ) -> None:
        self._reader = _Reader(consumer, messages, prefix, bucket)
        self._done = done

    async def __anext__(self) -> KeyValueEntry:
        if self._done:
            raise StopAsyncIteration
        message = await self._reader.next_present()
        if message is None or message.metadata.num_pending == 0:
            self._done = True
            await self.stop()
        if message is None:
            raise StopAsyncIteration
        return self._reader.entry_of(message)

    async def stop(self) -> None:
        """Delete the consumer of an iteration that is not continued; its end does this too."""
        await self._reader.stop()


class KeyLister(AsyncIterator[str]):
    """Keys of a bucket that have a value. The iteration ends after the last one."""

    def __init__(
        self, consumer: Consumer, messages: AsyncIterator[Message], prefix: str, *, done: bool = False
    ) -> None:
        self._reader = _Reader(consumer, messages, prefix)
        self._done = done

    async def __anext__(self) -> str:
        while not self._done:
            message = await self._reader.next_present()
            if message is None or message.metadata.num_pending == 0:
                self._done = True
                await self.stop()
            if message is not None and operation_of(message.headers) is KeyValueOp.PUT:
                return self._reader.key_of(message)
        raise StopAsyncIteration

    async def stop(self) -> None:
        """Delete the consumer of an iteration that is not continued; its end does this too."""
        await self._reader.stop()
