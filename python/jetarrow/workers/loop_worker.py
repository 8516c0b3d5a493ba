"""Worker on an event loop."""

from __future__ import annotations

import asyncio
import contextlib
import time
from types import TracebackType
from typing import Any, Self

from jetarrow import tracing
from jetarrow.core.errors import Error
from jetarrow.jetstream.context import JetStreamContext
from jetarrow.workers import signals, state
from jetarrow.workers.group import core_of
from jetarrow.workers.health import HealthEndpoint
from jetarrow.workers.keeper import Keeper
from jetarrow.workers.ledger import Decision
from jetarrow.workers.plan import Plan
from jetarrow.workers.pulling import Puller
from jetarrow.workers.settlement import log
from jetarrow.workers.tasks import LoopContext, TaskRunners
from jetarrow.workers.threads import ThreadContext, ThreadRunners

# Seconds that a request waits for messages; also between two signs of life.
_REQUEST_TIME = 5.0


class Worker(state.WorkerState):
    """Processes the messages of a stream until it is stopped. Created by `jetarrow.worker`.

    `await worker.run()` runs it to its end. `async with worker:` runs it within the block, for example beside other
    tasks; the end of the block stops it. A worker runs once.
    """

    def __init__(self, js: JetStreamContext, plan: Plan) -> None:
        super().__init__(core_of(js, plan, tracer=tracing.tracer_of(js)), plan)
        self._runners: TaskRunners | ThreadRunners
        # A second stop ends the drain.
        self._stops = 0

    async def run(self) -> None:
        """Runs until `stop`, a signal or an error; then drains.

        Raises:
            NotFoundError: The consumer or the stream does not exist, or was deleted.
            ConnectionClosedError: The client is closed.
            Error: The consumer differs from the options.
            BaseException: A handler raised an exception that is no `Exception`, such as SystemExit.
            OSError: The address of the health endpoint is in use.
            ValueError: The options do not fit the stream.
        """
        if self._state == state.NEW:
            async with self:
                await self._stopped.wait()
        else:
            await self._stopped.wait()

    def stop(self) -> None:
        """Begins the drain: no more messages are requested. A second call ends the drain. Any thread may call it."""
        self._stops += 1
        if self._state in (state.NEW, state.STOPPED):
            return
        with contextlib.suppress(RuntimeError):
            # The loop may be closed.
            self._loop.call_soon_threadsafe(self._on_stop)

    def _on_stop(self) -> None:
        self._stopped.set()
        if self._stops > 1:
            self._hurried.set()

    async def __aenter__(self) -> Self:
        if self._state != state.NEW:
            raise RuntimeError(f"a worker runs once, and this one is {self._state}; create another one")
        core, plan = self._core, self._plan
        self._state = state.STARTING
        self._loop = asyncio.get_running_loop()
        self._stopped, self._hurried, self._room = asyncio.Event(), asyncio.Event(), asyncio.Event()
        try:
            await core.open()
        except BaseException:
            self._state = state.STOPPED
            raise
        self._puller = Puller(core, _REQUEST_TIME, self._sleep)
        self._context = LoopContext(core.session)
        self._keeper = Keeper(core, self._wake_from_thread, ends_late=not plan.is_async)
        if plan.is_async:
            self._runners = TaskRunners(
                core, on_progress=self._on_progress, on_wait=self._keeper.alarm, on_failure=self._stopped.set
            )
        else:
            self._runners = ThreadRunners(
                core,
                ThreadContext(self._loop),
                on_progress=self._on_thread_progress,
                on_wait=self._keeper.alarm,
                on_failure=lambda: self._from_thread(self._stopped.set),
            )
        self._exit = contextlib.ExitStack()
        try:
            if plan.health is not None:
                self._health = HealthEndpoint(plan.health, self._report, self._metrics_text)
                self._exit.callback(self._health.stop)
                self._health.start()
            self._exit.enter_context(signals.handled(self.stop, wanted=plan.signals))
            self._exit.callback(self._keeper.stop)
            self._keeper.start()
        except BaseException:
            self._state = state.STOPPED
            self._exit.close()
            raise
        self._state = state.RUNNING
        self._pulling = asyncio.create_task(self._pull(), name="jetarrow-worker-pull")
        if self._stops:
            self._on_stop()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stopped.set()
        self._state = state.DRAINING
        try:
            # A cancelled program, or one with an error, does not wait for handlers.
            await self._drain(0.0 if isinstance(error, asyncio.CancelledError) else self._plan.drain_timeout)
        finally:
            self._state = state.STOPPED
            self._exit.close()
        if self._core.failure is not None and error is None:
            raise self._core.failure

    async def _pull(self) -> None:
        try:
            while not self._stopped.is_set():
                room = self._core.room()
                if room:
                    await self._settle(await self._puller.pull(room))
                    self._runners.wake()
                else:
                    self._puller.alive = time.monotonic()
                    await self._until_room()
        except Exception as error:
            self._core.fail(error)
            self._stopped.set()

    async def _until_room(self) -> None:
        self._room.clear()
        self._waits = True
        if not self._core.room():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._room.wait(), _REQUEST_TIME)
        self._waits = False

    _waits = False

    async def _sleep(self, delay: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stopped.wait(), delay)

    async def _settle(self, decisions: tuple[Decision, ...]) -> None:
        if decisions:
            await self._core.settle(decisions, self._context)

    def _on_progress(self) -> None:
        """Called on the loop after each item."""
        if self._core.ledger.ready and isinstance(self._runners, TaskRunners):
            self._runners.wake()
        if self._waits or self._state == state.DRAINING:
            self._room.set()

    def _on_thread_progress(self) -> None:
        if self._waits or self._state == state.DRAINING:
            self._from_thread(self._room.set)

    def _wake_from_thread(self) -> None:
        self._from_thread(self._runners.wake)

    def _from_thread(self, call: Any) -> None:
        with contextlib.suppress(RuntimeError):
            # The loop may be closed, after a handler that outlived the drain.
            self._loop.call_soon_threadsafe(call)

    async def _drain(self, wait: float) -> None:
        core = self._core
        # A task that waits is woken by the cancellation; messages that arrive meanwhile are returned.
        self._pulling.cancel()
        await asyncio.wait([self._pulling])
        await self._settle(core.stop())
        deadline = time.monotonic() + wait
        while not core.is_idle and (left := deadline - time.monotonic()) > 0 and not self._hurried.is_set():
            self._runners.wake()
            self._room.clear()
            if not core.is_idle:
                waits = [asyncio.ensure_future(one.wait()) for one in (self._room, self._hurried)]
                await asyncio.wait(waits, timeout=min(left, 1.0), return_when=asyncio.FIRST_COMPLETED)
                for one in waits:
                    one.cancel()
        left_over = core.abandon()
        if left_over:
            log.warning("the drain ended: %d messages are returned to the server", len(left_over))
        await self._settle(left_over)
        if isinstance(self._runners, TaskRunners):
            await self._runners.cancel()
        else:
            self._runners.end()
        with contextlib.suppress(Error):
            if not core.sub._closed:
                await core.sub.unsubscribe()
            # Acks have left when the worker ends.
            await core.session.client.flush(5)
