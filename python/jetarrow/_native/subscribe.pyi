"""Subscriptions."""

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
    """Messages of a push consumer that did not come, as its heartbeat says."""

    @property
    def seq(self) -> int:
        """Stream sequence of the last message that came."""

    @property
    def consumer_seq(self) -> int:
        """Its consumer sequence."""

    @property
    def last_consumer_seq(self) -> int:
        """Consumer sequence of the last message that the server sent."""

@final
class Subscription:
    """A subscription: messages wait in it, within limits, until they are taken."""

    def take(self, session: Session, sid: int) -> Msg | None:
        """Take the next message.

        Args:
            session: What the message's verbs go through.
            sid: The subscription's number.

        Returns:
            The message, or None where none waits.
        """

    def take_entries(
        self, entries: Entries, after: int, deletes: bool, initial: int, most: int
    ) -> tuple[list[Any], int | None]:
        """Take the entries of a key-value bucket whose messages wait.

        Args:
            entries: How they are made.
            after: Messages up to this revision are passed over.
            deletes: Markers too.
            initial: How many messages of this consumer were there at its beginning.
            most: How many entries at most.

        Returns:
            The entries, and after how many of them the initial ones are over; None where they are not.
        """

    def ready(
        self, silence: float | None = None, wait: float | None = None
    ) -> Call[Literal["messages", "ended", "gap", "silent", "relinked", "late"]]:
        """Wait for a message.

        Args:
            silence: Most seconds without a sign of life, heartbeats included. Default: no limit.
            wait: Most seconds in all. Default: no limit.

        Returns:
            A call for why the wait is over: "messages", "ended", "gap" (a message of an ordered subscription is
            missing), "silent", "relinked" (of an ordered one, once after the link broke and came back) or "late".
        """

    def quiet(self, silence: float) -> Call[Literal["ended", "silent", "relinked"]]:
        """Wait until nothing comes any more, whether anybody takes what has come, or not.

        Args:
            silence: Most seconds without a sign of life, heartbeats included.

        Returns:
            A call for what it is: see `ready`.
        """

    def unsubscribe(self, limit: int = 0) -> None:
        """Take no more messages; those that wait stay.

        Args:
            limit: Only once this many have come. Default: now.
        """

    def drain(self, timeout: float) -> Call[None]:
        """Unsubscribe, and wait until what the server had sent has come.

        Args:
            timeout: Most seconds.
        """

    def emptied(self) -> Call[None]:
        """Wait until all messages were taken."""

    @property
    def pending_msgs(self) -> int:
        """Messages that wait."""

    @property
    def pending_bytes(self) -> int:
        """Payload bytes of them."""

    @property
    def delivered(self) -> int:
        """Messages that came so far, dropped ones counted."""

    @property
    def dropped(self) -> int:
        """Messages that the limits made it drop."""

    @property
    def last_seq(self) -> int:
        """Stream sequence of the last message in order, for ordered subscriptions; 0 before the first."""

    @property
    def marks(self) -> list[tuple[int, int]]:
        """Sequence and nanoseconds of some messages that came, the newest first, for ordered subscriptions."""

class SubscribeVerbs:
    """Of a `Connection`."""

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
        """Subscribe, before all that is asked of the connection from now on.

        Args:
            subject: What to; wildcards are allowed.
            queue: The queue group, if any.
            pending_messages: Most messages that wait; 0 is no limit.
            pending_bytes: Most bytes of them; 0 is no limit.
            kind: "core", "push" or "ordered".
            msg_class: Of which class its messages are.
            bridge: The mailbox of the loop in which `on_notice` is called. Default: it is not called.
            on_notice: Called with the number of messages that the limits made it drop and None, or with 0 and what was
                missed. Default: None.

        Returns:
            The subscription.

        Raises:
            BadSubjectError: The subject, or the name of the queue group, is not valid.
            ValueError: There is no such kind.
        """
