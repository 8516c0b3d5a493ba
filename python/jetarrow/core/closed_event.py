"""ClosedEvent: the end of a subscription."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Generator
from typing import Any

from jetarrow.core.session import Session


class ClosedEvent:
    """Is set when a subscription has ended: `await sub.closed`, or `sub.closed.wait()` in a thread."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._event = threading.Event()
        self._futures: list[asyncio.Future[None]] = []
        self._sid: int | None = None
        self._lock = threading.Lock()

    def watch_connection(self) -> ClosedEvent:
        """Returns itself; from now on the end of the connection sets it as well."""
        if self._session.is_closed:
            self.set()
        with self._lock:
            if self._sid is None and not self._event.is_set():
                self._sid = self._session.next_sid()
                self._session.subscriptions[self._sid] = self
        return self

    def set(self) -> None:
        """Sets the event: the subscription has ended."""
        with self._lock:
            self._event.set()
        if self._sid is not None:
            self._session.subscriptions.pop(self._sid, None)
        futures, self._futures = self._futures, []
        for future in futures:
            if not future.done():
                future.set_result(None)

    def is_set(self) -> bool:
        """Whether the subscription has ended."""
        return self._event.is_set()

    def wait(self, timeout: float | None = None) -> bool:
        """Blocks this thread until the subscription has ended.

        Args:
            timeout: Maximum seconds to wait; None has no limit.

        Returns:
            Whether the subscription has ended.
        """
        return self._event.wait(timeout)

    def __await__(self) -> Generator[Any, None, None]:
        if not self._event.is_set():
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._futures.append(future)
            yield from future

    # Called by the session when the connection closes or drains.

    def _stop_delivery(self) -> None:
        self.set()

    async def _drain(self) -> None:
        self.set()
