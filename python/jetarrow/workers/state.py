"""State of a worker, as its health endpoint reports it."""

from __future__ import annotations

import time
from typing import Any

from jetarrow.workers.core import Core
from jetarrow.workers.counters import as_text
from jetarrow.workers.pulling import Puller

NEW, STARTING, RUNNING, DRAINING, STOPPED = "new", "starting", "running", "draining", "stopped"

# Seconds without a sign of life after which the puller counts as blocked; it gives one every 5 s at least.
_BLOCKED_AFTER = 30.0


def report(core: Core, puller: Puller, state: str) -> dict[str, Any]:
    """Returns the state, with the problem that makes the worker unhealthy, and the one that a restart would mend.

    Args:
        core: The worker.
        puller: Its requests.
        state: One of the constants of this module.
    """
    silent = time.monotonic() - puller.alive
    connected = not core.session.is_closed and core.session.native.is_connected
    stuck = None
    if state == RUNNING and silent > _BLOCKED_AFTER:
        stuck = f"no sign of life for {silent:.0f} s: the event loop or the thread is blocked"
    problem = stuck
    if state != RUNNING:
        problem = f"the worker is {state}"
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
        "state": state,
        "connected": connected,
        "stream": core.plan.stream,
        "consumer": core.plan.durable,
        "in_progress": metrics.in_progress,
        "buffered": metrics.buffered,
        "handled": metrics.handled,
    }


def metrics_text(core: Core, puller: Puller, state: str) -> str:
    """Returns the metrics in the Prometheus text format."""
    is_healthy = report(core, puller, state)["problem"] is None
    return as_text(core.snapshot(), stream=core.plan.stream, consumer=core.plan.durable, is_healthy=is_healthy)
