"""Publishing, and waiting until the server has it."""

from __future__ import annotations

import time

from jetarrow.core.arguments import seconds
from jetarrow.core.errors import BadTimeoutError, ConnectionClosedError, TimeoutError
from jetarrow.core.session import Headers, Session

DEFAULT_FLUSH_TIMEOUT = 10.0


class Publish:
    """The verbs `publish`, `flush` and `rtt` of a client."""

    _session: Session

    async def publish(
        self,
        subject: str,
        payload: bytes | str = b"",
        reply: str | None = "",
        headers: Headers | None = None,
    ) -> None:
        """Publishes a message. It is queued, and sent in order; `flush` waits until the server has it.

        Args:
            subject: What to publish to; no wildcards.
            payload: Bytes-like, or str, which is sent as UTF-8.
            reply: Subject for answers; None or "" is none.
            headers: Name to value, or to a list of values. Line breaks in a value become spaces. The mapping is not
                changed.

        Raises:
            BadSubjectError: The subject is not valid; nothing was queued.
            BadHeaderError: A header cannot be sent; nothing was queued.
            MaxPayloadError: Larger than the server takes, headers counted; nothing was queued.
            OutboundBufferLimitError: Not connected, and more than `pending_size` bytes are queued.
            ConnectionClosedError: The connection is closed.
            ConnectionDrainingError: The connection is draining, and takes nothing new.
        """
        session = self._session
        room = session.send(subject, payload, reply, headers)
        if room is not None:
            await session.run(room)

    async def flush(self, timeout: float | None = DEFAULT_FLUSH_TIMEOUT) -> None:
        """Waits until the server has received and processed all that was sent so far.

        Args:
            timeout: Seconds; None waits as long as it takes.

        Raises:
            FlushTimeoutError: No confirmation in time, or the link broke before it.
            BadTimeoutError: `timeout` is not positive.
            ConnectionClosedError: The connection is closed.
        """
        timeout = seconds("timeout", timeout)
        if timeout is not None and not timeout > 0:
            raise BadTimeoutError
        session = self._session
        if session.is_closed:
            raise ConnectionClosedError
        await session.run(session.native.flush(timeout))

    async def rtt(self, timeout: float | None = DEFAULT_FLUSH_TIMEOUT) -> float:
        """Seconds that a round trip to the server takes.

        Args:
            timeout: Seconds; None waits as long as it takes.

        Raises:
            TimeoutError: No answer in time.
            BadTimeoutError: `timeout` is not positive.
            ConnectionClosedError: The connection is closed.
        """
        start = time.perf_counter()
        try:
            await self.flush(timeout)
        except TimeoutError as error:
            raise TimeoutError(f"no answer from the server within {timeout} s") from error
        return time.perf_counter() - start
