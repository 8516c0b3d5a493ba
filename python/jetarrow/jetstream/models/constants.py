"""Names and numbers of the JetStream API."""

# Choice, Duration and the like are descriptors, not shared mutable defaults

from __future__ import annotations

from enum import StrEnum

DEFAULT_PREFIX = "$JS.API"
INBOX_PREFIX = b"_INBOX."

# Most messages and bytes that a push subscription buffers.
DEFAULT_JS_SUB_PENDING_MSGS_LIMIT = 512 * 1024
DEFAULT_JS_SUB_PENDING_BYTES_LIMIT = 256 * 1024 * 1024

DELIVER_ALL = "all"
DELIVER_LAST = "last"
DELIVER_NEW = "new"
DELIVER_BY_START_SEQUENCE = "by_start_sequence"
DELIVER_BY_START_TIME = "by_start_time"
DELIVER_LAST_PER_SUBJECT = "last_per_subject"

ACK_NONE = "none"
ACK_ALL = "all"
ACK_EXPLICIT = "explicit"

REPLAY_INSTANT = "instant"
REPLAY_ORIGINAL = "original"

# Values of Header.SCHEDULE; others are cron expressions, "@every 5m" and "@at <time>".
SCHEDULE_YEARLY = "@yearly"
SCHEDULE_MONTHLY = "@monthly"
SCHEDULE_WEEKLY = "@weekly"
SCHEDULE_DAILY = "@daily"
SCHEDULE_HOURLY = "@hourly"


class Header(StrEnum):
    """Names of the headers that JetStream reads or writes."""

    BATCH_COMMIT = "Nats-Batch-Commit"
    BATCH_ID = "Nats-Batch-Id"
    BATCH_SEQUENCE = "Nats-Batch-Sequence"
    CONSUMER_STALLED = "Nats-Consumer-Stalled"
    COUNTER_SOURCES = "Nats-Counter-Sources"
    DESCRIPTION = "Description"
    EXPECTED_LAST_MSG_ID = "Nats-Expected-Last-Msg-Id"
    EXPECTED_LAST_SEQUENCE = "Nats-Expected-Last-Sequence"
    EXPECTED_LAST_SUBJECT_SEQUENCE = "Nats-Expected-Last-Subject-Sequence"
    EXPECTED_LAST_SUBJECT_SEQUENCE_SUBJECT = "Nats-Expected-Last-Subject-Sequence-Subject"
    EXPECTED_STREAM = "Nats-Expected-Stream"
    INCR = "Nats-Incr"
    LAST_CONSUMER = "Nats-Last-Consumer"
    LAST_SEQUENCE = "Nats-Last-Sequence"
    LAST_STREAM = "Nats-Last-Stream"
    MARKER_REASON = "Nats-Marker-Reason"
    MSG_ID = "Nats-Msg-Id"
    MSG_SIZE = "Nats-Msg-Size"
    MSG_TTL = "Nats-TTL"
    NUM_PENDING = "Nats-Num-Pending"
    PENDING_BYTES = "Nats-Pending-Bytes"
    PENDING_MESSAGES = "Nats-Pending-Messages"
    PIN_ID = "Nats-Pin-Id"
    REQUIRED_API_LEVEL = "Nats-Required-Api-Level"
    ROLLUP = "Nats-Rollup"
    SCHEDULE = "Nats-Schedule"
    SCHEDULE_NEXT = "Nats-Schedule-Next"
    SCHEDULE_ROLLUP = "Nats-Schedule-Rollup"
    SCHEDULE_SOURCE = "Nats-Schedule-Source"
    SCHEDULE_TARGET = "Nats-Schedule-Target"
    SCHEDULE_TIME_ZONE = "Nats-Schedule-Time-Zone"
    SCHEDULE_TTL = "Nats-Schedule-TTL"
    SCHEDULER = "Nats-Scheduler"
    SEQUENCE = "Nats-Sequence"
    STATUS = "Status"
    STREAM = "Nats-Stream"
    STREAM_SOURCE = "Nats-Stream-Source"
    SUBJECT = "Nats-Subject"
    TIME_STAMP = "Nats-Time-Stamp"
    UP_TO_SEQUENCE = "Nats-UpTo-Sequence"


class StatusCode(StrEnum):
    """Values of the `Status` header."""

    SERVICE_UNAVAILABLE = "503"
    NO_MESSAGES = "404"
    REQUEST_TIMEOUT = "408"
    CONFLICT = "409"
    CONTROL_MESSAGE = "100"
