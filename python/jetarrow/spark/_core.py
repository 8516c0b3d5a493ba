"""What Spark needs of jetarrow beyond its public API: the one module of Spark that knows the core's inner names."""

from __future__ import annotations

from typing import Any, TypeAlias

import jetarrow.sync
from jetarrow import _jetarrow
from jetarrow.core.errors import NoRespondersError, NoServersError, TimeoutError
from jetarrow.core.servers import RawCredentials
from jetarrow.jetstream.errors import DataLossError, ServiceUnavailableError, StreamRolledBackError
from jetarrow.jetstream.models.values import checked_name
from jetarrow.jetstream.rollback import Mark, error_without_marks, thin
from jetarrow.jetstream.schema import PayloadSchema
from jetarrow.sync.internals import open_reader, publish_rows, request, request_each, verify_marks, witness

__all__ = [
    "Batch",
    "ContentIds",
    "Decompressor",
    "LatestReader",
    "Loss",
    "Mark",
    "PayloadSchema",
    "RangeReader",
    "RawCredentials",
    "Witness",
    "api_request",
    "error_without_marks",
    "is_name",
    "is_transient",
    "publish_rows",
    "reason_of",
    "request_each",
    "thin",
    "verify_marks",
    "witness",
]

# A link, and how often it broke.
Witness: TypeAlias = tuple[object, int]

# Messages in Arrow columns, without the wrapper that acknowledges them.
Batch: TypeAlias = _jetarrow.Batch
# Messages that a read asked for and that are gone: `stream`, `asked`, `available`, `summary`.
Loss: TypeAlias = _jetarrow.Loss
# Makes ids of what rows say, and finds equal ones among their own: `column(batch, subject)`, `forget()`.
ContentIds: TypeAlias = _jetarrow.ContentIds

# Decompresses payloads, with a limit: `rows(batch, start)` gives the next rows, and those that stayed as they were.
Decompressor: TypeAlias = _jetarrow.Decompressor


def is_name(text: str) -> bool:
    """Whether a text can be the name of a stream or a consumer."""
    try:
        checked_name("stream", text)
    except ValueError:
        return False
    return True


def is_transient(error: Exception) -> bool:
    """Whether an error passes by itself: a server restarts, or a stream has no leader at the moment."""
    return isinstance(error, NoServersError | TimeoutError | NoRespondersError | ServiceUnavailableError)


def api_request(js: jetarrow.sync.JetStream, verb: str, body: dict[str, Any] | None = None) -> Any:
    """Send one request to JetStream's API.

    Args:
        js: Where to send it.
        verb: The subject after the prefix, such as `STREAM.MSG.GET.ORDERS`.
        body: What is sent as JSON. Default: an empty request.

    Returns:
        The decoded answer.

    Raises:
        APIError: The server's answer is an error.
    """
    return request(js, verb, body)


class RangeReader:
    """Reads a range of a stream as `js.read`, but hands out losses as values, and batches without their wrapper.

    Args:
        js: Where to read.
        stream: Name of the stream.
        outage: Seconds for which no server may answer once it is open, as `reconnectTimeout` says. Default: 60.
        arguments: As `js.read` takes them, except `on_data_loss`.

    Raises:
        NotFoundError: There is no such stream.
    """

    def __init__(
        self, js: jetarrow.sync.JetStream, stream: str, *, outage: float | None = None, **arguments: Any
    ) -> None:
        self._outage = outage
        self._native = open_reader(js, stream, on_data_loss="warn", grow=True, outage=outage, **arguments)

    @property
    def end(self) -> int:
        """The sequence that it stops before: no more than where the stream ended when it was opened."""
        return self._native.end

    @property
    def created(self) -> str:
        """When the stream was created, as the server writes it."""
        return self._native.created

    def next(self) -> Batch | Loss | StreamRolledBackError | None:
        """Wait for the next batch, the next loss, or word that the stream went back and is read on; None at the end.

        Raises:
            NotFoundError: The stream was deleted.
            StreamRecreatedError: The stream was deleted and made again.
            StreamRolledBackError: It went back behind what was read of it, and `on_rollback` is "fail".
            DecodeError: A payload cannot be decoded, and the mode says that this is an error.
            TimeoutError: No server has answered for as long as `outage` says.
        """
        try:
            return self._native.next().block()
        except TimeoutError as error:
            if self._outage is None:
                raise
            raise TimeoutError(
                f"jetstream: no server has answered for {self._outage:g} s in the middle of a read; with a larger"
                " reconnectTimeout it waits for longer"
            ) from error

    def close(self) -> None:
        """Stop reading, and remove the consumer at the server."""
        self._native.close().block()


class LatestReader(RangeReader):
    """Reads the last message of each subject as `js.latest`.

    Args:
        js: Where to read.
        stream: Name of the stream.
        as_of_seq: As `js.latest` takes it.
        arguments: As `RangeReader` takes them.

    Raises:
        NotFoundError: There is no such stream.
    """

    def __init__(self, js: jetarrow.sync.JetStream, stream: str, *, as_of_seq: int | None, **arguments: Any) -> None:
        end = None if as_of_seq is None else as_of_seq + 1
        super().__init__(js, stream, end_seq=end, latest=True, deleted=False, **arguments)

    def next_batch(self) -> Batch | None:
        """Wait for the next batch; None at the end.

        Raises:
            DataLossError: All of the messages that count are gone.
            Exception: As `next`.
        """
        found = self.next()
        if isinstance(found, StreamRolledBackError):
            raise found
        if isinstance(found, Loss):
            raise DataLossError(found.asked, found.available, message=f"jetstream: {found.summary}")
        return found


def reason_of(error: Exception) -> str:
    """What an error of a row says, without the row's number where it begins with that."""
    reason = getattr(error, "reason", None)
    return reason if isinstance(reason, str) else str(error).removeprefix("nats: ")
