"""LoopSession: a session that awaits on the running event loop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from jetarrow._jetarrow import Bridge, Call, Msg, Notices
from jetarrow._jetarrow import Subscription as NativeSubscription
from jetarrow.core.bridges import bridge_of
from jetarrow.core.connection_log import ConnectionLog, log_error
from jetarrow.core.errors import DrainTimeoutError
from jetarrow.core.events import Events, check_callbacks
from jetarrow.core.futures import AckFutures, LoopAckFutures
from jetarrow.core.session import Closable, Headers, Lock, SharedState

_T = TypeVar("_T")
_A = TypeVar("_A")

_log = logging.getLogger("jetarrow.connection")


class _LoopLock:
    """A lock for tasks."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    async def turn(self) -> AbstractContextManager[object]:
        await self._lock.acquire()
        return self

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        self._lock.release()


class LoopSession(SharedState):
    """Awaits on the running event loop."""

    is_blocking = False
    msg_class = Msg

    def __init__(self) -> None:
        super().__init__()
        self._events: Events | None = None
        self._notices: Notices | None = None
        # The loop of the last call, and its mailbox: the lookup takes 0.2 microseconds per call.
        self._last_loop: tuple[asyncio.AbstractEventLoop, Bridge] | None = None

    def begin(self, callbacks: Mapping[str, Any]) -> Notices:
        check_callbacks(callbacks)
        self._events = Events(callbacks, ConnectionLog(self))
        self._notices = Notices(self._events.enqueue, self.bridge())
        return self._notices

    def hold_events(self) -> None:
        if self._events is not None:
            self._events.hold_events()

    async def wait_for_callbacks(self) -> None:
        if self._events is not None and self._notices is not None:
            self._notices.deliver()
            await self._events.wait_for_callbacks()

    def enqueue_event(self, kind: str, error: Exception) -> None:
        if self._events is not None:
            self._events.enqueue(kind, error)

    def report_error(self, error: Exception) -> None:
        if self._events is None:
            self.failure = error
            log_error(error)
        else:
            self._events.enqueue("error", error)

    async def run(self, call: Call[_T], unwanted: Callable[[_T], Call[None]] | None = None) -> _T:
        loop = asyncio.get_running_loop()
        last = self._last_loop
        bridge = last[1] if last is not None and last[0] is loop else self._switch_loop(loop)
        future = call.start(loop, bridge)
        try:
            bridge.linger(call)
            return await future
        except asyncio.CancelledError:
            call.cancel()
            if unwanted is not None and future.done() and not future.cancelled() and future.exception() is None:
                unwanted(future.result()).start(loop, bridge)
            raise

    def arrival(self, native: NativeSubscription) -> asyncio.Future[None] | None:
        loop, last = asyncio.get_running_loop(), self._last_loop
        bridge = last[1] if last is not None and last[0] is loop else self._switch_loop(loop)
        return native.arrival(loop, bridge)

    def _switch_loop(self, loop: asyncio.AbstractEventLoop) -> Bridge:
        bridge = bridge_of(loop)
        self._last_loop = loop, bridge
        return bridge

    async def sleep(self, delay: float) -> None:
        await asyncio.sleep(delay)

    # The function itself: a method around it takes 5 % of the time of a publish.
    loop = staticmethod(asyncio.get_running_loop)

    def bridge(self) -> Bridge:
        return bridge_of(asyncio.get_running_loop())

    def ack_futures(self) -> AckFutures:
        loop = asyncio.get_running_loop()
        return LoopAckFutures(loop, bridge_of(loop))

    def lock(self) -> Lock:
        return _LoopLock()

    async def gather(self, work: Callable[[_A], Coroutine[Any, Any, _T]], items: Sequence[_A], limit: int) -> list[_T]:
        slots = asyncio.Semaphore(limit)

        async def run(item: _A) -> _T:
            async with slots:
                return await work(item)

        tasks = [asyncio.ensure_future(run(item)) for item in items]
        try:
            return await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()

    def repeat(self, seconds: float, work: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
        async def run() -> None:
            while True:
                await asyncio.sleep(seconds)
                await work()

        task = asyncio.ensure_future(run())

        def stop() -> None:
            task.cancel()

        return stop

    async def drain(self, subscriptions: Sequence[Closable]) -> None:
        tasks = [asyncio.ensure_future(sub._drain()) for sub in subscriptions]
        if not tasks:
            return
        done, late = await asyncio.wait(tasks, timeout=self.drain_timeout)
        for task in late:
            task.cancel()
        if late:
            self.report_error(DrainTimeoutError())
        for task in done:
            if not task.cancelled() and (error := task.exception()) is not None:
                _log.debug("draining a subscription failed: %s", error)

    async def deliver_pending(self, subscriptions: Sequence[Closable], wait: float) -> None:
        tasks = [task for sub in subscriptions if (task := sub._stop_delivery()) is not None]
        if not tasks:
            return
        late = set(tasks)
        try:
            if wait > 0:
                _, late = await asyncio.wait(tasks, timeout=wait)
        finally:
            for task in late:
                task.cancel()

    async def wait_until_processed(self, native: NativeSubscription, task: asyncio.Task[None] | None) -> bool:
        if task is not None and task is asyncio.current_task():
            # In a callback: the messages behind its own are delivered after it.
            return False
        await self.run(native.emptied())
        if task is not None:
            # The last callback may still be running.
            await asyncio.wait([task])
        return True

    async def request(self, subject: str, payload: bytes | str, timeout: float | None, headers: Headers | None) -> Msg:
        native, loop, last = self.connection or self.native, asyncio.get_running_loop(), self._last_loop
        bridge = last[1] if last is not None and last[0] is loop else self._switch_loop(loop)
        future = native.request_future(loop, bridge, self, subject, payload, timeout, headers)
        try:
            return await future
        except asyncio.CancelledError:
            native.cancel_request(future)
            raise
