"""The messages of a consumer's handle, whether it pushes or is pulled."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Protocol, cast

from jetarrow._jetarrow import Msg
from jetarrow.core.errors import Error
from jetarrow.jetstream import models
from jetarrow.jetstream.api import JetStreamApi
from jetarrow.jetstream.messages import Messages
from jetarrow.jetstream.push import PushSubscription

_LIMITS = (models.DEFAULT_JS_SUB_PENDING_MSGS_LIMIT, models.DEFAULT_JS_SUB_PENDING_BYTES_LIMIT)


class Handle(Protocol):
    """A `Consumer`, as far as it counts here."""

    _api: JetStreamApi

    @property
    def cached_info(self) -> models.ConsumerInfo | None:
        """What is known of it."""

    async def info(self) -> models.ConsumerInfo:
        """Asks what it is."""


class ConsumerMessages(Messages):
    """As `Messages`; of a consumer that pushes it takes what comes to its deliver subject."""

    @property
    def handle(self) -> Handle:
        """The consumer."""
        return cast("Handle", self._sub)

    def __aiter__(self) -> AsyncIterator[Msg]:
        info = self.handle.cached_info
        if info is None:
            return _Asking(self)
        return self.of(info)

    def of(self, info: models.ConsumerInfo) -> AsyncIterator[Msg]:
        """The messages, now that it is known what it is."""
        return _pushed(self.handle, info) if info.config.deliver_subject else super().__aiter__()


class _Asking:
    """Asks what the consumer is with the first message."""

    def __init__(self, messages: ConsumerMessages) -> None:
        self._messages = messages
        self._found: AsyncIterator[Msg] | None = None

    def __aiter__(self) -> AsyncIterator[Msg]:
        return self

    async def _first(self) -> Msg:
        self._found = self._messages.of(await self._messages.handle.info())
        return await anext(self._found)

    def __anext__(self):  # type: ignore[no-untyped-def]  # the awaitable of either, without another coroutine around it
        return self._first() if self._found is None else self._found.__anext__()

    async def aclose(self) -> None:
        """Ends the iteration."""
        if self._found is not None:
            await self._found.aclose()  # type: ignore[attr-defined]  # a generator, both of them


async def _pushed(consumer: Handle, info: models.ConsumerInfo) -> AsyncIterator[Msg]:
    api = consumer._api
    sub = PushSubscription(api, info.stream_name, info.name, info.config, cb=None, ordered=False, limits=_LIMITS)
    await sub._start()
    try:
        async for msg in sub.messages:
            yield msg
    finally:
        with suppress(Error):
            await sub.unsubscribe()
