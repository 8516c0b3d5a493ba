"""Waiting by blocking the thread."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar

from jetarrow._jetarrow import Call, Msg, SyncMsg
from jetarrow._jetarrow import Subscription as NativeSubscription
from jetarrow.core.events import log_error
from jetarrow.core.futures import FutureHome, ThreadHome
from jetarrow.core.session import Closable, Headers, SharedState

_T = TypeVar("_T")


class _ThreadLock:
    """A lock for coroutines that never suspend."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    async def __aenter__(self) -> None:
        self._lock.acquire()

    async def __aexit__(self, *_: object) -> None:
        self._lock.release()


class BlockingSession(SharedState):
    """Blocks the thread in native code, with the GIL released. Nothing that waits here suspends a coroutine."""

    blocks = True
    msg_class = SyncMsg

    def begin(self, callbacks: Mapping[str, Any]) -> None:
        if used := [name for name, callback in callbacks.items() if callback]:
            raise TypeError(f"{used[0]}: the blocking client runs no callbacks; use jetarrow.connect for them")

    async def settle(self) -> None:
        pass

    def tell(self, kind: str, error: Exception) -> None:
        pass

    def report(self, error: Exception) -> None:
        self.failure = error
        log_error(error)

    @property
    def last_error(self) -> Exception | None:
        return self.failure

    async def run(self, call: Call[_T], unwanted: Callable[[_T], Call[None]] | None = None) -> _T:
        return call.block()

    async def pause(self, delay: float) -> None:
        time.sleep(delay)  # noqa: ASYNC251  # there is no event loop here

    def bridge(self) -> None:
        return None

    def home(self) -> FutureHome:
        return ThreadHome()

    def lock(self) -> AbstractAsyncContextManager[object]:
        return _ThreadLock()

    async def drain(self, subscriptions: Sequence[Closable]) -> None:
        for sub in subscriptions:
            await sub._drain()

    async def processed(self, native: NativeSubscription, task: asyncio.Task[None] | None) -> bool:
        return False

    async def request(self, subject: str, payload: bytes | str, timeout: float, headers: Headers | None) -> Msg:
        return self.native.request_msg(self, subject, payload, timeout=timeout, headers=headers).block()
