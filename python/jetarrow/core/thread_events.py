"""Events of a sync connection and their callbacks: plain functions, called one at a time in a separate thread."""

from __future__ import annotations

import inspect
import logging
import threading
import weakref
from collections import deque
from collections.abc import Mapping
from typing import Any

from jetarrow._jetarrow import Notices
from jetarrow.core.bridges import ThreadBridge
from jetarrow.core.connection_log import ConnectionLog
from jetarrow.core.errors import InvalidCallbackTypeError
from jetarrow.core.events import MAX_QUEUED_EVENTS

_log = logging.getLogger("jetarrow.callbacks")

# Seconds between two checks whether the client still exists.
_OWNER_CHECK_INTERVAL = 5.0


class ThreadEvents:
    """Queue of a connection's events, and the thread that calls the callbacks and logs.

    Args:
        callbacks: Plain functions or None, by the name of the option.
        session: The session of the connection; held weakly.

    Raises:
        InvalidCallbackTypeError: A callback is not a plain function.
    """

    def __init__(self, callbacks: Mapping[str, Any], session: Any) -> None:
        for name, callback in callbacks.items():
            if callback and (not callable(callback) or inspect.iscoroutinefunction(callback)):
                raise InvalidCallbackTypeError(
                    f"nats: {name} must be a plain function: the sync client calls it in a thread without an event loop"
                )
        self._callbacks = {name.removesuffix("_cb"): callback for name, callback in callbacks.items() if callback}
        self._connection_log = ConnectionLog(session)
        self._waiting: deque[tuple[str, Exception | None]] = deque()
        self._wait_events: deque[threading.Event] = deque()
        self._is_stopping = False
        self._has_ended = False
        self._thread_bridge = ThreadBridge()
        self.bridge = self._thread_bridge.bridge
        # Weakly: the garbage collector does not traverse native objects, so a cycle would stay in memory.
        me = weakref.ref(self)
        self.notices = Notices(lambda kind, error: _enqueue(me, kind, error), self.bridge, in_loop=False)
        self.last_error: Exception | None = None
        # True once the event "closed", and the errors before it, were enqueued.
        self.closed = False
        arguments = (weakref.ref(session),)
        self._thread = threading.Thread(target=self._serve, args=arguments, name="jetarrow-events", daemon=True)
        self._thread.start()

    def enqueue(self, kind: str, error: Exception | None = None) -> None:
        """Enqueues one event, from any thread."""
        self._append(kind, error)
        self.notices.wake()

    def stop(self) -> None:
        """Ends the thread after it has handled the queued events."""
        self._is_stopping = True
        self.notices.wake()

    def wait_for_callbacks(self) -> None:
        """Waits until all queued events are handled; a callback that calls this does not wait for itself."""
        if threading.current_thread() is self._thread:
            return
        done = threading.Event()
        self._wait_events.append(done)
        # An ended thread sets no waiter; an ending one sets all of them. A forked child has no thread.
        if self._has_ended:
            return
        self.notices.wake()
        while not done.wait(0.2) and self._thread.is_alive():
            pass

    def _append(self, kind: str, error: Exception | None) -> None:
        if error is not None:
            self.last_error = error
        # Not `or`: a thread that read the old value would write it back.
        if kind == "closed":
            self.closed = True
        if error is None or len(self._waiting) < MAX_QUEUED_EVENTS:
            self._waiting.append((kind, error))

    def _serve(self, owner: weakref.ref[Any]) -> None:
        try:
            self._handle_events(owner)
        finally:
            self._has_ended = True
            while self._wait_events:
                self._wait_events.popleft().set()

    def _handle_events(self, owner: weakref.ref[Any]) -> None:
        with self._thread_bridge.open() as wait:
            while True:
                if wait(_OWNER_CHECK_INTERVAL):
                    # By number: an iteration fails when another thread appends.
                    num_waits = len(self._wait_events)
                    self.bridge.drain()
                    while self._waiting:
                        self._call(*self._waiting.popleft())
                    for _ in range(num_waits):
                        self._wait_events.popleft().set()
                if self._is_stopping or owner() is None:
                    return

    def _call(self, kind: str, error: Exception | None) -> None:
        # "closed" is the last event.
        if kind == "closed":
            self._is_stopping = True
        callback = self._callbacks.get(kind)
        try:
            self._connection_log.log_event(kind, error, has_callback=callback is not None)
            if callback is not None:
                callback() if error is None else callback(error)
        except Exception:
            _log.exception("callback %s_cb failed", kind)


def _enqueue(events: weakref.ref[ThreadEvents], kind: str, error: Exception | None) -> None:
    queue = events()
    if queue is not None:
        queue._append(kind, error)
