"""Errors of JetStream, the key-value store and the object store.

The tree, the names and the constructors are those of nats-py's `nats.js.errors`; `jetarrow.errors` lists the
additions. Errors that only jetarrow has are at the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Self

import jetarrow.core.errors as core
from jetarrow.core.error_links import add_link
from jetarrow.jetstream.api_errors import (
    _ADVICE,
    APIError,
    BadRequestError,
    ConsumerInvalidResetError,
    Error,
    NotFoundError,
    ServerError,
    ServiceUnavailableError,
)
from jetarrow.jetstream.store_errors import (
    BadBucketError,
    BadObjectMetaError,
    BucketNotFoundError,
    DigestMismatchError,
    InvalidBucketNameError,
    InvalidKeyError,
    InvalidObjectNameError,
    KeyDeletedError,
    KeyHistoryTooLargeError,
    KeyNotFoundError,
    KeyValueError,
    KeyValueLimitMarkerTTLNotSupportedError,
    KeyWrongLastSequenceError,
    LinkIsABucketError,
    LinkToLinkError,
    NoKeysError,
    ObjectAlreadyExists,
    ObjectDeletedError,
    ObjectNotFoundError,
    SinkError,
    SinkLockedError,
    SinkSchemaError,
)

__all__ = [
    "APIError",
    "BadBucketError",
    "BadObjectMetaError",
    "BadRequestError",
    "BatchError",
    "BucketNotFoundError",
    "ConsumerInvalidResetError",
    "ConsumerSequenceMismatchError",
    "DataLossError",
    "DecodeError",
    "DigestMismatchError",
    "Error",
    "FetchTimeoutError",
    "InvalidBucketNameError",
    "InvalidKeyError",
    "InvalidObjectNameError",
    "KeyDeletedError",
    "KeyHistoryTooLargeError",
    "KeyNotFoundError",
    "KeyValueError",
    "KeyValueLimitMarkerTTLNotSupportedError",
    "KeyWrongLastSequenceError",
    "LinkIsABucketError",
    "LinkToLinkError",
    "MalformedMessageError",
    "MaxAckPendingError",
    "NoKeysError",
    "NoStreamResponseError",
    "NotFoundError",
    "ObjectAlreadyExists",
    "ObjectDeletedError",
    "ObjectNotFoundError",
    "PublishUnconfirmedError",
    "ServerError",
    "ServiceUnavailableError",
    "SinkError",
    "SinkLockedError",
    "SinkSchemaError",
    "StreamRecreatedError",
    "StreamRolledBackError",
    "TooManyStalledMsgsError",
]


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class NoStreamResponseError(Error):
    """The server answered a publish with 503 No Responders: no stream stores the subject, or JetStream is disabled."""

    _default = "no response from stream: no stream stores this subject, or JetStream is disabled on the server"


class TooManyStalledMsgsError(Error):
    """The window of unacknowledged publishes was full for `wait_stall` seconds."""

    _default = (
        "stalled with too many outstanding async published messages; wait for their acks, or raise"
        " publish_async_max_pending"
    )


class FetchTimeoutError(core.TimeoutError):
    """No message arrived within the timeout of a fetch."""

    _default = "fetch timeout: no message arrived in the time allowed"


class ConsumerSequenceMismatchError(Error):
    """An idle heartbeat shows that messages of this consumer were missed.

    Args:
        stream_resume_sequence: Stream sequence from which to restart the consumer. Default: None.
        consumer_sequence: The last consumer sequence that was received. Default: None.
        last_consumer_sequence: The last consumer sequence that the server sent. Default: None.
        message: The text. Default: made of the arguments above.
    """

    def __init__(
        self,
        stream_resume_sequence: int | None = None,
        consumer_sequence: int | None = None,
        last_consumer_sequence: int | None = None,
        *,
        message: str | None = None,
    ) -> None:
        super().__init__(message)
        self.stream_resume_sequence = stream_resume_sequence
        self.consumer_sequence = consumer_sequence
        self.last_consumer_sequence = last_consumer_sequence

    def _describe(self) -> str:
        behind = ""
        if self.consumer_sequence is not None and self.last_consumer_sequence is not None:
            behind = f" ({self.last_consumer_sequence - self.consumer_sequence} behind)"
        return (
            f"sequence mismatch: messages were missed after consumer sequence {self.consumer_sequence}"
            f"{behind}; restart the consumer from stream sequence {self.stream_resume_sequence}"
        )


class PublishUnconfirmedError(Error):
    """The connection was lost before the ack arrived: the message may or may not be stored."""

    _default = (
        "the connection was lost before the ack arrived, so the message may or may not be stored; give messages an"
        " id (msg_id, msg_ids), so that they are resent without duplicates"
    )


class MaxAckPendingError(TooManyStalledMsgsError):
    """The window of unacknowledged publishes is full, and backpressure is disabled. Nothing was sent."""

    _default = (
        "too many unacknowledged publishes, so nothing was sent; wait for acks, raise max_ack_inflight (or"
        " max_inflight), or enable backpressure"
    )


class DataLossError(Error):
    """The stream no longer has messages that were requested.

    Args:
        asked: The first requested sequence, or the range (first, end). Default: None.
        available: The first sequence that the stream still has. Default: None.
        message: The text. Default: made of the two.
    """

    def __init__(
        self,
        asked: int | tuple[int, int] | None = None,
        available: int | None = None,
        *,
        message: str | None = None,
    ) -> None:
        super().__init__(message)
        self.asked = asked
        self.available = available

    def _describe(self) -> str:
        return (
            f"data loss: sequence {self.asked} was requested, but the stream starts at {self.available} now: a limit, a"
            f' purge or a delete removed earlier messages; read from {self.available}, or set on_data_loss="warn"'
        )


class StreamRecreatedError(Error):
    """The stream was deleted and created again under the same name, so earlier sequences refer to other messages."""

    _default = (
        "the stream was deleted and created again since the position was recorded, so its sequences refer to other"
        " messages; start again from its first message"
    )


class StreamRolledBackError(Error):
    """The stream was rolled back: it ends before a message that was read, or has other messages under its sequences.

    Causes are a restored older copy of the store, a replica that lost its disk, or a power failure before
    `sync_interval` had passed. (A stream that `restore_stream` created is a different one: `StreamRecreatedError`.)
    Sequences that were read refer to other messages. `on_rollback=` selects the reaction: "fail" (this error),
    "continue" after the last message that the stream still has, or "earliest". See docs/rollback.md.

    Args:
        stream: The stream. Default: unknown.
        expected: Sequence and time of the newest message that was seen and that the stream no longer has; the time is
            None if it was not recorded. Default: None.
        found: Sequence and time of the message that the stream has instead; or its last sequence and None if it ends
            before `expected`. Default: None.
        last_good: Sequence and time of the newest message that was seen and that the stream still has. Default: None,
            unknown.
        message: The text. Default: made of the arguments above.
    """

    def __init__(
        self,
        stream: str | None = None,
        expected: tuple[int, datetime | None] | None = None,
        found: tuple[int, datetime | None] | None = None,
        last_good: tuple[int, datetime] | None = None,
        *,
        message: str | None = None,
    ) -> None:
        super().__init__(message)
        self.stream = stream
        self.expected = expected
        self.found = found
        self.last_good = last_good

    @classmethod
    def of_nanoseconds(
        cls, stream: str, expected: tuple[int, int], found: tuple[int, int | None], last_good: tuple[int, int] | None
    ) -> Self:
        """Creates the error from times in nanoseconds since 1970.

        Args:
            stream: As for the class, like the rest.
            expected: With its time in nanoseconds.
            found: With its time in nanoseconds, or None.
            last_good: With its time in nanoseconds.
        """

        def at(nanos: int) -> datetime:
            return _EPOCH + timedelta(microseconds=nanos // 1000)

        seq, nanos = found
        return cls(
            stream,
            (expected[0], at(expected[1])),
            (seq, None if nanos is None else at(nanos)),
            None if last_good is None else (last_good[0], at(last_good[1])),
        )

    @property
    def summary(self) -> str:
        """The first part of the text, without the advice."""
        text = f"{'the stream' if self.stream is None else f'stream {self.stream!r}'} was rolled back"
        if self.expected is not None:
            text += f": message {_at(*self.expected)} was seen"
        if self.found is not None:
            seq, time = self.found
            text += f", and the stream ends at {seq} now" if time is None else f", and it has {_at(seq, time)} now"
        if self.last_good is not None:
            text += f"; it still has message {_at(*self.last_good)}"
        return text

    def _describe(self) -> str:
        return (
            f"{self.summary}; messages read after it are of another history: examine the server, then continue with"
            ' on_rollback="continue" (after the last message that the stream still has) or "earliest" (from its first'
            " message)"
        )


def _at(seq: int, time: datetime | None) -> str:
    return str(seq) if time is None else f"{seq} of {time:%Y-%m-%d %H:%M:%S.%f} UTC"


class DecodeError(Error):
    """A message's data does not fit the schema.

    Args:
        message: The mismatch. Default: a general text.
        seq: The message's sequence in the stream. Default: None, unknown.
        column: The column. Default: None, unknown.
    """

    _default = "the data does not fit the schema"

    def __init__(self, message: str | None = None, seq: int | None = None, column: str | None = None) -> None:
        super().__init__(message)
        self.seq = seq
        self.column = column

    def __str__(self) -> str:
        where = [f"sequence {self.seq}"] if self.seq is not None else []
        where += [f"column {self.column!r}"] if self.column is not None else []
        text = super().__str__()
        return f"{text} ({', '.join(where)})" if where else text


class MalformedMessageError(Error):
    """A message has malformed headers: bytes that are not UTF-8, an invalid name, or a line without a colon.

    The message is delivered with the headers that can be parsed, and the error callback receives this error.

    Args:
        message: The defect. Default: a general text.
        stream: The stream, if the message is stored in one. Default: None.
        seq: The message's sequence in the stream. Default: None.
        subject: The subject that it was published to. Default: None, unknown.
    """

    _default = "the headers of a message are malformed"

    def __init__(
        self,
        message: str | None = None,
        stream: str | None = None,
        seq: int | None = None,
        *,
        subject: str | None = None,
    ) -> None:
        super().__init__(message)
        self.stream = stream
        self.seq = seq
        self.subject = subject


class BatchError(Error):
    """A batch was rejected as a whole, or rows of it failed.

    Args:
        message: The text. Default: made of the other arguments.
        errors: The rows' errors. Default: none.
        code: The HTTP-like status of the server's response, if the batch was rejected. Default: None.
        err_code: The server's number of the error. Default: None.
        description: The server's text. Default: None.
        row: The row that the response refers to, from 0. Default: None.
    """

    def __init__(
        self,
        message: str | None = None,
        errors: Sequence[Any] = (),
        code: int | None = None,
        *,
        err_code: int | None = None,
        description: str | None = None,
        row: int | None = None,
    ) -> None:
        super().__init__(message)
        self.errors = list(errors)
        self.code = code
        self.err_code = err_code
        self.description = description
        self.row = row

    def _describe(self) -> str:
        if not self.errors:
            return "the batch was rejected"
        rows = "1 row" if len(self.errors) == 1 else f"{len(self.errors)} rows"
        return f"{rows} of the batch could not be published; the first: {self.errors[0]}"

    def __str__(self) -> str:
        text = super().__str__()
        if self.row is not None and f"row {self.row}" not in text:
            text += f" at row {self.row}"
        if self.code is not None or self.err_code is not None or self.description is not None:
            text += f" (code={self.code} err_code={self.err_code} description={self.description!r})"
        advice = _ADVICE.get(self.err_code or 0)
        return f"{text}; {advice}" if advice else text


# One qualified name for each error, also in tracebacks, and in pickles that outlive a release.
for _name in __all__:
    globals()[_name].__module__ = "jetarrow.js.errors"
    add_link(globals()[_name])
