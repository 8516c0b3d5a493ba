"""`js.keep_dead_letters`, `js.dead_letters`: what consumers gave up, and its replay."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import jetarrow.sync
import pytest
from jetarrow.errors import Error
from jetarrow.js.client import JetStreamContext
from jetarrow.js.errors import NotFoundError

from .tools import until, wait_until


@pytest.fixture
async def dead(js: JetStreamContext, stream: str) -> AsyncIterator[str]:
    """A stream of six messages, of which one consumer gave up 1 and 2, and another one 2 and 3 in its own words."""
    kept = await js.keep_dead_letters(stream)
    for number in range(1, 7):
        headers = {"own": f"{number}", "Nats-Expected-Stream": stream} if number == 2 else None
        await js.publish(f"{stream}.{number}", b"" if number == 1 else b"%d" % number, headers=headers)
    both = [f"{stream}.1", f"{stream}.2"]
    await js.add_consumer(stream, name="once", filter_subjects=both, max_deliver=1, ack_wait=0.2, ack_policy="explicit")
    once = js.stream(stream).consumer("once")
    taken = await once.fetch(2, timeout=5)
    assert len(taken) == 2
    strict = await js.pull_subscribe(f"{stream}.>", durable="strict")
    await until(lambda: _has(js, kept.config.name, 2, once))
    for msg in (await strict.fetch(3))[1:]:
        await msg.term(reason="no such account")
    await until(lambda: _has(js, kept.config.name, 4, once))
    yield stream
    await js.delete_stream(kept.config.name)


async def _has(js: JetStreamContext, name: str | None, count: int, consumer: Any) -> bool:
    # The server finds that a message was delivered often enough when it is asked for the next one.
    await consumer.fetch_batch(1, timeout=5, min_messages=0, max_bytes=None)
    return (await js.stream_info(name or "")).state.messages >= count


async def test_what_was_given_up(js: JetStreamContext, dead: str) -> None:
    letters = js.dead_letters(dead)
    assert repr(letters) == f"<DeadLetters of stream {dead}>"
    table = await letters.read_all()
    rows = {(row["consumer"], row["seq"]): row for row in table.to_pylist()}
    one, two, three = rows[("once", 1)], rows[("strict", 2)], rows[("strict", 3)]
    assert (one["kind"], one["reason"], one["deliveries"], one["data"]) == ("max_deliver", None, 1, b"")
    assert (two["kind"], two["reason"], two["data"]) == ("terminated", "no such account", b"2")
    assert dict(two["headers"]) == {"own": ["2"], "Nats-Expected-Stream": [dead]}
    assert rows[("once", 2)]["kind"] == "max_deliver"
    assert (three["stream"], three["subject"]) == (dead, f"{dead}.3")
    assert three["timestamp"] < three["died"]
    assert (await letters.to_polars()).height == len(await letters.to_pandas()) == table.num_rows


async def test_a_dead_letter_of_a_worker_whose_clock_is_slow(js: JetStreamContext, stream: str) -> None:
    kept = await js.keep_dead_letters(stream)
    await js.publish(f"{stream}.a", b"1")
    earlier = (datetime.now(UTC) - timedelta(seconds=5)).isoformat().replace("+00:00", "Z")
    letter = {"stream": stream, "consumer": "c", "stream_seq": 1, "deliveries": 3, "timestamp": earlier}
    subject = f"$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED.{stream}.c"
    await js.publish_batch(subject, [json.dumps(letter).encode()])
    (row,) = (await js.dead_letters(stream).read_all()).to_pylist()
    assert (row["seq"], row["data"]) == (1, b"1")
    assert len((await js.dead_letters(stream).replay()).seqs) == 1
    await js.delete_stream(kept.config.name or "")


async def test_replay(js: JetStreamContext, dead: str) -> None:
    letters = js.dead_letters(dead)
    table = await letters.read_all()
    chosen = [row for row, seq in enumerate(table["seq"].to_pylist()) if seq in (1, 2)]
    result = await letters.replay(chosen)
    # Two consumers had given the second one up.
    assert (result.count, result.stored, result.duplicates) == (2, 2, 0)
    again = await js.read(dead, start_seq=7).read_all()
    assert again.select(["subject", "data"]).to_pylist() == [
        {"subject": f"{dead}.1", "data": b""},
        {"subject": f"{dead}.2", "data": b"2"},
    ]
    assert dict(again["headers"][1].as_py())["own"] == ["2"]
    assert "Nats-Expected-Stream" not in dict(again["headers"][1].as_py())
    # All of them: those that were replayed are known.
    result = await js.dead_letters(dead).replay()
    assert result.ok
    assert result.duplicates == 2
    result = await js.dead_letters(dead).replay([row in chosen[:1] for row in range(table.num_rows)], f"{dead}.retry")
    assert (result.stored, result.duplicates) == (0, 1)
    with pytest.raises(IndexError):
        await letters.replay([table.num_rows])


async def test_what_the_stream_has_lost(js: JetStreamContext, dead: str) -> None:
    await js.delete_msg(dead, 1)
    letters = js.dead_letters(dead)
    table = await letters.read_all()
    gone = table["seq"].to_pylist().index(1)
    row = table.slice(gone, 1).to_pylist()[0]
    assert (row["data"], row["subject"], row["timestamp"], row["consumer"]) == (None, None, None, "once")
    with pytest.raises(ValueError, match=r"rows \[0\]: their messages are no longer in" if gone == 0 else "no longer"):
        await letters.replay([gone])
    await js.delete_stream(dead)
    await js.add_stream(name=dead, subjects=[f"{dead}.>"])
    await asyncio.gather(*(js.publish(f"{dead}.new", b"of a later stream") for _ in range(6)))
    letters = js.dead_letters(dead)
    # The server may have reported a message twice since.
    found = await letters.read_all()
    assert found["data"].null_count == found.num_rows >= table.num_rows
    with pytest.raises(Error, match="no row has a message"):
        await letters.replay()


async def test_nobody_keeps_them(js: JetStreamContext, stream: str) -> None:
    with pytest.raises(NotFoundError, match=r"js\.keep_dead_letters"):
        await js.dead_letters(stream).read_all()
    with pytest.raises(NotFoundError):
        await js.keep_dead_letters(f"{stream}Y")
    with pytest.raises(ValueError, match="stream"):
        js.dead_letters("a.b")


async def test_limits(js: JetStreamContext, stream: str) -> None:
    """Again it changes them."""
    await js.keep_dead_letters(stream)
    kept = await js.keep_dead_letters(stream, max_age=None, max_msgs=10)
    assert (kept.config.name, kept.config.max_msgs, kept.config.max_age or 0) == (f"{stream}_DEAD_LETTERS", 10, 0)
    assert (await js.dead_letters(stream).read_all()).num_rows == 0
    await js.delete_stream(f"{stream}_DEAD_LETTERS")


def test_without_a_loop(sync_js: jetarrow.sync.JetStream, stream: str) -> None:
    name = sync_js.keep_dead_letters(stream).config.name
    sync_js.publish(f"{stream}.a", b"x")
    (msg,) = sync_js.pull_subscribe(f"{stream}.>", durable="d").fetch(1)
    with sync_js.advisories(stream, "terminated") as events:
        msg.term()
        next(events)
    wait_until(lambda: sync_js.stream_info(name or "").state.messages == 1)
    letters = sync_js.dead_letters(stream)
    assert letters.read_all()["kind"].to_pylist() == ["terminated"]
    assert letters.replay().stored == 1
    sync_js.delete_stream(name or "")
