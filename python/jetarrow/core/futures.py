"""Where the futures of a publisher are made and resolved: in an event loop, or for any thread."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any, Protocol

from jetarrow._jetarrow import Bridge, Publisher
from jetarrow.core.bridges import ThreadBridge
from jetarrow.core.cpython import Future, defer_callbacks

_log = logging.getLogger("jetarrow.publish")

# Seconds between two checks whether the owner of a publisher still exists.
_OWNER_CHECK_INTERVAL = 1.0


class AckFuture(Future):
    """The future of one publish, for any thread: a `concurrent.futures.Future` that resolves to the `PubAck`."""


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
    # Callbacks of users do not run below native code. They may take any time, and at the end of the interpreter Python
    # ends this thread inside of them: native code would not survive that.
    resolved: list[AckFuture] = []
    defer_callbacks(resolved)
    with thread_bridge.open() as wait:
        while True:
            if wait(_OWNER_CHECK_INTERVAL):
                thread_bridge.bridge.drain()
                for future in resolved:
                    try:
                        future.run_callbacks()
                    except BaseException:
                        # An error of one callback must not keep the other futures unresolved.
                        _log.exception("a callback of a publish future has failed")
                resolved.clear()
            if owner() is None and not native.pending:
                return
