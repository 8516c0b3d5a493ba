"""Counters: subjects of streams with `allow_msg_counter`, whose messages are increments (ADR-49)."""

from __future__ import annotations

import json

from jetarrow.jetstream.api import JetStreamApi
from jetarrow.jetstream.errors import NotFoundError
from jetarrow.jetstream.manage.messages import MessageVerbs
from jetarrow.jetstream.models.error_codes import ErrorCode
from jetarrow.jetstream.models.messages import PubAck


def value_of(ack: PubAck, subject: str) -> int:
    """The value of a counter in the ack of an increment.

    Raises:
        ValueError: The ack has no value.
    """
    if ack.val is None:
        raise ValueError(
            f"could not read counter {subject!r}: the ack of stream {ack.stream!r} has no value; check that the stream"
            " has allow_msg_counter"
        )
    return int(ack.val)


class CounterVerbs(MessageVerbs):
    """Verbs that read counters."""

    _api: JetStreamApi

    async def counter(self, stream_name: str, subject: str) -> int:
        """The value of a counter; 0 before its first increment. `js.increment` changes it.

        Args:
            stream_name: The stream, which has `allow_msg_counter`.
            subject: The counter.

        Raises:
            NotFoundError: The stream does not exist.
            ValueError: The name is invalid, or the subject's last message is not one of a counter.
        """
        try:
            found = await self.get_last_msg(stream_name, subject)
        except NotFoundError as error:
            if error.err_code != ErrorCode.NO_MESSAGE_FOUND:
                raise
            return 0
        try:
            return int(json.loads(found.data or b"")["val"])
        except (ValueError, TypeError, KeyError):
            raise ValueError(
                f"could not read counter {subject!r} of stream {stream_name!r}: the last message of the subject is not"
                " one of a counter; check the subject"
            ) from None
