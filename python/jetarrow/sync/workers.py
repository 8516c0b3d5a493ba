"""Blocking workers."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack

from jetarrow import tracing
from jetarrow._jetarrow import SyncMsg
from jetarrow.core.docstrings import documented_as
from jetarrow.sync.blocking import with_signature_of
from jetarrow.sync.context import JetStream
from jetarrow.sync.fetch import MessageBatch
from jetarrow.sync.groups import GroupBatch
from jetarrow.workers import worker as async_worker
from jetarrow.workers.counters import WorkerMetrics
from jetarrow.workers.loop_worker import Worker as AsyncWorker
from jetarrow.workers.plan import Plan
from jetarrow.workers.thread_worker import ThreadWorker

if TYPE_CHECKING:
    from jetarrow.workers.option_types import WorkerOptions


class Worker:
    """As `jetarrow.workers.loop_worker.Worker`, with handlers in threads. Created by `jetarrow.sync.worker`."""

    def __init__(self, inner: ThreadWorker) -> None:
        self._inner = inner

    def __repr__(self) -> str:
        return repr(self._inner)

    @property
    def is_running(self) -> bool:
        """Whether it requests messages."""
        return self._inner.is_running

    @property
    def health_url(self) -> str | None:
        """Address of the health endpoint, without a path; None without one."""
        return self._inner.health_url

    def metrics(self) -> WorkerMetrics:
        """The counters now."""
        return self._inner.metrics()

    @documented_as(AsyncWorker.run)
    def run(self) -> None:
        """As `jetarrow.workers.loop_worker.Worker.run`."""
        self._inner.run()

    @documented_as(AsyncWorker.stop)
    def stop(self) -> None:
        """As `jetarrow.workers.loop_worker.Worker.stop`."""
        self._inner.stop()

    def __enter__(self) -> Self:
        self._inner.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._inner.__exit__(kind, error, traceback)


@with_signature_of(async_worker)
def worker(  # noqa: D103
    js: JetStream,
    stream: str,
    *,
    durable: str | None = None,
    handler: Callable[[SyncMsg], object] | None = None,
    batch_handler: Callable[[MessageBatch], object] | None = None,
    **options: Unpack[WorkerOptions],
) -> Worker:
    given: Any = options
    given["durable"] = durable
    plan = Plan(stream=stream, handler=handler, batch_handler=batch_handler, **given)
    if plan.is_async or inspect.isasyncgenfunction(plan.call):
        raise TypeError(
            "the handler of jetarrow.sync.worker must be a plain function; use jetarrow.worker for coroutines"
        )
    wrap = MessageBatch if plan.group is None else GroupBatch
    return Worker(ThreadWorker(js._inner, plan, tracer=tracing.tracer_of(js), wrap=wrap))
