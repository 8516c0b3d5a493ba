"""Reply subjects are reused, because a server caches them; a second ack of a message is ignored."""

from __future__ import annotations

import json
from collections.abc import Callable

import jetarrow
import pytest
from jetarrow.jetstream.context import JetStreamContext

ROWS, WINDOW = 40_000, 300
# Consecutive in-order acks before reply subjects are reused.
FIRM = 512

Answer = Callable[[str, int], object]


class Second:
    """A second subscriber to a stream's subjects that acknowledges too: when a reply subject is used again, it
    acknowledges many messages at once, whose reply subjects belong to other rows by then."""

    PAUSE, AT_ONCE = 4_000, range(-3 * WINDOW, -2 * WINDOW)

    def __init__(self, nc: jetarrow.Client, stream: str, answer: Answer) -> None:
        self.nc, self.stream, self.answer = nc, stream, answer
        self.replies: list[str] = []
        self.known: set[str] = set()
        self.due = self.PAUSE

    async def heard(self, msg: jetarrow.Msg) -> None:
        is_used_again = msg.reply in self.known
        self.known.add(msg.reply)
        self.replies.append(msg.reply)
        if is_used_again and len(self.replies) >= self.due:
            self.due = len(self.replies) + self.PAUSE
            for back in self.AT_ONCE:
                row = len(self.replies) + back
                await self.nc.publish(self.replies[row], json.dumps(self.answer(self.stream, row)).encode())


async def publish_beside(url: str, js: JetStreamContext, stream: str, answer: Answer, **how: object) -> list[int]:
    """Sequences of the rows."""
    async with await jetarrow.connect(url) as other:
        second = Second(other, stream, answer)
        sub = await other.subscribe(f"{stream}.>", cb=second.heard)
        await other.flush()
        rows = [b"%d" % row for row in range(ROWS)]
        result = await js.publish_batch(f"{stream}.a", rows, max_inflight=WINDOW, timeout=30, **how)  # type: ignore[arg-type]
        result.raise_for_errors()
        await sub.drain()
        assert second.due > Second.PAUSE, "no reply subject was used again: this proves nothing"
        return [int(seq) for seq in result.seqs]


async def test_reply_subjects_are_reused_after_ordered_acks(js: JetStreamContext, nats_url: str, stream: str) -> None:
    async with await jetarrow.connect(nats_url) as other:
        sub = await other.subscribe(f"{stream}.>")
        await other.flush()
        (await js.publish_batch(f"{stream}.a", [b"x"] * ROWS, max_inflight=WINDOW)).raise_for_errors()
        replies = [(await sub.next_msg(timeout=10)).reply for _ in range(ROWS)]
    # The first messages have new ones, and so have messages after a time with nothing in flight.
    assert FIRM <= len(set(replies)) < ROWS / 2


def twice(stream: str, row: int) -> object:
    """For example, the old and the new leader acknowledge a message."""
    return {"stream": stream, "seq": row + 1}


def of_another_stream(stream: str, row: int) -> object:
    """For example, a stream of another domain stores the same subjects."""
    return {"stream": "ELSEWHERE", "domain": "leaf", "seq": row + 1}


def junk(stream: str, row: int) -> object:
    """For example, a service subscribes to the subject."""
    return "I heard it too"


@pytest.mark.parametrize("with_ids", [False, True])
@pytest.mark.parametrize("answer", [twice, of_another_stream, junk])
async def test_second_ack_resolves_no_other_row(
    js: JetStreamContext, nats_url: str, stream: str, answer: Answer, with_ids: bool
) -> None:
    ids = {"msg_ids": [f"id{row}" for row in range(ROWS)]} if with_ids else {}
    seqs = await publish_beside(nats_url, js, stream, answer, **ids)
    assert seqs == list(range(1, ROWS + 1))
    assert (await js.stream_info(stream)).state.messages == ROWS
