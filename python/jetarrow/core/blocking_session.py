"""BlockingSession: a session that blocks the thread."""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from jetarrow._jetarrow import Bridge, Call, Msg, Notices, SyncMsg
from jetarrow._jetarrow import Subscription as NativeSubscription
from jetarrow.core.connection_log import log_error
from jetarrow.core.futures import AckFutures, ThreadAckFutures
from jetarrow.core.session import Closable, Headers, Lock, SharedState, run_to_completion
from jetarrow.core.thread_events import ThreadEvents

_T = TypeVar("_T")
_A = TypeVar("_A")


class _ThreadLock:
    """A lock for coroutines that never suspend.

    The thread's lock itself is entered and left. In methods of this class a KeyboardInterrupt could come between the
    lock and the block, and leave it locked.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()

    async def turn(self) -> AbstractContextManager[object]:
        return self._lock


class BlockingSession(SharedState):
    """Blocks the thread in native code, with the GIL released. No method suspends its coroutine."""

    is_blocking = True
    msg_class = SyncMsg

    def __init__(self) -> None:
        super().__init__()
        self._events: ThreadEvents | None = None

    def begin(self, callbacks: Mapping[str, Any]) -> Notices:
        if self._events is not None:
            self._events.stop()
        self._events = ThreadEvents(callbacks, self)
        return self._events.notices

    def hold_events(self) -> None:
        pass

    async def wait_for_callbacks(self) -> None:
        if self._events is not None:
            self._events.wait_for_callbacks()

    def enqueue_event(self, kind: str, error: Exception) -> None:
        if self._events is not None:
            self._events.enqueue(kind, error)

    def report_error(self, error: Exception) -> None:
        self.failure = error
        if self._events is None:
            log_error(error)
        else:
            self._events.enqueue("error", error)

    async def run(self, call: Call[_T], unwanted: Callable[[_T], Call[None]] | None = None) -> _T:
        return call.block()

    def arrival(self, native: NativeSubscription) -> None:
        return None

    async def sleep(self, delay: float) -> None:
        time.sleep(delay)  # noqa: ASYNC251  # no event loop

    def bridge(self) -> Bridge | None:
        return None if self._events is None else self._events.bridge

    def ack_futures(self) -> AckFutures:
        return ThreadAckFutures()

    def lock(self) -> Lock:
        return _ThreadLock()

    async def gather(self, work: Callable[[_A], Coroutine[Any, Any, _T]], items: Sequence[_A], limit: int) -> list[_T]:
        results: dict[int, _T] = {}
        ended: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()
        todo = list(enumerate(items))[::-1]

        def run() -> None:
            try:
                while True:
                    try:
                        number, item = todo.pop()
                    except IndexError:
                        break
                    results[number] = run_to_completion(work(item))
                ended.put(None)
            except BaseException as error:
                ended.put(error)

        # Daemon threads: after Ctrl-C a thread that waits for its answer does not delay the end of the process.
        threads = [threading.Thread(target=run, daemon=True) for _ in range(min(limit, len(todo)))]
        try:
            for thread in threads:
                thread.start()
            for _ in threads:
                if (error := ended.get()) is not None:
                    raise error
        finally:
            todo.clear()
        return [results[number] for number in range(len(items))]

    def repeat(self, seconds: float, work: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
        stopped = threading.Event()

        def run() -> None:
            while not stopped.wait(seconds):
                run_to_completion(work())

        threading.Thread(target=run, daemon=True, name="jetarrow-repeat").start()
        return stopped.set

    async def drain(self, subscriptions: Sequence[Closable]) -> None:
        for sub in subscriptions:
            await sub._drain()

    async def deliver_pending(self, subscriptions: Sequence[Closable], wait: float) -> None:
        for sub in subscriptions:
            sub._stop_delivery()

    async def wait_until_processed(self, native: NativeSubscription, task: asyncio.Task[None] | None) -> bool:
        return False

    async def request(self, subject: str, payload: bytes | str, timeout: float | None, headers: Headers | None) -> Msg:
        return self.native.request_msg(self, subject, payload, timeout=timeout, headers=headers).block()
