"""Rows in flight together share reply subjects, as a server answers faster to few; still each has its own result."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from itertools import pairwise

import jetarrow
import jetarrow.sync
import pyarrow as pa
import pytest
from jetarrow import errors
from jetarrow.jetstream.context import JetStreamContext
from jetarrow.jetstream.errors import NoStreamResponseError, PublishUnconfirmedError
from jetarrow.jetstream.outcome import PublishResult
from jetarrow.server import NatsServer

ROWS, WINDOW = 40_000, 4_000
# So many may have one reply subject, and so many answers as they should be come before any have.
MOST_SHARED, FIRM = 32, 1_024


def numbered(count: int = ROWS) -> list[bytes]:
    return [b"%d" % row for row in range(count)]


async def failures(js: JetStreamContext, stream: str, result: PublishResult, rows: list[bytes]) -> dict[int, Exception]:
    """Of each row that is not stored. All others are where the result says, and the stream has nothing else."""
    failed = {error.row: error.error for error in result.errors}
    said = {seq: rows[row] for row, seq in enumerate(result.seqs.to_pylist()) if row not in failed}
    assert len(said) == len(rows) - len(failed)
    held: dict[int, bytes] = {}
    async with js.read(stream) as reader:
        async for batch in reader:
            held.update(zip(batch.seqs.to_pylist(), batch.to_pyarrow().column("data").to_pylist(), strict=True))
    assert said == held
    return failed


async def test_reply_subjects_are_shared(js: JetStreamContext, nats_url: str, stream: str) -> None:
    rows = numbered()
    async with await jetarrow.connect(nats_url) as other:
        sub = await other.subscribe(f"{stream}.>")
        await other.flush()
        result = await js.publish_batch(f"{stream}.a", rows, max_inflight=WINDOW)
        replies = [(await sub.next_msg(timeout=10)).reply for _ in rows]
    assert not await failures(js, stream, result, rows)
    # By neighbours; and of the last tens of thousands of rows there are a few hundred.
    assert sum(reply == before for before, reply in pairwise(replies)) > ROWS / 4
    assert len(set(replies)) < FIRM + WINDOW + 2_000 < ROWS / 4
    assert result.seqs.to_pylist() == list(range(1, ROWS + 1))


async def test_with_little_time_nothing_is_shared(js: JetStreamContext, nats_url: str, stream: str) -> None:
    """There is none to find out about an answer that is missing."""
    async with await jetarrow.connect(nats_url) as other:
        sub = await other.subscribe(f"{stream}.>")
        await other.flush()
        # Where the machine stands still for so long the rest of the rows is not sent.
        result = await js.publish_batch(f"{stream}.a", numbered(), max_inflight=WINDOW, timeout=1.9)
        replies = [(await sub.next_msg(timeout=10)).reply for _ in range(result.stored)]
    assert len(replies) > WINDOW + FIRM, "too few for any to be shared: this proves nothing"
    assert all(reply != before for before, reply in pairwise(replies))


@pytest.mark.parametrize("with_ids", [False, True])
async def test_a_stream_that_fills(js: JetStreamContext, stream: str, with_ids: bool) -> None:
    most = 25_007
    await js.update_stream((await js.stream_info(stream)).config.evolve(max_msgs=most, discard="new"))
    rows = numbered()
    ids = {"msg_ids": [f"id{row}" for row in range(ROWS)]} if with_ids else {}
    result = await js.publish_batch(f"{stream}.a", rows, max_inflight=WINDOW, **ids)
    failed = await failures(js, stream, result, rows)
    assert list(failed) == list(range(most, ROWS))
    assert {error.err_code for error in failed.values()} == {10077}  # type: ignore[attr-defined]


async def test_rows_that_are_refused_among_others(js: JetStreamContext, stream: str) -> None:
    """Too large for the stream; at places that hit groups at their begin, middle and end, and several of one group."""
    await js.update_stream((await js.stream_info(stream)).config.evolve(max_msg_size=100))
    bad = {row for row in range(ROWS) if row % 1_999 < 1 or row % 2_503 in (7, 9, 10)}
    rows = [bytes(101) if row in bad else b"%d" % row for row in range(ROWS)]
    result = await js.publish_batch(f"{stream}.a", rows, max_inflight=WINDOW)
    failed = await failures(js, stream, result, rows)
    assert set(failed) == bad
    assert {error.err_code for error in failed.values()} == {10054}  # type: ignore[attr-defined]


async def test_rows_that_nobody_takes_among_others(js: JetStreamContext, stream: str) -> None:
    bad = {row for row in range(ROWS) if row % 3_001 == 0}
    rows = numbered()
    subjects = [f"nobody.{stream}" if row in bad else f"{stream}.{row % 7}" for row in range(ROWS)]
    result = await js.publish_batch(subjects, rows, max_inflight=WINDOW)
    failed = await failures(js, stream, result, rows)
    assert set(failed) == bad
    assert {type(error) for error in failed.values()} == {NoStreamResponseError}


async def test_a_stream_that_is_away_for_a_moment(nc: jetarrow.Client, js: JetStreamContext, stream: str) -> None:
    """What nobody took is sent again, before all that was published after it."""
    config = (await js.stream_info(stream)).config
    begun, back = asyncio.Event(), threading.Event()
    given = 0

    async def away() -> None:
        await begun.wait()
        await js.update_stream(config.evolve(subjects=[f"{stream}.elsewhere"]))
        # What was on its way has met nobody after the first, and what was sent before that was known after the second.
        await nc.flush()
        await nc.flush()
        await js.update_stream(config)
        back.set()

    def blocks() -> Iterator[pa.RecordBatch]:
        nonlocal given
        after = 10
        while after > 0:
            yield pa.record_batch({"data": [b"%d" % row for row in range(given, given + 1_000)]})
            given += 1_000
            after -= back.is_set()

    def progress(done: int, total: int | None) -> None:
        if done > 2 * WINDOW:
            begun.set()

    leaving = asyncio.ensure_future(away())
    reader = pa.RecordBatchReader.from_batches(pa.schema({"data": pa.binary()}), blocks())
    result = await js.publish_batch(f"{stream}.a", reader, max_inflight=WINDOW, timeout=30, progress=progress)
    await leaving
    assert not await failures(js, stream, result, numbered(given))
    assert result.seqs.to_pylist() == list(range(1, given + 1))


async def test_duplicates_among_others(js: JetStreamContext, stream: str) -> None:
    """Rows with the id of an earlier one, near and far, and of one that somebody published before."""
    await js.publish(f"{stream}.a", b"before", headers={"Nats-Msg-Id": "before"})
    same = {row: row - row % 5_000 for row in range(2_003, ROWS, 1_777)}
    ids = [f"id{same.get(row, row)}" for row in range(ROWS)]
    ids[31_000] = "before"
    rows = numbered()
    result = await js.publish_batch(f"{stream}.a", rows, msg_ids=ids, max_inflight=WINDOW)
    result.raise_for_errors()
    seqs = result.seqs.to_pylist()
    assert result.duplicates == len(same) + 1
    first = {id: seqs[row] for row, id in reversed(list(enumerate(ids)))}
    first["before"] = 1
    assert seqs == [first[id] for id in ids]


@pytest.mark.parametrize("every", [2_777, 499, 97])
async def test_rows_of_two_streams(js: JetStreamContext, nats_url: str, stream: str, every: int) -> None:
    """Runs of one stream with single rows of another, whose acks come before or after those of their neighbours."""
    other = f"{stream}other"
    await js.add_stream(name=other, subjects=[f"{other}.>"])
    rows = numbered()
    elsewhere = {row for row in range(ROWS) if row % every == 96 or row % (7 * every) == 50}
    subjects = [f"{other}.a" if row in elsewhere else f"{stream}.a" for row in range(ROWS)]
    result = await js.publish_batch(subjects, rows, max_inflight=WINDOW)
    await js.delete_stream(other)
    result.raise_for_errors()
    seqs = result.seqs.to_pylist()
    assert [seqs[row] for row in sorted(elsewhere)] == list(range(1, len(elsewhere) + 1))
    rest = [seq for row, seq in enumerate(seqs) if row not in elsewhere]
    assert rest == list(range(1, len(rest) + 1))


@pytest.mark.parametrize("with_ids", [False, True])
async def test_rows_without_an_answer(js: JetStreamContext, nats_url: str, stream: str, with_ids: bool) -> None:
    """Somebody hears them and says nothing: they have no result in time, and only they."""
    rows = numbered()
    deaf = {row for row in range(20_000, ROWS) if row % 53 in (0, 1, 30)}
    subjects = [f"deaf.{stream}" if row in deaf else f"{stream}.a" for row in range(ROWS)]
    ids = {"msg_ids": [f"id{row}" for row in range(ROWS)]} if with_ids else {}
    async with await jetarrow.connect(nats_url) as other:
        await other.subscribe(f"deaf.{stream}", cb=ignore)
        await other.flush()
        result = await js.publish_batch(subjects, rows, max_inflight=WINDOW, timeout=2, **ids)
    failed = await failures(js, stream, result, rows)
    assert set(failed) == deaf
    assert {type(error) for error in failed.values()} == {errors.TimeoutError}


async def ignore(msg: jetarrow.Msg) -> None:
    pass


async def test_a_stream_that_may_not_be_asked() -> None:
    """Which rows of a group it stored before it was full only the stream knows: none of them is said to be stored."""
    config = """
    authorization { users = [
        { user: admin, password: a }
        { user: p, password: p, permissions: { publish: ["full.>"], subscribe: ["_INBOX.>"] } }
    ] }
    """
    most, told = 25_007, []

    async def tell(error: Exception) -> None:
        told.append(error)

    with NatsServer(config=config) as server:
        async with (
            await jetarrow.connect(server.url, user="admin", password="a") as admin,
            await jetarrow.connect(server.url, user="p", password="p", error_cb=tell) as nc,
        ):
            # Where a group ends just there, nothing is unclear: that is no proof.
            for _ in range(5):
                await admin.jetstream().add_stream(name="FULL", subjects=["full.>"], max_msgs=most, discard="new")
                result = await nc.jetstream().publish_batch("full.a", numbered(), max_inflight=WINDOW, timeout=30)
                failed = {error.row: error.error for error in result.errors}
                unclear = [row for row, error in failed.items() if isinstance(error, PublishUnconfirmedError)]
                await admin.jetstream().delete_stream("FULL")
                if unclear:
                    break
            await nc.flush()
    assert 0 < len(unclear) <= MOST_SHARED
    refused = set(failed) - set(unclear)
    assert refused == set(range(max(unclear) + 1, ROWS))
    assert result.seqs.to_pylist()[: most - MOST_SHARED] == list(range(1, most - MOST_SHARED + 1))
    # One refusal is enough for a group, of up to 32 acks; a machine that stands still may make a group wait, and ask.
    assert told
    assert len(told) <= 3
    assert all("STREAM.MSG.GET" in str(error) for error in told)


async def test_futures_of_a_stream_that_fills(js: JetStreamContext, stream: str) -> None:
    most = 25_007
    await js.update_stream((await js.stream_info(stream)).config.evolve(max_msgs=most, discard="new"))
    futures = [await js.publish_async(f"{stream}.a", row, wait_stall=30) for row in numbered()]
    acks = await asyncio.gather(*futures, return_exceptions=True)
    assert [getattr(ack, "seq", None) for ack in acks] == [*range(1, most + 1), *[None] * (ROWS - most)]
    assert {getattr(ack, "err_code", None) for ack in acks[most:]} == {10077}
