"""A stream's messages in order, one by one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

from jetarrow._jetarrow import Msg
from jetarrow.jetstream.read import Reader

# What a message is made of, and how many are handed over at a time while there are many.
COLUMNS = ("subject", "headers", "data", "reply")
AT_ONCE = 4096


class OrderedConsumer:
    """All messages of a stream in order, none left out, without end. Made by `js.ordered_consumer`.

    Its consumer at the server is made anew at the next sequence whenever it is lost, so `async for` sees no gap across
    reconnects and leader changes. The messages need no acks. Each `async for` begins where the consumer was told to.
    """

    def __init__(self, read: Callable[[], Reader]) -> None:
        self._read = read

    async def __aiter__(self) -> AsyncIterator[Msg]:
        async with self._read() as reader:
            async for batch in reader:
                for msg in batch:
                    yield msg
