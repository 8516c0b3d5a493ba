"""Acknowledging."""

import asyncio
from collections.abc import Iterable, Sequence

from jetarrow._native.batch import Batch
from jetarrow._native.call import Call

class AckVerbs:
    """Of a `Connection`."""

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
            delay: For a nak: seconds until the message is delivered again. Default: at once.
            reason: For a term: what the server's advisory says. Default: nothing.

        Raises:
            BadSubjectError: `reply` is not valid.
            ConnectionClosedError: The connection is closed.
            ValueError: There is no such kind, or `delay` is no number of seconds.
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
            reason: For a term. Default: nothing.
            confirm: Wait up to this many seconds for the server's word on each. Default: do not wait for it.

        Returns:
            A call that ends when all are sent, or confirmed.

        Raises:
            BadSubjectError: A reply subject is not valid.
            ValueError: There is no such kind, or a number of seconds is none.
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
        """Send one ack for each chosen row of a batch.

        Args:
            batch: Fetched messages.
            kind: As in `ack_one`, like `delay` and `reason`.
            rows: Row numbers or a mask (also an Arrow one); None is all rows.
            delay: For a nak. Default: at once.
            reason: For a term. Default: nothing.
            confirm: As in `ack`. Default: do not wait.

        Returns:
            A call that ends when all are sent, or confirmed.

        Raises:
            IndexError: There is no such row.
            ValueError: The mask has another length, or the messages were read without a consumer that takes acks.
        """
