"""Many messages at once, without a consumer (ADR-31)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import jetarrow.sync
import pytest
from jetarrow.errors import NoRespondersError
from jetarrow.js.api import RawStreamMsg
from jetarrow.js.client import JetStreamContext
from jetarrow.js.errors import APIError

from .tools import fill_subjects


@pytest.fixture
async def direct(js: JetStreamContext, stream: str) -> str:
    """A stream with a, b, a, c, b as messages 1 to 5."""
    await js.update_stream(stream, allow_direct=True)
    await fill_subjects(js, stream, "abacb")
    return stream


def seqs(found: list[RawStreamMsg]) -> list[int | None]:
    return [msg.seq for msg in found]


async def test_the_last_of_each_subject(js: JetStreamContext, direct: str) -> None:
    stream = js.stream(direct)
    found = await stream.get_last_msgs_for(f"{direct}.>")
    assert [(msg.seq, msg.subject, msg.data) for msg in found] == [
        (3, f"{direct}.a", b"3"),
        (4, f"{direct}.c", b"4"),
        (5, f"{direct}.b", b"5"),
    ]
    assert seqs(await stream.get_last_msgs_for([f"{direct}.a", f"{direct}.b"], up_to_seq=2)) == [1, 2]
    between = (await js.get_msg(direct, 3)).time
    assert between is not None
    assert seqs(await stream.get_last_msgs_for(f"{direct}.>", up_to_time=between + timedelta(microseconds=1))) == [2, 3]
    assert seqs(await stream.get_last_msgs_for(f"{direct}.>", batch=2)) == [3, 4]
    assert await js.get_last_msgs_for(direct, f"{direct}.none") == []
    with pytest.raises(ValueError, match="not both"):
        await stream.get_last_msgs_for("a", up_to_seq=1, up_to_time=datetime.now(UTC))


async def test_a_batch(js: JetStreamContext, direct: str) -> None:
    stream = js.stream(direct)
    assert seqs(await stream.get_batch(3)) == [1, 2, 3]
    assert seqs(await stream.get_batch(100, 4)) == [4, 5]
    assert seqs(await stream.get_batch(100, 2, subject=f"{direct}.b")) == [2, 5]
    assert seqs(await stream.get_batch(100, start_time=datetime.now(UTC) - timedelta(hours=1))) == [1, 2, 3, 4, 5]
    assert await js.get_batch(direct, 100, 6) == []
    await js.publish(f"{direct}.large", bytes(5000))
    assert 5 <= len(await stream.get_batch(100, max_bytes=2000)) <= 6
    with pytest.raises(ValueError, match="at least 1"):
        await stream.get_batch(0)
    with pytest.raises(ValueError, match="not both"):
        await stream.get_batch(1, 1, start_time=datetime.now(UTC))


async def test_more_than_one_answer_holds(js: JetStreamContext, direct: str) -> None:
    subjects = [f"{direct}.large.{number}" for number in range(120)]
    (await js.publish_batch(subjects, [bytes(400_000)] * 120)).raise_for_errors()
    found = await js.get_batch(direct, 1000, subject=f"{direct}.large.*")
    assert (seqs(found), sum(len(msg.data or b"") for msg in found)) == ([*range(6, 126)], 120 * 400_000)
    assert seqs(await js.get_last_msgs_for(direct, subjects)) == [*range(6, 126)]


async def test_more_subjects_than_the_server_takes(js: JetStreamContext, direct: str) -> None:
    subjects = [f"{direct}.many.{number}" for number in range(1100)]
    (await js.publish_batch(subjects, [b"x"] * 1100)).raise_for_errors()
    with pytest.raises(APIError) as info:
        await js.get_last_msgs_for(direct, f"{direct}.many.*")
    assert info.value.code == 413


async def test_nobody_answers(js: JetStreamContext, stream: str) -> None:
    with pytest.raises(NoRespondersError, match="stream 'NONE' does not exist"):
        await js.get_batch("NONE", 1)
    with pytest.raises(NoRespondersError, match="stream 'NONE' does not exist"):
        await js.get_last_msgs_for("NONE", ">")
    with pytest.raises(ValueError, match="stream"):
        await js.get_batch("two.tokens", 1)


async def test_blocking(js: JetStreamContext, sync_js: jetarrow.sync.JetStream, direct: str) -> None:
    assert seqs(sync_js.stream(direct).get_batch(2)) == seqs(sync_js.get_batch(direct, 2)) == [1, 2]
    assert seqs(sync_js.stream(direct).get_last_msgs_for(">")) == seqs(sync_js.get_last_msgs_for(direct, ">"))
