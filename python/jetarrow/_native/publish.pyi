"""Publishing to a stream: one message, or a batch."""

from collections.abc import Callable
from typing import final

from jetarrow._native.batch import Array
from jetarrow._native.call import Call
from jetarrow._native.types import Headers, Payload
from jetarrow.jetstream.models import PubAck
from typing_extensions import CapsuleType

@final
class FailedRow:
    """A row that was not stored."""

    @property
    def row(self) -> int:
        """Its number, counted from `first_row`."""

    @property
    def error(self) -> Exception:
        """Why. Where the text begins with the row, it has the attributes `row` and `reason` (the text without it)."""

@final
class PublishOutcome:
    """What became of every row of a batch. As an Arrow producer: columns row, seq, status and error."""

    @property
    def stream(self) -> str | None:
        """The stream that took the rows; None where there were several, or none."""

    @property
    def count(self) -> int:
        """Rows given."""

    @property
    def stored(self) -> int:
        """Rows that were stored."""

    @property
    def duplicates(self) -> int | None:
        """Rows whose id the stream knew; None where the server does not say."""

    @property
    def seqs(self) -> Array:
        """The stream sequence of each row; null where there is none."""

    def errors(self) -> list[FailedRow]:
        """Return the rows that were not stored, in order."""

    def __arrow_c_schema__(self) -> CapsuleType: ...
    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[CapsuleType, CapsuleType]: ...

class PublishVerbs:
    """Of a `Connection`."""

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
            subject: Where to.
            payload: What.
            prefix: First tokens of the API's subjects.
            timeout: Most seconds.
            headers: As they are. Default: none.

        Returns:
            A call for the ack.

        Raises:
            BadSubjectError: The subject is not valid.
            BadHeaderError: A header is not valid.
            MaxPayloadError: The server does not take a message of this size.
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
        first_row: int = 0,
        ignore_extra: bool = False,
    ) -> Call[PublishOutcome]:
        """Publish many messages.

        Args:
            subject: One for all rows, one per row (a sequence or an Arrow column), or None: the table has it.
            payloads: A sequence of bytes-like or str, or anything with the Arrow PyCapsule interface.
            prefix: Prefix of the JetStream API.
            headers: One dict for all rows, one per row, or None.
            msg_ids: One id (or None) per row, or None.
            msg_ttl: How long the messages are kept, as the server reads it.
            expected_stream: Refuse rows that another stream would take.
            mode: "window", "fast", "atomic" or "auto".
            max_inflight: Most rows that are unanswered at once; None leaves it to the engine.
            max_bytes: Most bytes of them; a larger row goes alone.
            timeout: Seconds that the server may be silent.
            resend: After a lost link: None sends rows with an id again within the stream's duplicate window, a bool
                forces it either way.
            progress: Called with rows done and, where it is known, rows in all.
            first_row: The number of the first row. All errors count rows from here: in their texts, in
                `FailedRow.row` and in `BatchError.row`. Default: 0.
            ignore_extra: Columns of a table that mean nothing here are left out, instead of refused.

        Returns:
            A call for what became of each row.

        Raises:
            ValueError: A wrong value; in a row, the exception has the attributes `row` (its number) and `reason` (the
                text without the row).
            TypeError: A wrong type.
            BadSubjectError: A subject is not valid.
            BadHeaderError: A header is not valid.
            MaxPayloadError: The server does not take a message of this size.
        """
