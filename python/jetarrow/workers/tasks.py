"""Tasks that await a worker's handler."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any

from jetarrow.core.session import Session
from jetarrow.workers.core import Core
from jetarrow.workers.ledger import Decision, Item, Step, Verdict
from jetarrow.workers.retry import Reject

# Seconds after which a task whose handlers do not suspend lets the other tasks run.
_SLICE = 0.002


class LoopContext:
    """Waits on the event loop."""

    def __init__(self, session: Session) -> None:
        self.loop = asyncio.get_running_loop()
        self._session = session

    async def wait(self, call: Any) -> None:
        """Waits for a native call."""
        await self._session.run(call)

    async def store(self, work: Coroutine[Any, Any, None]) -> None:
        """Waits for a coroutine of the JetStream context."""
        await work


class TaskRunners:
    """At most `concurrency` tasks, each for many items: a task per item would cost more than many handlers.

    Args:
        core: The worker.
        on_progress: Called after an item, when more may be requested.
        on_wait: Called when a retry was scheduled.
        on_failure: Called when a handler raised an exception that ends the worker.
    """

    def __init__(
        self,
        core: Core,
        *,
        on_progress: Callable[[], object],
        on_wait: Callable[[], object],
        on_failure: Callable[[], object],
    ) -> None:
        self._core = core
        self._on_progress, self._on_wait, self._on_failure = on_progress, on_wait, on_failure
        self._context = LoopContext(core.session)
        self._tasks: set[asyncio.Task[None]] = set()
        self._slice = 0.0

    def wake(self) -> None:
        """Assigns ready items to tasks."""
        core = self._core
        for _ in range(min(len(core.ledger.ready), core.plan.concurrency - len(self._tasks))):
            task = asyncio.create_task(self._run(), name="jetarrow-worker")
            self._tasks.add(task)
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if task.cancelled():
            return
        core = self._core
        if (error := task.exception()) is not None:
            core.fail(error)
            self._on_failure()
        elif core.ledger.ready and len(core.ledger.running) < core.plan.concurrency:
            # A message arrived after the task had found none, while the task still counted.
            self.wake()

    async def cancel(self) -> None:
        """Cancels the handlers that still run."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            # A handler that suppresses the cancellation does not delay the end.
            await asyncio.wait(tasks, timeout=1.0)

    async def _run(self) -> None:
        core, ledger = self._core, self._core.ledger
        self._slice = time.monotonic()
        while True:
            now = time.monotonic()
            if now - self._slice > _SLICE:
                await asyncio.sleep(0)
                self._slice = now = time.monotonic()
            with core.lock:
                item = ledger.take(now)
            if item is None:
                return
            core.active += 1
            try:
                if item.reason is None:
                    decisions = await self._call(item)
                else:
                    decisions = (Decision(Step.BURY, item),)
                if decisions and not core.acknowledge(decisions, self._context):
                    await core.settle(decisions, self._context)
                    if decisions[0].step in (Step.WAIT, Step.BURY):
                        self._on_wait()
            finally:
                core.active -= 1
            self._on_progress()

    async def _call(self, item: Item) -> tuple[Decision, ...]:
        core = self._core
        try:
            with core.span(item):
                if core.plan.handler_timeout is None:
                    await core.handle(item)
                else:
                    async with asyncio.timeout(core.plan.handler_timeout):
                        await core.handle(item)
        except Reject as error:
            return core.finish(item, Verdict.REJECTED, error)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                core.finish(item, Verdict.INTERRUPTED, error)
                raise
            # The handler's own: a task that it awaited was cancelled.
            return core.finish(item, Verdict.FAILED, error)
        except Exception as error:
            return core.finish(item, Verdict.FAILED, error)
        except BaseException as error:
            # Not raised here: it would end the event loop before the other handlers are done.
            core.fail(error)
            self._on_failure()
            return core.finish(item, Verdict.INTERRUPTED, error)
        return core.finish(item, Verdict.HANDLED)
