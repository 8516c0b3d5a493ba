"""Fetches from a pull consumer."""

from collections.abc import Sequence
from typing import final

from jetarrow._native.batch import Batch
from jetarrow._native.call import Call
from jetarrow._native.message import Msg
from jetarrow.core.session import Session

@final
class PullSubscription:
    """A subscription to a pull consumer."""

    def fetch_batch(
        self,
        max_messages: int,
        *,
        max_bytes: int | None,
        timeout: float,
        min_messages: int,
        heartbeat: float | None,
        columns: Sequence[str] | None,
        group: tuple[str, int, int, int] | None = None,
    ) -> Call[Batch]:
        """Fetch messages as Arrow columns.

        Args:
            max_messages: Maximum number of messages.
            max_bytes: Maximum bytes; None for no limit.
            timeout: Maximum seconds.
            min_messages: Number of messages after which the fetch does not wait for more.
            heartbeat: Seconds between the server's heartbeats; None derives them from `timeout`.
            columns: Columns of the batch; None for the default ones.
            group: The priority group: name, `min_pending`, `min_ack_pending` and `priority`. Default: none.

        Returns:
            A call for the batch.

        Raises:
            ValueError: A limit or a column is invalid.
        """

    def fetch(
        self,
        session: Session,
        sid: int,
        max_messages: int,
        *,
        max_bytes: int | None,
        timeout: float,
        min_messages: int,
        heartbeat: float | None,
        group: tuple[str, int, int, int] | None = None,
    ) -> Call[list[Msg]]:
        """Fetch messages as a list.

        Args:
            session: The session for the verbs of the messages. It also has their class.
            sid: Number of the subscription.
            max_messages: As in `fetch_batch`, like the rest.
            max_bytes: Maximum bytes.
            timeout: Maximum seconds.
            min_messages: As in `fetch_batch`.
            heartbeat: Seconds between the server's heartbeats.
            group: As in `fetch_batch`. Default: none.

        Returns:
            A call for the messages.

        Raises:
            ValueError: A limit is invalid.
        """

    @property
    def ack_window(self) -> int | None:
        """The consumer's `max_ack_pending`; None if it is unknown or unlimited."""

    def limit_request(self, most: int) -> None:
        """Set the maximum number of messages of one request.

        Args:
            most: The number of messages.
        """

    def set_ack_window(self, most: int | None) -> None:
        """Set the consumer's `max_ack_pending`.

        Args:
            most: The number of messages; None for no limit.
        """

    def pin(self, group: str) -> str | None:
        """Return the server's id of this client as the one that a priority group is pinned to.

        Args:
            group: Name of the group.

        Returns:
            The id of the last message; None before the first one, and after the server has refused the id.
        """

    def set_ways(self, wants_acks: bool, headers_only: bool) -> None:
        """Set the consumer's properties.

        Args:
            wants_acks: The ack policy is not "none".
            headers_only: The consumer omits payloads.
        """

    def put_back(self, messages: Sequence[Msg]) -> Call[None]:
        """Return undelivered messages to the subscription.

        Args:
            messages: Messages of this subscription, in order.

        Returns:
            A call that naks the messages if the consumer requires acks; otherwise the next fetch returns them.
        """

    def put_back_rows(self, batch: Batch) -> Call[None]:
        """Return the messages of an undelivered batch.

        Args:
            batch: A batch of this subscription.

        Returns:
            As `put_back`.
        """

    def give_back(self) -> None:
        """Return messages that arrived too late for their call, and those that are still to arrive."""

class FetchVerbs:
    """Verbs of a `Connection`."""

    def pull_subscribe(self, prefix: str, stream: str, consumer: str) -> PullSubscription:
        """Create a subscription to a pull consumer. Sends nothing.

        Args:
            prefix: Prefix of the JetStream API.
            stream: The stream's name.
            consumer: The consumer's name.

        Returns:
            The subscription.

        Raises:
            ValueError: A name is invalid.
        """
