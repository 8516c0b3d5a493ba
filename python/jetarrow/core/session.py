"""How a native call is waited for: awaited on an event loop, or blocked on in this thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from jetarrow._jetarrow import Bridge, Call

_T = TypeVar("_T")

_bridges: WeakKeyDictionary[asyncio.AbstractEventLoop, Bridge] = WeakKeyDictionary()


def bridge_of(loop: asyncio.AbstractEventLoop) -> Bridge:
    """The loop's mailbox, made at its first use."""
    bridge = _bridges.get(loop)
    if bridge is None:
        bridge = _bridges[loop] = Bridge()
        drain = bridge.drain
        try:
            loop.add_reader(bridge.fileno(), drain)
        except NotImplementedError:
            # Windows' default loop watches no pipes.
            bridge.wake_with(lambda: loop.call_soon_threadsafe(drain))
    return bridge


async def awaited(call: Call[_T], unwanted: Callable[[_T], Call[None]] | None = None) -> _T:
    """Starts the call and awaits it; cancelling the await ends the call.

    `unwanted` makes the call that undoes a result which came too late to be wanted.
    """
    loop = asyncio.get_running_loop()
    future = call.start(loop, bridge_of(loop))
    try:
        return await future
    except asyncio.CancelledError:
        call.cancel()
        if unwanted is not None and future.done() and not future.cancelled() and future.exception() is None:
            unwanted(future.result()).start(loop, bridge_of(loop))
        raise


async def blocked(call: Call[_T], unwanted: object = None) -> _T:
    """The same for `finish`: blocks the thread with the GIL released, and never suspends."""
    return call.block()


def finish(coro: Coroutine[Any, Any, _T]) -> _T:
    """Runs a coroutine that only ever awaits `blocked`."""
    try:
        coro.send(None)
    except StopIteration as done:
        result: _T = done.value
        return result
    coro.close()
    raise RuntimeError("this coroutine needs an event loop")
