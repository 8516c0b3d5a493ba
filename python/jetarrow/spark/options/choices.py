"""The options that take one of a few values; the first of each is its default."""

from __future__ import annotations

from enum import StrEnum


class Payload(StrEnum):
    """What becomes of a payload: option `payload`."""

    BINARY = "binary"
    STRING = "string"
    JSON = "json"
    ARROW = "arrow"


class ParseMode(StrEnum):
    """What becomes of payloads that cannot be decoded: option `mode`, with the names of Spark's own JSON source."""

    PERMISSIVE = "PERMISSIVE"
    DROPMALFORMED = "DROPMALFORMED"
    FAILFAST = "FAILFAST"


class Compression(StrEnum):
    """How payloads are compressed: option `compression`."""

    NONE = "none"
    ZLIB = "zlib"
    ZSTD = "zstd"


class ReadMode(StrEnum):
    """Which messages are read: option `readMode`."""

    ALL = "all"
    LATEST = "latest"


class ReaderKind(StrEnum):
    """How messages are fetched: option `reader`."""

    AUTO = "auto"
    PULL = "pull"
    DIRECT = "direct"


class CommitMode(StrEnum):
    """How a streaming query lets the server forget what it has processed: option `commitMode`."""

    NONE = "none"
    PURGE = "purge"
    CONSUMER = "consumer"


class FailOnDataLoss(StrEnum):
    """Whether messages that are gone are an error: option `failOnDataLoss`."""

    TRUE = "true"
    FALSE = "false"
    STRICT = "strict"


class OnRecreated(StrEnum):
    """Where a streaming query goes on when a stream was deleted and made again: option `onRecreated`."""

    FAIL = "fail"
    EARLIEST = "earliest"
    CONTINUE = "continue"


class OnRollback(StrEnum):
    """Where a streaming query goes on when its stream went back behind it: option `onRollback`."""

    FAIL = "fail"
    CONTINUE = "continue"
    EARLIEST = "earliest"


class PublishMode(StrEnum):
    """How rows are published: option `publishMode`."""

    ASYNC = "async"
    FAST = "fast"
    ATOMIC = "atomic"
    AUTO = "auto"


class Dedup(StrEnum):
    """What a row without a `msg_id` gets: option `dedup`."""

    CONTENT = "content"
    NONE = "none"


class ExactlyOnce(StrEnum):
    """For how long what a query writes again is recognised: option `exactlyOnce`."""

    WINDOW = "window"
    STATE = "state"
