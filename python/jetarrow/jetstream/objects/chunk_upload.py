"""Upload of chunks: windowed, stored in order, and stopped by the first rejected chunk."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence

from jetarrow.jetstream.errors import Error
from jetarrow.jetstream.models import PubAck
from jetarrow.jetstream.objects.bucket import StoreContext
from jetarrow.jetstream.publisher import LoopPublisher, Publisher

# Maximum bytes without an ack: about twice the bandwidth-delay product of 350 MB/s at 45 ms.
MAX_INFLIGHT_BYTES = 32 * 1024 * 1024
# Chunks queued for the window, so that it does not run empty.
QUEUED_CHUNKS = 4
# Seconds until a chunk without an ack fails; as in `js.publisher` and `publish_batch`.
ACK_TIMEOUT = 30.0


class ChunkUpload:
    """Upload of the chunks of one object. Leaving its `async with` block waits until all of them are stored.

    Args:
        js: The context of the bucket.
        stream: The bucket's stream, which is expected in each ack.
        subject: Subject of the chunks.
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
        """Publish chunks; wait for space in the window, not for acks.

        Raises:
            Error: An earlier chunk was rejected, or stored out of order.
        """
        for chunk in chunks:
            self._acks.append(await self._publisher.publish(chunk, expected_stream=self._stream))
        while self._acks and self._acks[0].done():
            self._check_order(self._acks.popleft().result().seq)

    async def send_few(self, chunks: Sequence[bytes]) -> None:
        """Publish all chunks of a small object and wait for their acks, which needs no publisher."""
        result = await self._js.publish_batch(self._subject, chunks, expected_stream=self._stream, mode="window")
        if result.errors:
            raise result.errors[0].error
        for seq in result.seqs.to_pylist():
            self._check_order(seq or 0)

    async def wait_for_acks(self, wait: float | None = None) -> bool:
        """Wait at most `wait` seconds until no chunk is in flight; return False on timeout."""
        await self._publisher._wait_for_acks(wait)
        return not self._publisher.pending

    def _check_order(self, seq: int) -> None:
        if seq <= self._last:
            # A chunk was resent, because the stream had no leader.
            raise Error("could not put the object: its chunks were not stored in order; put it again")
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
            # The put fails with the first error; the others are only retrieved.
            for ack in self._acks:
                ack.add_done_callback(_consume_error)


def _consume_error(ack: asyncio.Future[PubAck]) -> None:
    if not ack.cancelled():
        ack.exception()
