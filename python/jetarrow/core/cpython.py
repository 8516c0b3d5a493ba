"""Private names of CPython: all uses are in this module, each with a public fallback.

The private names save time: an idle event loop is detected without a system call, and a future costs a third of one of
`concurrent.futures`. They are used on CPython up to `NEWEST_KNOWN` only, and only if their types are the expected ones.
A newer version, or another implementation, takes the public fallback: same results, more time.

Only the standard library is imported, so that the test can run this file on every Python that is installed.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import selectors
import sys
import threading
from collections import deque
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Any, NamedTuple

# States of a `concurrent.futures.Future`, as its private attribute `_state` has them.
PENDING, RUNNING, FINISHED = "PENDING", "RUNNING", "FINISHED"

# Newest version of CPython on which tests/test_cpython.py has passed.
NEWEST_KNOWN = (3, 14)

_log = logging.getLogger("concurrent.futures")


def is_known() -> bool:
    """Whether the private names may be used: CPython, at most `NEWEST_KNOWN`."""
    return sys.implementation.name == "cpython" and sys.version_info[:2] <= NEWEST_KNOWN


class LoopInternals(NamedTuple):
    """Parts of asyncio's selector event loop.

    Attributes:
        selector_fd: Descriptor of the loop's epoll.
        ready: Handles that the loop calls in this turn.
        scheduled: Heap of timer handles.
    """

    selector_fd: int
    ready: deque[Any]
    scheduled: list[Any]


def loop_internals(loop: asyncio.AbstractEventLoop) -> LoopInternals | None:
    """The parts of a loop that show whether it is idle.

    Args:
        loop: The event loop.

    Returns:
        The parts. None if the loop is not asyncio's own, uses no epoll (Linux only), or its version is not known.
    """
    if not is_known() or type(loop) is not asyncio.SelectorEventLoop:
        return None
    selector, ready, scheduled = (getattr(loop, name, None) for name in ("_selector", "_ready", "_scheduled"))
    epoll = getattr(selectors, "EpollSelector", None)
    if epoll and isinstance(selector, epoll) and isinstance(ready, deque) and isinstance(scheduled, list):
        return LoopInternals(selector.fileno(), ready, scheduled)
    return None


def is_exception_retrieved(future: object) -> bool:
    """Whether a caller has read the exception of a failed future, of asyncio or of this module.

    asyncio has no public name for it. Without the private one the answer is False, so that no error is lost.

    Args:
        future: The future.
    """
    return not getattr(future, "_log_traceback", True)


def is_from_import(frame: FrameType) -> bool:
    """Whether a frame executes `from module import name`; False on an unknown version.

    Args:
        frame: The frame that reads a module's attribute.
    """
    from opcode import opmap

    return is_known() and frame.f_lasti >= 0 and frame.f_code.co_code[frame.f_lasti] == opmap.get("IMPORT_FROM")


class _Deferred(threading.local):
    """Futures of this thread whose callbacks `run_callbacks` calls later; None calls them at once."""

    futures: list[Any] | None = None


_deferred = _Deferred()


def defer_callbacks(futures: list[Any]) -> None:
    """Makes this thread append the futures that it resolves to a list, instead of calling their callbacks.

    Args:
        futures: The list. The caller empties it and calls `run_callbacks` of each future.
    """
    _deferred.futures = futures


# Held while one thread marks a future as resolved.
_RESOLVE_LOCK = threading.Lock()


class LazyFuture(concurrent.futures.Future[Any]):
    """A `concurrent.futures.Future` that makes its lock and its lists only when a thread waits or adds a callback.

    Making and notifying them takes three times as long as the rest of a publish. It also records whether a caller has
    read its exception, as asyncio's futures do.
    """

    _state = PENDING
    _result: Any = None
    _exception: BaseException | None = None
    # Resolved, or about to be; read and written under `_RESOLVE_LOCK`.
    _is_resolved = False
    # The lock exists, or is about to.
    _has_condition = False
    # The name that asyncio's futures have, which the native core reads: None without callbacks.
    _callbacks: object = None
    # The name that asyncio's futures have: True until a caller reads the exception.
    _log_traceback = True

    if not TYPE_CHECKING:
        __init__ = object.__init__

    def __getattr__(self, name: str) -> Any:
        # `setdefault` is atomic: all threads get the object of the first.
        if name == "_condition":
            self._has_condition = True
            return self.__dict__.setdefault(name, threading.Condition())
        if name in ("_waiters", "_done_callbacks"):
            return self.__dict__.setdefault(name, [])
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)

    def _mark_resolved(self) -> bool:
        """True for the first caller only."""
        with _RESOLVE_LOCK:
            was_resolved, self._is_resolved = self._is_resolved, True
        return not was_resolved

    def _notify(self) -> None:
        self._state = FINISHED
        # A thread that makes the lock after this line finds the state set.
        if self._has_condition:
            with self._condition:
                for waiter in self._waiters:
                    (waiter.add_result if self._exception is None else waiter.add_exception)(self)
                self._condition.notify_all()
            if _deferred.futures is None:
                self._invoke_callbacks()
            else:
                _deferred.futures.append(self)

    def run_callbacks(self) -> None:
        """Calls the callbacks that `defer_callbacks` has deferred."""
        self._invoke_callbacks()

    def set_result(self, result: Any) -> None:
        """Resolves it with a result; InvalidStateError if it is resolved or cancelled."""
        if not self._mark_resolved():
            raise concurrent.futures.InvalidStateError(f"{self._state}: {self!r}")
        self._result = result
        self._notify()

    def set_exception(self, exception: BaseException | None) -> None:
        """Resolves it with an exception; InvalidStateError if it is resolved or cancelled."""
        if not self._mark_resolved():
            raise concurrent.futures.InvalidStateError(f"{self._state}: {self!r}")
        self._exception = exception
        self._notify()

    def cancel(self) -> bool:
        """Cancels it, and returns whether it is cancelled; the message may still be stored."""
        return super().cancel() if self._state == PENDING and self._mark_resolved() else self.cancelled()

    def add_done_callback(self, fn: Callable[[concurrent.futures.Future[Any]], object]) -> None:
        """Calls `fn` with the future when it is done: in the thread that resolves it, or now."""
        self._callbacks = fn
        super().add_done_callback(fn)

    def done(self) -> bool:
        """Whether it is resolved or cancelled."""
        return self._state not in (PENDING, RUNNING)

    def result(self, timeout: float | None = None) -> Any:
        """The result; an exception counts as read."""
        if self._state == FINISHED and self._exception is None:
            return self._result
        self.exception(timeout)
        return super().result()

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """The exception, which counts as read."""
        found = super().exception(timeout)
        self._log_traceback = False
        return found


class PublicFuture(concurrent.futures.Future[Any]):
    """The behaviour of `LazyFuture` through the public interface of `concurrent.futures.Future` alone."""

    _callbacks: object = None
    _log_traceback = True

    def __init__(self) -> None:
        super().__init__()
        self._pending_callbacks: list[Callable[[concurrent.futures.Future[Any]], object]] = []
        super().add_done_callback(PublicFuture._on_done)

    def _on_done(self: Any) -> None:
        if _deferred.futures is None:
            self.run_callbacks()
        else:
            _deferred.futures.append(self)

    def run_callbacks(self) -> None:
        """Calls the callbacks that `defer_callbacks` has deferred."""
        with _RESOLVE_LOCK:
            callbacks, self._pending_callbacks = self._pending_callbacks, []
        for fn in callbacks:
            self._call(fn)

    def _call(self, fn: Callable[[concurrent.futures.Future[Any]], object]) -> None:
        try:
            fn(self)
        except Exception:
            # As `concurrent.futures` reports it.
            _log.exception("exception calling callback for %r", self)

    def add_done_callback(self, fn: Callable[[concurrent.futures.Future[Any]], object]) -> None:
        """Calls `fn` with the future when it is done: in the thread that resolves it, or now."""
        self._callbacks = fn
        with _RESOLVE_LOCK:
            if not self.done():
                self._pending_callbacks.append(fn)
                return
        self._call(fn)

    def result(self, timeout: float | None = None) -> Any:
        """The result; an exception counts as read."""
        self.exception(timeout)
        return super().result()

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """The exception, which counts as read."""
        found = super().exception(timeout)
        self._log_traceback = False
        return found


# Attributes that a new `Future` of a known version has.
_FUTURE_ATTRIBUTES = {"_condition", "_state", "_result", "_exception", "_waiters", "_done_callbacks"}


def _has_known_future() -> bool:
    future: concurrent.futures.Future[Any] = concurrent.futures.Future()
    if not is_known() or vars(future).keys() != _FUTURE_ATTRIBUTES or not hasattr(future, "_invoke_callbacks"):
        return False
    future.set_result(None)
    return future._state == FINISHED


if TYPE_CHECKING:
    Future = LazyFuture
else:
    Future = LazyFuture if _has_known_future() else PublicFuture
