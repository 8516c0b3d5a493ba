"""Worker in threads, for the blocking API."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from jetarrow.core.errors import Error
from jetarrow.core.session import run_to_completion
from jetarrow.jetstream.context import JetStreamContext
from jetarrow.workers import signals, state
from jetarrow.workers.group import core_of
from jetarrow.workers.health import HealthEndpoint
from jetarrow.workers.keeper import Keeper
from jetarrow.workers.ledger import Decision
from jetarrow.workers.plan import Plan
from jetarrow.workers.pulling import Puller
from jetarrow.workers.settlement import log
from jetarrow.workers.threads import ThreadContext, ThreadRunners

# Seconds that a request waits for messages: the stop waits for it.
_REQUEST_TIME = 0.5


class ThreadWorker(state.WorkerState):
    """As `jetarrow.workers.loop_worker.Worker`, with threads instead of an event loop."""

    def __init__(
        self, js: JetStreamContext, plan: Plan, *, tracer: Any = None, wrap: Callable[[Any], Any] | None = None
    ) -> None:
        super().__init__(core_of(js, plan, tracer=tracer, wrap=wrap), plan)
        self._context = ThreadContext(None)
        # Not an Event: a signal handler must take no lock that the interrupted code may hold.
        self._notices: queue.SimpleQueue[None] = queue.SimpleQueue()
        # A second stop ends the drain.
        self._stops = 0
        self._is_stopping = self._waits = False

    def run(self) -> None:
        """Runs until `stop`, a signal or an error; then drains."""
        with self:
            self.wait()

    def wait(self) -> None:
        """Waits for `stop`, a signal or an error."""
        while True:
            with contextlib.suppress(queue.Empty):
                # A wait without an end cannot be interrupted on Windows.
                self._notices.get(timeout=1.0)
                return

    def stop(self) -> None:
        """Begins the drain; a second call ends it. Any thread and any signal handler may call it."""
        self._stops += 1
        self._end()

    def _end(self) -> None:
        """As `stop`, for errors: several of them do not end the drain."""
        self._is_stopping = True
        self._notices.put(None)

    def __enter__(self) -> Self:
        if self._state != state.NEW:
            raise RuntimeError(f"a worker runs once, and this one is {self._state}; create another one")
        core, plan = self._core, self._plan
        self._state = state.STARTING
        self._exit = contextlib.ExitStack()
        try:
            run_to_completion(core.open())
            self._puller = Puller(core, _REQUEST_TIME, self._sleep)
            self._keeper = Keeper(core, self._wake, ends_late=True)
            self._runners = ThreadRunners(
                core,
                self._context,
                on_progress=self._on_progress,
                on_wait=self._keeper.alarm,
                on_failure=self._end,
            )
            self._room = threading.Condition(core.lock)
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
        self._pulling = threading.Thread(target=self._pull, name="jetarrow-worker-pull", daemon=True)
        self._pulling.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._is_stopping = True
        self._state = state.DRAINING
        try:
            # Ctrl-C without signals=: the program does not wait for handlers.
            self._drain(0.0 if isinstance(error, KeyboardInterrupt) else self._plan.drain_timeout)
        finally:
            self._state = state.STOPPED
            self._exit.close()
        if self._core.failure is not None and error is None:
            raise self._core.failure

    def _pull(self) -> None:
        try:
            while not self._is_stopping:
                room = self._core.room()
                if room:
                    self._settle(run_to_completion(self._puller.pull(room)))
                    self._runners.wake()
                else:
                    self._puller.alive = time.monotonic()
                    with self._room:
                        self._waits = True
                        if not self._core.ledger.room():
                            self._room.wait(0.1)
                        self._waits = False
        except Exception as error:
            self._core.fail(error)
            self._end()

    async def _sleep(self, delay: float) -> None:
        deadline = time.monotonic() + delay
        while not self._is_stopping and (left := deadline - time.monotonic()) > 0:
            time.sleep(min(left, 0.1))  # noqa: ASYNC251  # no event loop

    def _settle(self, decisions: tuple[Decision, ...]) -> None:
        if decisions:
            run_to_completion(self._core.settle(decisions, self._context))

    def _wake(self) -> None:
        self._runners.wake()

    def _on_progress(self) -> None:
        # `_pull` sets `_waits` under the lock before it looks at the room, so that no change is missed.
        if self._waits or self._state == state.DRAINING:
            with self._room:
                if self._state == state.DRAINING or self._core.ledger.room():
                    self._room.notify()

    def _drain(self, wait: float) -> None:
        core = self._core
        deadline = time.monotonic() + wait
        self._settle(core.stop())
        self._pulling.join(max(wait, _REQUEST_TIME + 1.0))
        while not self._is_drained(deadline):
            pass
        left_over = core.abandon()
        if left_over:
            log.warning("the drain ended: %d messages are returned to the server", len(left_over))
        self._settle(left_over)
        self._runners.end()
        with contextlib.suppress(Error):
            if not core.sub._closed:
                run_to_completion(core.sub.unsubscribe())
            # Acks have left when the worker ends.
            core.session.client.flush(5)

    def _is_drained(self, deadline: float) -> bool:
        """Waits for the next item; True if none is left, the time is over, or the stop was repeated."""
        with self._room:
            if self._core.is_idle or time.monotonic() >= deadline:
                return True
            # Short: a second signal is noticed within it.
            self._room.wait(min(max(deadline - time.monotonic(), 0.0), 0.1))
        return self._stops > 1
