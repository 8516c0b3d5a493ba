"""Options of workers as a typed dictionary, for type checkers only."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypedDict

from jetarrow.jetstream.models import ConsumerConfig
from jetarrow.workers.retry import Backoff


class WorkerOptions(TypedDict, total=False):
    """Options of `jetarrow.sync.worker`, except `durable` and the handlers."""

    group: str | None
    member: str | None
    rows: int
    seconds: float
    filter: str | Sequence[str] | None
    concurrency: int
    prefetch: int | None
    max_bytes: int
    key: Callable[[Any], Hashable] | str | int | None
    retry: Backoff
    dead_letter: str | bool | None
    confirm: bool
    ack_wait: float | None
    handler_timeout: float | None
    drain_timeout: float
    signals: bool
    health: str | None
    config: ConsumerConfig | None
    update: bool
