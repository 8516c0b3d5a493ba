"""Threads that call a worker's handler, in both faces."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any

from jetarrow.core.session import run_to_completion
from jetarrow.workers.core import Core
from jetarrow.workers.ledger import Decision, Item, Step, Verdict
from jetarrow.workers.retry import Reject
from jetarrow.workers.settlement import Context


class ThreadContext:
    """Waits by blocking the thread.

    Args:
        loop: The event loop of the JetStream context; None for a blocking one.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop | None) -> None:
        # Acks of a thread do not pass the loop.
        self.loop = None
        self._loop = loop

    async def wait(self, call: Any) -> None:
        """Waits for a native call."""
        call.block()

    async def store(self, work: Coroutine[Any, Any, None]) -> None:
        """Waits for a coroutine of the JetStream context."""
        if self._loop is None:
            await work
        else:
            asyncio.run_coroutine_threadsafe(work, self._loop).result()


class ThreadRunners:
    """At most `concurrency` threads, started when there is work.

    Args:
        core: The worker.
        context: How a thread waits.
        on_progress: Called in a thread after an item, when more may be requested.
        on_wait: Called in a thread when a retry was scheduled.
        on_failure: Called in a thread when a handler raised an exception that ends the worker.
    """

    def __init__(
        self,
        core: Core,
        context: Context,
        *,
        on_progress: Callable[[], object],
        on_wait: Callable[[], object],
        on_failure: Callable[[], object],
    ) -> None:
        self._core, self._context = core, context
        self._on_progress, self._on_wait, self._on_failure = on_progress, on_wait, on_failure
        self._work = threading.Condition(core.lock)
        self._idle = self._count = 0
        self._is_over = False

    def wake(self) -> None:
        """Assigns ready items to threads."""
        with self._work:
            ready = len(self._core.ledger.ready)
            self._work.notify(min(ready, self._idle))
            new = min(ready - self._idle, self._core.plan.concurrency - self._count)
            self._count += max(new, 0)
        for _ in range(new):
            # Daemon threads: a handler that outlives the drain does not delay the end of the process.
            threading.Thread(target=self._run, name="jetarrow-worker", daemon=True).start()

    def end(self) -> None:
        """Ends the threads that have no work."""
        with self._work:
            self._is_over = True
            self._work.notify_all()

    def _run(self) -> None:
        core, ledger = self._core, self._core.ledger
        item = self._take()
        while item is not None:
            decisions = self._call(item) if item.reason is None else (Decision(Step.BURY, item),)
            if not core.acknowledge(decisions, self._context):
                run_to_completion(core.settle(decisions, self._context))
                if any(decision.step in (Step.WAIT, Step.BURY) for decision in decisions):
                    self._on_wait()
                # The parts of a batch are for several threads.
                self.wake()
            with self._work:
                core.active -= 1
                item = ledger.take(time.monotonic())
                if item is not None:
                    core.active += 1
            self._on_progress()
            if item is None:
                item = self._take()

    def _take(self) -> Item | None:
        with self._work:
            while not self._is_over:
                item = self._core.ledger.take(time.monotonic())
                if item is not None:
                    self._core.active += 1
                    return item
                self._idle += 1
                self._work.wait()
                self._idle -= 1
            self._count -= 1
            return None

    def _call(self, item: Item) -> tuple[Decision, ...]:
        core = self._core
        try:
            with core.span(item):
                core.handle(item)
        except Reject as error:
            return core.finish(item, Verdict.REJECTED, error)
        except Exception as error:
            return core.finish(item, Verdict.FAILED, error)
        except BaseException as error:
            core.fail(error)
            self._on_failure()
            return core.finish(item, Verdict.INTERRUPTED, error)
        return core.finish(item, Verdict.HANDLED)
