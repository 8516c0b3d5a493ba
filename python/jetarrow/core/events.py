"""The connection's callbacks: in order, one after the other."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

from jetarrow.core.connection_log import ConnectionLog
from jetarrow.core.errors import InvalidCallbackTypeError

Callback: TypeAlias = Callable[[], Awaitable[None]]
ErrorCallback: TypeAlias = Callable[[Exception], Awaitable[None]]
# Of the sync twin.
PlainCallback: TypeAlias = Callable[[], object]
PlainErrorCallback: TypeAlias = Callable[[Exception], object]

# With so many events waiting errors are only counted: anybody may send what makes one.
MAX_QUEUED_EVENTS = 10_000

_log = logging.getLogger("jetarrow.callbacks")


def check_callbacks(callbacks: Mapping[str, Any]) -> None:
    """Checks that every callback is a coroutine function.

    Raises:
        InvalidCallbackTypeError: One is not.
    """
    for name, callback in callbacks.items():
        if callback and not inspect.iscoroutinefunction(callback):
            raise InvalidCallbackTypeError(f"nats: {name} must be a coroutine function: define it with async def")


class Events:
    """A connection's events, on their way to the callbacks. Belongs to the event loop that connected.

    There is a task only while there are events: a loop that closes finds no task that waits.
    """

    def __init__(self, callbacks: Mapping[str, Any], connection_log: ConnectionLog) -> None:
        # By the kind of notice: error, disconnected, reconnected, closed, discovered_server, lame_duck_mode.
        self._callbacks = {name.removesuffix("_cb"): callback for name, callback in callbacks.items() if callback}
        self._connection_log = connection_log
        self._waiting: deque[tuple[str, Exception | None]] = deque()
        self._task: asyncio.Task[None] | None = None
        self._held = False
        self.last_error: Exception | None = None
        # True once the connection's end has been told, and so what led to it.
        self.closed = False

    def enqueue(self, kind: str, error: Exception | None = None) -> None:
        """Takes one notice. Called in the event loop; returns at once."""
        if error is not None:
            self.last_error = error
        self.closed = self.closed or kind == "closed"
        if error is None or len(self._waiting) < MAX_QUEUED_EVENTS:
            self._waiting.append((kind, error))
        self._go_on()

    def _go_on(self) -> None:
        if self._waiting and self._task is None and not self._held:
            self._task = asyncio.get_running_loop().create_task(self._run())

    def hold_events(self) -> None:
        """Keeps what comes from now on for `wait_for_callbacks`."""
        self._held = True

    async def wait_for_callbacks(self) -> None:
        """Returns when all events so far were handled; a callback that calls this does not wait for itself.

        What was held is handled in this task: code after it runs even where a callback stops the loop.
        """
        own = asyncio.current_task()
        try:
            while self._task is not None and self._task is not own:
                await asyncio.wait([self._task])
            while self._waiting and self._task is None:
                await self._call(*self._waiting.popleft())
        finally:
            self._held = False
            self._go_on()

    async def _run(self) -> None:
        try:
            while self._waiting and not self._held:
                await self._call(*self._waiting.popleft())
        finally:
            # A task keeps its loop alive, and the native core keeps us.
            self._task = None

    async def _call(self, kind: str, error: Exception | None) -> None:
        callback = self._callbacks.get(kind)
        if error is not None:
            # Others may have come since: it is the one that the callback is told of.
            self.last_error = error
        try:
            self._connection_log.log_event(kind, error, has_callback=callback is not None)
            if callback is not None:
                await (callback() if error is None else callback(error))
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            # The callback's own: the events after this one are not to wait for it.
            _log.exception("the callback %s_cb has failed", kind)
        except Exception:
            _log.exception("the callback %s_cb has failed", kind)
