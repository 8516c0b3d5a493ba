"""Errors of JetStream, the key-value store and the object store.

The tree, the names and the constructors are those of nats-py's `nats.js.errors`; `jetarrow.errors` lists the
additions. Errors that only jetarrow has are at the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jetarrow.core.errors as core
from jetarrow.core.error_links import add_link
from jetarrow.jetstream.api_errors import (
    APIError,
    BadRequestError,
    ConsumerExistsError,
    ConsumerInvalidResetError,
    ConsumerNotFoundError,
    Error,
    JetStreamNotEnabledError,
    MessageNotFoundError,
    MessageTooLargeError,
    NotFoundError,
    ServerError,
    ServiceUnavailableError,
    StreamExistsError,
    StreamFullError,
    StreamNotFoundError,
    SubjectOverlapError,
    TooManyRequestsError,
    WrongLastSequenceError,
)
from jetarrow.jetstream.group_errors import (
    GroupChangedError,
    GroupConfigError,
    GroupError,
    GroupMemberError,
    GroupNotFoundError,
    GroupPinLostError,
)
from jetarrow.jetstream.pipe_errors import PipeError, PipeFencedError, PipePositionLostError, PipeReplayError
from jetarrow.jetstream.position_errors import DataLossError, StreamRecreatedError, StreamRolledBackError
from jetarrow.jetstream.remedies import remedy_of
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
    ResumeError,
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
    "ConsumerExistsError",
    "ConsumerInvalidResetError",
    "ConsumerNotFoundError",
    "ConsumerSequenceMismatchError",
    "DataLossError",
    "DecodeError",
    "DigestMismatchError",
    "Error",
    "FetchTimeoutError",
    "GroupChangedError",
    "GroupConfigError",
    "GroupError",
    "GroupMemberError",
    "GroupNotFoundError",
    "GroupPinLostError",
    "InvalidBucketNameError",
    "InvalidKeyError",
    "InvalidObjectNameError",
    "JetStreamNotEnabledError",
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
    "MessageNotFoundError",
    "MessageTooLargeError",
    "NoKeysError",
    "NoStreamResponseError",
    "NotFoundError",
    "ObjectAlreadyExists",
    "ObjectDeletedError",
    "ObjectNotFoundError",
    "PipeError",
    "PipeFencedError",
    "PipePositionLostError",
    "PipeReplayError",
    "PublishUnconfirmedError",
    "ResumeError",
    "SchemaRegistryError",
    "ServerError",
    "ServiceUnavailableError",
    "SinkError",
    "SinkLockedError",
    "SinkSchemaError",
    "StreamExistsError",
    "StreamFullError",
    "StreamNotFoundError",
    "StreamRecreatedError",
    "StreamRolledBackError",
    "SubjectOverlapError",
    "TooManyRequestsError",
    "TooManyStalledMsgsError",
    "WrongLastSequenceError",
]


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


class SchemaRegistryError(Error):
    """A schema registry does not answer, or refuses.

    A payload whose schema the registry does not have, or whose schema does not fit, is malformed instead.

    Args:
        message: The address, the schema, and the cause. Default: a general text.
        url: The registry's address. Default: None, unknown.
        schema_id: Id of the schema. Default: None, if it is about another one.
        status: HTTP status of the answer. Default: None, without one.
        code: The registry's `error_code`. Default: None, without one.
    """

    _default = "the schema registry cannot be used"

    def __init__(
        self,
        message: str | None = None,
        *,
        url: str | None = None,
        schema_id: int | None = None,
        status: int | None = None,
        code: int | None = None,
    ) -> None:
        super().__init__(message)
        self.url = url
        self.schema_id = schema_id
        self.status = status
        self.code = code


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
        stream: The stream, if the server names it. Default: None.
    """

    # A class attribute, because errors pickled by an older version lack it.
    stream: str | None = None

    def __init__(
        self,
        message: str | None = None,
        errors: Sequence[Any] = (),
        code: int | None = None,
        *,
        err_code: int | None = None,
        description: str | None = None,
        row: int | None = None,
        stream: str | None = None,
    ) -> None:
        super().__init__(message)
        self.stream = stream
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
            named = "" if self.stream is None else f" stream={self.stream!r}"
            text += f" (code={self.code} err_code={self.err_code} description={self.description!r}{named})"
        remedy = remedy_of(self.err_code, self.description)
        return f"{text}; {remedy}" if remedy else text


# One qualified name for each error, also in tracebacks, and in pickles that outlive a release.
for _name in __all__:
    globals()[_name].__module__ = "jetarrow.js.errors"
    add_link(globals()[_name])
