"""The connection's callbacks without an event loop: plain functions, in a thread of their own, in order."""

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

# Seconds between two looks at whether the client is gone.
_OWNER_CHECK_INTERVAL = 5.0


class ThreadEvents:
    """A connection's events, on their way to the callbacks and to the log.

    Args:
        callbacks: By the name of the option; plain functions, or None.
        session: Whose events; held weakly.

    Raises:
        InvalidCallbackTypeError: One is no plain function.
    """

    def __init__(self, callbacks: Mapping[str, Any], session: Any) -> None:
        for name, callback in callbacks.items():
            if callback and (not callable(callback) or inspect.iscoroutinefunction(callback)):
                raise InvalidCallbackTypeError(
                    f"nats: {name} must be a plain function here: it is called in a thread of its own, without a loop"
                )
        self._callbacks = {name.removesuffix("_cb"): callback for name, callback in callbacks.items() if callback}
        self._connection_log = ConnectionLog(session)
        self._waiting: deque[tuple[str, Exception | None]] = deque()
        self._settling: deque[threading.Event] = deque()
        self._over = False
        self._ended = False
        self._thread_bridge = ThreadBridge()
        self.bridge = self._thread_bridge.bridge
        # Not held by what it holds: the collector does not look into native objects.
        me = weakref.ref(self)
        self.notices = Notices(lambda kind, error: _hand_over(me, kind, error), self.bridge, in_loop=False)
        self.last_error: Exception | None = None
        # True once the connection's end has been told, and so what led to it.
        self.closed = False
        arguments = (weakref.ref(session),)
        self._thread = threading.Thread(target=self._serve, args=arguments, name="jetarrow-events", daemon=True)
        self._thread.start()

    def enqueue(self, kind: str, error: Exception | None = None) -> None:
        """Takes one event, from any thread."""
        self._take(kind, error)
        self.notices.wake()

    def stop(self) -> None:
        """Ends the thread, once it has handled what there is."""
        self._over = True
        self.notices.wake()

    def wait_for_callbacks(self) -> None:
        """Waits until all events so far were handled; a callback that calls this does not wait for itself."""
        if threading.current_thread() is self._thread:
            return
        done = threading.Event()
        self._settling.append(done)
        # After its end nobody answers; before it, whoever ends answers all. In a forked child there is no thread.
        if self._ended:
            return
        self.notices.wake()
        while not done.wait(0.2) and self._thread.is_alive():
            pass

    def _take(self, kind: str, error: Exception | None) -> None:
        if error is not None:
            self.last_error = error
        self.closed = self.closed or kind == "closed"
        if error is None or len(self._waiting) < MAX_QUEUED_EVENTS:
            self._waiting.append((kind, error))

    def _serve(self, owner: weakref.ref[Any]) -> None:
        try:
            self._handle_events(owner)
        finally:
            self._ended = True
            for done in list(self._settling):
                done.set()

    def _handle_events(self, owner: weakref.ref[Any]) -> None:
        with self._thread_bridge.open() as wait:
            while True:
                if wait(_OWNER_CHECK_INTERVAL):
                    settling = list(self._settling)
                    self.bridge.drain()
                    while self._waiting:
                        self._call(*self._waiting.popleft())
                    for done in settling:
                        self._settling.remove(done)
                        done.set()
                if self._over or owner() is None:
                    return

    def _call(self, kind: str, error: Exception | None) -> None:
        # Nothing comes after it.
        self._over |= kind == "closed"
        callback = self._callbacks.get(kind)
        try:
            self._connection_log.log_event(kind, error, has_callback=callback is not None)
            if callback is not None:
                callback() if error is None else callback(error)
        except Exception:
            _log.exception("the callback %s_cb has failed", kind)


def _hand_over(events: weakref.ref[ThreadEvents], kind: str, error: Exception | None) -> None:
    there = events()
    if there is not None:
        there._take(kind, error)
