"""Reads of a range of a stream."""

from collections.abc import Sequence
from typing import final

from jetarrow._native.batch import Batch
from jetarrow._native.call import Call
from jetarrow._native.loss import Loss
from jetarrow.jetstream.errors import StreamRolledBackError
from typing_extensions import CapsuleType

@final
class Reader:
    """A read of a range of a stream. As an Arrow producer: the rest of the range, without losses that only warn."""

    @property
    def start(self) -> int:
        """The first sequence of the range."""

    @property
    def end(self) -> int:
        """The sequence after the last one of the range."""

    @property
    def created(self) -> str:
        """The stream's creation time, as the server formats it."""

    @property
    def opened(self) -> tuple[int, int] | None:
        """Sequence and nanoseconds of the stream's last message when the read was opened; None if it had none."""

    def next(self) -> Call[Batch | Loss | StreamRolledBackError | None]:
        """Return the next item.

        Returns:
            A call for the next batch, or None at the end. It can also be a loss or a rollback that is only a warning.
        """

    def close(self) -> Call[None]:
        """Stop the read and delete the consumer."""

    def __arrow_c_schema__(self) -> CapsuleType: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> CapsuleType: ...

def thin_marks(given: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Reduce marks to those that a position needs, the newest first.

    Args:
        given: Sequences and nanoseconds since 1970 of received messages, in any order.
    """

class ReadVerbs:
    """Verbs of a `Connection`."""

    def verify_marks(
        self,
        prefix: str,
        stream: str,
        marks: Sequence[tuple[int, int]],
        timeout: float | None,
        extent: tuple[int, int, int | None] | None = None,
    ) -> Call[StreamRolledBackError | None]:
        """Compare received messages with a stream.

        Args:
            prefix: Prefix of the JetStream API.
            stream: The stream's name.
            marks: Sequences and nanoseconds since 1970.
            timeout: Maximum seconds of each request.
            extent: The stream's first and last sequence and the time of the last message, in nanoseconds since 1970 or
                None if unknown. Default: None, which requests them.

        Returns:
            A call for the error of the first difference, or None.
        """

    def read(
        self,
        prefix: str,
        stream: str,
        *,
        start_seq: int | None,
        end_seq: int | None,
        start_time: str | None,
        end_time: str | None,
        subjects: Sequence[str],
        follow: bool,
        columns: Sequence[str] | None,
        batch_rows: int,
        batch_bytes: int,
        fetch_bytes: int,
        microseconds: bool,
        warn_on_loss: bool,
        direct: bool | None,
        schema: object | None,
        mode: str,
        timeout: float | None,
        latest: bool = False,
        markers: bool = True,
        bucket: str | None = None,
        flatten: bool = False,
        limit: int | None = None,
        format: str = "json",
        grow: bool = False,
        outage: float | None = None,
        marks: Sequence[tuple[int, int]] = (),
        on_rollback: str = "fail",
    ) -> Call[Reader]:
        """Open a read of a range of a stream.

        Args:
            prefix: Prefix of the JetStream API.
            stream: The stream's name.
            start_seq: First sequence; None for the first message.
            end_seq: Sequence after the last one; None for the last message at opening.
            start_time: Instead of `start_seq`: the first message at or after it, in RFC 3339.
            end_time: Instead of `end_seq`, exclusive too.
            subjects: Subject filters; empty for all.
            follow: Continue with new messages, without end.
            columns: Columns of the batches; None for the default ones.
            batch_rows: Maximum rows of a batch.
            batch_bytes: Maximum bytes of a batch.
            fetch_bytes: Maximum bytes requested from the server at once.
            microseconds: Timestamps have microseconds, not nanoseconds.
            warn_on_loss: A loss is an item of the reader, not an error.
            direct: Use direct gets instead of a consumer. None: only if a consumer would remove messages.
            schema: Any object with an Arrow schema, to decode `data` from JSON; None does not decode.
            mode: "PERMISSIVE", "DROPMALFORMED" or "FAILFAST": handling of malformed payloads.
            timeout: Maximum seconds of one request to the JetStream API.
            latest: Only the last message of each subject before the end.
            markers: With `latest`: also deletion markers.
            bucket: Subject prefix of a key-value bucket. The columns are those of its entries.
            flatten: The fields of `schema` are top-level columns.
            limit: Maximum rows; None for all.
            format: "arrow": with `schema`, every payload is an Arrow stream with these columns.
            grow: Start with a small batch, and double it up to `batch_rows` and `batch_bytes`.
            outage: Maximum seconds without a server after opening; None for 60.
            marks: Sequence and nanoseconds of messages received before, to compare with the stream.
            on_rollback: Action if the stream was rolled back: "fail", "continue" or "earliest".

        Returns:
            A call for the reader.

        Raises:
            ValueError: A value is invalid.
            TypeError: `schema` is not a schema.
            BadSubjectError: A filter is invalid.
        """
