"""A thread beside the connection, that reads, hashes and writes while chunks are on their way."""

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
    """One thread for the steps of one call, which it does in the order in which they are given."""

    def __init__(self, session: Session) -> None:
        self._blocks = session.is_blocking
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="jetarrow-objects")

    def start(self, step: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> Future[_T]:
        """Gives the thread a step to do."""
        return self._pool.submit(step, *args, **kwargs)

    async def done(self, started: Future[_T]) -> _T:
        """Waits for a step, as the session does: on the loop, or blocking this thread."""
        return started.result() if self._blocks else await asyncio.wrap_future(started)

    def __enter__(self) -> WorkerThread:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A step that waits for a file of the user's must not hold up whoever gave the call up.
        self._pool.shutdown(wait=kind is None, cancel_futures=True)
