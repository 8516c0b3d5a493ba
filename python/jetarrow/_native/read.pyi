"""Reading a range of a stream."""

from collections.abc import Sequence
from typing import final

from jetarrow._native.batch import Batch
from jetarrow._native.call import Call
from jetarrow._native.loss import Loss
from jetarrow.jetstream.errors import StreamRolledBackError
from typing_extensions import CapsuleType

@final
class Reader:
    """Reads a range of a stream. As an Arrow producer it is the rest of the range, without losses that only warn."""

    @property
    def start(self) -> int:
        """The first sequence that is read."""

    @property
    def end(self) -> int:
        """One past the last sequence that is read."""

    @property
    def created(self) -> str:
        """When the stream was created, as the server writes it."""

    @property
    def opened(self) -> tuple[int, int] | None:
        """Sequence and nanoseconds of the stream's last message when the read was opened; None where it had none."""

    def next(self) -> Call[Batch | Loss | StreamRolledBackError | None]:
        """Read on.

        Returns:
            A call for the next batch, a loss or a stream that went back, of which is only to be warned, or None at the
            end.
        """

    def close(self) -> Call[None]:
        """Stop reading and remove the consumer."""

    def __arrow_c_schema__(self) -> CapsuleType: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> CapsuleType: ...

def thin_marks(given: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Thin marks of a position out to the few that are worth keeping, the newest first.

    Args:
        given: Sequences and nanoseconds since 1970 of messages that were seen, in any order.
    """

class ReadVerbs:
    """Of a `Connection`."""

    def verify_marks(
        self,
        prefix: str,
        stream: str,
        marks: Sequence[tuple[int, int]],
        timeout: float | None,
        extent: tuple[int, int, int | None] | None = None,
    ) -> Call[StreamRolledBackError | None]:
        """Compare messages that were seen with a stream.

        Args:
            prefix: Prefix of the JetStream API.
            stream: The stream's name.
            marks: Sequences and nanoseconds since 1970.
            timeout: Seconds that each answer may take.
            extent: The stream's first and last sequence and the time of the last message, in nanoseconds since 1970 and
                None where it is not known. Default: None, the stream is asked.

        Returns:
            A call for the error that says where they differ, or None.
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
            start_seq: First sequence; None begins with the first message.
            end_seq: One past the last sequence; None ends with the last message at opening.
            start_time: Instead of `start_seq`: the first message at or after it, in RFC 3339.
            end_time: Instead of `end_seq`, exclusive too.
            subjects: Filters; none is all.
            follow: Go on with new messages, without end.
            columns: Columns of the batches; None is the default ones.
            batch_rows: Most rows of a batch.
            batch_bytes: Most bytes of a batch.
            fetch_bytes: Most bytes outstanding at the server.
            microseconds: Timestamps in microseconds, not nanoseconds.
            warn_on_loss: A loss is an item of the reader, not an error.
            direct: By direct gets, not by a consumer; None where a consumer would take the messages away.
            schema: Decode `data` as JSON into columns of this schema, anything with an Arrow schema; None does not.
            mode: "PERMISSIVE", "DROPMALFORMED" or "FAILFAST": what becomes of payloads that cannot be decoded.
            timeout: Seconds that the answer to one question to JetStream may take.
            latest: Only the last message of each subject, as of the end.
            markers: With `latest`: deletion markers too.
            bucket: What the subjects of a key-value bucket begin with: the columns are those of its entries.
            flatten: The fields of `schema` are columns of their own.
            limit: Most rows; None is all.
            format: "arrow": with `schema` every payload is an Arrow stream with rows of these columns.
            grow: Begin with a small batch, and double up to `batch_rows` and `batch_bytes`.
            outage: Seconds for which no server may answer once it is open; None is 60.
            marks: Sequence and nanoseconds of messages that were seen before, to be compared with the stream.
            on_rollback: What to do where it went back: "fail", "continue" or "earliest".

        Returns:
            A call for the reader.

        Raises:
            ValueError: A wrong value.
            TypeError: `schema` is no schema.
            BadSubjectError: A filter is not valid.
        """
