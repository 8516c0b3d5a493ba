"""The end of a subscription, to wait for."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Generator
from typing import Any

from jetarrow.core.session import Session


class ClosedEvent:
    """That a subscription has ended: `await sub.closed`, or `sub.closed.wait()` in a thread."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._event = threading.Event()
        self._futures: list[asyncio.Future[None]] = []
        self._sid: int | None = None

    def watch_connection(self) -> ClosedEvent:
        """Itself, which from now on comes with the end of the connection as well."""
        if self._session.is_closed:
            self.set()
        elif self._sid is None and not self._event.is_set():
            self._sid = self._session.next_sid()
            self._session.subscriptions[self._sid] = self
        return self

    def set(self) -> None:
        """It has ended."""
        self._event.set()
        if self._sid is not None:
            self._session.subscriptions.pop(self._sid, None)
        futures, self._futures = self._futures, []
        for future in futures:
            if not future.done():
                future.set_result(None)

    def is_set(self) -> bool:
        """Whether it has ended."""
        return self._event.is_set()

    def wait(self, timeout: float | None = None) -> bool:
        """Blocks this thread until it has ended.

        Args:
            timeout: Most seconds to wait; None waits as long as it takes.

        Returns:
            Whether it has ended.
        """
        return self._event.wait(timeout)

    def __await__(self) -> Generator[Any, None, None]:
        if not self._event.is_set():
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._futures.append(future)
            yield from future

    # What a session knows its subscriptions by: the connection is closing, or draining.

    def _stop(self) -> None:
        self.set()

    def _stop_delivery(self) -> None:
        self.set()

    async def _drain(self) -> None:
        self.set()
