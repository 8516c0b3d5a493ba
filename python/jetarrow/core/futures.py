"""Futures of a publisher's acks: created and resolved in an event loop, or usable in any thread."""

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
    """Replaces the event loop of an async publisher; its futures are usable in any thread."""

    create_future = AckFuture


class AckFutures(Protocol):
    """Creates the futures of one publisher, and waits for them."""

    # The object whose `create_future` is called.
    loop: Any
    bridge: Bridge
    # The messages of one turn of the loop are enqueued together.
    by_turn: bool

    def is_usable_here(self) -> bool:
        """Whether the caller can wait for the futures: it runs in their loop."""

    def start_resolving(self, native: Publisher, owner: object) -> None:
        """Starts resolving the futures, until the publisher's owner is deleted and no future is pending."""

    async def wait_while(self, busy: Callable[[], bool], turn: Callable[[Any], Any], wait: float | None) -> None:
        """Waits for futures that `turn` creates while `busy` returns True.

        Raises:
            TimeoutError: `busy` returned True after `wait` seconds.
        """


class LoopAckFutures:
    """Futures of the running event loop."""

    by_turn = True

    def __init__(self, loop: asyncio.AbstractEventLoop, bridge: Bridge) -> None:
        self.loop = loop
        self.bridge = bridge
        self._thread = threading.get_ident()

    def is_usable_here(self) -> bool:
        """Whether the caller runs in this loop."""
        # `asyncio.get_running_loop` costs a system call. A thread runs one loop at a time.
        return self._thread == threading.get_ident() and self.loop.is_running()

    def start_resolving(self, native: Publisher, owner: object) -> None:
        pass  # The loop drains the bridge.

    async def wait_while(self, busy: Callable[[], bool], turn: Callable[[Any], Any], wait: float | None) -> None:
        async with asyncio.timeout(wait):
            while busy():
                await turn(self.loop)


class ThreadAckFutures:
    """Futures for any thread. `wait_while` blocks instead of suspending; Ctrl-C interrupts it."""

    by_turn = False

    def __init__(self) -> None:
        self.loop = ThreadFutureFactory
        self._thread_bridge = ThreadBridge()
        self.bridge = self._thread_bridge.bridge

    def is_usable_here(self) -> bool:
        """Returns True: any thread can wait for the futures."""
        return True

    def start_resolving(self, native: Publisher, owner: object) -> None:
        bridge = self.bridge
        owner_ref = weakref.ref(owner, lambda _: bridge.ring())
        # A separate thread: a callback of the user may block, and would stop the native thread of the client.
        arguments = (self._thread_bridge, native, owner_ref)
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
                        _log.exception("callback of a publish future failed")
                resolved.clear()
            if owner() is None and not native.pending:
                return
