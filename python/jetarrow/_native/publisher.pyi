"""Publishing of single messages without waiting for each ack."""

import asyncio
from typing import final

from jetarrow._native.bridge import Bridge
from jetarrow._native.types import Headers, Payload
from jetarrow.jetstream.models import PubAck

@final
class Publisher:
    """A publish loop for single messages of one event loop."""

    def publish(
        self,
        event_loop: asyncio.AbstractEventLoop,
        subject: str,
        payload: Payload,
        headers: Headers | None,
        msg_id: str | None,
        timeout: float | None,
    ) -> asyncio.Future[PubAck] | None:
        """Queue one message.

        Args:
            event_loop: The loop that the future is for.
            subject: The subject to publish to.
            payload: The payload.
            headers: The headers; None for none.
            msg_id: The message id; None for none.
            timeout: Seconds after which a message without an ack fails; None for the publisher's timeout.

        Returns:
            A future for the ack, or None if there is no room.

        Raises:
            BadSubjectError: The subject is invalid.
            BadHeaderError: A header is invalid.
            MaxPayloadError: The message exceeds the server's `max_payload`.
        """

    def full(self) -> bool:
        """Return whether the next message has to wait."""

    def linger(self, bridge: Bridge) -> None:
        """Wait for the next ack as `Bridge.linger`, if the loop has no work other than `hand_over`."""

    def hand_over(self) -> None:
        """Send the messages of this iteration of the loop."""

    def room(self, event_loop: asyncio.AbstractEventLoop) -> asyncio.Future[None]:
        """Wait for room.

        Args:
            event_loop: The loop that the future is for.

        Returns:
            A future that resolves when a message gets its ack or error.
        """

    @property
    def pending(self) -> int:
        """Messages without an ack."""

    @property
    def pending_bytes(self) -> int:
        """Bytes of the messages without an ack."""

    @property
    def stored(self) -> int:
        """Messages stored so far."""

    @property
    def duplicates(self) -> int:
        """Messages so far whose id the stream already had."""

    @property
    def errors(self) -> int:
        """Messages that failed so far."""

    def take_failed(self) -> list[asyncio.Future[PubAck]]:
        """Return the futures that failed since the last call."""

class PublisherVerbs:
    """Verbs of a `Connection`."""

    def publisher(
        self,
        bridge: Bridge,
        *,
        prefix: str,
        max_inflight: int | None,
        max_bytes: int | None,
        spare: int,
        timeout: float,
        by_turn: bool,
        keep_failed: bool,
        durable: bool,
    ) -> Publisher:
        """Create a publisher for one event loop.

        Args:
            bridge: The loop's mailbox.
            prefix: Prefix of the JetStream API.
            max_inflight: Maximum messages without an ack; None for an adaptive limit.
            max_bytes: Maximum bytes without an ack; None for no limit.
            spare: With an adaptive limit: messages that may wait, however small the limit is.
            timeout: Seconds after which a message without an ack fails.
            by_turn: Send the messages of one iteration of the loop together, at its end.
            keep_failed: Keep failed futures for `take_failed`.
            durable: Store the messages that wait in atomic batches.

        Returns:
            The publisher.

        Raises:
            ValueError: `max_inflight` is 0, or `timeout` is not a number of seconds.
        """
