"""Subscription to JetStream's advisories."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable
from contextlib import suppress
from types import TracebackType

from jetarrow.core.errors import BadSubscriptionError, ConnectionClosedError, ConnectionDrainingError
from jetarrow.core.publish import DEFAULT_FLUSH_TIMEOUT
from jetarrow.core.session import Session
from jetarrow.core.subscription import MESSAGES_PER_TURN, Subscription
from jetarrow.jetstream.models import Advisory, AdvisoryKind

_EVENTS, _ADVISORIES, _METRICS = "$JS.EVENT.>", "$JS.EVENT.ADVISORY.>", "$JS.EVENT.METRIC.>"


class Advisories:
    """JetStream's advisories: `async for event in js.advisories()`. Created by `js.advisories`.

    It subscribes at the first step of the iteration. `async with js.advisories() as events:` subscribes at once, until
    the end of the block. The iteration ends when the connection is closed.
    """

    def __init__(
        self, session: Session, stream: str | None, kinds: AdvisoryKind | str | Iterable[AdvisoryKind | str] | None
    ) -> None:
        self._session = session
        self._stream = stream
        if isinstance(kinds, str):
            kinds = (kinds,)
        self._kinds = None if kinds is None else frozenset(AdvisoryKind(kind) for kind in kinds)
        self._sub: Subscription | None = None
        self._iterator: AsyncIterator[Advisory] | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {f'stream {self._stream}' if self._stream else 'every stream'}>"

    def _subject(self) -> str:
        """The narrowest subject for the kinds, because permissions may not allow a wider one."""
        if self._kinds is None:
            return _EVENTS
        if self._kinds == {AdvisoryKind.ACK}:
            return _METRICS
        return _EVENTS if AdvisoryKind.ACK in self._kinds else _ADVISORIES

    async def _open(self) -> Subscription:
        if self._sub is None:
            session = self._session
            self._sub = Subscription(session, session.next_sid(), self._subject())
            try:
                await self._sub._open()
                # Events after this point are received.
                await session.run(session.native.flush(DEFAULT_FLUSH_TIMEOUT))
            except BaseException:
                await self.close()
                raise
        return self._sub

    def _event(self, data: bytes) -> Advisory | None:
        """Parses and filters an event; None for other payloads, because any client may publish on these subjects."""
        try:
            event = Advisory.from_response(json.loads(data))
        except (ValueError, AttributeError, TypeError):
            return None
        wanted = (self._kinds is None or event.kind in self._kinds) and self._stream in (None, event.stream)
        return event if wanted else None

    async def __aiter__(self) -> AsyncIterator[Advisory]:
        opened = self._sub is None
        sub = await self._open()
        since = 0
        try:
            while True:
                try:
                    msg = await sub.next_msg(None)
                except (BadSubscriptionError, ConnectionClosedError):
                    return
                event = self._event(msg.data)
                if event is not None:
                    yield event
                since += 1
                if since >= MESSAGES_PER_TURN:
                    # Lets other tasks of the loop run.
                    since = 0
                    await self._session.sleep(0)
        finally:
            if opened:
                await self.close()

    async def __anext__(self) -> Advisory:
        if self._iterator is None:
            self._iterator = self.__aiter__()
        return await anext(self._iterator)

    async def close(self) -> None:
        """Unsubscribes. A second call has no effect."""
        sub, self._sub = self._sub, None
        if sub is not None:
            with suppress(BadSubscriptionError, ConnectionClosedError, ConnectionDrainingError):
                await sub.unsubscribe()

    async def __aenter__(self) -> Advisories:
        await self._open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
