"""Reads of a range of a stream."""

from collections.abc import Sequence
from typing import final

from jetarrow._native.batch import Batch
from jetarrow._native.call import Call
from jetarrow._native.loss import Loss
from jetarrow.jetstream.errors import StreamRolledBackError
from jetarrow.jetstream.read_spec import ReadOptions
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
        options: ReadOptions,
        *,
        schema: object | None,
        timeout: float | None,
    ) -> Call[Reader]:
        """Open a read of a range of a stream.

        Args:
            prefix: Prefix of the JetStream API.
            stream: The stream's name.
            options: The other options.
            schema: Any object with an Arrow schema, to decode `data` from JSON; None does not decode.
            timeout: Maximum seconds of one request to the JetStream API.

        Returns:
            A call for the reader.

        Raises:
            ValueError: A value is invalid.
            TypeError: `schema` is not a schema.
            BadSubjectError: A filter is invalid.
        """
