"""Fetching from a pull consumer."""

from collections.abc import Sequence
from typing import final

from jetarrow._native.batch import Batch
from jetarrow._native.call import Call
from jetarrow._native.message import Msg
from jetarrow.core.session import Session

@final
class PullSubscription:
    """The messages of a pull consumer, for whoever asks."""

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
            max_messages: Most messages.
            max_bytes: Most bytes; None is no limit.
            timeout: Most seconds.
            min_messages: Once this many are there it does not wait for more.
            heartbeat: Seconds between the server's signs of life; None is chosen by `timeout`.
            columns: Columns of the batch; None is the default ones.
            group: The priority group: its name, `min_pending`, `min_ack_pending` and `priority`. Default: none.

        Returns:
            A call for the batch.

        Raises:
            ValueError: A limit or a column is not valid.
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
        """Fetch messages one by one.

        Args:
            session: What their verbs go through, and which names their class.
            sid: Number of their subscription.
            max_messages: As in `fetch_batch`, like the rest.
            max_bytes: Most bytes.
            timeout: Most seconds.
            min_messages: Enough not to wait for more.
            heartbeat: Seconds between the server's signs of life.
            group: As in `fetch_batch`. Default: none.

        Returns:
            A call for the messages.

        Raises:
            ValueError: A limit is not valid.
        """

    @property
    def ack_window(self) -> int | None:
        """How many messages the consumer gives before it wants acks; None where the server has not said, or any."""

    def limit_request(self, most: int) -> None:
        """No request asks for more than this many messages.

        Args:
            most: How many.
        """

    def set_ack_window(self, most: int | None) -> None:
        """Tells what the server said of that.

        Args:
            most: Messages; None is any number.
        """

    def set_ways(self, wants_acks: bool, headers_only: bool) -> None:
        """Tells what the server said of the consumer.

        Args:
            wants_acks: Its ack policy is another one than "none".
            headers_only: It leaves payloads out.
        """

    def put_back(self, messages: Sequence[Msg]) -> Call[None]:
        """Take back messages that nobody has got.

        Args:
            messages: Messages of this subscription, in their order.

        Returns:
            A call that gives them back to the server where the consumer wants acks; otherwise the next call has them.
        """

    def put_back_rows(self, batch: Batch) -> Call[None]:
        """The same with a batch.

        Args:
            batch: A batch of this subscription.

        Returns:
            As `put_back`.
        """

    def give_back(self) -> None:
        """Give back what came too late for its call, and what is still to come."""

class FetchVerbs:
    """Of a `Connection`."""

    def pull_subscribe(self, prefix: str, stream: str, consumer: str) -> PullSubscription:
        """Make a subscription to a pull consumer. Nothing is sent.

        Args:
            prefix: Prefix of the JetStream API.
            stream: The stream's name.
            consumer: The consumer's name.

        Returns:
            The subscription.

        Raises:
            ValueError: A name is not valid.
        """
