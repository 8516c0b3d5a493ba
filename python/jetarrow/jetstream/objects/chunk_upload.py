"""Chunks on their way: as many as the link carries, stored in their order, and none after one that was refused."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence

from jetarrow.jetstream.errors import Error
from jetarrow.jetstream.models import PubAck
from jetarrow.jetstream.objects.bucket import StoreContext
from jetarrow.jetstream.publisher import LoopPublisher, Publisher

# Most bytes that are unanswered. A link of 350 MB a second has so many on its way at a round trip of 45 ms.
MAX_INFLIGHT_BYTES = 32 * 1024 * 1024
# Chunks that may wait for the window, so that it is never short of them.
QUEUED_CHUNKS = 4
# As `js.publisher` and `publish_batch`: seconds until a chunk without an answer fails.
ACK_TIMEOUT = 30.0


class ChunkUpload:
    """The chunks of one object. Use it with `async with`: leaving the block waits until all of them are stored.

    Args:
        js: The context that the bucket works with.
        stream: The bucket's stream, which has to take them.
        subject: Theirs.
    """

    def __init__(self, js: StoreContext, stream: str, subject: str) -> None:
        self._js = js
        self._stream = stream
        self._subject = subject
        self._publisher = Publisher(js._api, self._make, subject, backpressure=True)
        self._acks: deque[asyncio.Future[PubAck]] = deque()
        self._last = 0

    def _make(self) -> LoopPublisher:
        api = self._js._api
        return LoopPublisher(
            api.session,
            prefix=api.prefix,
            max_inflight=None,
            max_bytes=MAX_INFLIGHT_BYTES,
            ack_timeout=ACK_TIMEOUT,
            spare=QUEUED_CHUNKS,
        )

    async def send(self, chunks: Sequence[bytes]) -> None:
        """Sends chunks, and waits for room only.

        Raises:
            Error: A chunk that was sent before was refused, or stored out of its order.
        """
        for chunk in chunks:
            self._acks.append(await self._publisher.publish(chunk, expected_stream=self._stream))
        while self._acks and self._acks[0].done():
            self._check_order(self._acks.popleft().result().seq)

    async def send_few(self, chunks: Sequence[bytes]) -> None:
        """Sends chunks, and waits until they are stored: with less to set up, where there are no more of them."""
        result = await self._js.publish_batch(self._subject, chunks, expected_stream=self._stream, mode="window")
        if result.errors:
            raise result.errors[0].error
        for seq in result.seqs.to_pylist():
            self._check_order(seq or 0)

    async def wait_for_acks(self, wait: float | None = None) -> bool:
        """Waits, at most `wait` seconds, until no chunk is on its way; False where some still are."""
        await self._publisher._wait_for_acks(wait)
        return not self._publisher.pending

    def _check_order(self, seq: int) -> None:
        if seq <= self._last:
            # One was sent again, because the stream had no leader for a moment.
            raise Error("chunks were not stored in the order in which they were sent: put the object again")
        self._last = seq

    async def __aenter__(self) -> ChunkUpload:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                await self._publisher.flush()
                while self._acks:
                    self._check_order(self._acks.popleft().result().seq)
        finally:
            # The put has failed with the first of them.
            for ack in self._acks:
                ack.add_done_callback(_consume_error)


def _consume_error(ack: asyncio.Future[PubAck]) -> None:
    if not ack.cancelled():
        ack.exception()
