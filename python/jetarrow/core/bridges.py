"""The native mailboxes, and how whoever drains one learns that it has something."""

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

# A descriptor is watched where that can be. Windows' selectors know only sockets, and its usual event loop watches
# nothing: there a function is called, in a thread of the native module, which costs a change of threads.
_CAN_WATCH_DESCRIPTORS = sys.platform != "win32"

_bridges: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Bridge] = weakref.WeakKeyDictionary()


def bridge_of(loop: asyncio.AbstractEventLoop) -> Bridge:
    """The loop's mailbox, made at its first use."""
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
        # The bridge then sees whether the loop is idle, without a call into Python.
        bridge.watch_loop(*internals, time.monotonic)
    return bridge


def _waker(loop: asyncio.AbstractEventLoop) -> Callable[[], None]:
    """What wakes a loop that watches no descriptors. It holds neither the loop nor its bridge, which holds it."""
    held = weakref.ref(loop)

    def wake() -> None:
        there = held()
        bridge = None if there is None else _bridges.get(there)
        if there is not None and bridge is not None:
            there.call_soon_threadsafe(bridge.drain)

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
        """A function that waits so many seconds at most for something to be there, and says whether it is."""
        if self._event is None:
            # Not `select.select`, which knows only descriptors below 1024.
            with selectors.DefaultSelector() as selector:
                selector.register(self.bridge.fileno(), selectors.EVENT_READ)
                yield lambda seconds: bool(selector.select(seconds))
        else:
            yield self._wait_event

    def _wait_event(self, seconds: float) -> bool:
        assert self._event is not None
        if not self._event.wait(seconds):
            return False
        # What comes from here on rings again.
        self._event.clear()
        return True
