"""Subscriptions."""

import asyncio
from collections.abc import Callable
from typing import Any, Literal, final

from jetarrow._native.bridge import Bridge
from jetarrow._native.call import Call
from jetarrow._native.entry import Entries
from jetarrow._native.message import Msg
from jetarrow.core import message as _message
from jetarrow.core.session import Session

@final
class Missed:
    """Messages of a push consumer that are missing according to its heartbeat."""

    @property
    def seq(self) -> int:
        """Stream sequence of the last received message."""

    @property
    def consumer_seq(self) -> int:
        """Consumer sequence of the last received message."""

    @property
    def last_consumer_seq(self) -> int:
        """Consumer sequence of the last message that the server sent."""

@final
class Subscription:
    """A subscription with a bounded queue of messages."""

    def take(self, session: Session, sid: int) -> Msg | None:
        """Return the next message.

        Args:
            session: The session for the message's verbs.
            sid: The subscription's number.

        Returns:
            The message, or None if the queue is empty.
        """

    def take_entries(
        self, entries: Entries, after: int, deletes: bool, initial: int, most: int
    ) -> tuple[list[Any], int | None]:
        """Return the entries of queued messages of a key-value bucket.

        Args:
            entries: The builder of the entries.
            after: Messages up to this revision are skipped.
            deletes: Include deletion markers.
            initial: Number of the consumer's initial messages.
            most: Maximum number of entries.

        Returns:
            The entries, and the number of them that completes the initial ones; None if these are not complete.
        """

    def arrival(self, event_loop: asyncio.AbstractEventLoop, bridge: Bridge) -> asyncio.Future[None] | None:
        """Return a future that resolves at the next message or at the end. An idle loop's thread waits for it first.

        Args:
            event_loop: The running loop, of which the future is.
            bridge: Its mailbox.

        Returns:
            The future. None if there is a message or the end already, and for ordered subscriptions.
        """

    def ready(
        self, silence: float | None = None, wait: float | None = None
    ) -> Call[Literal["messages", "ended", "gap", "silent", "relinked", "late"]]:
        """Wait for a message.

        Args:
            silence: Maximum seconds without a message or heartbeat. Default: no limit.
            wait: Maximum seconds. Default: no limit.

        Returns:
            A call for the reason: "messages", "ended", "gap" (a message of an ordered subscription is missing),
            "silent", "relinked" (of an ordered subscription, once after a reconnect) or "late".
        """

    def quiet(self, silence: float) -> Call[Literal["ended", "silent", "relinked"]]:
        """Wait until nothing arrives any more. Queued messages do not matter.

        Args:
            silence: Maximum seconds without a message or heartbeat.

        Returns:
            A call for the reason, see `ready`.
        """

    def unsubscribe(self, limit: int = 0) -> None:
        """Stop accepting messages. Queued messages remain.

        Args:
            limit: Stop after this many messages. Default: now.
        """

    def end(self) -> None:
        """Stop accepting messages, also those that have been received and are not queued yet.

        `last_seq` and `marks` are final afterwards. Queued messages remain.
        """

    def drain(self, timeout: float) -> Call[None]:
        """Unsubscribe, and wait until all messages that the server had sent have arrived.

        Args:
            timeout: Maximum seconds.
        """

    def set_limits(self, messages: int, bytes: int) -> None:
        """Set the limits of messages that arrive from now on.

        Args:
            messages: Maximum number of queued messages; 0 for no limit.
            bytes: Maximum payload bytes of queued messages; 0 for no limit.
        """

    def emptied(self) -> Call[None]:
        """Wait until the queue is empty."""

    @property
    def pending_msgs(self) -> int:
        """Queued messages."""

    @property
    def pending_bytes(self) -> int:
        """Payload bytes of the queued messages."""

    @property
    def delivered(self) -> int:
        """Messages that arrived so far, with dropped ones."""

    @property
    def dropped(self) -> int:
        """Messages dropped by the limits."""

    @property
    def dropped_bytes(self) -> int:
        """Payload bytes of those messages."""

    @property
    def last_seq(self) -> int:
        """Stream sequence of the last message in order, for ordered subscriptions; 0 before the first."""

    @property
    def marks(self) -> list[tuple[int, int]]:
        """Sequence and nanoseconds of some received messages, the newest first, for ordered subscriptions."""

class SubscribeVerbs:
    """Verbs of a `Connection`."""

    def subscribe(
        self,
        subject: str,
        *,
        queue: str | None,
        pending_messages: int,
        pending_bytes: int,
        kind: str,
        msg_class: type[_message.AnyMessage],
        bridge: Bridge | None = None,
        on_notice: Callable[[int, Missed | None], object] | None = None,
    ) -> Subscription:
        """Subscribe before any later operation of the connection.

        Args:
            subject: The subject; wildcards are allowed.
            queue: The queue group, if any.
            pending_messages: Maximum queued messages; 0 for no limit.
            pending_bytes: Maximum bytes of queued messages; 0 for no limit.
            kind: "core", "push" or "ordered".
            msg_class: The class of the messages.
            bridge: The mailbox of the loop in which `on_notice` is called. Default: it is not called.
            on_notice: Called with the number of messages dropped by the limits and None, or with 0 and a `Missed`.
                Default: None.

        Returns:
            The subscription.

        Raises:
            BadSubjectError: The subject, or the name of the queue group, is invalid.
            ValueError: The kind is unknown.
        """
