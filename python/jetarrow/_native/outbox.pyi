"""Core messages on their way."""

import asyncio

from jetarrow._native.call import Call
from jetarrow._native.types import Headers, Payload

class OutboxVerbs:
    """Of a `Connection`."""

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
            event_loop: Messages of one turn of this loop are sent together at its end; None sends at once.
            subject: Where to.
            payload: What.
            reply: Where an answer goes; an empty string is nowhere.
            headers: Read as nats-py does: names and values are trimmed.

        Returns:
            Bytes that are queued now.

        Raises:
            BadSubjectError: `subject` or `reply` is not valid.
            MaxPayloadError: The server does not take a message of this size.
            ConnectionClosedError: The connection is closed.
            OutboundBufferLimitError: `limit` is reached.
        """
    def kick(self) -> None:
        """Send what was queued in this turn of the loop."""
    def room(self, bytes: int) -> Call[None]:
        """Wait for room in the queue, or until the link is down.

        Args:
            bytes: Most that may still be queued.
        """
    @property
    def pending_bytes(self) -> int:
        """Payload bytes of core messages that are queued."""
