"""State of a worker, as its health endpoint reports it."""

from __future__ import annotations

import time
from typing import Any

from jetarrow.workers.core import Core
from jetarrow.workers.counters import WorkerMetrics, as_text
from jetarrow.workers.health import HealthEndpoint
from jetarrow.workers.plan import Plan
from jetarrow.workers.pulling import Puller

NEW, STARTING, RUNNING, DRAINING, STOPPED = "new", "starting", "running", "draining", "stopped"

# Seconds without a sign of life after which the puller counts as blocked; it gives one every 5 s at least.
_BLOCKED_AFTER = 30.0


class WorkerState:
    """The part of a worker that both kinds share: its properties and its report."""

    _puller: Puller

    def __init__(self, core: Core, plan: Plan) -> None:
        self._core, self._plan = core, plan
        self._state = NEW
        self._health: HealthEndpoint | None = None

    def __repr__(self) -> str:
        return f"<Worker {self._plan.durable} of stream {self._plan.stream}, {self._state}>"

    @property
    def is_running(self) -> bool:
        """Whether it requests messages."""
        return self._state == RUNNING

    @property
    def health_url(self) -> str | None:
        """Address of the health endpoint, without a path; None without one."""
        return None if self._health is None else self._health.url

    def metrics(self) -> WorkerMetrics:
        """The counters now."""
        return self._core.snapshot()

    def _report(self) -> dict[str, Any]:
        """Returns the state, the problem that makes the worker unhealthy, and the one that a restart would mend."""
        core, puller = self._core, self._puller
        silent = time.monotonic() - puller.alive
        connected = not core.session.is_closed and core.session.native.is_connected
        stuck = None
        if self._state == RUNNING and silent > _BLOCKED_AFTER:
            stuck = f"no sign of life for {silent:.0f} s: the event loop or the thread is blocked"
        problem = stuck
        if self._state != RUNNING:
            problem = f"the worker is {self._state}"
        elif not connected:
            problem = problem or "the client is not connected"
        elif core.unstored is not None:
            problem = problem or f"dead letters cannot be stored: {core.unstored}"
        elif puller.problem is not None:
            problem = problem or f"requests fail: {puller.problem}"
        metrics = core.snapshot()
        return {
            "problem": problem,
            "stuck": stuck,
            "state": self._state,
            "connected": connected,
            "stream": core.plan.stream,
            "consumer": core.plan.durable,
            "in_progress": metrics.in_progress,
            "buffered": metrics.buffered,
            "handled": metrics.handled,
        }

    def _metrics_text(self) -> str:
        """Returns the metrics in the Prometheus text format."""
        plan, is_healthy = self._plan, self._report()["problem"] is None
        return as_text(self._core.snapshot(), stream=plan.stream, consumer=plan.durable, is_healthy=is_healthy)
