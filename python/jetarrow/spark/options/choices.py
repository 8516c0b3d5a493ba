"""Options with a closed set of values; the first value is the default."""

from __future__ import annotations

from enum import StrEnum


class Payload(StrEnum):
    """Decoding of payloads: option `payload`."""

    BINARY = "binary"
    STRING = "string"
    JSON = "json"
    ARROW = "arrow"
    AVRO = "avro"
    PROTOBUF = "protobuf"


class HeaderValues(StrEnum):
    """Type of the values in the column `headers`: option `headers`."""

    STRING = "string"
    BINARY = "binary"


class TimestampNumbers(StrEnum):
    """Unit of numbers in timestamp fields of JSON: option `timestampNumbers`."""

    SECONDS = "seconds"
    MILLIS = "millis"
    MICROS = "micros"
    NANOS = "nanos"
    ERROR = "error"


class ReservedHeaders(StrEnum):
    """Handling of headers that only this writer may set: option `reservedHeaders`."""

    FAIL = "fail"
    DROP = "drop"


class ParseMode(StrEnum):
    """Handling of undecodable payloads: option `mode`, with the names of Spark's JSON source."""

    PERMISSIVE = "PERMISSIVE"
    DROPMALFORMED = "DROPMALFORMED"
    FAILFAST = "FAILFAST"


class Compression(StrEnum):
    """Compression of payloads: option `compression`."""

    NONE = "none"
    ZLIB = "zlib"
    ZSTD = "zstd"


class ReadMode(StrEnum):
    """Selection of messages: option `readMode`."""

    ALL = "all"
    LATEST = "latest"


class ReaderKind(StrEnum):
    """Protocol of reads: option `reader`."""

    AUTO = "auto"
    PULL = "pull"
    DIRECT = "direct"


class CommitMode(StrEnum):
    """Removal of processed messages from the server by a streaming query: option `commitMode`."""

    NONE = "none"
    PURGE = "purge"
    CONSUMER = "consumer"


class FailOnDataLoss(StrEnum):
    """Whether lost messages are an error: option `failOnDataLoss`."""

    TRUE = "true"
    FALSE = "false"
    STRICT = "strict"


class OnRecreated(StrEnum):
    """Reaction of a streaming query to a stream that was deleted and created again: option `onRecreated`."""

    FAIL = "fail"
    EARLIEST = "earliest"
    CONTINUE = "continue"


class OnRollback(StrEnum):
    """Reaction of a streaming query to a rollback of a stream behind its position: option `onRollback`."""

    FAIL = "fail"
    CONTINUE = "continue"
    EARLIEST = "earliest"


class PublishMode(StrEnum):
    """Protocol of publishing: option `publishMode`."""

    ASYNC = "async"
    FAST = "fast"
    ATOMIC = "atomic"
    AUTO = "auto"


class Dedup(StrEnum):
    """Message id of rows without a `msg_id`: option `dedup`."""

    CONTENT = "content"
    NONE = "none"


class ExactlyOnce(StrEnum):
    """Period in which rewritten rows are recognised: option `exactlyOnce`."""

    WINDOW = "window"
    STATE = "state"
