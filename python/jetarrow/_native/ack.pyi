"""Acks."""

import asyncio
from collections.abc import Iterable, Sequence

from jetarrow._native.batch import Batch
from jetarrow._native.call import Call

class AckVerbs:
    """Verbs of a `Connection`."""

    def ack_one(
        self,
        event_loop: asyncio.AbstractEventLoop | None,
        reply: str,
        kind: str,
        *,
        delay: float | None = None,
        reason: str | None = None,
    ) -> None:
        """Queue one ack.

        Args:
            event_loop: As in `send`.
            reply: The message's reply subject.
            kind: "ack", "nak", "in_progress" or "term".
            delay: For a nak: seconds until the message is redelivered. Default: at once.
            reason: For a term: text for the server's advisory. Default: none.

        Raises:
            BadSubjectError: `reply` is invalid.
            ConnectionClosedError: The connection is closed.
            ValueError: `kind` is unknown, or `delay` is not a number of seconds.
        """
    def ack(
        self,
        replies: Sequence[str],
        kind: str,
        *,
        delay: float | None = None,
        reason: str | None = None,
        confirm: float | None = None,
    ) -> Call[None]:
        """Send one ack to each reply subject.

        Args:
            replies: Reply subjects of messages.
            kind: As in `ack_one`, like `delay` and `reason`.
            delay: For a nak. Default: at once.
            reason: For a term. Default: none.
            confirm: Wait up to this many seconds for the server's confirmation of each ack. Default: do not wait.

        Returns:
            A call that ends when all are sent, or confirmed.

        Raises:
            BadSubjectError: A reply subject is invalid.
            ValueError: `kind` is unknown, or `delay` or `confirm` is not a number of seconds.
        """
    def ack_rows(
        self,
        batch: Batch,
        kind: str,
        rows: Iterable[int] | Iterable[bool] | None,
        *,
        delay: float | None = None,
        reason: str | None = None,
        confirm: float | None = None,
    ) -> Call[None]:
        """Send one ack for each selected row of a batch.

        Args:
            batch: Fetched messages.
            kind: As in `ack_one`, like `delay` and `reason`.
            rows: Row numbers or a mask (also an Arrow one); None for all rows.
            delay: For a nak. Default: at once.
            reason: For a term. Default: none.
            confirm: As in `ack`. Default: do not wait.

        Returns:
            A call that ends when all are sent, or confirmed.

        Raises:
            IndexError: A row number is out of range.
            ValueError: The mask has another length, or the messages have no consumer that requires acks.
        """
