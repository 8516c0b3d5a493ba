"""Where the futures of a publisher are made and resolved: in an event loop, or for any thread."""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import threading
import time
import weakref
from collections.abc import Callable
from concurrent.futures._base import FINISHED, PENDING, RUNNING
from typing import TYPE_CHECKING, Any, Protocol

from jetarrow._jetarrow import Bridge, Publisher
from jetarrow.core.bridges import ThreadBridge

_log = logging.getLogger("jetarrow.publish")

# Seconds between two looks at whether a publisher is gone.
_OWNER_CHECK_INTERVAL = 1.0


# In a thread that resolves futures: those whose callbacks are still to be called.
_resolving = threading.local()

# For no longer than it takes to see who ends a future.
_ENDING = threading.Lock()


class AckFuture(concurrent.futures.Future[Any]):
    """A future that knows, as asyncio's do, whether anybody has looked at its exception.

    It has no lock, nor lists, until a thread waits for it or hangs something on it: to make them and to ring them
    would take three times as long as all the rest of a publish.
    """

    # Those that it has from the beginning.
    _state = PENDING
    _result: Any = None
    _exception: BaseException | None = None
    # It has an outcome, or is about to; read and set under `_ENDING`.
    _ended = False
    # It has a lock, or is about to.
    _asked = False
    # As asyncio's has it: None where nothing is called when it is done.
    _callbacks: object = None
    # True until then: one that is about to fail, in the thread that resolves it, is not taken for one that was seen.
    _log_traceback = True

    if not TYPE_CHECKING:
        __init__ = object.__init__

    def __getattr__(self, name: str) -> Any:
        # The same for all threads: the first one's is kept.
        if name == "_condition":
            self._asked = True
            return self.__dict__.setdefault(name, threading.Condition())
        if name in ("_waiters", "_done_callbacks"):
            return self.__dict__.setdefault(name, [])
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)

    def _claim(self) -> bool:
        """True for the first that ends it, and for nobody after it."""
        with _ENDING:
            ended, self._ended = self._ended, True
        return not ended

    def _finish(self) -> None:
        self._state = FINISHED
        # Who asks for the lock from here on finds the state under it.
        if self._asked:
            with self._condition:
                for waiter in self._waiters:
                    (waiter.add_result if self._exception is None else waiter.add_exception)(self)
                self._condition.notify_all()
            later = getattr(_resolving, "later", None)
            if later is None:
                self._invoke_callbacks()
            else:
                later.append(self)

    def set_result(self, result: Any) -> None:
        """Ends it with a result; InvalidStateError where it is at its end."""
        if not self._claim():
            raise concurrent.futures.InvalidStateError(f"{self._state}: {self!r}")
        self._result = result
        self._finish()

    def set_exception(self, exception: BaseException | None) -> None:
        """Ends it with an exception; InvalidStateError where it is at its end."""
        if not self._claim():
            raise concurrent.futures.InvalidStateError(f"{self._state}: {self!r}")
        self._exception = exception
        self._finish()

    def cancel(self) -> bool:
        """True where it is cancelled: what was published may still be stored."""
        return super().cancel() if self._state == PENDING and self._claim() else self.cancelled()

    def add_done_callback(self, fn: Callable[[concurrent.futures.Future[Any]], object]) -> None:
        """Calls `fn` with the future once it is done: in the thread that resolves it, or at once."""
        self._callbacks = fn
        super().add_done_callback(fn)

    def done(self) -> bool:
        """True where it has its outcome, or is cancelled."""
        return self._state not in (PENDING, RUNNING)

    def result(self, timeout: float | None = None) -> Any:
        """The result; an exception counts as looked at."""
        if self._state == FINISHED and self._exception is None:
            return self._result
        self.exception(timeout)
        return super().result()

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """The exception, which counts as looked at."""
        found = super().exception(timeout)
        self._log_traceback = False
        return found


class ThreadFutureFactory:
    """Stands for the event loop where there is none: its futures are for any thread."""

    create_future = AckFuture


class AckFutures(Protocol):
    """Makes the futures of one publisher, and waits for them."""

    # Has `create_future`.
    loop: Any
    bridge: Bridge
    # Messages of one turn of the loop are handed over together.
    by_turn: bool

    def is_usable_here(self) -> bool:
        """True where its futures can be waited for: in its own loop."""

    def start_resolving(self, native: Publisher, owner: object) -> None:
        """Begins to resolve the futures, until their publisher's owner is gone and none is left."""

    async def wait_while(self, busy: Callable[[], bool], turn: Callable[[Any], Any], wait: float | None) -> None:
        """Waits for futures that `turn` makes as long as it is busy.

        Raises:
            TimeoutError: It was still busy after `wait` seconds.
        """


class LoopAckFutures:
    """The event loop that runs."""

    by_turn = True

    def __init__(self, loop: asyncio.AbstractEventLoop, bridge: Bridge) -> None:
        self.loop = loop
        self.bridge = bridge
        self._thread = threading.get_ident()

    def is_usable_here(self) -> bool:
        """Whether the caller runs in this loop."""
        # Asking asyncio costs a system call. A thread runs one loop at a time.
        return self._thread == threading.get_ident() and self.loop.is_running()

    def start_resolving(self, native: Publisher, owner: object) -> None:
        pass  # The loop watches the bridge.

    async def wait_while(self, busy: Callable[[], bool], turn: Callable[[Any], Any], wait: float | None) -> None:
        async with asyncio.timeout(wait):
            while busy():
                await turn(self.loop)


class ThreadAckFutures:
    """Any thread. Its coroutine never suspends: it blocks, and Ctrl-C wakes it."""

    by_turn = False

    def __init__(self) -> None:
        self.loop = ThreadFutureFactory
        self._thread_bridge = ThreadBridge()
        self.bridge = self._thread_bridge.bridge

    def is_usable_here(self) -> bool:
        """Whether the caller may publish with it: always."""
        return True

    def start_resolving(self, native: Publisher, owner: object) -> None:
        bridge = self.bridge
        gone = weakref.ref(owner, lambda _: bridge.ring())
        # Not the native thread: what a user hangs on a future may block, and would stop all that the client does.
        arguments = (self._thread_bridge, native, gone)
        threading.Thread(target=_serve, args=arguments, name="jetarrow-acks", daemon=True).start()

    async def wait_while(self, busy: Callable[[], bool], turn: Callable[[Any], Any], wait: float | None) -> None:
        deadline = None if wait is None else time.monotonic() + wait
        while busy():
            turn(self.loop).result(None if deadline is None else max(deadline - time.monotonic(), 0))


def _serve(thread_bridge: ThreadBridge, native: Publisher, owner: weakref.ref[Any]) -> None:
    # A user's code does not run below native code: it may take as long as it likes, and where the interpreter ends
    # meanwhile it ends this thread, which native code does not survive.
    later: list[AckFuture] = []
    _resolving.later = later
    with thread_bridge.open() as wait:
        while True:
            if wait(_OWNER_CHECK_INTERVAL):
                thread_bridge.bridge.drain()
                for future in later:
                    try:
                        future._invoke_callbacks()
                    except BaseException:
                        # The other futures are not to wait for ever.
                        _log.exception("a callback of a publish's future has failed")
                later.clear()
            if owner() is None and not native.pending:
                return
