"""Events of a connection and their callbacks, called one at a time in order."""

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
# Callbacks of the sync client.
PlainCallback: TypeAlias = Callable[[], object]
PlainErrorCallback: TypeAlias = Callable[[Exception], object]

# Above this many queued events, errors are counted and dropped: other clients can cause errors at any rate.
MAX_QUEUED_EVENTS = 10_000

_log = logging.getLogger("jetarrow.callbacks")


def check_callbacks(callbacks: Mapping[str, Any]) -> None:
    """Checks that every callback is a coroutine function.

    Raises:
        InvalidCallbackTypeError: A callback is not a coroutine function.
    """
    for name, callback in callbacks.items():
        if callback and not inspect.iscoroutinefunction(callback):
            raise InvalidCallbackTypeError(f"nats: {name} must be a coroutine function: define it with async def")


class Events:
    """Queue of a connection's events, and the task that calls the callbacks in the event loop that connected.

    The task exists only while events are queued, so that a closing loop finds no pending task.
    """

    def __init__(self, callbacks: Mapping[str, Any], connection_log: ConnectionLog) -> None:
        # By kind of event: error, disconnected, reconnected, closed, discovered_server, lame_duck_mode.
        self._callbacks = {name.removesuffix("_cb"): callback for name, callback in callbacks.items() if callback}
        self._connection_log = connection_log
        self._waiting: deque[tuple[str, Exception | None]] = deque()
        self._task: asyncio.Task[None] | None = None
        self._held = False
        self.last_error: Exception | None = None
        # True once the event "closed", and the errors before it, were enqueued.
        self.closed = False

    def enqueue(self, kind: str, error: Exception | None = None) -> None:
        """Enqueues one event. Called in the event loop; does not wait."""
        if error is not None:
            self.last_error = error
        self.closed = self.closed or kind == "closed"
        if error is None or len(self._waiting) < MAX_QUEUED_EVENTS:
            self._waiting.append((kind, error))
        self._start_task()

    def _start_task(self) -> None:
        if self._task is not None or self._held:
            return
        # Events without a callback need no task: a loop that is about to end would not run it any more.
        while self._waiting and self._waiting[0][0] not in self._callbacks:
            self._log_event(*self._waiting.popleft())
        if self._waiting:
            self._task = asyncio.get_running_loop().create_task(self._run())

    def hold_events(self) -> None:
        """Queues events from now on until `wait_for_callbacks`."""
        self._held = True

    async def wait_for_callbacks(self) -> None:
        """Waits until all queued events are handled; a callback that calls this does not wait for itself.

        Held events are handled in the current task, so that the code after it runs even if a callback stops the loop.
        """
        own = asyncio.current_task()
        try:
            while self._task is not None and self._task is not own:
                await asyncio.wait([self._task])
            while self._waiting and self._task is None:
                await self._call(*self._waiting.popleft())
        finally:
            self._held = False
            self._start_task()

    async def _run(self) -> None:
        try:
            while self._waiting and not self._held:
                await self._call(*self._waiting.popleft())
        finally:
            # A task references its loop, and the native core references this object: break the cycle.
            self._task = None

    def _log_event(self, kind: str, error: Exception | None) -> None:
        try:
            self._connection_log.log_event(kind, error, has_callback=kind in self._callbacks)
        except Exception:
            # A handler or filter of the program failed.
            _log.exception("an event of kind %s could not be logged", kind)

    async def _call(self, kind: str, error: Exception | None) -> None:
        callback = self._callbacks.get(kind)
        if error is not None:
            # Later errors may be queued: the callback reads the error that it is called with.
            self.last_error = error
        self._log_event(kind, error)
        try:
            if callback is not None:
                await (callback() if error is None else callback(error))
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            # Raised by the callback itself: handle the next events.
            _log.exception("callback %s_cb failed", kind)
        except Exception:
            _log.exception("callback %s_cb failed", kind)
