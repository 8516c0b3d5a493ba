"""Counters: streams with `allow_msg_counter` whose messages say by how much (ADR-49)."""

from __future__ import annotations

import json

from jetarrow.jetstream.api import JetStreamApi
from jetarrow.jetstream.errors import NotFoundError
from jetarrow.jetstream.manage.messages import MessageVerbs
from jetarrow.jetstream.models.error_codes import ErrorCode
from jetarrow.jetstream.models.messages import PubAck


def value_of(ack: PubAck, subject: str) -> int:
    """The value of a counter, as the ack of an increment says it.

    Raises:
        ValueError: The ack says none.
    """
    if ack.val is None:
        raise ValueError(f"the stream {ack.stream!r} answered no value, so {subject!r} is no counter")
    return int(ack.val)


class CounterVerbs(MessageVerbs):
    """Read counters."""

    _api: JetStreamApi

    async def counter(self, stream_name: str, subject: str) -> int:
        """The value of a counter; 0 where it was never incremented. `js.increment` changes it.

        Args:
            stream_name: The stream, which has `allow_msg_counter`.
            subject: The counter.

        Raises:
            NotFoundError: There is no such stream.
            ValueError: The name is not valid, or the subject's last message is no counter's.
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
            raise ValueError(f"the last message of {subject!r} in stream {stream_name!r} is no counter's") from None
