"""Worker thread that reads, hashes and writes files while messages are in flight."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import ParamSpec, TypeVar

from jetarrow.core.session import Session

_P = ParamSpec("_P")
_T = TypeVar("_T")


class WorkerThread:
    """One thread that runs the steps of one call in the order in which they were started."""

    def __init__(self, session: Session) -> None:
        self._blocks = session.is_blocking
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="jetarrow-objects")

    def start(self, step: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> Future[_T]:
        """Enqueue a step for the thread."""
        return self._pool.submit(step, *args, **kwargs)

    async def done(self, started: Future[_T]) -> _T:
        """Wait for a step, on the event loop or blocking, depending on the session."""
        return started.result() if self._blocks else await asyncio.wrap_future(started)

    def __enter__(self) -> WorkerThread:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # After an error or a cancellation, a step that blocks on a user's file is not awaited.
        self._pool.shutdown(wait=kind is None, cancel_futures=True)
