"""The client methods `publish`, `flush` and `rtt`."""

from __future__ import annotations

import time

from jetarrow.core.arguments import seconds
from jetarrow.core.errors import BadTimeoutError, ConnectionClosedError, TimeoutError
from jetarrow.core.session import Headers, Session

DEFAULT_FLUSH_TIMEOUT = 10.0


class Publish:
    """The methods `publish`, `flush` and `rtt` of a client."""

    _session: Session

    async def publish(
        self,
        subject: str,
        payload: bytes | str = b"",
        reply: str | None = "",
        headers: Headers | None = None,
    ) -> None:
        """Publishes a message. It is queued and sent in order; `flush` waits until the server has received it.

        Args:
            subject: The subject, without wildcards.
            payload: Bytes-like, or str, which is sent as UTF-8.
            reply: Reply subject; None or "" for no reply subject.
            headers: Value, or list of values, by header name. Line breaks in a value are replaced by spaces. The
                mapping is not changed.

        Raises:
            BadSubjectError: The subject is invalid; the message was not queued.
            BadHeaderError: A header is invalid; the message was not queued.
            MaxPayloadError: Message and headers exceed the server's `max_payload`; the message was not queued.
            OutboundBufferLimitError: The client is disconnected, and `pending_size` bytes are queued.
            ConnectionClosedError: The connection is closed.
            ConnectionDrainingError: The connection is draining.
        """
        session = self._session
        wait_for_room = session.send(subject, payload, reply, headers)
        if wait_for_room is not None:
            await session.run(wait_for_room)

    async def flush(self, timeout: float | None = DEFAULT_FLUSH_TIMEOUT) -> None:
        """Waits until the server has processed all messages sent so far (PING, PONG).

        Args:
            timeout: Maximum seconds to wait; None has no limit.

        Raises:
            FlushTimeoutError: No PONG in time, or the client was disconnected before it.
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
        """Measures the round trip time to the server, in seconds.

        Args:
            timeout: Maximum seconds to wait; None has no limit.

        Raises:
            TimeoutError: No PONG in time.
            BadTimeoutError: `timeout` is not positive.
            ConnectionClosedError: The connection is closed.
        """
        start = time.perf_counter()
        try:
            await self.flush(timeout)
        except TimeoutError as error:
            raise TimeoutError(
                f"no answer from the server within {timeout} s; retry, or pass a longer timeout="
            ) from error
        return time.perf_counter() - start
