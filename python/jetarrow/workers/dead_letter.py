"""Dead letters of a worker, stored before their messages are ended."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from jetarrow.core.errors import Error
from jetarrow.jetstream import models
from jetarrow.jetstream.advisory_rows import ADVISORY_SUBJECT
from jetarrow.jetstream.context import JetStreamContext
from jetarrow.jetstream.dead_letters import dead_letter_stream
from jetarrow.jetstream.errors import NotFoundError
from jetarrow.jetstream.not_found import expect_not_found
from jetarrow.workers.ledger import Item

# Most characters of a reason: an advisory is a small message.
MAX_REASON = 1000
_HEADER = "Jetarrow-Dead-Letter-"


class DeadLetterStore:
    """Stores dead letters as `js.dead_letters` reads them, or copies of the messages on a subject.

    Args:
        js: The async context.
        stream: The stream of the messages.
        consumer: Their consumer.
        target: True for `<stream>_DEAD_LETTERS`, a subject for copies, None or False to store nothing.
    """

    def __init__(self, js: JetStreamContext, stream: str, consumer: str, target: str | bool | None) -> None:
        self._js, self._stream, self._consumer = js, stream, consumer
        self._target = target or None

    @property
    def final_ack(self) -> str:
        """Kind of the ack that ends a stored message.

        The stored advisory is the record; the server's advisory of a term would be a second one.
        """
        return "ack" if self._target is True else "term"

    async def prepare(self, filters: list[str]) -> None:
        """Creates `<stream>_DEAD_LETTERS` if it does not exist, or checks the subject.

        Raises:
            ValueError: The messages would be lost, or handled again as dead letters.
            NotFoundError: No stream stores the subject.
        """
        js, stream, target = self._js, self._stream, self._target
        if target is True:
            config = (await js.stream_info(stream)).config
            if config.retention not in (None, models.RetentionPolicy.LIMITS):
                raise ValueError(
                    f"dead letters of stream {stream!r} would lose their messages: its retention is"
                    f" {getattr(config.retention, 'value', config.retention)}, so a settled message is deleted;"
                    " pass dead_letter= with a subject of another stream, which stores copies"
                )
            try:
                with expect_not_found():
                    await js.stream_info(dead_letter_stream(stream))
            except NotFoundError:
                await js.keep_dead_letters(stream)
        elif target:
            found = await js.find_stream_name_by_subject(str(target))
            if found == stream and (not filters or any(matches(one, str(target)) for one in filters)):
                raise ValueError(
                    f"dead_letter subject {target!r} is one that the worker receives itself, from stream {stream!r};"
                    " use a subject of another stream"
                )

    async def store(self, item: Item, reason: str) -> None:
        """Stores all rows of an item; each is confirmed by the server.

        Raises:
            Error: A row could not be stored.
        """
        if self._target is None:
            return
        batched = len(item.seqs) > 1 or (item.deliveries is not None and not hasattr(item.message, "reply"))
        rows = [item.message[row] for row in range(len(item.seqs))] if batched else [item.message]
        write = self._advisory if self._target is True else self._copy
        made = [
            write(message, seq, attempt, reason[:MAX_REASON])
            for message, seq, attempt in zip(rows, item.seqs, item.attempts, strict=True)
        ]
        subject = f"{ADVISORY_SUBJECT}.MSG_TERMINATED.{self._stream}.{self._consumer}"
        result = await self._js.publish_batch(
            subject if self._target is True else str(self._target),
            [payload for payload, _ in made],
            headers=[headers for _, headers in made],
            msg_ids=[
                f"dead:{self._stream}:{self._consumer}:{seq}:{attempt}"
                for seq, attempt in zip(item.seqs, item.attempts, strict=True)
            ],
        )
        if not result.ok:
            raise result.errors[0] if isinstance(result.errors[0], Error) else Error(str(result.errors[0]))

    def _advisory(self, message: Any, seq: int, attempt: int, reason: str) -> tuple[bytes, None]:
        """The server's advisory of a terminated message, with the number of attempts as deliveries."""
        advisory = {
            "type": "io.nats.jetstream.advisory.v1.terminated",
            "id": f"{self._consumer}-{seq}-{attempt}",
            "timestamp": datetime.now(UTC).isoformat().replace("+00:00", "Z"),
            "stream": self._stream,
            "consumer": self._consumer,
            "consumer_seq": getattr(message.metadata.sequence, "consumer", 0) if message.reply else 0,
            "stream_seq": seq,
            "deliveries": attempt,
            "reason": reason,
        }
        return json.dumps(advisory).encode(), None

    def _copy(self, message: Any, seq: int, attempt: int, reason: str) -> tuple[bytes, dict[str, list[str]]]:
        """The message's data and headers, with headers for its origin and the reason."""
        kept = {
            name: values
            for name, values in (message.headers_all or {}).items()
            if not name.lower().startswith("nats-") and not name.startswith(_HEADER)
        }
        origin = {
            "Stream": self._stream,
            "Consumer": self._consumer,
            "Seq": str(seq),
            "Subject": message.subject,
            "Deliveries": str(attempt),
            # A header has one line.
            "Reason": " ".join(reason.split()),
        }
        return message.data, {**kept, **{f"{_HEADER}{name}": [value] for name, value in origin.items()}}


def matches(pattern: str, subject: str) -> bool:
    """Whether a subject matches a filter, which may have wildcards."""
    wanted, tokens = pattern.split("."), subject.split(".")
    for number, token in enumerate(wanted):
        if token == ">":
            return len(tokens) > number
        if number >= len(tokens) or token not in ("*", tokens[number]):
            return False
    return len(wanted) == len(tokens)
