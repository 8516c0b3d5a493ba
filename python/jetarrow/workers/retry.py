"""Retries of a worker's handlers: delays, attempts, and the exception that ends them."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass

from jetarrow.core.arguments import check_whole, seconds


@dataclass(frozen=True, slots=True)
class Backoff:
    """Delays between the attempts of a handler: `initial`, then `factor` times the one before, at most `maximum`.

    An attempt is a delivery, as the server counts them, or a retry in place. The count therefore survives a restart of
    the worker, and a message that a stopped worker returned has one attempt less. A message of more deliveries is
    handled once more before it is a dead letter.

    Args:
        initial: Seconds before the second attempt.
        factor: Growth of the delay per attempt.
        maximum: Most seconds of a delay, without the jitter.
        attempts: Failed attempts after which a message is a dead letter; None retries without an end.
        jitter: Largest random addition to a delay, as a fraction of it.
        max_deliveries: Deliveries above which a message is a dead letter without being handled again. It ends the
            restarts of a process that a message kills. None has no limit.

    Raises:
        ValueError: A number is out of range.
    """

    initial: float = 1.0
    factor: float = 2.0
    maximum: float = 60.0
    attempts: int | None = 5
    jitter: float = 0.1
    max_deliveries: int | None = None

    def __post_init__(self) -> None:
        check_whole(attempts=self.attempts, max_deliveries=self.max_deliveries)
        for name in ("initial", "factor", "maximum", "jitter"):
            seconds(name, getattr(self, name))
        for name, least in (("initial", 0.0), ("factor", 1.0), ("maximum", 0.0), ("jitter", 0.0)):
            value = getattr(self, name)
            if not least <= value < float("inf"):
                raise ValueError(f"{name} must be {least:g} or more and finite, not {value}")
        for name in ("attempts", "max_deliveries"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} must be 1 or more, or None, not {value}")

    def is_last(self, attempt: int) -> bool:
        """Whether no attempt follows this one; the first is 1."""
        return self.attempts is not None and attempt >= self.attempts

    def delay(self, attempt: int) -> float:
        """Seconds between this attempt and the next; the first is 1."""
        # An exponent above 1,000 overflows a float; the maximum is reached long before.
        delay = min(self.initial * self.factor ** min(attempt - 1, 64), self.maximum)
        return delay * (1.0 + random.random() * self.jitter)  # spreads load


class Reject(Exception):
    """Raised by a handler for a message that no retry can process: it becomes a dead letter at once.

    Args:
        reason: The reason, stored with the dead letter.
        rows: For a batch handler: the rejected rows, as numbers from 0. The others are handled again without them. None
            rejects the whole batch. If there is no such row, the batch has failed, as after another exception.
    """

    def __init__(self, reason: str = "rejected", rows: Iterable[int] | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.rows = None if rows is None else [int(row) for row in rows]
