"""The outbox of core messages."""

import asyncio

from jetarrow._native.call import Call
from jetarrow._native.types import Headers, Payload

class OutboxVerbs:
    """Verbs of a `Connection`."""

    def send(
        self,
        event_loop: asyncio.AbstractEventLoop | None,
        subject: str,
        payload: Payload,
        reply: str | None,
        headers: Headers | None,
    ) -> int:
        """Queue one message.

        Args:
            event_loop: Messages of one iteration of this loop are sent together at its end; None sends at once.
            subject: The subject to publish to.
            payload: The payload.
            reply: The reply subject; an empty string for none.
            headers: Names and values are trimmed, as in nats-py.

        Returns:
            Bytes that are queued.

        Raises:
            BadSubjectError: `subject` or `reply` is invalid.
            MaxPayloadError: The message exceeds the server's `max_payload`.
            ConnectionClosedError: The connection is closed.
            OutboundBufferLimitError: The client is disconnected, and `pending_size` bytes are queued.
        """
    def kick(self) -> None:
        """Flush the messages of this iteration of the loop."""
    def room(self, bytes: int) -> Call[None]:
        """Wait for room in the queue, or until the connection is lost.

        Args:
            bytes: Maximum bytes that may remain queued.
        """
    @property
    def pending_bytes(self) -> int:
        """Bytes of the queued messages, with subjects and headers."""
