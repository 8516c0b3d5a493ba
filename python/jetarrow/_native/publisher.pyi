"""Publishing one by one, without waiting for each."""

import asyncio
from typing import final

from jetarrow._native.bridge import Bridge
from jetarrow._native.types import Headers, Payload
from jetarrow.jetstream.models import PubAck

@final
class Publisher:
    """A publish loop fed message by message, for one event loop."""

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
            subject: Where to.
            payload: What.
            headers: As they are; None is none.
            msg_id: Its id; None is none.
            timeout: Seconds until it fails without an answer; None is the publisher's.

        Returns:
            A future for its ack, or None where there is no room.

        Raises:
            BadSubjectError: The subject is not valid.
            BadHeaderError: A header is not valid.
            MaxPayloadError: The server does not take a message of this size.
        """

    def full(self) -> bool:
        """Return whether the next message has to wait."""

    def linger(self, bridge: Bridge) -> None:
        """Wait for the next answer as `Bridge.linger`, where the loop has nothing to do but `hand_over`."""

    def hand_over(self) -> None:
        """Hand over what was published in this turn of the loop."""

    def room(self, event_loop: asyncio.AbstractEventLoop) -> asyncio.Future[None]:
        """Wait for room.

        Args:
            event_loop: The loop that the future is for.

        Returns:
            A future that resolves when some message has got its answer.
        """

    @property
    def pending(self) -> int:
        """Messages that have no answer yet."""

    @property
    def pending_bytes(self) -> int:
        """Bytes of them."""

    @property
    def stored(self) -> int:
        """Messages stored so far."""

    @property
    def duplicates(self) -> int:
        """Messages so far whose id the stream knew."""

    @property
    def errors(self) -> int:
        """Messages that failed so far."""

    def take_failed(self) -> list[asyncio.Future[PubAck]]:
        """Return the futures that failed since the last call."""

class PublisherVerbs:
    """Of a `Connection`."""

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
    ) -> Publisher:
        """Make a publisher for one event loop.

        Args:
            bridge: The loop's mailbox.
            prefix: Prefix of the JetStream API.
            max_inflight: Most messages that are unanswered at once; None leaves it to the engine.
            max_bytes: Most bytes of them; None is no limit.
            spare: Where it is left to the engine, messages that may be pending however small its window is.
            timeout: Seconds until a message without an answer fails.
            by_turn: Hand the messages of one turn of the loop over together, at its end.
            keep_failed: Keep failed futures for `take_failed`.

        Returns:
            The publisher.

        Raises:
            ValueError: `max_inflight` is 0, or `timeout` is no number of seconds.
        """
