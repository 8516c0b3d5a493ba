"""Publishing one message or a batch to a stream."""

from collections.abc import Callable
from typing import final

from jetarrow._native.batch import Array
from jetarrow._native.call import Call
from jetarrow._native.table import TableMessages
from jetarrow._native.types import Headers, Payload
from jetarrow.jetstream.models import PubAck
from typing_extensions import CapsuleType

@final
class FailedRow:
    """A row that was not stored."""

    @property
    def row(self) -> int:
        """Number of the row, counted from `first_row`, or in the table."""

    @property
    def error(self) -> Exception:
        """The error. If its text begins with the row, it has the attributes `row` and `reason` (the rest)."""

@final
class PublishOutcome:
    """The result of every row of a batch. As an Arrow producer: columns row, seq, status and error."""

    @property
    def stream(self) -> str | None:
        """The stream that stored the rows; None if there are several, or none."""

    @property
    def count(self) -> int:
        """Rows of the batch."""

    @property
    def stored(self) -> int:
        """Rows that were stored."""

    @property
    def duplicates(self) -> int | None:
        """Rows whose id the stream already had; None if the server does not report it."""

    @property
    def seqs(self) -> Array:
        """The stream sequence of each row; null if there is none."""

    def errors(self) -> list[FailedRow]:
        """Return the rows that were not stored, in order."""

    def __arrow_c_schema__(self) -> CapsuleType: ...
    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[CapsuleType, CapsuleType]: ...

class PublishVerbs:
    """Verbs of a `Connection`."""

    def publish(
        self,
        subject: str,
        payload: Payload,
        *,
        prefix: str,
        timeout: float | None,
        headers: Headers | None = None,
    ) -> Call[PubAck]:
        """Publish one message and wait for its ack.

        Args:
            subject: The subject to publish to.
            payload: The payload.
            prefix: Prefix of the JetStream API.
            timeout: Maximum seconds.
            headers: The headers. Default: none.

        Returns:
            A call for the ack.

        Raises:
            BadSubjectError: The subject is invalid.
            BadHeaderError: A header is invalid.
            MaxPayloadError: The message exceeds the server's `max_payload`.
        """
    def publish_batch(
        self,
        subject: object,
        payloads: object,
        *,
        prefix: str,
        headers: object,
        msg_ids: object,
        msg_ttl: str | None,
        expected_stream: str | None,
        mode: str,
        max_inflight: int | None,
        max_bytes: int,
        timeout: float,
        resend: bool | None,
        progress: Callable[[int, int | None], object] | None,
        chunk: int | None = None,
        split: bool = False,
        first_row: int = 0,
        table: TableMessages | None = None,
        ignore_extra: bool = False,
    ) -> Call[PublishOutcome]:
        """Publish many messages.

        Args:
            subject: One for all rows, one per row (a sequence or an Arrow column), or None for the table's column.
            payloads: A sequence of bytes-like or str, or any object with the Arrow PyCapsule interface.
            prefix: Prefix of the JetStream API.
            headers: One dict for all rows, one per row, or None.
            msg_ids: One id (or None) per row, or None.
            msg_ttl: Time to live of the messages, in the server's format.
            expected_stream: The server rejects rows for any other stream.
            mode: "window", "fast", "atomic" or "auto".
            max_inflight: Maximum rows without an ack; None for an adaptive limit.
            max_bytes: Maximum bytes without an ack; a larger row is sent alone.
            timeout: Maximum seconds without an ack.
            resend: After a disconnect: None resends rows with an id within the stream's duplicate window, True resends
                all rows, False none.
            progress: Called with the completed rows and, if it is known, the number of rows.
            chunk: With "atomic", the rows of one batch, 1 to 1,000. Default: all rows are one batch.
            split: A rejected row leaves its chunk, which is sent again. Default: the whole chunk is rejected.
            first_row: Number of the first row, for error texts, `FailedRow.row` and `BatchError.row`. Default: 0.
            table: Messages of Arrow format, whose rows have these numbers instead. Default: None.
            ignore_extra: Ignore unknown columns of a table instead of rejecting them.

        Returns:
            A call for the result of each row.

        Raises:
            ValueError: A value is invalid. For a value of a row, the exception has the attributes `row` (its number)
                and `reason` (the text without the row).
            TypeError: A type is wrong.
            BadSubjectError: A subject is invalid.
            BadHeaderError: A header is invalid.
            MaxPayloadError: The message exceeds the server's `max_payload`.
        """
