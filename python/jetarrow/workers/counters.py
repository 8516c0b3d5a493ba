"""Counters of a worker."""

from __future__ import annotations

from dataclasses import dataclass

from jetarrow.core.http_endpoint import family, labels

# Field, help, and whether it only grows.
_METRICS = (
    ("handled", "Messages that a handler processed.", True),
    ("failed", "Calls of handlers that raised an exception.", True),
    ("retried", "Messages that were given another attempt.", True),
    ("dead", "Messages that became dead letters.", True),
    ("returned", "Messages that the stop returned to the server.", True),
    ("duplicates", "Redeliveries of messages that were held already.", True),
    ("unstored", "Failed attempts to store a dead letter.", True),
    ("in_progress", "Messages that handlers process.", False),
    ("buffered", "Messages that wait for a handler.", False),
    ("handler_seconds", "Seconds that handlers ran, together.", True),
)


@dataclass(slots=True)
class WorkerMetrics:
    """Counts of a worker since its start.

    Attributes:
        handled: Messages that a handler processed.
        failed: Calls of handlers that raised an exception.
        retried: Messages that were given another attempt.
        dead: Messages that became dead letters.
        returned: Messages that the stop returned to the server.
        duplicates: Redeliveries of messages that were held already.
        unstored: Failed attempts to store a dead letter.
        in_progress: Messages that handlers process.
        buffered: Messages that wait for a handler.
        handler_seconds: Seconds that handlers ran, together.
    """

    handled: int = 0
    failed: int = 0
    retried: int = 0
    dead: int = 0
    returned: int = 0
    duplicates: int = 0
    unstored: int = 0
    in_progress: int = 0
    buffered: int = 0
    handler_seconds: float = 0.0


def as_text(metrics: WorkerMetrics, *, stream: str, consumer: str, is_healthy: bool) -> str:
    """Returns metrics in the Prometheus text format."""
    where = labels(stream=stream, consumer=consumer)
    lines = [
        *family("jetarrow_worker_healthy", "1 if the worker is healthy."),
        f"jetarrow_worker_healthy{where} {int(is_healthy)}",
    ]
    for name, text, grows in _METRICS:
        full = f"jetarrow_worker_{name}{'_total' if grows else ''}"
        lines += [*family(full, text, "counter" if grows else "gauge"), f"{full}{where} {getattr(metrics, name)}"]
    return "\n".join(lines) + "\n"
