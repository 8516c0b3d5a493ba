"""Internal names of the core that the data source uses beyond the public API. No other module here imports them."""

from __future__ import annotations

from typing import Any, TypeAlias

import jetarrow.sync
from jetarrow import _jetarrow
from jetarrow.core.errors import NoRespondersError, NoServersError, TimeoutError
from jetarrow.core.servers import RawCredentials
from jetarrow.jetstream.errors import DataLossError, ServiceUnavailableError, StreamRolledBackError
from jetarrow.jetstream.groups.partitions import partition_of
from jetarrow.jetstream.json_rules import JsonRules
from jetarrow.jetstream.models.values import checked_name
from jetarrow.jetstream.registry import SchemaRegistry, payload_schema
from jetarrow.jetstream.rollback import Mark, error_without_marks, thin
from jetarrow.jetstream.schema import PayloadSchema
from jetarrow.sync.internals import (
    check_reader,
    open_reader,
    publish_rows,
    request,
    request_each,
    verify_marks,
    witness,
)

__all__ = [
    "Batch",
    "ContentIds",
    "Decompressor",
    "JsonRules",
    "LatestReader",
    "Loss",
    "Mark",
    "PayloadSchema",
    "RangeReader",
    "RawCredentials",
    "Witness",
    "api_request",
    "check_reader",
    "error_without_marks",
    "is_name",
    "is_transient",
    "latest_schema",
    "partition_of",
    "payload_schema",
    "publish_rows",
    "reason_of",
    "request_each",
    "thin",
    "verify_marks",
    "witness",
]

# A connection, and its number of reconnects.
Witness: TypeAlias = tuple[object, int]

# Messages in Arrow columns, without the wrapper for acks.
Batch: TypeAlias = _jetarrow.Batch
# Requested messages that the stream no longer has: `stream`, `asked`, `available`, `summary`.
Loss: TypeAlias = _jetarrow.Loss
# Computes ids from the content of rows, and finds repeated ids of the user: `column(batch, subject)`.
ContentIds: TypeAlias = _jetarrow.ContentIds

# Decompresses payloads up to a limit: `rows(batch, start)` returns the next rows, and those that failed.
Decompressor: TypeAlias = _jetarrow.Decompressor


def latest_schema(registry: SchemaRegistry, subject: str, payload: str) -> str | tuple[bytes, str]:
    """Fetch the latest schema of a subject.

    Args:
        registry: The registry.
        subject: The subject.
        payload: "avro" or "protobuf".

    Returns:
        The JSON of an Avro schema, or a descriptor set and the name of its first message.

    Raises:
        SchemaRegistryError: The registry does not answer, or has no such subject.
    """
    schema, _ = registry._native.latest(subject, payload).block()
    return schema


def is_name(text: str) -> bool:
    """Return whether a text can be the name of a stream or a consumer."""
    try:
        checked_name("stream", text)
    except ValueError:
        return False
    return True


def is_transient(error: Exception) -> bool:
    """Return whether an error is transient: a server restarts, or a stream has no leader."""
    return isinstance(error, NoServersError | TimeoutError | NoRespondersError | ServiceUnavailableError)


def api_request(js: jetarrow.sync.JetStream, verb: str, body: dict[str, Any] | None = None) -> Any:
    """Send one request to JetStream's API.

    Args:
        js: The context.
        verb: The subject after the prefix, such as `STREAM.MSG.GET.ORDERS`.
        body: The request, sent as JSON. Default: an empty request.

    Returns:
        The decoded response.

    Raises:
        APIError: The response is an error.
    """
    return request(js, verb, body)


class RangeReader:
    """Reads a range of a stream as `js.read`, but returns losses as values, and batches without their wrapper.

    Args:
        js: The context.
        stream: Name of the stream.
        outage: Seconds after which an open read fails if no server responds (`reconnectTimeout`). Default: 60.
        arguments: As for `js.read`, except `on_data_loss`.

    Raises:
        NotFoundError: The stream does not exist.
    """

    def __init__(
        self, js: jetarrow.sync.JetStream, stream: str, *, outage: float | None = None, **arguments: Any
    ) -> None:
        self._outage = outage
        self._native = open_reader(js, stream, on_data_loss="warn", grow=True, outage=outage, **arguments)

    @property
    def end(self) -> int:
        """The end of the range, at most that of the stream when it was opened."""
        return self._native.end

    @property
    def created(self) -> str:
        """Creation time of the stream in the server's format."""
        return self._native.created

    def next(self) -> Batch | Loss | StreamRolledBackError | None:
        """Wait for the next batch, loss or rollback; None at the end.

        Raises:
            NotFoundError: The stream was deleted.
            StreamRecreatedError: The stream was deleted and created again.
            StreamRolledBackError: The stream was rolled back behind the read position, and `on_rollback` is "fail".
            DecodeError: A payload cannot be decoded, and the mode is FAILFAST.
            TimeoutError: No server has responded for `outage` seconds.
        """
        try:
            return self._native.next().block()
        except TimeoutError as error:
            if self._outage is None:
                raise
            raise TimeoutError(
                f"jetstream: could not continue the read: no server has answered for {self._outage:g} s; increase"
                " reconnectTimeout to wait longer"
            ) from error

    def close(self) -> None:
        """Stop reading and delete the consumer."""
        self._native.close().block()


class LatestReader(RangeReader):
    """Reads the last message of each subject as `js.latest`.

    Args:
        js: The context.
        stream: Name of the stream.
        as_of_seq: As for `js.latest`.
        arguments: As for `RangeReader`.

    Raises:
        NotFoundError: The stream does not exist.
    """

    def __init__(self, js: jetarrow.sync.JetStream, stream: str, *, as_of_seq: int | None, **arguments: Any) -> None:
        end = None if as_of_seq is None else as_of_seq + 1
        super().__init__(js, stream, end_seq=end, latest=True, deleted=False, **arguments)

    def next_batch(self) -> Batch | None:
        """Wait for the next batch; None at the end.

        Raises:
            DataLossError: The stream no longer has any of the messages.
            Exception: As `next`.
        """
        found = self.next()
        if isinstance(found, StreamRolledBackError):
            raise found
        if isinstance(found, Loss):
            raise DataLossError(found.asked, found.available, message=f"jetstream: {found.summary}")
        return found


def reason_of(error: Exception) -> str:
    """Return the reason of a row's error without the row number that it may begin with."""
    reason = getattr(error, "reason", None)
    return reason if isinstance(reason, str) else str(error).removeprefix("nats: ")
