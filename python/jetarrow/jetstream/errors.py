"""Errors of JetStream, the key-value store and the object store.

The tree, the names and the constructors are those of nats-py's `nats.js.errors`; see `jetarrow.errors`
for what is added. Errors that only jetarrow has are at the end.
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
    """A publish was answered by nobody: no stream takes the subject, or JetStream is off."""

    _default = "no response from stream: no stream takes this subject, or the server has JetStream switched off"


class TooManyStalledMsgsError(Error):
    """The window of unacknowledged publishes stayed full for `wait_stall` seconds."""

    _default = (
        "stalled with too many outstanding async published messages; wait for their acks, or raise"
        " publish_async_max_pending"
    )


class FetchTimeoutError(core.TimeoutError):
    """No message came in the time that a fetch was given."""

    _default = "fetch timeout: no message arrived in the time allowed"


class ConsumerSequenceMismatchError(Error):
    """An idle heartbeat shows that messages of this consumer have been missed.

    Args:
        stream_resume_sequence: Where in the stream to start the consumer again. Default: None.
        consumer_sequence: The consumer sequence that was received. Default: None.
        last_consumer_sequence: The consumer sequence that the server has sent. Default: None.
        message: What happened. Default: a text made of the above.
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
    """The connection went away before the ack came: the message may be stored or not."""

    _default = (
        "the connection was lost before the ack came, so the message may or may not be stored; messages with"
        " an id (msg_id, msg_ids) are sent again without making duplicates"
    )


class MaxAckPendingError(TooManyStalledMsgsError):
    """The window of unacknowledged publishes is full and waiting is switched off. Nothing was sent."""

    _default = (
        "too many unacknowledged publishes, so nothing was sent; wait for acks, raise max_ack_inflight (or"
        " max_inflight), or switch backpressure on"
    )


class DataLossError(Error):
    """The stream no longer holds messages that were asked for.

    Args:
        asked: The first sequence asked for, or the range (first, end). Default: None.
        available: The first sequence that the stream still has. Default: None.
        message: What happened. Default: a text made of the two.
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
            f"data loss: sequence {self.asked} was asked for, but the stream starts at {self.available} now:"
            " a limit, a purge or a delete has removed what was before; read from there, or allow it with"
            ' on_data_loss="warn"'
        )


class StreamRecreatedError(Error):
    """The stream was deleted and made again under the same name, so old sequences mean nothing in it."""

    _default = (
        "the stream was deleted and created again since the position was taken, so its sequences mean other"
        " messages now; start over from its beginning"
    )


class StreamRolledBackError(Error):
    """The stream has less than it had, or other messages under the same sequences: its server went back.

    An older copy of its store was put back, a replica lost its disk, or a power failure came before `sync_interval`. (A
        stream that `restore_stream` made is another one: `StreamRecreatedError`.) Sequences that were read mean other
    messages now. `on_rollback=` decides what becomes of a position: "fail" (this error), "continue" behind the last
    message that is still there, or "earliest". See docs/rollback.md.

    Args:
        stream: The stream. Default: unknown.
        expected: Sequence and time of the newest message that was seen and is not there any more; its time is None
            where it was not kept. Default: None.
        found: What the stream has: the sequence and time of another message, or its last sequence and None where it
            ends before. Default: None.
        last_good: Sequence and time of the newest message that was seen and is still there. Default: None, not known.
        message: What happened. Default: a text made of the above.
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
        """The same of times in nanoseconds since 1970.

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
        """What happened, without what can be done."""
        text = f"{'the stream' if self.stream is None else f'stream {self.stream!r}'} went back"
        if self.expected is not None:
            text += f": message {_at(*self.expected)} was seen"
        if self.found is not None:
            seq, time = self.found
            text += f", and the stream ends at {seq} now" if time is None else f", and there is {_at(seq, time)} now"
        if self.last_good is not None:
            text += f"; message {_at(*self.last_good)} is still there"
        return text

    def _describe(self) -> str:
        return (
            f"{self.summary}; what was read after it is another history: look into the server, then go on with"
            ' on_rollback="continue" (behind the last message that is still there) or "earliest" (from the beginning)'
        )


def _at(seq: int, time: datetime | None) -> str:
    return str(seq) if time is None else f"{seq} of {time:%Y-%m-%d %H:%M:%S.%f} UTC"


class DecodeError(Error):
    """A message's data does not fit the schema.

    Args:
        message: What does not fit. Default: a general text.
        seq: The message's sequence in the stream. Default: None, not known.
        column: The column. Default: None, not known.
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
    """A message has headers that are none: bytes that are not UTF-8, a bad name, a line without a colon.

    It is handed out all the same, with its headers as far as they can be read, and the error callback gets this.

    Args:
        message: What is wrong. Default: a general text.
        stream: The stream, where it is of one. Default: None.
        seq: The message's sequence in the stream. Default: None.
        subject: What it was published to. Default: None, not known.
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
    """A batch was refused as a whole, or rows of it failed.

    Args:
        message: What happened. Default: a text made of the rest.
        errors: The rows' errors. Default: none.
        code: The HTTP-like status of the server's answer, where the batch was refused. Default: None.
        err_code: The server's number for exactly this error. Default: None.
        description: The server's own words. Default: None.
        row: The row that the answer is about, from 0. Default: None.
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
            return "the batch was refused"
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


# One address for every error, wherever it is written: in tracebacks, and in pickles that outlive a release.
for _name in __all__:
    globals()[_name].__module__ = "jetarrow.js.errors"
    add_link(globals()[_name])
