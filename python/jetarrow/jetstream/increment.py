"""Incrementing counters (ADR-49)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jetarrow.jetstream.manage.counters import CounterVerbs, value_of
from jetarrow.jetstream.models.constants import Header
from jetarrow.jetstream.publish import PublishVerbs
from jetarrow.jetstream.server_features import require_version

if TYPE_CHECKING:
    from jetarrow.core.session import Headers


class Increment(PublishVerbs, CounterVerbs):
    """The verb `increment` of a context."""

    async def increment(
        self,
        subject: str,
        by: int = 1,
        *,
        timeout: float | None = None,
        headers: Headers | None = None,
        msg_id: str | None = None,
    ) -> int:
        """Adds to a counter: a subject of a stream with `allow_msg_counter`. Server 2.12 or later.

        Args:
            subject: The counter.
            by: How much is added; negative takes away.
            timeout: Seconds, default that of the context.
            headers: Name to value, or to a list of values. The mapping is not changed.
            msg_id: The stream counts one message per id within its duplicate window.

        Returns:
            The counter's value after it, however large; the present one where the id was counted before.

        Raises:
            BadRequestError: The stream is no counter.
            NoStreamResponseError: No stream takes the subject.
            UnsupportedError: The server is older than 2.12.
            TimeoutError: No answer in time: it may or may not be counted.
        """
        require_version(self._api, "increment", (2, 12))
        counted = {**(headers or {}), Header.INCR.value: f"{by:+d}"}
        ack = await self.publish(subject, b"", timeout, headers=counted, msg_id=msg_id)
        # Where it was counted before, the server does not say the value.
        return await self.counter(ack.stream, subject) if ack.duplicate else value_of(ack, subject)
