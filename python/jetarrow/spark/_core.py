"""What Spark needs of jetarrow beyond its public API: the one module of Spark that knows the core's inner names."""

from __future__ import annotations

import re
from typing import Any, NamedTuple, TypeAlias

import jetarrow.sync
from jetarrow import _jetarrow
from jetarrow.core.errors import NoRespondersError, NoServersError, TimeoutError
from jetarrow.core.servers import RawCredentials
from jetarrow.jetstream.errors import ServiceUnavailableError
from jetarrow.jetstream.names import checked
from jetarrow.sync.embed import native_reader, request

__all__ = [
    "Batch",
    "ContentIds",
    "Loss",
    "RangeReader",
    "RawCredentials",
    "api_request",
    "is_name",
    "is_transient",
    "text_of_row_error",
]

# Messages in Arrow columns, without the wrapper that acknowledges them.
Batch: TypeAlias = _jetarrow.Batch
# Makes ids of what rows say: `ContentIds(scope)`, `column(batch, subject)`, `forget()`.
ContentIds: TypeAlias = _jetarrow.ContentIds


class Loss(NamedTuple):
    """Messages that a read asked for and that the stream no longer has.

    Attributes:
        stream: Name of the stream.
        asked: The range that was asked for: first sequence, and the one after the last.
        available: The first sequence that can still be read.
    """

    stream: str
    asked: tuple[int, int]
    available: int

    @property
    def summary(self) -> str:
        """What is gone, in one line."""
        start, end = self.asked
        return (
            f'messages {start} to {min(self.available, end) - 1} of stream "{self.stream}" are gone (retention, purge'
            f" or delete): asked for [{start}, {end}), available from {self.available}"
        )


def is_name(text: str) -> bool:
    """Whether a text can be the name of a stream or a consumer."""
    try:
        checked("stream", text)
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
        arguments: As `js.read` takes them, except `on_data_loss`.

    Raises:
        NotFoundError: There is no such stream.
    """

    def __init__(self, js: jetarrow.sync.JetStream, stream: str, **arguments: Any) -> None:
        self._stream = stream
        self._native = native_reader(js.read(stream, on_data_loss="warn", **arguments))

    @property
    def end(self) -> int:
        """The sequence that it stops before: no more than where the stream ended when it was opened."""
        return self._native.range[1]

    @property
    def created(self) -> str:
        """When the stream was created, as the server writes it."""
        return self._native.created

    def next(self) -> Batch | Loss | None:
        """Wait for the next batch, or the next loss; None at the end.

        Raises:
            NotFoundError: The stream was deleted.
            StreamRecreatedError: The stream was deleted and made again.
            DecodeError: A payload cannot be decoded, and the mode says that this is an error.
        """
        item = self._native.next().block()
        return _loss_of_warning(self._stream, item) if isinstance(item, str) else item

    def close(self) -> None:
        """Stop reading, and remove the consumer at the server."""
        self._native.close().block()


def _loss_of_warning(stream: str, text: str) -> Loss:
    """Return the values of a loss that the native reader has made a text of; goes as soon as it hands the values on."""
    found = re.search(r"asked for \[(\d+), (\d+)\), available from (\d+)", text)
    if found is None:
        raise RuntimeError(f"jetstream: not a loss: {text}")
    start, end, available = map(int, found.groups())
    return Loss(stream, (start, end), available)


def text_of_row_error(error: Exception, row: int) -> str:
    """Return what an error of a row says, with the row counted as its reader counts.

    Goes as soon as such errors carry the row beside a text without it.

    Args:
        error: Counts rows from the start of the call that published them.
        row: What to say instead.
    """
    text = re.sub(r"^row \d+: ", "", str(error).removeprefix("nats: "))
    return re.sub(r"\brow \d+", f"row {row}", text)
