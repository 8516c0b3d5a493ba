"""Native mailboxes of event loops and threads, and the wake-up of the loop or thread that drains one."""

from __future__ import annotations

import asyncio
import selectors
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from jetarrow._jetarrow import Bridge
from jetarrow.core.cpython import loop_internals

# A loop watches the mailbox's descriptor. On Windows selectors accept sockets only, and the default event loop has no
# `add_reader`: there a thread of the native module calls a function, at the cost of a thread switch.
_CAN_WATCH_DESCRIPTORS = sys.platform != "win32"

_bridges: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Bridge] = weakref.WeakKeyDictionary()


def bridge_of(loop: asyncio.AbstractEventLoop) -> Bridge:
    """The mailbox of a loop; created at its first use."""
    bridge = _bridges.get(loop)
    if bridge is None:
        bridge = _bridges[loop] = _watched(loop) or Bridge(_waker(loop))
    return bridge


def _watched(loop: asyncio.AbstractEventLoop) -> Bridge | None:
    if not _CAN_WATCH_DESCRIPTORS:
        return None
    bridge = Bridge()
    try:
        loop.add_reader(bridge.fileno(), bridge.drain)
    except NotImplementedError:
        return None
    internals = loop_internals(loop)
    if internals is not None:
        # The native bridge then detects an idle loop without a call into Python.
        bridge.watch_loop(*internals, time.monotonic)
    return bridge


def _waker(loop: asyncio.AbstractEventLoop) -> Callable[[], None]:
    """A function that wakes a loop which watches no descriptors. It holds the loop weakly: its bridge holds it."""
    reference = weakref.ref(loop)

    def wake() -> None:
        loop = reference()
        bridge = None if loop is None else _bridges.get(loop)
        if loop is not None and bridge is not None:
            loop.call_soon_threadsafe(bridge.drain)

    return wake


class ThreadBridge:
    """A mailbox that a thread drains.

    Attributes:
        bridge: The mailbox.
    """

    def __init__(self) -> None:
        self._event = None if _CAN_WATCH_DESCRIPTORS else threading.Event()
        self.bridge = Bridge(None if self._event is None else self._event.set)

    @contextmanager
    def open(self) -> Iterator[Callable[[float], bool]]:
        """Yields a function that waits for an item, at most the given seconds, and returns whether there is one."""
        if self._event is None:
            # Not `select.select`: it accepts descriptors below 1024 only.
            with selectors.DefaultSelector() as selector:
                selector.register(self.bridge.fileno(), selectors.EVENT_READ)
                yield lambda seconds: bool(selector.select(seconds))
        else:
            yield self._wait_event

    def _wait_event(self, seconds: float) -> bool:
        assert self._event is not None
        if not self._event.wait(seconds):
            return False
        # Cleared before the caller drains: a later item sets it again.
        self._event.clear()
        return True
