"""A stream's messages in order, one by one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from datetime import datetime

from jetarrow._jetarrow import Msg
from jetarrow.jetstream.read import Read, Reader

# What a message is made of, and how many are handed over at a time while there are many.
COLUMNS = ("subject", "headers", "data", "reply")
BURST_ROWS = 4096


class OrderedConsumer:
    """All messages of a stream in order, none left out, without end. Made by `js.ordered_consumer`.

    Its consumer at the server is recreated at the next sequence whenever it is lost, so `async for` sees no gap across
    reconnects and leader changes. The messages need no acks. Each `async for` begins at the start that was given.
    """

    def __init__(self, read: Callable[[], Reader], stream: str) -> None:
        self._read = read
        self._stream = stream

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of stream {self._stream}>"

    async def __aiter__(self) -> AsyncIterator[Msg]:
        async with self._read() as reader:
            async for batch in reader:
                for msg in batch:
                    yield msg


class Order(Read):
    """The verb `ordered_consumer` of a context."""

    def ordered_consumer(
        self,
        stream: str,
        subjects: str | Sequence[str] | None = None,
        *,
        start_seq: int | None = None,
        start_time: datetime | str | None = None,
    ) -> OrderedConsumer:
        """A stream's messages in order, one by one and without end: `async for msg in js.ordered_consumer("S")`.

        Args:
            stream: The stream.
            subjects: Filters, one or several that do not overlap; None is all.
            start_seq: First sequence; None is the first there is.
            start_time: Instead of a sequence: the first message at or after this time.

        Raises:
            DataLossError: While it is iterated: retention or a purge took messages before they were read.
            StreamRecreatedError: While it is iterated: the stream was deleted and created again.
            NotFoundError: While it is iterated: there is no such stream.
        """

        def read() -> Reader:
            return self.read(
                stream,
                subjects=subjects,
                start_seq=start_seq,
                start_time=start_time,
                columns=COLUMNS,
                batch_rows=BURST_ROWS,
                follow=True,
            )

        return OrderedConsumer(read, stream)
