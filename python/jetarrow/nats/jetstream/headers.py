"""Names and values of headers of the JetStream protocol."""

from __future__ import annotations

from typing import Final

# Atomic batches (ADR-50): id, number in the batch, and the mark of the last message, which is stored or, with "eob",
# is not.
NATS_BATCH_ID: Final[str] = "Nats-Batch-Id"
NATS_BATCH_SEQUENCE: Final[str] = "Nats-Batch-Sequence"
NATS_BATCH_COMMIT: Final[str] = "Nats-Batch-Commit"
NATS_BATCH_COMMIT_FINAL: Final[str] = "1"
NATS_BATCH_COMMIT_EOB: Final[str] = "eob"

# Scheduled messages (ADR-51): the schedule, and the subject, content, time to live and rollup of what it publishes.
NATS_SCHEDULE: Final[str] = "Nats-Schedule"
NATS_SCHEDULE_TARGET: Final[str] = "Nats-Schedule-Target"
NATS_SCHEDULE_SOURCE: Final[str] = "Nats-Schedule-Source"
NATS_SCHEDULE_TTL: Final[str] = "Nats-Schedule-TTL"
NATS_SCHEDULE_TIME_ZONE: Final[str] = "Nats-Schedule-Time-Zone"
NATS_SCHEDULE_ROLLUP: Final[str] = "Nats-Schedule-Rollup"
NATS_SCHEDULE_ROLLUP_SUB: Final[str] = "sub"

# Set by the server on what a schedule publishes: the subject of the schedule, and the time of the next message.
NATS_SCHEDULER: Final[str] = "Nats-Scheduler"
NATS_SCHEDULE_NEXT: Final[str] = "Nats-Schedule-Next"

# Schedules with a name.
NATS_SCHEDULE_YEARLY: Final[str] = "@yearly"
NATS_SCHEDULE_MONTHLY: Final[str] = "@monthly"
NATS_SCHEDULE_WEEKLY: Final[str] = "@weekly"
NATS_SCHEDULE_DAILY: Final[str] = "@daily"
NATS_SCHEDULE_HOURLY: Final[str] = "@hourly"

# The least API level of the server that stores the message.
NATS_REQUIRED_API_LEVEL: Final[str] = "Nats-Required-Api-Level"

__all__ = [
    "NATS_BATCH_COMMIT",
    "NATS_BATCH_COMMIT_EOB",
    "NATS_BATCH_COMMIT_FINAL",
    "NATS_BATCH_ID",
    "NATS_BATCH_SEQUENCE",
    "NATS_REQUIRED_API_LEVEL",
    "NATS_SCHEDULE",
    "NATS_SCHEDULER",
    "NATS_SCHEDULE_DAILY",
    "NATS_SCHEDULE_HOURLY",
    "NATS_SCHEDULE_MONTHLY",
    "NATS_SCHEDULE_NEXT",
    "NATS_SCHEDULE_ROLLUP",
    "NATS_SCHEDULE_ROLLUP_SUB",
    "NATS_SCHEDULE_SOURCE",
    "NATS_SCHEDULE_TARGET",
    "NATS_SCHEDULE_TIME_ZONE",
    "NATS_SCHEDULE_TTL",
    "NATS_SCHEDULE_WEEKLY",
    "NATS_SCHEDULE_YEARLY",
]
